"""Time limits of the functions against what the rules and adapters inside them may take."""

from agent_memory.aws.chat_model import ATTEMPTS, CONNECT_SECONDS, READ_SECONDS
from agent_memory.domain.distillation_prompt import MAX_SLICES
from agent_memory.domain.distillers import ANSWER_BY, NOTES_BY, PARALLEL_SLICES
from agent_memory.domain.recall_request import MAX_BUDGET_MS
from support.deployments import functions


def test_the_longest_recall_that_may_be_asked_for_ends_before_its_function() -> None:
    assert functions()["bootstrap"]["Timeout"] * 1000 >= MAX_BUDGET_MS + 2_000


def test_a_long_transcript_can_be_distilled_within_the_time_of_its_function() -> None:
    seconds = functions()["consolidation"]["Timeout"]
    rounds = -(-MAX_SLICES // PARALLEL_SLICES)
    assert seconds * NOTES_BY >= rounds * READ_SECONDS
    # The slowest answer there can be, both attempts of it, still comes in time.
    assert seconds * (ANSWER_BY - NOTES_BY) >= ATTEMPTS * (CONNECT_SECONDS + READ_SECONDS)
    assert seconds * (1 - ANSWER_BY) >= 60
