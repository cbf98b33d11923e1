"""`python -m local`: install, up, down, status, reset and logs of the laptop runtime."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from local import chat_model, runtime
from local.deploy import deploy
from local.layout import DEFAULT_STATE, Layout, LocalRuntimeError
from local.readable_logs import readable, since

STOPPED = 3


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except LocalRuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        made.set_defaults(act=act)
        made.add_argument(
            "--state", type=Path, default=DEFAULT_STATE, metavar="DIR", help="state folder (default: .local)"
        )
        made.add_argument("--quiet", action="store_true", help="no progress lines")
        return made

    command("install", _install, "install the emulator, the AI server and the embedding model, once")
    command("llm-install", _install_chat_model, "install the opt-in chat model, once (about 1.2 GB)")
    up = command("up", _up, "start the stack and deploy what changed")
    up.add_argument(
        "--context", action="append", default=[], metavar="KEY=VALUE", help="a setting, as for cdk deploy -c"
    )
    up.add_argument("--with-llm", action="store_true", help="start the opt-in chat model as well")
    deployment = command("deploy", _deploy, "deploy to an emulator that runs elsewhere, at AWS_ENDPOINT_URL")
    deployment.add_argument("--context", action="append", default=[], metavar="KEY=VALUE", help="as for up")
    command("down", _down, "stop the stack; what it holds stays")
    command("status", _status, "what runs, and where")
    command("reset", _reset, "stop the stack and forget all that it holds")
    logs = command("logs", _logs, "what the functions, the emulator and the AI server wrote")
    logs.add_argument("--follow", action="store_true", help="go on as they log")
    logs.add_argument("--function", metavar="NAME", help="only functions whose name holds this, such as bootstrap")
    logs.add_argument("--since", metavar="WHEN", help="only from then on: 15m, 2h, 1d, 2026-12-01T09:30Z")
    logs.add_argument("--raw", action="store_true", help="lines as they were written, metrics too")
    return whole


def _progress(options: argparse.Namespace) -> Callable[[str], None]:
    if options.quiet:
        return runtime.silent
    started = time.monotonic()

    def say(message: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - started:5.1f} s] {message}\n")
        sys.stderr.flush()

    return say


def _tell(options: argparse.Namespace, *lines: str) -> None:
    if not options.quiet:
        sys.stdout.write("\n".join(lines) + "\n")


def _state_option(options: argparse.Namespace) -> str:
    return "" if options.state == DEFAULT_STATE else f" --state {options.state}"


def _install(options: argparse.Namespace) -> int:
    runtime.install(_progress(options))
    _tell(options, f"Everything is installed. To start it: python -m local up{_state_option(options)}")
    return 0


def _install_chat_model(options: argparse.Namespace) -> int:
    chat_model.install(_progress(options))
    _tell(options, f"The chat model is installed. Next: python -m local up --with-llm{_state_option(options)}")
    return 0


def _up(options: argparse.Namespace) -> int:
    started = time.monotonic()
    context = dict(_pair(text) for text in options.context)
    was_running = runtime.running(options.state)
    stack = runtime.up(options.state, context=context, with_llm=options.with_llm, say=_progress(options))
    deployed = f"deployed {', '.join(stack.changed)}" if stack.changed else "nothing to deploy"
    first = (
        f"The stack already runs on {stack.layout.state}: no second one was started"
        if was_running
        else "The stack is up"
    )
    _tell(
        options,
        f"{first}; {deployed}. {time.monotonic() - started:.1f} s.",
        f"For other AWS clients: set -a; . {stack.layout.environment_file}; set +a",
        f"Next: agent-memory --env local demo. To stop: python -m local down{_state_option(options)}",
    )
    return 0


def _deploy(options: argparse.Namespace) -> int:
    """For containers: docker-compose.yml starts the servers itself."""
    if "AWS_ENDPOINT_URL" not in os.environ:
        raise LocalRuntimeError("deploy needs AWS_ENDPOINT_URL of an emulator; `python -m local up` needs nothing.")
    layout = Layout(options.state)
    layout.create()
    context = dict(_pair(text) for text in options.context)
    changed = deploy(layout, os.environ, context, _progress(options))
    _tell(options, f"deployed {', '.join(changed)}" if changed else "nothing to deploy")
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise LocalRuntimeError(f"--context takes KEY=VALUE, not {text!r}; for example --context memoryTtlDays=30")
    return key, value


def _down(options: argparse.Namespace) -> int:
    stack = runtime.running(options.state)
    if stack is None:
        _tell(options, f"No stack runs on {options.state}. To start it: python -m local up{_state_option(options)}")
        runtime.sweep(options.state)
        return 0
    stack.down()
    _tell(options, f"Stopped. What it holds stays in {options.state}. Next: python -m local up{_state_option(options)}")
    return 0


def _status(options: argparse.Namespace) -> int:
    stack = runtime.running(options.state)
    if stack is None:
        _tell(options, f"No stack runs on {options.state}. To start it: python -m local up{_state_option(options)}")
        return STOPPED
    for server in stack.servers():
        _tell(
            options, f"{server.name}: {server.url} (pid {server.pid})" if server.pid else f"{server.name}: not running"
        )
    for name, status in stack.deployed():
        _tell(options, f"{name}: {status}")
    _tell(options, f"Settings for any AWS client: {stack.layout.environment_file}")
    return 0


def _reset(options: argparse.Namespace) -> int:
    runtime.reset(options.state)
    _tell(options, f"Forgotten. Next: python -m local up{_state_option(options)}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    layout = Layout(options.state)
    if not layout.emulator_log.exists():
        raise LocalRuntimeError(f"nothing ran on {options.state} yet. Next: python -m local up{_state_option(options)}")
    after = since(options.since, datetime.now(UTC)) if options.since else None
    servers = [("emulator: ", layout.emulator_log), ("AI server: ", layout.ai_log)]
    # Servers say neither which function they worked for nor, all of them, when.
    sources = [("", layout.function_log), *([] if options.function or after else servers)]
    for line in _lines(sources, follow=options.follow):
        shown = line if options.raw else readable(line, function=options.function, after=after)
        sys.stdout.write(shown or "")
        sys.stdout.flush()
    return 0


def _lines(sources: list[tuple[str, Path]], *, follow: bool) -> Iterator[str]:
    """Each source's lines so far, then, when following, those of any source as they come."""
    read = dict.fromkeys((path for _, path in sources), 0)
    while True:
        for prefix, path in sources:
            for line in _since(path, read):
                yield prefix + line
        if not follow:
            return
        time.sleep(0.2)


def _since(path: Path, read: dict[Path, int]) -> list[str]:
    """The whole lines that came after what was read; a log that was begun anew is read from its start."""
    if not path.exists():
        return []
    with path.open("rb") as source:
        source.seek(read[path] if path.stat().st_size >= read[path] else 0)
        start, text = source.tell(), source.read()
    whole = text[: text.rfind(b"\n") + 1]
    read[path] = start + len(whole)
    return whole.decode("utf-8", "replace").splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
