"""The night over AgentCore: the same functions, handed the records of a managed memory in the place of our tiers."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from agent_memory.contract import REGISTRY_AGENTCORE
from agent_memory.domain.agentcore import NO_MEMORY, AgentCoreMemory, agentcore_memories, named
from agent_memory.domain.agentcore_night import (
    IndexedDue,
    IndexedStored,
    MemoryDoors,
    RefreshDoors,
    RefreshRules,
    settings_hash,
)
from agent_memory.domain.agentcore_quality import AgentCoreAsking, SearchDoors
from agent_memory.domain.agentcore_reading import ShelfDoors, ShelfRules
from agent_memory.domain.agentcore_records import MAX_SOURCES
from agent_memory.domain.agentcore_shelf import AgentCoreShelf
from agent_memory.domain.archive import Shelf
from agent_memory.domain.errors import ConfigurationError
from agent_memory.domain.examination import ExamineDoors
from agent_memory.domain.examining import NightRules
from agent_memory.domain.lifecycle import LifecycleRun
from agent_memory.domain.merging import MergeDoors
from agent_memory.domain.night import NightDoors
from agent_memory.domain.planning import PlanDoors
from agent_memory.domain.privacy import scrub_texts
from agent_memory.domain.pruning import PruneDoors
from agent_memory.domain.restoring import RestoreDoors, RestoreRules
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.weighing import TenantDoors, WeighDoors
from agent_memory.settings import Settings
from agent_memory.wiring_merging import MergeServices

if TYPE_CHECKING:
    from agent_memory.aws.access_ledger import S3AccessLedger
    from agent_memory.aws.agentcore import AgentCoreEvents, AgentCoreRecords
    from agent_memory.aws.archive import S3Archive
    from agent_memory.aws.cloudtrail_logs import S3TrailLogs
    from agent_memory.aws.nights import DynamoNightDesk
    from agent_memory.aws.record_book import S3RecordBook

SERVICE = "bedrock-agentcore"


class AgentCoreServices(MergeServices):
    """The night's services over the memories that agentcoreMemories names."""

    @cached_property
    def memories(self) -> tuple[AgentCoreMemory, ...]:
        """The entries of agentcoreMemories."""
        return agentcore_memories(self.own.settings.agentcore_memories)

    @cached_property
    def _bucket(self) -> str:
        bucket = self.own.settings.agentcore_bucket
        if not bucket:
            raise ConfigurationError("agentcoreMemories names no memory in this deployment: nothing is kept for it")
        return bucket

    def records(self, memory: AgentCoreMemory) -> "AgentCoreRecords":
        """The records of a memory."""
        from agent_memory.aws.agentcore import AgentCoreRecords

        client = self.own.sessions.own_client(SERVICE, memory.region)
        return AgentCoreRecords(client, memory_id=memory.memory_id)

    def events(self, memory: AgentCoreMemory) -> "AgentCoreEvents":
        """The events of a memory."""
        from agent_memory.aws.agentcore import AgentCoreEvents

        client = self.own.sessions.own_client(SERVICE, memory.region)
        return AgentCoreEvents(client, memory_id=memory.memory_id)

    def book(self, memory: AgentCoreMemory) -> "S3RecordBook":
        """The index and the notes of a memory."""
        from agent_memory.aws.record_book import S3RecordBook

        return S3RecordBook(self.own.sessions.own_client("s3"), bucket=self._bucket, name=memory.name)

    @cached_property
    def accesses(self) -> "S3AccessLedger":
        """The ledger of accesses."""
        from agent_memory.aws.access_ledger import S3AccessLedger

        return S3AccessLedger(self.own.sessions.own_client("s3"), bucket=self._bucket)

    @cached_property
    def logs(self) -> "S3TrailLogs":
        """The files of the trail."""
        from agent_memory.aws.cloudtrail_logs import S3TrailLogs

        s = self.own.settings
        ignored = [role.strip() for role in s.agentcore_ignored_roles.split(",") if role.strip()]
        return S3TrailLogs(self.own.sessions.own_client("s3"), bucket=s.trail_bucket, ignored=ignored)

    def archive(self, tenant_id: str) -> "S3Archive":
        """What left a memory; in the bucket of its own, which the tenants' credentials do not reach."""
        from agent_memory.aws.archive import S3Archive

        return S3Archive(self.own.sessions.own_client("s3"), bucket=self._bucket, tenant_id=tenant_id)

    # The night, as its functions ask for it.

    @cached_property
    def desk(self) -> "DynamoNightDesk":
        from agent_memory.aws.nights import DynamoNightDesk

        client, table = self.own.sessions.own_client("dynamodb"), self.own.settings.ledger_table
        return DynamoNightDesk(client, table=table, kind=REGISTRY_AGENTCORE)

    @property
    def settings_hash(self) -> str:
        """Of the settings by which due times are made."""
        return settings_hash(self.memories, self.own.decay_rules, self._retention)

    @property
    def _retention(self) -> RetentionRules:
        # Nothing but the night takes what is expired, so nothing has to be archived ahead of it.
        return self.own.retention_rules.model_copy(update={"archive_before_expiry_hours": 0})

    def rules(self, run: LifecycleRun) -> NightRules:
        """By what *run* judges records. Expiry always is by today's settings, so none has to be shortened."""
        rules = super().rules(run)
        most = min(rules.batch_size, MAX_SOURCES)
        return rules._replace(retention=self._retention, shortens=False, batch_size=most)

    @property
    def restore_rules(self) -> RestoreRules:
        """How long what left can be brought back."""
        return RestoreRules(undo_days=self.own.settings.undo_days, retention=self._retention)

    @property
    def refresh_doors(self) -> RefreshDoors:
        """What the refresh touches."""
        return RefreshDoors(self.own.night_files, self.accesses, self.logs, self._memory_doors)

    def _memory_doors(self, memory: AgentCoreMemory) -> MemoryDoors:
        return MemoryDoors(self.records(memory), self.book(memory))

    @property
    def refresh_rules(self) -> RefreshRules:
        """By what due times are worked out."""
        return RefreshRules(self.own.decay_rules, self._retention, self.own.settings.access_window_hours)

    @cached_property
    def _stored(self) -> IndexedStored:
        books = {one.name: self.book(one) for one in self.memories}
        return IndexedStored(books, most=self.own.settings.max_episodes_per_agent, now=self.own.now)

    @property
    def doors(self) -> NightDoors:
        """What the begin and the end of a night touch."""
        return NightDoors(self.desk, self.own.night_files, self._stored)

    @property
    def plan_doors(self) -> PlanDoors:
        """What the plan touches."""
        books = {one.name: self.book(one) for one in self.memories}
        return PlanDoors(IndexedDue(books), self._stored, self.own.night_files)

    @property
    def weigh_doors(self) -> WeighDoors:
        """What weighing touches."""
        return WeighDoors(self.own.night_files, self._counting)

    def _counting(self, tenant_id: str) -> TenantDoors:
        return TenantDoors(NamespaceNotes(self, tenant_id), self.shelf(tenant_id))

    def shelf(
        self, tenant_id: str, *, night: str = "", now: int | None = None, compared: bool = False
    ) -> AgentCoreShelf:
        """The records of a tenant. *compared*: by meaning, with embeddings."""
        memory = named(self.memories, tenant_id)
        embedder = self.own.embedder if compared else None
        doors = ShelfDoors(self.records(memory), self.book(memory), self.accesses, embedder)
        days = self.own.settings.summary_ttl_days
        return AgentCoreShelf(memory, doors, ShelfRules(now or self.own.now(), days, night))

    def examine_doors(self, tenant_id: str) -> ExamineDoors:
        """What looking at one tenant's records touches."""
        shelf = self.shelf(tenant_id, compared=True)
        return ExamineDoors(self.own.night_files, shelf, shelf, NamespaceNotes(self, tenant_id))

    def prune_doors(self, tenant_id: str) -> PruneDoors:
        """What removing records of one tenant touches."""
        shelf = self.shelf(tenant_id)
        notes, archive = NamespaceNotes(self, tenant_id), self.archive(tenant_id)
        return PruneDoors(self.own.night_files, shelf, shelf, shelf, archive, notes)

    def merge_doors(self, tenant_id: str, run: LifecycleRun, late: Callable[[], bool]) -> MergeDoors:
        """What merging records of one tenant touches. What a merge says goes through no gate of ours: the service
        keeps its facts itself."""
        own = self.own
        return MergeDoors(
            files=own.night_files,
            shelf=self.shelf(tenant_id, night=run.run_id, now=run.now),
            archive=self.archive(tenant_id),
            notes=NamespaceNotes(self, tenant_id),
            embedder=own.embedder,
            scrub=lambda texts: scrub_texts(texts, own.detector, own.privacy_policy),
            model=own.summariser,
            guardrail=own.guardrail,
            observe=lambda summary, sources: {},
            late=late,
        )

    def restore_doors(self, tenant_id: str, late: Callable[[], bool] = lambda: False) -> RestoreDoors:
        """What bringing records of one tenant back touches."""
        shelf = self.shelf(tenant_id)
        facts: Shelf = shelf
        return RestoreDoors(self.own.night_files, self.archive(tenant_id), shelf, facts, late)

    def asking(self, tenant_id: str) -> AgentCoreAsking:
        """An asking of one tenant's regression cases."""
        memory = named(self.memories, tenant_id)
        doors = SearchDoors(self.records(memory), self.book(memory), lambda: self.own.embedder, self.own.judge)
        return AgentCoreAsking(doors)


class NamespaceNotes:
    """The holds of a tenant's namespaces are rows of our ledger; the namespaces themselves are the index's."""

    def __init__(self, own: AgentCoreServices, tenant_id: str) -> None:
        self._own, self._tenant_id = own, tenant_id
        self._notes = own.own.tenant(tenant_id).agent_notes

    def note_agent(self, agent_id: str, *, now: int) -> None:
        """The index knows it."""

    def agents(self) -> list[str]:
        """Every namespace with a record, by its place."""
        return sorted(self._own.book(named(self._own.memories, self._tenant_id)).index().namespaces)

    def holds(self) -> frozenset[str]:
        """Namespaces that no night may touch; `*` for all of them."""
        return frozenset(self._notes.holds())

    def hold(self, agent_id: str, *, now: int) -> None:
        """Keep nights off a namespace."""
        self._notes.hold(agent_id, now=now)

    def unhold(self, agent_id: str) -> bool:
        """Let nights touch it again."""
        return self._notes.unhold(agent_id)


def over_agentcore(settings: Settings) -> Settings:
    """The settings of a deployment as the functions of its night over AgentCore are told them. Raises
    ConfigurationError: no memory is named, and nothing is deployed that could be asked."""
    if not agentcore_memories(settings.agentcore_memories):
        raise ConfigurationError(NO_MEMORY.format(settings.environment))
    told = {"archive_bucket": settings.agentcore_bucket, "lifecycle_machine": settings.agentcore_machine}
    return settings.model_copy(update={**told, "night_backend": "agentcore"})
