"""ingestion: believed facts become searchable in the Knowledge Base, withdrawn ones leave it."""

from typing import Any

from agent_memory import contract
from agent_memory.domain.ingestion import IngestionDoors, IngestionWork, TenantDoors, ingest
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    own, action = services(), str(event["action"])
    work = IngestionWork.model_validate(event["work"])
    doors = IngestionDoors(own.dirty, own.ingestion_desk, own.knowledge, _doors_of)
    step = ingest(action, work, doors, now=own.now())
    done, report = step.work, step.report
    if action in ("collect", "settle"):
        metrics.add_metric(name=contract.OLDEST_PENDING_FACT_SECONDS, unit="Seconds", value=report.oldest_seconds)
        metrics.add_metric(name="FactsIngested", unit="Count", value=report.ingested)
    metrics.add_metric(name="IngestionJobsStarted", unit="Count", value=int(done.decision == "started"))
    failed = max(report.failed, done.failed_documents) + report.skipped if action == "settle" else 0
    metrics.add_metric(name=contract.INGESTION_DOCUMENTS_FAILED, unit="Count", value=failed)
    metrics.add_metric(name=contract.INGESTION_JOBS_FAILED, unit="Count", value=int(done.decision == "failed"))
    logger.info("ingestion", extra={"action": action, **done.model_dump(), **report.model_dump()})
    return done.model_dump()


def _doors_of(tenant_id: str) -> TenantDoors:
    tenant = services().tenant(tenant_id)
    return TenantDoors(tenant.facts, tenant.documents)
