"""The extractive distiller: a run's record from its messages alone. No model, so no claims of success and no facts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from agent_memory.domain.models import Artifacts, Claim, Outcome
from agent_memory.domain.plain_text import one_line, shortened
from agent_memory.domain.transcript_blocks import cleaned
from agent_memory.domain.transcript_calls import ToolCall
from agent_memory.domain.transcripts import Speaker, Transcript

MAX_TASK = 2_000
MAX_ASKED = 8_000
MAX_MESSAGE = 2_000
MAX_SUMMARY = 300
MAX_ANSWER = 400
MAX_RESULT = 160
MAX_RESULTS = 3
MAX_APPROACH = 500
MAX_TOOLS = 50
# "Yes, please." tells nothing about the task; "退款" does, and so does anything with a number in it.
MAX_SMALL_TALK_WORDS = 4


def task_of(run: Claim, transcript: Transcript, counts: Counter[str]) -> str:
    """The task as it was asked: the caller's words for it, or the first thing that the user said."""
    first = cleaned(run.task, counts).strip() if run.task else ""
    if not first:
        said = (*transcript.user_texts, *(turn.text for turn in transcript.turns if turn.text))
        first = next(iter(said), "") or one_line(" ".join(map(_line_of_call, transcript.tool_calls[:3])))
    return _bounded(first, MAX_TASK, counts)


def asked_in(transcript: Transcript, counts: Counter[str]) -> str:
    """Everything that the user asked for, in order: each message once, small talk left out."""
    kept: list[str] = []
    size = 0
    for text in dict.fromkeys(map(one_line, transcript.user_texts)):
        if kept and _is_small_talk(text):
            continue
        line = _bounded(text, MAX_MESSAGE, counts)
        if size + len(line) > MAX_ASKED:
            counts["characters_left_out"] += len(line)
            continue
        kept.append(line)
        size += len(line) + 1
    return "\n".join(kept)


def _is_small_talk(text: str) -> bool:
    """Short, without a digit, and in letters of which a few say little."""
    if any(character.isdigit() for character in text):
        return False
    wide = any(ord(character) > 0x2E7F for character in text)
    return len(text) <= 1 if wide else len(text.split()) <= MAX_SMALL_TALK_WORDS and len(text) <= 40


def _bounded(text: str, limit: int, counts: Counter[str]) -> str:
    if len(text) > limit:
        counts["characters_left_out"] += len(text) - limit
    return shortened(text, limit)


def extract(run: Claim, transcript: Transcript, counts: Counter[str]) -> Artifacts:
    """Build the artifacts of *run* from what its messages say."""
    return Artifacts(
        task_summary=shortened(one_line(task_of(run, transcript, Counter())), MAX_SUMMARY),
        outcome=run.outcome or Outcome.UNKNOWN,
        key_findings=tuple(_findings(transcript, counts)),
        approach_used=_approach(transcript.tool_calls),
        tools_used=transcript.tools_used[:MAX_TOOLS],
        time_taken_steps=transcript.steps,
    )


def _findings(transcript: Transcript, counts: Counter[str]) -> Iterator[str]:
    answer = one_line(transcript.final_answer).replace("**", "")
    if answer:
        yield _bounded(answer, MAX_ANSWER, counts)
    for call in _last_of_each_tool(transcript.tool_calls):
        yield f"{call.name}: {result_line(call)}"
    # What nobody asked for by name: output of tools whose call is not in the transcript.
    for turn in [turn for turn in transcript.turns if turn.speaker is Speaker.TOOL][-2:]:
        yield shortened(one_line(turn.text), MAX_RESULT)


def _last_of_each_tool(calls: Sequence[ToolCall]) -> list[ToolCall]:
    # A later call of a tool moves it to the end: what a run did last says most about how it went.
    answered: dict[str, ToolCall] = {}
    for call in calls:
        if call.result and any(character.isalpha() for character in call.result):
            answered.pop(call.name, None)
            answered[call.name] = call
    return list(answered.values())[-MAX_RESULTS:]


def result_line(call: ToolCall) -> str:
    """A tool's answer in one short line: of an object its plain fields, of text its beginning."""
    text = call.result or ""
    value = _decoded(text)
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    if isinstance(value, list) and isinstance(first, Mapping):
        text = f"{len(value)} found, first: {_fields(first)}"
    elif isinstance(value, Mapping):
        text = _fields(value)
    line = shortened(one_line(text), MAX_RESULT)
    return f"failed, {line}" if call.failed else line


def _decoded(text: str) -> object:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _fields(value: Mapping[str, object]) -> str:
    plain = [f"{name} {field}" for name, field in value.items() if isinstance(field, str | int | float) and field != ""]
    return ", ".join(plain) or ", ".join(value) or "nothing"


def _approach(calls: Sequence[ToolCall]) -> str:
    """The tools in their order, repeats counted; calls that nothing answered with what they asked for."""
    steps: list[str] = []
    for (name, answered), group in groupby(calls, key=lambda call: (call.name, call.result is not None)):
        run = list(group)
        if answered:
            steps.append(name if len(run) == 1 else f"{name} x{len(run)}")
        else:
            steps += [f"{_line_of_call(call)} (never answered)" for call in run[:3]]
    return shortened(" -> ".join(steps), MAX_APPROACH)


def _line_of_call(call: ToolCall) -> str:
    value = _decoded(call.arguments)
    arguments = ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, Mapping) else call.arguments
    return f"{call.name}({shortened(one_line(arguments), MAX_RESULT)})"
