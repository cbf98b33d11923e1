"""`agent-memory callers`: which principals speak for which tenants, where callerAuth=principal."""

from typing import Annotated

import typer

from agent_memory.cli.session import Env, FailedError, NotFoundError, OutputOption, Session, session_of
from agent_memory.domain.callers import Caller, caller, principal_of

app = typer.Typer(
    help="Which principals speak for which tenants, and who reviews. Example: `agent-memory callers list`.",
    no_args_is_help=True,
)
Arn = Annotated[str, typer.Argument(help="ARN of a role or user; a session of a role means the role.")]
Tenants = Annotated[list[str] | None, typer.Option("--tenant", "-t", help="A tenant; may be given several times.")]


@app.command("list")
def list_callers(ctx: typer.Context, env: Env = None, output: OutputOption = None) -> None:
    """List the principals that may speak for tenants.

    Example: `agent-memory callers list --env prod`
    """
    session = session_of(ctx, env, output)
    rows = session.deployment.services.callers.all()
    session.screen.answer([row.model_dump(mode="json") for row in rows])
    cells = [(row.principal, ", ".join(row.tenants), "yes" if row.reviewer else "no") for row in rows]
    session.screen.table(("principal", "tenants", "reviews"), cells)
    if not session.deployment.callers_are_proven:
        session.screen.notice("This deployment trusts its callers (callerAuth=platform): it does not ask these rows.")


@app.command()
def allow(
    ctx: typer.Context,
    arn: Arn,
    tenant: Tenants = None,
    reviewer: Annotated[bool | None, typer.Option(help="Whether it may decide on procedures.")] = None,
    env: Env = None,
    output: OutputOption = None,
) -> None:
    """Let a principal speak for tenants, beside those it speaks for already. It counts at once.

    Example: `agent-memory callers allow arn:aws:iam::123456789012:role/support-desk --tenant acme`
    """
    session = session_of(ctx, env, output)
    before = session.deployment.services.callers.known(principal_of(arn))
    known = before or Caller(principal=principal_of(arn))
    reviews = known.reviewer if reviewer is None else reviewer
    _write(session, caller(arn, [*known.tenants, *(tenant or ())], reviewer=reviews), before)


@app.command()
def revoke(ctx: typer.Context, arn: Arn, tenant: Tenants = None, env: Env = None, output: OutputOption = None) -> None:
    """Take tenants back from a principal; without --tenant, everything. It counts within a minute.

    Example: `agent-memory callers revoke arn:aws:iam::123456789012:role/support-desk --tenant acme`
    """
    session = session_of(ctx, env, output)
    callers, principal = session.deployment.services.callers, principal_of(arn)
    before = callers.known(principal)
    if before is None:
        raise NotFoundError(f"no row for {principal}: agent-memory callers list shows those there are")
    left = [one for one in before.tenants if one not in (tenant or before.tenants)]
    if left:
        _write(session, caller(arn, left, reviewer=before.reviewer), before)
        return
    callers.revoke(principal)
    session.screen.answer({"principal": principal, "tenants": [], "reviewer": False})
    session.screen.text(f"{principal} speaks for no tenant any more, within a minute")


def _write(session: Session, row: Caller, before: Caller | None) -> None:
    deployment = session.deployment
    if not deployment.services.callers.allow(row, before=before, now=deployment.now()):
        raise FailedError(f"the row of {row.principal} was changed by somebody else meanwhile: look, and try again")
    session.screen.answer(row.model_dump(mode="json"))
    tenants = ", ".join(row.tenants) or "no tenant"
    session.screen.text(f"{row.principal} speaks for {tenants}" + (" and reviews" if row.reviewer else ""))
