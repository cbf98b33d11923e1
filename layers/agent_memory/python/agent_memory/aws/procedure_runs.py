"""What lets a run propose once and count once: its rows in the ledger, and the counts on the procedures."""

from collections.abc import Mapping
from typing import Any

from agent_memory.aws.item_codec import Item, item, names
from agent_memory.aws.procedure_items import ProcedureItems
from agent_memory.contract import LAST_USED_AT, LEDGER_PARTITION_KEY, LEDGER_SORT_KEY, SCHEMA_VERSION
from agent_memory.domain.errors import CrossTenantError
from agent_memory.domain.keys import SEPARATOR, ledger_key, run_entry
from agent_memory.domain.procedure_ports import ProposalWrite, RunResult
from agent_memory.domain.procedures import COUNTED, Procedure

PROPOSALS, RESULTS = "proposals", "procedure-results"


class RunRows:
    """Actions of transactions, for one tenant."""

    def __init__(self, items: ProcedureItems, *, table: str, ledger_table: str, tenant_id: str) -> None:
        self._items = items
        self._table = table
        self._ledger_table = ledger_table
        self._tenant_id = tenant_id

    def proposal_key(self, agent_id: str, run_id: str) -> Item:
        return self._key(PROPOSALS, agent_id, run_id)

    def proposal(self, change: ProposalWrite) -> Item:
        """The row of a run that proposes, if it has not."""
        said, procedure = change.evidence, change.procedure
        held = {
            "task_type": procedure.task_type,
            "procedure_id": procedure.procedure_id,
            "user_ref": said.user_ref,
            "ended_at": change.ended_at,
            "expires_at": change.expires_at,
        }
        return self._first(self.proposal_key(said.agent_id, said.run_id), held)

    def result(self, result: RunResult) -> Item:
        """The row of a run that counts, if it has not."""
        applied = result.applied
        held = {
            "procedure_id": applied.procedure_id if applied else None,
            "succeeded": result.succeeded if applied else None,
            "steps_sha256": applied.steps_sha256 if applied else None,
            "passed_over": [procedure.procedure_id for procedure in result.passed_over],
            "user_ref": result.user_ref,
            "ended_at": result.ended_at,
            "expires_at": result.expires_at,
        }
        return self._first(self._key(RESULTS, result.agent_id, result.run_id), held)

    def counts(self, result: RunResult) -> list[Item]:
        """What the run adds to the procedures, each for the very steps that were read."""
        counted = [self._count(procedure, _passed_over()) for procedure in result.passed_over]
        if result.applied is not None:
            counted.append(self._count(result.applied, _applied(result, result.applied)))
        return counted

    def _count(self, procedure: Procedure, change: dict[str, Any]) -> Item:
        states = {f":state{n}": state for n, state in enumerate(sorted(COUNTED))}
        held = names("state", "steps_sha256", "revision") | change["ExpressionAttributeNames"]
        values = item({":sha": procedure.steps_sha256, ":one": 1} | states) | change["ExpressionAttributeValues"]
        return {
            "Update": {
                "TableName": self._table,
                "Key": self._items.key(procedure.task_type, procedure.procedure_id),
                "UpdateExpression": change["UpdateExpression"],
                "ConditionExpression": f"#steps_sha256 = :sha AND #state IN ({', '.join(states)})",
                "ExpressionAttributeNames": held,
                "ExpressionAttributeValues": values,
            }
        }

    def _key(self, kind: str, agent_id: str, run_id: str) -> Item:
        if SEPARATOR in agent_id or SEPARATOR in run_id:
            raise CrossTenantError("an id that holds the separator reached the ledger")
        entry = run_entry(agent_id, run_id)
        return item({LEDGER_PARTITION_KEY: ledger_key(self._tenant_id, kind), LEDGER_SORT_KEY: entry})

    def _first(self, key: Item, held: Mapping[str, object]) -> Item:
        return {
            "Put": {
                "TableName": self._ledger_table,
                "Item": key | item({**held, "schema_version": SCHEMA_VERSION}),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": LEDGER_PARTITION_KEY},
            }
        }


def _applied(result: RunResult, procedure: Procedure) -> dict[str, Any]:
    # Runs end in no order; an older one must not move the date back. Two at once may, by what lies between them.
    at = max(result.ended_at, procedure.last_used_at)
    return {
        "UpdateExpression": f"ADD #applied :one, #succeeded :succeeded, #revision :one SET #{LAST_USED_AT} = :at",
        "ExpressionAttributeNames": names("applied", "succeeded", LAST_USED_AT),
        "ExpressionAttributeValues": item({":succeeded": int(result.succeeded), ":at": at}),
    }


def _passed_over() -> dict[str, Any]:
    return {
        "UpdateExpression": "ADD #passed_over :one, #revision :one",
        "ExpressionAttributeNames": names("passed_over"),
        "ExpressionAttributeValues": {},
    }
