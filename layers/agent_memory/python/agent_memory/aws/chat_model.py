"""A chat model on Amazon Bedrock (Converse, through langchain-aws), asked for one object of a given schema."""

import json
import logging
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from agent_memory.aws.failures import error_code, translated
from agent_memory.domain.errors import AgentMemoryError, ConfigurationError, ModelAnswerError, ModelBusyError
from agent_memory.domain.models import Model

if TYPE_CHECKING:
    from langchain_aws import ChatBedrockConverse
    from langchain_core.messages import AIMessage

ACTION = "bedrock:InvokeModel"
TOOL = "record"
CONNECT_SECONDS, READ_SECONDS = 5, 120
ATTEMPTS = 2
# What a deployment did wrong, as opposed to what a transcript did: worth an alarm, not a poorer record of every run.
_MISCONFIGURED = ("model identifier", "on-demand throughput", "inference profile", "end of its life")
_RAW_INPUT = "input_as_text"


class Answer(Model):
    """What came back of one question."""

    arguments: object | None
    text: str
    stop_reason: str
    input_tokens: int
    output_tokens: int


class BedrockChatModel:
    """One model by its id, inference profile or ARN."""

    def __init__(self, model_id: str) -> None:
        self.model = model_id
        self._opening = Lock()

    def answer(self, *, instruction: str, text: str, schema: dict[str, object], max_tokens: int) -> Answer:
        """Ask once, with the tool forced where the model takes that and temperature 0 where it takes one.

        Raises ModelBusyError to retry, AccessRefusedError, ConfigurationError for a model that is not there,
        ModelAnswerError when the service refuses this very question.
        """
        from langchain_core.messages import HumanMessage, SystemMessage

        if not text.strip():
            raise ModelAnswerError("empty_question")
        choices = self._chat.supports_tool_choice_values or ()
        if not choices:
            instruction += f"\nAnswer with one JSON object of this schema and nothing else:\n{json.dumps(schema)}"
        elif "tool" not in choices and "any" not in choices:
            instruction += f"\nAnswer by calling the tool {TOOL} once."
        messages = [SystemMessage(content=instruction), HumanMessage(content=text)]
        try:
            return _answer(self._chat.invoke(messages, **self._options(schema, max_tokens)))
        except (BotoCoreError, ClientError) as error:
            raise _translated(error, self.model) from None

    def _options(self, schema: dict[str, object], max_tokens: int) -> dict[str, Any]:
        options: dict[str, Any] = {"max_tokens": max_tokens}
        # A model without a profile may be a new one, and new ones refuse a temperature.
        if (self._chat.profile or {}).get("temperature") is True:
            options["temperature"] = 0.0
        choices = self._chat.supports_tool_choice_values or ()
        if choices:
            spec = {"name": TOOL, "description": "Record the answer.", "inputSchema": {"json": schema}}
            options["tools"] = [{"toolSpec": spec}]
            forced = next((choice for choice in ("tool", "any") if choice in choices), "auto")
            options["tool_choice"] = TOOL if forced == "tool" else forced
        return options

    @property
    def _chat(self) -> "ChatBedrockConverse":
        # Slices are asked in parallel, and making an SDK client is not safe to do twice at once.
        with self._opening:
            return self._opened

    @cached_property
    def _opened(self) -> "ChatBedrockConverse":
        from botocore.config import Config
        from langchain_aws import ChatBedrockConverse

        # At debug level the library logs whole prompts.
        logging.getLogger("langchain_aws").setLevel(logging.WARNING)
        retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
        config = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries)
        provider = {"provider": "anthropic"} if self.model.startswith("arn:") else {}
        try:
            chat = ChatBedrockConverse(model_id=self.model, config=config, **provider)
        except ValueError:
            raise ConfigurationError(f"{self.model!r} is no Bedrock model: check bedrockModelId") from None
        chat.client.meta.events.register("after-call.bedrock-runtime.Converse", _keep_what_we_read)
        return chat


def _keep_what_we_read(parsed: dict[str, Any], **_: object) -> None:
    """Reduce an answer to text and tool calls before the library reads it: it raises on blocks that it does not know,
    and on tool arguments that came as text."""
    message = parsed.get("output", {}).get("message")
    if message is None:
        return
    kept = [block for block in message.get("content", []) if "text" in block or "toolUse" in block]
    for block in kept:
        use = block.get("toolUse")
        if use is not None and not isinstance(use.get("input"), dict):
            use["input"] = {_RAW_INPUT: use.get("input")}
    message["content"] = kept
    parsed.setdefault("usage", {})


def _answer(message: "AIMessage") -> Answer:
    arguments: object | None = next((call["args"] for call in message.tool_calls), None)
    if isinstance(arguments, dict) and set(arguments) == {_RAW_INPUT}:
        arguments = arguments[_RAW_INPUT]
    blocks = [message.content] if isinstance(message.content, str) else message.content
    texts = [block if isinstance(block, str) else block.get("text", "") for block in blocks]
    usage = message.usage_metadata
    return Answer(
        arguments=arguments,
        text="\n".join(text for text in texts if text),
        stop_reason=str(message.response_metadata.get("stopReason", "unknown")),
        input_tokens=usage["input_tokens"] if usage else 0,
        output_tokens=usage["output_tokens"] if usage else 0,
    )


def _translated(error: BotoCoreError | ClientError, model: str) -> AgentMemoryError:
    if not isinstance(error, ClientError):
        return translated(error, ACTION, busy=ModelBusyError)
    code, said = error_code(error), str(error.response.get("Error", {}).get("Message", "")).lower()
    if code == "ResourceNotFoundException" or any(sign in said for sign in _MISCONFIGURED):
        return ConfigurationError(
            f"Bedrock does not serve {model!r} here ({code}): check bedrockModelId and the Region"
        )
    ours = translated(error, ACTION, busy=ModelBusyError)
    return ModelAnswerError(f"refused_{code}") if type(ours) is AgentMemoryError else ours
