"""Finished runs that could not be handed over, on this machine's disk until they can. A bounded folder per tenant.

<folder>/<environment>/<tenant>-<hash>/<ended>-<hash of the run>.json, and set-aside/ for what memory will never take.
Files hold raw transcripts and users' ids: folders are 0700, files 0600. A run appears by a rename, so that a reader
never sees half of it; two processes may keep and send at once, and what both send counts once in memory.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    ConfigurationError,
    RefusedInputError,
    RetryableError,
)
from agent_memory.domain.json_text import read_json
from agent_memory.domain.keys import identifier, tenant_identifier
from agent_memory.domain.models import Model

try:
    import fcntl
except ImportError:  # Windows: two senders may then send the same run, which counts once
    fcntl = None  # type: ignore[assignment]

MAX_BYTES: Final = 200_000_000
MAX_DAYS: Final = 7.0
DAY_SECONDS: Final = 86_400
SET_ASIDE: Final = "set-aside"
# A writer that died leaves its half behind; nobody writes for so long.
ABANDONED_SECONDS: Final = 3_600
# What has nothing to do with the run itself.
MENDABLE = (RetryableError, AccessRefusedError, ConfigurationError)
Send = Callable[[dict[str, object]], object]


class SpoolFullError(AgentMemoryError):
    """The tenant's folder has no room; what is in it stays."""


class SpooledRun(Model):
    """One run that waits. *kept_at*: epoch seconds. *reason*: why it was set aside, None while it waits."""

    tenant_id: str
    agent_id: str
    run_id: str
    kept_at: int
    size: int
    path: Path
    reason: str | None = None


class SpoolReport(Model):
    """What a sending did. *waiting*: still there. *expired*: older than the spool keeps. *reason*: why it stopped."""

    sent: int = 0
    set_aside: int = 0
    expired: int = 0
    waiting: int = 0
    reason: str | None = None


def default_folder() -> Path:
    """Where runs wait when nobody says otherwise: AGENT_MEMORY_SPOOL, or the user's own state folder."""
    named = os.environ.get("AGENT_MEMORY_SPOOL")
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(named) if named else Path(state) / "agent-memory" / "spool"


class Spool:
    """The spool of one environment. *clock*: epoch seconds. *max_bytes* and *max_days* hold for each tenant."""

    def __init__(
        self,
        folder: Path,
        environment: str,
        *,
        max_bytes: int = MAX_BYTES,
        max_days: float = MAX_DAYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder.expanduser() / identifier(environment, "environment").replace(":", "_")
        self._max_bytes = max_bytes
        self._max_seconds = max_days * DAY_SECONDS
        self._clock = clock

    def keep(self, detail: Mapping[str, object]) -> Path:
        """Keep one run-ended detail; the same run with the same content is one file.

        Raises SpoolFullError when the tenant's bound is reached, OSError when the disk refuses.
        """
        tenant_id = tenant_identifier(detail.get("tenant_id"))
        run = f"{identifier(detail.get('agent_id'), 'agent_id')}#{identifier(detail.get('run_id'), 'run_id')}"
        content = json.dumps(detail, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
        place = self._opened(tenant_id)
        name = f"{_digest(run.encode())}-{_digest(content)}.json"
        with _locked(place / ".writing"):
            known = place / name
            if known.exists():
                return known
            self._expire(place)
            if sum(_size(file) for file in _files(place)) + len(content) > self._max_bytes:
                raise SpoolFullError(
                    f"the spool of tenant {tenant_id} holds its {self._max_bytes} bytes: "
                    "`agent-memory spool send` empties it, `agent-memory spool drop` gives runs up"
                )
            return _written(place, name, content)

    def runs(self, tenant_id: str) -> list[SpooledRun]:
        """The runs of a tenant, oldest first, those that were set aside last."""
        place = self._place(tenant_id)
        waiting = sorted(place.glob("*.json"), key=_age_and_name)
        aside = sorted((place / SET_ASIDE).glob("*.json"), key=_age_and_name)
        found = [self._described(file, tenant_id) for file in (*waiting, *aside)]
        return [run for run in found if run is not None]

    def tenants(self) -> list[str]:
        """The tenants that have a folder here."""
        found = []
        for place in sorted(self.folder.glob("*")) if self.folder.is_dir() else []:
            with suppress(OSError, RefusedInputError):
                tenant_id = tenant_identifier((place / ".tenant").read_text(encoding="utf-8"))
                if self._place(tenant_id) == place:
                    found.append(tenant_id)
        return found

    def send(self, tenant_id: str, send: Send, *, limit: int | None = None, again: bool = False) -> SpoolReport:
        """Send the waiting runs of one tenant, oldest first; another sender at work means that there is nothing to do.

        A run that *send* will never take is set aside, so that it can't hold up the others; *again* brings those back
        first. What a later try may mend is kept: no way through ends the sending, no permission only that run's.
        """
        place = self._place(tenant_id)
        if not place.is_dir():
            return SpoolReport()
        with _locked(place / ".sending", wait=False) as mine:
            if not mine:
                return SpoolReport(waiting=len(_waiting(place)), reason="another process is sending")
            expired = self._expire(place)
            for file in _waiting(place / SET_ASIDE) if again else ():
                file.rename(place / file.name)
                _reason_file(file).unlink(missing_ok=True)
            counts = {"sent": 0, "set_aside": 0}
            reason = None
            for file in sorted(_waiting(place), key=_age_and_name)[:limit]:
                try:
                    counts[_sent(file, tenant_id, send)] += 1
                except FileNotFoundError:
                    continue  # dropped meanwhile
                except MENDABLE as error:
                    reason = str(error)
                    # Large runs take a permission of their own, so one that is denied says nothing of the next.
                    if not isinstance(error, AccessRefusedError):
                        break
            return SpoolReport(**counts, expired=expired, waiting=len(_waiting(place)), reason=reason)

    def drop(self, run: SpooledRun) -> bool:
        """Give a run up for good. False when it is not there any more."""
        try:
            run.path.unlink()
        except FileNotFoundError:
            return False
        _reason_file(run.path).unlink(missing_ok=True)
        return True

    def _place(self, tenant_id: str) -> Path:
        # The hash keeps tenants apart on file systems that fold case; `:` is not a file's name everywhere.
        readable = tenant_identifier(tenant_id).replace(":", "_")
        return self.folder / f"{readable}-{_digest(tenant_id.encode())}"

    def _opened(self, tenant_id: str) -> Path:
        place = self._place(tenant_id)
        for folder in (self.folder, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It may have been made by somebody with another umask.
            folder.chmod(0o700)
        if not (place / ".tenant").exists():
            _written(place, ".tenant", tenant_id.encode())
        return place

    def _expire(self, place: Path) -> int:
        """Remove what is older than the spool keeps, and halves that dead writers left."""
        now, expired = self._clock(), 0
        for file in _files(place):
            with suppress(FileNotFoundError):
                age = now - file.stat().st_mtime
                if file.suffix == ".part" and age > ABANDONED_SECONDS:
                    file.unlink()
                elif age > self._max_seconds:
                    expired += file.suffix == ".json"
                    file.unlink()
        return expired

    def _described(self, file: Path, tenant_id: str) -> SpooledRun | None:
        try:
            stat = file.stat()
            detail = _read(file)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            detail = {}
        aside = file.parent.name == SET_ASIDE
        return SpooledRun(
            tenant_id=tenant_id,
            agent_id=str(detail.get("agent_id", "")),
            run_id=str(detail.get("run_id", "")),
            kept_at=int(stat.st_mtime),
            size=stat.st_size,
            path=file,
            reason=_reason_of(file) if aside else None,
        )


def _sent(file: Path, tenant_id: str, send: Send) -> str:
    """Send one file and say which count it belongs to. Raises MENDABLE errors."""
    try:
        send(_owned(_read(file), tenant_id))
    except (*MENDABLE, FileNotFoundError):
        raise
    except Exception as poison:
        # What others' errors say may quote the run.
        _set_aside(
            file, str(poison) if isinstance(poison, AgentMemoryError) else f"can't be sent: {type(poison).__name__}"
        )
        return "set_aside"
    file.unlink(missing_ok=True)
    return "sent"


def _owned(detail: dict[str, object], tenant_id: str) -> dict[str, object]:
    if detail.get("tenant_id") != tenant_id:
        raise RefusedInputError("tenant_id", "must be the tenant whose folder the run lies in")
    return detail


def _set_aside(file: Path, reason: str) -> None:
    aside = file.parent / SET_ASIDE
    aside.mkdir(mode=0o700, exist_ok=True)
    file.rename(aside / file.name)
    _written(aside, _reason_file(file).name, reason.encode("utf-8", "replace"))


def _read(file: Path) -> dict[str, object]:
    """Raises ValueError when it holds no JSON object."""
    detail = read_json(file.read_text(encoding="utf-8"))
    if not isinstance(detail, dict):
        raise ValueError("not an object")  # noqa: TRY004 - read_json raises ValueError as well
    return detail


def _reason_file(file: Path) -> Path:
    return file.with_suffix(".reason")


def _reason_of(file: Path) -> str:
    with suppress(OSError):
        return _reason_file(file).read_text(encoding="utf-8", errors="replace")
    return "unknown"


def _written(place: Path, name: str, content: bytes) -> Path:
    """Write a whole file or none, readable by its owner alone."""
    part = place / f".{name}.{os.getpid()}.{time.monotonic_ns()}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(place / name)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return place / name


@contextmanager
def _locked(file: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold *file*'s lock; False when somebody else does and *wait* is not wanted. A dead holder's lock is free."""
    with file.open("ab") as stream:
        file.chmod(0o600)
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except OSError:
                yield False
                return
        yield True


def _waiting(place: Path) -> list[Path]:
    return list(place.glob("*.json"))


def _files(place: Path) -> list[Path]:
    kept = [file for file in place.rglob("*") if file.suffix in (".json", ".reason")]
    return [*kept, *place.rglob(".*.part")]


def _size(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def _age_and_name(file: Path) -> tuple[float, str]:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime, file.name
    return 0.0, file.name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def spool_of(wanted: Spool | Path | str | bool | None, environment: str) -> Spool | None:
    """The spool that a client was given, or the folder of one. Raises RefusedInputError."""
    if wanted is None or wanted is False:
        return None
    if isinstance(wanted, Spool):
        return wanted
    # An empty text would be the working directory, where nobody expects transcripts to lie.
    if wanted == "" or not isinstance(wanted, Path | str | bool):
        raise RefusedInputError("spool", "must be a folder, or True for the default one")
    return Spool(default_folder() if wanted is True else Path(wanted), environment)
