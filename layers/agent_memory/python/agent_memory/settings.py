"""The only reader of the environment. A missing or malformed variable fails at cold start, by name."""

import json
from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_memory.contract import ENVIRONMENT_PREFIX, environment_variable
from agent_memory.domain.errors import ConfigurationError


class Settings(BaseModel):
    """What a deployment tells its functions. Days, seconds and shares as in README "Settings"."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    environment: str
    episodes_table: str
    ledger_table: str
    facts_table: str
    procedures_table: str
    transcripts_bucket: str
    parked_bucket: str
    knowledge_bucket: str
    archive_bucket: str = ""
    bus: str
    tenant_role: str
    user_key_secret: str
    refused_queue: str = ""
    consolidation_machine: str = ""
    ingestion_machine: str = ""
    lifecycle_machine: str = ""
    erasure_machine: str = ""
    erasure_role: str = ""
    receipts_bucket: str = ""
    receipt_key: str = ""
    intake_dead_letters: str = ""
    retrievals_dead_letters: str = ""
    agentcore_reads_dead_letters: str = ""
    canary_role: str = ""
    agentcore_machine: str = ""
    agentcore_bucket: str = ""
    trail_bucket: str = ""
    knowledge_base_id: str = ""
    data_source_id: str = ""

    memory_ttl_days: int = 90
    summary_ttl_days: int = 45
    undo_days: int = 30
    archive_before_expiry_hours: int = 72
    max_episodes_per_agent: int = 500
    consolidation_batch_size: int = 10
    max_removed_share: float = 0.2
    max_removed_share_ceiling: float = 0.5
    blast_radius_from: int = 50
    lifecycle_limit_hours: int = 1
    failed_retention_days: int = 7
    parked_days: int = 30
    transcript_days: int = 3
    intake_days: int = 1
    dead_letter_days: int = 4
    pitr_days: int = 14
    erasure_settle_seconds: int = 120
    agentcore_settle_seconds: int = 900
    run_min_confidence: float = 0.6

    w_recency: float = 0.4
    w_access: float = 0.35
    w_frequency: float = 0.25
    max_access_baseline: int = 50
    relevance_threshold: float = 0.3
    prune_days: float = 45
    decay_calibration: str = "standard"
    due_shards: int = 4
    night_backend: str = "memory"
    agentcore_memories: str = "[]"
    agentcore_ignored_roles: str = ""
    access_window_hours: int = 25

    distiller: str = "model"
    bedrock_model_id: str = ""
    distil_max_tokens: int = 4000
    summarise_model_id: str = ""
    summarise_max_tokens: int = 2000
    guardrail_id: str = ""
    embedding_model_id: str = "amazon.titan-embed-text-v2:0"
    embedding_dimensions: int = 512

    pii_unsupported_language: str = "rules"
    pii_types: str = ""
    pii_min_score: float = 0.5
    pii_allow: str = ""
    scrub_transcript: bool = False

    confirmation_threshold: int = 3
    require_distinct_users: bool = False
    min_fact_confidence: float = 0.7
    fact_floor: float = 0.0
    semantic_ttl_days: int = 270
    judge_model_id: str = ""

    procedure_min_uses: int = 3
    procedure_min_success: float = 0.6
    procedure_stale_days: int = 60
    procedure_trial_share: float = 1.0
    procedure_floor: float = 0.0
    task_type_aliases: str = "{}"
    procedure_reviewer_agents: str = "{}"
    caller_auth: str = "platform"
    canary_storage_probe: bool = True

    bootstrap_budget_ms: int = 1500
    max_episodes: int = 3
    max_facts: int = 5
    max_context_tokens: int = 2000
    episode_floor: float = 0.0
    context_days: int = 7
    prefetch_minutes: int = 60
    tiers_by_task_type: str = "{}"
    shared_agents: str = "{}"

    def json_setting(self, name: str) -> dict[str, object]:
        """A setting that is a JSON object, decoded. Raises ConfigurationError naming it."""
        try:
            value = json.loads(getattr(self, name))
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ConfigurationError(f"{ENVIRONMENT_PREFIX}{name.upper()} must be a JSON object")
        return value


class CanarySettings(BaseModel):
    """What the canary alone is told: where bootstrap is."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    bootstrap_function: str
    bootstrap_url: str


def canary_settings() -> CanarySettings:
    """What this process is told as the canary. Raises ConfigurationError naming what is missing."""
    import os

    names = {name: environment_variable(name) for name in ("bootstrapFunction", "bootstrapUrl")}
    missing = [variable for variable in names.values() if variable not in os.environ]
    if missing:
        raise ConfigurationError(f"the canary needs {' and '.join(missing)}; its stack does not set it")
    found = {name: os.environ[variable] for name, variable in names.items()}
    return CanarySettings(bootstrap_function=found["bootstrapFunction"], bootstrap_url=found["bootstrapUrl"])


def settings_from(environment: Mapping[str, str]) -> Settings:
    """Read the settings from *environment* (names: contract.environment_variable)."""
    found = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise ConfigurationError(f"{ENVIRONMENT_PREFIX}{str(first['loc'][0]).upper()}: {first['msg']}") from None


def settings_from_json(text: str, deployment: str) -> Settings:
    """Read the settings that *deployment* stores for its operators: the variables, with their prefix or without."""
    try:
        stored = json.loads(text)
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise ConfigurationError(f"operator-settings of {deployment!r} is not JSON: deploy it again")
    named = {str(name).removeprefix(ENVIRONMENT_PREFIX): str(value) for name, value in stored.items()}
    return settings_from({ENVIRONMENT_PREFIX + name: value for name, value in named.items()})


@cache
def settings() -> Settings:
    """The settings of this process."""
    import os

    return settings_from(os.environ)
