"""make bench NAME=burst: a hundred runs end within seconds, each said twice, with malformed and very large ones between.

Nothing may be lost and nothing may be stored twice.
"""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.crowd import Count, crowd_of
from benchmarks.stack import data_folder, figures, say, the_stack

from local.layout import DEFAULT_STATE

WAIT_SECONDS = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    arguments = parser.parse_args()
    with the_stack(arguments.state) as stack:
        count = Count(stack, crowd_of(data_folder(arguments)))
        started = time.monotonic()
        sending = count.send()
        say(f"sent {len(count.crowd.events)} events in {sending:.1f} s")
        drained = count.wait(WAIT_SECONDS)
        seconds = time.monotonic() - started
        found = count.counted()
        figures(**found, seconds_sending=round(sending, 1), seconds=round(seconds, 1), drained=drained)
    sys.exit(0 if drained and not found["lost"] and not found["duplicated"] else 1)


if __name__ == "__main__":
    main()
