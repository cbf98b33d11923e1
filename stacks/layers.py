"""The Lambda layers, built at synth without Docker and kept by what went into them under .local/layers."""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.settings import Deployment

ROOT: Final = Path(__file__).parents[1]
BUILT: Final = ROOT / ".local" / "layers"
# The newest runtime for which every pin has a wheel: tests/stacks/test_layers.py says when a newer one appears.
LAMBDA_PYTHON: Final = "3.14"
LAMBDA_WHEELS: Final = "aarch64-manylinux_2_28"


@dataclass(frozen=True)
class Platform:
    """What the layers are built for."""

    python: str
    wheels: str | None
    architecture: lambda_.Architecture

    @cached_property
    def runtime(self) -> lambda_.Runtime:
        return lambda_.Runtime(f"python{self.python}", lambda_.RuntimeFamily.PYTHON)

    @property
    def label(self) -> str:
        return f"{self.python} {self.wheels or f'{sys.platform} {platform.machine()}'}"


def platform_of(deployment: Deployment) -> Platform:
    """Lambda on arm64, or this machine, because an emulator runs functions on its own interpreter."""
    if deployment.layer_platform == "lambda":
        return Platform(LAMBDA_PYTHON, LAMBDA_WHEELS, lambda_.Architecture.ARM_64)
    arm = platform.machine() in {"arm64", "aarch64"}
    architecture = lambda_.Architecture.ARM_64 if arm else lambda_.Architecture.X86_64
    return Platform(f"{sys.version_info.major}.{sys.version_info.minor}", None, architecture)


def built(name: str, target: Platform) -> Path:
    """The folder of the layer *name* for *target*; installs only when pins or target are new."""
    requirements = ROOT / "layers" / name / "requirements.txt"
    digest = hashlib.sha256(f"2\n{target.label}\n{requirements.read_text()}".encode()).hexdigest()[:16]
    folder = BUILT / f"{name}-{digest}"
    if not folder.is_dir():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            _install(requirements, Path(scratch) / "layer" / "python", target)
            # The rename is atomic: a build that was cut off leaves nothing that looks like a layer.
            try:
                (Path(scratch) / "layer").rename(folder)
            except OSError:
                # Another synthesis built the same pins meanwhile; a folder that has content is a whole layer.
                if not folder.is_dir():
                    raise
    return folder


def _install(requirements: Path, into: Path, target: Platform) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--link-mode", "copy", "--python-version", target.python]
    command += ["--target", str(into), "-r", str(requirements)]
    if target.wheels:
        command += ["--python-platform", target.wheels]
    # uv speaks on stderr; stdout belongs to jsii.
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - fixed arguments, no shell
    # Scripts name this machine's interpreter in their first line, and RECORD holds their hashes.
    shutil.rmtree(into / "bin", ignore_errors=True)
    for leftover in (*into.glob("*.dist-info/RECORD"), *into.glob(".lock")):
        leftover.unlink()
    for cache in into.rglob("__pycache__"):
        shutil.rmtree(cache)


def wheel_tags(folder: Path) -> dict[str, list[str]]:
    """The tags that each installed wheel declares, by distribution."""
    found = {}
    for file in folder.glob("python/*.dist-info/WHEEL"):
        found[file.parent.name.removesuffix(".dist-info")] = re.findall(r"^Tag: (\S+)$", file.read_text(), re.MULTILINE)
    return found


class Layers(Construct):
    """The three layers of one stack: our code, what every function imports, what the model calls need beside it."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self.platform = platform_of(deployment)

    @cached_property
    def code(self) -> lambda_.LayerVersion:
        # The command line is for people; leaving it out keeps the functions still when only it changes.
        left_out = [
            "pyproject.toml",
            "**/__pycache__",
            "*.pyc",
            "python/agent_memory/cli",
            "python/*.egg-info",
            "build",
        ]
        return self._layer("AgentMemory", lambda_.Code.from_asset(str(ROOT / "layers/agent_memory"), exclude=left_out))

    @cached_property
    def dependencies(self) -> lambda_.LayerVersion:
        return self._layer("Dependencies", self._installed("dependencies"))

    @cached_property
    def model(self) -> lambda_.LayerVersion:
        return self._layer("Model", self._installed("model"))

    def _installed(self, name: str) -> lambda_.Code:
        # Unit tests ask for no bundling through CDK's own context key; the template is the same but for the hash.
        bundling = cdk.Stack.of(self).bundling_required
        return lambda_.Code.from_asset(str(built(name, self.platform) if bundling else ROOT / "layers" / name))

    def _layer(self, construct_id: str, code: lambda_.Code) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            construct_id,
            code=code,
            compatible_runtimes=[self.platform.runtime],
            compatible_architectures=[self.platform.architecture],
        )


def fits_lambda(tag: str) -> bool:
    """Whether a wheel of *tag* loads on Lambda: arm64, glibc 2.28 or older, this Python or its stable ABI."""
    pythons, abi, system = tag.split("-")
    if system == "any":
        return "py3" in pythons.split(".")
    cp = f"cp{LAMBDA_PYTHON.replace('.', '')}"
    old_enough = re.fullmatch(r"manylinux(2014|_2_(1?\d|2[0-8]))_aarch64", system)
    return bool(old_enough) and (abi == "abi3" or (pythons, abi) == (cp, cp))


def main() -> int:
    """Build both layers for Lambda and check the tags of every wheel in them."""
    target = Platform(LAMBDA_PYTHON, LAMBDA_WHEELS, lambda_.Architecture.ARM_64)
    misfits = 0
    for name in ("dependencies", "model"):
        for wheel, tags in sorted(wheel_tags(built(name, target)).items()):
            if not any(fits_lambda(tag) for tag in tags):
                misfits += 1
                sys.stderr.write(f"{wheel} in layers/{name} has no wheel for {target.label}: {', '.join(tags)}\n")
    return 1 if misfits else 0


if __name__ == "__main__":
    sys.exit(main())
