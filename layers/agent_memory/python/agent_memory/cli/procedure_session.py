"""How the commands on procedures speak to the review function, and how they print what it says."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from agent_memory.cli.screen import Screen
from agent_memory.cli.session import FailedError, NotFoundError, Session

ProcedureId = Annotated[str, typer.Argument(help="Procedure id, as `procedures list` prints it.")]


def asked(session: Session, request: Mapping[str, object]) -> dict[str, object]:
    """The review function's answer to *request*."""
    with session.screen.working("asking the review function"):
        return session.deployment.reviews.ask({name: held for name, held in request.items() if held is not None})


def procedure_of(session: Session, tenant: str, procedure_id: str) -> dict[str, Any]:
    """One procedure with all its records; NotFoundError when the tenant has none of that id."""
    found = asked(session, {"action": "show", "tenant_id": tenant, "procedure_id": procedure_id})
    procedure = found.get("procedure")
    if not isinstance(procedure, dict):
        raise NotFoundError(f"no procedure {procedure_id} of this tenant: agent-memory procedures list -t {tenant}")
    return procedure


def decided(session: Session, request: Mapping[str, object]) -> None:
    """Ask for a decision, and print what became of it."""
    found = asked(session, request)
    session.screen.answer(found)
    procedure_id, decision = request["procedure_id"], found.get("decision")
    said = f"{procedure_id}: {found.get('next') or found.get('reason')}"
    if decision == "not_found":
        raise NotFoundError(said)
    if decision not in ("done", "unchanged"):
        raise FailedError(said)
    session.screen.text(said)
    held = found.get("procedure")
    if isinstance(held, Mapping):
        session.screen.notice(f"state {held.get('state')}, hash {held.get('steps_sha256')}")


def show_steps(screen: Screen, procedure: Mapping[str, Any]) -> None:
    """Print the steps as they are, numbered."""
    steps = [(number, step) for number, step in enumerate(procedure.get("steps") or (), 1)]
    screen.table(("", "step"), steps, title=str(procedure.get("title", "")))
    if procedure.get("language_unchecked"):
        screen.notice(
            "Doubtful words are looked for in English only, and these look like another language: that there is no "
            "warning says nothing here, so read every step."
        )


def percent(share: object) -> str:
    """A share as people read it; empty when there is none."""
    return f"{share:.0%}" if isinstance(share, int | float) else ""


def by_whom(change: Mapping[str, Any]) -> str:
    """Who made a change, and how that is known."""
    stated = ", as stated" if change.get("stated") else ""
    return f"{change.get('who')} ({change.get('kind')}{stated})"
