"""The registry of callers: what operators allow is what a door reads, and what is taken back is soon gone."""

from collections.abc import Iterator

import pytest
from agent_memory.aws.callers import CACHED_SECONDS, MAX_CACHED, CallerRegistry
from agent_memory.domain.callers import Caller
from support.aws import AwsAccount, an_aws_account

ROLE = "arn:aws:iam::111122223333:role/{}"


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(name="account")
def _account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def registry(account: AwsAccount, clock: Clock) -> CallerRegistry:
    return CallerRegistry(account.client("dynamodb"), table=account.settings.ledger_table, clock=clock)


def test_what_was_allowed_is_known_and_listed(account: AwsAccount) -> None:
    callers = registry(account, Clock())
    row = Caller(principal=ROLE.format("a"), tenants=("acme", "beta"), reviewer=True)
    callers.allow(row, before=None, now=5)
    assert callers.known(row.principal) == row
    assert callers.known(ROLE.format("b")) is None
    assert callers.all() == [row]


def test_a_later_row_takes_the_place_of_the_one_before(account: AwsAccount) -> None:
    callers = registry(account, Clock())
    wider = Caller(principal=ROLE.format("a"), tenants=("acme",), reviewer=True)
    callers.allow(wider, before=None, now=5)
    narrower = Caller(principal=ROLE.format("a"), tenants=("beta",))
    assert callers.allow(narrower, before=wider, now=6)
    assert callers.all() == [narrower]


def test_a_door_forgets_what_was_taken_back_within_a_minute(account: AwsAccount) -> None:
    clock = Clock()
    door, desk = registry(account, clock), registry(account, Clock())
    row = Caller(principal=ROLE.format("a"), tenants=("acme",))
    assert door.known(row.principal) is None
    desk.allow(row, before=None, now=5)
    assert door.known(row.principal) == row, "an unknown caller is looked up again at once"
    assert desk.revoke(row.principal)
    assert not desk.revoke(row.principal)
    clock.seconds = CACHED_SECONDS + 1
    assert door.known(row.principal) is None


def test_every_page_is_listed(account: AwsAccount) -> None:
    callers = registry(account, Clock())
    rows = [Caller(principal=ROLE.format(f"r{n:04}"), tenants=("t" * 120,) * 50) for n in range(MAX_CACHED)]
    for row in rows:
        callers.allow(row, before=None, now=5)
    assert callers.all() == rows
