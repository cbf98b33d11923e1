"""Tickets hold pointers; what they point to must be of the very run that they name."""

from agent_memory.domain.errors import TranscriptError
from agent_memory.domain.models import Claim, RunTicket
from agent_memory.domain.ports import Claims


def claim_for(ticket: RunTicket, claims: Claims) -> Claim:
    """Return the claim of a ticket. Raises TranscriptError: missing, unreadable, or of another run."""
    claim = claims.get_claim(ticket.claim_key)
    if (claim.tenant_id, claim.agent_id, claim.run_id) != (ticket.tenant_id, ticket.agent_id, ticket.run_id):
        raise TranscriptError("claim_of_another")
    return claim
