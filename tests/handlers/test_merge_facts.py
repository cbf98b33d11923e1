"""The key facts of a merge count for the runs that found them, once each, and for nobody else."""

from collections.abc import Iterator

import pytest
from agent_memory.domain.errors import StoreBusyError
from agent_memory.domain.facts import Fact, FactState
from agent_memory.domain.models import DistilledBy, Episode, EpisodeKind, FactScope, Outcome, SourceKind
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account
from support.builders import NOW, TENANT
from support.detectors import KnownWords
from support.fact_runs import DOMAIN, SubjectEmbedder, facts_of, said_by
from support.merges import an_answer, an_old_episode, merged_by, planned

KEY_FACT = "Depot K closes at 16:00."
SUMMARY = "Depot K closes at 16:00; the times of depot K were asked for."


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot", "crane")
        vars(account.services)["detector"] = KnownWords({})
        account.services.now = lambda: NOW  # type: ignore[method-assign]  # the builders' clock
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        yield account


@pytest.fixture
def tenant(account: AwsAccount) -> TenantServices:
    return account.services.tenant(TENANT)


def a_source(number: int, finding: str = KEY_FACT, **changes: object) -> Episode:
    values = {
        "task": "The times of depot K were asked for.",
        "task_summary": "",
        "digest": "Depot K",
        "key_findings": (finding,),
        "domain": DOMAIN,
        "confidence": 0.9,
        **changes,
    }
    return an_old_episode(number, **values)


def merged(account: AwsAccount, *sources: Episode, key_fact: str = KEY_FACT) -> dict[str, int]:
    for source in sources:
        account.services.tenant(TENANT).episodes.put(source)
    result, _ = merged_by(account, planned(sources), an_answer(SUMMARY, key_facts=[key_fact]))
    assert result.counts["created"] == 1
    return {name: count for name, count in result.counts.items() if name.startswith("facts_")}


def the_fact(tenant: TenantServices) -> Fact:
    (fact,) = facts_of(tenant)
    return fact


def test_a_merge_of_three_runs_is_not_three_independent_confirmations(
    account: AwsAccount, tenant: TenantServices
) -> None:
    merged(account, a_source(0), a_source(1), a_source(2))
    fact = the_fact(tenant)
    assert {run for _, run in fact.runs} == {"r-0", "r-1", "r-2"}
    # Nobody kept what the findings came from, so together they weigh as much as one document.
    assert {one.source for one in fact.observations} == {SourceKind.DOCUMENT}
    assert fact.state is FactState.OBSERVED


def test_only_runs_that_found_it_observe_it(account: AwsAccount, tenant: TenantServices) -> None:
    merged(account, a_source(0), a_source(1, "The times of depot K were asked for by phone."))
    assert {run for _, run in the_fact(tenant).runs} == {"r-0"}


def test_a_run_that_claimed_the_fact_itself_counts_no_second_time(account: AwsAccount, tenant: TenantServices) -> None:
    said_by(tenant, KEY_FACT, "r-0", "r-1")
    counts = merged(account, a_source(0), a_source(1))
    assert counts == {"facts_duplicate": 2}
    assert (len(the_fact(tenant).observations), the_fact(tenant).state) == (2, FactState.OBSERVED)


def test_what_a_merge_finds_can_be_the_last_word_that_was_missing(account: AwsAccount, tenant: TenantServices) -> None:
    said_by(tenant, KEY_FACT, "x-1", "x-2")
    assert the_fact(tenant).state is FactState.OBSERVED
    merged(account, a_source(0), a_source(1))
    fact = the_fact(tenant)
    assert (fact.state, len(fact.runs)) == (FactState.PROMOTED, 4)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": Outcome.PARTIAL},
        {"confidence": 0.5},
        {"distilled_by": DistilledBy.EXTRACTIVE},
        {"kind": EpisodeKind.SUMMARY},
    ],
)
def test_only_confident_completed_runs_teach(
    account: AwsAccount, tenant: TenantServices, change: dict[str, object]
) -> None:
    merged(account, a_source(0, **change), a_source(1, **change))
    assert facts_of(tenant) == []


def test_what_runs_of_one_user_found_stays_with_that_user(account: AwsAccount, tenant: TenantServices) -> None:
    merged(account, a_source(0, user_ref="u-1"), a_source(1, user_ref="u-1"))
    fact = the_fact(tenant)
    assert (fact.scope, fact.user_ref) == (FactScope.USER, "u-1")


def test_a_retry_after_a_crash_learns_once(account: AwsAccount, tenant: TenantServices) -> None:
    sources = [a_source(0), a_source(1)]
    put, calls = tenant.archive.put, []

    def fails_once(*arguments: object, **named: object) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise StoreBusyError("s3:PutObject on the archive bucket failed (SlowDown)")
        return put(*arguments, **named)  # type: ignore[arg-type]  # as it was called

    tenant.archive.put = fails_once  # type: ignore[method-assign]  # the service fails once
    with pytest.raises(StoreBusyError):
        merged(account, *sources)
    merged_by(account, planned(sources), an_answer(SUMMARY, key_facts=[KEY_FACT]))
    assert len(the_fact(tenant).observations) == 2
    assert len([item for item in account.episodes() if item["agent_id"]["S"].startswith(TENANT)]) == 1


def test_nothing_is_learnt_from_an_answer_that_was_refused(account: AwsAccount, tenant: TenantServices) -> None:
    sources = [a_source(0), a_source(1)]
    for source in sources:
        tenant.episodes.put(source)
    merged_by(account, planned(sources), an_answer(SUMMARY, key_facts=[KEY_FACT], confidence=0.2))
    assert facts_of(tenant) == []


def test_an_erased_user_teaches_nothing_by_a_merge(account: AwsAccount, tenant: TenantServices) -> None:
    sources = [a_source(0, user_ref="u-1"), a_source(1, user_ref="u-1")]
    for source in sources:
        tenant.episodes.put(source)
    account.erase(TENANT, "u-1", before=NOW)
    merged_by(account, planned(sources), an_answer(SUMMARY, key_facts=[KEY_FACT]))
    assert facts_of(tenant) == []
