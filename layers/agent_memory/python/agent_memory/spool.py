"""Finished runs that could not be handed over, on this machine's disk until they can. A bounded folder per tenant.

<folder>/<environment>/<tenant>-<hash>/<ended>-<hash of the run>.json, and set-aside/ for what memory will never take.
Files hold raw transcripts and users' ids: folders are 0700, files 0600. A run appears by a rename, so that a reader
never sees half of it; two processes may keep and send at once, and what both send counts once in memory.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from agent_memory.domain.errors import (
    AccessRefusedError,
    AgentMemoryError,
    RefusedInputError,
)
from agent_memory.domain.keys import identifier, tenant_identifier
from agent_memory.domain.models import Model
from agent_memory.spool_files import (
    age_and_name,
    digest,
    files_below,
    forget_notes,
    locked,
    reason_of,
    runs_in,
    size_of,
    tries_and_age,
    tries_of,
    written,
)
from agent_memory.spool_sending import MENDABLE, SET_ASIDE, Send, denied_again, read_run, sent, tried

MAX_BYTES: Final = 200_000_000
MAX_DAYS: Final = 7.0
DAY_SECONDS: Final = 86_400
# A writer that died leaves its half behind; nobody writes for so long.
ABANDONED_SECONDS: Final = 3_600


class SpoolFullError(AgentMemoryError):
    """The tenant's folder has no room; what is in it stays."""


class SpooledRun(Model):
    """One run that waits. *kept_at*: epoch seconds. *reason*: why it was set aside, None while it waits. *tries*: how
    often it was tried in vain, *last_failure* why the last time."""

    tenant_id: str
    agent_id: str
    run_id: str
    kept_at: int
    size: int
    path: Path
    reason: str | None = None
    tries: int = 0
    last_failure: str | None = None


class SpoolReport(Model):
    """What a sending did. *waiting*: still there. *expired*: older than the spool keeps. *reason*: why it stopped."""

    sent: int = 0
    set_aside: int = 0
    expired: int = 0
    waiting: int = 0
    reason: str | None = None

    def notice(self, tenant_id: str) -> str | None:
        """What somebody must know of it: runs that nobody sends any more. None when there are none."""
        lost = [f"{self.set_aside} set aside"] if self.set_aside else []
        lost += [f"{self.expired} too old and gone"] if self.expired else []
        if not lost:
            return None
        return f"spooled runs of {tenant_id}: {', '.join(lost)}; `agent-memory spool list` shows each with its reason"


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
        name = f"{digest(run.encode())}-{digest(content)}.json"
        with locked(place / ".writing"):
            known = place / name
            if known.exists():
                return known
            gone = self._expire(place)
            if sum(size_of(file) for file in files_below(place)) + len(content) > self._max_bytes:
                raise SpoolFullError(
                    f"the spool of tenant {tenant_id} holds its {self._max_bytes} bytes: "
                    "`agent-memory spool send` empties it, `agent-memory spool drop` gives runs up"
                )
            kept = written(place, name, content)
        if gone:
            warnings.warn(f"{gone} run(s) of {tenant_id} waited too long in the spool and are gone", RuntimeWarning, 2)
        return kept

    def runs(self, tenant_id: str) -> list[SpooledRun]:
        """The runs of a tenant, oldest first, those that were set aside last."""
        place = self._place(tenant_id)
        waiting = sorted(place.glob("*.json"), key=age_and_name)
        aside = sorted((place / SET_ASIDE).glob("*.json"), key=age_and_name)
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

    def others(self) -> list[str]:
        """The other environments that runs have waited for beside this one's folder."""
        beside = self.folder.parent
        found = sorted(place.name for place in beside.iterdir() if place.is_dir()) if beside.is_dir() else []
        return [name for name in found if name != self.folder.name]

    def send(self, tenant_id: str, send: Send, *, limit: int | None = None, again: bool = False) -> SpoolReport:
        """Send the waiting runs of one tenant, oldest first; another sender at work means that there is nothing to do.

        A run that *send* will never take is set aside, so that it can't hold up the others; *again* brings those back
        first. What a later try may mend is kept: no way through ends the sending, no permission only that run's, and
        those that were tried in vain stand behind the others. *limit*: so many go along with a handover that worked. A
        run that is denied again and again while others get through is set aside as well.
        """
        place = self._place(tenant_id)
        if not place.is_dir():
            return SpoolReport()
        with locked(place / ".sending", wait=False) as mine:
            if not mine:
                return SpoolReport(waiting=len(runs_in(place)), reason="another process is sending")
            expired = self._expire(place)
            for file in runs_in(place / SET_ASIDE) if again else ():
                file.rename(place / file.name)
                forget_notes(file)
            counts, denied, reason = {"sent": 0, "set_aside": 0}, list[tuple[Path, str]](), None
            for file in sorted(runs_in(place), key=tries_and_age)[:limit]:
                try:
                    counts[sent(file, tenant_id, send)] += 1
                except FileNotFoundError:
                    continue  # dropped meanwhile
                except MENDABLE as error:
                    reason = str(error)
                    # Large runs take a permission of their own, so one that is denied says nothing of the next.
                    if not isinstance(error, AccessRefusedError):
                        tried(file, reason)
                        break
                    denied.append((file, reason))
            through = bool(counts["sent"]) or limit is not None
            counts["set_aside"] += sum(denied_again(file, reason, through) for file, reason in denied)
            return SpoolReport(**counts, expired=expired, waiting=len(runs_in(place)), reason=reason)

    def drop(self, run: SpooledRun) -> bool:
        """Give a run up for good. False when it is not there any more."""
        try:
            run.path.unlink()
        except FileNotFoundError:
            return False
        forget_notes(run.path)
        return True

    def _place(self, tenant_id: str) -> Path:
        # The hash keeps tenants apart on file systems that fold case; `:` is not a file's name everywhere.
        readable = tenant_identifier(tenant_id).replace(":", "_")
        return self.folder / f"{readable}-{digest(tenant_id.encode())}"

    def _opened(self, tenant_id: str) -> Path:
        place = self._place(tenant_id)
        for folder in (self.folder, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It may have been made by somebody with another umask.
            folder.chmod(0o700)
        if not (place / ".tenant").exists():
            written(place, ".tenant", tenant_id.encode())
        return place

    def _expire(self, place: Path) -> int:
        """Remove what is older than the spool keeps, and halves that dead writers left."""
        now, expired = self._clock(), 0
        for file in files_below(place):
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
            detail = read_run(file)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            detail = {}
        aside = file.parent.name == SET_ASIDE
        tries, failure = tries_of(file)
        return SpooledRun(
            tenant_id=tenant_id,
            agent_id=str(detail.get("agent_id", "")),
            run_id=str(detail.get("run_id", "")),
            kept_at=int(stat.st_mtime),
            size=stat.st_size,
            path=file,
            reason=reason_of(file) if aside else None,
            tries=tries,
            last_failure=failure,
        )


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
