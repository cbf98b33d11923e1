"""Builders of the night: tickets, and the lifecycle's own objects in memory."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from agent_memory.domain.decay import DecayRules
from agent_memory.domain.keys import room_prefix
from agent_memory.domain.lifecycle import LifecycleRun, NightTicket, latest_first
from agent_memory.domain.models import Model
from agent_memory.domain.night import settings_hash
from agent_memory.domain.retention import RetentionRules
from support.builders import NOW

M = TypeVar("M", bound=Model)
NIGHT = "n-2027-01-15"
SETTINGS = settings_hash(DecayRules(prune_days=45.0), RetentionRules())


def a_night(**changes: object) -> LifecycleRun:
    values = {"night": NIGHT, "attempt": 1, "owner": "e-1", "now": NOW, "settings_hash": SETTINGS}
    return LifecycleRun.model_validate(values | changes)


def a_ticket(run: LifecycleRun | None = None, **changes: object) -> NightTicket:
    run = run or a_night()
    rooms = ("look", "expire", "merge", "prune", "facts", "rollback")
    prefixes = {f"{room}_prefix": room_prefix(run.run_id, room) for room in rooms}
    return NightTicket.model_validate({"run": run, "bucket": "archive", **prefixes, **changes})


class HeldFiles:
    """The lifecycle's objects, as JSON, in memory."""

    bucket = "archive"

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}

    def put(self, key: str, content: Model) -> None:
        self.objects[key] = content.model_dump_json()

    def put_many(self, contents: Iterable[tuple[str, Model]]) -> None:
        for key, content in contents:
            self.put(key, content)

    def runs(self) -> Sequence[str]:
        return latest_first({key.split("/")[1] for key in self.objects})

    def put_text(self, key: str, text: str) -> None:
        self.objects[key] = text

    def get(self, key: str, model: type[M]) -> M | None:
        held = self.objects.get(key)
        return None if held is None else model.model_validate_json(held)

    def keys(self, prefix: str, *, after: str = "") -> Sequence[str]:
        return sorted(key for key in self.objects if key.startswith(prefix) and key > after)

    def get_many(self, keys: Iterable[str], model: type[M]) -> Sequence[M]:
        return [found for key in keys if (found := self.get(key, model)) is not None]
