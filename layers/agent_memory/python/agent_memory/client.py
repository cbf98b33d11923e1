"""What an agent calls: one call before a run, one after it. Memory never breaks a run.

from agent_memory.client import AgentMemory

memory = AgentMemory("acme", "support-desk", environment="prod")
recalled = memory.recall("Release parcel 4711 from customs")
system_prompt = base_prompt + recalled.context
...
memory.end_run("run-1", messages=messages, outcome="COMPLETED", recall=recalled)
"""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from agent_memory.contract import RUN_ENDED, SCHEMA_VERSION
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError
from agent_memory.domain.keys import identifier, label, tenant_identifier, user_identity
from agent_memory.domain.models import Model, Outcome
from agent_memory.domain.outgoing import about, as_json, feedback, messages_of, zoned

__all__ = ["AgentMemory", "Degraded", "Handover", "Recall", "RecalledItem", "hand_over"]

# A put of events must stay under 1 MB in all; the accepted event travels through SQS as well.
INLINE_BYTES = 200_000
DETAIL_BYTES = 900_000


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
    """One part of a recall that gave nothing, and why. *tier* is `all` when not even the function answered.

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
    the named domain holds nothing while others do.

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


class Handover(Model):
    """How handing over a finished run went. *sent* False: the run is not in memory, *reason* says why.

    *transcript_uri* is set when the transcript was too large for an event and was uploaded.

    Example: `if not memory.end_run("run-1", messages=messages).sent: keep_for_later(messages)`
    """

    run_id: str
    sent: bool
    event_id: str | None = None
    transcript_uri: str | None = None
    reason: str | None = None


class AgentMemory:
    """Memory of one agent of one tenant.

    AWS trouble never raises into the agent's run unless *strict*: a recall then comes back empty with its reasons
    in `degraded`, a handover with `sent=False` and a RuntimeWarning. Input that breaks a rule always raises
    RefusedInputError, which names the field: that is a mistake in the calling program.

    Example: `memory = AgentMemory("acme", "support-desk", environment="prod")`
    """

    def __init__(
        self,
        tenant_id: str,
        agent_id: str,
        environment: str = "dev",
        *,
        strict: bool = False,
        timeout_seconds: float = 10.0,
        deployment: Deployment | None = None,
    ) -> None:
        self.tenant_id = tenant_identifier(tenant_id)
        self.agent_id = identifier(agent_id, "agent_id")
        self.strict = strict
        self._deployment = deployment or Deployment(environment, timeout_seconds=timeout_seconds)

    def recall(
        self,
        task: str,
        *,
        task_type: str | None = None,
        domain: str | None = None,
        user_id: str | None = None,
        tiers: Sequence[str] | None = None,
        max_episodes: int | None = None,
        max_facts: int | None = None,
        max_context_tokens: int | None = None,
        budget_ms: int | None = None,
        run_id: str | None = None,
        explain: bool = False,
    ) -> Recall:
        """Return what earlier runs learnt about *task*. Call it once per run, before the first model step.

        With a *task_type* the procedure of that type is looked up. *run_id*: whether a procedure on trial is tried then
        depends on the run alone, however often it asks.

        Example: `recalled = memory.recall("Release parcel 4711 from customs", task_type="customs")`
        """
        if not isinstance(task, str) or not task.strip():
            raise RefusedInputError("task", "must be text that is not blank")
        question = {
            "tenant_id": self.tenant_id,
            "agent_id": self.agent_id,
            "task": as_json(task),
            "task_type": None if task_type is None else label(task_type, "task_type"),
            "domain": None if domain is None else label(domain, "domain"),
            "user_id": user_identity(user_id),
            "tiers": None if tiers is None else list(tiers),
            "max_episodes": max_episodes,
            "max_facts": max_facts,
            "max_context_tokens": max_context_tokens,
            "budget_ms": budget_ms,
            "run_id": None if run_id is None else identifier(run_id, "run_id"),
            "explain": explain or None,
        }
        return self._asked({name: value for name, value in question.items() if value is not None})

    def _asked(self, question: Mapping[str, object]) -> Recall:
        try:
            return _recall_from(self._deployment.bootstrap.ask(question))
        except AgentMemoryError as error:
            if self.strict or isinstance(error, RefusedInputError):
                raise
            return _unanswered(str(error))

    def end_run(
        self,
        run_id: str,
        *,
        messages: Iterable[object],
        outcome: Outcome | str | None = None,
        task: str | None = None,
        task_type: str | None = None,
        domain: str | None = None,
        user_id: str | None = None,
        recall: Recall | None = None,
        context_id: str | None = None,
        used: Sequence[str] = (),
        artifacts: Mapping[str, object] | None = None,
        ended_at: datetime | str | None = None,
    ) -> Handover:
        """Hand over a finished run. Messages may be plain dicts or LangChain messages; the same run handed over
        twice counts once. *recall* (or its *context_id*) with the ids that were *used* reports what helped.

        Example: `memory.end_run("run-1", messages=state["messages"], outcome="COMPLETED", recall=recalled)`
        """
        detail = {
            "schema_version": SCHEMA_VERSION,
            "tenant_id": self.tenant_id,
            "agent_id": self.agent_id,
            "run_id": identifier(run_id, "run_id"),
            "ended_at": zoned(ended_at if ended_at is not None else datetime.now(UTC)),
            "transcript": {"messages": messages_of(messages)},
            "memory": feedback(context_id or (recall.context_id if recall else None), used),
            "artifacts": artifacts,
            **about(task=task, task_type=task_type, domain=domain, user_id=user_id, outcome=outcome),
        }
        return self._handed_over(run_id, {name: value for name, value in detail.items() if value is not None})

    def _handed_over(self, run_id: str, detail: Mapping[str, object]) -> Handover:
        try:
            return hand_over(self._deployment, detail)
        except RefusedInputError:
            raise
        except AgentMemoryError as error:
            if self.strict:
                raise
            warnings.warn(f"run {run_id} was not handed over to memory: {error}", RuntimeWarning, stacklevel=3)
            return Handover(run_id=run_id, sent=False, reason=str(error))


def hand_over(deployment: Deployment, detail: Mapping[str, object]) -> Handover:
    """Put one run-ended detail (docs/events) on the bus; a transcript that is too large goes to S3 first.

    Example: `hand_over(Deployment("dev"), json.load(open("run.json")))`
    """
    tenant_id = tenant_identifier(detail.get("tenant_id"))
    agent_id = identifier(detail.get("agent_id"), "agent_id")
    run_id = identifier(detail.get("run_id"), "run_id")
    text = _text(detail)
    uri = None
    if len(text.encode()) > INLINE_BYTES:
        transcript = detail.get("transcript")
        if isinstance(transcript, Mapping) and "messages" in transcript:
            uri = deployment.uploads(tenant_id).put(agent_id, run_id, _text(transcript))
            text = _text({**detail, "transcript": {"s3_uri": uri}})
    if len(text.encode()) > DETAIL_BYTES:
        raise RefusedInputError("detail", f"must be at most {DETAIL_BYTES} bytes beside its transcript")
    event_id = deployment.events(tenant_id).put(RUN_ENDED, text)
    return Handover(run_id=run_id, sent=True, event_id=event_id, transcript_uri=uri)


def _text(value: object) -> str:
    return json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _recall_from(answer: Mapping[str, object]) -> Recall:
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
            }
        )
    except (ValueError, TypeError, AttributeError):
        return _unanswered("the bootstrap function answered in a shape that this package does not know")


def _unanswered(reason: str) -> Recall:
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
