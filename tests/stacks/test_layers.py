"""The layers hold the application's own pins, for the newest Python that all of them support."""

import re
from pathlib import Path

import pytest
from aws_cdk import aws_lambda as lambda_
from support.deployments import a_deployment

from stacks import layers
from stacks.layers import LAMBDA_PYTHON, Platform, platform_of, wheel_tags

ROOT = Path(__file__).parents[2]
ARM = lambda_.Architecture.ARM_64


def pins(file: str) -> set[str]:
    """Every pin with its marker and hashes, in one line each."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    return {re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if re.match(r"[a-z0-9-]+==", line)}


def names(file: str) -> set[str]:
    return {pin.split("==")[0] for pin in pins(file)}


@pytest.mark.parametrize("layer", ["dependencies", "model"])
def test_a_layer_pins_what_the_application_pins(layer: str) -> None:
    found = pins(f"layers/{layer}/requirements.txt")
    assert found
    assert found <= pins("requirements.txt")


def test_the_two_layers_share_nothing() -> None:
    assert not names("layers/dependencies/requirements.txt") & names("layers/model/requirements.txt")
    assert {"boto3", "numpy", "pydantic", "aws-lambda-powertools", "json-repair"} <= names(
        "layers/dependencies/requirements.txt"
    )
    assert "langchain-aws" in names("layers/model/requirements.txt")
    assert not [name for name in names("layers/dependencies/requirements.txt") if name.startswith("lang")]


def test_lambda_runs_the_newest_python_that_cdk_knows() -> None:
    """`python -m stacks.layers` proves that every pin has a wheel for it; a newer one here asks to try again."""
    known = [int(name.removeprefix("PYTHON_3_")) for name in dir(lambda_.Runtime) if name.startswith("PYTHON_3_")]
    assert f"3.{max(known)}" == LAMBDA_PYTHON


def test_the_laptop_gets_the_same_pins_for_its_own_python() -> None:
    host = platform_of(a_deployment(env="local"))
    assert host.wheels is None
    prod = platform_of(a_deployment(env="prod"))
    assert (prod.python, prod.wheels, prod.architecture.name) == ("3.14", "aarch64-manylinux_2_28", "arm64")


@pytest.fixture
def a_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A layer whose installation is written down instead of done."""
    runs: list[list[str]] = []

    def install(command: list[str], **_: object) -> None:
        into = Path(command[command.index("--target") + 1])
        info = into / "thing-1.0.dist-info"
        for folder in (into / "bin", into / "thing" / "__pycache__", into / "thing" / "data", info):
            folder.mkdir(parents=True)
        (into / "bin" / "thing").write_text(f"#!{tmp_path}/python")
        (info / "RECORD").write_text(str(tmp_path))
        (info / "WHEEL").write_text("Tag: cp314-cp314-manylinux_2_28_aarch64\n")
        (into / "thing" / "data" / "model.json").write_text("{}")
        (into / "thing" / "__pycache__" / "x.pyc").write_text("")
        runs.append(command)

    monkeypatch.setattr(layers, "BUILT", tmp_path / "layers")
    monkeypatch.setattr(layers.subprocess, "run", install)
    return runs


def test_the_second_synth_installs_nothing(a_layer: list[list[str]]) -> None:
    target = Platform("3.14", "aarch64-manylinux_2_28", ARM)
    assert layers.built("dependencies", target) == layers.built("dependencies", target)
    assert len(a_layer) == 1
    layers.built("dependencies", Platform("3.13", "aarch64-manylinux_2_28", ARM))
    assert len(a_layer) == 2
    assert {"--only-binary", "--require-hashes", "--no-deps"} <= set(a_layer[0])


def test_of_two_that_build_the_same_layer_at_once_the_first_one_counts(
    a_layer: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, install, others = Platform("3.14", "aarch64-manylinux_2_28", ARM), layers.subprocess.run, list[Path]()

    def and_another_meanwhile(command: list[str], **_: object) -> None:
        monkeypatch.setattr(layers.subprocess, "run", install)
        others.append(layers.built("dependencies", target))
        install(command)

    monkeypatch.setattr(layers.subprocess, "run", and_another_meanwhile)
    assert [layers.built("dependencies", target)] == others
    assert len(a_layer) == 2
    assert list(layers.BUILT.iterdir()) == others


def test_nothing_of_the_machine_that_built_it_stays_in_a_layer(a_layer: list[list[str]]) -> None:
    folder = layers.built("dependencies", Platform("3.14", "aarch64-manylinux_2_28", ARM))
    kept = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert kept == {"python/thing-1.0.dist-info/WHEEL", "python/thing/data/model.json"}
    assert wheel_tags(folder) == {"thing-1.0": ["cp314-cp314-manylinux_2_28_aarch64"]}
    assert len(a_layer) == 1


def test_a_build_that_was_cut_off_leaves_nothing_that_looks_like_a_layer(
    a_layer: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: list[str], **_: object) -> None:
        Path(command[command.index("--target") + 1]).mkdir(parents=True)
        raise OSError("no network")

    target = Platform("3.14", "aarch64-manylinux_2_28", ARM)
    with monkeypatch.context() as cut:
        cut.setattr(layers.subprocess, "run", fails)
        with pytest.raises(OSError, match="no network"):
            layers.built("model", target)
    assert list(layers.BUILT.iterdir()) == []
    assert layers.built("model", target).is_dir()
    assert len(a_layer) == 1


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("cp314-cp314-manylinux_2_28_aarch64", True),
        ("cp310-abi3-manylinux2014_aarch64", True),
        ("cp314-cp314-manylinux_2_28_x86_64", False),
        ("cp313-cp313-manylinux_2_28_aarch64", False),
        ("cp314-cp314t-manylinux_2_28_aarch64", False),
        ("cp314-cp314-manylinux_2_39_aarch64", False),
        ("cp314-cp314-musllinux_1_2_aarch64", False),
    ],
)
def test_a_wheel_fits_lambda_by_its_tag(tag: str, fits: bool) -> None:
    assert layers.fits_lambda(tag) is fits
