"""Whose a namespace of an AgentCore memory is, and whose an actor: by the ids of actors that stand in namespaces.

A namespace is a path, and which of its parts is an actor's id nobody says. A person may be called as a part that is a
word of the layout (`actors`), and would take everybody along. So a part counts as a word where others' ids stand below
it and the configuration spells it out; where only one of both is so, nobody can tell, and nothing is removed. Ids may
hold the delimiter: what is the beginning or the end of another's id is no word of the person's alone either.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from agent_memory.domain.agentcore import DELIMITER, AgentCoreMemory

# Actor ids may hold the delimiter; longer ones than this are not looked for in namespaces.
LONGEST = 8
Theirs = Callable[[str], bool]
"""Whether an actor id is the person's."""


class Whose(StrEnum):
    """*contested*: it may be the person's or another's; a person has to look."""

    THEIRS = "theirs"
    OTHERS = "others"
    CONTESTED = "contested"


def everybody(actor_id: str) -> bool:
    """Of a whole tenant, every actor goes."""
    return True


def spans(namespace: str) -> Iterator[tuple[str, int, int]]:
    """Every part of *namespace*, and several in a row, that may be an id, with the numbers of its first part and of
    the one after its last."""
    parts = _parts(namespace)
    for begin in range(len(parts)):
        for end in range(begin + 1, min(begin + LONGEST, len(parts)) + 1):
            yield DELIMITER.join(parts[begin:end]), begin, end


def path_to(namespace: str, end: int) -> str:
    """The first *end* parts of *namespace*, as a prefix."""
    return "".join(f"{DELIMITER}{part}" for part in _parts(namespace)[:end]) + DELIMITER


def ids_in(namespaces: Iterable[str]) -> frozenset[str]:
    """Everything in *namespaces* that may be an id."""
    return frozenset(one for namespace in set(namespaces) for one, _, _ in spans(namespace))


class Namespaces:
    """The namespaces of one entry of agentcoreMemories. *actors*: all whom the memory knows."""

    def __init__(
        self, memory: AgentCoreMemory, theirs: Theirs, *, namespaces: Iterable[str], actors: Iterable[str]
    ) -> None:
        self._memory, self._theirs = memory, theirs
        self._known: dict[str, Whose] = {}
        others = self._others = frozenset(one for one in actors if not theirs(one))
        self._above_others = frozenset(
            path_to(namespace, upto)
            for namespace in set(namespaces)
            for one, begin, _ in spans(namespace)
            if one in others
            for upto in range(1, begin + 1)
        )

    def whose(self, namespace: str) -> Whose:
        """Whose a record of *namespace* is."""
        if namespace not in self._known:
            self._known[namespace] = Whose.THEIRS if self._theirs is everybody else self._looked_at(namespace)
        return self._known[namespace]

    def _looked_at(self, namespace: str) -> Whose:
        found = Whose.OTHERS
        longer = [(begin, end) for one, begin, end in spans(namespace) if one in self._others]
        for one, begin, end in spans(namespace):
            if not self._theirs(one):
                continue
            if any(first <= begin and end <= last for first, last in longer):
                found = Whose.CONTESTED
                continue
            path = path_to(namespace, end)
            spelled_out = any(prefix.startswith(path) for prefix in self._memory.namespaces)
            if not spelled_out and path not in self._above_others:
                return Whose.THEIRS
            if spelled_out != (path in self._above_others):
                found = Whose.CONTESTED
        return found


class Actors:
    """Who of a memory's actors goes. *inside*, *outside*: ids in the entry's namespaces and in those that other entries
    have of the memory. *shared*: there are such entries.

    Events know no namespace: those of an actor who is in another's namespaces as well may be the other's."""

    def __init__(
        self,
        theirs: Theirs,
        *,
        inside: Callable[[], frozenset[str]],
        outside: Callable[[], frozenset[str]],
        shared: bool,
    ) -> None:
        self._theirs, self._inside, self._outside, self._shared = theirs, inside, outside, shared

    def whose(self, actor_id: str) -> Whose:
        """Whose the events of an actor are."""
        if not self._theirs(actor_id):
            return Whose.OTHERS
        outside = self._outside()
        if actor_id not in outside and (actor_id in self._inside() or not (self._shared or outside)):
            return Whose.THEIRS
        if self._theirs is everybody and actor_id not in self._inside():
            return Whose.OTHERS
        return Whose.CONTESTED


def _parts(namespace: str) -> list[str]:
    """What stands between delimiters, the one that opens and the one that closes left out: `oidc://quay` is an id."""
    return namespace.removeprefix(DELIMITER).removesuffix(DELIMITER).split(DELIMITER)
