"""What a caller of bootstrap may ask: hostile input in, a typed RecallRequest or a refusal naming the field out."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from agent_memory.domain.calibration import fact_floor, procedure_floor
from agent_memory.domain.errors import ConfigurationError, RefusedInputError
from agent_memory.domain.keys import identifier, label, tenant_identifier, user_identity
from agent_memory.domain.models import Model
from agent_memory.domain.plain_text import plain
from agent_memory.domain.procedures import ProcedureRules

TIERS = ("episodic", "semantic", "procedural")
MAX_TASK_CHARACTERS = 50_000
MAX_EPISODES = 5
MAX_FACTS = 20
# Each is a read of its own at every bootstrap of that task type.
MAX_ALIASES = 8
MAX_CONTEXT_TOKENS = 100_000
# The function ends at 30 seconds; what is left is for its answer.
MAX_BUDGET_MS = 25_000


class FactRules(Model):
    """How alike a fact must be to be shown, and how long it lasts after its last confirmation."""

    floor: float = fact_floor("")
    ttl_days: int = 270


class ProcedureRecallRules(Model):
    """The deployment's part. *floor*: least likeness of the tasks when no type is named. *aliases*: by task type, the
    types whose procedures serve it too, the most specific first."""

    rules: ProcedureRules = ProcedureRules()
    floor: float = procedure_floor("")
    aliases: Mapping[str, tuple[str, ...]] = {}


class RecallRules(Model):
    """The deployment's part in a recall.

    *tiers_by_task_type*: the tiers worth reading for a task type; `*` stands for all others.
    *shared_agents*: by `tenant/agent`, the other agents of that tenant whose episodes it may read.
    """

    budget_ms: int
    max_episodes: int
    max_facts: int = 5
    max_context_tokens: int
    episode_floor: float = 0.0
    facts: FactRules = FactRules()
    procedures: ProcedureRecallRules = ProcedureRecallRules()
    tiers_by_task_type: Mapping[str, tuple[str, ...]] = {}
    shared_agents: Mapping[str, tuple[str, ...]] = {}


class RecallRequest(Model):
    """One question to memory. *agents*: the asking agent first, then those it may read. *user_id*: becomes a
    pseudonym before anything is read with it. *run_id*: when it is named, the run decides which trials it gets, however
    often it asks. *prefetch*: keep the answer for a run that has not started. *pick_up*: the context_id under which it
    was kept; *task* is then what to recall should it be gone, or empty."""

    tenant_id: str
    agent_id: str
    task: str
    agents: tuple[str, ...]
    tiers: tuple[str, ...]
    task_type: str | None = None
    run_id: str | None = None
    domain: str | None = None
    user_id: str | None = Field(default=None, repr=False)
    max_episodes: int
    max_facts: int
    max_context_tokens: int
    budget_ms: int
    explain: bool
    prefetch: bool = False
    pick_up: str | None = None


def recall_request(event: object, rules: RecallRules) -> RecallRequest:
    """Read the input of bootstrap; unknown fields are left alone. Raises RefusedInputError."""
    if not isinstance(event, Mapping):
        raise RefusedInputError("input", "must be a JSON object")
    tenant_id = tenant_identifier(event.get("tenant_id"))
    agent_id = identifier(event.get("agent_id"), "agent_id")
    task_type = _label(event, "task_type")
    context_id, prefetch = event.get("context_id"), _flag(event, "prefetch")
    pick_up = None if context_id is None else identifier(context_id, "context_id")
    if prefetch and pick_up is not None:
        raise RefusedInputError("context_id", "is made by a prefetch and not given to one")
    return RecallRequest(
        tenant_id=tenant_id,
        agent_id=agent_id,
        task=_task_beside(pick_up, event.get("task")),
        agents=_agents(tenant_id, agent_id, rules),
        tiers=_tiers(event.get("tiers"), task_type, rules),
        task_type=task_type,
        run_id=None if event.get("run_id") is None else identifier(event["run_id"], "run_id"),
        domain=_label(event, "domain"),
        user_id=user_identity(event.get("user_id")),
        max_episodes=_whole(event, "max_episodes", 0, MAX_EPISODES, rules.max_episodes),
        max_facts=_whole(event, "max_facts", 0, MAX_FACTS, rules.max_facts),
        max_context_tokens=_whole(event, "max_context_tokens", 0, MAX_CONTEXT_TOKENS, rules.max_context_tokens),
        budget_ms=_whole(event, "budget_ms", 1, MAX_BUDGET_MS, rules.budget_ms),
        explain=_flag(event, "explain"),
        prefetch=prefetch,
        pick_up=pick_up,
    )


def recall_rules(
    *,
    budget_ms: int,
    max_episodes: int,
    max_facts: int = 5,
    max_context_tokens: int,
    episode_floor: float,
    facts: FactRules | None = None,
    procedures: ProcedureRecallRules | None = None,
    tiers_by_task_type: Mapping[str, object],
    shared_agents: Mapping[str, object],
) -> RecallRules:
    """Read the settings of a recall. Raises ConfigurationError naming the setting that breaks a rule."""
    tiers = {name: _names(value, "tiersByTaskType") for name, value in tiers_by_task_type.items()}
    if any(tier not in TIERS for names in tiers.values() for tier in names):
        raise ConfigurationError(f"tiersByTaskType must name tiers among {', '.join(TIERS)}")
    shared = {name: _names(value, "sharedAgents") for name, value in shared_agents.items()}
    try:
        for pair, names in shared.items():
            for part in (*pair.partition("/")[::2], *names):
                identifier(part, "sharedAgents")
    except RefusedInputError as error:
        raise ConfigurationError(f"{error}: its keys must be tenant/agent, its values lists of agents") from None
    return RecallRules(
        budget_ms=min(budget_ms, MAX_BUDGET_MS),
        max_episodes=min(max_episodes, MAX_EPISODES),
        max_facts=min(max_facts, MAX_FACTS),
        max_context_tokens=max_context_tokens,
        episode_floor=episode_floor,
        facts=facts or FactRules(),
        procedures=procedures or ProcedureRecallRules(),
        tiers_by_task_type=tiers,
        shared_agents=shared,
    )


def procedure_recall_rules(
    rules: ProcedureRules, *, floor: float, aliases: Mapping[str, object]
) -> ProcedureRecallRules:
    """Read the settings of procedures in a recall. Raises ConfigurationError naming the setting that breaks a rule."""
    named = {name: _names(value, "taskTypeAliases") for name, value in aliases.items()}
    try:
        for task_type in {*named, *(one for names in named.values() for one in names)}:
            label(task_type, "taskTypeAliases")
    except RefusedInputError as error:
        raise ConfigurationError(f"{error}: it maps task types to lists of task types") from None
    longest = max(map(len, named.values()), default=0)
    if longest > MAX_ALIASES:
        raise ConfigurationError(f"taskTypeAliases must map a task type to at most {MAX_ALIASES} others")
    return ProcedureRecallRules(rules=rules, floor=floor, aliases=named)


def _task(value: object) -> str:
    if value is None or value == "":
        raise RefusedInputError("task", "is required")
    if not isinstance(value, str):
        raise RefusedInputError("task", "must be text")
    if len(value) > MAX_TASK_CHARACTERS:
        raise RefusedInputError("task", f"must have at most {MAX_TASK_CHARACTERS} characters")
    task = plain(value).strip()
    if not task:
        raise RefusedInputError("task", "is required and must not be blank")
    return task


def _task_beside(pick_up: str | None, value: object) -> str:
    """The task, which a pick-up may leave out."""
    return "" if pick_up is not None and value is None else _task(value)


def _label(event: Mapping[str, object], field: str) -> str | None:
    value = event.get(field)
    return None if value is None else label(value, field)


def _agents(tenant_id: str, agent_id: str, rules: RecallRules) -> tuple[str, ...]:
    shared = rules.shared_agents.get(f"{tenant_id}/{agent_id}", ())
    return tuple(dict.fromkeys((agent_id, *shared)))


def _tiers(value: object, task_type: str | None, rules: RecallRules) -> tuple[str, ...]:
    if value is None:
        by_type = rules.tiers_by_task_type
        return by_type.get(task_type or "*", by_type.get("*", TIERS))
    rule = f"must be a list of one or more of {', '.join(TIERS)}"
    if not isinstance(value, list) or not value:
        raise RefusedInputError("tiers", rule)
    if any(not isinstance(tier, str) or tier not in TIERS for tier in value):
        raise RefusedInputError("tiers", rule)
    return tuple(dict.fromkeys(value))


def _whole(event: Mapping[str, object], field: str, least: int, most: int, default: int) -> int:
    value = event.get(field)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RefusedInputError(field, f"must be a whole number from {least} to {most}")
    return value


def _flag(event: Mapping[str, object], field: str) -> bool:
    value = event.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise RefusedInputError(field, "must be true or false")
    return value


def _names(value: object, setting: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError(f"{setting} must map names to lists of names")
    return tuple(value)
