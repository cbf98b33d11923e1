"""How AWS services say things on the wire: requests taken apart, errors in the shape that botocore reads."""

import json
from collections.abc import Mapping
from typing import Any, Final

TITAN_MAX_CHARACTERS: Final = 50_000
COMPREHEND_MAX_BYTES: Final = 100_000
COMPREHEND_TARGET: Final = "Comprehend_20171127."
COMPREHEND_LANGUAGES: Final = ("en", "es")
STATUS: Final = {
    "AccessDeniedException": 403,
    "ResourceNotFoundException": 404,
    "ConflictException": 409,
    "ThrottlingException": 429,
    "ServiceUnavailableException": 503,
    "ModelTimeoutException": 408,
    "ModelErrorException": 424,
    "InternalServerException": 500,
}


class AwsError(Exception):
    """An error that the caller must see as the service itself would tell it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return STATUS.get(self.code, 400)

    @property
    def headers(self) -> dict[str, str]:
        return {"x-amzn-errortype": self.code}

    @property
    def body(self) -> dict[str, str]:
        """REST-JSON services read the header, JSON-RPC services `__type`."""
        return {"__type": self.code, "message": self.message, "Message": self.message}


def json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise AwsError("ValidationException", "Malformed input request, please reformat your input and try again.")
    return value


def sound_text(text: str) -> bool:
    """Whether *text* can be stored: half a surrogate pair, which JSON lets through, can not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_to_embed(request: Mapping[str, Any], *, dimensions: int) -> str:
    """The text of a Titan Text Embeddings v2 request."""
    text = request.get("inputText")
    if not isinstance(text, str) or not text.strip():
        raise AwsError("ValidationException", "inputText must be a text that is not empty")
    if len(text) > TITAN_MAX_CHARACTERS:
        raise AwsError("ValidationException", f"inputText is longer than {TITAN_MAX_CHARACTERS} characters")
    if request.get("dimensions", dimensions) != dimensions:
        raise AwsError("ValidationException", f"this model has {dimensions} dimensions and no others")
    unknown = set(request) - {"inputText", "dimensions", "normalize", "embeddingTypes"}
    if unknown:
        raise AwsError("ValidationException", f"unknown keys: {', '.join(sorted(unknown))}")
    return text


def embedding_answer(vector: list[float], tokens: int) -> dict[str, Any]:
    return {"embedding": vector, "embeddingsByType": {"float": vector}, "inputTextTokenCount": tokens}


def text_to_search(request: Mapping[str, Any]) -> tuple[str, str]:
    """Text and language of a DetectPiiEntities request."""
    text, language = request.get("Text"), request.get("LanguageCode")
    if not isinstance(text, str) or not text:
        raise AwsError("InvalidRequestException", "Text must not be empty")
    if language not in COMPREHEND_LANGUAGES:
        raise AwsError("UnsupportedLanguageException", f"only {' and '.join(COMPREHEND_LANGUAGES)} are supported")
    if len(text.encode("utf-8", "replace")) > COMPREHEND_MAX_BYTES:
        raise AwsError("TextSizeLimitExceededException", f"Text is larger than {COMPREHEND_MAX_BYTES} bytes")
    return text, language
