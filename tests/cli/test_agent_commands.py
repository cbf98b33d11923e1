"""The commands of the agent's side: what waits on disk, prefetch, the MCP server's refusals."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.spool import Spool
from support.stand_in import StandIn, a_stand_in

WHO = ("--tenant", "meadow", "--agent", "gardener", "--env", "test")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    monkeypatch.chdir(tmp_path)
    for name in ("AGENT_MEMORY_ENV", "AGENT_MEMORY_HOME", "AGENT_MEMORY_TENANT", "AGENT_MEMORY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENT_MEMORY_SPOOL", str(tmp_path / "spool"))
    with a_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
def spool(world: StandIn, tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", "test")


def a_detail(run_id: str, tenant_id: str = "meadow", **changes: object) -> dict[str, object]:
    transcript = {"messages": [{"role": "user", "content": "the customer's own words"}]}
    return {"tenant_id": tenant_id, "agent_id": "gardener", "run_id": run_id, "transcript": transcript, **changes}


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert command.run([*words, "--env", "test", "-o", "json"]) == code
    printed = capsys.readouterr()
    assert "the customer's own words" not in printed.out + printed.err
    return json.loads(printed.out) if printed.out else printed.err


def test_what_waits_is_listed_sent_and_gone(spool: Spool, world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    spool.keep(a_detail("r-1"))
    spool.keep(a_detail("r-2", tenant_id="orchard"))
    listed = answered(capsys, "spool", "list")
    assert [(run["tenant_id"], run["run_id"], run["reason"]) for run in listed] == [
        ("meadow", "r-1", None),
        ("orchard", "r-2", None),
    ]
    assert [report["sent"] for report in answered(capsys, "spool", "send", "--tenant", "meadow")] == [1]
    assert [run["run_id"] for run in answered(capsys, "spool", "list")] == ["r-2"]
    assert [report["sent"] for report in answered(capsys, "spool", "send")] == [0, 1]
    assert {entry["Source"] for entry in world.entries} == {"agent-memory.client/meadow", "agent-memory.client/orchard"}
    assert [report["sent"] for report in answered(capsys, "spool", "send")] == [0, 0]


def test_a_spool_that_nobody_ever_filled_names_those_that_were(
    spool: Spool, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.keep(a_detail("r-1"))
    assert command.run(["spool", "list", "--env", "tset"]) == 0
    assert "nothing ever waited for 'tset' there; runs waited for test" in capsys.readouterr().err


def test_runs_that_could_not_be_sent_stay_and_the_exit_code_says_so(
    spool: Spool, world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.keep(a_detail("r-1"))
    world.refused_actions = {"PutEvents"}
    (report,) = answered(capsys, "spool", "send", code=1)
    assert (report["waiting"], report["sent"]) == (1, 0)
    assert "events:PutEvents" in report["reason"]


def test_a_run_that_memory_will_never_take_is_shown_with_its_reason_and_can_be_dropped(
    spool: Spool, world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    spool.keep(a_detail("r-huge", artifacts={"key_findings": ["x" * 1_000_000]}))
    spool.keep(a_detail("r-1"))
    (report,) = answered(capsys, "spool", "send", code=1)
    assert (report["sent"], report["set_aside"]) == (1, 1)
    (aside,) = answered(capsys, "spool", "list")
    assert (aside["run_id"], "bytes beside its transcript" in aside["reason"]) == ("r-huge", True)
    assert command.run(["spool", "send", "--again", "--env", "test"]) == 1
    capsys.readouterr()
    dropped = answered(capsys, "spool", "drop", "--set-aside", "--tenant", "meadow")
    assert [run["run_id"] for run in dropped] == ["r-huge"]
    assert answered(capsys, "spool", "list") == []


def test_one_run_or_all_can_be_given_up_and_nothing_by_accident(
    spool: Spool, capsys: pytest.CaptureFixture[str]
) -> None:
    for run_id in ("r-1", "r-2", "r-3"):
        spool.keep(a_detail(run_id))
    spool.keep(a_detail("r-1", tenant_id="orchard"))
    for words in ((), ("r-1", "--all"), ("--all", "--set-aside")):
        assert command.run(["spool", "drop", *words, "--tenant", "meadow", "--env", "test"]) == 2
    assert command.run(["spool", "drop", "r-9", "--tenant", "meadow", "--env", "test"]) == 3
    capsys.readouterr()
    assert len(answered(capsys, "spool", "drop", "r-1", "--tenant", "meadow")) == 1
    assert len(answered(capsys, "spool", "drop", "--all", "--tenant", "meadow")) == 2
    assert [run["tenant_id"] for run in answered(capsys, "spool", "list")] == ["orchard"]


def test_a_prefetch_prints_the_id_alone_so_that_a_shell_can_take_it(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    world.answer = lambda _: {"context_id": "c-9", "prefetched": True}
    assert command.run(["prefetch", "Water the plants", *WHO]) == 0
    assert capsys.readouterr().out == "c-9\n"
    world.answer = lambda _: {"context": "watered", "context_id": "c-9", "prefetched": True}
    assert command.run(["recall", "Water the plants", "--context-id", "c-9", *WHO]) == 0
    assert world.questions[-1]["context_id"] == "c-9"
    world.answer = lambda _: {"context_id": "c-9", "prefetched": False}
    assert command.run(["prefetch", "Water the plants", *WHO]) == 1


def test_a_pick_up_that_had_to_ask_anew_says_so(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    world.answer = lambda _: {"context": "watered", "notes": [{"tier": "prefetch", "note": "prefetch_missing"}]}
    assert command.run(["recall", "Water", "--context-id", "c-9", *WHO]) == 0
    assert "asked anew" in capsys.readouterr().err


def test_an_mcp_server_that_others_could_reach_is_refused(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["mcp", "--http", "--host", "192.168.0.7", *WHO]) == 4
    assert "there is no login" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    world: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "agent_memory.mcp", raising=False)
    assert command.run(["mcp", *WHO]) == 4
    assert "agent-memory[mcp]" in capsys.readouterr().err
