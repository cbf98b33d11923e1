"""Packed vectors."""

import math

import numpy as np
import pytest
from agent_memory.domain.errors import ModelAnswerError
from agent_memory.domain.vectors import pack, unit, unpack
from hypothesis import given
from hypothesis import strategies as st


def test_a_512_dimensional_vector_takes_516_bytes_and_comes_back_nearly_the_same() -> None:
    vector = unit(np.random.default_rng(1).normal(size=512))
    data = pack(vector)
    assert len(data) == 516
    back = unpack(data)
    assert back is not None
    assert back.dtype == np.float32
    assert float(back @ vector) > 0.9999


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([math.nan, 1.0], "vector_not_finite"),
        ([math.inf, 1.0], "vector_not_finite"),
        ([0.0, 0.0], "vector_zero"),
        ([], "vector_length"),
        ([1.0, 2.0, 3.0], "vector_length"),
        ([[1.0, 2.0]], "vector_length"),
        (["a", "b"], "vector_not_numbers"),
        (None, "vector_length"),
        ([1.0, None], "vector_not_finite"),
    ],
)
def test_what_is_no_vector_is_refused_by_name(values: object, reason: str) -> None:
    with pytest.raises(ModelAnswerError) as refused:
        pack(values, dimensions=2)  # type: ignore[arg-type] # hostile on purpose
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 4, b"\x00" * 20, b"\xff" * 3, np.float32(math.nan).tobytes() + b"\x01\x02"]
)
def test_damaged_bytes_are_no_vector_and_no_crash(data: bytes) -> None:
    assert unpack(data) is None


@given(
    st.lists(st.floats(min_value=-1e30, max_value=1e30), min_size=1, max_size=64).filter(
        lambda v: any(abs(x) > 1e-30 for x in v)
    )
)
def test_length_is_one_whatever_the_scale(values: list[float]) -> None:
    assert np.linalg.norm(unit(values)) == pytest.approx(1, abs=1e-5)
    back = unpack(pack(values))
    assert back is not None
    assert float(back @ unit(values)) > 0.99
