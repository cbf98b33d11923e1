"""JSON that names memories of many, without what is said of the runs of one person."""

from collections.abc import Callable

IsTheirRun = Callable[[str, str], bool]


def pruned(value: object, theirs: IsTheirRun, names: frozenset[str]) -> object:
    """*value* without the entries of lists and maps that name a run of theirs, or one of *names*."""
    match value:
        case {"agent_id": str(agent), "run_ids": list(runs), **others}:
            # Due episodes of one agent.
            left = [run for run in runs if not (isinstance(run, str) and theirs(agent, run))]
            return {"agent_id": agent, **others, "run_ids": left}
        case dict():
            kept = {key: held for key, held in value.items() if not _named(key, theirs, names)}
            return {key: pruned(held, theirs, names) for key, held in kept.items() if not _named(held, theirs, names)}
        case list():
            return [pruned(held, theirs, names) for held in value if not _named(held, theirs, names)]
    return value


def mentions(value: object, theirs: IsTheirRun, names: frozenset[str]) -> bool:
    """Whether anything in *value* names a run of theirs, or one of *names*."""
    return pruned(value, theirs, names) != value


def _named(value: object, theirs: IsTheirRun, names: frozenset[str]) -> bool:
    match value:
        case str():
            agent, slash, run = value.partition("/")
            return value in names or (bool(slash) and theirs(agent, run))
        case [str(first), str(second)]:
            # A run by its agent, or a fact by its domain.
            return second in names or theirs(first, second)
        case {"agent_id": str(agent), "run_id": str(run)}:
            return theirs(agent, run)
        case {"agent_id": str(agent)}:
            # Of an agent that is itself somebody's: a namespace of AgentCore.
            return theirs(agent, "")
    return False
