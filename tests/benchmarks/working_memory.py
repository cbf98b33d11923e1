"""What working memory saves: tokens sent over real runs, uncompressed, with ours, and with LangChain's summarising
middleware at the same thresholds. What the summariser reads and writes counts on both sides.

`python -m benchmarks.working_memory --data FOLDER` (FOLDER/tau_bench_airline and FOLDER/swe_agent). Every message of
the agent is a model call over all messages before it. Runs of one task are joined until they have more than 30
messages; runs that stay shorter are left out and counted. One stand-in summariser serves both sides: it repeats the
last words that it was shown, as many as a summary has. Tokens are LangChain's estimate, for everything.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from agent_memory.domain.working_memory import KEEP, TRIGGER
from agent_memory.langgraph import WorkingMemory
from agent_memory.langgraph.messages import summary_of
from benchmarks.stack import data_folder, figures, say
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from pydantic import PrivateAttr
from support.chat_messages import faults

SUMMARY_WORDS = 250
Step = Callable[[list[BaseMessage]], list[BaseMessage]]


class StandIn(BaseChatModel):
    """Summarises without a model, always at the same length, and counts what it read and wrote."""

    _tokens: int = PrivateAttr(default=0)
    _calls: int = PrivateAttr(default=0)

    @property
    def spent(self) -> tuple[int, int]:
        """Tokens read and written, and calls."""
        return self._tokens, self._calls

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        words = " ".join(str(message.content) for message in messages).split()
        answer = AIMessage(" ".join(words[-SUMMARY_WORDS:]))
        self._tokens += count_tokens_approximately([*messages, answer])
        self._calls += 1
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Sent(NamedTuple):
    """What one way of running sent: tokens to the agent's model, to and from the summariser, its calls, and lists
    that a chat model would refuse."""

    to_model: int
    to_summariser: int
    summaries: int
    invalid: int
    longest: int

    @property
    def tokens(self) -> int:
        return self.to_model + self.to_summariser


def runs_of(data: Path) -> tuple[list[tuple[list[BaseMessage], list[BaseMessage]]], int]:
    """The runs of more than TRIGGER messages, each as system messages and others, and how many were left out."""
    found, short = [], 0
    for runs in _tasks(data):
        joined: list[BaseMessage] = []
        system: list[BaseMessage] = []
        for messages in runs:
            system = [m for m in messages if isinstance(m, SystemMessage)] or system
            joined += [m for m in messages if not isinstance(m, SystemMessage)]
            if len(joined) > TRIGGER:
                found.append((system, joined))
                joined = []
        short += bool(joined)
    return found, short


def _tasks(data: Path) -> Iterator[list[list[BaseMessage]]]:
    airline = json.loads((data / "tau_bench_airline" / "gpt-4o-airline.json").read_text())
    ordered = sorted(airline, key=lambda run: (run["task_id"], run["trial"]))
    for _, runs in groupby(ordered, key=lambda run: run["task_id"]):
        yield [_messages(run["traj"]) for run in runs]
    for file in sorted((data / "swe_agent").glob("*.traj")):
        yield [_messages(json.loads(file.read_text())["history"])]


def _messages(dumped: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    kept = ("role", "content", "tool_calls", "tool_call_id", "name")
    plain = [{name: one[name] for name in kept if one.get(name) is not None} for one in dumped]
    for one in plain:
        one.setdefault("content", "")
        if one["role"] == "tool" and "tool_call_id" not in one:
            # This recorder writes the ids of the calls that an observation answers in a list.
            one["tool_call_id"] = next(d for d in dumped if d["content"] == one["content"])["tool_call_ids"][0]
    return convert_to_messages(plain)


def sent(system: list[BaseMessage], run: Sequence[BaseMessage], step: Step, summariser: StandIn) -> Sent:
    """Play *run*: before each message of the agent *step* has its say over the list that is sent."""
    before = summariser.spent
    held: list[BaseMessage] = []
    tokens = invalid = longest = 0
    for message in run:
        if isinstance(message, AIMessage):
            held = step(held)
            tokens += count_tokens_approximately([*system, *held])
            invalid += bool(faults(held))
            longest = max(longest, len(held))
        held = add_messages(held, [message.model_copy()])  # type: ignore[assignment]
    after = summariser.spent
    return Sent(tokens, after[0] - before[0], after[1] - before[1], invalid, longest)


def uncompressed(held: list[BaseMessage]) -> list[BaseMessage]:
    return held


def ours(summariser: BaseChatModel) -> Step:
    memory = WorkingMemory(summariser)

    def step(held: list[BaseMessage]) -> list[BaseMessage]:
        done = memory.compressed(held)
        after = add_messages(held, list(done.update)) if done else held
        if done and sum(1 for message in done.messages if summary_of(message)) != 1:
            raise RuntimeError("a compressed list holds one summary")
        return list(after)  # type: ignore[arg-type]

    return step


def the_peer(summariser: BaseChatModel) -> Step:
    middleware: Any = SummarizationMiddleware(summariser, trigger=("messages", TRIGGER), keep=("messages", KEEP))

    def step(held: list[BaseMessage]) -> list[BaseMessage]:
        update = middleware.before_model({"messages": held}, Runtime())
        return list(add_messages(held, update["messages"])) if update else held

    return step


def total(runs: Sequence[tuple[list[BaseMessage], list[BaseMessage]]], make: Callable[[StandIn], Step]) -> Sent:
    """All *runs* played one way."""
    summariser = StandIn()
    step = make(summariser)
    played = [sent(system, run, step, summariser) for system, run in runs]
    sums = [sum(column) for column in zip(*(one[:4] for one in played), strict=True)]
    return Sent(*sums, longest=max(one.longest for one in played))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    runs, left_out = runs_of(data_folder(arguments.parse_args()))
    plain = total(runs, lambda _: uncompressed)
    mine, peer = total(runs, ours), total(runs, the_peer)
    for name, one in (("uncompressed", plain), ("agent-memory", mine), ("LangChain", peer)):
        say(f"{name}: {one.tokens} tokens, {one}")
    figures(
        tokens_ratio=round(mine.tokens / plain.tokens, 4),
        peer_tokens_ratio=round(peer.tokens / plain.tokens, 4),
        ours_to_peer=round(mine.tokens / peer.tokens, 4),
        invalid_lists=mine.invalid,
        peer_invalid_lists=peer.invalid,
        tokens_uncompressed=plain.tokens,
        tokens_to_model=mine.to_model,
        tokens_of_summariser=mine.to_summariser,
        peer_tokens_to_model=peer.to_model,
        peer_tokens_of_summariser=peer.to_summariser,
        summaries=mine.summaries,
        peer_summaries=peer.summaries,
        longest_list=mine.longest,
        runs=len(runs),
        runs_too_short=left_out,
    )


if __name__ == "__main__":
    main()
