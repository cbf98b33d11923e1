"""The night over AgentCore on the laptop's stack: 2,000 records, accesses from files seen twice, plan, merges, undo;
answers that may not stand, a gate that fails, and a night that is killed."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.domain.agentcore import place_of
from support.agentcore_memories import (
    a_stack_over_agentcore,
    described,
    forget_the_lock,
    function,
    measured,
    memory_of,
    put,
    read,
    records_of,
    trail,
)
from support.agentcore_stack import (
    ADDED,
    ANSWERS,
    CELLS,
    DAY,
    HOUR,
    METADATA,
    PAIRS,
    STRATEGIES,
    Told,
    a_merging_model,
    a_read,
    asked_about,
    expected,
    one_of,
    two_about,
    two_thousand,
)
from support.converse_server import Answer, ConverseServer, serving

from local import runtime
from local.deploy import client

pytestmark = pytest.mark.e2e

MEMORIES = ("harbour", "yard", "mole", "pier")
MODEL = "us.anthropic.claude-haiku-5-5"
Answered = Callable[..., Any]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, runtime.Stack]]:
    folder = tmp_path_factory.mktemp("project")
    entries = {name: {"tenant_id": name, "namespaces": ["/actors/"], "strategies": STRATEGIES} for name in MEMORIES}
    with a_stack_over_agentcore(folder, entries, summariseModelId=MODEL) as project:
        yield project


@pytest.fixture
def deployment(stack: runtime.Stack) -> Deployment:
    return Deployment("local", timeout_seconds=60.0, backend="agentcore")


@pytest.fixture(scope="module")
def bedrock(project: tuple[Path, runtime.Stack]) -> Iterator[ConverseServer]:
    """A chat model for the function that merges; embeddings stay where they are."""
    _, stack = project
    script, functions = ConverseServer(), client("lambda", stack.environment)
    script.beyond = stack.ai.url
    name = function(functions, "merge")["FunctionName"]
    told = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    with serving(script) as url:
        told["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"] = url
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": told})
        yield script


@pytest.fixture
def model(bedrock: ConverseServer) -> ConverseServer:
    """The model, which was asked nothing yet and answers as the number of a quay says."""
    bedrock.requests.clear()
    bedrock.script = a_merging_model
    return bedrock


@pytest.fixture
def answered(stack: runtime.Stack, capsys: pytest.CaptureFixture[str]) -> Answered:
    """What a command answers, and that it ends with *code*."""

    def ask(*words: str, group: str = "agentcore", code: int = 0) -> Any:
        ended = command.run([group, *words, "--env", "local", "--output", "json"])
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return json.loads(printed.out)

    return ask


def test_two_thousand_records_are_planned_by_the_formula_merged_removed_and_brought_back(
    deployment: Deployment, answered: Answered, model: ConverseServer, stack: runtime.Stack
) -> None:
    memory = memory_of(deployment, "harbour")
    begun = deployment.now()
    told = two_thousand(begun)
    ids = put(deployment, "harbour", told)
    read(deployment, memory.memory_id, told, ids)

    due = check_plan(answered, memory.memory_id, told, ids)
    before = records_of(deployment, "harbour")
    berth = told[7 * CELLS]
    keep_asking(answered, "harbour", place_of(memory.memory_id, berth.namespace), berth.text)
    report = answered("run")
    assert (report["ended"], report["quality"]) == ("completed", "pass")
    run_id = f"{report['run']['night']}.{report['run']['attempt']}"
    done = Counter(due.values())
    assert {name: report["totals"][name] for name in ("merged", "created", "pruned", "flagged", "failed")} == {
        "merged": done["merge"], "created": len(PAIRS), "pruned": done["prune"] + done["expire"], "flagged": 0, "failed": 0,
    }  # fmt: skip
    check_merged(deployment, told, ids, run_id, report["run"]["now"])
    # One question for each pair, and in none of them two namespaces or two types.
    assert sorted(sorted(asked_about(body)) for _, body in model.requests) == sorted(
        sorted((told[cell].text, told[cell + CELLS].text)) for cell in PAIRS
    )
    check_log(stack.layout.function_log.read_text())

    ledger = deployment.agentcore.accesses.ledger()
    assert {name: ledger.of(memory.memory_id, name).times for name in ids} == {
        name: one.reads for name, one in zip(ids, told, strict=True)
    }
    back = answered("restore", run_id, "--tenant", "harbour")
    assert Counter(one["decision"] for one in back) == {"restored": len(due)}
    after = records_of(deployment, "harbour")
    assert described(after) == described(before)
    assert {one.record_id for one in after} & {one.record_id for one in before} == set(ids) - set(due)

    check_names_follow(deployment, answered, ids, due, begun)
    assert described(records_of(deployment, "harbour")) == described(before)


def check_plan(answered: Answered, memory_id: str, told: Sequence[Told], ids: Sequence[str]) -> Mapping[str, str]:
    """The plan is what the formula says, record by record; returns what is to go, with what is done with it."""
    run = answered("plan")["run"]
    wanted = {name: expected(one, now=run["now"]) for name, one in zip(ids, told, strict=True)}
    due = {name: word for name, (word, _) in wanted.items() if word != "keep"}
    assert Counter(due.values()) == {"merge": 2 * len(PAIRS), "prune": CELLS, "expire": CELLS + 2 * CELLS // 3}
    items = answered("plan", run["night"], "--tenant", "harbour")
    assert {one["run_id"]: one["action"] for one in items} == due
    assert all(abs(one["score"] - wanted[one["run_id"]][1]) < 2e-6 for one in items)
    places = {name: place_of(memory_id, one.namespace) for name, one in zip(ids, told, strict=True)}
    assert all(one["agent_id"] == places[one["run_id"]] for one in items)
    groups = {one["group"]: frozenset(o["run_id"] for o in items if o["group"] == one["group"]) for one in items}
    pairs = {frozenset((ids[cell], ids[cell + CELLS])) for cell in PAIRS}
    assert {members for group, members in groups.items() if group} == pairs
    return due


def keep_asking(answered: Answered, tenant_id: str, place: str, text: str) -> None:
    """A case of the quality gate: *text* must still be found in the namespace *place*."""
    words = ("--agent", place, "--question", text, "--criterion", text, "--minimum", "0.9")
    answered("add", f"{tenant_id}-1", "--tenant", tenant_id, *words, group="regress")


def check_log(log: str) -> None:
    """What functions say is counted, and holds neither a text nor an actor."""
    assert measured(log, "agentcore_merge_memories", "SummariesCreated") == len(PAIRS)
    assert measured(log, "agentcore_lifecycle_report", "MemoriesMerged") == 2 * len(PAIRS)
    assert "hoist" not in log
    assert "/actors/a" not in log


def check_merged(deployment: Deployment, told: Sequence[Told], ids: Sequence[str], run_id: str, now: int) -> None:
    """Nothing is left of what was due but one record for each pair, which says whence it comes and from when."""
    left = {one.record_id: one for one in records_of(deployment, "harbour")}
    kept = {name for name, one in zip(ids, told, strict=True) if expected(one, now=now)[0] == "keep"}
    assert kept < set(left)
    merged = {one.text: one for name, one in left.items() if name not in kept}
    assert len(merged) == len(left) - len(kept) == len(PAIRS)
    for cell in PAIRS:
        older, newer = told[cell], told[cell + CELLS]
        record = merged[one_of((older.text, newer.text))]
        assert (record.namespace, record.strategy_id) == (older.namespace, older.strategy)
        said = {
            key.removeprefix("agent-memory:"): value for key, held in record.metadata.items() for value in held.values()
        }
        assert sorted(said.pop("sources-0")) == sorted((ids[cell], ids[cell + CELLS]))
        assert (said["oldest-source-at"], said["ended-at"]) == (older.at, newer.at)
        assert (said["created-at"], said["night"]) == (now, run_id)
        texts = [
            *record.metadata,
            *(one for held in record.metadata.values() for one in held.get("stringListValue", ())),
        ]
        texts += [held["stringValue"] for held in record.metadata.values() if "stringValue" in held]
        assert all(METADATA.fullmatch(str(text)) and len(str(text)) <= 64 for text in texts)
        assert len(record.metadata) <= 20


def check_names_follow(
    deployment: Deployment, answered: Answered, ids: Sequence[str], due: Mapping[str, str], begun: int
) -> None:
    """What came back has another id in AgentCore; plans and the ledger go on to know it by the first one."""
    memory = memory_of(deployment, "harbour")
    name = next(one for one in ids[4 * CELLS : 5 * CELLS] if one in due)
    [record] = [one for one in records_of(deployment, "harbour") if one.metadata.get(ADDED[1]) == {"stringValue": name}]
    trail(deployment, [a_read("late", memory.memory_id, record.record_id, begun - HOUR)], at=begun, name="late")
    again = answered("run")
    assert (again["ended"], again["totals"]["pruned"], again["totals"]["merged"]) == ("completed", 0, 0)
    index = deployment.agentcore.book(memory).index()
    assert set(index.entries) == set(ids)
    entry = index.entries[name]
    assert (entry.record_id, entry.was) == (record.record_id, (name,))
    known = index.known(name, memory, deployment.agentcore.accesses.ledger(), summary_days=45)
    assert known.access_count == 26


def test_answers_that_may_not_stand_keep_the_originals_and_a_failed_gate_brings_back_one_memory_only(
    deployment: Deployment, answered: Answered, model: ConverseServer
) -> None:
    now = deployment.now()
    pairs = {quay: two_about(quay, f"/actors/c{quay}/", "facts-1", now=now) for quay in ANSWERS}
    ids = {quay: put(deployment, "yard", two) for quay, two in pairs.items()}
    # The same words in two actors' namespaces: one question each.
    for actor in ("one", "two"):
        put(deployment, "yard", two_about(908, f"/actors/{actor}/", "facts-1", now=now))
    lone = Told("The canteen serves leek soup with 5 slices of bread.", "/actors/m/", "facts-1", now - 40 * DAY)
    put(deployment, "mole", [*two_about(909, "/actors/m/", "facts-1", now=now), lone])
    mole = records_of(deployment, "mole")
    keep_asking(answered, "mole", place_of(memory_of(deployment, "mole").memory_id, "/actors/m/"), lone.text)

    report = answered("run", code=1)
    parts = {one["tenant_id"]: one for one in report["tenants"]}
    assert (report["ended"], report["quality"]) == ("rolled_back", "fail")
    assert (parts["mole"]["quality"], parts["yard"]["quality"]) == ("FAIL", "NOT_RUN")
    assert described(records_of(deployment, "mole")) == described(mole)

    refused = {quay: reason for quay, (_, reason) in ANSWERS.items() if reason}
    left = records_of(deployment, "yard")
    merged = [one_of(one.text for one in pairs[901])]
    merged += [one_of(one.text for one in two_about(908, "", "", now=now))] * 2
    assert Counter(one.text for one in left) == Counter(
        [*merged, *(one.text for quay in refused for one in pairs[quay])]
    )
    assert {len(asked_about(body)) for _, body in model.requests} == {2}
    asked = len(model.requests)
    later = answered("run")
    assert (later["ended"], len(model.requests)) == ("completed", asked)
    assert Counter(one.text for one in records_of(deployment, "yard")) == Counter(one.text for one in left)
    entries = deployment.agentcore.book(memory_of(deployment, "yard")).index().entries
    assert {name: entries[name].review for quay in refused for name in ids[quay]} == {
        name: reason for quay, reason in refused.items() for name in ids[quay]
    }


def test_a_night_that_is_killed_while_it_merges_loses_nothing_and_the_next_one_finishes(
    deployment: Deployment, answered: Answered, model: ConverseServer, stack: runtime.Stack
) -> None:
    quays = range(920, 928)
    now = deployment.now()
    told = [one for quay in quays for one in two_about(quay, f"/actors/p{quay}/", "facts-1", now=now)]
    told.append(
        Told("The canteen serves leek soup with 9 slices of bread.", "/actors/p920/", "facts-1", now - 40 * DAY)
    )
    put(deployment, "pier", told)
    before = records_of(deployment, "pier")
    reached, goes_on = threading.Event(), threading.Event()

    def stuck_at_the_fourth(body: dict[str, Any]) -> Answer:
        if len(model.requests) >= 4 and not goes_on.is_set():
            reached.set()
            goes_on.wait(60)
        return a_merging_model(body)

    model.script = stuck_at_the_fourth
    files = deployment.services.night_files
    known = set(files.runs())
    execution = answered("run", "--no-wait")["execution"]
    assert reached.wait(90)
    machine = deployment.services.settings.lifecycle_machine.replace(":stateMachine:", ":execution:")
    deployment.clients.get("stepfunctions").stop_execution(executionArn=f"{machine}:{execution}")
    stack.kill_workers()
    goes_on.set()
    half = records_of(deployment, "pier")
    assert len(before) > len(half) > len(quays)

    forget_the_lock(deployment)
    report = answered("run")
    assert (report["ended"], report["unfinished"]) == ("completed", {})
    assert Counter(one.text for one in records_of(deployment, "pier")) == Counter(
        one_of(one.text for one in two_about(quay, "", "", now=now)) for quay in quays
    )
    for name in set(files.runs()) - known:
        command.run(["agentcore", "restore", name, "--tenant", "pier", "--env", "local"])
    assert described(records_of(deployment, "pier")) == described(before)
