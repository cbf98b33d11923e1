"""What the functions of the night are made of: their rules, and doors that only they have."""

from functools import cached_property
from typing import TYPE_CHECKING

from agent_memory.domain.errors import AgentMemoryError
from agent_memory.domain.examination import ExamineDoors
from agent_memory.domain.examining import NightRules
from agent_memory.domain.lifecycle import LifecycleRun
from agent_memory.domain.night import NightDoors, settings_hash
from agent_memory.domain.planning import PlanDoors
from agent_memory.domain.pruning import PruneDoors
from agent_memory.domain.weighing import BlastRules, TenantDoors, WeighDoors
from agent_memory.wiring import Services, services

if TYPE_CHECKING:
    from agent_memory.aws.due_index import DynamoDueIndex
    from agent_memory.aws.nights import DynamoNightDesk

# Ten children ask at a time, some 20 seconds each, in half of the night's time; the other half is for the rest of it.
SUMMARIES_AN_HOUR = 900


class NightServices:
    """The night's part of the services of a process."""

    def __init__(self, own: Services) -> None:
        self.own = own

    @cached_property
    def desk(self) -> "DynamoNightDesk":
        from agent_memory.aws.nights import DynamoNightDesk

        return DynamoNightDesk(self.own.sessions.own_client("dynamodb"), table=self.own.settings.ledger_table)

    @cached_property
    def due_index(self) -> "DynamoDueIndex":
        from agent_memory.aws.due_index import DynamoDueIndex

        s = self.own.settings
        client = self.own.sessions.own_client("dynamodb")
        return DynamoDueIndex(client, episodes_table=s.episodes_table, facts_table=s.facts_table)

    @property
    def settings_hash(self) -> str:
        """Of the settings by which the dates of episodes and facts are made."""
        return settings_hash(self.own.decay_rules, self.own.retention_rules)

    @property
    def blast_rules(self) -> BlastRules:
        """How much a night may remove unasked."""
        s = self.own.settings
        return BlastRules(
            share=s.max_removed_share,
            ceiling=s.max_removed_share_ceiling,
            begin=s.blast_radius_from,
            unread_days=self.own.decay_rules.unread_days,
            fact_days=s.semantic_ttl_days,
            summaries=s.lifecycle_limit_hours * SUMMARIES_AN_HOUR,
        )

    def rules(self, run: LifecycleRun) -> NightRules:
        """By what *run* judges memories. Raises AgentMemoryError when the settings changed since it began: what it does
        from here on, nobody planned, weighed or approved."""
        s = self.own.settings
        if run.settings_hash != self.settings_hash:
            raise AgentMemoryError(f"the decay settings changed after {run.run_id} began: the next night goes by them")
        return NightRules(
            decay=self.own.decay_rules,
            retention=self.own.retention_rules,
            max_episodes=s.max_episodes_per_agent,
            batch_size=s.consolidation_batch_size,
            merges=bool(s.summarise_model_id),
            shortens=run.rewriting,
        )

    @property
    def doors(self) -> NightDoors:
        """What the begin and the end of a night touch."""
        return NightDoors(self.desk, self.own.night_files, self.own.stored)

    @property
    def plan_doors(self) -> PlanDoors:
        """What the plan touches."""
        return PlanDoors(self.due_index, self.own.stored, self.own.night_files)

    @property
    def weigh_doors(self) -> WeighDoors:
        """What weighing touches; a tenant's memories are counted on its own credentials."""
        return WeighDoors(self.own.night_files, self._tenant_doors)

    def _tenant_doors(self, tenant_id: str) -> TenantDoors:
        tenant = self.own.tenant(tenant_id)
        return TenantDoors(tenant.agent_notes, tenant.episode_dates, tenant.fact_counts)

    def examine_doors(self, tenant_id: str) -> ExamineDoors:
        """What looking at one tenant's memories touches."""
        tenant = self.own.tenant(tenant_id)
        return ExamineDoors(self.own.night_files, tenant.episodes, tenant.episode_dates, tenant.agent_notes)

    def prune_doors(self, tenant_id: str) -> PruneDoors:
        """What removing memories of one tenant touches."""
        tenant = self.own.tenant(tenant_id)
        shelf = tenant.episode_shelf
        return PruneDoors(self.own.night_files, shelf, tenant.episode_dates, shelf, tenant.archive, tenant.agent_notes)


def night_services() -> NightServices:
    """The night's services of this process."""
    return NightServices(services())
