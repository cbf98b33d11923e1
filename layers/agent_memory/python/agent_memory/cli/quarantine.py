"""`agent-memory quarantine`: texts that give orders to agents, held back until a person has looked at them."""

from collections import Counter
from typing import Annotated

import typer

from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain import quarantine_review
from agent_memory.domain.errors import RefusedInputError, TranscriptError
from agent_memory.domain.fact_confirming import ConfirmDoors, ConfirmRules
from agent_memory.domain.procedure_proposal import ProposeDoors, ProposeRules, propose_released
from agent_memory.domain.quarantine import QUARANTINE_ID, HeldContent, Part, Quarantined, QuarantineState
from agent_memory.domain.quarantine_review import ReleaseDoors, claim_of

app = typer.Typer(
    help="Texts that give orders to agents, held back for a person. Example: `agent-memory quarantine list -t acme`.",
    no_args_is_help=True,
)
QuarantineId = Annotated[str, typer.Argument(help="Id of a held text, as `quarantine list` prints it.")]
RELEASES = {
    "released": "is released: it goes on as if it had never been held",
    "unchanged": "was released before",
    "rejected": "was rejected before and stays out",
    "episode_gone": "is released, but its episode is gone: nothing was changed",
    "refused": "is released, and its ordinary gate refused it",
    "erased": "belongs to somebody who was erased meanwhile",
}
REJECTIONS = {
    "rejected": "is rejected: it stays out of memory, and its text is removed",
    "unchanged": "was rejected before",
    "released": "was released before: what it became is looked at with `facts` and `episodes`",
}


@app.command("list")
def list_held(
    ctx: typer.Context,
    tenant: Tenant,
    state: Annotated[QuarantineState | None, typer.Option(help="Only texts in this state.")] = QuarantineState.HELD,
    every: Annotated[bool, typer.Option("--all", help="Settled ones as well.")] = False,
    part: Annotated[Part | None, typer.Option(help="Only texts of this part of a run.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """List held texts, newest first, with the reasons why, without the texts.

    Example: `agent-memory quarantine list --tenant acme --part fact`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading the quarantine"):
        rows = session.tenant(tenant).quarantine.all()
    found = [row for row in rows if (every or state in (None, row.state)) and part in (None, row.part)]
    session.screen.answer([_record(row) for row in found[:limit]])
    cells = [
        (
            r.quarantine_id,
            r.part,
            r.trust,
            ", ".join(r.reasons),
            f"{r.agent_id}/{r.run_id}",
            r.state,
            when(r.expires_at),
        )
        for r in found[:limit]
    ]
    session.screen.table(("id", "part", "said by", "reasons", "run", "state", "kept until"), cells)
    states = Counter(row.state.value for row in rows)
    session.screen.notice(f"{len(found[:limit])} of {len(found)} shown; " + _counted(states))


@app.command()
def show(
    ctx: typer.Context, quarantine_id: QuarantineId, tenant: Tenant, env: Env = None, output: OutputOption = None
) -> None:
    """Show one held text with its reasons. It is hostile until you judged it: read it, follow nothing in it.

    Example: `agent-memory quarantine show q-0123456789abcdef0123456789abcdef --tenant acme`
    """
    session = session_of(ctx, env, output)
    store = session.tenant(tenant).quarantine
    row = store.get(_named(quarantine_id))
    if row is None:
        raise NotFoundError(f"no held text {quarantine_id}: it expired, or belongs to another tenant")
    try:
        text: str | None = store.content(row).text
    except TranscriptError:
        text = None
    record = {**_record(row), "text": text}
    session.screen.answer(record)
    session.screen.fields({**record, **readable_times(record), "reasons": list(row.reasons)})
    if row.state is QuarantineState.HELD:
        session.screen.notice(f"Decide: agent-memory quarantine release|reject {quarantine_id} --tenant {tenant}")


@app.command()
def release(
    ctx: typer.Context, quarantine_id: QuarantineId, tenant: Tenant, env: Env = None, output: OutputOption = None
) -> None:
    """Let a held text go on: a fact as one observation, a finding back into its episode. Doing it twice does it once.

    Example: `agent-memory quarantine release q-01... --tenant acme`
    """
    session = session_of(ctx, env, output)
    services = session.deployment.services
    rules = ConfirmRules(services.settings, services.retention_rules)
    now = session.deployment.now()
    done = quarantine_review.release(_named(quarantine_id), _doors(session, tenant), rules, now=now)
    session.screen.answer({"quarantine_id": quarantine_id, **done.model_dump()})
    if done.result == "not_found":
        raise NotFoundError(f"no held text {quarantine_id}: it expired, or belongs to another tenant")
    said = f"{quarantine_id} {RELEASES[done.result]}" + (f" ({done.gate})" if done.gate else "")
    if done.result not in ("released", "unchanged"):
        raise FailedError(said)
    session.screen.text(said)


@app.command()
def reject(
    ctx: typer.Context, quarantine_id: QuarantineId, tenant: Tenant, env: Env = None, output: OutputOption = None
) -> None:
    """Keep a held text out for good; its text is removed, its row stays until it expires.

    Example: `agent-memory quarantine reject q-01... --tenant acme`
    """
    session = session_of(ctx, env, output)
    store, now = session.tenant(tenant).quarantine, session.deployment.now()
    word = quarantine_review.reject(_named(quarantine_id), store, now=now)
    session.screen.answer({"quarantine_id": quarantine_id, "result": word})
    if word == "not_found":
        raise NotFoundError(f"no held text {quarantine_id}: it expired, or belongs to another tenant")
    if word == "released":
        raise FailedError(f"{quarantine_id} {REJECTIONS[word]}")
    session.screen.text(f"{quarantine_id} {REJECTIONS[word]}")


def _named(quarantine_id: str) -> str:
    if not QUARANTINE_ID.fullmatch(quarantine_id):
        raise RefusedInputError("QUARANTINE_ID", "must be q- and 32 hex digits, as quarantine list prints it")
    return quarantine_id


def _record(row: Quarantined) -> dict[str, object]:
    return row.model_dump(mode="json", exclude={"user_ref", "content_key"})


def _counted(states: Counter[str]) -> str:
    return ", ".join(f"{states[state.value]} {state.value}" for state in QuarantineState)


def _doors(session: Session, tenant_id: str) -> ReleaseDoors:
    services, own = session.deployment.services, session.tenant(tenant_id)

    def confirming() -> ConfirmDoors:
        # No judge is asked: a person has judged already.
        return ConfirmDoors(
            own.facts, own.documents, own.claims, services.dirty, services.embedder, None, services.rest, services.now
        )

    def propose(row: Quarantined, content: HeldContent) -> str:
        if content.procedure is None:
            return "unreadable"
        # Operators may not speak as memory itself: nobody is told, and `procedures list` shows what waits.
        doors = ProposeDoors(own.procedures, own.claims, services.embedder, lambda *_: None, services.rest)
        rules = ProposeRules(services.retention_rules, services.settings.environment)
        claim = claim_of(row, content)
        now = session.deployment.now()
        return propose_released(claim, content.procedure, content.outcome, doors, rules, now=now).decision

    return ReleaseDoors(own.quarantine, own.episodes, confirming, propose)
