"""`agent-memory lifecycle restore`: what a night removed comes back, for as long as the archive keeps it."""

from collections import Counter
from typing import Annotated

import typer

from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, session_of
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import plan_key, tenant_identifier
from agent_memory.domain.lifecycle import Plan, latest_first
from agent_memory.domain.restoring import Restored, restore_memory, restore_run

SAID = {
    "restored": "is back",
    "present": "was never gone",
    "erased": "was erased since, and stays so",
    "too_old": "was removed too long ago to be brought back",
    "not_found": "is in no archive of this tenant",
    "failed": "could not be read from its archive",
}
GOOD = {"restored", "present"}


def restore(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="RUN|MEMORY", help="A run of the night, AGENT/RUN of an episode, or a fact's id.")
    ],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", "-t", envvar="AGENT_MEMORY_TENANT", help="Its tenant.", show_default="of a run: all"),
    ] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Bring back one memory, or all that a run of the night removed, within undoDays. No night takes it again at once;
    what was erased since stays erased. Doing it twice does it once.

    Examples: `agent-memory lifecycle restore support-desk/run-7 --tenant acme`,
    `agent-memory lifecycle restore n-2026-12-01 --tenant acme`
    """
    session = session_of(ctx, env, output)
    if latest_first([target]):
        tenants = [tenant_identifier(tenant, "--tenant")] if tenant else _tenants(session, target)
        found = [(name, one) for name in tenants for one in _run_back(session, name, target)]
    else:
        if tenant is None:
            raise RefusedInputError("--tenant", "is needed for a memory")
        found = [(tenant, _memory_back(session, tenant_identifier(tenant, "--tenant"), target))]
    session.screen.answer([{"tenant_id": name, **one.model_dump(mode="json")} for name, one in found])
    rows = [(name, one.memory_id, one.run_id, one.decision, SAID[one.decision]) for name, one in found]
    session.screen.table(("tenant", "memory", "removed by", "result", ""), rows)
    _judge(target, [one for _, one in found])


def _judge(target: str, found: list[Restored]) -> None:
    counts = Counter(one.decision for one in found)
    if set(counts) <= {"not_found"}:
        raise NotFoundError(f"{target} is in no archive: it was not removed by a night, or its time is over")
    bad = {word: number for word, number in counts.items() if word not in GOOD}
    if bad:
        shown = ", ".join(f"{number} {word}" for word, number in sorted(bad.items()))
        raise FailedError(f"not everything is back: {shown}")


def _memory_back(session: Session, tenant: str, memory_id: str) -> Restored:
    night = session.deployment.night
    with session.screen.working(f"looking for {memory_id}"):
        return restore_memory(memory_id, night.restore_doors(tenant), night.restore_rules, now=session.deployment.now())


def _run_back(session: Session, tenant: str, run_id: str) -> tuple[Restored, ...]:
    night = session.deployment.night
    with session.screen.working(f"bringing back what {run_id} removed of {tenant}"):
        doors, rules = night.restore_doors(tenant), night.restore_rules
        return restore_run(tenant, run_id, doors, rules, now=session.deployment.now()).done


def _tenants(session: Session, run_id: str) -> list[str]:
    found = session.deployment.services.night_files.get(plan_key(run_id), Plan)
    if found is None:
        raise NotFoundError(f"no plan of {run_id}: name the tenant with --tenant, or see {session.night('status')}")
    return [one.tenant_id for one in found.tenants]
