"""Facts in a whole night: they count towards the blast radius, and their dates follow the configuration."""

from collections.abc import Iterator

import pytest
from agent_memory.domain import night
from agent_memory.domain.lifecycle import TenantPlan
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount, an_aws_account
from support.builders import DAY, NOW, TENANT, an_episode
from support.fact_runs import DOMAIN, StandInKnowledge, SubjectEmbedder, said_by
from support.lifecycle import at, how_it_ended, keep_all, the_plan
from support.nights import NIGHT
from support.whole_nights import a_whole_night

OLD = NOW - 271 * DAY


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        vars(account.services)["embedder"] = SubjectEmbedder("depot")
        vars(account.services)["knowledge"] = StandInKnowledge(account)
        account.services.rest = lambda longest: None  # type: ignore[method-assign]  # nobody waits in a test
        at(account, NOW)
        yield account


def keep_facts(account: AwsAccount, old: int, fresh: int, *, confirmed_at: int = OLD) -> None:
    """Facts that one run observed, as many as these, the old ones last at *confirmed_at*."""
    at(account, NOW)
    said_by(account.services.tenant(TENANT), "Depot K closes at 16:00.", "r-1")
    fact, said = sorted(
        (row for row in account.facts() if row["fact_id"]["S"] != "~head"), key=lambda row: len(row["fact_id"]["S"])
    )
    client, table = account.client("dynamodb"), account.settings.facts_table
    for row in (fact, said):
        client.delete_item(TableName=table, Key={name: row[name] for name in ("domain_key", "fact_id")})
    shelf = account.services.tenant(TENANT).fact_shelf(account.services.dirty)
    for number in range(old + fresh):
        fact_id = f"f-{number:032x}"
        date = confirmed_at if number < old else NOW
        row = {**fact, "fact_id": {"S": fact_id}, "last_confirmed_at": {"N": str(date)}}
        client.put_item(TableName=table, Item=row)
        client.put_item(TableName=table, Item={**said, "fact_id": {"S": f"{fact_id}#bot/r-1#0"}})
        shelf.move((DOMAIN, fact_id), date + 270 * DAY)


def left(account: AwsAccount) -> int:
    return sum("#" not in row["fact_id"]["S"] and row["fact_id"]["S"] != "~head" for row in account.facts())


def planned(account: AwsAccount, run_id: str = NIGHT) -> TenantPlan:
    (tenant,) = the_plan(account, run_id).tenants
    return tenant


def a_night(account: AwsAccount, execution: str = "e-1", now: int = NOW) -> str:
    at(account, now)
    return how_it_ended(a_whole_night(account, execution=execution)[0])


def test_a_night_that_would_remove_too_many_facts_waits_for_a_person(account: AwsAccount) -> None:
    keep_facts(account, old=15, fresh=45)
    assert a_night(account) == "held"
    tenant = planned(account)
    assert (tenant.held, tenant.removed, tenant.facts, tenant.facts_total) == ("blast_radius", 15, 15, 60)
    assert left(account) == 60
    night.approve(NIGHT, night_services().doors, by="dana", now=NOW)
    assert a_night(account, "e-2", NOW + DAY) == "completed"
    assert left(account) == 45


def test_a_fifth_of_the_facts_may_go(account: AwsAccount) -> None:
    keep_facts(account, old=12, fresh=48)
    assert a_night(account) == "completed"
    assert left(account) == 48


def test_facts_do_not_hide_behind_many_episodes(account: AwsAccount) -> None:
    keep_facts(account, old=30, fresh=30)
    keep_all(account, *(an_episode(run_id=f"e-{number}") for number in range(200)), stored=False)
    assert a_night(account) == "held"
    assert left(account) == 60


def test_facts_and_episodes_of_a_small_store_count_together(account: AwsAccount) -> None:
    keep_facts(account, old=20, fresh=20)
    keep_all(account, *(an_episode(run_id=f"e-{number}") for number in range(15)), stored=False)
    assert a_night(account) == "held"
    assert left(account) == 40


def test_what_is_withdrawn_already_is_not_removed_once_more(account: AwsAccount) -> None:
    keep_facts(account, old=30, fresh=30)
    client, table = account.client("dynamodb"), account.settings.facts_table
    for number in range(30):
        client.update_item(
            TableName=table,
            Key={"domain_key": {"S": f"{TENANT}#{DOMAIN}"}, "fact_id": {"S": f"f-{number:032x}"}},
            UpdateExpression="SET #state = :superseded",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={":superseded": {"S": "superseded"}},
        )
    assert a_night(account) == "completed"
    assert planned(account).facts == 0
    assert left(account) == 30


def test_a_shortened_semantic_ttl_waits_for_a_person_and_then_moves_the_dates_of_facts_in_bounded_slices(
    account: AwsAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_facts(account, old=5, fresh=45, confirmed_at=NOW - 200 * DAY)
    assert a_night(account) == "completed"
    assert left(account) == 50
    shorter = account.services.settings.model_copy(update={"semantic_ttl_days": 180})
    object.__setattr__(account.services, "settings", shorter)
    vars(account.services).pop("retention_rules", None)
    account.services._tenants.clear()
    assert a_night(account, "e-2", NOW + DAY) == "held"
    assert planned(account, "n-2027-01-16").held == "changed_settings"
    assert left(account) == 50
    night.approve("n-2027-01-16", night_services().doors, by="dana", now=NOW + DAY)
    monkeypatch.setattr("agent_memory.domain.planning.REWRITTEN_A_NIGHT", 20)
    nights = 0
    for days in range(2, 9):
        assert a_night(account, f"e-{days + 1}", NOW + days * DAY) == "completed"
        nights += 1
        last = night_services().desk.last()
        assert last
        if last.rewriting is None:
            break
    assert 1 < nights < 7
    assert left(account) == 45
    dates = {row["decays_at"]["N"] for row in account.facts() if "decays_at" in row}
    assert dates == {str(NOW + 180 * DAY)}
