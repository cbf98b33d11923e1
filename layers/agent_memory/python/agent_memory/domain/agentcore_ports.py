"""What the night over AgentCore needs from the world, for ONE entry of agentcoreMemories each."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_memory.domain.accesses import AccessLedger
from agent_memory.domain.agentcore_index import Note, RecordIndex
from agent_memory.domain.agentcore_records import NewRecord, Record
from agent_memory.domain.cloudtrail import Access, Window


class Asked(NamedTuple):
    """What a listing asks for. *prefix*: ends in its delimiter. *after*, *before*: of createdAt, epoch seconds."""

    prefix: str
    after: int | None = None
    before: int | None = None
    strategy_id: str = ""


class Records(Protocol):
    """The long-term records of one memory."""

    def listed(self, asked: Asked) -> Iterator[Record]:
        """Every record that is asked for and can be read, each once, every page; begun again when a page's token has
        expired."""

    def get(self, record_id: str) -> Record | None: ...

    def create(self, records: Sequence[NewRecord]) -> Mapping[str, str]:
        """Create records and return their ids by request id; what failed is left out. The same again within the
        service's memory of tokens creates nothing."""

    def delete(self, record_ids: Sequence[str]) -> Mapping[str, str]:
        """Delete records and return for each `removed`, `gone` or `failed`."""

    def search(self, namespace: str, query: str, *, most: int) -> Sequence[Record]:
        """What the service finds for *query* in a namespace, best first."""


class AccessBook(Protocol):
    """The cumulative ledger of accesses, one for a deployment."""

    def ledger(self) -> AccessLedger:
        """Raises LedgerError: it is of a newer release, or no state of it can be read."""

    def change(self, changed: "Change") -> AccessLedger:
        """Read, change and write it so that no other's change is lost; *changed* may be asked several times."""


class Change(Protocol):
    """A change of the ledger; the same again changes nothing."""

    def __call__(self, ledger: AccessLedger) -> AccessLedger: ...


class Judged(NamedTuple):
    """Whose accesses count. *memories*: ids, for what CloudTrail saw. *records*: by tenant and memory the ids of the
    records that its entry holds, for what its own side reports."""

    memories: Collection[str]
    records: Mapping[tuple[str, str], Collection[str]] = {}


class AccessLogs(Protocol):
    """What CloudTrail and agents' sides reported, file by file."""

    def files(self, window: Window, tenants: Collection[str]) -> Sequence[str]:
        """Every file that may tell of accesses in *window*, those of *tenants*' reports included, in order."""

    def digests(self, window: Window) -> int:
        """How many digests CloudTrail delivered in *window*: without any it delivers nothing."""

    def accesses(self, files: Sequence[str], window: Window, judged: Judged, counts: Counter[str]) -> Sequence[Access]:
        """What *files* tell, as often as they show it."""


class RecordBook(Protocol):
    """The index of one entry, and what nights note until the next refresh."""

    def index(self) -> RecordIndex:
        """The index; an empty one when there is none that can be read, so that everything is listed."""

    def keep(self, index: RecordIndex) -> None: ...

    def note(self, note: Note) -> None:
        """Write a note, over what was noted of the same name."""

    def notes(self) -> Sequence[Note]:
        """All notes that no refresh has taken in, every page."""

    def forget(self, notes: Sequence[Note]) -> None:
        """Remove notes that the index holds now; one that was written again since stays."""
