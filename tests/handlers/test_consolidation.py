"""DistilRun: a claim goes in by its key, a distillation comes out by another; a busy model is raised, the rest returned."""

import json
from collections.abc import Iterator
from threading import Event
from time import monotonic
from typing import Any

import pytest
from agent_memory.domain.errors import ConfigurationError, ModelBusyError
from agent_memory.domain.models import Distillation, DistilledBy, RunTicket
from support.aws import AwsAccount, an_aws_account
from support.builders import TENANT, LambdaContext, a_claim, a_ticket, some_messages
from support.conversations import Said, ScriptedModel, a_record
from support.detectors import Down, KnownWords

from lambdas.consolidation.handler import handler

SECRET = "oda.holm@example.org"


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account(distiller="model", bedrockModelId="scripted") as account:
        yield account


def distilling(account: AwsAccount, model: ScriptedModel | None, **changes: Any) -> RunTicket:
    """Keep a claim and hand its ticket to the function."""
    if model:
        account.services.__dict__["chat_model"] = model
    key = account.services.tenant(TENANT).claims.put_claim(a_claim(**changes))
    return RunTicket.model_validate(handler(a_ticket(claim_key=key).model_dump(), LambdaContext()))


def kept(account: AwsAccount, ticket: RunTicket) -> Distillation:
    assert ticket.artifacts_key
    return account.services.tenant(TENANT).claims.get_distillation(ticket.artifacts_key)


def test_a_run_is_distilled_and_only_its_pointer_travels_on(account: AwsAccount) -> None:
    ticket = distilling(account, ScriptedModel(Said(arguments=a_record(task_summary=f"Wrote to {SECRET}."))))
    assert (ticket.decision, ticket.reason) == ("distilled", None)
    assert SECRET not in ticket.model_dump_json()
    distillation = kept(account, ticket)
    assert distillation.distilled_by is DistilledBy.MODEL
    assert distillation.artifacts.task_summary == f"Wrote to {SECRET}."


def test_counts_and_tokens_are_emitted_and_no_text_is(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    messages = tuple(some_messages(("user", f"Write to {SECRET}"), ("assistant", [{"type": "hologram"}, "Done."])))
    distilling(account, ScriptedModel(Said(text="no"), Said(arguments=a_record())), messages=messages)
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")]
    (metrics,) = [line for line in lines if "_aws" in line]
    assert metrics["distilled_by"] == "model"
    assert metrics["RunsDistilled"] == [1.0]
    assert metrics["unknown_blocks"] == [1.0]
    assert metrics["model_input_tokens"] == [200.0]
    assert SECRET not in printed.out + printed.err


def test_a_bad_answer_costs_the_model_its_say_and_never_the_run(account: AwsAccount) -> None:
    ticket = distilling(account, ScriptedModel(Said(text="I would rather not.")))
    assert ticket.decision == "distilled"
    distillation = kept(account, ticket)
    assert distillation.distilled_by is DistilledBy.EXTRACTIVE
    assert distillation.counts["model_answer_not_json"] == 1


def test_a_busy_model_is_raised_and_nothing_is_kept(account: AwsAccount) -> None:
    with pytest.raises(ModelBusyError):
        distilling(account, ScriptedModel(ModelBusyError("the model is busy")))
    objects = account.client("s3").list_objects_v2(Bucket=account.settings.transcripts_bucket)["Contents"]
    assert [key for key in (found["Key"] for found in objects) if "artifacts" in key] == []


class AlmostOver(LambdaContext):
    def get_remaining_time_in_millis(self) -> int:
        return 900


def test_a_model_that_would_outlast_the_function_costs_its_say_and_never_the_run(account: AwsAccount) -> None:
    over = Event()

    class Hanging(ScriptedModel):
        def answer(self, **question: Any) -> Said:
            over.wait(60)
            return super().answer(**question)

    account.services.__dict__["chat_model"] = Hanging(Said(arguments=a_record()))
    key = account.services.tenant(TENANT).claims.put_claim(a_claim())
    began = monotonic()
    ticket = RunTicket.model_validate(handler(a_ticket(claim_key=key).model_dump(), AlmostOver()))
    over.set()
    assert monotonic() - began < 10
    assert ticket.decision == "distilled"
    assert kept(account, ticket).distilled_by is DistilledBy.EXTRACTIVE


@pytest.mark.parametrize(
    ("messages", "reason"),
    [((), "no_messages"), (({"role": "system", "content": "Be kind."}, None, 7), "nothing_readable")],
)
def test_a_run_that_nobody_can_read_is_parked_with_its_reason(
    account: AwsAccount, messages: tuple[object, ...], reason: str
) -> None:
    ticket = distilling(account, ScriptedModel(Said(arguments=a_record())), messages=messages)
    assert (ticket.decision, ticket.reason, ticket.artifacts_key) == ("parked", reason, None)


def test_a_claim_that_is_gone_is_parked(account: AwsAccount) -> None:
    answer = handler(a_ticket().model_dump(), LambdaContext())
    assert (answer["decision"], answer["reason"]) == ("parked", "claim_missing")


def test_a_deployment_without_a_model_distils_from_the_messages() -> None:
    with an_aws_account(distiller="extractive") as account:
        assert kept(account, distilling(account, None)).distilled_by is DistilledBy.EXTRACTIVE


def test_a_deployment_that_forgot_its_model_says_so() -> None:
    with an_aws_account(distiller="model") as account, pytest.raises(ConfigurationError, match="BEDROCK_MODEL_ID"):
        distilling(account, None)


def test_with_scrub_transcript_the_model_reads_nothing_personal() -> None:
    with an_aws_account(distiller="model", bedrockModelId="scripted", scrubTranscript="true") as account:
        model = ScriptedModel(Said(arguments=a_record()))
        account.services.__dict__["detector"] = KnownWords({"Oda Holm": "NAME"})
        messages = tuple(some_messages(("user", f"I am Oda Holm, {SECRET}"), ("assistant", "Hello.")))
        ticket = distilling(account, model, messages=messages)
        assert "I am [NAME], [EMAIL]" in model.texts[0]
        assert SECRET not in kept(account, ticket).model_dump_json()


def test_with_scrub_transcript_a_detector_that_is_down_stops_the_question() -> None:
    with an_aws_account(distiller="model", bedrockModelId="scripted", scrubTranscript="true") as account:
        model = ScriptedModel(Said(arguments=a_record()))
        account.services.__dict__["detector"] = Down()
        with pytest.raises(ModelBusyError):
            distilling(account, model)
        assert model.texts == []


def test_the_second_try_of_a_run_keeps_the_first_result(account: AwsAccount) -> None:
    first = distilling(account, ScriptedModel(Said(arguments=a_record(task_summary="first"))))
    account.services.__dict__.pop("distillery")
    second = distilling(account, ScriptedModel(Said(arguments=a_record(task_summary="second"))))
    assert first.artifacts_key == second.artifacts_key
    assert kept(account, second).artifacts.task_summary == "first"
