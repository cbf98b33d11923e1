"""Distilling on the agent's side: its own chat model makes the artifacts that the run-ended event carries.

The same question and schema as in a deployment with a model; the deployment holds the answer to the same rules.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from agent_memory.domain.deadlines import Budget
from agent_memory.domain.distillers import ANSWER_BY, UNUSABLE, ModelDistiller
from agent_memory.domain.errors import ModelAnswerError
from agent_memory.domain.models import Artifacts, CandidateFact, Claim, DistilledBy, Model, Outcome
from agent_memory.domain.outgoing import as_json
from agent_memory.domain.transcripts import read_transcript
from agent_memory.langgraph.messages import text_of, unseen

TOOL = "record"
# The deployment's rule counts; whatever the model is less sure of than that teaches nothing there.
MIN_CONFIDENCE = 0.0
MAX_TOKENS = 4_000
DISTILLING_SECONDS = 60.0
_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "STOP": "end_turn"}


class Answer(Model):
    """What came back of one question."""

    arguments: object | None
    text: str
    stop_reason: str
    input_tokens: int
    output_tokens: int


class AgentsModel:
    """Any LangChain chat model as the distiller's: with the tool forced where it takes tools, else asked for JSON."""

    def __init__(self, chat: BaseChatModel) -> None:
        self._chat = chat
        self.model = type(chat).__name__

    def answer(self, *, instruction: str, text: str, schema: dict[str, object], max_tokens: int) -> Answer:
        """Ask once. Raises ModelAnswerError when the model can't be asked: nobody here would ask again."""
        tool = {"name": TOOL, "description": "Record the answer.", "parameters": schema}
        try:
            asking: Any = self._chat.bind_tools([tool], tool_choice=TOOL)
        except Exception:  # it takes no tools, or none that is forced
            asking = self._chat
            instruction += f"\nAnswer with one JSON object of this schema and nothing else:\n{json.dumps(schema)}"
        try:
            message = asking.invoke([SystemMessage(instruction), HumanMessage(text)], unseen("distilling"))
        except Exception as error:
            raise ModelAnswerError(f"not_asked_{type(error).__name__}") from None
        if not isinstance(message, AIMessage):
            raise ModelAnswerError("no_message")
        return _answer(message)


def agent_artifacts(
    chat: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    task: str,
    task_type: str | None,
    outcome: Outcome | None,
    seconds: float = DISTILLING_SECONDS,
) -> Mapping[str, object]:
    """What *chat* makes of a finished run, as the event carries it. Raises ModelAnswerError when it made nothing that
    can be used within *seconds*; a model that hangs is left behind then."""
    dumped = tuple(as_json(message) for message in messages)
    run = Claim(
        tenant_id="own",
        agent_id="own",
        run_id="own",
        ended_at=0,
        task=task or None,
        task_type=task_type,
        outcome=outcome,
        messages=dumped,
        content_sha256="",
    )
    # The distiller keeps a share for a record from the messages alone, which takes no time here.
    budget = Budget(round(seconds / ANSWER_BY * 1000), monotonic)
    distiller = ModelDistiller(AgentsModel(chat), max_tokens=MAX_TOKENS, min_confidence=MIN_CONFIDENCE, budget=budget)
    made = distiller.distil(run, read_transcript(dumped))
    if made.distilled_by is not DistilledBy.MODEL:
        reason = next((name for name in made.counts if name.startswith(UNUSABLE)), UNUSABLE)
        raise ModelAnswerError(reason.removeprefix(UNUSABLE))
    return _as_event(made.artifacts)


def _answer(message: AIMessage) -> Answer:
    arguments: object | None = next((call["args"] for call in message.tool_calls), None)
    if arguments is None:
        arguments = next((call["args"] for call in message.invalid_tool_calls), None)
    usage = message.usage_metadata
    said = message.response_metadata
    reason = str(said.get("stopReason") or said.get("stop_reason") or said.get("finish_reason") or "end_turn")
    return Answer(
        arguments=arguments,
        text=text_of(message),
        stop_reason=_STOPS.get(reason, reason),
        input_tokens=usage["input_tokens"] if usage else 0,
        output_tokens=usage["output_tokens"] if usage else 0,
    )


def _as_event(artifacts: Artifacts) -> dict[str, object]:
    """The fields that a deployment reads of artifacts; tools and steps it counts itself."""
    left_out = {"tools_used", "time_taken_steps", "facts"}
    made = artifacts.model_dump(mode="json", exclude=left_out, exclude_none=True)
    return {**made, "facts": [_fact(fact) for fact in artifacts.facts]}


def _fact(fact: CandidateFact) -> dict[str, object]:
    written = fact.model_dump(mode="json", include={"content", "confidence", "evidence", "scope"})
    if fact.valid_until is not None:
        written["valid_until"] = datetime.fromtimestamp(fact.valid_until, UTC).isoformat()
    return written
