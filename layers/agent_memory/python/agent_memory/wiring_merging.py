"""What merging, restoring and the facts' part of a night are made of."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agent_memory.domain.fact_confirming import ConfirmDoors, ConfirmRules
from agent_memory.domain.fact_expiry import ExpiryDoors
from agent_memory.domain.lifecycle import LifecycleRun
from agent_memory.domain.merge_facts import observe
from agent_memory.domain.merging import MergeDoors, MergeRules
from agent_memory.domain.models import Episode
from agent_memory.domain.parking import oldest_days
from agent_memory.domain.privacy import scrub_texts
from agent_memory.domain.procedure_flagging import FlagDoors, ProcedureFlags
from agent_memory.domain.procedure_upkeep import NightlyProcedures
from agent_memory.domain.restoring import RestoreDoors, RestoreRules
from agent_memory.domain.unlearning import UnlearnDoors, unlearn
from agent_memory.wiring import services
from agent_memory.wiring_lifecycle import NightServices


class MergeServices(NightServices):
    """The night's services, for what changes memories into others."""

    def merge_rules(self, run: LifecycleRun) -> MergeRules:
        """By what *run* merges memories."""
        s = self.own.settings
        return MergeRules(night=self.rules(run), max_tokens=s.summarise_max_tokens, review_days=s.undo_days)

    def merge_doors(self, tenant_id: str, run: LifecycleRun, late: Callable[[], bool]) -> MergeDoors:
        """What merging memories of one tenant touches."""
        own, tenant = self.own, self.own.tenant(tenant_id)
        return MergeDoors(
            files=own.night_files,
            shelf=tenant.episode_shelf,
            archive=tenant.archive,
            notes=tenant.agent_notes,
            embedder=own.embedder,
            scrub=lambda texts: scrub_texts(texts, own.detector, own.privacy_policy),
            model=own.summariser,
            guardrail=own.guardrail,
            observe=partial(self._observe, tenant_id, run.now),
            late=late,
        )

    def restore_doors(self, tenant_id: str, late: Callable[[], bool] = lambda: False) -> RestoreDoors:
        """What bringing memories of one tenant back touches."""
        tenant = self.own.tenant(tenant_id)
        shelf = tenant.fact_shelf(self.own.dirty)
        return RestoreDoors(
            files=self.own.night_files,
            archive=tenant.archive,
            episodes=tenant.episode_shelf,
            facts=shelf,
            late=late,
            changes=tenant.episode_changes,
            unlearn=partial(self._unlearn, tenant_id),
            procedures=self.procedure_flags(tenant_id),
        )

    @property
    def restore_rules(self) -> RestoreRules:
        """How long what left can be brought back."""
        return RestoreRules(undo_days=self.own.settings.undo_days, retention=self.own.retention_rules)

    def expiry_doors(self, tenant_id: str) -> ExpiryDoors:
        """What expiring facts of one tenant touches."""
        own, tenant = self.own, self.own.tenant(tenant_id)
        shelf = tenant.fact_shelf(own.dirty)
        return ExpiryDoors(
            own.night_files, shelf, tenant.documents, tenant.archive, own.dirty, tenant.agent_notes, own.rest
        )

    def flag_doors(self, late: Callable[[], bool]) -> FlagDoors:
        """What flagging procedures touches."""
        return FlagDoors(self.own.night_files, self.own.registry.all, self.procedure_flags, late)

    def oldest_parked_days(self) -> float:
        """Since how many days the longest parked run of any tenant waits."""
        own = self.own
        return max(
            (oldest_days(own.tenant(one).ledger.parked(), now=own.now()) for one in own.registry.all()), default=0
        )

    def procedure_flags(self, tenant_id: str) -> ProcedureFlags:
        """The procedures of a tenant, as the night flags them."""
        own = self.own
        procedures = own.tenant(tenant_id).procedures
        return NightlyProcedures(procedures, own.publish, own.procedure_rules, environment=own.settings.environment)

    def _unlearn(self, tenant_id: str, summary: Episode, sources: Sequence[Episode], now: int) -> Sequence[str]:
        own, tenant = self.own, self.own.tenant(tenant_id)
        facts = tenant.reducible_facts(own.dirty)
        doors = UnlearnDoors(facts, tenant.documents, own.dirty, own.settings, own.rest)
        return unlearn(summary, sources, doors, now=now)

    def _observe(self, tenant_id: str, now: int, summary: Episode, sources: Sequence[Episode]) -> Mapping[str, int]:
        own, tenant = self.own, self.own.tenant(tenant_id)
        doors = ConfirmDoors(
            tenant.facts, tenant.documents, tenant.claims, own.dirty, own.embedder, own.judge, own.rest, own.now
        )
        rules = ConfirmRules(own.settings, own.retention_rules)
        return observe(summary, sources, doors, rules, min_run_confidence=own.settings.run_min_confidence, now=now)


def merge_services() -> MergeServices:
    """The services of a function that merges."""
    return MergeServices(services())
