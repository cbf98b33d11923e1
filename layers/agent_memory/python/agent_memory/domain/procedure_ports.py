"""What the rules of procedures need from the world. aws/procedures.py fulfils it."""

from collections.abc import Sequence
from typing import Literal, Protocol

from agent_memory.domain.models import Model
from agent_memory.domain.ports import Read
from agent_memory.domain.procedures import Procedure, ProcedureState, ProcedureView, ProposalEvidence, Wording

ProposalWritten = Literal["written", "conflict", "duplicate", "erased"]
"""conflict: somebody else proposed or decided; read it again. duplicate: this run has proposed."""
ResultWritten = Literal["recorded", "duplicate", "moved", "erased"]
"""duplicate: this run was counted. moved: the procedure is in another state or has other steps; read it again."""


class TaskProcedures(Model):
    """All procedures of a task type, in whatever state, as of *version* of its head."""

    task_type: str
    version: int = 0
    procedures: tuple[Procedure, ...] = ()


class ProposalWrite(Model):
    """One transaction: the procedure as it is afterwards, and the run that proposes it.

    *opens*: it is new. *ended_at*: of the run, which an erasure may be newer than. *expires_at*: of the row that lets
    a run propose once."""

    seen: TaskProcedures
    procedure: Procedure
    evidence: ProposalEvidence
    opens: bool
    ended_at: int
    expires_at: int


class RunResult(Model):
    """What one run did with the procedures that it knew of.

    *applied*: the procedure that it followed, as it was read; *passed_over*: those that its memory context showed
    and that it did not follow. *expires_at*: of the row that lets it count once."""

    agent_id: str
    run_id: str
    ended_at: int
    expires_at: int
    user_ref: str | None = None
    applied: Procedure | None = None
    succeeded: bool = False
    passed_over: tuple[Procedure, ...] = ()


class Procedures(Protocol):
    """The procedures of ONE tenant. A key of another tenant raises CrossTenantError."""

    def of_task_type(self, task_type: str) -> TaskProcedures:
        """Every procedure of a task type, read consistently. An unreadable one raises AgentMemoryError."""

    def propose(self, change: ProposalWrite) -> ProposalWritten:
        """Write *change* if the task type is still as it was seen, the run has proposed nothing yet, and no tombstone
        is newer than it."""

    def proposal_of(self, agent_id: str, run_id: str) -> Procedure | None:
        """The procedure that a run proposed, as it is now; None when it proposed none, or it is gone."""

    def get(self, task_type: str, procedure_id: str) -> Procedure | None:
        """One procedure, read consistently."""

    def find(self, procedure_id: str) -> Procedure | None:
        """One procedure by its id alone, read consistently once the index knows it."""

    def proposed_by(self, procedure: Procedure) -> list[ProposalEvidence]:
        """The runs that proposed it, oldest first, every page."""

    def in_state(self, state: ProcedureState) -> Read[Procedure]:
        """Every procedure of the tenant in *state*, longest unused first, read consistently."""

    def offered(self, task_type: str | None = None) -> Read[Procedure]:
        """Every approved or established procedure of the tenant (of *task_type*), read consistently. Whether it may
        be shown is `injectable`'s word."""

    def views(self) -> Read[ProcedureView]:
        """What `offered` holds for the whole tenant, as far as a comparison with a task needs it."""

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Procedure]:
        """The procedures of these (task_type, procedure_id), read consistently, without those that are gone."""

    def save(self, procedure: Procedure, *, former: Wording | None = None) -> bool:
        """Write a transition of what was read, with the words that it replaces. False when anything else was written
        since: read it and decide anew."""

    def wordings(self, procedure: Procedure) -> list[Wording]:
        """The words that it had before, oldest first, every page."""

    def record(self, result: RunResult) -> ResultWritten:
        """Count a run once: applied and succeeded, or passed over, and the row that says so, in one transaction."""
