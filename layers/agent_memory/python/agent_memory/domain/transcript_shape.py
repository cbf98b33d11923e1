"""Whether a run-ended detail holds a transcript that can be read, said before it is sent: the field, the kind of what
stands there and the rule, never what it says."""

from collections.abc import Mapping

from agent_memory.domain.errors import RefusedInputError

_SPEAKS = ("role", "type", "content")


def check_transcript(detail: Mapping[str, object]) -> None:
    """Raises RefusedInputError for a detail that would be parked because nothing in it can be read."""
    transcript = detail.get("transcript")
    if transcript is None:
        if not detail.get("artifacts"):
            raise RefusedInputError("transcript", "is missing, and there are no artifacts: a run needs one of them")
        return
    if not isinstance(transcript, Mapping):
        raise RefusedInputError("transcript", f"must be an object with messages or s3_uri, not {_kind(transcript)}")
    if transcript.get("s3_uri"):
        return
    if "messages" not in transcript:
        raise RefusedInputError("transcript", "must hold messages or s3_uri")
    messages = transcript["messages"]
    if not isinstance(messages, list):
        raise RefusedInputError("transcript.messages", f"must be a list, not {_kind(messages)}")
    if not messages:
        raise RefusedInputError("transcript.messages", "must hold at least one message")
    for number, message in enumerate(messages):
        _check_message(f"transcript.messages[{number}]", message)


def _check_message(field: str, message: object) -> None:
    if isinstance(message, str):
        return
    if isinstance(message, list):
        if len(message) == 2 and all(isinstance(part, str) for part in message):
            return
        raise RefusedInputError(field, f"must be an object, or a pair of role and text, not {_kind(message)}")
    if not isinstance(message, Mapping):
        raise RefusedInputError(field, f"must be an object with role and content, not {_kind(message)}")
    if not any(name in message for name in _SPEAKS):
        raise RefusedInputError(field, "must say in role or type who spoke, and in content what")
    for name in ("role", "type"):
        if message.get(name) is not None and not isinstance(message[name], str):
            raise RefusedInputError(f"{field}.{name}", f"must be text, not {_kind(message[name])}")
    content = message.get("content")
    if content is not None and not isinstance(content, str | list | Mapping):
        raise RefusedInputError(f"{field}.content", f"must be text or a list of blocks, not {_kind(content)}")


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    return "text" if isinstance(value, str) else "a number"
