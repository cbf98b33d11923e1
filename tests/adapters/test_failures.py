"""SDK errors become ours in one place, and say nothing of what was sent."""

import pytest
from agent_memory.aws.failures import translating
from agent_memory.domain.deadlines import reason_of
from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ModelBusyError,
    RetryableError,
    StoreBusyError,
)
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)


def client_error(code: str, status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code, "Message": "the secret"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "PutItem")  # type: ignore[arg-type]  # botocore-stubs wants every field of the metadata


def raised(error: BotoCoreError | ClientError, busy: type[RetryableError] = StoreBusyError) -> AgentMemoryError:
    with pytest.raises(AgentMemoryError) as caught, translating("dynamodb:PutItem", busy=busy):
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        client_error("ThrottlingException"),
        client_error("ProvisionedThroughputExceededException"),
        client_error("SlowDown", 503),
        client_error("NeverHeardOf", 502),
        client_error("ConditionalRequestConflict", 409),
        ConnectTimeoutError(endpoint_url="x"),
        ReadTimeoutError(endpoint_url="x"),
        EndpointConnectionError(endpoint_url="x"),
    ],
)
def test_what_may_work_later_is_busy(error: BotoCoreError | ClientError) -> None:
    assert type(raised(error)) is StoreBusyError
    assert type(raised(error, ModelBusyError)) is ModelBusyError


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (client_error("ThrottlingException"), "throttled"),
        (client_error("SlowDown", 503), "throttled"),
        (client_error("ServiceQuotaExceededException"), "throttled"),
        (client_error("ServiceUnavailable", 503), "unreachable"),
        (EndpointConnectionError(endpoint_url="x"), "unreachable"),
        (ConnectTimeoutError(endpoint_url="x"), "unreachable"),
        (ReadTimeoutError(endpoint_url="x"), "timeout"),
        (client_error("ModelTimeoutException"), "timeout"),
        (client_error("InternalServerException", 500), "error"),
        (client_error("NeverHeardOf", 502), "error"),
        (client_error("ExpiredTokenException"), "denied"),
        (client_error("AccessDeniedException"), "denied"),
        (client_error("ValidationException"), "error"),
    ],
)
def test_why_a_service_gave_nothing_is_named_truly(error: BotoCoreError | ClientError, why: str) -> None:
    assert reason_of(raised(error, ModelBusyError)) == why
    assert reason_of(raised(error)) == why


@pytest.mark.parametrize(
    "error", [client_error("AccessDeniedException"), client_error("AccessDenied", 403), NoCredentialsError()]
)
def test_a_refusal_is_never_taken_for_nothing_found(error: BotoCoreError | ClientError) -> None:
    refused = raised(error)
    assert type(refused) is AccessRefusedError
    assert "dynamodb:PutItem" in str(refused)


@pytest.mark.parametrize("error", [client_error("ValidationException"), ParamValidationError(report="the secret")])
def test_other_errors_name_the_action_and_quote_nothing(error: BotoCoreError | ClientError) -> None:
    ours = raised(error)
    assert not isinstance(ours, RetryableError)
    assert "dynamodb:PutItem" in str(ours)
    assert "secret" not in str(ours)
    assert ours.__cause__ is None
    assert ours.__suppress_context__


@pytest.mark.parametrize("code", ["ServiceQuotaExceededException", "ThrottlingException", "ModelNotReadyException"])
def test_a_model_at_its_quota_is_busy_and_not_broken(code: str) -> None:
    assert isinstance(raised(client_error(code), ModelBusyError), ModelBusyError)
