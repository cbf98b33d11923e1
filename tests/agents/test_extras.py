"""What an agent's process has to have: the package runs without any framework, and says which extra is missing."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def ran(code: str, *missing: str) -> "subprocess.CompletedProcess[str]":
    """Run *code* in a process that has none of the packages *missing*."""
    program = WITHOUT.format(missing=set(missing) or "()") + code
    path = {"PYTHONPATH": "layers/agent_memory/python", "PATH": "/usr/bin:/bin"}
    return subprocess.run([sys.executable, "-c", program], env=path, capture_output=True, text=True, check=False)


FRAMEWORKS = ("langchain", "langchain_core", "langgraph", "strands", "mcp")


def test_the_client_and_its_tools_need_no_framework() -> None:
    result = ran("import agent_memory, agent_memory.client, agent_memory.tools", *FRAMEWORKS)
    assert result.returncode == 0, result.stderr


def test_the_client_loads_no_framework_that_is_there() -> None:
    code = f"import agent_memory.client, agent_memory.tools; print(sorted(set(sys.modules) & set({FRAMEWORKS!r})))"
    assert ran(code).stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["langchain", "langchain_core", "langgraph"])
def test_a_missing_package_names_the_extra_that_brings_it(missing: str) -> None:
    result = ran("import agent_memory.langgraph", missing)
    assert result.returncode == 1
    assert f'{missing} is missing: install it with pip install "agent-memory[langgraph]"' in result.stderr
