"""The canary: two tenants of nobody's, each with a secret, each asking in every way for the other's.

A secret is planted through the ordinary pipeline and is seen by its own tenant, or the canary is blind: silence of a
probe that can't see is no good news. Findings are codes; no secret is in any of them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from agent_memory.contract import CANARY_TENANTS, SCHEMA_VERSION
from agent_memory.domain.errors import AgentMemoryError, CrossTenantError, RefusedInputError
from agent_memory.domain.keys import SEPARATOR
from agent_memory.domain.knowledge import KnowledgeQuery, Passages
from agent_memory.domain.models import Model

AGENT: Final = "canary"
DOMAIN: Final = "canary"
# Two questions with nothing in common: of two runs that are nearly the same recall shows one, and that may not be the
# one that strayed.
QUESTIONS: Final = dict(
    zip(
        CANARY_TENANTS,
        ("Which word opens the loading bay in the north?", "How does the lighthouse keeper call her tallest goat?"),
        strict=True,
    )
)
MOST_EPISODES: Final = 5
BUDGET_MS: Final = 10_000
RESULTS: Final = 20
# Consonants and vowels in turn: a word that no detector of names, numbers or secrets takes out.
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


class CanaryDoors(NamedTuple):
    """What the canary tries. *ask*: the bootstrap function, as any caller asks it. *lists*: what a tenant's own stores
    hold for an agent and a domain. *crosses*: reads one tenant's keys on the other's credentials and names the stores
    that answered; None where nothing enforces credentials."""

    ask: Callable[[Mapping[str, object]], Mapping[str, object]]
    lists: Callable[[str, str, str], object]
    search: Callable[[KnowledgeQuery], Passages]
    plant: Callable[[str, Mapping[str, object]], None]
    crosses: Callable[[str, str], Sequence[str]] | None


class CanaryReport(Model):
    """*leaks*: ways in which a tenant saw what is the other's. *blind*: probes that could not look. *planted*: runs
    handed over because a tenant did not see its own secret."""

    leaks: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    planted: int = 0
    probes: int = 0

    @property
    def decision(self) -> str:
        if self.leaks:
            return "leak"
        return "blind" if self.blind else "quiet"


def secret_of(environment: str, tenant_id: str) -> str:
    """The word of a canary's tenant, the same in every run."""
    digest = hashlib.sha256(f"agent-memory canary {environment} {tenant_id}".encode()).digest()
    pairs = zip(digest[:10:2], digest[1:10:2], strict=True)
    return "".join(_CONSONANTS[one % len(_CONSONANTS)] + _VOWELS[two % len(_VOWELS)] for one, two in pairs)


def watch(doors: CanaryDoors, environment: str, *, runs: int, now: int) -> CanaryReport:
    """Look from both sides; plant what can't be seen. *runs*: how many runs it takes for a fact to be believed."""
    found = _Findings(doors, environment)
    planted = 0
    for tenant_id, other in (CANARY_TENANTS, CANARY_TENANTS[::-1]):
        if not found.sees_its_own(tenant_id):
            found.blind.append(f"{tenant_id}:own_secret")
            planted += _plant(doors, tenant_id, environment, runs=runs, now=now)
        found.look(tenant_id, other)
    return CanaryReport(leaks=tuple(found.leaks), blind=tuple(found.blind), planted=planted, probes=found.probes)


class _Findings:
    """What was seen so far."""

    def __init__(self, doors: CanaryDoors, environment: str) -> None:
        self._doors = doors
        self._secrets = {tenant_id: secret_of(environment, tenant_id) for tenant_id in CANARY_TENANTS}
        self.leaks: list[str] = []
        self.blind: list[str] = []
        self.probes = 0

    def sees_its_own(self, tenant_id: str) -> bool:
        """Whether its own secret comes back to a tenant that asks for it."""
        try:
            return self._secrets[tenant_id] in _text(self._doors.ask(_question(tenant_id, tenant_id)))
        except AgentMemoryError:
            return False

    def look(self, tenant_id: str, other: str) -> None:
        """Every probe of one tenant for the secret of the other."""
        doors, secrets = self._doors, {self._secrets[other]}
        for code, request in _crafted(tenant_id, other):
            mine = request.get("tenant_id") == tenant_id
            unseen = secrets if mine else set(self._secrets.values())
            self._probe(f"{tenant_id}:bootstrap:{code}", partial(doors.ask, request), unseen)
        for code, agent_id, domain in _foreign_places(other):
            self._probe(f"{tenant_id}:list:{code}", partial(doors.lists, tenant_id, agent_id, domain), secrets)
        query = KnowledgeQuery(tenant_id=tenant_id, text=QUESTIONS[other], limit=RESULTS)
        self._search(f"{tenant_id}:search:all", query, secrets)
        crafted = query.model_copy(update={"domain": f'{DOMAIN}" OR "1"="1'})
        self._search(f"{tenant_id}:search:foreign_domain", crafted, secrets)
        if doors.crosses is not None:
            self._cross(f"{tenant_id}:storage", tenant_id, other)

    def _probe(self, code: str, read: Callable[[], object], unseen: set[str]) -> object:
        self.probes += 1
        try:
            seen = read()
        except (RefusedInputError, CrossTenantError):
            return None
        except AgentMemoryError:
            self.blind.append(code)
            return None
        if any(secret in _text(seen) for secret in unseen):
            self.leaks.append(code)
        return seen

    def _search(self, code: str, query: KnowledgeQuery, unseen: set[str]) -> None:
        """What was dropped counts as well: the Knowledge Base held it under this tenant's filter."""
        seen = self._probe(code, lambda: self._doors.search(query), unseen)
        if isinstance(seen, Passages) and (seen.foreign or seen.unreadable) and code not in self.leaks:
            self.leaks.append(f"{code}:dropped")

    def _cross(self, code: str, tenant_id: str, other: str) -> None:
        crosses = self._doors.crosses
        self.probes += 1
        try:
            self.leaks += [f"{code}:{store}" for store in crosses(tenant_id, other)] if crosses else []
        except AgentMemoryError:
            self.blind.append(code)


def _question(tenant_id: object, about: str, **changes: object) -> dict[str, object]:
    """What *about* could answer, asked as *tenant_id*."""
    asked = {"tenant_id": tenant_id, "agent_id": AGENT, "task": QUESTIONS[about], "domain": DOMAIN}
    return {**asked, "budget_ms": BUDGET_MS, "max_episodes": MOST_EPISODES, **changes}


def _crafted(tenant_id: str, other: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Questions of *tenant_id* that reach for *other*."""
    yield "plain", _question(tenant_id, other)
    yield "own_words", _question(tenant_id, tenant_id)
    for code, agent_id, domain in _foreign_places(other):
        yield code, _question(tenant_id, other, agent_id=agent_id)
        yield f"{code}_domain", _question(tenant_id, other, domain=domain)
    yield (
        "filter",
        _question(
            tenant_id,
            other,
            filter={"equals": {"key": "tenant_id", "value": other}},
            filters={"tenant_id": other},
            tenant=other,
            agents=[f"{other}{SEPARATOR}{AGENT}"],
        ),
    )
    for number, name in enumerate(
        (f"{tenant_id}{SEPARATOR}", tenant_id[:-1], tenant_id.upper(), f"{tenant_id}/../{other}")
    ):
        yield f"look_alike_{number}", _question(name, other)
    yield "full_width", _question("".join(chr(ord(letter) + 0xFEE0) for letter in other), other)


def _foreign_places(other: str) -> Iterator[tuple[str, str, str]]:
    """Agents and domains whose names reach into *other*, were they put into a key as they are."""
    yield "same_names", AGENT, DOMAIN
    yield "separator", f"{other}{SEPARATOR}{AGENT}", f"{other}{SEPARATOR}{DOMAIN}"
    yield "encoded", f"{other}%23{AGENT}", f"{other}%23{DOMAIN}"
    yield "path", f"../{other}/{AGENT}", f"../{other}/{DOMAIN}"
    yield "wildcard", "*", "*"


def _plant(doors: CanaryDoors, tenant_id: str, environment: str, *, runs: int, now: int) -> int:
    """Hand runs over that hold the secret; those of one day are the same runs."""
    secret, question = secret_of(environment, tenant_id), QUESTIONS[tenant_id]
    task, said = f"{question} I think it is {secret}.", f"The word for it is {secret}."
    moment = datetime.fromtimestamp(now, UTC)
    for number in range(runs):
        turns = [
            {"role": "user", "content": f"{question} I think it is {secret}."},
            {"role": "assistant", "content": said},
        ]
        fact = {"content": said, "evidence": said, "confidence": 0.95, "scope": "domain"}
        detail = {
            "schema_version": SCHEMA_VERSION,
            "tenant_id": tenant_id,
            "agent_id": AGENT,
            "run_id": f"{moment:%Y-%m-%d}-{number}",
            "ended_at": moment.replace(hour=0, minute=0, second=0).isoformat(),
            "task": task,
            "domain": DOMAIN,
            "user_id": f"canary-user-{number}",
            "outcome": "COMPLETED",
            "transcript": {"messages": turns},
            "artifacts": {"facts": [fact]},
        }
        doors.plant(tenant_id, detail)
    return runs


def _text(seen: object) -> str:
    """All that was answered, however deep."""
    return json.dumps(seen, ensure_ascii=False, default=repr)
