"""The files of a spool: whole or not at all, their owner's alone, each with what was noted of it beside it."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two senders may then send the same run, which counts once
    fcntl = None  # type: ignore[assignment]


def reason_file(file: Path) -> Path:
    """Where it is noted why a run was set aside."""
    return file.with_suffix(".reason")


def tries_file(file: Path) -> Path:
    """Where it is noted how often a run was tried in vain, and why the last time."""
    return file.with_suffix(".tries")


def tries_of(file: Path) -> tuple[int, str | None]:
    """How often a run was tried in vain, and why the last time."""
    try:
        count, _, reason = tries_file(file).read_text(encoding="utf-8", errors="replace").partition("\n")
        return int(count), reason
    except (OSError, ValueError):
        return 0, None


def forget_notes(file: Path) -> None:
    """Remove what was noted of a run."""
    for note in (reason_file(file), tries_file(file)):
        note.unlink(missing_ok=True)


def reason_of(file: Path) -> str:
    """Why a run was set aside."""
    with suppress(OSError):
        return reason_file(file).read_text(encoding="utf-8", errors="replace")
    return "unknown"


def written(place: Path, name: str, content: bytes) -> Path:
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
def locked(file: Path, *, wait: bool = True) -> Iterator[bool]:
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


def runs_in(place: Path) -> list[Path]:
    """The files of the runs in a folder, in no order."""
    return list(place.glob("*.json"))


def files_below(place: Path) -> list[Path]:
    """All that takes up room in a folder: runs, notes and halves."""
    kept = [file for file in place.rglob("*") if file.suffix in (".json", ".reason", ".tries")]
    return [*kept, *place.rglob(".*.part")]


def size_of(file: Path) -> int:
    """Bytes of a file; none when it is gone."""
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def age_and_name(file: Path) -> tuple[float, str]:
    """An order: oldest first."""
    with suppress(FileNotFoundError):
        return file.stat().st_mtime, file.name
    return 0.0, file.name


def tries_and_age(file: Path) -> tuple[int, float, str]:
    """An order: what was tried least first, then oldest first."""
    return (tries_of(file)[0], *age_and_name(file))


def digest(content: bytes) -> str:
    """A name that says nothing and means one content only."""
    return hashlib.sha256(content).hexdigest()[:24]
