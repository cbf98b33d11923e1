"""lifecycle_report: what a night did, as JSON and as text in the archive bucket, and as metrics."""

from typing import Any

from agent_memory.domain.lifecycle import NightTicket
from agent_memory.domain.night_report import measured, notes_on, write_report
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    own, ticket = services(), NightTicket.model_validate(event["ticket"])
    notes = notes_on(model=own.settings.summarise_model_id, guardrail=own.settings.guardrail_id)
    report = write_report(ticket, own.night_files, notes=notes, now=own.now())
    for name, value in measured(report).items():
        metrics.add_metric(name=name, unit="None" if name == "QualityDelta" else "Count", value=value)
    ids = {"night": report.run.run_id, "ended": report.ended, "quality": report.quality}
    logger.info("night reported", extra={**ids, "totals": report.totals, "unfinished": report.unfinished})
    return ticket.decided("reported").model_dump(mode="json")
