"""ScrubPii: the unscrubbed distillation goes in by its key, the scrubbed one comes out by another."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_memory.domain.errors import AccessRefusedError, ModelBusyError
from agent_memory.domain.models import Distillation, RunTicket
from agent_memory.domain.ports import PersonalDataDetector
from support.aws import AwsAccount, an_aws_account
from support.builders import TENANT, LambdaContext, a_distillation, a_ticket, some_artifacts
from support.detectors import Down, KnownWords

from lambdas.pii_scrubbing.handler import handler

SECRET = "oda.holm@example.org"
UNSCRUBBED = {"task": f"Write to Oda Holm, {SECRET}.", "scrubbed": False}


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def scrubbing(account: AwsAccount, detector: PersonalDataDetector, **changes: Any) -> RunTicket:
    account.services.__dict__["detector"] = detector
    claims = account.services.tenant(TENANT).claims
    distillation = a_distillation(**{**UNSCRUBBED, **changes})
    key = claims.put_distillation(a_ticket().claim_key, 1, distillation)
    ticket = a_ticket().decided("distilled", artifacts_key=key)
    return RunTicket.model_validate(handler(ticket.model_dump(), LambdaContext()))


def scrubbed(account: AwsAccount, ticket: RunTicket) -> Distillation:
    assert ticket.scrubbed_key
    return account.services.tenant(TENANT).claims.get_distillation(ticket.scrubbed_key)


def test_a_distillation_is_scrubbed_and_kept_beside_its_claim(account: AwsAccount) -> None:
    ticket = scrubbing(account, KnownWords({"Oda Holm": "NAME"}))
    assert (ticket.decision, ticket.reason) == ("scrubbed", None)
    kept = scrubbed(account, ticket)
    assert (kept.task, kept.scrubbed) == ("Write to [NAME], [EMAIL].", True)


def test_counts_are_emitted_by_type_and_no_text_is_logged(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    scrubbing(account, KnownWords({"Oda Holm": "NAME"}))
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")]
    counted = {line["entity_type"]: line["EntitiesScrubbed"] for line in lines if "EntitiesScrubbed" in line}
    assert counted == {"NAME": [1.0], "EMAIL": [1.0]}
    assert "oda" not in (printed.out + printed.err).lower()


def test_a_detector_that_is_down_is_raised_for_a_retry_and_stores_nothing(account: AwsAccount) -> None:
    with pytest.raises(ModelBusyError):
        scrubbing(account, Down())
    listed = account.client("s3").list_objects_v2(Bucket=account.settings.transcripts_bucket)
    assert not [item["Key"] for item in listed["Contents"] if "scrubbed" in item["Key"]]


def test_a_detector_that_may_not_be_called_is_raised_too(account: AwsAccount) -> None:
    class Refused:
        def detect(self, text: str, language: str) -> list[Any]:
            raise AccessRefusedError("comprehend:DetectPiiEntities was refused (AccessDeniedException)")

    with pytest.raises(AccessRefusedError):
        scrubbing(account, Refused())


def test_an_unsupported_language_is_marked_or_parks_the_run() -> None:
    german = {"task": "Bitte schreiben Sie an die Frau.", "asked": "Bitte schreiben Sie an die Frau."}
    quiet = some_artifacts(task_summary="", key_findings=(), approach_used="", reusable_patterns=())
    with an_aws_account() as account:
        ticket = scrubbing(account, KnownWords(), artifacts=quiet, **german)
        assert scrubbed(account, ticket).names_unchecked
    with an_aws_account(piiUnsupportedLanguage="park") as account:
        ticket = scrubbing(account, KnownWords(), artifacts=quiet, **german)
        assert (ticket.decision, ticket.reason, ticket.scrubbed_key) == ("parked", "unsupported_language", None)


def test_a_deployment_keeps_the_types_that_it_allows() -> None:
    with an_aws_account(piiAllow="NAME") as account:
        ticket = scrubbing(account, KnownWords({"Oda Holm": "NAME"}))
        assert scrubbed(account, ticket).task == "Write to Oda Holm, [EMAIL]."


def test_a_distillation_that_is_gone_parks_the_run(account: AwsAccount) -> None:
    ticket = a_ticket().decided("distilled", artifacts_key=f"~runs/{TENANT}/claims-bot/r-1/artifacts-1.json.gz")
    answer = handler(ticket.model_dump(), LambdaContext())
    assert (answer["decision"], answer["reason"]) == ("parked", "artifacts_missing")


def test_a_run_that_was_never_distilled_is_parked(account: AwsAccount) -> None:
    answer = handler(a_ticket().model_dump(), LambdaContext())
    assert (answer["decision"], answer["reason"]) == ("parked", "not_distilled")


def test_a_second_delivery_changes_nothing(account: AwsAccount) -> None:
    first = scrubbing(account, KnownWords({"Oda Holm": "NAME"}))
    assert scrubbing(account, KnownWords({"Oda Holm": "NAME"})) == first
