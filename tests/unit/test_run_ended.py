"""The run-ended event is outside text: what can be read is read, the rest is refused by field and rule."""

import json
import re
from collections import Counter

import pytest
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import RunEnded, clean, instant, run_ended, run_ids
from agent_memory.domain.intake import event_of, message_of, refusal
from agent_memory.domain.models import Outcome
from agent_memory.domain.parking import parked_event
from support.builders import AGENT, NOW, RUN, TENANT, a_detail, an_event, some_messages


def parsed(**changes: object) -> RunEnded:
    event = an_event(**changes)
    return run_ended(event, run_ids(event), now=NOW)


def refused(**changes: object) -> RefusedInputError:
    with pytest.raises(RefusedInputError) as caught:
        parsed(**changes)
    return caught.value


def test_a_full_event_is_read_whole() -> None:
    ended = parsed(
        task="Move K7",
        task_type="rebooking",
        domain="flights",
        user_id="ann@example.org",
        outcome="COMPLETED",
        memory={"context_id": "c-1", "used": ["claims-bot/r-0"]},
        procedure={"procedure_id": "p-1", "succeeded": True},
        artifacts={"task_summary": "Moved."},
    )
    assert (ended.tenant_id, ended.agent_id, ended.run_id) == (TENANT, AGENT, RUN)
    assert (ended.task, ended.task_type, ended.domain, ended.outcome) == (
        "Move K7", "rebooking", "flights", Outcome.COMPLETED,
    )  # fmt: skip
    assert ended.messages == tuple(some_messages())
    assert (ended.memory_context_id, ended.memory_used) == ("c-1", ("claims-bot/r-0",))
    assert (ended.procedure_id, ended.procedure_succeeded) == ("p-1", True)
    assert not sum(ended.counts.values())


def test_neither_user_nor_messages_show_in_what_is_printed() -> None:
    ended = parsed(user_id="ann@example.org")
    assert "ann@example.org" not in repr(ended)
    assert "K7" not in repr(ended)


@pytest.mark.parametrize("empty", ["", "   "])
def test_empty_optional_fields_are_absent(empty: str) -> None:
    ended = parsed(task=empty, task_type=empty, domain=empty, outcome=empty, user_id="" if not empty else None)
    assert (ended.task, ended.task_type, ended.domain, ended.outcome, ended.user_id) == (
        None,
        None,
        "general",
        None,
        None,
    )


@pytest.mark.parametrize("field", ["tenant_id", "agent_id", "run_id"])
@pytest.mark.parametrize(
    "value", ["a#b", "a/b", "a b", "a\x00", "é", "\ud800", "..", ".", 7, True, ["a"], {}, "x" * 129]
)
def test_ids_that_could_collide_are_refused_by_name(field: str, value: object) -> None:
    event = an_event(a_detail(**{field: value}), source=f"agent-memory.client/{TENANT}")
    with pytest.raises(RefusedInputError) as caught:
        run_ids(event)
    assert caught.value.field == field
    assert "must be" in caught.value.rule


def test_the_source_must_be_the_tenant_that_the_detail_names() -> None:
    for source in (
        "agent-memory.client/fabrikam",
        "agent-memory.client/",
        "agent-memory",
        f"agent-memory.client/{TENANT}x",
    ):
        with pytest.raises(RefusedInputError) as caught:
            run_ids(an_event(source=source))
        assert caught.value.field == "source"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("domain", "has space"),
        ("domain", "ann@example.org"),
        ("task_type", 3),
        ("user_id", 3),
        ("user_id", {"id": "ann"}),
        ("user_id", "a\nb"),
        ("user_id", "u" * 257),
        ("user_id", "\udc00"),
        ("ended_at", "yesterday"),
        ("ended_at", True),
        ("ended_at", [1]),
        ("schema_version", 2),
        ("schema_version", True),
        ("transcript", [1]),
        ("transcript", {"messages": "all of them"}),
        ("transcript", {"messages": [1], "s3_uri": "s3://b/k"}),
        ("transcript", {"s3_uri": 7}),
    ],
)
def test_what_routes_a_run_is_refused_when_it_cannot_be_read(field: str, value: object) -> None:
    assert refused(**{field: value}).field.split(".")[0] == field


def test_what_only_helps_is_left_out_and_counted() -> None:
    ended = parsed(
        task=["not text"],
        outcome="DONE",
        memory={"context_id": "c-1", "used": ["ok", 3, "", "x" * 300, "ok", "\ud800"]},
        procedure="p-1",
        artifacts=["list"],
    )
    assert (ended.task, ended.outcome, ended.artifacts, ended.procedure_id) == (None, None, None, None)
    assert ended.memory_used == ("ok",)
    assert ended.counts == {
        "task_ignored": 1, "outcome_ignored": 1, "artifacts_ignored": 1, "procedure_ignored": 1,
        "memory_ids_ignored": 5,
    }  # fmt: skip


def test_an_overlong_task_is_cut_and_says_so() -> None:
    ended = parsed(task="w" * 30_000)
    assert ended.task is not None
    assert len(ended.task) == 20_000
    assert ended.counts["task_cut"] == 1


def test_lone_surrogates_and_nan_become_something_that_can_be_stored() -> None:
    counts: Counter[str] = Counter()
    mended = clean([{"content": "a\ud800b", "score": float("nan")}], counts)
    assert mended == [{"content": "a\ufffdb", "score": None}]
    assert json.dumps(mended, allow_nan=False).encode("utf-8")
    assert counts == {"lone_surrogates": 1, "numbers_not_finite": 1}


def test_messages_nested_without_end_are_refused() -> None:
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    assert refused(transcript={"messages": [deep]}).field == "transcript"


def test_a_time_in_the_future_is_now() -> None:
    assert instant("2099-01-01T00:00:00Z", "ended_at", now=NOW) == NOW
    assert instant(1e300, "ended_at", now=NOW) == NOW


def test_a_missing_time_is_that_of_the_event() -> None:
    assert parsed(ended_at=None).ended_at == NOW
    assert parsed(ended_at="").ended_at == NOW


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "", "١٧٨١٤٧٩٨٠٠", "2026-13-01", {}, b"x"])
def test_a_time_that_cannot_be_read_is_refused(value: object) -> None:
    with pytest.raises(RefusedInputError):
        instant(value, "ended_at", now=NOW)


@pytest.mark.parametrize("body", ["", "nonsense", "[1]", "null", '"text"', "[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: str) -> None:
    with pytest.raises(RefusedInputError):
        event_of(body)


def test_a_refusal_keeps_the_event_without_its_user() -> None:
    body = json.dumps(an_event(a_detail(tenant_id="a#b", user_id="ann@example.org")))
    kept = refusal(RefusedInputError("tenant_id", "is odd"), body)
    assert (kept["field"], kept["rule"], kept["characters"]) == ("tenant_id", "is odd", len(body))
    assert "ann@example.org" not in json.dumps(kept)
    assert "K7" in str(kept["event"])


def test_a_refusal_of_text_that_is_no_json_keeps_its_digest_only() -> None:
    kept = refusal(RefusedInputError("event", "must be JSON"), "user_id=ann@example.org")
    assert "event" not in kept
    assert len(str(kept["sha256"])) == 64


def test_a_user_id_inside_what_a_run_said_stays_there() -> None:
    call = {"name": "find_customer", "args": {"user_id": "customer-8"}}
    event = an_event(a_detail(user_id="ann@example.org", transcript={"messages": [{"tool_calls": [call]}]}))
    kept = parked_event(event, "u-1")
    assert "ann@example.org" not in json.dumps(kept)
    assert kept["detail"] == {name: value for name, value in event["detail"].items() if name != "user_id"}


@pytest.mark.parametrize("depth", [65, 800])
def test_an_event_nested_deeper_than_any_message_is_kept_whole(depth: int) -> None:
    deep = json.loads("[" * depth + '"bottom"' + "]" * depth)
    event = an_event(a_detail(domain="has space", transcript={"messages": [deep]}))
    assert json.dumps(parked_event(event, None)["detail"]) == json.dumps(event["detail"])
    assert "bottom" in message_of(refusal(RefusedInputError("tenant_id", "is odd"), json.dumps(event)))


@pytest.mark.parametrize(
    "value", [0, 1, -5, 20261201, "000000000", "1999-12-31T23:59:59Z", -(10**45), -1e300, 99999999]
)
def test_a_time_before_the_product_could_exist_is_a_mistake_and_not_an_old_run(value: object) -> None:
    with pytest.raises(RefusedInputError, match="ended_at must not be before 2000-01-01"):
        instant(value, "ended_at", now=NOW)


@pytest.mark.parametrize("digits", [4_301, 20_000])
def test_an_integer_of_any_length_is_no_reason_to_refuse_an_event(digits: int) -> None:
    body = json.dumps(an_event()).replace('"schema_version": 1', '"schema_version": 1, "odd": -' + "9" * digits)
    event = event_of(body)
    assert run_ids(event).run_id == RUN
    assert json.loads(json.dumps(event))["detail"]["odd"] == "-" + "9" * digits


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u6f22", '"', "\x01", "\ud800", "\uffff"])
def test_a_refused_event_is_kept_as_long_as_a_queue_can_hold_it(character: str) -> None:
    # As long an event as EventBridge and SQS can hand over, and one that only a digest can stand for.
    bytes_each = len(json.dumps(character, ensure_ascii=False).encode("utf-8", "replace")) - 2
    for size, kept in ((900_000, True), (1_100_000, False)):
        body = json.dumps(an_event(a_detail(tenant_id="a#b", task=character * (size // max(bytes_each, 1)))))
        found = refusal(RefusedInputError("tenant_id", "is odd"), body)
        if character not in ("\ud800", "\uffff"):  # they are written as three bytes, and counted as one or three
            assert ("event" in found) is kept
        message = message_of(found)
        assert len(message.encode()) <= 1_048_576
        assert re.fullmatch(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", message)


def test_one_name_in_two_forms_is_one_user_and_look_alikes_are_not() -> None:
    assert parsed(user_id="Zoe\u0308").user_id == parsed(user_id="Zo\u00eb").user_id == "Zo\u00eb"
    alikes = ("a", "\uff41", "A", "\u0430", "\u00e1", "\ufb01", "fi", "\u2460", "1")
    assert len({parsed(user_id=alike).user_id for alike in alikes}) == len(alikes)


def test_a_user_id_is_measured_as_it_is_composed() -> None:
    assert parsed(user_id="e\u0301" * 256).user_id == "\u00e9" * 256
    with pytest.raises(RefusedInputError):
        parsed(user_id="e\u0301" * 257)
