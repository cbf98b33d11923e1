"""One typed, validated deployment: an environment of cdk.json and every `-c key=value`, checked together."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

import aws_cdk as cdk
from agent_memory.contract import ENVIRONMENT_PREFIX, environment_variable
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from stacks import agentcore_rules, rules
from stacks.function_keys import ERASURE_KEYS, RUNTIME_KEYS
from stacks.names import Names
from stacks.setting_types import Count, Days, JsonList, JsonText, KnowledgeId, ModelId, Share, Some, as_text, json_text

# The parameters that the knowledge stack publishes for the other stacks.
KNOWLEDGE_IDS: Final = {"knowledgeBaseId": "knowledge-base-id", "dataSourceId": "data-source-id"}


class Deployment(BaseModel):
    """What `cdk deploy -c env=... -c key=value` asks for. Field names are the context keys in snake_case."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
    )

    env: Literal["dev", "staging", "prod", "local"] = "dev"
    preset: Literal["support", "sales", "general", "operations", "legal"] = "general"

    # Keeping and forgetting.
    memory_ttl_days: Days = 90
    summary_ttl_days: Annotated[int, Field(ge=30, le=60)] = 45
    semantic_ttl_days: Annotated[int, Field(ge=180, le=366)] = 270
    failed_retention_days: Count = 7
    max_episodes_per_agent: Some = 500
    parked_days: Days = 30
    parked_alarm_days: Days = 7
    undo_days: Days = 30
    context_days: Days = 7
    prefetch_minutes: Annotated[int, Field(ge=1, le=1440)] = 60
    transcript_days: Days = 3
    intake_days: Annotated[int, Field(ge=1, le=14)] = 1
    dead_letter_days: Annotated[int, Field(ge=1, le=14)] = 4
    # A night comes once a day: with less, TTL could take what no night has archived.
    archive_before_expiry_hours: Annotated[int, Field(ge=24, le=720)] = 72
    erasure_settle_seconds: Annotated[int, Field(ge=1, le=86_400)] = 120
    agentcore_settle_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900

    # Relevance and the nightly work.
    w_recency: Share = 0.4
    w_access: Share = 0.35
    w_frequency: Share = 0.25
    max_access_baseline: Some = 50
    relevance_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.3
    prune_days: Annotated[float, Field(gt=0, le=3650)] = 45
    decay_calibration: Literal["standard", "exact"] = "standard"
    due_shards: Annotated[int, Field(ge=1, le=256)] = 4
    consolidation_batch_size: Annotated[int, Field(ge=2, le=100)] = 10
    max_removed_share: Share = 0.2
    max_removed_share_ceiling: Share = 0.5
    blast_radius_from: Count = 50
    lifecycle_hour_utc: Annotated[int, Field(ge=0, le=23)] = 2
    lifecycle_limit_hours: Annotated[int, Field(ge=1, le=24)] = 1
    access_window_hours: Annotated[int, Field(ge=24, le=168)] = 25
    agentcore_memories: JsonList = "[]"
    agentcore_ignored_roles: Annotated[str, Field(pattern=r"^[A-Za-z0-9+=,.@:/_ -]*$", max_length=1000)] = ""
    agentcore_resource_type: Annotated[str, Field(pattern=r"^AWS::[A-Za-z0-9]+::[A-Za-z0-9]+$")] = (
        "AWS::BedrockAgentCore::Memory"
    )

    # Distillation and models.
    distiller: Literal["model", "agent", "extractive"] = "model"
    bedrock_geo: Literal["us", "eu", "au", "jp", "in", "global"] = "us"
    bedrock_model_id: ModelId = ""
    summarise_model_id: ModelId = ""
    distil_max_tokens: Some = 4000
    summarise_max_tokens: Some = 2000
    run_min_confidence: Share = 0.6
    embedding_model_id: ModelId = "amazon.titan-embed-text-v2:0"
    embedding_dimensions: Some = 512
    guardrail_id: ModelId = ""

    # Privacy.
    pii_unsupported_language: Literal["rules", "park"] = "rules"
    pii_types: str = ""
    pii_min_score: Share = 0.5
    pii_allow: str = ""
    scrub_transcript: bool = False
    quarantine_burst: Some = 20

    # Facts and procedures.
    confirmation_threshold: Some = 3
    require_distinct_users: bool = False
    min_fact_confidence: Share = 0.7
    fact_floor: Share = 0.0
    judge_model_id: ModelId = ""
    ingestion_minutes: Annotated[int, Field(ge=0, le=1440)] = 15
    knowledge_base_id: KnowledgeId = ""
    data_source_id: KnowledgeId = ""
    procedure_min_uses: Count = 3
    procedure_min_success: Share = 0.6
    procedure_stale_days: Days = 60
    procedure_trial_share: Share = 1.0
    procedure_floor: Share = 0.0
    task_type_aliases: JsonText = "{}"
    procedure_reviewer_agents: JsonText = "{}"
    review_email: Annotated[str, Field(pattern=r"^$|^[^@\s]+@[^@\s]+$")] = ""

    # Recall.
    bootstrap_budget_ms: Annotated[int, Field(ge=100, le=25_000)] = 1500
    max_episodes: Annotated[int, Field(ge=0, le=5)] = 3
    max_facts: Annotated[int, Field(ge=0, le=20)] = 5
    max_context_tokens: Some = 2000
    episode_floor: Share = 0.0
    episode_index: Literal["exact", "vector"] = "exact"
    tiers_by_task_type: JsonText = "{}"
    shared_agents: JsonText = "{}"
    caller_auth: Literal["principal", "platform"] = "platform"
    canary_storage_probe: bool = True

    # Working memory, kept by the client.
    compress_from_messages: Some = 30
    keep_messages: Some = 15
    max_messages: Some = 40

    # The house.
    retain_data: bool = False
    empty_on_destroy: bool = True
    deletion_protection: bool = False
    pitr_days: Annotated[int, Field(ge=0, le=35)] = 14
    log_retention_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 180, 365, 400, 545, 731] = 30
    intake_concurrency: Annotated[int, Field(ge=2, le=1000)] = 10
    alarm_email: Annotated[str, Field(pattern=r"^$|^[^@\s]+@[^@\s]+$")] = ""
    encryption_key_arn: Annotated[
        str, Field(pattern=r"^$|^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+$")
    ] = ""
    layer_platform: Literal["lambda", "host"] = "lambda"
    bootstrap_roles: bool = True

    @field_validator("*", mode="before")
    @classmethod
    def _as_typed(cls, value: Any, info: ValidationInfo) -> Any:
        """`-c` delivers text, or what JSON made of it; true is not the number 1, and blank is not a number."""
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError("must not be true or false")
        if field.annotation is int and isinstance(value, str):
            return value.strip()
        if field.description == "a JSON object":
            return json_text(value, dict, "object")
        if field.description == "a JSON list":
            return json_text(value, list, "list")
        if info.field_name == "log_retention_days" and str(value).strip().isdigit():
            return int(value)
        return value

    @property
    def names(self) -> Names:
        return Names(env=self.env)

    @property
    def distil_model(self) -> str:
        """Inference profile of the distiller: accepts a forced tool choice, unlike its successor."""
        return self.bedrock_model_id or f"{self.bedrock_geo}.anthropic.claude-sonnet-5"

    @property
    def summarise_model(self) -> str:
        """Inference profile that merges memories; empty in a deployment that asks no model."""
        if self.summarise_model_id or self.distiller != "model":
            return self.summarise_model_id
        return f"{self.bedrock_geo}.anthropic.claude-haiku-5-5"

    @property
    def makes_knowledge_base(self) -> bool:
        """Whether the knowledge stack makes one; a deployment that names its own does not."""
        return not self.knowledge_base_id

    def knowledge_ids(self) -> dict[str, str]:
        """Ids of Knowledge Base and data source; only in a stack that looks them up where they are not given."""
        if self.makes_knowledge_base:
            return {key: cdk.Fn.ref(looked_up(key)) for key in KNOWLEDGE_IDS}
        return {"knowledgeBaseId": self.knowledge_base_id, "dataSourceId": self.data_source_id}

    @property
    def knowledge_base_arn(self) -> str:
        return self.names.arn("bedrock", f"knowledge-base/{self.knowledge_ids()['knowledgeBaseId']}")

    @property
    def guardrail_arn(self) -> str:
        """The guardrail that guardrailId names, without its version."""
        named, _, version = self.guardrail_id.rpartition(":")
        guardrail = named if named and (version.isdigit() or version == "DRAFT") else self.guardrail_id
        return guardrail if guardrail.startswith("arn:") else self.names.arn("bedrock", f"guardrail/{guardrail}")

    def function_environment(self) -> dict[str, str]:
        """The AGENT_MEMORY_* variables of a function: what differs from the defaults that the functions have as well,
        because Lambda takes 4 KB of variables at most."""
        unasked = {environment_variable(key) for key in self.agentcore()}
        defaults = {
            environment_variable(key): as_text(type(self).model_fields[_FIELDS[key]].default) for key in RUNTIME_KEYS
        }
        told = self.runtime_environment().items()
        return {key: value for key, value in told if key not in unasked and defaults.get(key) != value}

    @property
    def agentcore_entries(self) -> list[dict[str, Any]]:
        """The entries of agentcoreMemories, which the rules have looked at."""
        entries: list[dict[str, Any]] = json.loads(self.agentcore_memories)
        return entries

    @property
    def agentcore_arns(self) -> list[str]:
        """The ARNs of the memories that agentcoreMemories names, each once."""
        named = dict.fromkeys((one["memory_id"], one.get("region") or cdk.Aws.REGION) for one in self.agentcore_entries)
        root = f"arn:{cdk.Aws.PARTITION}:bedrock-agentcore"
        return [f"{root}:{region}:{cdk.Aws.ACCOUNT_ID}:memory/{memory_id}" for memory_id, region in named]

    def agentcore(self) -> dict[str, str]:
        """What is told of AgentCore, by setting; blank where no memory of it is named."""
        names, named = self.names, bool(self.agentcore_entries)
        return {
            "nightBackend": "memory",
            "agentcoreMemories": self.agentcore_memories,
            "agentcoreIgnoredRoles": self.agentcore_ignored_roles,
            "agentcoreBucket": names.agentcore_bucket if named else "",
            "trailBucket": names.trail_bucket if named else "",
            "agentcoreMachine": names.agentcore_machine_arn if named else "",
        }

    def operator_settings(self) -> dict[str, str]:
        """The same for the operators' parameter, which holds 4 KB: without the prefix that all names share."""
        return {key.removeprefix(ENVIRONMENT_PREFIX): value for key, value in self.runtime_environment().items()}

    def runtime_environment(self) -> dict[str, str]:
        """Every AGENT_MEMORY_* variable, as text: what the operators' command is told."""
        values = {key: getattr(self, _FIELDS[key]) for key in RUNTIME_KEYS}
        models = {"bedrockModelId": self.distil_model, "summariseModelId": self.summarise_model}
        values |= {"environment": self.env, **models, **self.names.for_functions()}
        values |= self.agentcore() | self.knowledge_ids()
        return {environment_variable(key): as_text(value) for key, value in sorted(values.items())}

    def working_memory(self) -> dict[str, int]:
        """The rules of working memory, as agents read them."""
        return {"trigger": self.compress_from_messages, "keep": self.keep_messages, "ceiling": self.max_messages}

    def erasure_environment(self) -> dict[str, str]:
        """What the functions of erasures are told beside what every function is."""
        values = {key: getattr(self, _FIELDS[key]) for key in ERASURE_KEYS} | self.names.for_erasures()
        told = sorted((values | agentcore_rules.for_erasures(self)).items())
        return {environment_variable(key): as_text(value) for key, value in told}

    def warnings(self) -> list[str]:
        """What is allowed and probably not meant."""
        return rules.warnings(self)


_FIELDS: Final = {field.alias or name: name for name, field in Deployment.model_fields.items()}
KEYS: Final = tuple(_FIELDS)


def looked_up(key: str) -> str:
    """Logical id of the CloudFormation parameter that looks an id of the Knowledge Base up."""
    return key[0].upper() + key[1:]


def deployment_from(context: Mapping[str, Any], environments: Mapping[str, Mapping[str, Any]]) -> Deployment:
    """Build the deployment of *context* (`-c` and top-level keys) over its section of *environments*.

    Raises DeploymentError: one line with key, value and rule."""
    environment = rules.environment_of(context, environments)
    asked = {**environments[environment], **{k: v for k, v in context.items() if not rules.is_of_cdk(k)}}
    rules.refuse_unknown(asked, KEYS)
    asked = {**rules.preset_of(asked), **rules.weights_of(asked), "env": environment}
    try:
        deployment = Deployment.model_validate(asked)
    except ValidationError as error:
        raise rules.as_line(error, asked) from None
    for rule in RULES:
        rule(deployment)
    return deployment


RULES: Final[tuple[Callable[[Deployment], None], ...]] = (
    rules.weights_sum_to_one,
    rules.threshold_can_be_crossed,
    rules.dimensions_fit_the_model,
    rules.production_keeps_its_data,
    rules.messages_fit_the_ceiling,
    rules.removal_shares_are_ordered,
    rules.knowledge_base_is_named_whole,
    rules.episode_index_is_built,
    agentcore_rules.memories_can_be_kept,
)
