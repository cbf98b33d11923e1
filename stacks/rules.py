"""The rules that a deployment must keep, each refusing with one line that names key, value and rule."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

if TYPE_CHECKING:
    from stacks.settings import Deployment

ENVIRONMENTS: Final = ("dev", "staging", "prod", "local")
WEIGHTS: Final = {"wRecency": 0.4, "wAccess": 0.35, "wFrequency": 0.25}
# Kinds of agents and how long their memories live: (pruneDays, memoryTtlDays).
PRESETS: Final = {
    "support": (7, 30),
    "sales": (21, 60),
    "general": (45, 90),
    "operations": (90, 180),
    "legal": (180, 365),
}
# The adapter speaks the body of Titan v2; the model of the laptop runtime answers to the same body.
EMBEDDING_DIMENSIONS: Final = {
    "amazon.titan-embed-text-v2:0": (256, 512, 1024),
    "local.all-minilm-l6-v2": (384,),
}
_OWN_SECTION = "envs"
_KEYS_OF_CDK = ("acknowledged-issue-numbers", "notices", "cli-telemetry", "tree-metadata")


class DeploymentError(ValueError):
    """The deployment asked for can't be: one line, fit for stderr."""

    def __init__(self, key: str, value: object, rule: str) -> None:
        super().__init__(f"{key}: {rule}, got {_shown(value)}")
        self.key = key


def as_line(error: ValidationError, asked: Mapping[str, Any]) -> DeploymentError:
    """The first finding of *error* as one line with key, value and rule."""
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    rule = str(first["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    rule = rule.replace("String should match", "must match")
    return DeploymentError(key, asked.get(key), rule)


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False)[:120]
    except (TypeError, ValueError):
        return ascii(str(value))[:120]


def is_of_cdk(key: str) -> bool:
    """Whether a context key belongs to CDK itself (feature flags, look-ups, switches) or holds the environments."""
    return key == _OWN_SECTION or key in _KEYS_OF_CDK or ":" in key or "/" in key or key.startswith(("@", "cdk-"))


def environment_of(context: Mapping[str, Any], environments: Mapping[str, Any]) -> str:
    """The environment asked for; none given: dev. A misspelt one never falls through to anything."""
    asked = context.get("env", "dev")
    if asked not in ENVIRONMENTS or asked not in environments:
        raise DeploymentError("env", asked, f"must be one of {', '.join(ENVIRONMENTS)}")
    return str(asked)


def refuse_unknown(asked: Iterable[str], known: Iterable[str]) -> None:
    """A misspelt key must not deploy the default in its place."""
    for key in asked:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}" if near else ""
            raise DeploymentError(key, _value_of(asked, key), f"is not a setting{hint}")


def _value_of(asked: Iterable[str], key: str) -> object:
    return asked.get(key) if isinstance(asked, Mapping) else None


def preset_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the preset under what is asked for by itself."""
    name = asked.get("preset", "general")
    if name not in PRESETS:
        raise DeploymentError("preset", name, f"must be one of {', '.join(PRESETS)}")
    prune_days, ttl_days = PRESETS[name]
    return {"pruneDays": prune_days, "memoryTtlDays": ttl_days, **asked}


def weights_of(asked: Mapping[str, Any]) -> dict[str, float]:
    """The weights not asked for share what the others leave, in the proportion of their defaults."""
    given = {key: asked[key] for key in WEIGHTS if key in asked}
    try:
        rest = 1 - sum(float(value) for value in given.values())
    except (TypeError, ValueError):
        return {}
    open_keys = [key for key in WEIGHTS if key not in given]
    if not given or not open_keys or not 0 <= rest <= 1:
        return {}
    whole = sum(WEIGHTS[key] for key in open_keys)
    return {key: round(rest * WEIGHTS[key] / whole, 9) for key in open_keys}


def weights_sum_to_one(d: "Deployment") -> None:
    total = d.w_recency + d.w_access + d.w_frequency
    if not math.isclose(total, 1, abs_tol=1e-6):
        shown = f"{d.w_recency} + {d.w_access} + {d.w_frequency} = {total:g}"
        raise DeploymentError("wRecency + wAccess + wFrequency", shown, "must sum to 1")


def threshold_can_be_crossed(d: "Deployment") -> None:
    """Below .01 rounding decides; from the sum of the decaying weights on, every memory is due when it is written."""
    ceiling = d.w_recency + d.w_access
    if not 0.01 <= d.relevance_threshold < ceiling:
        rule = f"must be at least 0.01 and below wRecency + wAccess = {ceiling:g}"
        raise DeploymentError("relevanceThreshold", d.relevance_threshold, rule)


def dimensions_fit_the_model(d: "Deployment") -> None:
    sizes = EMBEDDING_DIMENSIONS.get(d.embedding_model_id)
    if sizes is None:
        raise DeploymentError(
            "embeddingModelId", d.embedding_model_id, f"must be one of {', '.join(EMBEDDING_DIMENSIONS)}"
        )
    if d.embedding_dimensions not in sizes:
        rule = f"must be {' or '.join(map(str, sizes))}, which {d.embedding_model_id} gives"
        raise DeploymentError("embeddingDimensions", d.embedding_dimensions, rule)


def production_keeps_its_data(d: "Deployment") -> None:
    if d.env == "prod" and not d.retain_data:
        raise DeploymentError("retainData", d.retain_data, "must be true in prod")
    if d.env == "prod" and not d.deletion_protection:
        raise DeploymentError("deletionProtection", d.deletion_protection, "must be true in prod")
    if d.env == "prod" and not d.pitr_days:
        raise DeploymentError("pitrDays", d.pitr_days, "must be 1 to 35 in prod")
    if d.retain_data and d.empty_on_destroy:
        raise DeploymentError("emptyOnDestroy", d.empty_on_destroy, "must be false where retainData is true")


def messages_fit_the_ceiling(d: "Deployment") -> None:
    # A task and a summary stay beside the newest, so a smaller distance would compress at every step.
    if not d.keep_messages + 3 <= d.compress_from_messages <= d.max_messages:
        shown = f"{d.keep_messages}, {d.compress_from_messages}, {d.max_messages}"
        rule = "must rise: keepMessages + 3 <= compressFromMessages <= maxMessages"
        raise DeploymentError("keepMessages, compressFromMessages, maxMessages", shown, rule)


def removal_shares_are_ordered(d: "Deployment") -> None:
    if d.max_removed_share > d.max_removed_share_ceiling:
        rule = f"must be at most maxRemovedShareCeiling = {d.max_removed_share_ceiling:g}"
        raise DeploymentError("maxRemovedShare", d.max_removed_share, rule)


def knowledge_base_is_named_whole(d: "Deployment") -> None:
    if bool(d.knowledge_base_id) != bool(d.data_source_id):
        shown = f"{d.knowledge_base_id}, {d.data_source_id}"
        raise DeploymentError("knowledgeBaseId, dataSourceId", shown, "must be given together, or neither")


def episode_index_is_built(d: "Deployment") -> None:
    # Neither the table's index nor a search by it exists; a deployment that asks for them must not run without.
    if d.episode_index != "exact":
        rule = "must be exact: the vector index over episodes is not built; raise maxEpisodesPerAgent for busy agents"
        raise DeploymentError("episodeIndex", d.episode_index, rule)


def unread_days(d: "Deployment") -> float:
    """Days after which a memory that nobody reads falls below the threshold."""
    if d.decay_calibration == "exact":
        return d.prune_days
    rate = -math.log(d.relevance_threshold) / d.prune_days
    return math.log((d.w_recency + d.w_access) / d.relevance_threshold) / rate


def warnings(d: "Deployment") -> list[str]:
    """What is allowed and probably not meant, each a sentence."""
    found = []
    if d.relevance_threshold <= d.w_frequency:
        found.append(
            f"relevanceThreshold {d.relevance_threshold:g} is not above wFrequency {d.w_frequency:g}: "
            "a memory that was read often never decays"
        )
    if unread_days(d) > d.memory_ttl_days:
        found.append(
            f"memoryTtlDays {d.memory_ttl_days} ends before an unread memory decays ({unread_days(d):.1f} days): "
            "expiry, not relevance, decides"
        )
    if d.parked_alarm_days >= d.parked_days:
        found.append(
            f"parkedAlarmDays {d.parked_alarm_days} is not below parkedDays {d.parked_days}: "
            "a parked run is given up before the alarm"
        )
    if d.env == "prod" and not d.alarm_email:
        found.append("alarmEmail is not set: subscribe somebody to the alarms topic by hand")
    return found
