"""record_reads: which records of AgentCore an agent's side was shown is kept for the night, which counts it."""

from typing import Any

from agent_memory.contract import READS_REFUSED
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.intake import event_of
from agent_memory.domain.record_reads import report_of
from agent_memory.wiring import services
from agent_memory.wiring_agentcore import AgentCoreServices
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

logger, metrics = Logger(), Metrics()
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event=event, record_handler=keep, processor=processor, context=context)


def keep(record: SQSRecord) -> None:
    own = AgentCoreServices(services())
    try:
        report = report_of(event_of(record.body), own.memories, now=own.own.now())
    except RefusedInputError as error:
        metrics.add_metric(name=READS_REFUSED, unit="Count", value=1)
        logger.warning("reads refused", extra={"field": error.field, "rule": error.rule})
        return
    if report is None:
        return
    ids = {"tenant_id": report.tenant_id, "memory_id": report.memory_id, "by": report.by}
    try:
        written = own.logs.report(report)
    except Exception as error:
        logger.warning("reads not recorded yet", extra={**ids, "error": type(error).__name__})
        raise
    logger.info("reads recorded", extra={**ids, "records": len(report.record_ids), "decision": written})
