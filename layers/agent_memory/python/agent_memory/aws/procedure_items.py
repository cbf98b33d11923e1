"""Rows of the procedures table: procedures, the runs that proposed them, heads of task types."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from agent_memory.aws.item_codec import Item, item
from agent_memory.contract import (
    PROCEDURE_KEY,
    PROCEDURES_PARTITION_KEY,
    PROCEDURES_SORT_KEY,
    REVIEW_KEY,
    SCHEMA_VERSION,
    USER_KEY,
)
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.keys import (
    SEPARATOR,
    procedure_key,
    proposal_entry,
    review_key,
    task_key,
    tenant_of,
    user_key,
    wording_entry,
)
from agent_memory.domain.procedures import Procedure, ProcedureState, ProcedureView, ProposalEvidence, Wording
from agent_memory.domain.vectors import pack, unpack

HEAD = "~head"
_VECTORS = ("task_vector", "vector")
_FIELDS = frozenset(Procedure.model_fields) - {"tenant_id", "task_type", "history", "approval", *_VECTORS}


class ProcedureItems:
    """The rows of one tenant."""

    def __init__(self, *, tenant_id: str) -> None:
        self._tenant_id = tenant_id

    def partition(self, task_type: str) -> str:
        if SEPARATOR in task_type:
            raise CrossTenantError("a task type that holds the separator reached the procedures table")
        return task_key(self._tenant_id, task_type)

    def key(self, task_type: str, entry: str) -> Item:
        return item({PROCEDURES_PARTITION_KEY: self.partition(task_type), PROCEDURES_SORT_KEY: entry})

    def row(self, procedure: Procedure) -> Item:
        """The row of *procedure*, its revision raised by one."""
        if procedure.tenant_id != self._tenant_id:
            raise CrossTenantError(f"a procedure of another tenant reached the procedures of {self._tenant_id}")
        return self.key(procedure.task_type, procedure.procedure_id) | item(
            {name: getattr(procedure, name) for name in _FIELDS}
            | {name: None if (held := getattr(procedure, name)) is None else pack(held) for name in _VECTORS}
            | {
                "approval": procedure.approval.model_dump() if procedure.approval else None,
                "history": [change.model_dump(exclude_none=True) for change in procedure.history],
                "steps_sha256": procedure.steps_sha256,
                "revision": procedure.revision + 1,
                PROCEDURE_KEY: procedure_key(self._tenant_id, procedure.procedure_id),
                REVIEW_KEY: review_key(self._tenant_id, procedure.state),
            }
        )

    def evidence(self, procedure: Procedure, evidence: ProposalEvidence) -> Item:
        """The row of a run that proposed *procedure*."""
        entry = proposal_entry(procedure.procedure_id, evidence.agent_id, evidence.run_id)
        user = user_key(self._tenant_id, evidence.user_ref) if evidence.user_ref else None
        held = evidence.model_dump() | {USER_KEY: user, "schema_version": SCHEMA_VERSION}
        return self.key(procedure.task_type, entry) | item(held)

    def wording(self, procedure: Procedure, wording: Wording) -> Item:
        """The row of words that *procedure* had before."""
        entry = wording_entry(procedure.procedure_id, wording.steps_sha256)
        return self.key(procedure.task_type, entry) | item(wording.model_dump() | {"schema_version": SCHEMA_VERSION})

    def read_all(self, rows: Iterable[Mapping[str, Any]]) -> list[Procedure]:
        """The procedures among the rows of a task type. An unreadable one raises: leaving it out would open it anew."""
        plain = (row for row in rows if is_procedure(row))
        return [self.required(row) for row in plain]

    def required(self, row: Mapping[str, Any]) -> Procedure:
        procedure = self.read(row)
        if procedure is None:
            raise UnreadableItemError(f"procedure {row.get(PROCEDURES_SORT_KEY)} can't be read")
        return procedure

    def read(self, row: Mapping[str, Any]) -> Procedure | None:
        """The procedure of one row; None when another release wrote what this one can't read."""
        task_type = self._task_type(row)
        held = {name: row[name] for name in (*_FIELDS, "approval", "history") if name in row}
        held |= {name: unpack(row[name]) for name in _VECTORS if isinstance(row.get(name), bytes)}
        try:
            return Procedure.model_validate({**held, "tenant_id": self._tenant_id, "task_type": task_type})
        except (ValidationError, ValueError):
            return None

    def view(self, row: Mapping[str, Any], state: ProcedureState) -> ProcedureView:
        """What review-index shows of a procedure in *state*. What can't be compared is shown without its vector."""
        task_type = self._task_type(row)
        vector, model = row.get("task_vector"), row.get("embedding_model")
        return ProcedureView(
            task_type=task_type,
            procedure_id=str(row[PROCEDURES_SORT_KEY]),
            state=state,
            task_vector=unpack(vector) if isinstance(vector, bytes) else None,
            embedding_model=model if isinstance(model, str) else None,
        )

    def _task_type(self, row: Mapping[str, Any]) -> str:
        partition = str(row.get(PROCEDURES_PARTITION_KEY, ""))
        if tenant_of(partition) != self._tenant_id:
            raise CrossTenantError(f"a procedure of another tenant came back to {self._tenant_id}")
        return partition.split(SEPARATOR, 1)[1]


def is_procedure(row: Mapping[str, Any]) -> bool:
    """Whether a row is a procedure, and not a head or a run's proposal."""
    entry = str(row.get(PROCEDURES_SORT_KEY, ""))
    return entry != HEAD and SEPARATOR not in entry


def read_evidence(row: Mapping[str, Any]) -> ProposalEvidence:
    held = {name: row[name] for name in ProposalEvidence.model_fields if name in row}
    try:
        return ProposalEvidence.model_validate(held)
    except ValidationError:
        raise UnreadableItemError(f"proposal {row.get(PROCEDURES_SORT_KEY)} can't be read") from None


def read_wording(row: Mapping[str, Any]) -> Wording:
    held = {name: row[name] for name in Wording.model_fields if name in row}
    try:
        return Wording.model_validate(held)
    except ValidationError:
        raise UnreadableItemError(f"wording {row.get(PROCEDURES_SORT_KEY)} can't be read") from None
