"""The agent-memory command as a user types it: exit codes, streams, JSON, sentences instead of tracebacks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_memory.cli import app as command
from agent_memory.cli.screen import printable
from support.stand_in import StandIn, a_stand_in

WHO = ("--tenant", "meadow", "--agent", "gardener")
WHOSE = {"tenant_id": "meadow", "agent_id": "gardener"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    monkeypatch.chdir(tmp_path)
    for name in ("AGENT_MEMORY_ENV", "AGENT_MEMORY_HOME", "AGENT_MEMORY_TENANT", "AGENT_MEMORY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    with a_stand_in() as stand_in:
        yield stand_in


def run(*words: str) -> int:
    return command.run(list(words))


def a_memory(text: str = "watered") -> dict[str, object]:
    item = {"id": "gardener/run-7", "tier": "episodic", "text": text, "score": 0.9, "provenance": {}}
    return {"context": text, "items": [item], "degraded": [], "context_id": "c-1", "timings": {}}


def test_output_json_works_before_and_after_the_subcommand(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    world.answer = lambda _: a_memory()
    assert run("--output", "json", "--env", "test", "recall", "Water", *WHO) == 0
    before = json.loads(capsys.readouterr().out)
    assert run("recall", "Water", *WHO, "-o", "json", "-e", "test") == 0
    after = json.loads(capsys.readouterr().out)
    assert before == after
    assert after["items"][0]["id"] == "gardener/run-7"


def test_an_option_after_the_subcommand_wins_over_one_before_it(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--env", "nowhere", "recall", "Water", *WHO, "--env", "test", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["nothing_relevant"] is True


def test_answers_go_to_stdout_and_notices_to_stderr_without_colour_codes(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    world.answer = lambda _: a_memory()
    assert run("recall", "Water", *WHO, "--env", "test") == 0
    printed = capsys.readouterr()
    assert "gardener/run-7" in printed.out
    assert "asking memory" in printed.err
    assert "\x1b" not in printed.out + printed.err


def test_stored_text_cannot_steer_the_terminal(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    world.answer = lambda _: a_memory("\x1b[2Jgone \u202efdp.exe\u202c [bold]not markup[/bold] \x9b31m")
    assert run("recall", "Water", *WHO, "--env", "test") == 0
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\u202e"} & set(printed)
    assert "[bold]not markup[/bold]" in printed
    assert printable("سلام \N{ZERO WIDTH NON-JOINER}דברים\n\tok") == "سلام \N{ZERO WIDTH NON-JOINER}דברים\n\tok"


def test_explain_shows_the_candidates_that_were_not_returned(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "gardener/run-3", "score": 0.41234, "passed": False}
    world.answer = lambda _: {**a_memory(), "items": [], "context": "", "explain": [row]}
    assert run("recall", "Water", *WHO, "--env", "test", "--explain") == 0
    assert world.questions[0]["explain"] is True
    assert "0.412" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (("recall",), "recall"),
        (("procedures", "approve"), "procedures approve"),
        (("procedures", "aprove"), "procedures"),
        (("facts", "list", *WHO[:2], "--state", "believed"), "facts list"),
    ],
)
def test_wrong_usage_names_the_help_that_says_what_is_right(
    world: StandIn, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], whose: str
) -> None:
    assert run(*words) == 2
    assert f"Try `agent-memory {whose} --help`." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("recall", "Water"), 2),
        (("recall", "Water", "--tenant", "a#b", "--agent", "x", "--env", "test"), 2),
        (("recall", "Water", *WHO, "--output", "xml"), 2),
        (("reckall",), 2),
        (("emit", "missing.json", "--env", "test"), 2),
        (("local", "up"), 4),
        (("recall", "Water", *WHO, "--env", "local"), 4),
        (("recall", "Water", *WHO, "--env", "nowhere"), 4),
        (("--version",), 0),
        (("recall", "--help"), 0),
    ],
)
def test_exit_codes_are_those_of_the_help(
    world: StandIn, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    assert run(*words) == code
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert code == 0 or printed.err.startswith(("agent-memory: ", "asking memory\nagent-memory: "))


def test_a_refusal_by_iam_says_where_the_actions_are_listed(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    world.refused_actions = {"GetParametersByPath"}
    assert run("recall", "Water", *WHO, "--env", "test") == 4
    assert "Who may do what" in capsys.readouterr().err


def test_doctor_sends_nobody_to_deploy_who_was_only_refused(world: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    world.refused_actions = {"GetParametersByPath"}
    assert run("doctor", "--env", "test", "--output", "json") == 1
    (fault,) = [check for check in json.loads(capsys.readouterr().out) if not check["ok"]]
    assert "AWS_PROFILE" in fault["remedy"]
    assert "cdk deploy" not in fault["remedy"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [("nowhere", "check the name"), ("prod", "cdk deploy -c env=prod --all"), ("staging", "env=staging")],
)
def test_a_deployment_that_is_not_there_is_refused_with_those_that_are(
    world: StandIn, capsys: pytest.CaptureFixture[str], name: str, advice: str
) -> None:
    assert run("recall", "Water", *WHO, "--env", name) == 4
    said = capsys.readouterr().err
    assert f"no agent-memory deployment called {name!r}" in said
    assert advice in said
    assert "There is test: name one with --env" in said
    assert ("cdk deploy" in said) == (name != "nowhere")


def test_the_laptops_deployment_is_named_where_it_was_started(
    world: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_project(tmp_path / "project", env="AWS_ACCESS_KEY_ID=local\n")
    monkeypatch.setenv("AGENT_MEMORY_HOME", str(tmp_path / "project"))
    assert run("recall", "Water", *WHO, "--env", "prd") == 4
    assert "There is test, local" in capsys.readouterr().err
    world.refused_actions = {"GetParametersByPath"}
    assert run("recall", "Water", *WHO, "--env=prd") == 4
    assert "'prd' was asked for; on this laptop there is `local`" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a b", "../prod", "pr/od", "x" * 200])
def test_a_name_that_no_deployment_can_have_is_wrong_usage(
    world: StandIn, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for words in (("recall", "Water", *WHO), ("spool", "list")):
        assert run(*words, "--env", name) == 2
        assert "--env must be" in capsys.readouterr().err


def test_memory_that_could_not_be_read_is_a_failure_and_not_an_empty_answer(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    degraded = [{"tier": "episodic", "reason": "timeout"}]
    world.answer = lambda _: {"context": "", "items": [], "degraded": degraded, "context_id": "c-1"}
    assert run("recall", "Water", *WHO, "--env", "test") == 1
    assert "episodic: timeout" in capsys.readouterr().err


def test_memories_without_room_are_not_shown_as_nothing_relevant(
    world: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    world.answer = lambda _: {"context": "", "items": [], "degraded": [], "context_id": "c-1", "dropped": 2}
    assert run("recall", "Water", *WHO, "--env", "test") == 0
    said = capsys.readouterr().err
    assert "2 memories" in said
    assert "Nothing relevant" not in said


def test_emit_reads_json_json_lines_and_lists_and_puts_overrides_in(
    world: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"tenant_id": "x", "agent_id": "gardener", "run_id": "r-1", "transcript": {"messages": [{"role": "user"}]}}
    (tmp_path / "one.json").write_text(json.dumps(one, indent=2))
    (tmp_path / "two.jsonl").write_text(json.dumps(one) + "\n\n" + json.dumps({**one, "run_id": "r-2"}) + "\n")
    (tmp_path / "list.json").write_text(json.dumps([one]))
    assert run("emit", "one.json", "--env", "test", "--tenant", "meadow", "--run", "r-9", "-o", "json") == 0
    (arrival,) = json.loads(capsys.readouterr().out)
    assert (arrival["tenant_id"], arrival["run_id"], arrival["state"]) == ("meadow", "r-9", "sent")
    assert run("emit", "two.jsonl", "--env", "test") == 0
    assert run("emit", "list.json", "--env", "test") == 0
    assert [detail["run_id"] for detail in world.details] == ["r-9", "r-1", "r-2", "r-1"]


@pytest.mark.parametrize("text", ["", "[]", "5", "[1]", '{"a": ', '{"run_id": "r"}\nprose', "\ud800"])
def test_emit_refuses_a_file_that_holds_no_runs_before_it_sends_any(
    world: StandIn, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert run("emit", "file", "--env", "test") == 2
    assert capsys.readouterr().err.startswith("agent-memory: file")
    assert world.entries == []


def test_emit_refuses_one_run_id_for_several_runs(world: StandIn, tmp_path: Path) -> None:
    detail = json.dumps({"tenant_id": "meadow", "agent_id": "gardener", "run_id": "r-1"})
    (tmp_path / "two.jsonl").write_text(f"{detail}\n{detail}\n")
    assert run("emit", "two.jsonl", "--run", "r-9", "--env", "test") == 2
    assert world.entries == []


SECRET_WORDS = "what the customer said"


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"transcript": None}, "transcript", "is missing"),
        ({"transcript": SECRET_WORDS}, "transcript", "must be an object with messages or s3_uri, not text"),
        ({"transcript": [SECRET_WORDS]}, "transcript", "not a list of 1"),
        ({"transcript": {}}, "transcript", "must hold messages or s3_uri"),
        ({"transcript": {"messages": SECRET_WORDS}}, "transcript.messages", "must be a list, not text"),
        ({"transcript": {"messages": None}}, "transcript.messages", "not null"),
        ({"transcript": {"messages": []}}, "transcript.messages", "at least one"),
        ({"transcript": {"messages": [{"role": "user"}, 7]}}, "transcript.messages[1]", "not a number"),
        ({"transcript": {"messages": [{"said": SECRET_WORDS}]}}, "transcript.messages[0]", "who spoke"),
        ({"transcript": {"messages": [["a", "b", "c"]]}}, "transcript.messages[0]", "not a list of 3"),
        ({"transcript": {"messages": [{"role": 1}]}}, "transcript.messages[0].role", "must be text"),
        ({"transcript": {"messages": [{"role": "user", "content": 7}]}}, "transcript.messages[0].content", "a number"),
        ({"transcript": {"messages": [{"role": "user"}], "s3_uri": "s3://b/k"}}, "transcript", "not both"),
        ({"ended_at": "yesterday"}, "ended_at", "ISO 8601"),
        ({"schema_version": 2}, "schema_version", "must be 1"),
        ({"task_type": "a@b"}, "task_type", "must be"),
    ],
)
def test_emit_says_what_can_not_be_read_of_a_run_before_it_sends_anything(
    world: StandIn,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    field: str,
    rule: str,
) -> None:
    ids = {"tenant_id": "meadow", "agent_id": "gardener"}
    good = {**ids, "run_id": "r-1", "transcript": {"messages": [{"role": "user", "content": SECRET_WORDS}]}}
    (tmp_path / "runs.json").write_text(json.dumps([good, {**good, "run_id": "r-2", **changes}]))
    assert run("emit", "runs.json", "--env", "test") == 2
    said = capsys.readouterr().err
    assert f"run 2 of 2: {field} " in said
    assert rule in said
    assert "nothing was sent" in said
    assert SECRET_WORDS not in said
    assert world.entries == []


@pytest.mark.parametrize(
    "message", [SECRET_WORDS, ["human", SECRET_WORDS], {"type": "human", "data": {"content": "x"}}, {"role": "user"}]
)
def test_emit_takes_every_shape_of_a_message_that_memory_reads(world: StandIn, tmp_path: Path, message: object) -> None:
    ids = {"tenant_id": "meadow", "agent_id": "gardener", "run_id": "r-1"}
    (tmp_path / "run.json").write_text(json.dumps({**ids, "transcript": {"messages": [message]}}))
    assert run("emit", "run.json", "--env", "test") == 0


@pytest.mark.parametrize(
    "bad", [{"run_id": "a#b"}, {"tenant_id": "registry"}, {"agent_id": None}, {"run_id": ""}, {"tenant_id": 7}]
)
def test_emit_sends_nothing_of_a_file_in_which_one_run_has_no_valid_ids(
    world: StandIn, tmp_path: Path, bad: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    good = {**WHOSE, "run_id": "r-1", "transcript": {"messages": [{"role": "user"}]}}
    (tmp_path / "three.jsonl").write_text("\n".join(json.dumps(d) for d in (good, {**good, **bad}, good)))
    assert run("emit", "three.jsonl", "--env", "test") == 2
    assert f"run 2 of 3: {next(iter(bad))}" in capsys.readouterr().err
    assert world.entries == []


def test_emit_sends_the_others_and_names_the_run_that_can_not_go(
    world: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {**WHOSE, "run_id": "r-1", "transcript": {"messages": [{"role": "user"}]}}
    heavy = {**good, "run_id": "r-2", "task": "x" * 1_100_000}
    (tmp_path / "three.jsonl").write_text("\n".join(json.dumps(d) for d in (good, heavy, {**good, "run_id": "r-3"})))
    assert run("emit", "three.jsonl", "--env", "test", "-o", "json") == 1
    states = {arrival["run_id"]: arrival["state"] for arrival in json.loads(capsys.readouterr().out)}
    assert states == {"r-1": "sent", "r-2": "not_sent", "r-3": "sent"}


def a_project(folder: Path, *, env: str | None) -> None:
    (folder / "local").mkdir(parents=True)
    (folder / "local" / "__main__.py").write_text("import sys\nprint('ran', *sys.argv[1:])\nsys.exit(7)\n")
    if env is not None:
        (folder / ".local").mkdir()
        (folder / ".local" / "env").write_text(env)


def test_local_is_the_default_once_it_was_started_and_a_real_profile_stays_out(
    world: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import os

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_PROFILE", "a-real-account")
    a_project(tmp_path / "project", env=f"AWS_ENDPOINT_URL={endpoint}\nAWS_ACCESS_KEY_ID=local\n")
    (tmp_path / "project" / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep" / "er")
    world.environment = "local"
    assert run("recall", "Water", *WHO, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["nothing_relevant"] is True


def test_local_commands_run_the_projects_own_runtime_and_hand_on_its_exit_code(
    world: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    a_project(tmp_path / "project", env=None)
    monkeypatch.setenv("AGENT_MEMORY_HOME", str(tmp_path / "project"))
    assert run("local", "logs", "--follow") == 7
    assert "ran logs --follow" in capfd.readouterr().out
    assert run("local", "status", "--output", "json") == 7
    assert json.loads(capfd.readouterr().out) == {"command": "status", "exit_code": 7, "lines": ["ran status"]}


def test_doctor_names_the_first_fault_and_what_to_do(
    world: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del world.names["parked-bucket"]
    assert run("doctor", "--env", "test", "--output", "json") == 1
    checks = json.loads(capsys.readouterr().out)
    assert [check["ok"] for check in checks] == [True, False]
    assert "parked-bucket" in checks[1]["found"]
    assert checks[1]["remedy"] == "cdk deploy -c env=test --all"

    a_project(tmp_path / "project", env="AWS_ENDPOINT_URL=http://127.0.0.1:9\n")
    monkeypatch.setenv("AGENT_MEMORY_HOME", str(tmp_path / "project"))
    assert run("doctor", "--env", "local", "--output", "json") == 1
    faults = {check["name"]: check["remedy"] for check in json.loads(capsys.readouterr().out) if not check["ok"]}
    assert {"emulator packages", "AI server packages", "emulator listens", "names in SSM"} <= set(faults)
    assert all(faults.values())
