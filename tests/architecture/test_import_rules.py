"""The import rules hold, and the tool that checks them sees a violation when there is one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = {
    "lambdas/bootstrap/handler.py": "import boto3\n",
    "lambdas/accept_run/handler.py": "import lambdas.bootstrap.handler\n",
    "layers/agent_memory/python/agent_memory/domain/keys.py": "import boto3\n",
    "layers/agent_memory/python/agent_memory/client.py": "import agent_memory.aws.bus\n",
    "layers/agent_memory/python/agent_memory/deployment.py": "import langgraph.graph\n",
    "layers/agent_memory/python/agent_memory/domain/recall.py": "import langchain.agents\n",
    "layers/agent_memory/python/agent_memory/cli/screen.py": "import mcp\n",
    "layers/agent_memory/python/agent_memory/langgraph/__init__.py": "import agent_memory.aws.bus\n",
    "stacks/settings.py": "import agent_memory.domain.keys\n",
    "layers/agent_memory/python/agent_memory/wiring.py": "import local.runtime\n",
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [linter, "--no-cache"],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'layers/agent_memory/python'}:{root}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("layers/agent_memory/python", "lambdas", "stacks", "local"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rules_hold(copy: Path) -> None:
    result = lint(copy)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_violation_is_seen(copy: Path, planted: str) -> None:
    file = copy / planted
    file.write_text(PLANTED[planted] + file.read_text())
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_no_function_folder_is_a_package_with_code_beside_its_handler() -> None:
    for folder in (ROOT / "lambdas").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert [f.name for f in folder.glob("*.py")] == ["handler.py"], folder.name
