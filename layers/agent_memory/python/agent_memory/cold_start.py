"""Loading without garbage collection, for a function whose first caller waits: a fifth of the CPU time of a cold start.

Importing this module pauses the collector, so it comes before the imports that take long; loaded() ends the pause.
"""

import gc

gc.disable()


def loaded() -> None:
    """Start collecting again, without ever looking at what was loaded: it lives as long as the process."""
    gc.freeze()
    gc.enable()
