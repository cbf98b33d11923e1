"""An episode is bounded in every part before anything is written."""

from collections import Counter

import pytest
from agent_memory.domain.decay import DecayRules
from agent_memory.domain.episodes import MAX_DIGEST, MAX_TASK, StoreRules, compose, compose_digest
from agent_memory.domain.errors import ModelAnswerError, ModelBusyError
from agent_memory.domain.models import Distillation, Episode, Outcome
from agent_memory.domain.retention import DAY_SECONDS, RetentionRules
from support.builders import NOW, a_claim, a_distillation, some_artifacts
from support.embedders import HashedEmbedder

RULES = StoreRules(DecayRules(), RetentionRules())


def composed(
    distillation: Distillation, embedder: HashedEmbedder | None = None, **claim: object
) -> tuple[Episode, Counter[str]]:
    counts: Counter[str] = Counter()
    episode = compose(a_claim(**claim), distillation, embedder or HashedEmbedder(), RULES, counts, now=NOW)
    return episode, counts


def test_two_texts_are_embedded_whole_and_stored_cut() -> None:
    embedder = HashedEmbedder()
    long = "please move the booking " * 100
    episode, _ = composed(a_distillation(task=long, asked=long), embedder)
    assert len(episode.task) <= MAX_TASK
    assert len(episode.digest) <= MAX_DIGEST
    assert [len(text) > 2_000 for text in embedder.texts] == [True, True]
    assert episode.embedding_model == "test-model"


def test_a_long_request_leaves_room_for_what_was_found() -> None:
    digest = compose_digest("w " * 5_000, ["The host q7 has a full disk."], 1_000)
    assert len(digest) <= 1_000
    assert digest.endswith("The host q7 has a full disk.")


def test_lists_and_texts_are_bounded_and_counted() -> None:
    artifacts = some_artifacts(
        key_findings=tuple(f"finding {i} " + "x" * 5_000 for i in range(50)),
        reusable_patterns=("", "  "),
        approach_used="y" * 50_000,
    )
    episode, counts = composed(a_distillation(artifacts=artifacts))
    assert len(episode.key_findings) == 20
    assert all(len(finding) <= 600 for finding in episode.key_findings)
    assert episode.reusable_patterns == ()
    assert len(episode.approach_used) <= 2_000
    assert (counts["entries_left_out"], counts["entries_cut"], counts["texts_cut"]) == (30, 20, 1)


def test_blank_text_is_not_embedded() -> None:
    embedder = HashedEmbedder()
    artifacts = some_artifacts(task_summary="", key_findings=())
    episode, counts = composed(a_distillation(task=" ", asked="\n", artifacts=artifacts), embedder)
    assert (episode.task_vector, episode.digest_vector, episode.embedding_model) == (None, None, None)
    assert embedder.texts == []
    assert counts["blank_texts"] == 2


def test_a_bad_vector_costs_the_vector_and_not_the_run() -> None:
    embedder = HashedEmbedder({"without a fee": ModelAnswerError("vector_zero")})
    episode, counts = composed(a_distillation(), embedder)
    assert episode.task_vector is not None
    assert episode.digest_vector is None
    assert counts["vectors_missing"] == 1


def test_a_busy_embedder_is_worth_another_try() -> None:
    with pytest.raises(ModelBusyError):
        composed(a_distillation(), HashedEmbedder({"K7": ModelBusyError("test-model is busy")}))


def test_the_dates_count_from_the_end_of_the_run() -> None:
    episode, _ = composed(a_distillation(), ended_at=NOW - 10 * DAY_SECONDS)
    assert episode.created_at == NOW
    assert episode.expires_at == NOW + 80 * DAY_SECONDS
    assert episode.decays_at is not None
    assert episode.decays_at < NOW + 25 * DAY_SECONDS


def test_a_failed_run_is_looked_at_after_its_own_retention() -> None:
    episode, _ = composed(a_distillation(artifacts=some_artifacts(outcome=Outcome.FAILED)), ended_at=NOW)
    assert episode.decays_at == NOW + 7 * DAY_SECONDS
    assert episode.expires_at == NOW + 90 * DAY_SECONDS
