"""The AWS emulator as a process of its own: ministack, with the few mends that this project needs.

Runs in .local/venv-emulator and imports nothing of the project. The mends reach into private functions, so the
pin is exact, each mend states what it expects, and tests/local/test_emulator.py holds each one.
"""

import hashlib
import importlib.metadata
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PINNED = "1.5.33"
QUEUE_SECONDS = 60.0
LOG_LIMIT_BYTES = 50_000_000
CREATED_AT = "x-amz-agentcore-memory-createdAt"

_log_lock = threading.Lock()


def queue_at_the_concurrency_cap(service: Any, seconds: float = QUEUE_SECONDS) -> None:
    """The cap guards the laptop's memory, so a call over it waits; reserved concurrency still throttles as on AWS."""
    acquire = service._acquire_execution_slot

    def acquire_or_wait(func: dict[str, Any], config: dict[str, Any]) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            slot, refused_by = acquire(func, config)
            if slot is not None or refused_by != "account" or time.monotonic() > deadline:
                return slot, refused_by
            time.sleep(0.01)

    service._acquire_execution_slot = acquire_or_wait


def do_not_wait_for_logs(runtime: Any) -> None:
    """A call that logs nothing costs 50 ms of waiting for a line; the lines are kept anyway, see below."""
    drain = runtime.Worker._drain_stderr_bounded

    def drain_shortly(worker: Any) -> Any:
        return drain(worker, first_line_wait=0.004, idle_confirm=0.002)

    runtime.Worker._drain_stderr_bounded = drain_shortly


def append_log(path: Path, function: str, text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with _log_lock, path.open("a", encoding="utf-8", errors="replace") as log:
        log.writelines(f"{stamp} {function} {line}\n" for line in text.splitlines())


def keep_every_log_line(runtime: Any, service: Any, path: Path) -> None:
    """CloudWatch here loses lines that come late and those of a killed worker; a file that can be followed does not."""

    def read_stderr(worker: Any) -> None:
        try:
            for line in worker._proc.stderr:
                append_log(path, worker.func_name, line.rstrip("\n"))
                worker._stderr_queue.put(line.rstrip("\n"))
        except (OSError, ValueError):
            return  # the pipe went with its worker

    run_warm = service._execute_function_warm

    def run_warm_and_tell(func: dict[str, Any], event: Any, request_id: str) -> Any:
        answer = run_warm(func, event, request_id)
        if answer.get("error"):
            name = (func.get("config") or func).get("FunctionName", "unknown")
            append_log(path, name, f"ERROR {request_id} {answer.get('log') or answer['body'].get('errorMessage', '')}")
        return answer

    runtime.Worker._read_stderr = read_stderr
    service._execute_function_warm = run_warm_and_tell


def unpack_code_once(runtime: Any, cache: Path) -> None:
    """Each worker would unpack and byte-compile its own copy of every layer, seconds per cold start: share it."""

    class SharedZip(zipfile.ZipFile):
        def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
            if self.filename is None or members is not None or pwd is not None:
                super().extractall(path, members, pwd)
                return
            shared = self._shared(Path(self.filename))
            for entry in shared.iterdir():
                (Path(path) / entry.name).symlink_to(entry)

        def _shared(self, source: Path) -> Path:
            shared = cache / hashlib.sha256(source.read_bytes()).hexdigest()
            if not shared.exists():
                partial = Path(tempfile.mkdtemp(prefix="unpacking-", dir=cache))
                super().extractall(partial)
                try:
                    partial.rename(shared)
                except OSError:
                    shutil.rmtree(partial)  # another worker was first
            return shared

    # The runtime names zipfile.LargeFileError, which Python calls LargeZipFile.
    runtime.zipfile = types.SimpleNamespace(
        ZipFile=SharedZip, BadZipFile=zipfile.BadZipFile, LargeFileError=zipfile.LargeZipFile
    )


def resume_interrupted_executions(machines: Any, when_ready: Callable[[Callable[[], None]], None]) -> None:
    """An execution outlives a restart of AWS; here it would fail. Begin it again: states may run twice."""
    restore = machines._restore_state

    def restore_and_resume(data: Any) -> None:
        restore(data)
        interrupted = [e for e in machines._executions.all_values() if e.get("error") == "States.ServiceRestart"]
        for execution in interrupted:
            execution.update(status="RUNNING", stopDate=None, error=None, cause=None, events=execution["events"][:1])
        when_ready(lambda: begin([execution["executionArn"] for execution in interrupted]))

    def begin(arns: list[str]) -> None:
        for arn in arns:
            threading.Thread(target=machines._run_execution, args=(arn,), daemon=True).start()

    machines._restore_state = restore_and_resume


def find_records_as_agentcore_does(service: Any) -> None:
    """A namespace finds what lies below it and createdAt can be filtered by; here a namespace finds only its equal."""
    list_records, bucket_of, asked = service._list_memory_records, service._records_bucket, threading.local()

    def below(prefix: str, namespaces: Any) -> bool:
        return not prefix or any(f"{one.rstrip('/')}/".startswith(prefix) for one in namespaces)

    def within_the_dates(memory_id: Any, scope: Any) -> Any:
        dates = getattr(asked, "dates", ())
        found = bucket_of(memory_id, scope)
        if not dates:
            return found
        return {key: record for key, record in found.items() if all(_holds(one, record) for one in dates)}

    def _holds(one: Any, record: Any) -> bool:
        at = service._ts_value(record.get("createdAt"))
        limit = service._ts_value(one["right"]["metadataValue"]["dateTimeValue"])
        return at is not None and (at < limit if one["operator"] == "BEFORE" else at > limit)

    def list_by_dates(memory_id: Any, body: Any) -> Any:
        data = service._parse_body(body)
        filters = data.get("metadataFilters") or []
        asked.dates = [one for one in filters if one.get("left", {}).get("metadataKey") == CREATED_AT]
        left = [one for one in filters if one not in asked.dates]
        try:
            return list_records(memory_id, json.dumps({**data, "metadataFilters": left}).encode())
        finally:
            asked.dates = []

    service._namespace_matches = below
    service._records_bucket = within_the_dates
    service._list_memory_records = list_by_dates


def once_it_listens(act: Callable[[], None]) -> None:
    """Functions call back, so nothing may run before the port is open."""
    address = ("127.0.0.1", int(os.environ["GATEWAY_PORT"]))

    def wait() -> None:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(address) == 0:
                    return act()
            time.sleep(0.05)

    threading.Thread(target=wait, daemon=True).start()


def main(function_log: Path, layer_cache: Path) -> None:
    found = importlib.metadata.version("ministack")
    if found != PINNED:
        message = f"this launcher mends ministack {PINNED} and found {found}: run `python -m local install`"
        raise SystemExit(message)
    from ministack import app
    from ministack.core import lambda_runtime
    from ministack.services import bedrock_agentcore, lambda_svc, stepfunctions

    if function_log.exists() and function_log.stat().st_size > LOG_LIMIT_BYTES:
        function_log.replace(function_log.with_suffix(".1"))
    queue_at_the_concurrency_cap(lambda_svc)
    do_not_wait_for_logs(lambda_runtime)
    keep_every_log_line(lambda_runtime, lambda_svc, function_log)
    unpack_code_once(lambda_runtime, layer_cache)
    find_records_as_agentcore_does(bedrock_agentcore)
    resume_interrupted_executions(stepfunctions, once_it_listens)
    app.main()


if __name__ == "__main__":
    log, cache = (Path(argument) for argument in sys.argv[1:])
    del sys.argv[1:]  # the emulator reads its own arguments
    main(log, cache)
