"""`agent-memory agentcore`: the commands of the night over AgentCore, on nights walked with the real functions."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest
from agent_memory import contract
from agent_memory.cli import agentcore as commands
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.domain.agentcore import place_of
from agent_memory.wiring import Services
from agent_memory.wiring_agentcore import SERVICE
from support.agentcore import MEMORY_ID, AgentCore
from support.agentcore_nights import ALICE, DAY, a_night_over_agentcore, an_account_with_agentcore
from support.aws import ENVIRONMENT, AwsAccount
from support.builders import AGENT, NOW, TENANT, an_episode
from support.merges import an_answer

NIGHT = "n-2027-01-15"
CRANES = ("Crane 4 at the north quay lifts 40 tonnes.", "Crane 4 at the north quay needs two operators.")
MERGED = "Crane 4 at the north quay lifts 40 tonnes and needs two operators."
Both = tuple[AwsAccount, AgentCore]


class Nights:
    """The machine, run here to its end when it is started."""

    def __init__(self, account: AwsAccount) -> None:
        self.account = account
        self.ended: dict[str, str] = {}

    def start(self, asked: Mapping[str, object] | None = None) -> str:
        name = f"e-{len(self.ended) + 1}"
        with redirect_stdout(io.StringIO()):
            dry_run = bool((asked or {}).get("dry_run"))
            done = a_night_over_agentcore(self.account, an_answer(MERGED), execution=name, dry_run=dry_run)
        self.ended[name] = done.status
        return name

    def status(self, name: str) -> str:
        return self.ended[name]

    def recent(self, limit: int = 5) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def both() -> Iterator[Both]:
    with an_account_with_agentcore() as (account, plane):
        for text in CRANES:
            plane.put(text, ALICE, NOW - 50 * DAY)
        stored = json.dumps({key: value for key, value in account.variables.items() if "BACKEND" not in key})
        name = f"{contract.PARAMETER_ROOT}/{ENVIRONMENT}/operator-settings"
        account.client("ssm").put_parameter(Name=name, Value=stored, Type="String")

        def services(of: Deployment) -> Services:
            found = Services(account.settings.model_copy(update={"night_backend": of.backend}))
            found.sessions._own_clients[SERVICE, ""] = plane
            vars(found)["lifecycle_machine"] = nights
            found.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
            return found

        nights = Nights(account)
        made = property(lambda of: vars(of).setdefault("made", services(of)))
        with patch.object(Deployment, "services", made), patch.object(Deployment, "now", lambda _: NOW):
            yield account, plane


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    ended = command.run(["agentcore", *words, "--env", ENVIRONMENT, "--output", "json"])
    printed = capsys.readouterr()
    assert ended == code, printed.err
    return json.loads(printed.out) if printed.out.strip() else None


def test_a_plan_is_shown_entry_by_entry_and_changes_nothing(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    _, plane = both
    found = answer(capsys, "plan")
    assert [(one["tenant_id"], one["counts"]["merge"]) for one in found["tenants"]] == [(MEMORY_ID, 2)]
    items = answer(capsys, "plan", NIGHT, "--tenant", MEMORY_ID, "--contents")
    assert {one["task"] for one in items} == set(CRANES) == plane.texts()


def test_a_run_a_status_and_a_restore(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    _, plane = both
    assert answer(capsys, "run")["ended"] == "completed"
    assert plane.texts() == {MERGED}
    [entry] = answer(capsys, "status")["memories"]
    assert (entry["records"], list(entry["namespaces"])) == (2, [place_of(MEMORY_ID, ALICE)])
    assert "alice" not in json.dumps(entry)
    back = answer(capsys, "restore", NIGHT, "--tenant", MEMORY_ID)
    assert [one["decision"] for one in back] == ["restored", "restored"]
    assert plane.texts() == set(CRANES)


def test_what_is_exported_says_whence_it_comes_and_is_exported_once(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    account, plane = both
    theirs = an_episode(run_id="r-2", user_ref="u-1", ended_at=NOW - 60)
    for episode in (an_episode(run_id="r-1", ended_at=NOW - 60), theirs):
        account.services.tenant(TENANT).episodes.put(episode)
    words = ("export", "-m", MEMORY_ID, "-t", TENANT, "-a", AGENT, "--namespace", "/actors/quay/")
    assert answer(capsys, *words) == {"exported": 1, "known": 0, "of_users": 1}
    assert answer(capsys, *words) == {"exported": 0, "known": 1, "of_users": 1}
    [record] = [one for one in plane.records[MEMORY_ID].values() if one["namespaces"] == ["/actors/quay/"]]
    assert record["metadata"]["agent-memory:run"] == {"stringValue": "r-1"}


def test_an_export_into_a_neighbours_namespace_is_refused(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    for namespace in ("/actors/quay", "/others/quay/"):
        words = ("export", "-m", MEMORY_ID, "-t", TENANT, "-a", AGENT, "--namespace", namespace)
        answer(capsys, *words, code=2)


def test_an_import_hands_records_over_as_finished_runs(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    handed: list[Mapping[str, Any]] = []

    def deliver(session: object, details: list[Mapping[str, Any]], **_: object) -> list[object]:
        handed.extend(details)
        return []

    with patch.object(commands, "deliver", deliver):
        answer(capsys, "import", "-m", MEMORY_ID, "-t", TENANT, "-a", AGENT, "--user", "alice")
    assert {one["transcript"]["messages"][0]["content"] for one in handed} == set(CRANES)
    assert {one["run_id"][:4] for one in handed} == {"mem-"}
    assert {one["user_id"] for one in handed} == {"alice"}


def test_a_hold_of_what_is_no_entry_is_refused_because_it_would_hold_nothing(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "hold", "--tenant", MEMORY_ID)["held"]
    assert command.run(["agentcore", "hold", "--tenant", f"{MEMORY_ID}x", "--env", ENVIRONMENT]) == 4
    assert f"{MEMORY_ID}x" in capsys.readouterr().err
    assert answer(capsys, "holds", "--tenant", f"{MEMORY_ID}x") == []
    assert not answer(capsys, "release", "--tenant", MEMORY_ID)["held"]


def test_what_to_do_next_is_said_in_the_words_of_the_group(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        ["plan"],
        ["plan", "n-2020-01-01"],
        ["report", "n-2020-01-01"],
        ["run", "--no-wait"],
        ["release", "--tenant", MEMORY_ID],
        ["restore", "n-2020-01-01"],
    )
    for words in asked:
        command.run(["agentcore", *words, "--env", ENVIRONMENT])
        said = capsys.readouterr().err
        assert "agent-memory agentcore " in said
        assert "lifecycle" not in said


@pytest.mark.parametrize("name", ["plan", "run", "report", "approve", "restore", "hold", "release", "holds", "runs"])
def test_the_help_of_a_command_of_the_night_names_this_group(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["agentcore", name, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"agent-memory agentcore {name}" in said
    assert "agent-memory lifecycle" not in said


@pytest.mark.parametrize(
    "words", [("status",), ("plan",), ("runs",), ("report",), ("run",), ("hold", "--tenant", TENANT)]
)
def test_a_deployment_that_names_no_memory_says_how_to_name_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with an_account_with_agentcore(agentcoreMemories="[]") as (account, _):
        name = f"{contract.PARAMETER_ROOT}/{ENVIRONMENT}/operator-settings"
        stored = json.dumps({key: value for key, value in account.variables.items() if "BACKEND" not in key})
        account.client("ssm").put_parameter(Name=name, Value=stored, Type="String")
        assert command.run(["agentcore", *words, "--env", ENVIRONMENT]) == 4
        assert "deploy it with -c agentcoreMemories=" in capsys.readouterr().err
