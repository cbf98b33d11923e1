"""A command starts fast because it loads its own module and no other; what the help says of the others is theirs."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from agent_memory.cli.app import tree
from agent_memory.cli.commands import COMMANDS, Command

HEAVY = {"boto3", "numpy", "agent_memory.wiring", "agent_memory.settings", "agent_memory.wiring_agentcore"}


@pytest.mark.parametrize(("name", "command"), COMMANDS.items())
def test_the_help_says_of_a_command_what_the_command_says_itself(name: str, command: Command) -> None:
    module = import_module(f"agent_memory.cli.{command.module}")
    group = getattr(module, "app", None)
    said = group.info.help if group else inspect.getdoc(getattr(module, name))
    assert command.summary == " ".join(str(said).split("\n\n", maxsplit=1)[0].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_before_and_behind_options(name: str) -> None:
    for words in (
        [name],
        ["--env", "dev", name, "recall"],
        ["-o", "json", f"--env={name}", name, "list", "-e", "emit"],
    ):
        app = tree(words)
        stubs = {command.name for command in app.registered_commands if command.callback.__name__ == "_not_loaded"}
        assert stubs == set(COMMANDS) - {name}


def loaded_by(program: str) -> set[str]:
    """Modules that a fresh interpreter has loaded when *program* is done."""
    ending = "\nimport sys; sys.stderr.write(chr(10).join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program + ending], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


def test_the_help_loads_nothing_that_a_command_needs() -> None:
    loaded = loaded_by("from agent_memory.cli.app import run\nassert run(['--help']) == 0")
    assert not loaded & (HEAVY | {f"agent_memory.cli.{command.module}" for command in COMMANDS.values()})


@pytest.mark.parametrize("words", [["spool", "--help"], ["recall", "--help"], ["procedures", "list", "--help"]])
def test_a_commands_help_loads_no_adapter_and_no_other_command(words: list[str]) -> None:
    loaded = loaded_by(f"from agent_memory.cli.app import run\nassert run({words}) == 0")
    assert not loaded & (HEAVY - {"numpy"})
    others = {command.module for name, command in COMMANDS.items() if name != words[0]}
    assert not loaded & {f"agent_memory.cli.{module}" for module in others - {"procedures", "recall", "spool"}}


def test_an_agents_client_loads_what_operators_need_not_before_it_is_asked_for() -> None:
    assert not loaded_by("import agent_memory.client") & (HEAVY - {"numpy"})
