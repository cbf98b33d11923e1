"""review_procedure: a person, or an agent that the deployment names, decides on what agents are told to follow."""

from typing import Any

from agent_memory.domain.callers import authorised
from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.procedure_review import ReviewDoors, Reviewed, ReviewRules, review
from agent_memory.domain.review_request import review_request
from agent_memory.domain.reviewers import reviewer_of
from agent_memory.domain.url_answers import answered, metric_of, refusal
from agent_memory.wiring import services
from aws_lambda_powertools import Logger, Metrics

logger, metrics = Logger(), Metrics()


@metrics.log_metrics
def handler(event: Any, context: object) -> dict[str, Any]:
    try:
        answer = _reviewed(event).model_dump(mode="json", exclude_none=True)
    except RefusedInputError as refused:
        metrics.add_metric(name=metric_of(refused, "ReviewsRefused"), unit="Count", value=1)
        answer = refusal(refused)
    return answered(event, answer)


def _reviewed(event: object) -> Reviewed:
    own = services()
    call = authorised(event, own.caller_auth, own.known_caller, to_review=True)
    asked = review_request(call.request)
    reviewer = reviewer_of(call, own.settings.json_setting("procedure_reviewer_agents"), own.caller_auth)
    procedures = own.tenant(asked.tenant_id).procedures
    doors = ReviewDoors(procedures, own.scrubbed, lambda: own.embedder, own.publish, own.rest)
    rules = ReviewRules(own.procedure_rules, own.settings.environment)
    found = review(asked, reviewer, doors, rules, now=own.now())
    metrics.add_metric(name="ProceduresReviewed", unit="Count", value=int(found.decision == "done"))
    ids = {"tenant_id": asked.tenant_id, "procedure_id": asked.procedure_id, "action": asked.action}
    logger.info("procedure reviewed", extra={**ids, "by": reviewer.kind, **found.words()})
    return found
