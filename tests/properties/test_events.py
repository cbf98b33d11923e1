"""Whatever an agent sends, the door either reads it or refuses it by field; nothing else ever comes out."""

import json

from agent_memory.domain.errors import RefusedInputError
from agent_memory.domain.events import run_ended, run_ids
from agent_memory.domain.intake import event_of, refusal
from agent_memory.domain.keys import agent_key, run_entry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.builders import NOW, a_detail, an_event

texts = st.text(alphabet=st.characters(), max_size=30) | st.sampled_from(
    ["", " ", "a#b", "\ud800", "\x00", "2027", "1e9"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
fields = st.sampled_from(
    ["tenant_id", "agent_id", "run_id", "ended_at", "task", "task_type", "domain", "user_id", "outcome", "transcript",
     "artifacts", "memory", "procedure", "schema_version"]
)  # fmt: skip
identifiers = st.from_regex(r"[A-Za-z0-9._:@-]{1,20}", fullmatch=True).filter(lambda text: text.strip("."))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(fields, values, max_size=6))
def test_an_event_is_read_or_refused_and_what_is_read_can_be_stored(changes: dict[str, object]) -> None:
    event = an_event(a_detail() | changes)
    try:
        ended = run_ended(event, run_ids(event), now=NOW)
    except RefusedInputError as error:
        json.dumps([error.field, error.rule]).encode()
        return
    assert ended.ended_at <= NOW
    held = ended.model_dump(exclude={"user_id"})
    json.dumps(held, allow_nan=False, ensure_ascii=False).encode("utf-8")


@given(st.text(max_size=200) | values.map(json.dumps))
def test_any_body_can_be_taken_apart_or_refused(body: str) -> None:
    try:
        run_ids(event_of(body))
    except RefusedInputError as error:
        json.dumps(refusal(error, body)).encode("ascii")


@given(st.tuples(identifiers, identifiers), st.tuples(identifiers, identifiers))
def test_two_different_pairs_of_ids_never_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (agent_key(*one) == agent_key(*other)) == (one == other)
    assert (run_entry(*one) == run_entry(*other)) == (one == other)
