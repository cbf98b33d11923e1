"""No actor and no word of a record in what a night over AgentCore leaves for others to read: its execution history, its
logs and metrics, its errors; also when the service's own errors quote what was sent."""

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from agent_memory.domain.agentcore import place_of
from agent_memory.domain.regressions import regression_case
from botocore.exceptions import ClientError
from support.agentcore import MEMORY_ID, AgentCore
from support.agentcore_nights import (
    STEPS,
    a_night_over_agentcore,
    a_read,
    an_account_with_agentcore,
    deliver,
)
from support.aws import AwsAccount
from support.builders import NOW, LambdaContext
from support.machines import TaskFailed, Walk
from support.merges import an_answer
from support.whole_nights import LongContext

DAY = 86_400
ACTOR, SPACE = "zoe.marker", "/actors/zoe-marker/"
WORDS = ("zoe-marker", "zoe.marker", "velvet", "192.0.2.77")
TEXTS = ("Velvet crane 4 lifts 40 tonnes.", "Velvet crane 4 needs two operators.")
MERGED = "Velvet crane 4 lifts 40 tonnes and needs two operators."
OPERATIONS = (
    "list_memory_records",
    "get_memory_record",
    "batch_create_memory_records",
    "batch_delete_memory_records",
    "retrieve_memory_records",
)


def a_harbour(account: AwsAccount, plane: AgentCore) -> None:
    for number, text in enumerate(TEXTS):
        plane.put(text, SPACE, NOW - (50 - number) * DAY)
    plane.put("Velvet ropes expire.", SPACE, NOW - 200 * DAY)
    plane.put("Velvet ropes fade alone.", f"{SPACE}sessions/", NOW - 60 * DAY)
    fresh = plane.put("Velvet ferries leave from quay 2.", SPACE, NOW - DAY)
    who = {"sourceIPAddress": "192.0.2.77", "userIdentity": {"arn": f"arn:aws:sts::1:assumed-role/agent/{ACTOR}"}}
    asked = {"memoryId": MEMORY_ID, "memoryRecordId": fresh, "namespace": SPACE}
    at = "2027-01-14T12:00:00Z"
    read = [a_read("e-1", fresh, at, **who), a_read("e-2", fresh, at, requestParameters=asked)]
    deliver(account, "2027/01/14/a_20270114T1210Z_x.json.gz", {"Records": read})
    deliver(account, "2027/01/14/b_20270114T1220Z_x.json.gz", f'{{"Records": [{{"velvet": "{ACTOR}'.encode())
    case = {"case_id": "ropes", "agent_id": place_of(MEMORY_ID, SPACE), "question": "Velvet ropes?", "minimum": 0.5}
    given = regression_case({**case, "criteria": [TEXTS[0]]}, now=NOW)
    account.services.tenant(MEMORY_ID).regressions.put(given)


def kept(told: list[str]) -> dict[str, Any]:
    """The steps of the night, with what each answers, and what each raises as Lambda reports it, added to *told*."""

    def step(handler: Any) -> Callable[[dict[str, Any]], Any]:
        def called(event: dict[str, Any]) -> Any:
            try:
                short = handler.__module__.endswith(("decay.handler", "examine_memories.handler"))
                answer = handler(event, LambdaContext() if short else LongContext())
            except Exception as error:
                told.append("".join(traceback.format_exception(error)))
                raise TaskFailed(type(error).__name__, str(error)) from None
            told.append(json.dumps(answer))
            return answer

        return called

    return {name: step(handler) for name, handler in STEPS.items()}


def read_by_others(done: Walk, told: list[str], logged: str) -> str:
    return json.dumps([done.inputs, told, done.error]) + logged


def test_a_whole_night_names_no_actor_and_quotes_no_record(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with an_account_with_agentcore() as (account, plane):
        a_harbour(account, plane)
        done = a_night_over_agentcore(account, an_answer(MERGED), **kept(told))
    out = capsys.readouterr()
    found = read_by_others(done, told, out.out + out.err)
    assert done.status == "SUCCEEDED"
    assert {"MergeMemories", "PruneMemories", "ExpireMemories", "QualityCheck"} <= set(done.states)
    assert [word for word in WORDS if word in found.lower()] == []


@pytest.mark.parametrize("code", ["ValidationException", "AccessDeniedException", "ThrottledException"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_of_the_service_that_quotes_what_was_sent_is_quoted_nowhere(
    operation: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    asked: list[str] = []

    def refusing(**request: Any) -> Any:
        asked.append(operation)
        message = f"Value '{json.dumps(request, default=str)}' at namespace {SPACE} of {ACTOR} failed: Velvet"
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    with an_account_with_agentcore() as (account, plane):
        a_harbour(account, plane)
        setattr(plane, operation, refusing)
        done = a_night_over_agentcore(account, an_answer(MERGED), **kept(told))
    out = capsys.readouterr()
    found = read_by_others(done, told, out.out + out.err)
    assert asked
    assert [word for word in WORDS if word in found.lower()] == []


def test_the_words_would_be_found() -> None:
    told: list[str] = []

    def careless(event: dict[str, Any], context: object) -> dict[str, Any]:
        raise ValueError(f"no such namespace {SPACE}")

    careless.__module__ = "lambdas.decay.handler"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(STEPS, "TakeLock", careless)
        step = kept(told)["TakeLock"]
    with pytest.raises(TaskFailed):
        step({})
    assert [word for word in WORDS if word in read_by_others(Walk(), told, "").lower()] == ["zoe-marker"]


@pytest.mark.parametrize("digests", [0, 3])
def test_a_trail_that_delivers_nothing_is_told_from_one_of_which_nothing_was_read(
    digests: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """CloudTrail writes a digest an hour, also of no event."""
    with an_account_with_agentcore() as (account, plane):
        plane.put("Velvet crane 4 lifts 40 tonnes.", SPACE, NOW - DAY)
        for number in range(digests):
            key = f"AWSLogs/123456789012/CloudTrail-Digest/us-east-1/2027/01/14/d_2027011{number}T1210Z.json.gz"
            deliver(account, key, {"digestStartTime": "2027-01-14T12:00:00Z"})
        assert a_night_over_agentcore(account).status == "SUCCEEDED"
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"TrailDigests"' in line]
    assert [one["TrailDigests"] for one in told if "_aws" in one] == [[digests]]
