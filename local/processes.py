"""Child processes that outlive the command that started them: pid files, ports, readiness, stopping."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.layout import HOST, LocalRuntimeError, read_json, write_whole

STOP_SECONDS = 30.0
POLL_SECONDS = 0.05


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def port_taken(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT is free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno in (errno.EADDRINUSE, errno.EACCES)
    return False


def _birth(pid: int) -> str:
    """What tells this process from a later one with the same number; empty when it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # After the name in brackets: state is the 1st field, start time the 20th.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] == "Z" else fields[19]
    found = _ps("-o", "stat=,lstart=", "-p", str(pid)).strip()
    condition, _, started = found.partition(" ")
    return "" if condition.startswith("Z") else started.strip()


def _ps(*options: str) -> str:
    return subprocess.run(["ps", *options], capture_output=True, text=True, check=False).stdout


class Server:
    """One child, known by its pid file across commands."""

    def __init__(self, name: str, *, pid_file: Path, port: int, log: Path, health: str) -> None:
        self.name = name
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._pid_file = pid_file
        self._log = log
        self._health = health

    @property
    def pid(self) -> int | None:
        """The pid of the running child; a file left by a crash is not believed."""
        record = read_json(self._pid_file)
        pid, born = record.get("pid"), record.get("born")
        if isinstance(pid, int) and born and _birth(pid) == born:
            return pid
        return None

    def start(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> None:
        if port_taken(self.port):
            raise LocalRuntimeError(
                f"port {self.port}, which the {self.name} of this state folder uses, is taken by another program. "
                f"Stop that program (`lsof -i :{self.port}` names it), or get new ports by `python -m local reset`."
            )
        with self._log.open("ab") as log:
            child = subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        write_whole(self._pid_file, f'{{"pid": {child.pid}, "born": "{_birth(child.pid)}"}}')
        self._child = child

    def wait_until_ready(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self._child.poll() is not None:
                self._pid_file.unlink(missing_ok=True)
                raise LocalRuntimeError(f"the {self.name} stopped while starting. {self._last_words()}")
            if time.monotonic() > deadline:
                self.stop()
                raise LocalRuntimeError(f"the {self.name} was not ready after {seconds:.0f} s. {self._last_words()}")
            time.sleep(POLL_SECONDS)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}{self._health}", timeout=2) as answer:  # noqa: S310 - loopback
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def stop(self) -> None:
        """Ask it to end and wait: the emulator writes its state on SIGTERM and loses it on SIGKILL."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            _await_end(pid)
        self._pid_file.unlink(missing_ok=True)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-3:] if self._log.exists() else []
        return f"The log is {self._log}" + (f"; it ends: {' | '.join(lines)}" if lines else ".")


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while _birth(pid):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(POLL_SECONDS)


def children(pid: int) -> list[int]:
    by_task = list(Path(f"/proc/{pid}/task").glob("*/children"))
    if by_task:
        found: list[int] = []
        for task in by_task:
            # A thread may end between the listing and the reading.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in task.read_text().split()]
        return found
    pairs = (line.split() for line in _ps("-A", "-o", "pid=,ppid=").splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]
