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
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agent_memory.client_answers import (
    Degraded,
    Handover,
    Recall,
    RecalledItem,
    as_asked,
    context_of,
    reason_told,
    recall_from,
    unanswered,
)
from agent_memory.client_handover import as_text, hand_over
from agent_memory.client_reads import ReportedReads, reads_detail, send_reads
from agent_memory.contract import SCHEMA_VERSION
from agent_memory.deployment import Deployment
from agent_memory.domain.deadlines import patience, within
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, label, tenant_identifier, user_identity
from agent_memory.domain.models import Outcome
from agent_memory.domain.outgoing import about, as_json, feedback, messages_of, result_of, with_facts, zoned
from agent_memory.spool import Spool, SpoolFullError, spool_of

__all__ = ["AgentMemory", "Degraded", "Handover", "Recall", "RecalledItem", "ReportedReads", "hand_over"]

# A handover may have to upload, and tries again by itself.
HANDOVER_PATIENCE = 3
# How many runs that could not be sent before go along with one that could.
SENT_ALONG = 3

Unsent = Callable[[Mapping[str, object], str], object]


class AgentMemory:
    """Memory of one agent of one tenant.

    AWS trouble never raises into the agent's run unless *strict*: a recall then comes back empty with its reasons
    in `degraded`, a handover with `sent=False`, both with a RuntimeWarning. Input that breaks a rule always raises
    RefusedInputError, which names the field: that is a mistake in the calling program. A recall is given up after
    *timeout_seconds*, a handover after three times that.

    *spool*: a folder (or True for the default one) that keeps runs that could not be handed over, as they are, until
    a later handover succeeds or `agent-memory spool send`. *on_unsent*: called with the detail and the reason of a run
    that could be neither sent nor spooled.

    Example: `memory = AgentMemory("acme", "support-desk", environment="prod", spool=True)`
    """

    def __init__(
        self,
        tenant_id: str,
        agent_id: str,
        environment: str = "dev",
        *,
        strict: bool = False,
        timeout_seconds: float = 10.0,
        spool: Spool | Path | str | bool | None = None,
        on_unsent: Unsent | None = None,
        deployment: Deployment | None = None,
    ) -> None:
        self.tenant_id = tenant_identifier(tenant_id)
        self.agent_id = identifier(agent_id, "agent_id")
        self.strict = strict
        self._deployment = deployment or Deployment(environment, timeout_seconds=timeout_seconds)
        self._timeout_seconds = patience(self._deployment.timeout_seconds, "timeout_seconds")
        self._spool = spool_of(spool, self._deployment.environment)
        if on_unsent is not None and not callable(on_unsent):
            raise RefusedInputError("on_unsent", "must be a function of the detail and the reason")
        self._on_unsent = on_unsent

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
        context_id: str | None = None,
    ) -> Recall:
        """Return what earlier runs learnt about *task*. Call it once per run, before the first model step.
        *context_id*: what `prefetch` returned for this task; it is picked up, or the task asked anew if it is gone.

        With a *task_type* the procedure of that type is looked up. *run_id*: whether a procedure on trial is tried then
        depends on the run alone, however often it asks.

        Example: `recalled = memory.recall("Release parcel 4711 from customs", task_type="customs")`
        """
        limits = (tiers, max_episodes, max_facts, max_context_tokens, budget_ms)
        question = self._question(task, task_type, domain, user_id, *limits)
        question |= {"explain": True} if explain else {}
        question |= {"context_id": identifier(context_id, "context_id")} if context_id is not None else {}
        question |= {"run_id": identifier(run_id, "run_id")} if run_id is not None else {}
        try:
            found = recall_from(self._asked(question))
        except RefusedInputError:
            raise
        except Exception as error:
            self._noted(error, "memory was not recalled")
            found = unanswered(reason_told(error))
        return found.model_copy(update={"task": task, "task_type": task_type, "domain": domain})

    def prefetch(
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
    ) -> str | None:
        """Recall for a run that is queued, and return the id to pick it up by; None when that is not possible now.
        Give the same task, user and limits to the `recall` that picks it up: what was asked otherwise is asked anew.

        Example: `queue.send({"task": task, "context_id": memory.prefetch(task)})`
        """
        limits = (tiers, max_episodes, max_facts, max_context_tokens, budget_ms)
        question = self._question(task, task_type, domain, user_id, *limits)
        try:
            kept = self._asked({**question, "prefetch": True})
        except RefusedInputError:
            raise
        except Exception as error:
            self._noted(error, "memory was not prefetched")
            return None
        return str(kept["context_id"]) if kept.get("prefetched") is True else None

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
        facts: Sequence[Mapping[str, object]] = (),
        procedure_id: str | None = None,
        procedure_succeeded: bool | None = None,
        ended_at: datetime | str | None = None,
    ) -> Handover:
        """Hand over a finished run. Messages may be plain dicts or LangChain messages; the same run handed over
        twice counts once. *recall* (or its *context_id*) with the ids that were *used* reports what helped; *task*,
        *task_type* and *domain* are that recall's unless given. *procedure_id* with *procedure_succeeded*: how a
        procedure did. *facts*: what the agent itself wants remembered, each {content, evidence, confidence, scope}.

        Example: `memory.end_run("run-1", messages=state["messages"], outcome="COMPLETED", recall=recalled)`
        """
        said = as_asked(recall, task=task, task_type=task_type, domain=domain)
        detail = {
            "schema_version": SCHEMA_VERSION,
            "tenant_id": self.tenant_id,
            "agent_id": self.agent_id,
            "run_id": identifier(run_id, "run_id"),
            "ended_at": zoned(ended_at if ended_at is not None else datetime.now(UTC)),
            "transcript": {"messages": messages_of(messages)},
            "memory": feedback(context_id or context_of(recall), used),
            "artifacts": with_facts(artifacts, facts),
            "procedure": result_of(procedure_id, procedure_succeeded),
            **about(**said, user_id=user_id, outcome=outcome),
        }
        return self._handed_over(run_id, {name: value for name, value in detail.items() if value is not None})

    def report_reads(
        self,
        memory_id: str,
        record_ids: Sequence[str],
        *,
        used: Sequence[str] = (),
        context_id: str | None = None,
        read_at: datetime | str | None = None,
    ) -> ReportedReads:
        """Say which records of an AgentCore memory a search of yours returned, and which of them were *used*: no log of
        AWS tells that, and what nobody is known to read fades. Each record counts once for each *context_id* (a run, a
        turn; made up when you give none), so the same report again, or late by less than a week, does no harm.

        Example: `memory.report_reads("harbour-Abc1234567", [one["memoryRecordId"] for one in found])`
        """
        who = (self.tenant_id, self.agent_id)
        detail = reads_detail(*who, memory_id, record_ids, used=used, context_id=context_id, read_at=read_at)
        try:
            return within(self._timeout_seconds, lambda: send_reads(self._deployment, detail))
        except Exception as error:
            self._noted(error, "reads were not reported")
            return ReportedReads(context_id=str(detail["context_id"]), sent=False, reason=reason_told(error))

    def working_memory_rules(self) -> Mapping[str, int]:
        """The thresholds of working memory that the deployment recommends (trigger, keep, ceiling); none when it can't
        be asked now.

        Example: `WorkingMemory(summariser, **memory.working_memory_rules())`
        """
        try:
            return within(self._timeout_seconds, self._deployment.working_memory)
        except Exception:  # what a run may do without is no reason to warn: the recall says that memory is away
            return {}

    def _question(
        self,
        task: object,
        task_type: str | None,
        domain: str | None,
        user_id: str | None,
        tiers: Sequence[str] | None,
        *limits: int | None,
    ) -> dict[str, object]:
        if not isinstance(task, str) or not task.strip():
            raise RefusedInputError("task", "must be text that is not blank")
        question = {
            "tenant_id": self.tenant_id,
            "agent_id": self.agent_id,
            "task": as_json(task),
            "task_type": None if task_type is None else label(task_type, "task_type"),
            "domain": None if domain is None else label(domain, "domain"),
            "user_id": user_identity(user_id),
            "tiers": None if tiers is None else as_json(tiers),
            **dict(zip(("max_episodes", "max_facts", "max_context_tokens", "budget_ms"), limits, strict=True)),
        }
        return {name: value for name, value in question.items() if value is not None}

    def _asked(self, question: Mapping[str, object]) -> Mapping[str, object]:
        return within(self._timeout_seconds, lambda: self._deployment.bootstrap.ask(question))

    def _noted(self, error: Exception, what: str, reason: str | None = None, level: int = 3) -> None:
        """Warn the agent's own line that the run goes on without memory; raise instead when *strict*."""
        if self.strict:
            raise error
        warnings.warn(f"{what}: {reason or reason_told(error)}", RuntimeWarning, stacklevel=level)

    def _handed_over(self, run_id: str, detail: Mapping[str, object]) -> Handover:
        try:
            done = within(self._timeout_seconds * HANDOVER_PATIENCE, lambda: hand_over(self._deployment, detail))
        except RefusedInputError:
            raise
        except Exception as error:
            return self._kept(run_id, detail, error)
        self._send_along()
        return done

    def _kept(self, run_id: str, detail: Mapping[str, object], error: Exception) -> Handover:
        """What becomes of a run that could not be sent: the spool, else the callback, and always a warning."""
        reason, spooled = reason_told(error), False
        if self._spool is not None:
            try:
                self._spool.keep(json.loads(as_text(detail)))
                spooled = True
            except (SpoolFullError, OSError) as full:
                reason += f"; it could not be spooled either: {full}"
        if not spooled and self._on_unsent is not None:
            try:
                self._on_unsent(detail, reason)
            except Exception as failed:  # the callback is not ours, and the run goes on
                reason += f"; the callback on_unsent failed as well ({type(failed).__name__})"
        where = "; it waits in the spool and is sent later" if spooled else ""
        self._noted(error, f"run {run_id} was not handed over to memory", reason + where, level=5)
        return Handover(run_id=run_id, sent=False, spooled=spooled, reason=reason)

    def _send_along(self) -> None:
        """A handover worked, so runs that wait may go as well; whatever happens to them, they are not this run's."""
        if self._spool is None:
            return
        spool, deployment = self._spool, self._deployment
        try:
            report = within(
                self._timeout_seconds * HANDOVER_PATIENCE,
                lambda: spool.send(self.tenant_id, lambda detail: hand_over(deployment, detail), limit=SENT_ALONG),
            )
        except Exception as error:
            warnings.warn(f"spooled runs were not sent: {reason_told(error)}", RuntimeWarning, stacklevel=4)
            return
        if notice := report.notice(self.tenant_id):
            warnings.warn(notice, RuntimeWarning, stacklevel=4)
