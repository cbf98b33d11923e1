"""A small interpreter of the Amazon States Language, as far as our machines use it: enough to walk them with stand-ins."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Task = Callable[[dict[str, Any]], Any]


class TaskFailed(Exception):  # noqa: N818 - named as Step Functions names it
    """A task raised *name*; *cause* is what must not travel on."""

    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.cause = cause


@dataclass
class Walk:
    """What one execution did."""

    status: str = "RUNNING"
    states: list[str] = field(default_factory=list)
    inputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    error: str | None = None


def definition(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "statemachines" / f"{name}.asl.json").read_text())
    return loaded


def walk(machine: Mapping[str, Any], tasks: Mapping[str, Task], start: Mapping[str, Any]) -> Walk:
    """Run *machine* on *start*; *tasks* stand for the functions by state name."""
    done, data, state_name = Walk(), dict(start), str(machine["StartAt"])
    while done.status == "RUNNING":
        state = machine["States"][state_name]
        done.states.append(state_name)
        if state["Type"] in {"Succeed", "Fail"}:
            done.status = "SUCCEEDED" if state["Type"] == "Succeed" else "FAILED"
            done.error = state.get("Error")
        elif state["Type"] == "Choice":
            state_name = _chosen(state, data)
        elif state["Type"] == "Pass":
            data = _placed(
                state, data, _filled(state["Parameters"], data) if "Parameters" in state else state["Result"]
            )
            state_name = state["Next"]
        else:
            state_name, data = _task(state_name, state, tasks[state_name], data, done)
    return done


def _task(name: str, state: dict[str, Any], task: Task, data: dict[str, Any], done: Walk) -> tuple[str, dict[str, Any]]:
    parameters = _filled(state["Parameters"], data)
    failure = None
    for _ in range(1 + sum(retry["MaxAttempts"] for retry in state["Retry"])):
        given = parameters.get("Payload", parameters)
        done.inputs.setdefault(name, []).append(given)
        try:
            answer = {"Payload": task(given)}
        except TaskFailed as error:
            failure = {"Error": error.name, "Cause": error.cause}
            continue
        selected = _filled(state["ResultSelector"], answer) if "ResultSelector" in state else answer
        placed = _placed(state, data, selected)
        return state["Next"], placed["Payload"] if state.get("OutputPath") == "$.Payload" else placed
    assert failure
    if not state.get("Catch"):
        done.status, done.error = "FAILED", failure["Error"]
        return name, data
    [caught] = state["Catch"]
    return caught["Next"], _placed(caught, data, failure)


def _chosen(state: dict[str, Any], data: dict[str, Any]) -> str:
    for choice in state["Choices"]:
        if _at(choice["Variable"], data) == choice["StringEquals"]:
            return str(choice["Next"])
    return str(state["Default"])


def _at(path: str, data: dict[str, Any]) -> Any:
    value: Any = data
    for part in path.split(".")[1:]:
        value = value[part]
    return value


def _filled(template: Any, data: dict[str, Any]) -> Any:
    if isinstance(template, list):
        return [_filled(item, data) for item in template]
    if not isinstance(template, dict):
        return template
    return {k.removesuffix(".$"): _at(v, data) if k.endswith(".$") else _filled(v, data) for k, v in template.items()}


def _placed(state: Mapping[str, Any], data: dict[str, Any], result: Any) -> dict[str, Any]:
    path = state.get("ResultPath", "$")
    if path is None:
        return data
    if path == "$":
        return dict(result)
    return {**data, path.removeprefix("$."): result}
