"""Stores and models for the retrieval benches: the deployed ones, or the same code in this process."""

import json
import subprocess
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from time import monotonic, time
from typing import Any, Protocol

from agent_memory.domain.deadlines import Budget
from agent_memory.domain.decay import DecayRules
from agent_memory.domain.distillery import Distillery
from agent_memory.domain.episodes import StoreRules, compose
from agent_memory.domain.models import Claim, DetectedSpan, Episode, EpisodeView, Vector
from agent_memory.domain.ports import Embedder, PersonalDataDetector, Read
from agent_memory.domain.privacy import Policy, scrub_distillation
from agent_memory.domain.recall import Recall, RecallDoors
from agent_memory.domain.recall_request import RecallRules, recall_request
from agent_memory.domain.retention import RetentionRules
from agent_memory.domain.vectors import unit
from benchmarks.stack import BenchStack, say

NOW = 1_800_000_000
DIMENSIONS = 384
MODEL = "local.all-minilm-l6-v2"
# A bench measures what is found, not how fast a busy laptop is.
PATIENT_MS = 25_000
RULES = StoreRules(
    DecayRules(
        w_recency=0.4,
        w_access=0.35,
        w_frequency=0.25,
        max_access_baseline=50,
        threshold=0.3,
        prune_days=45,
        calibration="standard",
    ),
    RetentionRules(memory_ttl_days=90, failed_retention_days=7, parked_days=30),
)


class Memory(Protocol):
    """A store of one tenant and the recall over it."""

    def put(self, episodes: Sequence[Episode]) -> None: ...

    def remove(self, agent_id: str, run_ids: Sequence[str]) -> None: ...

    def recall(self, agent_id: str, task: str) -> dict[str, Any]: ...


class EpisodeMaker:
    """Runs become episodes by our own code: transcript, extractive distiller, scrubber, embedder."""

    def __init__(self, embedder: Embedder, detector: PersonalDataDetector) -> None:
        self._embedder = embedder
        self._detector = detector
        self._known: dict[str, Vector] = {}
        self.model, self.dimensions = embedder.model, embedder.dimensions
        self.tenant = f"bench-{uuid.uuid4().hex[:12]}"
        self.now = int(time())

    def embed(self, text: str) -> Vector:
        if text not in self._known:
            self._known[text] = self._embedder.embed(text)
        return self._known[text]

    def embed_query(self, text: str) -> list[float]:
        """The same model under the name that LangChain gives it, for the article's way."""
        return [float(component) for component in self.embed(text or " ")] if text.strip() else [0.0] * self.dimensions

    def make(self, runs: Sequence[tuple[str, list[Any]]]) -> dict[str, Episode]:
        """The episodes of *runs* by name, in order of age."""
        with ThreadPoolExecutor(2) as pool:
            made = pool.map(lambda numbered: self._episode(*numbered[1], numbered[0] - len(runs)), enumerate(runs))
            return {episode.run_id: episode for episode in made}

    def _episode(self, name: str, messages: list[Any], age: int) -> Episode:
        claim = Claim(
            tenant_id=self.tenant,
            agent_id="bench",
            run_id=name,
            ended_at=self.now + age * 60,
            messages=tuple(messages),
            content_sha256="0" * 64,
        )
        distilled = Distillery(model=None, max_tokens=0, min_confidence=0.6).distil(claim)
        scrubbed, _ = scrub_distillation(distilled, self._detector, Policy())
        return compose(claim, scrubbed, self, RULES, Counter(), now=self.now)


class DeployedMemory:
    """The table and the bootstrap function of the running stack."""

    def __init__(self, stack: BenchStack) -> None:
        self._stack = stack
        self._tenant = ""

    def put(self, episodes: Sequence[Episode]) -> None:
        if not episodes:
            return
        self._tenant = episodes[0].tenant_id
        store = self._stack.services.tenant(self._tenant).episodes
        with ThreadPoolExecutor(4) as pool:
            for done, written in enumerate(pool.map(store.put, episodes), 1):
                if written != "stored":
                    raise RuntimeError(f"an episode was not stored but {written}")
                if done % 500 == 0:
                    say(f"{done} of {len(episodes)} stored")

    def remove(self, agent_id: str, run_ids: Sequence[str]) -> None:
        table = self._stack.services.settings.episodes_table
        for run_id in run_ids:
            key = {"agent_id": {"S": f"{self._tenant}#{agent_id}"}, "run_id": {"S": run_id}}
            self._stack.client("dynamodb").delete_item(TableName=table, Key=key)

    def recall(self, agent_id: str, task: str) -> dict[str, Any]:
        question = {"tenant_id": self._tenant, "agent_id": agent_id, "task": task}
        return self._stack.invoke("bootstrap", {**question, "explain": True, "budget_ms": PATIENT_MS})


class LocalMemory:
    """The same recall over a store in this process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._held: dict[str, dict[str, Episode]] = defaultdict(dict)

    def put(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            self._held[episode.agent_id][episode.run_id] = episode

    def remove(self, agent_id: str, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            del self._held[agent_id][run_id]

    def views(self, agent_id: str, *, now: int) -> Read[EpisodeView]:
        fields = EpisodeView.model_fields
        return Read(
            EpisodeView.model_construct(**{name: getattr(one, name) for name in fields})
            for one in self._held[agent_id].values()
        )

    def get_many(self, keys: Sequence[tuple[str, str]]) -> Read[Episode]:
        return Read(self._held[agent][run] for agent, run in keys)

    def recall(self, agent_id: str, task: str) -> dict[str, Any]:
        rules = RecallRules(budget_ms=PATIENT_MS, max_episodes=3, max_context_tokens=2000)
        event = {"tenant_id": "bench", "agent_id": agent_id, "task": task, "tiers": ["episodic"], "explain": True}
        doors: Any = RecallDoors(lambda: self, lambda: self._embedder, lambda *_: None)
        recall = Recall(recall_request(event, rules), doors, Budget(PATIENT_MS, monotonic), now=NOW // 2, rules=rules)
        return recall.answer(f"c-{uuid.uuid4()}").model_dump(mode="json")


class MemoryTable:
    """As much of a DynamoDB table as the article's way uses."""

    def __init__(self) -> None:
        self._items: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def put_item(self, *, Item: dict[str, Any]) -> None:  # noqa: N803 - the names of the SDK
        self._items[Item["agent_id"]].append(Item)

    def query(self, *, KeyConditionExpression: Any, Limit: int, **_: object) -> dict[str, Any]:  # noqa: N803 - the same
        agent_id = KeyConditionExpression.get_expression()["values"][1]
        newest = sorted(self._items[agent_id], key=lambda item: item["created_at"], reverse=True)
        return {"Items": newest[:Limit]}


class LocalModels:
    """The laptop's embedding model and detector of personal data, in a child process of their own environment."""

    model, dimensions = MODEL, DIMENSIONS
    SOURCE = (
        "import json, sys, pathlib\n"
        "from local.embedder import MiniLm\n"
        "from local.personal_data import PersonalDataEngine\n"
        "models = {'embed': MiniLm(pathlib.Path(sys.argv[1])).embed, 'detect': PersonalDataEngine().detect}\n"
        "for line in sys.stdin:\n"
        "    name, arguments = json.loads(line)\n"
        "    print(json.dumps(models[name](*arguments)), flush=True)\n"
    )

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child
        self._lock = Lock()

    def _ask(self, name: str, *arguments: str) -> Any:
        assert self._child.stdin
        assert self._child.stdout
        with self._lock:
            self._child.stdin.write(json.dumps([name, arguments]) + "\n")
            self._child.stdin.flush()
            return json.loads(self._child.stdout.readline())

    def embed(self, text: str) -> Vector:
        return unit(self._ask("embed", text))

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        found: Sequence[Mapping[str, Any]] = self._ask("detect", text, language)
        return [
            DetectedSpan(type=e["Type"], start=e["BeginOffset"], end=e["EndOffset"], score=e["Score"]) for e in found
        ]


@contextmanager
def local_models() -> Iterator[tuple[Embedder, PersonalDataDetector]]:
    from local.layout import AI_VENV, ROOT, python_of
    from local.models import fetch_tokenizer

    command = [str(python_of(AI_VENV)), "-c", LocalModels.SOURCE, str(fetch_tokenizer(say))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        models = LocalModels(child)
        yield models, models
        assert child.stdin
        child.stdin.close()
