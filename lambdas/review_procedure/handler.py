"""review_procedure: a person, or an agent that the deployment names, decides on what agents are told to follow."""

from typing import Any

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.procedure_review import ReviewDoors, Reviewed, ReviewRules, review
from agent_memory.domain.review_answers import over_http, refusal
from agent_memory.domain.review_request import review_request
from agent_memory.domain.reviewers import call_of, is_http, reviewer_of
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    try:
        answer = _reviewed(event).model_dump(mode="json", exclude_none=True)
    except RefusedInputError as refused:
        metrics.add_metric(name="ReviewsRefused", unit="Count", value=1)
        answer = refusal(refused)
    return over_http(answer) if is_http(event) else answer


def _reviewed(event: object) -> Reviewed:
    own = services()
    call = call_of(event, caller_auth=own.settings.caller_auth)
    asked = review_request(call.body)
    reviewer = reviewer_of(call, asked.tenant_id, own.settings.json_setting("procedure_reviewer_agents"))
    procedures = own.tenant(asked.tenant_id).procedures
    doors = ReviewDoors(procedures, own.scrubbed, lambda: own.embedder, own.publish, own.rest)
    rules = ReviewRules(own.procedure_rules, own.settings.environment)
    found = review(asked, reviewer, doors, rules, now=own.now())
    metrics.add_metric(name="ProceduresReviewed", unit="Count", value=int(found.decision == "done"))
    ids = {"tenant_id": asked.tenant_id, "procedure_id": asked.procedure_id, "action": asked.action}
    logger.info("procedure reviewed", extra={**ids, "by": reviewer.kind, **found.words()})
    return found
