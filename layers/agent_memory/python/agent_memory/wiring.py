"""The composition root: the only module that builds adapters, each when it is first asked for.

Adapters are imported inside the properties so that a function loads only what it calls (bootstrap must start fast).
"""

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from agent_memory.domain.decay import DecayRules
from agent_memory.domain.errors import AgentMemoryError, ConfigurationError
from agent_memory.domain.keys import tenant_identifier
from agent_memory.domain.retention import RetentionRules
from agent_memory.settings import Settings, settings, settings_from

if TYPE_CHECKING:
    from agent_memory.aws.bus import EventBus
    from agent_memory.aws.chat_model import BedrockChatModel
    from agent_memory.aws.claims import S3Claims
    from agent_memory.aws.comprehend import ComprehendDetector
    from agent_memory.aws.embeddings import BedrockEmbedder
    from agent_memory.aws.episodes import DynamoEpisodes
    from agent_memory.aws.ledger import DynamoLedger
    from agent_memory.aws.machines import ConsolidationMachine
    from agent_memory.aws.queues import DeadLetters, RefusedQueue
    from agent_memory.aws.registry import TenantRegistry
    from agent_memory.aws.remote import BootstrapFunction, ClientEvents, Clients, SsmDirectory, TranscriptUploads
    from agent_memory.aws.tenancy import TenantSessions
    from agent_memory.aws.user_refs import SecretUserRefs
    from agent_memory.domain.distillery import Distillery
    from agent_memory.domain.privacy import Policy
    from agent_memory.domain.recall_request import RecallRules

MAX_CACHED_TENANTS = 64


class TenantServices:
    """What one tenant's credentials can reach."""

    def __init__(self, services: "Services", tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self._services = services

    def _client(self, name: str) -> Any:
        return self._services.sessions.client(self.tenant_id, name)

    @cached_property
    def episodes(self) -> "DynamoEpisodes":
        from agent_memory.aws.episodes import DynamoEpisodes

        s = self._services.settings
        return DynamoEpisodes(
            self._client("dynamodb"),
            table=s.episodes_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            due_shards=s.due_shards,
        )

    @cached_property
    def ledger(self) -> "DynamoLedger":
        from agent_memory.aws.ledger import DynamoLedger

        s = self._services.settings
        return DynamoLedger(
            self._client("dynamodb"), table=s.ledger_table, episodes_table=s.episodes_table, tenant_id=self.tenant_id
        )

    @cached_property
    def claims(self) -> "S3Claims":
        from agent_memory.aws.claims import S3Claims

        s = self._services.settings
        return S3Claims(
            self._client("s3"), bucket=s.transcripts_bucket, parked_bucket=s.parked_bucket, tenant_id=self.tenant_id
        )


class Services:
    """Everything a function may ask for. One per process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._tenants: OrderedDict[str, TenantServices] = OrderedDict()

    def now(self) -> int:
        """Whole epoch seconds UTC; rules take it as an argument."""
        return int(time.time())

    def clock(self) -> float:
        """Monotonic seconds, for deadlines."""
        return time.monotonic()

    @cached_property
    def recall_rules(self) -> "RecallRules":
        """The deployment's part in a recall."""
        from agent_memory.domain.recall_request import recall_rules

        s = self.settings
        return recall_rules(
            budget_ms=s.bootstrap_budget_ms,
            max_episodes=s.max_episodes,
            max_context_tokens=s.max_context_tokens,
            episode_floor=s.episode_floor,
            tiers_by_task_type=s.json_setting("tiers_by_task_type"),
            shared_agents=s.json_setting("shared_agents"),
        )

    def publish(self, detail_type: str, detail: Mapping[str, object]) -> None:
        """Put one of our own events on the bus; opening it may be refused as well, so it happens here."""
        self.bus.publish(detail_type, detail)

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
            parked_days=s.parked_days,
            transcript_days=s.transcript_days,
        )

    def tenant(self, tenant_id: str) -> TenantServices:
        """The services of one tenant, on credentials that carry its session tag."""
        tenant_id = tenant_identifier(tenant_id)
        if tenant_id not in self._tenants:
            self._tenants[tenant_id] = TenantServices(self, tenant_id)
            while len(self._tenants) > MAX_CACHED_TENANTS:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(tenant_id)
        return self._tenants[tenant_id]

    def _named(self, name: str) -> str:
        value: str = getattr(self.settings, name)
        if not value:
            raise ConfigurationError(f"this function needs AGENT_MEMORY_{name.upper()}; its stack does not set it")
        return value

    @cached_property
    def sessions(self) -> "TenantSessions":
        from agent_memory.aws.tenancy import TenantSessions

        return TenantSessions(role_arn=self.settings.tenant_role)

    @cached_property
    def embedder(self) -> "BedrockEmbedder":
        from agent_memory.aws.embeddings import BedrockEmbedder

        s = self.settings
        return BedrockEmbedder(
            self.sessions.own_client("bedrock-runtime"), model=s.embedding_model_id, dimensions=s.embedding_dimensions
        )

    @cached_property
    def detector(self) -> "ComprehendDetector":
        from agent_memory.aws.comprehend import ComprehendDetector

        return ComprehendDetector(self.sessions.own_client("comprehend"))

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

    @cached_property
    def chat_model(self) -> "BedrockChatModel":
        from agent_memory.aws.chat_model import BedrockChatModel

        return BedrockChatModel(self._named("bedrock_model_id"))

    @cached_property
    def distillery(self) -> "Distillery":
        """The deployment's way to distil a run."""
        from agent_memory.domain.distillery import Distillery
        from agent_memory.domain.privacy import scrub_texts

        s = self.settings
        model = self.chat_model if s.distiller == "model" else None
        scrub = (
            (lambda texts: scrub_texts(texts, self.detector, self.privacy_policy).texts) if s.scrub_transcript else None
        )
        return Distillery(model, max_tokens=s.distil_max_tokens, min_confidence=s.run_min_confidence, scrub=scrub)

    @cached_property
    def user_refs(self) -> "SecretUserRefs":
        from agent_memory.aws.user_refs import SecretUserRefs

        return SecretUserRefs(self.sessions.own_client("secretsmanager"), secret=self._named("user_key_secret"))

    @cached_property
    def bus(self) -> "EventBus":
        from agent_memory.aws.bus import EventBus

        return EventBus(self.sessions.own_client("events"), bus=self._named("bus"))

    @cached_property
    def machine(self) -> "ConsolidationMachine":
        from agent_memory.aws.machines import ConsolidationMachine

        return ConsolidationMachine(self.sessions.own_client("stepfunctions"), arn=self._named("consolidation_machine"))

    @cached_property
    def refused(self) -> "RefusedQueue":
        from agent_memory.aws.queues import RefusedQueue

        return RefusedQueue(self.sessions.own_client("sqs"), url=self._named("refused_queue"))

    @cached_property
    def registry(self) -> "TenantRegistry":
        from agent_memory.aws.registry import TenantRegistry

        return TenantRegistry(self.sessions.own_client("dynamodb"), table=self.settings.ledger_table)


@cache
def services() -> Services:
    """The services of this process."""
    return Services(settings())


def open_for_recall() -> None:
    """Open, while the function is being loaded, what every recall needs: its first caller has a deadline.

    A deployment that lacks a setting is left to the first call, which says so.
    """
    with suppress(AgentMemoryError):
        own = services()
        _ = own.recall_rules, own.embedder, own.bus, own.sessions.own_client("dynamodb")


class Deployment:
    """One deployment as agents and operators reach it: with their own credentials, by the names in SSM."""

    def __init__(self, environment: str, *, timeout_seconds: float = 10.0) -> None:
        self.environment = environment
        self._timeout_seconds = timeout_seconds

    @cached_property
    def clients(self) -> "Clients":
        from agent_memory.aws.remote import Clients

        return Clients(timeout_seconds=self._timeout_seconds)

    @cached_property
    def directory(self) -> "SsmDirectory":
        from agent_memory.aws.remote import SsmDirectory

        return SsmDirectory(self.clients.get("ssm"), environment=self.environment)

    @cached_property
    def bootstrap(self) -> "BootstrapFunction":
        from agent_memory.aws.remote import BootstrapFunction

        return BootstrapFunction(self.clients.get("lambda"), function=self.directory.name("bootstrap-function"))

    def events(self, tenant_id: str) -> "ClientEvents":
        """The bus, under the source of *tenant_id*."""
        from agent_memory.aws.remote import ClientEvents

        return ClientEvents(
            self.clients.get("events"), bus=self.directory.name("bus"), tenant_id=tenant_id, pause=time.sleep
        )

    def uploads(self, tenant_id: str) -> "TranscriptUploads":
        """The transcripts bucket, under the prefix of *tenant_id*."""
        from agent_memory.aws.remote import TranscriptUploads

        bucket = self.directory.name("transcripts-bucket")
        return TranscriptUploads(self.clients.get("s3"), bucket=bucket, tenant_id=tenant_id)

    def dead_letters(self, queue: str) -> "DeadLetters":
        """The dead letters of *queue* (intake, retrievals)."""
        from agent_memory.aws.queues import DeadLetters

        url, home = self.directory.name(f"{queue}-dead-letters"), self.directory.name(f"{queue}-queue")
        return DeadLetters(self.clients.get("sqs"), url=url, home=home)

    @cached_property
    def services(self) -> Services:
        """What the functions of this deployment see, for operators: built from their stored settings."""
        try:
            stored = json.loads(self.directory.name("operator-settings"))
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise ConfigurationError(f"operator-settings of {self.environment!r} is not JSON: deploy it again")
        return Services(settings_from({str(k): str(v) for k, v in stored.items()}))

    def now(self) -> int:
        """Whole epoch seconds UTC."""
        return int(time.time())

    def pause(self, seconds: float) -> None:
        """Wait; here because rules and commands do not own the clock."""
        time.sleep(seconds)
