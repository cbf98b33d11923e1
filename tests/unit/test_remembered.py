"""Facts that an agent asked to be remembered: beside the run's own record, through the same gates."""

import pytest
from agent_memory.domain.distillery import Distillery
from agent_memory.domain.models import Distillation, DistilledBy, Outcome
from support.conversations import Said, ScriptedModel, a_record, a_run_that_said

QUOTE = "Gate 2 opens at six."
FACT = {"content": "Gate 2 opens at six.", "evidence": QUOTE, "confidence": 0.9}
OTHER = {"content": "Gate 3 stays shut.", "evidence": "Gate 3 stays shut.", "confidence": 0.9, "scope": "domain"}


def said(**changes: object) -> ScriptedModel:
    return ScriptedModel(Said(arguments=a_record(**changes), stop_reason="tool_use"))


def distilled(*facts: object, model: ScriptedModel | None = None, **run: object) -> Distillation:
    given = {"outcome": Outcome.COMPLETED, "artifacts": {"facts": list(facts)}, **run}
    claim = a_run_that_said(QUOTE, "Gate 3 stays shut.", **given)
    return Distillery(model, max_tokens=500, min_confidence=0.6).distil(claim)


def test_a_remembered_fact_joins_what_the_model_found() -> None:
    model = said(facts=[OTHER])
    result = distilled(FACT, model=model)
    assert result.distilled_by is DistilledBy.MODEL
    assert [fact.content for fact in result.artifacts.facts] == [OTHER["content"], FACT["content"]]
    assert result.artifacts.task_summary == a_record()["task_summary"]
    assert result.counts["facts_remembered"] == 1


def test_what_the_model_found_by_itself_is_not_remembered_twice() -> None:
    result = distilled({**FACT, "content": "gate 2  opens at SIX."}, model=said(facts=[FACT]))
    assert len(result.artifacts.facts) == 1


def test_without_a_model_the_run_is_recorded_from_its_messages_and_the_fact_is_kept() -> None:
    result = distilled(FACT)
    assert (result.distilled_by, result.artifacts.outcome) == (DistilledBy.EXTRACTIVE, Outcome.COMPLETED)
    assert [fact.content for fact in result.artifacts.facts] == [FACT["content"]]
    assert result.artifacts.task_summary


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.PARTIAL, Outcome.UNKNOWN])
@pytest.mark.parametrize("with_model", [True, False])
def test_a_run_that_was_not_completed_teaches_nothing_this_way_either(outcome: object, with_model: bool) -> None:
    model = said(outcome="PARTIAL") if with_model else None
    result = distilled(FACT, model=model, outcome=outcome)
    assert result.artifacts.facts == ()
    assert result.counts["facts_withheld"] == 1


def test_a_run_that_the_model_is_unsure_of_teaches_nothing() -> None:
    assert distilled(FACT, model=said(confidence=0.4)).artifacts.facts == ()


@pytest.mark.parametrize(
    "fact",
    [
        {**FACT, "evidence": "Gate 2 opens at seven."},
        {"content": "Gate 9 is open.", "confidence": 1},
        {**FACT, "confidence": "certain"},
        {**FACT, "content": ""},
        {**FACT, "content": None},
        "Gate 9 is open.",
        None,
    ],
)
def test_a_fact_without_evidence_or_form_is_not_believed(fact: object) -> None:
    result = distilled(fact)
    assert [held for held in result.artifacts.facts if held.confidence >= 0.7] == []


@pytest.mark.parametrize("artifacts", [{"facts": []}, {"facts": "[]"}])
def test_to_have_remembered_nothing_changes_nothing(artifacts: dict[str, object]) -> None:
    assert distilled(artifacts=artifacts).artifacts == distilled(artifacts=None).artifacts
