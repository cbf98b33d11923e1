"""record_retrieval: what bootstraps returned is kept, and counts as one access per memory and context."""

from typing import Any

from agent_memory.domain.intake import event_of
from agent_memory.domain.retrievals import retrieval_of
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

logger, metrics = Logger(), Metrics()
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event=event, record_handler=keep, processor=processor, context=context)


def keep(record: SQSRecord) -> None:
    own = services()
    ids: dict[str, str] = {}
    try:
        found = retrieval_of(event_of(record.body), now=own.now(), context_days=own.settings.context_days)
        ids = {"tenant_id": found.tenant_id, "context_id": found.context_id}
        written = own.tenant(found.tenant_id).ledger.record_retrieval(
            context_id=found.context_id, items=found.items, at=found.at, expires_at=found.expires_at
        )
    except Exception as error:
        logger.warning("retrieval not recorded yet", extra={**ids, "error": type(error).__name__})
        raise
    metrics.add_metric(name="RetrievalsRecorded", unit="Count", value=int(written == "stored"))
    logger.info("retrieval recorded", extra={**ids, "decision": written, "items": len(found.items)})
