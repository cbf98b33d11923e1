"""What erasures are made of: every store of a tenant behind one port, on the credentials of the role of erasures."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_memory.contract import (
    EPISODES_PARTITION_KEY,
    EPISODES_SORT_KEY,
    LIFECYCLE_PREFIX,
    PROCEDURES_PARTITION_KEY,
    PROCEDURES_SORT_KEY,
    REGISTRY_DIRTY,
    REGISTRY_STORED,
    REGISTRY_TENANTS,
)
from agent_memory.domain.erasing_desk import DeskDoors
from agent_memory.domain.erasure import (
    EVERY_STORE,
    READS_LETTERS,
    ErasableStore,
    Erasure,
    ErasureDoors,
    ErasureTicket,
)
from agent_memory.domain.erasure_receipts import Retained, composed, plain, probed, signed
from agent_memory.domain.facts import BELIEVED
from agent_memory.wiring import Services, services
from agent_memory.wiring_agentcore_erasure import AgentCoreErasure
from agent_memory.wiring_tenant import TenantServices

if TYPE_CHECKING:
    from agent_memory.aws.erasing_facts import ErasingFacts
    from agent_memory.aws.erasures import S3Erasures
    from agent_memory.aws.machines import ErasureMachine
    from agent_memory.aws.receipt_key import KmsReceiptKey
    from agent_memory.aws.tenancy import TenantSessions

LEDGER_KINDS = {
    "parked": "parked",
    "confirmed": "confirmed",
    "proposals": "proposals",
    "procedure-results": "procedure-results",
    "quarantine": "quarantine",
    "regressions": "regressions",
    "quality-baselines": "quality-baselines",
    "quality": "quality",
    "holds": "hold",
    "agents": "agents",
    "domains": "domains",
    "run": "run",
}
REGISTRY_KINDS = (REGISTRY_DIRTY, REGISTRY_STORED, REGISTRY_TENANTS)


class ErasureServices:
    """The part of a process's services that erases."""

    def __init__(self, own: Services) -> None:
        self.own = own

    @property
    def sessions(self) -> "TenantSessions":
        """Opened once per process."""
        return self.own.erasure_sessions

    @cached_property
    def machine(self) -> "ErasureMachine":
        from agent_memory.aws.machines import ErasureMachine

        return ErasureMachine(self.sessions.own_client("stepfunctions"), arn=self.own.settings.erasure_machine)

    @cached_property
    def key(self) -> "KmsReceiptKey":
        from agent_memory.aws.receipt_key import KmsReceiptKey

        return KmsReceiptKey(self.sessions.own_client("kms"), key=self.own.settings.receipt_key)

    def files(self, tenant_id: str) -> "S3Erasures":
        """The requests and receipts of one tenant."""
        from agent_memory.aws.erasures import S3Erasures

        client = self.sessions.client(tenant_id, "s3")
        return S3Erasures(client, bucket=self.own.settings.receipts_bucket, tenant_id=tenant_id)

    @cached_property
    def agentcore(self) -> AgentCoreErasure:
        """The same in AgentCore Memory, where a deployment names any."""
        return AgentCoreErasure(self.own, self.sessions)

    def retained(self, tenant_id: str) -> Retained:
        """What no erasure reaches, and for how long the deployment keeps it."""
        s = self.own.settings
        kept = Retained(s.pitr_days, s.intake_days, s.dead_letter_days, s.transcript_days, s.parked_days)
        return self.agentcore.retained(kept, tenant_id)

    def doors(self, tenant_id: str) -> ErasureDoors:
        """What the work on one tenant touches."""
        return ErasureDoors(
            files=self.files(tenant_id),
            stores=self.stores(tenant_id),
            at_work=_AtWork(self.own, self._tenant(tenant_id), self.agentcore),
            settle_seconds=max(self.own.settings.erasure_settle_seconds, self.agentcore.settle_seconds(tenant_id)),
        )

    def desk_doors(self, tenant_id: str) -> DeskDoors:
        """What the desk touches of one tenant."""
        from agent_memory.aws.tombstones import Tombstones

        table = self.own.settings.ledger_table
        client = self.sessions.client(tenant_id, "dynamodb")
        return DeskDoors(
            tombstones=Tombstones(client, table=table, tenant_id=tenant_id),
            files=self.files(tenant_id),
            machine=self.machine,
            key=self.key,
            stores=self.stores(tenant_id),
            user_ref=lambda user_id: self.own.user_refs.user_ref(tenant_id, user_id),
        )

    def report(self, ticket: ErasureTicket) -> dict[str, Any]:
        """Look into every store once more, sign what came of it and keep it. Returns the signed receipt."""
        files = self.files(ticket.tenant_id)
        erasure = files.request(ticket.erasure_id)
        if erasure is None:
            kept = files.receipt(ticket.erasure_id)
            if kept is not None:
                return kept  # a second try of this step, after the work's files went
            raise LookupError(f"erasure {ticket.erasure_id} is not known")
        traces = files.traces(ticket.erasure_id)
        left = probed(self.stores(ticket.tenant_id), erasure, traces)
        sweeps, retained = files.sweeps(ticket.erasure_id), self.retained(ticket.tenant_id)
        receipt = composed(erasure, traces, sweeps, left, retained, now=self.own.now())
        document = plain(signed(receipt, self.key))
        files.keep_receipt(ticket.erasure_id, document)
        if receipt.decision == "erased":
            files.forget_work(ticket.erasure_id)
        return document

    def stores(self, tenant_id: str) -> dict[str, ErasableStore]:
        """Every store that one tenant has by its name, in the order in which they are swept."""
        made = {**self._rows(tenant_id), **self._objects(tenant_id), **self._letters()}
        made |= self.agentcore.stores(tenant_id)
        return {name: made[name] for name in EVERY_STORE if name in made}

    def _tenant(self, tenant_id: str) -> TenantServices:
        return TenantServices(tenant_id, sessions=self.sessions, settings=self.own.settings)

    def _facts(self, tenant_id: str) -> "ErasingFacts":
        return self._tenant(tenant_id).reducible_facts(self.own.dirty)

    def _rows(self, tenant_id: str) -> dict[str, ErasableStore]:
        from agent_memory.aws.erasing_facts import FactStore
        from agent_memory.aws.erasing_procedures import ProcedureStore
        from agent_memory.aws.erasing_rows import (
            ContextStore,
            EpisodeStore,
            LedgerStore,
            Partitions,
            RegistryStore,
            ledger,
        )

        s, own = self.own.settings, self.own
        client = self.sessions.client(tenant_id, "dynamodb")
        rows, tenant = ledger(client, s.ledger_table), self._tenant(tenant_id)
        episodes = Partitions(
            client, table=s.episodes_table, partition_key=EPISODES_PARTITION_KEY, sort_key=EPISODES_SORT_KEY
        )
        procedures = Partitions(
            client, table=s.procedures_table, partition_key=PROCEDURES_PARTITION_KEY, sort_key=PROCEDURES_SORT_KEY
        )
        found: dict[str, ErasableStore] = {
            f"ledger-{store}": LedgerStore(rows, kind=kind, store=store) for store, kind in LEDGER_KINDS.items()
        }
        return found | {
            "episodes": EpisodeStore(episodes, rows),
            "facts": FactStore(self._facts(tenant_id), own.dirty, s, now=own.now),
            "procedures": ProcedureStore(
                client,
                procedures,
                table=s.procedures_table,
                tenant_id=tenant_id,
                task_types=tenant.procedures.task_types,
                now=own.now,
            ),
            "ledger-context": ContextStore(rows),
            "ledger-prefetch": LedgerStore(rows, kind="prefetch", store="prefetch", of_everybody=True),
            "registry": RegistryStore(ledger(self.sessions.own_client("dynamodb"), s.ledger_table), REGISTRY_KINDS),
        }

    def _objects(self, tenant_id: str) -> dict[str, ErasableStore]:
        from agent_memory.aws.erasing_archive import ArchiveStore
        from agent_memory.aws.erasing_knowledge import KnowledgeStore
        from agent_memory.aws.erasing_objects import (
            KnowledgeDocuments,
            NightFiles,
            RunObjects,
            parked_root,
            uploads_prefix,
            work_root,
        )
        from agent_memory.aws.fact_items import FactItems
        from agent_memory.aws.object_versions import ObjectVersions

        s, client = self.own.settings, self.sessions.client(tenant_id, "s3")
        transcripts = ObjectVersions(client, bucket=s.transcripts_bucket)
        archive = ObjectVersions(client, bucket=s.archive_bucket)
        items = FactItems(tenant_id=tenant_id, due_shards=s.due_shards, ttl_days=s.semantic_ttl_days)
        published = self._published(tenant_id)
        return {
            "archive": ArchiveStore(archive, items, s),
            "transcripts": RunObjects(transcripts, store="transcripts", prefix=uploads_prefix, own=False),
            "pipeline-objects": RunObjects(transcripts, store="pipeline-objects", prefix=work_root, own=True),
            "parked-objects": RunObjects(
                ObjectVersions(client, bucket=s.parked_bucket), store="parked-objects", prefix=parked_root, own=True
            ),
            "night-files": NightFiles(archive, self._night_files),
            "knowledge-documents": KnowledgeDocuments(ObjectVersions(client, bucket=s.knowledge_bucket), published),
            "knowledge-base": KnowledgeStore(self.own.knowledge, published, now=self.own.now),
        }

    def _night_files(self) -> Sequence[str]:
        """The names of nights' files, of those too that expired and lie under a delete marker for a day more."""
        from agent_memory.aws.object_versions import ObjectVersions

        found = ObjectVersions(self.sessions.own_client("s3"), bucket=self.own.settings.archive_bucket)
        return sorted({version.key for version in found.all(LIFECYCLE_PREFIX)})

    def _published(self, tenant_id: str) -> Callable[[str, str], bool]:
        facts = self._tenant(tenant_id).facts

        def published(domain: str, fact_id: str) -> bool:
            found = facts.get_many([(domain, fact_id)])
            return bool(found) and found[0].fact.state in BELIEVED and found[0].marks.published

        return published

    def _letters(self) -> dict[str, ErasableStore]:
        from agent_memory.aws.erasing_letters import LettersStore

        s, client = self.own.settings, self.sessions.own_client("sqs")
        urls = {
            "intake-dead-letters": s.intake_dead_letters,
            "retrievals-dead-letters": s.retrievals_dead_letters,
            "refused-events": s.refused_queue,
            **({READS_LETTERS: s.agentcore_reads_dead_letters} if s.agentcore_reads_dead_letters else {}),
        }
        return {
            store: LettersStore(client, url=url, store=store, names=self.own.user_refs.user_ref)
            for store, url in urls.items()
        }


class _AtWork:
    """Runs whose execution goes on, and a night that began before the first sweep was over."""

    def __init__(self, own: Services, tenant: TenantServices, agentcore: AgentCoreErasure) -> None:
        self._own = own
        self._tenant = tenant
        self._agentcore = agentcore

    def count(self, erasure: Erasure) -> int:
        from agent_memory.aws.nights import DynamoNightDesk

        running = [
            run
            for run in self._tenant.ledger.at_work()
            if (erasure.whole or run.user_ref == erasure.user_ref)
            and run.ended_at <= erasure.erased_before
            and self._own.machine.execution(run.tenant_id, run.agent_id, run.run_id, run.attempt) == "running"
        ]
        desk = DynamoNightDesk(self._own.sessions.own_client("dynamodb"), table=self._own.settings.ledger_table)
        nights = (desk.at_work(now=self._own.now()) is not None) + self._agentcore.nights_at_work(erasure.tenant_id)
        return len(running) + nights


def erasure_services() -> ErasureServices:
    """The erasure's services of this process."""
    return ErasureServices(services())
