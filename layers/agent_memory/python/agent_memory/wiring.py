"""The composition root of the functions: builds adapters, each when it is first asked for, as deployment.py does for
those outside. No other module builds any.

Adapters are imported inside the properties so that a function loads only what it calls (bootstrap must start fast).
"""

import random
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING

from agent_memory.domain.callers import canary_caller
from agent_memory.domain.errors import AgentMemoryError, ConfigurationError
from agent_memory.domain.keys import tenant_identifier
from agent_memory.settings import Settings, settings
from agent_memory.wiring_rules import DeploymentRules
from agent_memory.wiring_tenant import TenantServices

if TYPE_CHECKING:
    from agent_memory.aws.agent_notes import StoredRegistry
    from agent_memory.aws.bus import EventBus
    from agent_memory.aws.callers import CallerRegistry
    from agent_memory.aws.chat_model import BedrockChatModel
    from agent_memory.aws.comprehend import ComprehendDetector
    from agent_memory.aws.embeddings import BedrockEmbedder
    from agent_memory.aws.guardrail import BedrockGuardrail
    from agent_memory.aws.knowledge import BedrockKnowledge
    from agent_memory.aws.machines import ConsolidationMachine, IngestionMachine, LifecycleMachine
    from agent_memory.aws.night_files import S3NightFiles
    from agent_memory.aws.queues import RefusedQueue
    from agent_memory.aws.registry import DirtyRegistry, IngestionDesk, TenantRegistry
    from agent_memory.aws.tenancy import TenantSessions
    from agent_memory.aws.user_refs import SecretUserRefs
    from agent_memory.domain.callers import Caller
    from agent_memory.domain.distillery import Distillery

MAX_CACHED_TENANTS = 64


class Services(DeploymentRules):
    """Everything a function may ask for. One per process."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._tenants: OrderedDict[str, TenantServices] = OrderedDict()

    def now(self) -> int:
        """Whole epoch seconds UTC; rules take it as an argument."""
        return int(time.time())

    def clock(self) -> float:
        """Monotonic seconds, for deadlines."""
        return time.monotonic()

    def rest(self, longest: float) -> None:
        """Wait for a random part of *longest* seconds, so that those who collided do not meet again."""
        time.sleep(longest * random.random())  # noqa: S311 - spreads callers out, guards nothing

    def publish(self, detail_type: str, detail: Mapping[str, object]) -> None:
        """Put one of our own events on the bus; opening it may be refused as well, so it happens here."""
        self.bus.publish(detail_type, detail)

    def tenant(self, tenant_id: str) -> TenantServices:
        """The services of one tenant, on credentials that carry its session tag."""
        tenant_id = tenant_identifier(tenant_id)
        if tenant_id not in self._tenants:
            self._tenants[tenant_id] = TenantServices(tenant_id, sessions=self.sessions, settings=self.settings)
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
    def erasure_sessions(self) -> "TenantSessions":
        """Credentials that may delete rows and versions of objects, of one tenant."""
        from agent_memory.aws.tenancy import TenantSessions

        return TenantSessions(role_arn=self._named("erasure_role"))

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

    def scrubbed(self, texts: Sequence[str]) -> list[str]:
        """*texts* without personal data and secrets, in their order."""
        from agent_memory.domain.privacy import scrub_texts

        return list(scrub_texts(texts, self.detector, self.privacy_policy).texts)

    @cached_property
    def chat_model(self) -> "BedrockChatModel":
        from agent_memory.aws.chat_model import BedrockChatModel

        return BedrockChatModel(self._named("bedrock_model_id"))

    @cached_property
    def judge(self) -> "BedrockChatModel | None":
        """The model that is asked about close calls between two facts; None when the deployment names none."""
        from agent_memory.aws.chat_model import BedrockChatModel

        return BedrockChatModel(self.settings.judge_model_id) if self.settings.judge_model_id else None

    @cached_property
    def summariser(self) -> "BedrockChatModel | None":
        """The model that merges memories; None when the deployment names none."""
        from agent_memory.aws.chat_model import BedrockChatModel

        model = self.settings.summarise_model_id
        return BedrockChatModel(model) if model else None

    @cached_property
    def guardrail(self) -> "BedrockGuardrail | None":
        """The guardrail that every merge passes; None when the deployment names none."""
        from agent_memory.aws.guardrail import BedrockGuardrail

        guardrail = self.settings.guardrail_id
        return (
            BedrockGuardrail(self.sessions.own_client("bedrock-runtime"), guardrail_id=guardrail) if guardrail else None
        )

    @cached_property
    def knowledge(self) -> "BedrockKnowledge":
        from agent_memory.aws.knowledge import BedrockKnowledge

        return BedrockKnowledge(
            agent=self.sessions.own_client("bedrock-agent"),
            runtime=self.sessions.own_client("bedrock-agent-runtime"),
            knowledge_base_id=self._named("knowledge_base_id"),
            data_source_id=self._named("data_source_id"),
            bucket=self.settings.knowledge_bucket,
        )

    @cached_property
    def dirty(self) -> "DirtyRegistry":
        from agent_memory.aws.registry import DirtyRegistry

        return DirtyRegistry(self.sessions.own_client("dynamodb"), table=self.settings.ledger_table)

    @cached_property
    def ingestion_desk(self) -> "IngestionDesk":
        from agent_memory.aws.registry import IngestionDesk

        return IngestionDesk(self.sessions.own_client("dynamodb"), table=self.settings.ledger_table)

    def known_caller(self, principal: str) -> "Caller | None":
        """What the registry says of a principal. The canary speaks for its own tenants by its role alone."""
        if self.settings.canary_role and principal == self.settings.canary_role:
            return canary_caller(principal)
        return self.callers.known(principal)

    @cached_property
    def callers(self) -> "CallerRegistry":
        from agent_memory.aws.callers import CallerRegistry

        return CallerRegistry(
            self.sessions.own_client("dynamodb"), table=self.settings.ledger_table, clock=time.monotonic
        )

    @cached_property
    def stored(self) -> "StoredRegistry":
        from agent_memory.aws.agent_notes import StoredRegistry

        return StoredRegistry(self.sessions.own_client("dynamodb"), table=self.settings.ledger_table)

    @cached_property
    def night_files(self) -> "S3NightFiles":
        from agent_memory.aws.night_files import S3NightFiles

        return S3NightFiles(self.sessions.own_client("s3"), bucket=self._named("archive_bucket"))

    @cached_property
    def distillery(self) -> "Distillery":
        """The deployment's way to distil a run."""
        from agent_memory.domain.distillery import Distillery

        s = self.settings
        model = self.chat_model if s.distiller == "model" else None
        scrub = self.scrubbed if s.scrub_transcript else None
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
    def ingestion_machine(self) -> "IngestionMachine":
        from agent_memory.aws.machines import IngestionMachine

        return IngestionMachine(self.sessions.own_client("stepfunctions"), arn=self._named("ingestion_machine"))

    @cached_property
    def lifecycle_machine(self) -> "LifecycleMachine":
        from agent_memory.aws.machines import LifecycleMachine

        return LifecycleMachine(self.sessions.own_client("stepfunctions"), arn=self._named("lifecycle_machine"))

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
        _ = own.recall_rules, own.embedder, own.bus, own.sessions.own_client("dynamodb"), own.knowledge
