"""What an erasure is made of in AgentCore: the stores of a tenant's entry of agentcoreMemories, if it has one.

Records, events and the ledger of accesses are reached on the function's own role, as every night does; what lies in the
bucket under the tenant's name, on the tenant's session of the role of erasures.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agent_memory.contract import LIFECYCLE_PREFIX, REGISTRY_AGENTCORE
from agent_memory.domain.agentcore import AgentCoreMemory, agentcore_memories
from agent_memory.domain.agentcore_erasure import (
    EVENT_DAYS,
    TRAIL_DAYS,
    AccessStore,
    EntryDoors,
    EventStore,
    RecordStore,
)
from agent_memory.domain.erasure import ErasableStore
from agent_memory.domain.erasure_receipts import AgentCoreRetained, Retained
from agent_memory.wiring import Services

if TYPE_CHECKING:
    from agent_memory.aws.tenancy import TenantSessions

SERVICE = "bedrock-agentcore"
NIGHT_FILES = "agentcore-night-files"


class AgentCoreErasure:
    """The entries of a deployment, each a tenant's; none, and nothing of this is asked for."""

    def __init__(self, own: Services, sessions: "TenantSessions") -> None:
        self._own, self._sessions = own, sessions

    @cached_property
    def _memories(self) -> dict[str, AgentCoreMemory]:
        return {one.name: one for one in agentcore_memories(self._own.settings.agentcore_memories)}

    def reaches(self, tenant_id: str) -> bool:
        """Whether anything of a tenant is in AgentCore."""
        return tenant_id in self._memories

    def stores(self, tenant_id: str) -> dict[str, ErasableStore]:
        """The stores of a tenant's entry by their names; none without one."""
        memory = self._memories.get(tenant_id)
        if memory is None:
            return {}
        from agent_memory.aws.erasing_agentcore import AgentCoreArchive, AgentCoreBook, AgentCoreRows, records_test
        from agent_memory.aws.erasing_objects import NightFiles
        from agent_memory.aws.erasing_rows import ledger
        from agent_memory.aws.object_versions import ObjectVersions

        s, doors = self._own.settings, self._doors(memory)
        objects = ObjectVersions(self._sessions.client(tenant_id, "s3"), bucket=s.agentcore_bucket)
        rows = ledger(self._sessions.client(tenant_id, "dynamodb"), s.ledger_table)
        return {
            EventStore.name: EventStore(doors),
            AgentCoreArchive.name: AgentCoreArchive(objects, doors),
            RecordStore.name: RecordStore(doors),
            AgentCoreBook.name: AgentCoreBook(objects, doors),
            AccessStore.name: AccessStore(doors),
            NIGHT_FILES: NightFiles(objects, self._night_files, store=NIGHT_FILES, test=records_test(doors)),
            AgentCoreRows.name: AgentCoreRows(rows),
        }

    def retained(self, retained: Retained, tenant_id: str) -> Retained:
        """*retained*, with what a deployment that has AgentCore keeps beside it."""
        memory = self._memories.get(tenant_id)
        others = tuple(one.name for one in self._memories.values() if not one.tenant_id and one.name != tenant_id)
        if memory is None:
            return retained._replace(elsewhere=others)
        shared, whole = EVENT_DAYS if self._neighbours(memory) else 0, memory.namespaces == ("/",)
        kept = AgentCoreRetained(TRAIL_DAYS, self._own.settings.undo_days, event_days=shared, all_named=whole)
        return retained._replace(agentcore=kept, elsewhere=others)

    def settle_seconds(self, tenant_id: str) -> int:
        """How long after the first sweep nothing that AgentCore was still extracting can come any more."""
        return self._own.settings.agentcore_settle_seconds if self.reaches(tenant_id) else 0

    def nights_at_work(self, tenant_id: str) -> int:
        """Whether a night over AgentCore may still write what it read before."""
        from agent_memory.aws.nights import DynamoNightDesk

        if not self.reaches(tenant_id):
            return 0
        client, table = self._sessions.own_client("dynamodb"), self._own.settings.ledger_table
        desk = DynamoNightDesk(client, table=table, kind=REGISTRY_AGENTCORE)
        return int(desk.at_work(now=self._own.now()) is not None)

    def _doors(self, memory: AgentCoreMemory) -> EntryDoors:
        from agent_memory.aws.access_ledger import S3AccessLedger
        from agent_memory.aws.agentcore import AgentCoreEvents, AgentCoreRecords
        from agent_memory.aws.record_book import S3RecordBook

        bucket = self._own.settings.agentcore_bucket
        plane = self._sessions.own_client(SERVICE, memory.region)
        return EntryDoors(
            memory=memory,
            records=AgentCoreRecords(plane, memory_id=memory.memory_id),
            events=AgentCoreEvents(plane, memory_id=memory.memory_id),
            book=S3RecordBook(self._sessions.client(memory.name, "s3"), bucket=bucket, name=memory.name),
            accesses=S3AccessLedger(self._sessions.own_client("s3"), bucket=bucket),
            names=self._own.user_refs.user_ref,
            neighbours=self._neighbours(memory),
        )

    def _neighbours(self, memory: AgentCoreMemory) -> tuple[str, ...]:
        others = [one for one in self._memories.values() if one.name != memory.name]
        same = [one for one in others if (one.memory_id, one.region) == (memory.memory_id, memory.region)]
        return tuple(prefix for one in same for prefix in one.namespaces)

    def _night_files(self) -> Sequence[str]:
        from agent_memory.aws.night_files import S3NightFiles

        files = S3NightFiles(self._sessions.own_client("s3"), bucket=self._own.settings.agentcore_bucket)
        return files.keys(LIFECYCLE_PREFIX)
