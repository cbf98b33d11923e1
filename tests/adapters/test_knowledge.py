"""The Knowledge Base adapter: what it asks for, and what it does not believe of the answer."""

from typing import Any

import pytest
from agent_memory.aws.knowledge import BedrockKnowledge, retrieval_filter
from agent_memory.domain.errors import AccessRefusedError, ModelBusyError, StoreBusyError
from agent_memory.domain.knowledge import KnowledgeQuery
from botocore.exceptions import ClientError

FACT = "f-" + "0a" * 16
OTHER = "f-" + "0b" * 16


class Service:
    """Answers in turn what it was given, as a client of the SDK does. *asked*: what it was asked, in order."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**request: Any) -> object:
            self.asked.append(request)
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def knowledge(*answers: object) -> tuple[BedrockKnowledge, Service]:
    service = Service(*answers)
    ids = {"knowledge_base_id": "KBTEST0001", "data_source_id": "DSTEST0001", "bucket": "knowledge"}
    return BedrockKnowledge(agent=service, runtime=service, **ids), service


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Operation")  # type: ignore[typeddict-item]


def a_result(fact_id: str = FACT, *, uri: str | None = None, score: object = 0.8, **changes: object) -> dict[str, Any]:
    held = {"tenant_id": "northwind", "domain": "depots", "fact_id": fact_id, "scope": "domain", "user_ref": ""}
    held |= {"confidence": 0.9, **changes}
    key = f"semantic-memory/{held['tenant_id']}/{held['domain']}/{held['fact_id']}.txt"
    return {
        "content": {"type": "TEXT", "text": "Depot K closes at 16:00."},
        "location": {"type": "S3", "s3Location": {"uri": uri or f"s3://knowledge/{key}"}},
        "metadata": {name: value for name, value in held.items() if value is not None},
        "score": score,
    }


def ask(*results: dict[str, Any], **changes: object) -> Any:
    query = KnowledgeQuery.model_validate({"tenant_id": "northwind", "text": "depot hours", **changes})
    return knowledge({"retrievalResults": list(results)})[0].retrieve(query)


def leaves(asked: Any) -> list[tuple[str, str]]:
    if isinstance(asked, list):
        return [leaf for member in asked for leaf in leaves(member)]
    ((operator, held),) = asked.items()
    return leaves(held) if operator in ("andAll", "orAll") else [(held["key"], held["value"])]


@pytest.mark.parametrize("domain", [None, "depots"])
@pytest.mark.parametrize("user_ref", [None, "u-1"])
def test_every_question_is_bound_to_its_tenant_and_every_group_has_two_members(
    domain: str | None, user_ref: str | None
) -> None:
    asked = retrieval_filter(KnowledgeQuery(tenant_id="northwind", text="x", domain=domain, user_ref=user_ref))
    assert asked["andAll"][0] == {"equals": {"key": "tenant_id", "value": "northwind"}}
    assert all(len(group) >= 2 for member in asked["andAll"] for group in member.values() if isinstance(group, list))
    wanted = {("tenant_id", "northwind"), ("scope", "domain")}
    wanted |= {("domain", domain)} if domain else set()
    wanted |= {("user_ref", user_ref)} if user_ref else set()
    assert set(leaves(asked)) == wanted


def test_results_come_best_first_with_their_scope() -> None:
    found = ask(a_result(score=0.5), a_result(OTHER, score=0.9), limit=5)
    assert [(passage.fact_id, passage.score) for passage in found.found] == [(OTHER, 0.9), (FACT, 0.5)]
    assert (found.foreign, found.unreadable) == (0, 0)


@pytest.mark.parametrize(
    "result",
    [
        a_result(tenant_id="contoso"),
        a_result(uri=f"s3://knowledge/semantic-memory/contoso/depots/{FACT}.txt"),
        a_result(tenant_id="contoso", uri=f"s3://knowledge/semantic-memory/northwind/depots/{FACT}.txt"),
        a_result(domain="contracts"),
        a_result(scope="user", user_ref="u-2"),
    ],
)
def test_what_belongs_to_another_tenant_domain_or_user_is_dropped_and_counted(result: dict[str, Any]) -> None:
    found = ask(result, a_result(OTHER), domain="depots", user_ref="u-1")
    assert [passage.fact_id for passage in found.found] == [OTHER]
    assert found.foreign == 1


@pytest.mark.parametrize(
    "result",
    [
        a_result(tenant_id=None),
        a_result(domain=None),
        a_result(fact_id="rule-9"),
        a_result(scope=None),
        a_result(score=float("nan")),
        a_result(score=7.0),
        a_result(score=None),
        a_result(score=True),
        a_result() | {"content": {"type": "IMAGE"}},
        a_result() | {"metadata": None},
        a_result(uri="s3://elsewhere/semantic-memory/northwind/depots/x.txt"),
    ],
)
def test_a_result_without_a_sidecar_of_ours_or_with_an_impossible_score_is_dropped_and_counted(
    result: dict[str, Any],
) -> None:
    found = ask(result, a_result(OTHER))
    assert [passage.fact_id for passage in found.found] == [OTHER]
    assert found.unreadable == 1


def test_a_facts_user_sees_what_is_bound_to_them_and_nobody_else_does() -> None:
    mine = a_result(scope="user", user_ref="u-1")
    assert len(ask(mine, user_ref="u-1").found) == 1
    assert ask(mine).found == ()


def test_a_blank_question_is_not_asked() -> None:
    adapter, service = knowledge()
    assert adapter.retrieve(KnowledgeQuery(tenant_id="northwind", text=" ")).found == ()
    assert service.asked == []


@pytest.mark.parametrize(
    ("code", "error"), [("ThrottlingException", ModelBusyError), ("AccessDeniedException", AccessRefusedError)]
)
def test_a_refused_question_is_not_an_empty_answer(code: str, error: type[Exception]) -> None:
    adapter, _ = knowledge(refusal(code))
    with pytest.raises(error):
        adapter.retrieve(KnowledgeQuery(tenant_id="northwind", text="depot hours"))


def test_a_job_starts_or_has_to_wait_and_only_refusals_are_errors() -> None:
    adapter, service = knowledge(
        {"ingestionJob": {"ingestionJobId": "JOB0000001"}},
        refusal("ConflictException", 409),
        refusal("ThrottlingException", 429),
        refusal("ServiceQuotaExceededException", 402),
        refusal("AccessDeniedException", 403),
        refusal("InternalServerException", 500),
    )
    decisions = [adapter.start_job("t" * 40).decision for _ in range(4)]
    assert decisions == ["started", "busy", "throttled", "throttled"]
    assert service.asked[0]["clientToken"] == "t" * 40
    for error in (AccessRefusedError, StoreBusyError):
        with pytest.raises(error):
            adapter.start_job("t" * 40)


def test_documents_are_asked_about_ten_at_a_time_and_none_is_taken_for_another() -> None:
    def told(*keys: str) -> dict[str, Any]:
        details = [{"identifier": {"s3": {"uri": f"s3://knowledge/{key}"}}, "status": "INDEXED"} for key in keys]
        return {"documentDetails": details}

    keys = [f"semantic-memory/t/d/{i}.txt" for i in range(23)]
    adapter, service = knowledge(told(*keys[:10]), told(keys[19], keys[11], "foreign"), told())
    found = adapter.statuses(keys)
    assert [len(request["documentIdentifiers"]) for request in service.asked] == [10, 10, 3]
    assert {key for key, status in found.items() if status == "INDEXED"} == {*keys[:10], keys[11], keys[19]}
    assert found[keys[22]] == "NOT_FOUND"


def test_a_job_tells_its_state_and_how_many_documents_failed() -> None:
    statistics = {"numberOfDocumentsFailed": 5, "numberOfDocumentsScanned": 500}
    adapter, _ = knowledge(
        {"ingestionJob": {"status": "COMPLETE", "statistics": statistics}}, {"ingestionJob": {"status": "STARTING"}}
    )
    job = adapter.job("JOB0000001")
    assert (job.over, job.failed) == (True, 5)
    assert not adapter.job("JOB0000001").over
