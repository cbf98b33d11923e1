"""The one place that turns SDK errors into ours. Messages name the action and the code, never what was sent."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as SdkConnectionError

from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError, RetryableError, StoreBusyError

BUSY = frozenset(
    {
        "ConditionalRequestConflict",  # S3: another conditional write of the same key is under way
        "ExecutionLimitExceeded",
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalServiceException",
        "KMS.ThrottlingException",
        "LimitExceededException",
        "ModelErrorException",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "OperationAborted",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestExpired",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceQuotaExceededException",  # Bedrock: a quota per minute or per day
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
# Those of BUSY that are no throttling.
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_AWAY = frozenset({"ModelNotReadyException", "ServiceUnavailable", "ServiceUnavailableException"})
_LATE = frozenset({"ModelTimeoutException", "RequestTimeout", "RequestTimeoutException"})
_BROKEN = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalServiceException",
        "ModelErrorException",
    }
)
# What S3 says of a conditional write to what is there already.
THERE_ALREADY = frozenset({"PreconditionFailed", "412"})
REFUSED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "KMS.AccessDeniedException",
        "KMSAccessDeniedException",
        "NotAuthorized",
        "NotAuthorizedException",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_SERVER_FAULT = 500


def error_code(error: ClientError) -> str:
    """The service's own word for what went wrong."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def translated(
    error: BotoCoreError | ClientError, action: str, *, busy: type[RetryableError] = StoreBusyError
) -> AgentMemoryError:
    """Return our error for *error*: *busy* when a later try may work, AccessRefusedError when IAM said no."""
    if isinstance(error, ClientError):
        code = error_code(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in REFUSED:
            return AccessRefusedError(f"{action} was refused ({code})")
        if code in BUSY or status >= _SERVER_FAULT:
            return busy(f"{action} failed ({code})", why=why_busy(code))
        return AgentMemoryError(f"{action} failed ({code})")
    kind = type(error).__name__
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return AccessRefusedError(f"{action} has no credentials ({kind})")
    if isinstance(error, ReadTimeoutError):
        return busy(f"{action} was not answered in time ({kind})", why="timeout")
    if isinstance(error, SdkConnectionError | HTTPClientError | ResponseStreamingError):
        return busy(f"{action} could not reach the service ({kind})", why="unreachable")
    return AgentMemoryError(f"{action} could not be asked for ({kind})")


def why_busy(code: str) -> str:
    """The word for a service's refusal that may pass."""
    words = ((_EXPIRED, "denied"), (_AWAY, "unreachable"), (_LATE, "timeout"), (_BROKEN, "error"))
    known = next((word for codes, word in words if code in codes), None)
    return known or ("throttled" if code in BUSY else "error")


@contextmanager
def translating(action: str, *, busy: type[RetryableError] = StoreBusyError) -> Iterator[None]:
    """Raise SDK errors of the block as ours. The cause is cut: parameter errors quote what was sent."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise translated(error, action, busy=busy) from None
