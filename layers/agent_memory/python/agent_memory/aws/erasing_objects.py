"""Objects that an erasure deletes, with all their versions: found by the run in their key, or by what they hold."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from agent_memory.aws.erasing_rows import run_test
from agent_memory.aws.object_versions import ObjectVersions, Version
from agent_memory.contract import KNOWLEDGE_PREFIX, WORK_ROOT
from agent_memory.domain.erasing_files import IsTheirRun, mentions, pruned
from agent_memory.domain.erasure import Erasure, Swept, Tally, Traces
from agent_memory.domain.keys import SIDECAR, document_key, tenant_of_slice

MAX_BYTES = 64 * 1024 * 1024
Prefix = Callable[[str], str]


def uploads_prefix(tenant_id: str) -> str:
    return f"{tenant_id}/"


def work_root(tenant_id: str) -> str:
    return f"{WORK_ROOT}/{tenant_id}/"


def parked_root(tenant_id: str) -> str:
    return f"parked/{tenant_id}/"


def read_object(body: bytes) -> Any:
    """The JSON of an object, gzip or plain; None when it is none."""
    try:
        if body.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
                body = stream.read(MAX_BYTES + 1)
        return json.loads(body) if len(body) <= MAX_BYTES else None
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return None


class RunObjects:
    """Objects under `<prefix>agent/run/`. Those of our own name the pseudonym as well, which the probe looks for."""

    def __init__(self, objects: ObjectVersions, *, store: str, prefix: Prefix, own: bool) -> None:
        self._objects = objects
        self._store = store
        self._prefix = prefix
        self._own = own

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        return _deleted(self._objects, list(self._theirs(erasure, traces)), Tally(self._store)), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure, traces))

    def _theirs(self, erasure: Erasure, traces: Traces) -> Iterator[Version]:
        root = self._prefix(erasure.tenant_id)
        for version in self._objects.all(root):
            named = erasure.whole or self._of_run(version.key.removeprefix(root), erasure, traces)
            if named or (self._own and self._says_so(version, erasure)):
                yield version

    def _of_run(self, path: str, erasure: Erasure, traces: Traces) -> bool:
        # What was held back lies one folder deeper, under a name that no agent has.
        parts = path.split("/")
        parts = parts[1:] if parts[0].startswith("~") else parts
        return len(parts) > 2 and erasure.run_hash(parts[0], parts[1]) in traces.runs

    def _says_so(self, version: Version, erasure: Erasure) -> bool:
        body = self._objects.body(version)
        held = read_object(body) if body else None
        if not isinstance(held, dict) or held.get("user_ref") != erasure.user_ref:
            return False
        ended = held.get("ended_at")
        return not isinstance(ended, int) or ended <= erasure.erased_before


class KnowledgeDocuments:
    """Documents of facts that went, with their sidecars and every version of either. *published*: whether a fact has a
    document again, in the others' words or because later runs taught it."""

    def __init__(self, objects: ObjectVersions, published: Callable[[str, str], bool]) -> None:
        self._objects = objects
        self._published = published

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        known, found = traces, list(self._theirs(erasure, traces))
        if erasure.whole:
            texts = [one.key.removesuffix(".txt").split("/") for one in found if one.key.endswith(".txt")]
            known = traces.with_facts((path[-2], path[-1]) for path in texts)
        return _deleted(self._objects, found, Tally("knowledge-documents")), known

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for _ in self._theirs(erasure, traces))

    def _theirs(self, erasure: Erasure, traces: Traces) -> Iterator[Version]:
        gone = {document_key(KNOWLEDGE_PREFIX, erasure.tenant_id, *place): place for place in traces.facts}
        for version in self._objects.all(f"{KNOWLEDGE_PREFIX}{erasure.tenant_id}/"):
            place = gone.get(version.key.removesuffix(SIDECAR))
            if erasure.whole:
                yield version
            elif place is not None:
                if not (version.latest and self._published(*place)):
                    yield version
            elif version.key.endswith(SIDECAR) and self._is_about(version, erasure):
                yield version

    def _is_about(self, version: Version, erasure: Erasure) -> bool:
        """Whether it belongs to a fact about the person whose row is gone, so that nothing else tells."""
        held = read_object(self._objects.body(version) or b"")
        about = held.get("metadataAttributes", {}) if isinstance(held, dict) else {}
        if about.get("user_ref") != erasure.user_ref:
            return False
        return not self._published(str(about.get("domain")), str(about.get("fact_id")))


class _Night(NamedTuple):
    version: Version
    new: bytes | None


class NightFiles:
    """Slices and results of nights: ids and scores of everybody's memories, rewritten without the person's."""

    def __init__(
        self,
        objects: ObjectVersions,
        keys: Callable[[], Sequence[str]],
        *,
        store: str = "night-files",
        test: Callable[[Erasure, Traces], IsTheirRun] = run_test,
    ) -> None:
        self._objects = objects
        self._keys = keys
        self._store = store
        self._test = test

    def sweep(self, erasure: Erasure, traces: Traces) -> tuple[Swept, Traces]:
        tally = Tally(self._store)
        for key in self._own(erasure):
            touched = list(self._touched(key, erasure, traces))
            if not touched:
                continue
            old = [one.version for one in touched]
            new = next((one.new for one in touched if one.version.latest), None)
            if new is not None:
                self._objects.put(key, new, "application/json")
            failed = self._objects.delete(old)
            tally.fail(*(one.key for one in failed))
            if new is not None:
                tally.change(key)
            else:
                tally.remove(key)
        return tally.swept(), traces

    def left(self, erasure: Erasure, traces: Traces) -> int:
        return sum(1 for key in self._own(erasure) for _ in self._touched(key, erasure, traces))

    def _own(self, erasure: Erasure) -> list[str]:
        return [key for key in self._keys() if tenant_of_slice(key) == erasure.tenant_id]

    def _touched(self, key: str, erasure: Erasure, traces: Traces) -> Iterator[_Night]:
        """The versions that name something of the person, the newest first, each with what replaces it."""
        theirs, names = self._test(erasure, traces), frozenset(fact_id for _, fact_id in traces.facts)
        for version in self._objects.all(key):
            if version.key != key:
                continue
            if erasure.whole:
                yield _Night(version, None)
                continue
            held = read_object(self._objects.body(version) or b"")
            if mentions(held, theirs, names):
                kept = pruned(held, theirs, names)
                yield _Night(version, json.dumps(kept, separators=(",", ":")).encode("ascii"))


def _deleted(objects: ObjectVersions, found: list[Version], tally: Tally) -> Swept:
    failed = set(objects.delete(found))
    tally.fail(*(one.key for one in failed))
    tally.remove(*(f"{one.key}?{one.version_id}" for one in found if one not in failed))
    return tally.swept()
