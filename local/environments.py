"""The virtual environments of the laptop runtime, built once for each content of their requirement files."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from local.layout import AI_VENV, EMULATOR_VENV, LLM_VENV, ROOT, LocalRuntimeError, python_of

REQUIREMENTS: Final = {
    EMULATOR_VENV: "requirements-emulator.txt",
    AI_VENV: "requirements-local.txt",
    LLM_VENV: "requirements-llm.txt",
}
STANDARD: Final = (EMULATOR_VENV, AI_VENV)
WITH_CHAT_MODEL: Final = (*STANDARD, LLM_VENV)
STAMP: Final = "agent-memory-requirements"


def _fingerprint(requirements: Path) -> str:
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()


def installed(venv: Path) -> bool:
    stamp = venv / STAMP
    current = _fingerprint(ROOT / REQUIREMENTS[venv])
    return python_of(venv).exists() and stamp.exists() and stamp.read_text() == current


def install(say: Callable[[str], None], venvs: Iterable[Path] = STANDARD) -> None:
    """Bring the environments to what their files ask for; nothing to do the second time."""
    for venv in venvs:
        if installed(venv):
            continue
        requirements = REQUIREMENTS[venv]
        say(f"installing {requirements} into {venv.relative_to(ROOT)}")
        venv.parent.mkdir(parents=True, exist_ok=True)
        _uv("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(venv))
        _uv("pip", "sync", "--quiet", "--python", str(python_of(venv)), str(ROOT / requirements))
        (venv / STAMP).write_text(_fingerprint(ROOT / requirements))


def uv() -> Path:
    found = Path(sys.executable).parent / "uv"
    if not found.exists():
        raise LocalRuntimeError(
            f"uv is missing beside {sys.executable}. Install the project's requirements with `make install`, "
            "or run this with .venv/bin/python."
        )
    return found


def _uv(*arguments: str) -> None:
    done = subprocess.run([str(uv()), *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise LocalRuntimeError(f"uv {arguments[0]} failed: {done.stderr.strip()[-600:]}")
