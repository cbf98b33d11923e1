"""What a run made of the memories that it was offered: which it used, and how the procedure did."""

import re
from collections.abc import Iterable, Sequence

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.models import Outcome

# A run that is called "7" would be cited in every transcript.
LEAST_CITED = 5
_SUCCEEDED = {Outcome.COMPLETED: True, Outcome.FAILED: False}


def cited_in(item_ids: Sequence[str], words: str) -> list[str]:
    """Those memories that *words*, all that an agent said and asked of tools, name by their id or their run's."""
    return [item for item in item_ids if _stands_in(item, words) or _stands_in(item.rsplit("/", 1)[-1], words)]


def ids_of(used: object) -> list[str]:
    """What a program says that its run used. Raises RefusedInputError for what is no list of ids."""
    found = list(used) if isinstance(used, Iterable) and not isinstance(used, str) else [None]
    ids = [one for one in found if isinstance(one, str)]
    if len(ids) < len(found):
        raise RefusedInputError("used", "must be a list of the ids of recalled items")
    return ids


def procedure_succeeded(outcome: object) -> bool | None:
    """How the procedure of a run did that ended so; None where the outcome does not tell."""
    return _SUCCEEDED.get(Outcome(outcome)) if isinstance(outcome, str) and outcome in list(Outcome) else None


def _stands_in(name: str, words: str) -> bool:
    found = rf"(?<![\w@-]){re.escape(name)}(?![\w@-])"
    return len(name) >= LEAST_CITED and re.search(found, words) is not None
