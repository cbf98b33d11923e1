"""What the rules need from the world. Adapters in aws/ fulfil these; tests/adapters holds each to its word."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from agent_memory.domain.fact_writes import DomainFacts, FactWrite, FoundFact, Receipt
from agent_memory.domain.facts import Fact
from agent_memory.domain.models import (
    Claim,
    DetectedSpan,
    Distillation,
    Episode,
    EpisodeView,
    LedgerRun,
    ParkedRun,
    RetrievedMemory,
    RunState,
    RunTicket,
    Vector,
)

if TYPE_CHECKING:  # reading transcripts is not what every function does, and loading it takes time
    from agent_memory.domain.transcripts import Transcript

Execution = Literal["running", "ended", "none"]
Written = Literal["stored", "duplicate", "erased"]
"""stored: this call wrote it. duplicate: it was there. erased: a tombstone is newer than the run."""
FactsWritten = Literal["written", "conflict", "erased"]
"""conflict: somebody else wrote in the domain, or decided for the run; read it again. erased: as above."""


Stored = TypeVar("Stored")


class Read(list[Stored]):
    """What a store returned. *unreadable*: items left out because no release that is known here wrote them."""

    def __init__(self, items: Iterable[Stored] = (), *, unreadable: int = 0) -> None:
        super().__init__(items)
        self.unreadable = unreadable


class Embedder(Protocol):
    """Turns text into unit vectors of one model."""

    @property
    def model(self) -> str:
        """Id kept beside every vector; vectors of two models are never compared."""

    @property
    def dimensions(self) -> int:
        """Length of every vector."""

    def embed(self, text: str) -> Vector:
        """Return the unit vector of *text*. Raises RefusedInputError for blank text, ModelBusyError to retry,
        ModelAnswerError when the answer has another length, no length or NaN."""


class PersonalDataDetector(Protocol):
    """Finds personal data in one slice of text."""

    def detect(self, text: str, language: str) -> Sequence[DetectedSpan]:
        """Return the findings in *text* (one slice of text).

        Raises UnsupportedLanguageError, ModelBusyError."""


class ChatModel(Protocol):
    """One forced-schema question to a chat model."""

    @property
    def model(self) -> str:
        """Id of the model, for the usage ledger."""

    def answer(self, *, instruction: str, text: str, schema: dict[str, object], max_tokens: int) -> "ChatAnswer":
        """Ask once. Raises ModelBusyError to retry; a bad answer is returned, not raised."""


class ChatAnswer(Protocol):
    """What came back: the forced tool's arguments if there were any, the plain text, why the model stopped."""

    @property
    def arguments(self) -> object | None: ...

    @property
    def text(self) -> str: ...

    @property
    def stop_reason(self) -> str: ...

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


class Distiller(Protocol):
    """Turns one run into what it leaves behind."""

    def distil(self, run: Claim, transcript: "Transcript") -> Distillation:
        """Distil *run*; *transcript* is the normalised form of its messages. Raises ModelBusyError to retry."""


class UserRefs(Protocol):
    """Replaces a user_id by its pseudonym."""

    def user_ref(self, tenant_id: str, user_id: str) -> str: ...


class Episodes(Protocol):
    """The episodes of ONE tenant. A key of another tenant raises CrossTenantError."""

    def put(self, episode: Episode) -> Written:
        """Write once; a tombstone newer than the run wins, inside the same transaction."""

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        """All live views of one agent (`expires_at` > *now* or none), every page. Unreadable ones are counted."""

    def get(self, agent_id: str, run_id: str) -> Episode | None: ...

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Episode]:
        """The episodes of these (agent_id, run_id), in this order; those that are gone are left out, those that can't
        be read as well and counted."""

    def pin(self, agent_id: str, run_id: str, *, pinned: bool, expires_at: int | None, decays_at: int | None) -> bool:
        """Set or remove the pin. False when the episode is gone."""


class WithheldEpisodes(Protocol):
    """Episodes of ONE tenant that lack what is in quarantine."""

    def give_back(self, agent_id: str, run_id: str, *, field: str, text: str, mark: str) -> bool:
        """Put a text that was withheld back into *field*, once per *mark*. False when the episode is gone."""


class Ledger(Protocol):
    """The ledger rows of ONE tenant: runs, contexts, parked runs."""

    def accept(self, run: LedgerRun) -> Written:
        """Write the row of a new run; `duplicate` when a row of that run exists (compare it with `run`)."""

    def run(self, agent_id: str, run_id: str) -> LedgerRun | None: ...

    def move(self, agent_id: str, run_id: str, *, state: RunState, attempt: int, reason: str | None = None) -> bool:
        """Set the state of the run's *attempt*. False when another attempt holds the row, or it is gone."""

    def next_attempt(
        self, agent_id: str, run_id: str, *, seen: int, content: Mapping[str, object] | None = None
    ) -> int | None:
        """Raise the attempt from *seen* by one and set the state to accepted; None when somebody else did.
        *content*: hash, user and end of a run whose row does not know them yet."""

    def at_work(self) -> list[LedgerRun]:
        """All accepted runs of the tenant that are neither stored nor parked, every page."""

    def park(self, parked: ParkedRun) -> Written: ...

    def parked(self) -> list[ParkedRun]:
        """All parked runs of the tenant, newest first, every page."""

    def parked_run(self, agent_id: str, run_id: str) -> ParkedRun | None: ...

    def unpark(self, agent_id: str, run_id: str, *, attempt: int) -> bool: ...

    def record_retrieval(
        self, *, context_id: str, items: Sequence[RetrievedMemory], at: int, expires_at: int
    ) -> Written:
        """Keep what a bootstrap returned and count one access per (context, memory), in one transaction.
        A deleted memory is never resurrected."""

    def context(self, context_id: str) -> tuple[RetrievedMemory, ...] | None:
        """What a context returned; None when no such context is known, or is no longer."""

    def record_use(self, *, context_id: str, run: tuple[str, str], used: Sequence[str]) -> int:
        """Count which returned items the run used, once per context. Ids that the context did not return are
        ignored. Returns how many counted now."""


class Consolidation(Protocol):
    """The machine that works a run off."""

    def start(self, ticket: RunTicket) -> bool:
        """Start the ticket's attempt. False when it was started before, running or finished."""

    def execution(self, tenant_id: str, agent_id: str, run_id: str, attempt: int) -> Execution:
        """What became of an attempt: `running`, `ended` (well or not), `none` when it was never started."""


class Transcripts(Protocol):
    """Transcripts that agents uploaded."""

    def read_transcript(self, s3_uri: str) -> object:
        """The JSON of an uploaded transcript. RefusedInputError when *s3_uri* is outside the tenant's prefix
        (before any read); TranscriptError when it is missing, refused, not gzip or JSON, or too large."""


class Claims(Transcripts, Protocol):
    """The run's objects of ONE tenant in S3: claim, artifacts, parked copies."""

    def put_claim(self, claim: Claim) -> str:
        """Write the claim once (If-None-Match) and return its key."""

    def get_claim(self, key: str) -> Claim: ...

    def put_distillation(self, claim_key: str, attempt: int, distillation: Distillation) -> str: ...

    def get_distillation(self, key: str) -> Distillation: ...

    def park(self, agent_id: str, run_id: str, content: object) -> str:
        """Keep a run's input in the parked bucket and return its key."""

    def park_claim(self, key: str, agent_id: str, run_id: str) -> str:
        """Copy a claim to the parked bucket, unread; TranscriptError when it is gone."""

    def park_transcript(self, s3_uri: str, agent_id: str, run_id: str) -> str | None:
        """Copy an uploaded transcript to the parked bucket, unread; None when it can't be copied."""

    def get_parked(self, key: str) -> object: ...

    def get_parked_transcript(self, key: str) -> object:
        """The JSON of an uploaded transcript that was copied; TranscriptError as for read_transcript."""

    def delete_parked(self, agent_id: str, run_id: str) -> None:
        """Remove all that is kept of a parked run."""


class Facts(Protocol):
    """The facts of ONE tenant. A key of another tenant raises CrossTenantError."""

    def take_turn(self, domain: str, owner: str, *, now: int, until: int) -> bool:
        """Ask to be the one who reads and writes the domain next. Advice only; `write` gives the turn back."""

    def give_turn(self, domain: str, owner: str) -> None: ...

    def domain(self, domain: str) -> DomainFacts:
        """All facts of a domain with their observations, read consistently."""

    def write(self, change: FactWrite) -> FactsWritten:
        """Write everything of *change* or nothing, if the domain is still as it was seen."""

    def keep_receipt(self, receipt: Receipt) -> FactsWritten: ...

    def receipt(self, agent_id: str, run_id: str) -> Receipt | None: ...

    def get(self, domain: str, fact_id: str) -> Fact | None:
        """One fact with its observations."""

    def get_many(self, keys: Sequence[tuple[str, str]]) -> list[FoundFact]:
        """The facts of these (domain, fact_id), in this order, read consistently; those that are gone are left out."""

    def facts(self, domain: str) -> list[FoundFact]:
        """Every fact of a domain without its observations, newest confirmation first."""

    def pending(self, domain: str) -> list[FoundFact]:
        """Facts that the Knowledge Base has yet to follow: believed ones (`waits`) to add, withdrawn ones to remove."""

    def domains(self) -> list[str]:
        """The domains in which the tenant has, or had, facts."""

    def mark_published(self, fact: Fact) -> bool:
        """Note that its document is written. False when its state or promotion changed meanwhile."""

    def mark_ingested(self, fact: Fact, *, at: int) -> bool: ...

    def mark_gone(self, fact: Fact) -> bool: ...
