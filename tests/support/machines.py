"""A small interpreter of the Amazon States Language, as far as our machines use it: enough to walk them with stand-ins."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONTEXT = {"Execution": {"Name": "e-1"}}
Task = Callable[[dict[str, Any]], Any]
# The keys in a bucket under a prefix, in order.
Listing = Callable[[str, str], Sequence[str]]


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
    waits: list[int] = field(default_factory=list)
    error: str | None = None
    children: list[str] = field(default_factory=list)


def definition(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "statemachines" / f"{name}.asl.json").read_text())
    return loaded


def all_states(machine: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of a machine and of the maps in it."""
    found = []
    for state in machine["States"].values():
        found += [state, *all_states(state.get("ItemProcessor", {"States": {}}))]
    return found


def walk(
    machine: Mapping[str, Any], tasks: Mapping[str, Task], start: Mapping[str, Any], *, listing: Listing | None = None
) -> Walk:
    """Run *machine* on *start*; *tasks* stand for the functions by state name, *listing* for S3."""
    done, data, state_name = Walk(), dict(start), str(machine["StartAt"])
    while done.status == "RUNNING":
        state = machine["States"][state_name]
        done.states.append(state_name)
        if state["Type"] in {"Succeed", "Fail"}:
            done.status = "SUCCEEDED" if state["Type"] == "Succeed" else "FAILED"
            done.error = state.get("Error")
        elif state["Type"] == "Wait":
            done.waits.append(_at(state["SecondsPath"], data))
            state_name = state["Next"]
        elif state["Type"] == "Map" and "ItemReader" in state:
            assert listing
            state_name, data = _mapped_over_s3(state, tasks, data, done, listing), data
        elif state["Type"] == "Map":
            state_name, data = _mapped(state, tasks, data, done)
        elif state["Type"] == "Choice":
            state_name = _chosen(state, data)
        elif state["Type"] == "Pass":
            data = _placed(
                state, data, _filled(state["Parameters"], data) if "Parameters" in state else state["Result"]
            )
            state_name = _next(state, done)
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
        return _next(state, done), placed["Payload"] if state.get("OutputPath") == "$.Payload" else placed
    assert failure
    if not state.get("Catch"):
        done.status, done.error = "FAILED", failure["Error"]
        return name, data
    [caught] = state["Catch"]
    return caught["Next"], _placed(caught, data, failure)


def _next(state: Mapping[str, Any], done: Walk) -> str:
    if state.get("End"):
        done.status = "SUCCEEDED"
    return str(state.get("Next", ""))


def _mapped_over_s3(
    state: dict[str, Any], tasks: Mapping[str, Task], data: dict[str, Any], done: Walk, listing: Listing
) -> str:
    """One child execution for each key, one after another; children that fail are tolerated, and answer nothing."""
    assert state["ToleratedFailurePercentage"] == 100
    assert state["ResultPath"] is None
    reader = _filled(state["ItemReader"]["Parameters"], data)
    for number, key in enumerate(listing(reader["Bucket"], reader["Prefix"])):
        context = {**CONTEXT, "Map": {"Item": {"Index": number, "Value": {"Key": key}}}}
        child = walk(state["ItemProcessor"], tasks, _filled(state["ItemSelector"], data, context), listing=listing)
        done.states += child.states
        for name, given in child.inputs.items():
            done.inputs.setdefault(name, []).extend(given)
        done.children.append(child.status)
    return str(state["Next"])


def _mapped(
    state: dict[str, Any], tasks: Mapping[str, Task], data: dict[str, Any], done: Walk
) -> tuple[str, dict[str, Any]]:
    """One task for each item, one after another; the first that gives up ends them all."""
    inner = state["ItemProcessor"]
    name = inner["StartAt"]
    task = {**inner["States"][name], "End": False, "Next": "", "Catch": [{"Next": "caught", "ResultPath": "$.failure"}]}
    for number, value in enumerate(_at(state["ItemsPath"], data)):
        item = _filled(state["ItemSelector"], data, {**CONTEXT, "Map": {"Item": {"Index": number, "Value": value}}})
        done.states.append(name)
        followed, answer = _task(name, task, tasks[name], item, done)
        if followed == "caught":
            [caught] = state["Catch"]
            return caught["Next"], _placed(caught, data, answer["failure"])
    return state["Next"], data


def _chosen(state: dict[str, Any], data: dict[str, Any]) -> str:
    for choice in state["Choices"]:
        if _at(choice["Variable"], data) == choice["StringEquals"]:
            return str(choice["Next"])
    return str(state["Default"])


def _at(path: str, data: dict[str, Any], context: Mapping[str, Any] = CONTEXT) -> Any:
    value: Any = context if path.startswith("$$") else data
    for part in path.split(".")[1:]:
        value = value[part]
    return value


def _filled(template: Any, data: dict[str, Any], context: Mapping[str, Any] = CONTEXT) -> Any:
    if isinstance(template, list):
        return [_filled(item, data, context) for item in template]
    if not isinstance(template, dict):
        return template
    return {
        key.removesuffix(".$"): _at(value, data, context) if key.endswith(".$") else _filled(value, data, context)
        for key, value in template.items()
    }


def _placed(state: Mapping[str, Any], data: dict[str, Any], result: Any) -> dict[str, Any]:
    path = state.get("ResultPath", "$")
    if path is None:
        return data
    if path == "$":
        return dict(result)
    return {**data, path.removeprefix("$."): result}
