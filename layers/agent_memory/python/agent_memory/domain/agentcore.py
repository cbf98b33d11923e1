"""Memories of Amazon Bedrock AgentCore as a deployment names them: which namespaces, and how long each kind is kept.

A namespace is whose a record is (a tenant, an agent, a user), and the only thing that keeps actors apart there: records
of two namespaces never become one. What we call an agent is here a namespace, named by a hash because it holds the id
of an actor, which may be a person.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from agent_memory.domain.errors import ConfigurationError, RefusedInputError
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import tenant_identifier
from agent_memory.domain.models import Model

RecordType = Literal["episodic", "semantic", "preferences", "summaries", "reflections"]
MEMORY_ID: Final = r"^[a-zA-Z][a-zA-Z0-9-_]{0,99}-[a-zA-Z0-9]{10}$"
MAX_NAMESPACE: Final = 1024
MAX_TEXT: Final = 16_000
DELIMITER: Final = "/"
_NAMESPACE = re.compile(r"[a-zA-Z0-9/][a-zA-Z0-9_/-]*(?::[a-zA-Z0-9_/-]+)*[a-zA-Z0-9_/-]*")
_STRATEGY = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}")
# Days, where an entry names none: what holds beyond one run is kept as long as our own facts, the rest as episodes.
KEPT_DAYS: Final[Mapping[str, int]] = {
    "episodic": 90,
    "semantic": 270,
    "preferences": 270,
    "summaries": 45,
    "reflections": 270,
}
OTHERS_DAYS: Final = 90
# CDK makes the stack of the last memory no more and deletes none.
NO_MEMORY: Final = (
    "{0!r} names no memory of AgentCore: deploy it with -c agentcoreMemories=... If it named one before, its stack and "
    "its nights go on until `cdk destroy agent-memory-{0}-agentcore` (docs/agentcore.md)"
)
NAMESPACE_RULE: Final = "must begin with /, end in /, and hold no * (a prefix without its / also finds its neighbours)"


class AgentCoreMemory(Model):
    """One entry of the setting agentcoreMemories.

    *tenant_id*: under which it is planned, held, restored and reported; its memory id unless one is given.
    *namespaces*: prefixes, each ending in `/`. *strategies*: which type of records a strategy writes.
    *retention*: days by strategy id or by type; the strategy wins. *region*: where the memory is, if elsewhere.
    """

    memory_id: str = Field(pattern=MEMORY_ID)
    tenant_id: str = ""
    namespaces: tuple[str, ...] = Field(min_length=1, max_length=100)
    strategies: Mapping[str, RecordType] = {}
    retention: Mapping[str, int] = {}
    region: str = Field(default="", pattern=r"^([a-z]{2}(-[a-z]+)+-\d)?$")

    @field_validator("namespaces")
    @classmethod
    def _end_in_a_delimiter(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for namespace in value:
            if not is_prefix(namespace):
                raise ValueError(NAMESPACE_RULE)
        if overlapping(value):
            raise ValueError("must not lie inside each other: a record would be counted twice")
        return value

    @field_validator("strategies", "retention")
    @classmethod
    def _named(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if any(not _STRATEGY.fullmatch(name) for name in value):
            raise ValueError("must name strategies by their ids")
        return value

    @model_validator(mode="after")
    def _kept_for_days(self) -> "AgentCoreMemory":
        for name, days in self.retention.items():
            if not 1 <= days <= 3650:
                raise ValueError(f"retention of {name} must be 1 to 3650 days")
        if self.tenant_id:
            try:
                tenant_identifier(self.tenant_id)
            except RefusedInputError as refused:
                raise ValueError(str(refused)) from None
        return self

    @property
    def name(self) -> str:
        """The tenant that it is planned and reported under."""
        return self.tenant_id or self.memory_id

    def days_of(self, strategy_id: str) -> int:
        """How many days a record of a strategy is kept."""
        kind = self.strategies.get(strategy_id)
        if strategy_id in self.retention:
            return self.retention[strategy_id]
        if kind is None:
            return OTHERS_DAYS
        return self.retention.get(kind, KEPT_DAYS[kind])

    @property
    def days_by_strategy(self) -> Mapping[str, int]:
        """Days of every strategy that the entry names."""
        return {one: self.days_of(one) for one in {*self.strategies, *self.retention} - {*KEPT_DAYS}}

    @property
    def longest_days(self) -> int:
        """What is older than this is past its retention, whichever strategy wrote it."""
        return max((*self.days_by_strategy.values(), OTHERS_DAYS))

    def holds(self, namespace: str) -> bool:
        """Whether a record of *namespace* is this entry's, whatever a service's prefix search found."""
        return any(within(namespace, prefix) for prefix in self.namespaces)


def is_prefix(namespace: str) -> bool:
    """Whether *namespace* may be listed by: `/tenants/a` would also find `/tenants/ab`."""
    return (
        namespace.startswith(DELIMITER)
        and namespace.endswith(DELIMITER)
        and len(namespace) <= MAX_NAMESPACE
        and _NAMESPACE.fullmatch(namespace) is not None
    )


def within(namespace: str, prefix: str) -> bool:
    """Whether *namespace* is *prefix* or below it; a closing delimiter more or less is the same place."""
    return f"{namespace.rstrip(DELIMITER)}{DELIMITER}".startswith(prefix)


def overlapping(prefixes: Sequence[str]) -> bool:
    """Whether one of *prefixes* lies in another or stands there twice."""
    ordered = sorted(prefixes)
    return any(after.startswith(before) for before, after in pairwise(ordered))


def place_of(memory_id: str, namespace: str) -> str:
    """What stands for a namespace in plans, reports and logs: a- and 32 hex digits, free of the actor's id."""
    named = f"{memory_id}\n{namespace.rstrip(DELIMITER)}"
    return "a-" + hashlib.sha256(named.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def agentcore_memories(text: str) -> tuple[AgentCoreMemory, ...]:
    """The memories that a setting names, none for an empty one. Raises ConfigurationError saying entry and rule."""
    try:
        given = read_json(text or "[]")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, list):
        raise ConfigurationError("agentcoreMemories must be a JSON list of {memory_id, namespaces, ...}")
    found = tuple(_entry(number, one) for number, one in enumerate(given, 1))
    _apart(found)
    return found


def _entry(number: int, given: object) -> AgentCoreMemory:
    try:
        return AgentCoreMemory.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "entry"
        rule = str(first["msg"]).removeprefix("Value error, ")
        raise ConfigurationError(f"agentcoreMemories, entry {number}, {field}: {rule}") from None


def _apart(found: Iterable[AgentCoreMemory]) -> None:
    names: set[str] = set()
    spaces: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if one.name in names:
            raise ConfigurationError(f"agentcoreMemories: {one.name} stands there twice; each needs its own tenant_id")
        names.add(one.name)
        prefixes = spaces.setdefault((one.memory_id, one.region), [])
        prefixes += one.namespaces
        if overlapping(prefixes):
            raise ConfigurationError(f"agentcoreMemories: namespaces of {one.memory_id} lie inside each other")


def named(memories: Iterable[AgentCoreMemory], tenant_id: str) -> AgentCoreMemory:
    """The entry of a tenant. Raises ConfigurationError."""
    for one in memories:
        if one.name == tenant_id:
            return one
    raise ConfigurationError(f"agentcoreMemories names no entry {tenant_id}")
