"""The rule that agentcoreMemories must keep: the functions hold it to the same one, tests/stacks compares both."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from agent_memory.contract import CANARY_TENANTS
from aws_cdk import region_info

from stacks.rules import DeploymentError

if TYPE_CHECKING:
    from stacks.settings import Deployment

KEY: Final = "agentcoreMemories"
# Of Lambda's 4 KB of variables.
MAX_CHARACTERS: Final = 1_800
TYPES: Final = ("episodic", "semantic", "preferences", "summaries", "reflections")
_FIELDS = {"memory_id", "tenant_id", "namespaces", "strategies", "retention", "region"}
_PLACE = ("memory_id", "namespaces", "region", "tenant_id")
_MEMORY = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,99}-[a-zA-Z0-9]{10}")
_TENANT = re.compile(r"(?!\.*$)(?!registry$)[A-Za-z0-9._:@-]{1,128}")
_NAMESPACE = re.compile(r"/(?:[a-zA-Z0-9_/-]*(?::[a-zA-Z0-9_/-]+)*/)?")
_STRATEGY = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}")
_REGION = re.compile(r"([a-z]{2}(-[a-z]+)+-\d)?")
_DAYS = range(1, 3651)


def memories_can_be_kept(d: "Deployment") -> None:
    """Every entry names a memory, namespaces that end in their delimiter and lie apart, and days that can be."""
    if len(d.agentcore_memories) > MAX_CHARACTERS:
        raise DeploymentError(KEY, d.agentcore_memories, f"must be at most {MAX_CHARACTERS} characters of JSON")
    names: set[str] = set()
    spaces: dict[tuple[str, str], list[str]] = {}
    for number, entry in enumerate(d.agentcore_entries, 1):
        fault = _fault(entry)
        if fault:
            raise DeploymentError(KEY, entry, f"entry {number}: {fault}")
        name = entry.get("tenant_id") or entry["memory_id"]
        if name in names:
            raise DeploymentError(KEY, entry, f"entry {number}: {name} stands there twice; give each its tenant_id")
        names.add(name)
        mine = spaces.setdefault((entry["memory_id"], entry.get("region", "")), [])
        mine += entry["namespaces"]
        if _overlap(mine):
            raise DeploymentError(KEY, entry, f"entry {number}: its namespaces lie inside each other or another's")


def for_erasures(d: "Deployment") -> dict[str, str]:
    """What erasures are told of AgentCore: which memories and namespaces are whose, without days, the bucket, and where
    reports of reads wait that could not be kept."""
    if not d.agentcore_entries:
        return {"agentcoreReadsDeadLetters": ""}
    places = [{name: one[name] for name in _PLACE if one.get(name)} for one in d.agentcore_entries]
    text = json.dumps(places, sort_keys=True, separators=(",", ":"))
    letters = d.names.queue_url("agentcore-reads-dead-letters")
    return {
        "agentcoreMemories": text,
        "agentcoreBucket": d.names.agentcore_bucket,
        "agentcoreReadsDeadLetters": letters,
    }


def memories_by_tenant(entries: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The memory of each tenant that an entry names one for."""
    return {one.get("tenant_id") or one["memory_id"]: one["memory_id"] for one in entries}


def _fault(entry: object) -> str:
    if not isinstance(entry, dict):
        return "must be an object with memory_id and namespaces"
    if set(entry) - _FIELDS:
        return f"has no field {sorted(set(entry) - _FIELDS)[0]}; known are {', '.join(sorted(_FIELDS))}"
    if not _texts(_MEMORY, [entry.get("memory_id")]):
        return "memory_id must be the id of a memory, NAME-XXXXXXXXXX"
    tenant = entry.get("tenant_id", "")
    if tenant != "" and not _texts(_TENANT, [tenant]):
        return "tenant_id must be 1 to 128 of A-Z a-z 0-9 . _ : @ -, not dots alone, not registry"
    if tenant in CANARY_TENANTS:
        return "tenant_id must not be one of the canary's"
    spaces = entry.get("namespaces")
    if not isinstance(spaces, list) or not 1 <= len(spaces) <= 100 or not _texts(_NAMESPACE, spaces):
        return "namespaces must be 1 to 100 that begin and end in / and hold no * (/a would also find /ab)"
    return _faulty_days(entry.get("strategies", {}), entry.get("retention", {})) or _faulty_region(entry)


def _faulty_days(strategies: object, retention: object) -> str:
    if not isinstance(strategies, Mapping) or not _texts(_STRATEGY, strategies):
        return "strategies must name the type of records by the id of a strategy"
    if any(kind not in TYPES for kind in strategies.values()):
        return f"strategies must be of the types {', '.join(TYPES)}"
    if not isinstance(retention, Mapping) or not _texts(_STRATEGY, retention):
        return "retention must name days by the id of a strategy or by type"
    if any(isinstance(days, bool) or days not in _DAYS for days in retention.values()):
        return "retention must be 1 to 3650 days"
    return _days_of_nothing(strategies, retention)


def _days_of_nothing(strategies: Mapping[str, object], retention: Mapping[str, object]) -> str:
    """Days that no record would be kept by, while their author thinks so."""
    for name in retention:
        if name in TYPES and name not in strategies.values():
            return f"retention names {name}, but strategies names none that writes it: its days would hold for nothing"
        if name not in TYPES and name not in strategies and difflib.get_close_matches(name, TYPES, n=1, cutoff=0.8):
            [near] = difflib.get_close_matches(name, TYPES, n=1, cutoff=0.8)
            return f"retention names {name}, which is no type and no strategy of this entry; did you mean {near}"
    return ""


def _faulty_region(entry: Mapping[str, object]) -> str:
    region = entry.get("region", "")
    if not _texts(_REGION, [region]):
        return "region must be one of AWS, like eu-west-1"
    known = region_info.RegionInfo.regions
    if not region or any(one.name == region for one in known):
        return ""
    near = difflib.get_close_matches(str(region), [one.name for one in known], n=1)
    return f"region must be one of AWS{f'; did you mean {near[0]}' if near else ''}"


def _texts(pattern: re.Pattern[str], values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and pattern.fullmatch(value) and len(value) <= 1024 for value in values)


def _overlap(prefixes: Iterable[str]) -> bool:
    return any(after.startswith(before) for before, after in pairwise(sorted(prefixes)))
