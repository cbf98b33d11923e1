"""accept_run: run-ended events from the intake queue become runs at work. A bad message never holds up its batch."""

from typing import Any

from agent_memory.domain.acceptance import METRICS, Doors, accept
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import RunIds, run_ids
from agent_memory.domain.intake import event_of, last_try, refusal
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

logger, metrics = Logger(), Metrics()
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event=event, record_handler=take, processor=processor, context=context)


def take(record: SQSRecord) -> None:
    try:
        event = event_of(record.body)
        _accept(event, run_ids(event), last_try(record.attributes.approximate_receive_count))
    except RefusedInputError as error:
        services().refused.put(refusal(error, record.body))
        metrics.add_metric(name="RunsRefused", unit="Count", value=1)
        logger.warning("event refused", extra={"field": error.field, "rule": error.rule})
    except Exception as error:
        logger.warning("run not taken in yet", extra={"message_id": record.message_id, "error": type(error).__name__})
        raise


def _accept(event: Any, ids: RunIds, last: bool) -> None:
    own, tenant = services(), services().tenant(ids.tenant_id)
    own.registry.note(ids.tenant_id, now=own.now())
    doors = Doors(tenant.ledger, tenant.claims, own.machine, own.user_refs)
    decided = accept(event, ids, doors, own.retention_rules, now=own.now(), last=last)
    metrics.add_metric(name=METRICS[decided.decision], unit="Count", value=1)
    logger.info("run taken in", extra={**ids.model_dump(), **decided.model_dump()})
