"""Isolation a second time: whatever an adapter of a tenant is asked for, it names that tenant's keys or refuses.

Every public method of every store of a tenant is called with ids that reach for another one, and every request that leaves
for AWS is looked at: a key, a prefix or a condition of somebody else's is a defect, whatever IAM would say to it.
"""

import enum
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np
import pydantic
import pytest
from agent_memory import contract
from agent_memory.domain.errors import AgentMemoryError
from agent_memory.wiring_tenant import TenantServices
from support.aws import AwsAccount, an_aws_account

OWN = "bay"
OTHERS = ("bay-2", "ba", "bayou", "cove")
PARTITIONS = (
    contract.EPISODES_PARTITION_KEY, contract.FACTS_PARTITION_KEY, contract.LEDGER_PARTITION_KEY,
    contract.PROCEDURES_PARTITION_KEY, contract.USER_KEY, contract.PENDING_KEY, contract.PROCEDURE_KEY,
    contract.REVIEW_KEY,
)  # fmt: skip
HOSTILE = (
    "cove#agent", "../cove/agent", "..", "cove/agent", "%23", "cove%23agent", "*", "", "registry", "~runs",
    "bay#cove", "cove\uff03agent", "co\u0301ve", "archive/cove/x", "parked/cove/agent/run/claim.json.gz",
    "semantic-memory/cove/d/f.txt", "~runs/cove/agent/run/claim.json.gz",
    "s3://agent-memory-transcripts-test-123456789012/cove/a/r.json",
)  # fmt: skip
STORES = (
    "episodes", "episode_shelf", "archive", "episode_dates", "agent_notes", "ledger", "quarantine", "regressions",
    "prefetches", "facts", "procedures", "documents", "claims", "episode_changes", "fact_counts", "fact_shelf",
    "reducible_facts",
)  # fmt: skip


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as account:
        yield account


def keys_in(params: Mapping[str, Any]) -> Iterator[str]:
    """Every key of an item or object, every prefix and every value of a condition on a key in a request."""
    yield from (str(params[name]) for name in ("Key", "Prefix") if isinstance(params.get(name), str))
    if isinstance(params.get("CopySource"), Mapping):
        yield str(params["CopySource"]["Key"])
    yield from _keys_of_items(params)
    condition = str(params.get("KeyConditionExpression", ""))
    names = params.get("ExpressionAttributeNames", {})
    for name, attribute in names.items():
        if attribute in PARTITIONS and f"{name} = " in condition:
            value = condition.split(f"{name} = ")[1].split()[0]
            yield params["ExpressionAttributeValues"][value]["S"]


def _keys_of_items(held: Any) -> Iterator[str]:
    """The keys of items, however deep a request holds them; what an item tells of others is no key of it."""
    if isinstance(held, list | tuple):
        for inner in held:
            yield from _keys_of_items(inner)
    elif isinstance(held, Mapping):
        keys = [name for name in PARTITIONS if isinstance(held.get(name), Mapping)]
        if contract.LEDGER_PARTITION_KEY in keys:
            keys = [contract.LEDGER_PARTITION_KEY]
        yield from (str(held[name]["S"]) for name in keys)
        if not keys:
            for inner in held.values():
                yield from _keys_of_items(inner)


def is_own(key: str) -> bool:
    """Whether *key* is one of the tenant's own: by its first part, or by the one after the folder it lies in."""
    if "#" in key and "/" not in key.partition("#")[0]:
        return key.partition("#")[0] == OWN
    parts = key.split("/")
    folders = (contract.WORK_ROOT, "parked", contract.KNOWLEDGE_PREFIX.rstrip("/"), contract.ARCHIVE_PREFIX.rstrip("/"))
    tenant = parts[1] if parts[0] in folders and len(parts) > 1 else parts[0]
    return tenant == OWN and ".." not in parts


def made(annotation: Any, word: str, name: str = "") -> Any:
    """A value of *annotation* whose every text reaches for somebody else."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, UnionType):
        return made(next(one for one in inner if one is not type(None)), word, name)
    if origin is typing.Annotated:
        return np.ones(4, dtype=np.float32) / 2 if "ndarray" in str(inner[0]) else made(inner[0], word, name)
    if origin is typing.Literal:
        return inner[0]
    if origin is tuple:
        return tuple(made(one, word, name) for one in inner if one is not Ellipsis)
    if origin is not None and issubclass(origin, Mapping):
        return {"expires_at": 1} if name in ("before", "after") else {}
    if origin is not None and origin is not Callable:
        return [made(inner[0], word, name)] if inner else []
    return _plain(annotation, word, name)


def _plain(annotation: Any, word: str, name: str) -> Any:
    if not inspect.isclass(annotation):
        return word
    if issubclass(annotation, enum.Enum):
        return next(iter(annotation))
    if issubclass(annotation, pydantic.BaseModel):
        hints = typing.get_type_hints(annotation, include_extras=True)
        values = {field: made(hints[field], word, field) for field in annotation.model_fields}
        if "tenant_id" in values and word in HOSTILE:
            values["tenant_id"] = "cove"
        return annotation.model_construct(**values)
    if issubclass(annotation, bool | int | float):
        return annotation(1)
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        hints = typing.get_type_hints(annotation, include_extras=True)
        return annotation(*(made(hints[field], word, field) for field in annotation._fields))
    if issubclass(annotation, bytes):
        return word.encode()
    return word


def methods(store: object) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    for name, method in inspect.getmembers(store, callable):
        if name.startswith("_"):
            continue
        try:
            hints = typing.get_type_hints(method, include_extras=True)
        except NameError:
            hints = {}
        taken = inspect.signature(method).parameters
        yield name, method, {one: hints.get(one, str) for one in taken}


def store_of(account: AwsAccount, tenant: TenantServices, name: str) -> object:
    """A store of the tenant; some are told where domains to ingest are noted."""
    found = getattr(tenant, name)
    return found(account.services.dirty) if inspect.ismethod(found) else found


def walked(store: object, word: str, sent: list[str]) -> dict[str, str]:
    """What became of each method: `asked`, `refused`, or the name of another error."""
    became = {}
    for name, method, hints in methods(store):
        before = len(sent)
        try:
            found = method(**{one: made(hint, word, one) for one, hint in hints.items()})
            if inspect.isgenerator(found):
                list(found)
            became[name] = "asked"
        except AgentMemoryError:
            became[name] = "refused"
        except Exception as error:  # what a malformed argument meets first
            became[name] = "asked" if len(sent) > before else f"{type(error).__name__}: {error}"
    return became


@pytest.mark.parametrize("store", STORES)
def test_no_store_of_a_tenant_names_a_key_of_another(account: AwsAccount, store: str) -> None:
    tenant = account.services.tenant(OWN)
    sent: list[str] = []
    for service in ("dynamodb", "s3"):
        client = account.services.sessions.client(OWN, service)
        client.meta.events.register(
            f"provide-client-params.{service}.*", lambda params, **_: sent.extend(keys_in(params))
        )
    outcomes: dict[str, set[str]] = {}
    for word in (*HOSTILE, *OTHERS):
        for name, became in walked(store_of(account, tenant, store), word, sent).items():
            outcomes.setdefault(name, set()).add(became)
    assert [key for key in sent if not is_own(key)] == []
    # A method that nothing was asked through, and that refused nothing, was not looked at.
    assert {name: seen for name, seen in outcomes.items() if not seen & {"asked", "refused"}} == {}
    assert len(sent) > len(HOSTILE)


def test_the_walk_covers_every_store_that_a_tenant_has(account: AwsAccount) -> None:
    held = {name for name in dir(TenantServices) if not name.startswith("_")} - {"tenant_id"}
    assert held == set(STORES)


def test_a_key_of_another_tenant_is_seen_where_one_leaves() -> None:
    for key in (
        "cove#agent",
        "bay-2#agent",
        "parked/cove/x",
        "semantic-memory/bay-2/d/f",
        "~runs/cove/a",
        "cove/a/r",
        "",
    ):
        assert not is_own(key), key
    for key in ("bay#agent", "parked/bay/a/r", "~runs/bay/a/r/claim", "archive/bay/n/x", "bay/a/r/upload"):
        assert is_own(key), key
    nested = {"TransactItems": [{"Put": {"Item": {"agent_id": {"S": "cove#agent"}}}}]}
    assert list(keys_in(nested)) == ["cove#agent"]
    assert list(keys_in({"Bucket": "b", "Prefix": "parked/cove/"})) == ["parked/cove/"]
