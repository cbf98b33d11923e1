"""`agent-memory facts`: what a tenant's runs established, why it is believed, and a person's word on it."""

from typing import Annotated

import typer

from agent_memory.cli.screen import readable_times, when
from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, Tenant, session_of
from agent_memory.domain import fact_review
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.fact_review import ReviewDoors, Reviewed
from agent_memory.domain.fact_writes import FoundFact
from agent_memory.domain.facts import BELIEVED, Fact, FactState
from agent_memory.domain.keys import label
from agent_memory.domain.knowledge import FACT_ID

app = typer.Typer(
    help="What runs established, and why it is believed. Example: `agent-memory facts list --tenant acme`.",
    no_args_is_help=True,
)
FactId = Annotated[str, typer.Argument(help="Fact id, as `facts list` prints it.")]
Domain = Annotated[
    str | None, typer.Option("--domain", "-d", help="Its domain.", show_default="every domain of the tenant")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the fact's history.")]
GOOD = {"retired", "settled", "pinned", "unpinned", "unchanged"}
DEEDS = {
    "retired": "is retired: it leaves memory, and no run brings it back",
    "settled": "is settled",
    "pinned": "is pinned: it does not expire",
    "unpinned": "expires again",
    "unchanged": "was so already",
    "not_contested": "is not contested: there is nothing to settle",
    "erased": "was erased meanwhile",
}


@app.command("list")
def list_facts(
    ctx: typer.Context,
    tenant: Tenant,
    domain: Domain = None,
    state: Annotated[FactState | None, typer.Option(help="Only facts in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, last confirmed first.")] = 50,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """List facts, last confirmed first, with the number of runs behind each.

    Example: `agent-memory facts list --tenant acme --domain customs --state contested`
    """
    session = session_of(ctx, env, output)
    with session.screen.working("reading facts"):
        store = session.tenant(tenant).facts
        every = [one for name in _domains(session, tenant, domain) for one in store.facts(name)]
    found = [one for one in every if state in (None, one.fact.state)]
    found.sort(key=lambda one: (-one.fact.last_confirmed_at, one.fact.fact_id))
    session.screen.answer([_listed(one) for one in found[:limit]])
    rows = [
        (f.fact_id, f.domain, f.state, one.runs, f.user_ref or "everybody", when(f.last_confirmed_at), f.content)
        for one in found[:limit]
        for f in [one.fact]
    ]
    session.screen.table(("fact", "domain", "state", "runs", "about", "last confirmed", "content"), rows)
    session.screen.notice(f"{len(found[:limit])} of {len(found)} facts")


@app.command()
def show(
    ctx: typer.Context,
    fact_id: FactId,
    tenant: Tenant,
    domain: Domain = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Show why a fact is believed or not: runs, users, quotes, dates, and each change of its state.

    Example: `agent-memory facts show f-0123456789abcdef0123456789abcdef --tenant acme`
    """
    session = session_of(ctx, env, output)
    store = session.tenant(tenant).facts
    fact = store.get(_domain_of(session, tenant, fact_id, domain), fact_id)
    if fact is None:
        raise NotFoundError(f"{fact_id} was removed meanwhile")
    rivals = store.get_many([(fact.domain, other) for other in fact.contested_by])
    record = _record(session, fact, rivals)
    session.screen.answer(record)
    plain = {name: held for name, held in record.items() if not isinstance(held, list)}
    session.screen.fields({**plain, **readable_times(plain)})
    _show_evidence(session, fact, rivals)


@app.command()
def settle(
    ctx: typer.Context,
    fact_id: FactId,
    tenant: Tenant,
    keep: Annotated[str, typer.Option("--keep", help="The fact that is true: FACT_ID, or one that contradicts it.")],
    reason: Reason,
    domain: Domain = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """End the dispute over a contested fact. What is not kept leaves memory and stays in the history.

    Example: `agent-memory facts settle f-01... --keep f-02... --reason "the tariff changed in May" --tenant acme`
    """
    session = session_of(ctx, env, output)
    where = _domain_of(session, tenant, fact_id, domain)
    doors, now = _doors(session, tenant), session.deployment.now()
    word = fact_review.settle(tenant, where, fact_id, keep=keep, reason=reason, doors=doors, now=now)
    _answer(session, fact_id, where, word)


@app.command()
def retire(
    ctx: typer.Context,
    fact_id: FactId,
    tenant: Tenant,
    reason: Reason,
    domain: Domain = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Withdraw a fact for good: agents are not told it from now on, and no run brings it back.

    Example: `agent-memory facts retire f-01... --reason "the depot is gone" --tenant acme`
    """
    session = session_of(ctx, env, output)
    where = _domain_of(session, tenant, fact_id, domain)
    doors, now = _doors(session, tenant), session.deployment.now()
    _answer(session, fact_id, where, fact_review.retire(tenant, where, fact_id, reason=reason, doors=doors, now=now))


@app.command()
def pin(
    ctx: typer.Context,
    fact_id: FactId,
    tenant: Tenant,
    unpin: Annotated[bool, typer.Option("--unpin", help="Let it expire again.")] = False,
    domain: Domain = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Keep a fact however long nobody confirms it. --unpin takes that back.

    Example: `agent-memory facts pin f-01... --tenant acme`
    """
    session = session_of(ctx, env, output)
    where = _domain_of(session, tenant, fact_id, domain)
    doors, now = _doors(session, tenant), session.deployment.now()
    _answer(session, fact_id, where, fact_review.pin(tenant, where, fact_id, pinned=not unpin, doors=doors, now=now))


def _domains(session: Session, tenant: str, domain: str | None) -> list[str]:
    return [label(domain, "--domain")] if domain else session.tenant(tenant).facts.domains()


def _domain_of(session: Session, tenant: str, fact_id: str, domain: str | None) -> str:
    """The domain in which the fact stands; ids alone don't say."""
    if not FACT_ID.fullmatch(fact_id):
        raise RefusedInputError("FACT_ID", "must be f- and 32 hex digits, as facts list prints it")
    keys = [(name, fact_id) for name in _domains(session, tenant, domain)]
    found = session.tenant(tenant).facts.get_many(keys)
    if not found:
        raise NotFoundError(f"no fact {fact_id} {f'in domain {domain}' if domain else 'of this tenant'}")
    return found[0].fact.domain


def _doors(session: Session, tenant: str) -> ReviewDoors:
    services, own = session.deployment.services, session.tenant(tenant)
    return ReviewDoors(own.facts, own.documents, services.dirty, services.rest)


def _answer(session: Session, fact_id: str, domain: str, word: Reviewed) -> None:
    session.screen.answer({"fact_id": fact_id, "domain": domain, "result": word})
    if word == "not_found":
        raise NotFoundError(f"{fact_id} was removed meanwhile")
    if word not in GOOD:
        raise FailedError(f"{fact_id} {DEEDS[word]}")
    session.screen.text(f"{fact_id} {DEEDS[word]}")
    if word in ("retired", "settled"):
        session.screen.notice("Bootstrap follows at once, the Knowledge Base with the next ingestion.")


def _listed(one: FoundFact) -> dict[str, object]:
    fact = one.fact.model_dump(mode="json", exclude={"observations", "history"})
    return {**fact, "runs": one.runs, "searchable": not one.waits and one.fact.state in BELIEVED}


def _record(session: Session, fact: Fact, rivals: list[FoundFact]) -> dict[str, object]:
    settings = session.deployment.services.settings
    expiry = fact.due_at(settings.semantic_ttl_days)
    held = fact.model_dump(mode="json", exclude={"observations": {"__all__": {"vector"}}})
    observations, history = held.pop("observations"), held.pop("history")
    return {
        **held,
        "contested_by": ", ".join(fact.contested_by),
        "expires_at": expiry,
        "runs": len(fact.runs),
        "runs_needed": settings.confirmation_threshold,
        "users": len(fact.users),
        "rivals": [{"fact_id": r.fact.fact_id, "content": r.fact.content, "runs": r.runs} for r in rivals],
        "observations": observations,
        "history": history,
    }


def _show_evidence(session: Session, fact: Fact, rivals: list[FoundFact]) -> None:
    said = [
        (when(o.observed_at), f"{o.agent_id}/{o.run_id}", o.user_ref, o.source, f"{o.confidence:.2f}", o.content, quote)
        for o in sorted(fact.observations, key=lambda o: o.observed_at)
        for quote in [o.evidence]
    ]
    columns = ("observed", "run", "user", "said by", "confidence", "wording", "quote")
    session.screen.table(columns, said, title="what runs said for it")
    changes = [
        (when(c.at), c.state, c.reason, f"{c.agent_id}/{c.run_id}" if c.run_id else "", c.other) for c in fact.history
    ]
    session.screen.table(("when", "state", "reason", "run", "other fact"), changes, title="how its state changed")
    if rivals:
        rows = [(r.fact.fact_id, r.fact.state, r.runs, r.fact.content) for r in rivals]
        session.screen.table(("fact", "state", "runs", "content"), rows, title="what contradicts it")
        session.screen.notice(
            f"Settle it: agent-memory facts settle {fact.fact_id} --keep <fact> --reason <why> -t {fact.tenant_id}"
        )
