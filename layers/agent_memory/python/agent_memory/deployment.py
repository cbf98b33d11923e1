"""The composition root of those outside: agents and operators, who know it by name and use their own credentials.

What only operators need is imported when they ask for it: an agent, and a command's help, must start fast.
"""

import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from agent_memory.domain.errors import ConfigurationError
from agent_memory.domain.json_text import read_json

if TYPE_CHECKING:
    from agent_memory.aws.erasure_function import ErasureFunction
    from agent_memory.aws.queues import DeadLetters
    from agent_memory.aws.regression_function import RegressionFunction
    from agent_memory.aws.remote import ClientEvents, Clients, Recalls, SsmDirectory, TranscriptUploads
    from agent_memory.aws.reviews import Reviews
    from agent_memory.aws.signed_url import SignedUrl
    from agent_memory.wiring import Services
    from agent_memory.wiring_agentcore import AgentCoreServices
    from agent_memory.wiring_merging import MergeServices

JUDGE_SECONDS = 300.0
DESK_SECONDS = 910.0


class Deployment:
    """One deployment as agents and operators reach it: with their own credentials, by the names in SSM."""

    def __init__(self, environment: str, *, timeout_seconds: float = 10.0, backend: str = "memory") -> None:
        self.environment = environment
        self.backend = backend
        self.timeout_seconds = timeout_seconds

    @cached_property
    def clients(self) -> "Clients":
        from agent_memory.aws.remote import Clients

        return Clients(timeout_seconds=self.timeout_seconds)

    @cached_property
    def directory(self) -> "SsmDirectory":
        from agent_memory.aws.remote import SsmDirectory

        return SsmDirectory(self.clients.get("ssm"), environment=self.environment)

    @property
    def callers_are_proven(self) -> bool:
        """Whether this deployment takes calls through its signed URLs only (callerAuth=principal)."""
        return self.directory.names.get("caller-auth") == "principal"

    @cached_property
    def bootstrap(self) -> "Recalls":
        """The bootstrap function, called the way that the deployment knows its callers by."""
        from agent_memory.aws.remote import BOOTSTRAP, BootstrapFunction

        if self.callers_are_proven:
            return self._signed("bootstrap-url", BOOTSTRAP)
        return BootstrapFunction(self.clients.get("lambda"), function=self.directory.name("bootstrap-function"))

    @cached_property
    def reviews(self) -> "Reviews":
        """The review function, called the way that the deployment knows its callers by."""
        from agent_memory.aws.reviews import REVIEWS, DirectReviews

        if self.callers_are_proven:
            return self._signed("review-url", REVIEWS)
        function = self.directory.name("review-function")
        return DirectReviews(self.clients.get("lambda"), function=function, identity=self.clients.identity)

    def _signed(self, parameter: str, function: str) -> "SignedUrl":
        from agent_memory.aws.signed_url import SignedUrl

        url = self.directory.name(parameter)
        return SignedUrl(self.clients.session, url=url, timeout_seconds=self.timeout_seconds, function=function)

    @cached_property
    def regression_function(self) -> "RegressionFunction":
        """The function that adds and asks regression cases; a chat model may judge, so it is waited for longer."""
        from agent_memory.aws.regression_function import RegressionFunction
        from agent_memory.aws.remote import Clients

        client = Clients(timeout_seconds=JUDGE_SECONDS).get("lambda")
        return RegressionFunction(client, function=self.directory.name("regression-function"))

    @cached_property
    def erasures(self) -> "ErasureFunction":
        """The desk of erasures, which may look into every store before it answers."""
        from agent_memory.aws.erasure_function import ErasureFunction
        from agent_memory.aws.remote import Clients

        client = Clients(timeout_seconds=DESK_SECONDS).get("lambda")
        return ErasureFunction(client, function=self.directory.name("erasure-function"))

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

    def working_memory(self) -> Mapping[str, int]:
        """The rules of working memory that this deployment recommends; none where it names none that can be read."""
        try:
            rules = read_json(self.directory.names.get("working-memory", "{}"))
        except ValueError:
            return {}
        found = rules if isinstance(rules, dict) else {}
        return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}

    @cached_property
    def agentcore_memories(self) -> Mapping[str, str]:
        """The memory of AgentCore whose reads each tenant may report, by tenant; none where none is named."""
        try:
            named = read_json(self.directory.name("agentcore-memories"))
        except ValueError:
            return {}
        found = named if isinstance(named, dict) else {}
        return {tenant_id: memory_id for tenant_id, memory_id in found.items() if isinstance(memory_id, str)}

    def dead_letters(self, queue: str) -> "DeadLetters":
        """The dead letters of *queue* (intake, retrievals, agentcore-reads). ConfigurationError: it is not deployed."""
        from agent_memory.aws.queues import DeadLetters

        if queue == "agentcore-reads" and not self.agentcore_memories:
            from agent_memory.domain.agentcore import NO_MEMORY

            raise ConfigurationError(NO_MEMORY.format(self.environment))
        url, home = self.directory.name(f"{queue}-dead-letters"), self.directory.name(f"{queue}-queue")
        return DeadLetters(self.clients.get("sqs"), url=url, home=home)

    @cached_property
    def services(self) -> "Services":
        """What the functions of this deployment see, for operators: built from their stored settings."""
        from agent_memory.settings import settings_from_json
        from agent_memory.wiring import Services

        settings = settings_from_json(self.directory.name("operator-settings"), self.environment)
        if self._is_over_agentcore:
            from agent_memory.wiring_agentcore import over_agentcore

            settings = over_agentcore(settings)
        return Services(settings)

    @property
    def _is_over_agentcore(self) -> bool:
        from agent_memory.wiring_night import AGENTCORE

        return self.backend == AGENTCORE

    @cached_property
    def night(self) -> "MergeServices":
        """What the functions of the night see, for operators."""
        if self._is_over_agentcore:
            from agent_memory.wiring_agentcore import AgentCoreServices

            return AgentCoreServices(self.services)
        from agent_memory.wiring_merging import MergeServices

        return MergeServices(self.services)

    @property
    def agentcore(self) -> "AgentCoreServices":
        """What the functions of the night over AgentCore see. Raises ConfigurationError: no memory is named."""
        from agent_memory.wiring_agentcore import AgentCoreServices

        own = AgentCoreServices(self.services)
        if not own.memories:
            from agent_memory.domain.agentcore import NO_MEMORY

            raise ConfigurationError(NO_MEMORY.format(self.environment))
        return own

    def now(self) -> int:
        """Whole epoch seconds UTC."""
        return int(time.time())

    def pause(self, seconds: float) -> None:
        """Wait; here because rules and commands do not own the clock."""
        time.sleep(seconds)
