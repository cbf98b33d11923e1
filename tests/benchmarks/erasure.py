"""make bench NAME=erasure: a person is forgotten in every store while another is at work and fifty runs are in flight.

Afterwards no row, version, message, log line or answer of the Knowledge Base names the person, and everything in which
the person had no part is what it was, byte for byte.
"""

import argparse
import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.ingestion import run_machine
from benchmarks.planted_person import (
    EPISODES,
    FLYING,
    OWN_FACTS,
    PROCEDURES,
    SHARED_FACTS,
    Person,
    everything,
    known_to_the_knowledge_base,
    naming,
    share_facts,
)
from benchmarks.stack import BenchStack, figures, say, the_stack

from local.layout import DEFAULT_STATE, Layout

OTHERS = 60
WAIT_SECONDS = 1500.0


@contextmanager
def load(person: Person) -> Iterator[list[int]]:
    """The other person's runs go on ending, two a second."""
    over, sent = threading.Event(), [0]

    def work() -> None:
        while not over.is_set():
            person.send(f"load{sent[0]}")
            sent[0] += 1
            over.wait(0.5)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def erase(stack: BenchStack, person: Person) -> dict[str, object]:
    """Ask the desk, follow the machine, return the signed receipt."""
    question = {"tenant_id": person.tenant_id, "user_id": person.user_id, "action": "request"}
    asked = stack.invoke("erasure_desk", question)
    status = {"action": "status", "tenant_id": person.tenant_id, "erasure_id": asked["erasure_id"]}
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        answer = stack.invoke("erasure_desk", status)
        if answer["state"] != "RUNNING":
            say(f"the machine is {answer['state']}")
            return dict(answer["receipt"] or {})
        time.sleep(3)
    raise RuntimeError("the erasure did not end in time")


def plant(stack: BenchStack, alice: Person, bob: Person) -> None:
    alice.keep_episodes(EPISODES)
    bob.keep_episodes(OTHERS)
    alice.keep_facts(OWN_FACTS)
    bob.keep_facts(OTHERS)
    share_facts(stack, alice.tenant_id, alice, bob, SHARED_FACTS)
    for person in (alice, bob):
        person.keep_procedures(PROCEDURES)
        person.keep_the_rest()
    say(f"{alice.planted} things of the person are planted; the Knowledge Base reads")
    stack.services.registry.note(alice.tenant_id, now=alice.now)
    say(f"ingestion {run_machine(stack)}")


def in_logs(layout: Layout, person: Person) -> int:
    """How many lines of all logs name the person; ids of runs are what logs are for."""
    found, run_id = 0, re.compile(re.escape(person.prefix) + r"[\w-]+")
    for file in layout.logs.glob("*.log*"):
        with file.open(encoding="utf-8", errors="replace") as log:
            found += sum(any(mark in run_id.sub("", line) for mark in person.marks) for line in log)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="not needed: the people are made up")
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    arguments = parser.parse_args()
    with the_stack(arguments.state) as stack:
        tenant_id = f"erasure-{uuid.uuid4().hex[:10]}"
        alice = Person(stack, tenant_id, "al", f"quokka{uuid.uuid4().hex[:8]}")
        bob = Person(stack, tenant_id, "bo", f"wombat{uuid.uuid4().hex[:8]}")
        plant(stack, alice, bob)
        texts = [f"{alice.mark} prefers table {n}." for n in range(0, OWN_FACTS, 25)] + ["House rule 4 holds."]
        before = everything(stack, tenant_id)
        theirs = naming(before, *alice.marks, alice.prefix)
        known_before = known_to_the_knowledge_base(stack, tenant_id, alice, texts)
        say(f"{len(theirs)} places name the person; {known_before} answers of the Knowledge Base do")
        started = time.monotonic()
        with load(bob) as sent:
            alice.send(*(f"flying{n}" for n in range(FLYING)))
            receipt = erase(stack, alice)
        seconds = round(time.monotonic() - started, 1)
        after = everything(stack, tenant_id)
        left = naming(after, *alice.marks, alice.prefix)
        known = known_to_the_knowledge_base(stack, tenant_id, alice, texts)
        logged = in_logs(Layout(arguments.state), alice)
        changed = changed_places(before, after, theirs, bob)
        verified = verify(stack, tenant_id, receipt)
        for place in sorted(left)[:10] + sorted(changed)[:10]:
            say(f"look: {place[:200]}")
        stores = receipt["receipt"]["stores"]  # type: ignore[index]
        figures(
            planted=alice.planted + FLYING,
            places_before=len(theirs),
            markers_left=len(left) + known + logged,
            others_changed=len(changed),
            stores_checked=len(stores),
            stores_left=sum(one["left"] for one in stores),
            decision=receipt["receipt"]["decision"],  # type: ignore[index]
            removed=sum(one["removed"] for one in stores),
            changed=sum(one["changed"] for one in stores),
            verified_left=verified,
            other_runs_meanwhile=sent[0],
            receipt_bytes=len(json.dumps(receipt)),
            seconds=seconds,
        )
    good = not (left or known or logged or changed) and alice.planted >= 500 and len(stores) >= 12 and verified == 0
    sys.exit(0 if good else 1)


def changed_places(before: dict[str, str], after: dict[str, str], theirs: set[str], bob: Person) -> set[str]:
    """What was not the person's and is another now. Left out: sidecars of the person's documents, heads that order
    everybody's writes, notes of agents at work and of what is to be ingested, and messages, which come and go."""
    documents = {place.split(".txt")[0] for place in theirs if place.startswith("knowledge_bucket")}
    kept = {
        place: text
        for place, text in before.items()
        if place not in theirs
        and place.split(".txt")[0] not in documents
        and "~head" not in place
        and "registry#" not in place
        and "#agents|" not in place
        and not place.startswith(("intake-queue", "retrievals-queue"))
    }
    return {place for place, text in kept.items() if after.get(place) != text and bob.tenant_id in place + text}


def verify(stack: BenchStack, tenant_id: str, receipt: dict[str, object]) -> int:
    """What every store still holds, asked anew with the receipt in hand."""
    question = {"action": "verify", "tenant_id": tenant_id, "receipt": receipt}
    stores = stack.invoke("erasure_desk", question)["stores"]
    return sum(int(stack.invoke("erasure_desk", {**question, "store": store})["left"] or 0) for store in stores)


if __name__ == "__main__":
    main()
