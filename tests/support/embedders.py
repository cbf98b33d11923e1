"""Embedders that need no model."""

import hashlib

import numpy as np
from agent_memory.domain.errors import AgentMemoryError, RefusedInputError
from agent_memory.domain.models import Vector


class HashedEmbedder:
    """Equal texts get equal unit vectors. *failing*: texts that hold one of these words raise its error."""

    model, dimensions = "test-model", 8

    def __init__(self, failing: dict[str, AgentMemoryError] | None = None) -> None:
        self.failing = failing or {}
        self.texts: list[str] = []

    def embed(self, text: str) -> Vector:
        if not text.strip():
            raise RefusedInputError("text", "must not be blank")
        self.texts.append(text)
        for word, error in self.failing.items():
            if word in text:
                raise error
        vector = np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], dtype=np.uint8).astype(np.float32) + 1
        return vector / np.float32(np.linalg.norm(vector))
