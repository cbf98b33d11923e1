"""What the settings say, in the words of the rules. Each is imported when it is first asked for, as adapters are."""

from functools import cached_property
from typing import TYPE_CHECKING

from agent_memory.domain.decay import DecayRules
from agent_memory.domain.retention import RetentionRules
from agent_memory.settings import Settings

if TYPE_CHECKING:
    from agent_memory.domain.callers import CallerAuth
    from agent_memory.domain.privacy import Policy
    from agent_memory.domain.procedures import ProcedureRules
    from agent_memory.domain.recall_request import RecallRules


class DeploymentRules:
    """The deployment's part in every rule."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def recall_rules(self) -> "RecallRules":
        """The deployment's part in a recall."""
        from agent_memory.domain.calibration import fact_floor, procedure_floor
        from agent_memory.domain.recall_request import FactRules, procedure_recall_rules, recall_rules

        s = self.settings
        floor = fact_floor(s.embedding_model_id, override=s.fact_floor)
        return recall_rules(
            budget_ms=s.bootstrap_budget_ms,
            max_episodes=s.max_episodes,
            max_facts=s.max_facts,
            max_context_tokens=s.max_context_tokens,
            episode_floor=s.episode_floor,
            facts=FactRules(floor=floor, ttl_days=s.semantic_ttl_days),
            procedures=procedure_recall_rules(
                self.procedure_rules,
                floor=procedure_floor(s.embedding_model_id, override=s.procedure_floor),
                aliases=s.json_setting("task_type_aliases"),
            ),
            tiers_by_task_type=s.json_setting("tiers_by_task_type"),
            shared_agents=s.json_setting("shared_agents"),
        )

    @cached_property
    def decay_rules(self) -> DecayRules:
        """The deployment's decay settings, as the rules take them."""
        s = self.settings
        return DecayRules(
            w_recency=s.w_recency,
            w_access=s.w_access,
            w_frequency=s.w_frequency,
            max_access_baseline=s.max_access_baseline,
            threshold=s.relevance_threshold,
            prune_days=s.prune_days,
            calibration=s.decay_calibration,
        )

    @cached_property
    def retention_rules(self) -> RetentionRules:
        """The deployment's retention, as the rules take it."""
        s = self.settings
        return RetentionRules(
            memory_ttl_days=s.memory_ttl_days,
            failed_retention_days=s.failed_retention_days,
            summary_ttl_days=s.summary_ttl_days,
            semantic_ttl_days=s.semantic_ttl_days,
            archive_before_expiry_hours=s.archive_before_expiry_hours,
            parked_days=s.parked_days,
            transcript_days=s.transcript_days,
        )

    @cached_property
    def procedure_rules(self) -> "ProcedureRules":
        """The deployment's rules of procedures."""
        from agent_memory.domain.procedures import ProcedureRules

        s = self.settings
        return ProcedureRules(
            min_uses=s.procedure_min_uses,
            min_success=s.procedure_min_success,
            stale_days=s.procedure_stale_days,
            trial_share=s.procedure_trial_share,
        )

    @cached_property
    def privacy_policy(self) -> "Policy":
        from agent_memory.domain.privacy import policy_from

        s = self.settings
        return policy_from(
            types=s.pii_types,
            min_score=s.pii_min_score,
            allow=s.pii_allow,
            unsupported_language=s.pii_unsupported_language,
        )

    @property
    def caller_auth(self) -> "CallerAuth":
        """How callers are known. What is not understood is the stricter one."""
        return "platform" if self.settings.caller_auth == "platform" else "principal"
