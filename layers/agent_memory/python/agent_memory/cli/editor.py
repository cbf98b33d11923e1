"""The user's own editor on a text."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from agent_memory.cli.session import FailedError

EDITORS = ("VISUAL", "EDITOR")


def edited(text: str) -> str | None:
    """*text* as the user left it in $VISUAL or $EDITOR; None when nothing was changed."""
    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.txt"
        file.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(file)], check=True)  # noqa: S603 - the user's own editor
            written = file.read_text(encoding="utf-8")
        except (OSError, ValueError, subprocess.CalledProcessError):
            raise FailedError("the editor did not end well; set EDITOR to one that does, or use --file") from None
    return None if written == text else written
