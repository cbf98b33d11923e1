"""The canary sees what it must see, is not calmed by silence, and tells nobody what it saw."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from agent_memory.contract import CANARY_TENANTS
from agent_memory.domain.canary import CanaryDoors, CanaryReport, secret_of, watch
from agent_memory.domain.errors import AccessRefusedError, CrossTenantError, RefusedInputError, RetryableError
from agent_memory.domain.keys import identifier, label, tenant_identifier
from agent_memory.domain.knowledge import KnowledgeQuery, Passage, Passages
from agent_memory.domain.models import FactScope
from support.builders import NOW

A, B = CANARY_TENANTS
ENVIRONMENT = "test"
SECRETS = {tenant_id: secret_of(ENVIRONMENT, tenant_id) for tenant_id in CANARY_TENANTS}


class Memory:
    """A memory that keeps tenants apart, until a test breaks one of its ways."""

    def __init__(self) -> None:
        self.planted: list[tuple[str, Mapping[str, object]]] = []
        self.shows: Callable[[Mapping[str, object]], object] = lambda request: {"context": SECRETS[self.of(request)]}
        self.lists: Callable[[str, str, str], object] = lambda tenant_id, agent_id, domain: [SECRETS[tenant_id]]
        self.passages: Callable[[KnowledgeQuery], Passages] = lambda query: Passages()
        self.crossed: Callable[[str, str], Sequence[str]] = lambda tenant_id, other: ()

    def of(self, request: Mapping[str, object]) -> str:
        tenant_id = tenant_identifier(request["tenant_id"])
        identifier(request["agent_id"], "agent_id")
        if tenant_id not in SECRETS:
            raise RefusedInputError("caller", "may not speak for this tenant")
        return tenant_id

    def look(self, *, enforced: bool = True) -> CanaryReport:
        doors = CanaryDoors(
            ask=lambda request: self.shows(request),  # type: ignore[arg-type,return-value]  # tests answer anything
            lists=lambda *where: self.lists(*where),
            search=lambda query: self.passages(query),
            plant=lambda tenant_id, detail: self.planted.append((tenant_id, detail)),
            crosses=(lambda *pair: self.crossed(*pair)) if enforced else None,
        )
        return watch(doors, ENVIRONMENT, runs=3, now=NOW)


def a_passage(tenant_id: str) -> Passage:
    return Passage(
        tenant_id=tenant_id,
        domain="canary",
        fact_id="f-" + "0" * 32,
        text=SECRETS[tenant_id],
        score=0.9,
        confidence=0.9,
        scope=FactScope.DOMAIN,
    )


def test_a_memory_that_keeps_tenants_apart_is_quiet() -> None:
    memory = Memory()
    report = memory.look()
    assert (report.decision, report.leaks, report.blind, report.planted) == ("quiet", (), (), 0)
    assert report.probes > 40


def test_a_secret_that_comes_back_to_the_other_is_a_leak() -> None:
    memory = Memory()
    memory.shows = lambda request: {"context": " ".join(SECRETS.values())}
    report = memory.look()
    assert report.decision == "leak"
    assert f"{A}:bootstrap:plain" in report.leaks


def broken(name: str, value: Callable[..., Any]) -> CanaryReport:
    memory = Memory()
    setattr(memory, name, value)
    return memory.look()


@pytest.mark.parametrize(
    ("name", "value", "leak"),
    [
        (
            "lists",
            lambda tenant_id, agent_id, domain: list(SECRETS.values()) if "#" in agent_id else [],
            "list:separator",
        ),
        ("lists", lambda tenant_id, agent_id, domain: list(SECRETS.values()) if domain == "*" else [], "list:wildcard"),
        ("passages", lambda query: Passages(found=(a_passage(A), a_passage(B))), "search:all"),
        ("passages", lambda query: Passages(foreign=1), "search:all:dropped"),
        ("passages", lambda query: Passages(unreadable=1), "search:all:dropped"),
        ("crossed", lambda tenant_id, other: ["episodes"], "storage:episodes"),
    ],
)
def test_every_way_to_the_other_is_looked_at(name: str, value: Callable[..., Any], leak: str) -> None:
    assert broken(name, value).leaks.count(f"{A}:{leak}") == 1


@pytest.mark.parametrize("key", ["filters", "filter", "agents"])
def test_a_filter_of_the_callers_own_is_tried(key: str) -> None:
    memory = Memory()
    memory.shows = lambda request: {
        "context": " ".join(SECRETS.values()) if key in request else SECRETS[memory.of(request)]
    }
    assert f"{A}:bootstrap:filter" in memory.look().leaks


def test_a_name_that_looks_like_a_tenant_shows_nothing_of_either() -> None:
    memory = Memory()

    def folded(request: Mapping[str, object]) -> object:
        named = str(request["tenant_id"]).lower().rstrip("#")
        return {"context": SECRETS.get(named, "")}

    memory.shows = folded
    assert any("look_alike" in leak for leak in memory.look().leaks)


def test_refusals_are_what_is_hoped_for() -> None:
    def refuses(tenant_id: str, agent_id: str, domain: str) -> object:
        raise CrossTenantError("not yours")

    assert broken("lists", refuses).decision == "quiet"


@pytest.mark.parametrize("error", [RetryableError("down"), AccessRefusedError("no policy")])
def test_a_canary_that_can_not_look_is_blind_and_not_quiet(error: Exception) -> None:
    def fails(*_: object) -> Any:
        raise error

    for name in ("lists", "passages", "crossed", "shows"):
        assert broken(name, fails).decision == "blind", name


def test_a_secret_that_its_own_tenant_does_not_see_is_planted_and_the_canary_is_blind_until_then() -> None:
    memory = Memory()
    memory.shows = lambda request: {"context": ""}
    report = memory.look()
    assert (report.decision, report.planted) == ("blind", 6)
    assert report.blind == (f"{A}:own_secret", f"{B}:own_secret")
    for tenant_id, detail in memory.planted:
        assert detail["tenant_id"] == tenant_id
        assert SECRETS[tenant_id] in str(detail)
        assert SECRETS[B if tenant_id == A else A] not in str(detail)
        label(detail["domain"], "domain")


def test_the_runs_of_one_day_are_the_same_runs() -> None:
    first, second = Memory(), Memory()
    for memory in (first, second):
        memory.shows = lambda request: {}
        memory.look()
    assert first.planted == second.planted


def test_no_finding_holds_a_secret() -> None:
    memory = Memory()
    memory.shows = lambda request: {"context": " ".join(SECRETS.values())}
    assert not any(secret in memory.look().model_dump_json() for secret in SECRETS.values())


def test_where_nothing_enforces_credentials_storage_is_not_tried() -> None:
    memory = Memory()
    memory.crossed = lambda tenant_id, other: ["episodes"]
    assert memory.look(enforced=False).decision == "quiet"


def test_secrets_are_words_and_differ_by_tenant_and_environment() -> None:
    words = {secret_of(env, tenant_id) for env in ("dev", "prod") for tenant_id in CANARY_TENANTS}
    assert len(words) == 4
    assert all(word.isalpha() and len(word) == 10 for word in words)
