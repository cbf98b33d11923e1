"""An erasure and a night at the same time: whatever the one has in hand, nothing of the person outlives the other."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agent_memory.domain.erasure import DRAIN_SECONDS
from agent_memory.wiring_lifecycle import night_services
from support.aws import AwsAccount
from support.builders import NOW, TENANT, LambdaContext
from support.conversations import ScriptedModel
from support.detectors import KnownWords
from support.erasures import (
    ALICE,
    BOB,
    MARK,
    an_account_that_erases,
    ask,
    everything,
    mentioning,
    ref_of,
    ticket_of,
    worked_off,
)
from support.lifecycle import how_it_ended
from support.machines import Walk
from support.merges import an_answer, an_old_episode
from support.whole_nights import a_whole_night

from lambdas.erase_store.handler import handler as erase_store
from lambdas.lifecycle_report.handler import handler as lifecycle_report

NIGHT_LASTS = 20.0


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_account_that_erases() as account:
        merging = account.services.settings.model_copy(update={"summarise_model_id": "scripted"})
        object.__setattr__(account.services, "settings", merging)
        account.services._tenants.clear()
        vars(account.services)["detector"] = KnownWords({})
        account.services.registry.note(TENANT, now=NOW)
        yield account


def keep(account: AwsAccount) -> None:
    """Three old episodes of Alice that a night merges, one that it prunes, and one of Bob."""
    tenant = account.services.tenant(TENANT)
    alice = {"user_ref": ref_of(ALICE), "task": f"{MARK}: move booking K7."}
    episodes = [an_old_episode(number, **alice) for number in range(3)]
    episodes.append(an_old_episode(5, agent_id="lone", **alice))
    episodes.append(an_old_episode(6, agent_id="bobs", user_ref=ref_of(BOB), task="wombat"))
    for episode in episodes:
        assert tenant.episodes.put(episode) == "stored"
        tenant.agent_notes.note_agent(episode.agent_id, now=NOW)


def reports(event: dict[str, Any]) -> dict[str, Any]:
    return dict(lifecycle_report(event, LambdaContext()))


def erasing(before: Callable[[dict[str, Any]], None]) -> tuple[dict[str, Any], Walk]:
    """An erasure of Alice, each of whose steps comes after *before*; the receipt and the walk."""
    asked = ask({"action": "request", "user_id": ALICE})

    def step(event: dict[str, Any]) -> dict[str, Any]:
        before(event)
        return dict(erase_store(event, LambdaContext()))

    done = worked_off(ticket_of(asked), Erase=step)
    return ask({"action": "status", "erasure_id": asked["erasure_id"]})["receipt"]["receipt"], done


def nothing_is_left(account: AwsAccount) -> None:
    found = mentioning(everything(account), MARK, ref_of(ALICE), ALICE)
    assert {place for place in found if "tombstone" not in place} == set()
    assert mentioning(everything(account), "wombat")


@pytest.mark.parametrize("held_at", ["archive", "model"])
def test_an_erasure_waits_for_the_night_at_work_and_sweeps_what_that_still_had_in_hand(
    account: AwsAccount, held_at: str
) -> None:
    keep(account)
    reached, go_on = threading.Event(), threading.Event()
    tenant = account.services.tenant(TENANT)
    ended: list[str] = []

    def stop() -> None:
        if not reached.is_set():
            reached.set()
            assert go_on.wait(NIGHT_LASTS)

    class SlowModel(ScriptedModel):
        def answer(self, **asked: Any) -> Any:
            if held_at == "model":
                stop()
            return super().answer(**asked)

    put = tenant.archive.put

    def slow_put(*arguments: Any, **named: Any) -> str:
        if held_at == "archive":
            stop()
        return put(*arguments, **named)

    tenant.archive.put = slow_put  # type: ignore[method-assign]  # the night is slow
    night = threading.Thread(
        target=lambda: ended.append(
            how_it_ended(a_whole_night(account, model=SlowModel(an_answer()), Report=reports)[0])
        )
    )
    night.start()
    assert reached.wait(NIGHT_LASTS)
    waited: list[int] = []

    def the_night_ends_while_it_is_waited_for(event: dict[str, Any]) -> None:
        if event["ticket"]["draining"]:
            waited.append(event["ticket"]["rounds"])
            if len(waited) == 3:
                go_on.set()
                night.join(NIGHT_LASTS)

    receipt, done = erasing(the_night_ends_while_it_is_waited_for)
    assert not night.is_alive()
    assert ended == ["completed"]
    # Twice it was told to wait; then the lock was free.
    assert done.waits.count(DRAIN_SECONDS) == 2
    assert receipt["decision"] == "erased"
    nothing_is_left(account)


def test_a_night_that_starts_during_an_erasure_keeps_nothing_of_the_person(account: AwsAccount) -> None:
    keep(account)
    ended: list[str] = []

    def a_night_passes_first(event: dict[str, Any]) -> None:
        if not ended:
            ended.append(how_it_ended(a_whole_night(account, an_answer(), Report=reports)[0]))

    receipt, _ = erasing(a_night_passes_first)
    # What was asked to be forgotten is merged into nothing.
    assert ended == ["completed"]
    assert receipt["decision"] == "erased"
    nothing_is_left(account)


def test_a_night_that_starts_while_an_erasure_waits_is_waited_for_as_well(account: AwsAccount) -> None:
    keep(account)
    desk = night_services().desk
    assert desk.take("e-1", night="n-2027-01-15", now=NOW, until=NOW + 100)
    waited: list[int] = []

    def another_begins(event: dict[str, Any]) -> None:
        if event["ticket"]["draining"]:
            waited.append(event["ticket"]["rounds"])
            if len(waited) == 2:
                desk.release("e-1")
                assert desk.take("e-2", night="n-2027-01-16", now=NOW, until=NOW + 100)
            if len(waited) == 4:
                desk.release("e-2")

    receipt, done = erasing(another_begins)
    assert (receipt["decision"], done.waits.count(DRAIN_SECONDS)) == ("erased", 3)
    nothing_is_left(account)
