"""Regression cases and their askings in the ledger table, on moto."""

from collections.abc import Iterator

import pytest
from agent_memory.aws.regressions import DynamoRegressions
from agent_memory.domain.errors import CrossTenantError, UnreadableItemError
from agent_memory.domain.quality import gate
from agent_memory.domain.regressions import Scorer
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT
from support.regressions import a_case, a_score

NIGHT, LATER = "n-2027-01-15", "n-2027-01-16.2"


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as aws:
        yield aws


def regressions(account: AwsAccount, tenant_id: str = TENANT) -> DynamoRegressions:
    return DynamoRegressions(account.client("dynamodb"), table=account.settings.ledger_table, tenant_id=tenant_id)


def test_a_case_comes_back_as_it_was_put_and_a_second_one_replaces_it(account: AwsAccount) -> None:
    store = regressions(account)
    whole = a_case(minimum=0.35, domain="travel", user_ref="u-1", scorer=Scorer.JUDGE, added_at=NOW)
    store.put(a_case())
    store.put(whole)
    store.put(a_case(case_id="another"))
    assert store.cases() == [a_case(case_id="another"), whole]


def test_a_case_is_removed_once(account: AwsAccount) -> None:
    store = regressions(account)
    store.put(a_case())
    assert [store.remove("move-a-booking"), store.remove("move-a-booking")] == [True, False]
    assert store.cases() == []


def test_tenants_do_not_see_each_other(account: AwsAccount) -> None:
    regressions(account).put(a_case())
    assert regressions(account, "other").cases() == []
    quality = gate("other", NIGHT, [], [], now=NOW)
    with pytest.raises(CrossTenantError):
        regressions(account).keep_result(quality, expires_at=NOW + DAY)
    with pytest.raises(CrossTenantError):
        regressions(account).put(a_case(case_id="x#y"))


def test_the_first_baseline_of_a_night_stays(account: AwsAccount) -> None:
    store = regressions(account)
    first, second = (a_score(a_case(), 0.9),), (a_score(a_case(), 0.2),)
    assert store.baseline(NIGHT) is None
    assert store.keep_baseline(NIGHT, first, expires_at=NOW + DAY) == first
    assert store.keep_baseline(NIGHT, second, expires_at=NOW + DAY) == first
    assert store.keep_baseline(LATER, second, expires_at=NOW + DAY) == second
    assert store.baseline(NIGHT) == first


def test_a_baseline_without_cases_is_kept_as_one(account: AwsAccount) -> None:
    store = regressions(account)
    assert store.keep_baseline(NIGHT, (), expires_at=NOW + DAY) == ()
    assert store.baseline(NIGHT) == ()


def test_the_gates_of_nights_are_kept_latest_first_and_expire(account: AwsAccount) -> None:
    store = regressions(account)
    before, after = [a_score(a_case(), 0.9)], [a_score(a_case(), None, reason="no_judge_model")]
    for night in (NIGHT, LATER):
        store.keep_result(gate(TENANT, night, before, after, now=NOW), expires_at=NOW + DAY)
    assert store.nights() == [LATER, NIGHT]
    assert store.result(NIGHT) == gate(TENANT, NIGHT, before, after, now=NOW)
    assert store.result("n-2020-01-01") is None
    rows = account.items(account.settings.ledger_table)
    assert {row["expires_at"]["N"] for row in rows} == {str(NOW + DAY)}


def test_a_row_of_another_shape_is_named_and_not_shown(account: AwsAccount) -> None:
    account.client("dynamodb").put_item(
        TableName=account.settings.ledger_table,
        Item={"ledger_key": {"S": f"{TENANT}#regressions"}, "entry_id": {"S": "odd"}, "question": {"S": "secret"}},
    )
    with pytest.raises(UnreadableItemError, match="ledger row odd") as refused:
        regressions(account).cases()
    assert "secret" not in str(refused.value)
