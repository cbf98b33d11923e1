"""Faults of model answers (mo-*), and what their numbers and dates may not do (nd-h03, ec-h05)."""

import json
import math
from pathlib import Path

import pytest
from agent_memory.domain.models import Claim, Outcome
from support.conversations import Said, ScriptedModel, a_record, a_run_that_said, distilled

TOLD = (
    "Berth 4 is free on Mondays.",
    "The crane lifts 12 tonnes.",
    "Pilot Ines speaks Polish.",
    "Berth 9 has no water.",
    "The tide table is at https://port.example/tides//today for all.",
    "The user prefers ferries to buses.",
)


def a_fact(content: str, **changes: object) -> dict[str, object]:
    """A fact as a model writes it, proven by what the user said."""
    return {"content": content, "confidence": 0.9, "evidence": content, **changes}


def a_told_run(**changes: object) -> Claim:
    return a_run_that_said(*TOLD, outcome=Outcome.COMPLETED, **changes)


def as_json(*facts: object) -> str:
    return json.dumps(a_record(facts=list(facts)))


@pytest.mark.case("mo-h01")
def test_a_fence_and_chatter_after_it_cost_neither_the_fact_nor_a_second_call() -> None:
    model = ScriptedModel(
        Said(text=f"```json\n{as_json(a_fact(TOLD[0]))}\n```\n\nI skipped the weather, it won't last.")
    )
    result = distilled(model, a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[0]]
    assert "weather" not in result.model_dump_json()
    assert len(model.texts) == 1


@pytest.mark.case("mo-h02")
def test_a_fence_inside_a_value_stays_where_it_is() -> None:
    procedure = {"title": "Reset the crane", "steps": ["Run:\n```sh\ncrane reset\n```", "Wait for the green light."]}
    model = ScriptedModel(Said(text=json.dumps(a_record(procedure=procedure))))
    found = distilled(model, a_told_run(task_type="crane-reset")).artifacts.procedure
    assert found is not None
    assert len(found.steps) == 2
    assert "crane reset" in found.steps[0]


@pytest.mark.case("mo-h03")
def test_a_cut_answer_is_asked_for_once_more_with_more_room() -> None:
    whole = as_json(*map(a_fact, TOLD[:4]))
    cut = whole[: whole.index("Berth 9") + 12]
    model = ScriptedModel(Said(text=cut, stop_reason="max_tokens"), Said(text=whole))
    result = distilled(model, a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == list(TOLD[:4])
    assert model.max_tokens == [1000, 2000]
    assert result.counts["answers_truncated"] == 1


@pytest.mark.case("mo-h03")
@pytest.mark.parametrize("stop_reason", ["max_tokens", "end_turn"])
def test_the_complete_entries_of_an_answer_cut_twice_count_and_the_half_one_does_not(stop_reason: str) -> None:
    whole = as_json(*map(a_fact, TOLD[:4]))
    model = ScriptedModel(Said(text=whole[: whole.index("Berth 9") + 12], stop_reason=stop_reason))
    result = distilled(model, a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == list(TOLD[:3])
    assert "Berth 9" not in " ".join(fact.content for fact in result.artifacts.facts)
    assert len(model.texts) == 2
    assert result.counts["answers_truncated"] == 2


@pytest.mark.case("mo-h03")
def test_the_last_entry_of_tool_arguments_that_were_cut_is_not_believed() -> None:
    arguments = a_record(facts=[a_fact(TOLD[0]), a_fact("The crane lifts 1", evidence=TOLD[1])])
    result = distilled(ScriptedModel(Said(arguments=arguments, stop_reason="max_tokens")), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[0]]


@pytest.mark.case("mo-h04")
def test_braces_in_prose_are_not_the_answer() -> None:
    text = (
        f"From {{the harbour talk}} and the set {{X, Y}} I take: {as_json(a_fact(TOLD[0]))} Ask if {{more}} is needed."
    )
    result = distilled(ScriptedModel(Said(text=text)), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[0]]


@pytest.mark.case("mo-h04")
def test_an_example_of_another_shape_before_the_answer_is_passed_over() -> None:
    text = f'Like {{"colour": "red"}} and ["a"], the answer is {as_json(a_fact(TOLD[0]))} or {as_json(a_fact(TOLD[1]))}'
    result = distilled(ScriptedModel(Said(text=text)), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[0]]


@pytest.mark.case("mo-h05")
def test_a_list_that_was_encoded_twice_is_a_list() -> None:
    arguments = a_record(facts=json.dumps([a_fact(TOLD[0]), a_fact(TOLD[1])]), key_findings='["one finding"]')
    result = distilled(ScriptedModel(Said(arguments=arguments, stop_reason="tool_use")), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == list(TOLD[:2])
    assert result.artifacts.key_findings == ("one finding",)


@pytest.mark.case("mo-h05")
def test_all_arguments_as_one_json_text_are_an_object() -> None:
    arguments = as_json(a_fact(TOLD[0]))
    result = distilled(ScriptedModel(Said(arguments=arguments, stop_reason="tool_use")), a_told_run())
    assert len(result.artifacts.facts) == 1


@pytest.mark.case("mo-h06")
def test_python_literals_are_read_and_never_run() -> None:
    text = "{'summary': 'The skipper\\'s berth is \"reserved\"', 'outcome': 'SUCCESS', 'facts': None, 'x': True,}"
    result = distilled(ScriptedModel(Said(text=text)), a_run_that_said("Reserve a berth."))
    assert result.artifacts.task_summary == 'The skipper\'s berth is "reserved"'
    assert result.artifacts.outcome is Outcome.COMPLETED
    code = "{'summary': __import__('os').getcwd(), 'outcome': 'FAILED'}"
    assert Path.cwd().name not in distilled(ScriptedModel(Said(text=code))).model_dump_json()


@pytest.mark.case("mo-h07")
@pytest.mark.parametrize(
    ("written", "read", "coerced"),
    [
        ("90%", 0.9, 0),
        ("90 %", 0.9, 0),
        ("0.8", 0.8, 0),
        (85, 0.85, 0),
        (1, 1.0, 0),
        ("high", 0.0, 1),
        (1.7, 0.0, 1),
        (-0.2, 0.0, 1),
        (101, 0.0, 1),
        ("140%", 0.0, 1),
        (True, 0.0, 1),
        (None, 0.0, 1),
        ({"value": 0.6}, 0.0, 1),
        ([0.6], 0.0, 1),
        (10**400, 0.0, 1),
    ],
)
def test_a_confidence_in_costume_is_read_or_becomes_0_and_is_counted(
    written: object, read: float, coerced: int
) -> None:
    arguments = a_record(facts=[a_fact(TOLD[0], confidence=written)])
    result = distilled(ScriptedModel(Said(arguments=arguments)), a_told_run())
    assert [fact.confidence for fact in result.artifacts.facts] == [read]
    assert result.counts.get("confidences_coerced", 0) == coerced


@pytest.mark.case("mo-h08")
def test_bad_entries_are_rejected_one_by_one_with_their_reasons() -> None:
    facts = [None, {"confidence": 0.9}, a_fact(""), {"text": ["a", "b"], "confidence": 0.4}, a_fact(TOLD[1])]
    result = distilled(ScriptedModel(Said(arguments=a_record(facts=facts))), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[1]]
    reasons = {name: n for name, n in result.counts.items() if name.startswith("facts_rejected")}
    assert reasons == {
        "facts_rejected": 4,
        "facts_rejected_null": 1,
        "facts_rejected_no_text": 1,
        "facts_rejected_empty": 1,
        "facts_rejected_text_not_a_string": 1,
    }


@pytest.mark.case("mo-h08")
def test_a_bare_sentence_is_a_fact_without_confidence_and_proves_itself() -> None:
    result = distilled(ScriptedModel(Said(arguments=a_record(facts=[TOLD[2], "Made up."]))), a_told_run())
    assert [(fact.content, fact.confidence) for fact in result.artifacts.facts] == [(TOLD[2], 0.0)]
    assert result.counts["facts_without_evidence"] == 1


@pytest.mark.case("mo-h09")
def test_a_bare_list_is_the_list_of_facts_whatever_its_texts_are_called() -> None:
    facts = [
        {name: TOLD[i], "confidence": 0.8, "evidence": TOLD[i]} for i, name in enumerate(("fact", "text", "statement"))
    ]
    result = distilled(ScriptedModel(Said(text=json.dumps(facts))), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == list(TOLD[:3])
    assert result.artifacts.task_summary


@pytest.mark.case("mo-h10")
@pytest.mark.parametrize("tags", [("<think>", "</think>"), ("", "</think>"), ("<reasoning>", "</reasoning>")])
def test_a_draft_inside_reasoning_is_not_the_answer(tags: tuple[str, str]) -> None:
    draft = as_json(a_fact("DRAFT the user prefers buses", evidence=TOLD[5]))
    text = f"{tags[0]}Perhaps {draft}, no, wrong.{tags[1]}\n{as_json(a_fact(TOLD[5]))}"
    result = distilled(ScriptedModel(Said(text=text)), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[5]]
    assert "DRAFT" not in result.model_dump_json()


@pytest.mark.case("mo-h11")
def test_trailing_commas_comments_and_curly_quotes_are_mended_and_addresses_stay_whole() -> None:
    text = f"""{{
      // only what lasts
      "task_summary": "Harbour notes", "confidence": 0.9, /* quite sure */
      "facts": [
        {{"text": "{TOLD[4]}", "evidence": "{TOLD[4]}", "confidence": 0.8,}},
        {{“text”: “{TOLD[0]}”, “evidence”: “{TOLD[0]}”, “confidence”: 0.6}},
      ],
    }}"""
    result = distilled(ScriptedModel(Said(text=text)), a_told_run())
    assert [fact.content for fact in result.artifacts.facts] == [TOLD[4], TOLD[0]]
    assert result.counts["answers_repaired"] == 1


@pytest.mark.case("nd-h03")
def test_not_a_number_and_infinity_never_get_through() -> None:
    facts = ",".join(
        f'{{"text": "{TOLD[i]}", "evidence": "{TOLD[i]}", "confidence": {n}}}'
        for i, n in enumerate(("NaN", "Infinity", "1e400", "-Infinity"))
    )
    result = distilled(
        ScriptedModel(Said(text=f'{{"task_summary": "x", "confidence": 0.9, "facts": [{facts}]}}')), a_told_run()
    )
    assert [fact.confidence for fact in result.artifacts.facts] == [0.0] * 4
    assert math.isfinite(result.artifacts.confidence)
    json.loads(result.model_dump_json(), parse_constant=lambda name: pytest.fail(name))


@pytest.mark.case("ec-h05")
@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2027-01-31", 1801440000),
        ("2027-01-31T10:00:00+02:00", 1801382400),
        ("null", None),
        ("2026-02-30", None),
        ("next Friday", None),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        (20270131, None),
        ("20270131", None),
    ],
)
def test_what_is_no_date_is_none_and_costs_no_fact(written: object, day: int | None) -> None:
    result = distilled(
        ScriptedModel(Said(arguments=a_record(facts=[a_fact(TOLD[0], valid_until=written)]))), a_told_run()
    )
    (fact,) = result.artifacts.facts
    if day is None:
        assert fact.valid_until is None or fact.valid_until > 253_402_000_000
    else:
        assert fact.valid_until is not None
        assert day - 86_400 <= fact.valid_until <= day
