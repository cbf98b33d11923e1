"""Hands over one finished run: its event on the bus, and what is too large for it beside that."""

import json
from collections.abc import Mapping

from agent_memory.client_answers import Handover
from agent_memory.contract import RUN_ENDED
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.keys import identifier, tenant_identifier
from agent_memory.domain.outgoing import as_json

# A put of events must stay under 1 MB in all; the accepted event travels through SQS as well.
INLINE_BYTES = 200_000
DETAIL_BYTES = 900_000


def hand_over(deployment: Deployment, detail: Mapping[str, object]) -> Handover:
    """Put one run-ended detail (docs/events) on the bus; a transcript that is too large goes to S3 first.

    Example: `hand_over(Deployment("dev"), json.load(open("run.json")))`
    """
    tenant_id = tenant_identifier(detail.get("tenant_id"))
    agent_id = identifier(detail.get("agent_id"), "agent_id")
    run_id = identifier(detail.get("run_id"), "run_id")
    text = as_text(detail)
    uri = None
    if len(text.encode()) > INLINE_BYTES:
        transcript = detail.get("transcript")
        if isinstance(transcript, Mapping) and "messages" in transcript:
            uri = deployment.uploads(tenant_id).put(agent_id, run_id, as_text(transcript))
            text = as_text({**detail, "transcript": {"s3_uri": uri}})
    if len(text.encode()) > DETAIL_BYTES:
        raise RefusedInputError("detail", f"must be at most {DETAIL_BYTES} bytes beside its transcript")
    event_id = deployment.events(tenant_id).put(RUN_ENDED, text)
    return Handover(run_id=run_id, sent=True, event_id=event_id, transcript_uri=uri)


def as_text(value: object) -> str:
    """What travels and what waits in the spool: JSON, whatever objects the program put in."""
    return json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
