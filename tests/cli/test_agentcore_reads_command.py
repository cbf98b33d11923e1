"""`agent-memory agentcore report-reads`, against a small server that speaks AWS's protocols."""

import io
import json
from collections.abc import Iterator

import pytest
from agent_memory.cli import app as command
from support.agentcore import MEMORY_ID, names
from support.stand_in import StandIn, a_stand_in

ONE, TWO = names([1, 2])
WORDS = ("agentcore", "report-reads", MEMORY_ID)
WHO = ("-t", "meadow", "-a", "gardener", "--env", "test", "--output", "json")


@pytest.fixture
def world() -> Iterator[StandIn]:
    with a_stand_in() as stand_in:
        stand_in.names["agentcore-memories"] = json.dumps({"meadow": MEMORY_ID})
        yield stand_in


def test_records_are_reported_under_a_context_that_is_printed(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run([*WORDS, ONE, TWO, "--used", TWO, *WHO]) == 0
    answer = json.loads(capsys.readouterr().out)
    [detail] = world.details
    assert (detail["record_ids"], detail["used"]) == ([ONE, TWO], [TWO])
    assert (answer["context_id"], answer["records"], answer["sent"]) == (detail["context_id"], 2, True)


def test_records_come_from_stdin_as_another_command_prints_them(
    world: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{ONE}\t{TWO}\n\n{ONE}\n"))
    assert command.run([*WORDS, "-", "--context-id", "run-17", *WHO]) == 0
    [detail] = world.details
    assert (detail["record_ids"], detail["context_id"]) == ([ONE, TWO], "run-17")


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ([*WORDS, "mem-1"], "record_ids"),
        ([*WORDS, ONE, "--used", TWO], "used"),
        ([*WORDS, ONE, "--read-at", "yesterday"], "read_at"),
        ([*WORDS, ONE, "--context-id", "two words"], "context_id"),
        (["agentcore", "report-reads", "harbour", ONE], "memory_id"),
        ([*WORDS, "-"], "records"),
    ],
)
def test_what_breaks_a_rule_ends_with_its_name_and_2(
    world: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], field: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert command.run([*words, *WHO]) == 2
    assert field in capsys.readouterr().err
    assert world.entries == []


def test_a_memory_that_is_not_the_tenants_ends_with_4_and_what_to_do(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(["agentcore", "report-reads", "others-Abc1234567", ONE, *WHO]) == 4
    assert "agentcoreMemories" in capsys.readouterr().err
