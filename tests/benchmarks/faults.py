"""make bench NAME=faults: the burst while the AI server is down, throttles, and function workers are killed.

What could not be worked off is parked or a dead letter; after the redrive nothing is lost and nothing is stored twice.
"""

import argparse
import json
import sys
import threading
import time
import urllib.request
from pathlib import Path

from benchmarks.crowd import Count, crowd_of
from benchmarks.stack import BenchStack, data_folder, figures, say, the_stack

from local.layout import DEFAULT_STATE

WAIT_SECONDS = 1200.0
DOWN_SECONDS = THROTTLED_SECONDS = 20.0
KILLS, SECONDS_BETWEEN_KILLS = 6, 7.0


def disturb(stack: BenchStack, killed: list[int]) -> None:
    """Take the AI server away, bring it back, let it throttle; the killing of workers goes on beside."""
    killer = threading.Thread(target=kill, args=(stack, killed))
    killer.start()
    say("the AI server is down")
    stack.local.stop_ai()
    time.sleep(DOWN_SECONDS)
    stack.local.start_ai()
    say("the AI server is back and throttles")
    throttle(stack, on=True)
    time.sleep(THROTTLED_SECONDS)
    throttle(stack, on=False)
    say("the AI server answers")
    killer.join()


def kill(stack: BenchStack, killed: list[int]) -> None:
    for _ in range(KILLS):
        time.sleep(SECONDS_BETWEEN_KILLS)
        killed.append(stack.local.kill_workers())
        say(f"killed {killed[-1]} workers")


def throttle(stack: BenchStack, *, on: bool) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own server on the loopback address
        f"{stack.local.ai.url}/control/faults",
        data=json.dumps({"throttle": on}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the same
        answer.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    arguments = parser.parse_args()
    with the_stack(arguments.state) as stack:
        count = Count(stack, crowd_of(data_folder(arguments)))
        started, killed = time.monotonic(), list[int]()
        trouble = threading.Thread(target=disturb, args=(stack, killed))
        trouble.start()
        count.send()
        trouble.join()
        drained = count.wait(WAIT_SECONDS)
        before = count.counted()
        say(f"before the redrive: {json.dumps(before)}")
        count.redrive(WAIT_SECONDS)
        found = count.counted()
        seconds = round(time.monotonic() - started, 1)
        figures(
            **found,
            parked_before_redrive=before["parked"],
            redriven=count.redriven,
            workers_killed=sum(killed),
            seconds=seconds,
            drained=drained,
        )
    sys.exit(0 if not found["lost"] and not found["duplicated"] and not found["parked"] else 1)


if __name__ == "__main__":
    main()
