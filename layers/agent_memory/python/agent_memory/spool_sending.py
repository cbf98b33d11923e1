"""What becomes of one run that is taken out of the spool: sent, left for another try, or set aside."""

from collections.abc import Callable
from contextlib import suppress
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
from agent_memory.spool_files import forget_notes, reason_file, tries_file, tries_of, written

SET_ASIDE: Final = "set-aside"
# What has nothing to do with the run itself.
MENDABLE = (RetryableError, AccessRefusedError, ConfigurationError)
# So often may a run be denied while others get through; then it is the run that is denied, not the machine.
MAX_DENIALS: Final = 5
Send = Callable[[dict[str, object]], object]


def sent(file: Path, tenant_id: str, send: Send) -> str:
    """Send one file and say which count it belongs to. Raises MENDABLE errors."""
    try:
        send(_owned(read_run(file), tenant_id))
    except (*MENDABLE, FileNotFoundError):
        raise
    except Exception as poison:
        # What others' errors say may quote the run.
        _set_aside(
            file, str(poison) if isinstance(poison, AgentMemoryError) else f"can't be sent: {type(poison).__name__}"
        )
        return "set_aside"
    file.unlink(missing_ok=True)
    forget_notes(file)
    return "sent"


def tried(file: Path, reason: str, by: int = 1) -> int:
    """Note that *file* was tried in vain, and return how often that was so."""
    count = tries_of(file)[0] + by
    with suppress(OSError):  # a disk that is full must not end the sending
        written(file.parent, tries_file(file).name, f"{count}\n{reason}".encode("utf-8", "replace"))
    return count


def denied_again(file: Path, reason: str, others_got_through: bool) -> bool:
    """Note that a run was denied, and whether that was once too often, so that it was set aside. Where nothing gets
    through it is not the run that is denied."""
    tries = tried(file, reason, by=int(others_got_through))
    if not others_got_through or tries < MAX_DENIALS:
        return False
    try:
        _set_aside(file, f"{reason}; tried {tries} times while other runs were taken")
    except FileNotFoundError:
        return False  # dropped meanwhile
    return True


def _owned(detail: dict[str, object], tenant_id: str) -> dict[str, object]:
    if detail.get("tenant_id") != tenant_id:
        raise RefusedInputError("tenant_id", "must be the tenant whose folder the run lies in")
    return detail


def _set_aside(file: Path, reason: str) -> None:
    aside = file.parent / SET_ASIDE
    aside.mkdir(mode=0o700, exist_ok=True)
    file.rename(aside / file.name)
    forget_notes(file)
    written(aside, reason_file(file).name, reason.encode("utf-8", "replace"))


def read_run(file: Path) -> dict[str, object]:
    """Raises ValueError when it holds no JSON object."""
    detail = read_json(file.read_text(encoding="utf-8"))
    if not isinstance(detail, dict):
        raise ValueError("not an object")  # noqa: TRY004 - read_json raises ValueError as well
    return detail
