"""Text embeddings through Bedrock InvokeModel: one text, one unit vector."""

import json
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain.errors import ModelAnswerError, ModelBusyError, RefusedInputError
from agent_memory.domain.models import Vector
from agent_memory.domain.plain_text import estimated_tokens, plain, shortened
from agent_memory.domain.vectors import unit

# Titan v2 takes 8,192 tokens and 50,000 characters; the estimate is cautious, the margin covers the rest.
MAX_TOKENS = 8_000


class BedrockEmbedder:
    """Embeds with Titan Text Embeddings v2, or with a model that speaks its body."""

    def __init__(self, client: Any, *, model: str, dimensions: int) -> None:
        self._client = client
        self.model = model
        self.dimensions = dimensions

    def embed(self, text: str) -> Vector:
        """Return the unit vector of *text*; what is longer than the model reads is cut between words.

        Raises RefusedInputError for blank text (before any call), ModelBusyError, ModelAnswerError.
        """
        body = {"inputText": embeddable(text), "dimensions": self.dimensions, "normalize": True}
        with translating("bedrock:InvokeModel for an embedding", busy=ModelBusyError):
            answer = self._client.invoke_model(
                modelId=self.model, body=json.dumps(body), contentType="application/json", accept="application/json"
            )
            raw = answer["body"].read()
        try:
            values = json.loads(raw)["embedding"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ModelAnswerError("not_an_embedding") from None
        return unit(values, dimensions=self.dimensions)


def embeddable(text: str) -> str:
    """Return *text* as a model may be sent it. Raises RefusedInputError when nothing visible is in it."""
    clean = plain(text).strip() if isinstance(text, str) else ""
    if not clean:
        raise RefusedInputError("text", "must not be blank")
    while (guess := estimated_tokens(clean)) > MAX_TOKENS:
        clean = shortened(clean, min(len(clean) - 1, len(clean) * MAX_TOKENS // guess))
    return clean
