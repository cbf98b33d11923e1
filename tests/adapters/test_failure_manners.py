"""Memory that is unreachable, slow, throttled or refused: the agent runs on, is told why, and no run is lost."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest
from agent_memory.client import AgentMemory
from agent_memory.client_handover import INLINE_BYTES
from agent_memory.domain.errors import AccessRefusedError, RefusedInputError, RetryableError
from agent_memory.spool import Spool
from agent_memory.spool_sending import MAX_DENIALS
from support.stand_in import StandIn, a_stand_in

WORDS = "the customer's own words"
SPOKEN = [{"role": "user", "content": WORDS}]
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path, "test")


def gardener(**options: object) -> AgentMemory:
    return AgentMemory("meadow", "gardener", "test", **options)  # type: ignore[arg-type]


def unreachable() -> AbstractContextManager[object]:
    return patch.dict(os.environ, {"AWS_ENDPOINT_URL": NOWHERE})


def test_a_recall_from_nowhere_is_empty_says_why_and_warns(world: StandIn) -> None:
    with (
        unreachable(),
        pytest.warns(RuntimeWarning, match="memory was not recalled: unreachable: ssm.*could not reach"),
    ):
        found = gardener().recall(WORDS)
    assert (found.context, found.degraded[0].tier, found.nothing_relevant) == ("", "all", False)


def test_a_memory_that_is_slow_is_given_up_in_time(world: StandIn) -> None:
    gate = time.monotonic() + 0.9

    def slowly(_: object) -> dict[str, object]:
        time.sleep(max(0.0, gate - time.monotonic()))
        return {"context": "late"}

    world.answer = slowly
    started = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"timeout: memory did not answer within 0\.2 s"):
        found = gardener(timeout_seconds=0.2).recall(WORDS)
    assert time.monotonic() - started < 0.8
    assert found.context == ""


def test_a_refusal_is_named_by_its_action_and_raised_to_those_who_want_it_raised(world: StandIn) -> None:
    world.refused_actions = {"PutEvents"}
    with pytest.warns(RuntimeWarning, match=r"denied: events:PutEvents.*refused"):
        done = gardener().end_run("r-1", messages=SPOKEN)
    assert (done.sent, done.spooled) == (False, False)
    with pytest.raises(AccessRefusedError):
        gardener(strict=True).end_run("r-1", messages=SPOKEN)


@pytest.mark.parametrize(
    ("code", "word"),
    [("ThrottlingException", "throttled"), ("InternalException", ""), ("AccessDeniedException", "denied")],
)
def test_a_bus_that_does_not_take_a_run_is_named_by_its_own_word(
    world: StandIn, monkeypatch: pytest.MonkeyPatch, code: str, word: str
) -> None:
    monkeypatch.setattr("agent_memory.deployment.time.sleep", lambda _: None)
    world.failures_of_put = [code] * 5
    with pytest.warns(RuntimeWarning, match="not handed over"):
        done = gardener().end_run("r-1", messages=SPOKEN)
    assert str(done.reason).startswith(f"{word}: events:PutEvents" if word else "events:PutEvents")


def test_what_nobody_foresaw_does_not_reach_the_agent_either(world: StandIn) -> None:
    memory = gardener()
    memory._deployment.__dict__["bootstrap"] = None
    with pytest.warns(RuntimeWarning, match="unexpected AttributeError"):
        assert memory.recall(WORDS).degraded[0].reason == "unexpected AttributeError"


def test_a_run_that_cannot_be_sent_waits_and_goes_along_with_the_next_that_can(world: StandIn, spool: Spool) -> None:
    with unreachable(), pytest.warns(RuntimeWarning, match="waits in the spool"):
        done = gardener(spool=spool).end_run("r-1", messages=SPOKEN, outcome="COMPLETED", ended_at="2026-12-01T09:00Z")
    assert (done.sent, done.spooled) == (False, True)
    assert [run.run_id for run in spool.runs("meadow")] == ["r-1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gardener(spool=spool).end_run("r-2", messages=SPOKEN).sent
    assert [detail["run_id"] for detail in world.details] == ["r-2", "r-1"]
    assert world.details[1]["outcome"] == "COMPLETED"
    assert world.details[1]["ended_at"] == "2026-12-01T09:00:00+00:00"
    assert spool.runs("meadow") == []


def test_a_strict_agent_is_told_and_its_run_is_kept_all_the_same(world: StandIn, spool: Spool) -> None:
    with unreachable(), pytest.raises(RetryableError):
        gardener(spool=spool, strict=True).end_run("r-1", messages=SPOKEN)
    assert len(spool.runs("meadow")) == 1


def test_runs_that_are_denied_hold_up_no_other_and_are_set_aside_aloud(world: StandIn, spool: Spool) -> None:
    large = [{"role": "user", "content": "x" * (INLINE_BYTES + 1)}]
    runs = {f"large-{number}": large for number in range(4)} | {"small": SPOKEN}
    with unreachable(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(gardener(spool=spool).end_run(run_id, messages=runs[run_id]).spooled for run_id in runs)
    world.refused_actions = {"PutObject"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(2 * MAX_DENIALS):
            assert gardener(spool=spool).end_run(f"next-{number}", messages=SPOKEN).sent
    assert "small" in [detail["run_id"] for detail in world.details]
    assert sum("spooled runs of meadow: 1 set aside" in str(one.message) for one in caught) >= 1
    assert {run.run_id for run in spool.runs("meadow")} == {f"large-{number}" for number in range(4)}
    assert all("s3:PutObject" in str(run.reason) for run in spool.runs("meadow"))


def test_another_tenants_waiting_runs_do_not_go_along(world: StandIn, spool: Spool) -> None:
    with unreachable(), pytest.warns(RuntimeWarning):
        AgentMemory("orchard", "gardener", "test", spool=spool).end_run("r-1", messages=SPOKEN)
    assert gardener(spool=spool).end_run("r-2", messages=SPOKEN).sent
    assert {entry["Source"] for entry in world.entries} == {"agent-memory.client/meadow"}
    assert len(spool.runs("orchard")) == 1


def test_without_room_or_a_spool_the_callback_gets_the_run(world: StandIn, tmp_path: Path) -> None:
    handed: list[tuple[Mapping[str, object], str]] = []

    def keep(detail: Mapping[str, object], reason: str) -> None:
        handed.append((detail, reason))

    full = Spool(tmp_path, "test", max_bytes=1)
    for run_id, options in (("r-1", {}), ("r-2", {"spool": full})):
        with unreachable(), pytest.warns(RuntimeWarning):
            gardener(on_unsent=keep, **options).end_run(run_id, messages=SPOKEN)
    assert [detail["run_id"] for detail, _ in handed] == ["r-1", "r-2"]
    assert "could not be spooled either" in handed[1][1]


def test_neither_a_callback_nor_a_disk_that_fails_breaks_the_run(world: StandIn, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def fail(*_: object) -> None:
        raise ValueError(WORDS)

    with unreachable(), pytest.warns(RuntimeWarning, match="on_unsent failed as well") as caught:
        done = gardener(spool=tmp_path / "file", on_unsent=fail).end_run("r-1", messages=SPOKEN)
    assert not done.sent
    assert WORDS not in "".join(str(one.message) for one in caught)


def test_a_mistake_of_the_program_is_raised_and_never_spooled(world: StandIn, spool: Spool) -> None:
    with pytest.raises(RefusedInputError, match="detail"):
        gardener(spool=spool).end_run("r-1", messages=SPOKEN, artifacts={"key_findings": ["x" * 1_000_000]})
    assert spool.runs("meadow") == []


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("facts", {"facts": "a fact"}),
        ("facts", {"facts": ["a fact"]}),
        ("procedure_id", {"procedure_id": "p 1"}),
        ("procedure_succeeded", {"procedure_id": "p-1", "procedure_succeeded": "yes"}),
    ],
)
def test_what_an_agent_says_of_its_run_is_checked(world: StandIn, field: str, options: dict[str, object]) -> None:
    with pytest.raises(RefusedInputError) as refused:
        gardener().end_run("r-1", messages=SPOKEN, **options)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_facts_and_the_result_of_a_procedure_travel_with_the_run(world: StandIn) -> None:
    fact = {"content": "Ferns want shade.", "evidence": "want shade"}
    gardener().end_run("r-1", messages=SPOKEN, facts=[fact], procedure_id="p-1", procedure_succeeded=False)
    assert world.details[0]["artifacts"] == {"facts": [fact]}
    assert world.details[0]["procedure"] == {"procedure_id": "p-1", "succeeded": False}
    gardener().end_run("r-2", messages=SPOKEN, artifacts={"task_summary": "s", "facts": [fact]}, facts=[fact])
    assert world.details[1]["artifacts"] == {"task_summary": "s", "facts": [fact, fact]}


def test_a_prefetch_gives_the_id_by_which_its_run_picks_it_up(world: StandIn) -> None:
    world.answer = lambda _: {"context_id": "c-9", "prefetched": True, "degraded": []}
    context_id = gardener().prefetch(WORDS, task_type="watering", user_id="u")
    assert context_id == "c-9"
    world.answer = lambda _: {"context": "<memory>", "context_id": "c-9", "prefetched": True}
    found = gardener().recall(WORDS, context_id=context_id)
    assert (found.context, found.prefetched) == ("<memory>", True)
    assert [(asked.get("prefetch"), asked.get("context_id")) for asked in world.questions] == [
        (True, None),
        (None, "c-9"),
    ]
    assert gardener().recall(WORDS, context_id=None).context == "<memory>"
    assert "context_id" not in world.questions[-1]


@pytest.mark.parametrize("answer", [{"context_id": "c-9", "prefetched": False}, {"context_id": "c-9"}, {}])
def test_a_prefetch_that_kept_nothing_gives_no_id(world: StandIn, answer: dict[str, object]) -> None:
    world.answer = lambda _: answer
    assert gardener().prefetch(WORDS) is None


def test_a_prefetch_never_breaks_the_program_that_queues(world: StandIn) -> None:
    with unreachable(), pytest.warns(RuntimeWarning, match="memory was not prefetched"):
        assert gardener().prefetch(WORDS) is None
    with pytest.raises(RefusedInputError, match="context_id"):
        gardener().recall(WORDS, context_id="a b")
