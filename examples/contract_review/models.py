"""The chat models of the example: a scripted one that needs nothing, and any that LangChain can open."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult

SCRIPTED = "scripted"


class Topic(NamedTuple):
    """One question: what its answer looks like, and the titles under which one would look for it, in order."""

    answer: re.Pattern[str]
    titles: tuple[str, ...]


TOPICS = {
    "liability cap": Topic(
        re.compile(r"a cap of [^.]+"), ("Liability", "Indemnities", "Insurance", "Fees", "Warranty", "Commercial")
    ),
    "notice": Topic(
        re.compile(r"terminate without cause: [^.]+"), ("Termination", "General", "Definitions", "Particulars")
    ),
    "governing law": Topic(re.compile(r"governed by the law of [\w ]+"), ("Law", "General")),
}
_HINT = re.compile(rf"({'|'.join(TOPICS)}): section (\w+)")
_CONTRACT = re.compile(r"contract ([\w-]+):")


class ScriptedReviewer(BaseChatModel):
    """Reads as a person would who does not know the contract: by titles, until it finds the words; or first where its
    system prompt says that an answer stood before. It knows no contract and no answer."""

    @property
    def _llm_type(self) -> str:
        return SCRIPTED

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "ScriptedReviewer":
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        reply = _next(messages)
        tokens = count_tokens_approximately(messages), count_tokens_approximately([reply])
        reply.usage_metadata = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
        return ChatResult(generations=[ChatGeneration(message=reply)])


def chat_model(name: str, *, base_url: str | None = None) -> BaseChatModel:
    """`scripted`, or what LangChain knows as provider:model (openai:..., bedrock_converse:...).

    *base_url*: of any server that speaks OpenAI's protocol. Raises ImportError that names the package to install.
    """
    if name == SCRIPTED:
        return ScriptedReviewer()
    from langchain.chat_models import init_chat_model

    # A server on one's own machine asks for no key, but the client for one.
    own_server: dict[str, Any] = {"base_url": base_url, "api_key": "none"} if base_url else {}
    model: BaseChatModel = init_chat_model(name, **own_server)
    return model


def _next(messages: Sequence[BaseMessage]) -> AIMessage:
    """The next step of the reader, from nothing but the conversation."""
    asked = next(str(m.text) for m in reversed(messages) if isinstance(m, HumanMessage))
    named = _CONTRACT.search(asked)
    contract = named[1] if named else ""
    read, titles = _read_so_far(messages)
    hints = dict(_HINT.findall("".join(str(m.text) for m in messages if isinstance(m, SystemMessage))))
    found = {
        topic: (section, answer[0])
        for topic, rule in TOPICS.items()
        for section, text in read.items()
        if (answer := rule.answer.search(text))
    }
    for topic in TOPICS:
        if topic in found:
            continue
        if topic in hints and hints[topic] not in read:
            return _call("read_section", messages, contract=contract, section=hints[topic])
        if titles is None:
            return _call("list_sections", messages, contract=contract)
        section = next((s for s in _candidates(topic, titles) if s not in read), None)
        if section is not None:
            return _call("read_section", messages, contract=contract, section=section)
    return AIMessage(_report(contract, found))


def _read_so_far(messages: Sequence[BaseMessage]) -> tuple[dict[str, str], dict[str, str] | None]:
    """The text of each section that was read, and the titles, None before they were listed."""
    calls = {call["id"]: call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls}
    read: dict[str, str] = {}
    titles: dict[str, str] | None = None
    for message in messages:
        call = calls.get(message.tool_call_id) if isinstance(message, ToolMessage) else None
        if call is not None and call["name"] == "read_section":
            read[call["args"]["section"]] = str(message.text)
        elif call is not None:
            lines = [line.partition(" ") for line in str(message.text).splitlines()]
            titles = {number: title for number, _, title in lines}
    return read, titles


def _candidates(topic: str, titles: dict[str, str]) -> Iterator[str]:
    for word in TOPICS[topic].titles:
        yield from (number for number, title in titles.items() if word in title)


def _call(name: str, messages: Sequence[BaseMessage], **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{len(messages)}"}])


def _report(contract: str, found: dict[str, tuple[str, str]]) -> str:
    answers = [f"{topic}: {answer}" for topic, (_, answer) in found.items()]
    missing = [f"{topic}: not found" for topic in TOPICS if topic not in found]
    where = ", ".join(f"{topic}: section {section}" for topic, (section, _) in found.items())
    text = f"{contract}. {'; '.join([*answers, *missing])}."
    return text if missing else f"{text} Where it stands: {where}."
