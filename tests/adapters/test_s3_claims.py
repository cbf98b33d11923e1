"""The claims port on S3."""

import gzip
import json
from collections.abc import Iterator

import pytest
from agent_memory.aws import claims as module
from agent_memory.aws.claims import S3Claims
from agent_memory.domain.errors import CrossTenantError, RefusedInputError, TranscriptError
from botocore.exceptions import ClientError
from support.aws import AwsAccount, an_aws_account
from support.builders import AGENT, RUN, TENANT, a_claim, a_distillation, some_messages


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


@pytest.fixture
def claims(account: AwsAccount) -> S3Claims:
    return account.services.tenant(TENANT).claims


def uploaded(account: AwsAccount, body: bytes, key: str = f"{TENANT}/{AGENT}/{RUN}/upload.json.gz") -> str:
    bucket = account.settings.transcripts_bucket
    account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    return f"s3://{bucket}/{key}"


def test_a_claim_is_written_once_under_its_run(account: AwsAccount, claims: S3Claims) -> None:
    key = claims.put_claim(a_claim(user_ref="u-1"))
    assert key.startswith(f"~runs/{TENANT}/{AGENT}/{RUN}/claim-")
    assert claims.put_claim(a_claim(user_ref="u-1", ended_at=5)) == key
    assert claims.get_claim(key) == a_claim(user_ref="u-1")
    body = account.client("s3").get_object(Bucket=account.settings.transcripts_bucket, Key=key)["Body"].read()
    assert json.loads(gzip.decompress(body))["run_id"] == RUN


def test_a_distillation_is_written_once_per_attempt_and_stage(claims: S3Claims) -> None:
    key = claims.put_claim(a_claim())
    raw = claims.put_distillation(key, 1, a_distillation(scrubbed=False))
    scrubbed = claims.put_distillation(key, 1, a_distillation())
    assert raw != scrubbed
    assert claims.put_distillation(key, 1, a_distillation(scrubbed=False, task="another")) == raw
    assert claims.get_distillation(raw) == a_distillation(scrubbed=False)
    assert claims.put_distillation(key, 2, a_distillation()) != scrubbed


def test_what_an_agent_planted_under_its_own_prefix_is_never_taken_for_ours(
    account: AwsAccount, claims: S3Claims
) -> None:
    key = claims.put_claim(a_claim())
    name = key.rpartition("/")[2]
    planted = gzip.compress(json.dumps(a_distillation(task="planted").model_dump()).encode())
    for file in (name, "artifacts-1.json.gz", "scrubbed-1.json.gz"):
        uploaded(account, planted, f"{TENANT}/{AGENT}/{RUN}/{file}")
    assert claims.get_distillation(claims.put_distillation(key, 1, a_distillation())).task != "planted"
    for file in (name, "scrubbed-1.json.gz"):
        with pytest.raises(CrossTenantError):
            claims.get_distillation(f"{TENANT}/{AGENT}/{RUN}/{file}")
        with pytest.raises(CrossTenantError):
            claims.get_claim(f"{TENANT}/{AGENT}/{RUN}/{file}")


@pytest.mark.parametrize("change", [{"run_id": "r-2"}, {"agent_id": "another"}, {"content_sha256": "0" * 64}])
def test_a_claim_is_only_read_where_its_ids_and_hash_belong(
    account: AwsAccount, claims: S3Claims, change: dict[str, str]
) -> None:
    key = claims.put_claim(a_claim())
    uploaded(account, json.dumps(a_claim(**change).model_dump()).encode(), key)
    with pytest.raises(TranscriptError, match="claim_of_another"):
        claims.get_claim(key)


def test_many_small_values_are_as_large_as_much_text(account: AwsAccount, claims: S3Claims) -> None:
    for body in (b"[" + b"[]," * 1_000_000 + b"0]", b"[" + b'{"":0},' * 600_000 + b"0]"):
        assert len(body) < module.MAX_JSON_BYTES
        with pytest.raises(TranscriptError, match="too_large"):
            claims.read_transcript(uploaded(account, gzip.compress(body, 1)))


def test_the_largest_transcript_that_is_let_in_can_be_read_as_a_claim(account: AwsAccount, claims: S3Claims) -> None:
    # Our own JSON is ASCII: two bytes of this text become six.
    text = "\u00e9" * (module.MAX_JSON_BYTES // 2 - 100)
    body = json.dumps([{"role": "user", "content": text}], ensure_ascii=False).encode()
    messages = claims.read_transcript(uploaded(account, gzip.compress(body, 1)))
    key = claims.put_claim(a_claim(messages=messages))
    assert claims.get_claim(key).messages == tuple(messages)  # type: ignore[arg-type]  # a list, as put in


def test_an_integer_that_python_will_not_read_stays_text(account: AwsAccount, claims: S3Claims) -> None:
    digits = "7" * 5_000
    read = claims.read_transcript(uploaded(account, f'[{{"content": {digits}, "n": 12}}]'.encode()))
    assert read == [{"content": digits, "n": 12}]


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [("AccessDenied", 403, "transcript_refused"), ("InvalidObjectState", 403, "transcript_unavailable")],
)
def test_a_transcript_that_will_never_be_readable_is_no_reason_to_try_again(
    account: AwsAccount, claims: S3Claims, monkeypatch: pytest.MonkeyPatch, code: str, status: int, reason: str
) -> None:
    uri = uploaded(account, b"[]")
    client = account.services.sessions.client(TENANT, "s3")

    def refuse(**_: object) -> object:
        answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "GetObject")  # type: ignore[arg-type]  # botocore-stubs wants every field

    monkeypatch.setattr(client, "get_object", refuse)
    with pytest.raises(TranscriptError, match=reason):
        claims.read_transcript(uri)


@pytest.mark.parametrize("shape", [lambda m: m, lambda m: {"messages": m}])
@pytest.mark.parametrize("packed", [True, False])
def test_a_transcript_may_be_plain_or_gzip(account: AwsAccount, claims: S3Claims, shape: object, packed: bool) -> None:
    transcript = shape(some_messages())  # type: ignore[operator]  # parametrised with two lambdas
    body = json.dumps(transcript).encode()
    assert claims.read_transcript(uploaded(account, gzip.compress(body) if packed else body)) == transcript


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (gzip.compress(b"[1, 2, 3]" * 100, mtime=0)[:-9], "not_gzip"),
        (b"\x1f\x8bgarbage", "not_gzip"),
        (b"", "not_json"),
        (b"prose", "not_json"),
        (b"[" * 200_000, "not_json"),
        (b"\xff\xfe\x00", "not_json"),
    ],
)
def test_a_transcript_that_cannot_be_read_has_a_reason(
    account: AwsAccount, claims: S3Claims, body: bytes, reason: str
) -> None:
    with pytest.raises(TranscriptError) as caught:
        claims.read_transcript(uploaded(account, body))
    assert caught.value.reason == reason


def test_a_bomb_is_not_unpacked(account: AwsAccount, claims: S3Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JSON_BYTES", 100_000)
    with pytest.raises(TranscriptError, match="too_large"):
        claims.read_transcript(uploaded(account, gzip.compress(b" " * 10_000_000)))
    with pytest.raises(TranscriptError, match="too_large"):
        claims.read_transcript(uploaded(account, b" " * 100_001))


def test_what_is_missing_has_its_own_reason(account: AwsAccount, claims: S3Claims) -> None:
    bucket = account.settings.transcripts_bucket
    with pytest.raises(TranscriptError, match="transcript_missing"):
        claims.read_transcript(f"s3://{bucket}/{TENANT}/gone")
    with pytest.raises(TranscriptError, match="claim_missing"):
        claims.get_claim(f"~runs/{TENANT}/{AGENT}/{RUN}/gone")
    with pytest.raises(TranscriptError, match="artifacts_missing"):
        claims.get_distillation(f"~runs/{TENANT}/{AGENT}/{RUN}/gone")
    with pytest.raises(TranscriptError, match="parked_content_missing"):
        claims.get_parked(f"parked/{TENANT}/{AGENT}/{RUN}/gone")


def test_an_object_of_another_shape_is_not_a_claim(account: AwsAccount, claims: S3Claims) -> None:
    uploaded(account, b'{"tenant_id": "northwind", "secret": 1}', f"~runs/{TENANT}/x")
    with pytest.raises(TranscriptError, match="claim_unreadable"):
        claims.get_claim(f"~runs/{TENANT}/x")
    with pytest.raises(TranscriptError, match="artifacts_unreadable"):
        claims.get_distillation(f"~runs/{TENANT}/x")


@pytest.mark.parametrize(
    "pointer",
    [
        "s3://{bucket}/fabrikam/bot/r.json",
        "s3://{bucket}/northwind-2/bot/r.json",
        "s3://{bucket}/northwind/../fabrikam/r.json",
        "s3://{bucket}/northwind/./r.json",
        "s3://{bucket}/northwind//r.json",
        "s3://{bucket}/northwind/",
        "s3://{bucket}/northwind",
        "s3://{bucket}//northwind/r.json",
        "s3://another-bucket/northwind/r.json",
        "s3://{bucket}x/northwind/r.json",
        "https://{bucket}/northwind/r.json",
        "S3://{bucket}/northwind/r.json",
        "s3://{bucket}/northwind/\x00",
        "s3://{bucket}/northwind/\ud800",
        "",
    ],
)
def test_a_pointer_outside_the_tenant_is_refused_before_any_read(
    account: AwsAccount, claims: S3Claims, pointer: str
) -> None:
    reads: list[object] = []
    account.services.sessions.client(TENANT, "s3").meta.events.register(
        "before-call.s3", lambda **call: reads.append(call)
    )
    with pytest.raises(RefusedInputError, match="tenant's prefix"):
        claims.read_transcript(pointer.format(bucket=account.settings.transcripts_bucket))
    assert reads == []


def test_parked_content_is_named_by_what_it_holds(claims: S3Claims) -> None:
    key = claims.park(AGENT, RUN, {"kind": "claim", "text": "a\ud800"})
    assert key.startswith(f"parked/{TENANT}/{AGENT}/{RUN}/")
    assert claims.park(AGENT, RUN, {"kind": "claim", "text": "a\ud800"}) == key
    assert claims.get_parked(key) == {"kind": "claim", "text": "a\ud800"}
    claims.delete_parked(AGENT, RUN)
    claims.delete_parked(AGENT, RUN)
    with pytest.raises(TranscriptError):
        claims.get_parked(key)


def test_keys_of_another_tenant_are_not_followed(claims: S3Claims) -> None:
    for tenant_key in ("fabrikam/bot/r/claim-1.json.gz", "northwind-2/x", f"{TENANT}/../fabrikam/x"):
        key = f"~runs/{tenant_key}"
        with pytest.raises(CrossTenantError):
            claims.get_claim(key)
        with pytest.raises(CrossTenantError):
            claims.put_distillation(key, 1, a_distillation())
        with pytest.raises(CrossTenantError):
            claims.get_parked(f"parked/{tenant_key}")
    with pytest.raises(CrossTenantError):
        claims.put_claim(a_claim(tenant_id="fabrikam"))
