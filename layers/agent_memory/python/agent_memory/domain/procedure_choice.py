"""Which of the procedures that may be shown a run gets: the proven one, or one on trial."""

import hashlib
from collections.abc import Sequence

from agent_memory.domain.procedures import Procedure, ProcedureRules, on_trial, rank

# Beside a procedure whose results are known, a trial gets a fifth of its share: enough to be judged, and the proven one
# still serves most runs.
BESIDE_PROVEN = 0.2
# So many runs passed a trial over before another one goes first.
PATIENCE = 5


def choose(group: Sequence[Procedure], *, draw: str, rules: ProcedureRules) -> Procedure | None:
    """The one of *group* (all of them fit to be shown) that the run of *draw* gets.

    The best whose results are known, or a trial for its share of the runs: neither hides the other from all of them.
    """
    proven = [one for one in group if not on_trial(one, rules)]
    trials = [one for one in group if on_trial(one, rules)]
    best = max(proven, key=lambda one: (rank(one), one.procedure_id), default=None)
    next_trial = min(trials, key=_turn, default=None)
    share = rules.trial_share if best is None else rules.trial_share * BESIDE_PROVEN
    if next_trial is not None and drawn(next_trial.procedure_id, draw) < share:
        return next_trial
    return best


def drawn(procedure_id: str, draw: str) -> float:
    """A number in [0, 1) that is the same for the same run and procedure, and evenly spread over runs."""
    digest = hashlib.sha256(f"{draw}#{procedure_id}".encode()).digest()
    # 53 bits are what a float holds exactly; more could round up to 1.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def _turn(procedure: Procedure) -> tuple[bool, int, int, float, int, str]:
    """The order of trials: what a person approved, what runs do not keep passing over, what is nearest to being proven.

    A trial that no run follows would else keep all others from ever being tried.
    """
    by_person, bound, evidence = rank(procedure)
    failures = procedure.applied - procedure.succeeded
    return not by_person, procedure.passed_over // PATIENCE, failures, -bound, -evidence, procedure.procedure_id
