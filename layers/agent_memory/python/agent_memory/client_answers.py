"""What the client gives back: models of its answers, and the reading of the bootstrap function's."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from agent_memory.domain.deadlines import reason_of
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError
from agent_memory.domain.models import Model


class RecalledItem(Model):
    """One memory that a recall returned. *score* ranks it among the others of this recall.

    Example: `[item.id for item in recalled.items if item.tier == "episodic"]`
    """

    id: str
    tier: str
    text: str
    score: float
    provenance: Mapping[str, object]


class Degraded(Model):
    """One part of a recall that gave nothing, and why. *tier* is `all` when not even the function answered. *reason*
    begins with the word for it: `denied`, `throttled`, `timeout` (slow), `unreachable`, ...

    Example: `if any(one.tier == "episodic" for one in recalled.degraded): metrics.increment("no memory")`
    """

    tier: str
    reason: str

    def __str__(self) -> str:
        return f"{self.tier}: {self.reason}"


class Recall(Model):
    """What memory has to say about a task. *context* goes into the system prompt; it is "" when there is nothing.

    *degraded* names what could not be read in time or at all, so that "no memory" and "no answer" stay apart.
    *nothing_relevant*: everything was read and nothing fits, which is a good answer. *dropped*: memories that fit the
    task but not the token budget. *notes*: what could be misread, for one that
    the named domain holds nothing while others do. *prefetched*: it was found before the run started. *task*,
    *task_type* and *domain* are those that were asked; `end_run` takes them over. No dump or repr holds them.

    Example: `prompt = base_prompt + recalled.context`
    """

    context: str = ""
    items: tuple[RecalledItem, ...] = ()
    context_id: str | None = None
    degraded: tuple[Degraded, ...] = ()
    nothing_relevant: bool = False
    dropped: int = 0
    notes: tuple[Mapping[str, object], ...] = ()
    timings: Mapping[str, object] = {}
    explanation: tuple[Mapping[str, object], ...] = ()
    prefetched: bool = False
    task: str | None = Field(default=None, exclude=True, repr=False)
    task_type: str | None = Field(default=None, exclude=True, repr=False)
    domain: str | None = Field(default=None, exclude=True, repr=False)

    @property
    def procedure_id(self) -> str | None:
        """The procedure among the items; there is one at most.

        Example: `memory.end_run("run-1", messages=messages, procedure_id=recalled.procedure_id, ...)`
        """
        return next((item.id for item in self.items if item.tier == "procedural"), None)


class Handover(Model):
    """How handing over a finished run went. *sent* False: the run is not in memory, *reason* says why.

    *transcript_uri* is set when the transcript was too large for an event and was uploaded. *spooled*: the run waits
    on this machine's disk and is sent later.

    Example: `if not memory.end_run("run-1", messages=messages).sent: keep_for_later(messages)`
    """

    run_id: str
    sent: bool
    event_id: str | None = None
    transcript_uri: str | None = None
    reason: str | None = None
    spooled: bool = False


def context_of(recall: Recall | None) -> str | None:
    """The id of what a recall returned. Raises RefusedInputError."""
    if recall is not None and not isinstance(recall, Recall):
        raise RefusedInputError("recall", "must be what `recall` returned; an id goes in context_id")
    return recall.context_id if recall else None


def as_asked(recall: Recall | None, **said: str | None) -> dict[str, str | None]:
    """What is *said* of a run, and where nothing is, what its recall was asked with."""
    return {name: getattr(recall, name, None) if value is None else value for name, value in said.items()}


def recall_from(answer: Mapping[str, object]) -> Recall:
    """Read the function's answer. What says how it went may have any shape: that never costs a run its memories."""
    dropped = answer.get("dropped")
    try:
        return Recall.model_validate(
            {
                "context": answer.get("context") or "",
                "items": [{k: item.get(k) for k in RecalledItem.model_fields} for item in _list(answer.get("items"))],
                "context_id": answer.get("context_id"),
                "degraded": [_degraded(one) for one in _listed(answer.get("degraded"))],
                "nothing_relevant": answer.get("nothing_relevant") is True,
                "dropped": dropped if isinstance(dropped, int) else 0,
                "notes": _mappings(answer.get("notes")),
                "timings": next(iter(_mappings(answer.get("timings"))), {}),
                "explanation": _mappings(answer.get("explain")),
                "prefetched": answer.get("prefetched") is True,
            }
        )
    except (ValueError, TypeError, AttributeError):
        return unanswered("the bootstrap function answered in a shape that this package does not know")


def unanswered(reason: str) -> Recall:
    """The recall of a run that memory said nothing to."""
    return Recall(degraded=(Degraded(tier="all", reason=reason),))


def _degraded(one: object) -> Degraded:
    if isinstance(one, Mapping):
        return Degraded(tier=str(one.get("tier", "unknown")), reason=str(one.get("reason", "unknown")))
    return Degraded(tier="unknown", reason=str(one))


def _listed(value: object) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    return [value] if value else []


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [one for one in _listed(value) if isinstance(one, Mapping)]


def _list(value: object) -> list[Mapping[str, object]]:
    if value and not isinstance(value, list):
        raise TypeError("not a list")
    return value if isinstance(value, list) else []


def reason_told(error: Exception) -> str:
    """Ours say what happened and what to do, behind the word for it where there is one; of others the kind alone,
    because their words may quote content."""
    if not isinstance(error, AgentMemoryError):
        return f"unexpected {type(error).__name__}"
    word = reason_of(error)
    return str(error) if word == "error" else f"{word}: {error}"
