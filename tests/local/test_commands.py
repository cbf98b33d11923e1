"""`python -m local` as the person at the keyboard meets it, where nothing needs to start."""

import fcntl
import socket

import pytest

from local import environments, runtime
from local.__main__ import main
from local.layout import HOST, LocalRuntimeError


def test_status_of_a_stack_that_does_not_run_says_how_to_start_it(tmp_path, capsys):
    assert main(["status", "--state", str(tmp_path)]) == 3
    assert f"python -m local up --state {tmp_path}" in capsys.readouterr().out


def test_down_of_a_stack_that_does_not_run_is_no_error(tmp_path, capsys):
    assert main(["down", "--state", str(tmp_path)]) == 0
    assert "No stack runs" in capsys.readouterr().out


def test_reset_of_nothing_is_no_error(tmp_path):
    assert main(["reset", "--state", str(tmp_path / "absent"), "--quiet"]) == 0


def test_reset_leaves_what_it_did_not_make(tmp_path):
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "ports.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    assert main(["reset", "--state", str(tmp_path), "--quiet"]) == 0
    assert {path.name for path in tmp_path.iterdir()} <= {"mine", "lock"}


def test_logs_before_anything_ran_say_what_to_do(tmp_path, capsys):
    assert main(["logs", "--state", str(tmp_path)]) == 1
    assert "python -m local up" in capsys.readouterr().err


def test_logs_show_functions_and_servers_and_end_with_whole_lines(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "emulator.log").write_text("ready\n")
    (tmp_path / "logs" / "functions.log").write_text("2026-12-01T00:00:00Z a-function run consolidated\nhalf a li")
    assert main(["logs", "--state", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "2026-12-01T00:00:00Z a-function run consolidated\nemulator: ready\n"


@pytest.mark.parametrize("pair", ["memoryTtlDays", "=30"])
def test_a_context_that_is_no_pair_is_refused_with_an_example(tmp_path, capsys, pair):
    assert main(["up", "--state", str(tmp_path), "--context", pair]) == 1
    assert "--context memoryTtlDays=30" in capsys.readouterr().err


def test_a_second_command_on_the_same_state_is_refused_while_the_first_works(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LocalRuntimeError, match="another command"):
            runtime.up(tmp_path)


def test_the_ports_of_a_state_stay(tmp_path):
    from local.layout import Layout

    first = runtime._ports(Layout(tmp_path))
    assert runtime._ports(Layout(tmp_path)) == first
    assert len(set(first.values())) == 3
    for port in first.values():
        socket.create_server((HOST, port)).close()


def test_a_torn_file_of_ports_is_made_anew(tmp_path):
    from local.layout import Layout

    (tmp_path / "ports.json").write_text('{"emulator": 1')
    assert set(runtime._ports(Layout(tmp_path))) == {"emulator", "ai", "chat"}


def test_an_environment_is_current_only_for_the_requirements_it_was_made_from(tmp_path, monkeypatch):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("one")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    monkeypatch.setattr(environments, "REQUIREMENTS", {venv: str(requirements)})
    assert not environments.installed(venv)
    (venv / environments.STAMP).write_text(environments._fingerprint(requirements))
    assert environments.installed(venv)
    requirements.write_text("two")
    assert not environments.installed(venv)


def logged(tmp_path, *lines):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "emulator.log").write_text("ready\n")
    (tmp_path / "logs" / "functions.log").write_text("".join(line + "\n" for line in lines))


BOOTSTRAP = (
    '2026-12-01T09:00:00Z agent-memory-bootstrap-local {"level":"INFO","location":"handler:37","message":"memory recalled",'
    '"timestamp":"x","service":"bootstrap","cold_start":true,"tenant_id":"acme","items":2,"other":"' + "w" * 90 + '"}'
)
DECAY = '2026-12-01T10:00:00Z agent-memory-decay-local {"level":"WARNING","message":"held","tenant_id":"acme"}'
METRICS = '2026-12-01T10:00:00Z agent-memory-decay-local {"_aws":{"Timestamp":1},"service":"decay","Held":[1.0]}'


def test_logs_are_lines_for_people_with_ids_and_counts_and_without_long_words(tmp_path, capsys):
    logged(tmp_path, BOOTSTRAP, DECAY, METRICS, "Traceback (most recent call last):")
    assert main(["logs", "--state", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-12-01T09:00:00Z INFO    agent-memory-bootstrap-local memory recalled tenant_id=acme items=2 "
        "other=[90 characters]",
        "2026-12-01T10:00:00Z WARNING agent-memory-decay-local held tenant_id=acme",
        "2026-12-01T10:00:00Z METRICS agent-memory-decay-local Held=1",
        "Traceback (most recent call last):",
        "emulator: ready",
    ]
    assert main(["logs", "--state", str(tmp_path), "--raw"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [BOOTSTRAP, DECAY, METRICS]


def test_logs_can_be_of_one_function_and_from_some_time_on(tmp_path, capsys):
    logged(tmp_path, BOOTSTRAP, DECAY)
    for words, expected in (
        (["--function", "decay"], ["held"]),
        (["--since", "2026-12-01T09:30Z"], ["held"]),
        (["--since", "2026-12-01T10:30+01:00"], ["held"]),
        (["--since", "2026-12-01T09:00Z", "--function", "boot"], ["memory recalled"]),
        (["--since", "9999d"], ["memory recalled", "held"]),
    ):
        assert main(["logs", "--state", str(tmp_path), *words]) == 0
        said = capsys.readouterr().out
        assert [word for word in ("memory recalled", "held") if word in said] == expected
        assert "ready" not in said
    assert main(["logs", "--state", str(tmp_path), "--since", "soon"]) == 1
    assert "15m" in capsys.readouterr().err
