"""The cumulative ledger of accesses in S3: conditional writes, so that two nights at once lose nothing."""

from typing import Any

from agent_memory.aws.s3_state import S3State
from agent_memory.contract import ACCESS_LEDGER_KEY
from agent_memory.domain.accesses import AccessLedger, LedgerError, read_ledger
from agent_memory.domain.agentcore_ports import Change
from agent_memory.domain.errors import StoreBusyError

TRIES = 8
ADVICE = "bring an earlier version of it back, or delete it to count anew (every record then looks unread)"


class S3AccessLedger:
    """One object for a deployment."""

    def __init__(self, client: Any, *, bucket: str) -> None:
        self._state = S3State(client, bucket=bucket, key=ACCESS_LEDGER_KEY)

    def ledger(self) -> AccessLedger:
        """The ledger; an earlier version of it when the last one is damaged. Raises LedgerError."""
        return self._read()[0]

    def change(self, changed: Change) -> AccessLedger:
        """Read, change and write it until nobody else wrote in between."""
        for _ in range(TRIES):
            ledger, tag = self._read()
            new = changed(ledger)
            if new == ledger and tag is not None:
                return ledger
            if self._state.write(new.model_dump_json().encode(), over=tag):
                return new
        raise StoreBusyError(f"the ledger of accesses was written by others {TRIES} times in between")

    def _read(self) -> tuple[AccessLedger, str | None]:
        state = self._state.read()
        try:
            return read_ledger(state.body), state.tag
        except LedgerError as damaged:
            if "newer release" in str(damaged):
                raise
        for body in self._state.earlier():
            try:
                return read_ledger(body), state.tag
            except LedgerError:
                continue
        raise LedgerError(f"no version of the ledger of accesses can be read: {ADVICE}")
