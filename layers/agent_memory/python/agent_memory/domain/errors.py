"""The one exception tree. Messages name ids, fields, values of settings and rules; never content."""


class AgentMemoryError(Exception):
    """Base of everything this product raises on purpose."""


class ConfigurationError(AgentMemoryError):
    """The deployment lacks something or contradicts itself; the message names the setting."""


class UnknownDeploymentError(ConfigurationError):
    """There is no deployment of that name where the caller looks."""

    def __init__(self, environment: str, rule: str) -> None:
        super().__init__(f"no agent-memory deployment called {environment!r} here: {rule}")
        self.environment = environment


class RefusedInputError(AgentMemoryError):
    """Outside text breaks a rule. *field* and *rule* are safe to log and to show; the value is not kept."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field
        self.rule = rule


class CrossTenantError(AgentMemoryError):
    """A key of another tenant reached an adapter: a defect or an attack, always counted."""


class UnreadableItemError(AgentMemoryError):
    """A stored item has a shape that this release does not know."""


class RetryableError(AgentMemoryError):
    """Worth another try later: throttling, time-outs, a service that is down. *why*: `throttled`, `timeout`,
    `unreachable`, or `error` for what the service itself got wrong."""

    why = "error"

    def __init__(self, message: str = "", *, why: str | None = None) -> None:
        super().__init__(message)
        self.why = why or self.why


class ModelBusyError(RetryableError):
    """A model (chat, embedding or detector) throttled, timed out or could not be reached."""

    why = "throttled"


class StoreBusyError(RetryableError):
    """A store throttled, timed out or could not be reached."""

    why = "throttled"


class AccessRefusedError(AgentMemoryError):
    """IAM refused. Never taken for "nothing found"; the message names the action or service."""


class UnsupportedLanguageError(AgentMemoryError):
    """The detector of personal data does not know this language; no finding means nothing."""


class ModelAnswerError(AgentMemoryError):
    """The model answered, but not with what was asked for. *reason* is a short code such as
    `truncated`, `not_json`, `wrong_schema`, `stop_reason:max_tokens`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unusable model answer: {reason}")
        self.reason = reason


class TranscriptError(AgentMemoryError):
    """A transcript can't be read. *reason*: `transcript_missing`, `not_gzip`, `not_json`, `no_messages`, ..."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"unreadable transcript: {reason}")
        self.reason = reason
