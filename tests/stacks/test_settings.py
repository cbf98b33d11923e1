"""What a deployment may ask for, and how it is told no."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent_memory.settings import Settings, settings_from
from hypothesis import given
from hypothesis import strategies as st
from support.deployments import a_deployment

from app import context_of, main
from stacks import rules
from stacks.function_keys import RUNTIME_KEYS
from stacks.rules import DeploymentError
from stacks.settings import KEYS, Deployment

ROOT = Path(__file__).parents[2]
NAMED_IN_THE_DESIGN = """memoryTtlDays relevanceThreshold consolidationBatchSize pruneDays bedrockModelId wRecency
wAccess wFrequency maxAccessBaseline summaryTtlDays semanticTtlDays failedRetentionDays maxEpisodesPerAgent
confirmationThreshold requireDistinctUsers minFactConfidence runMinConfidence procedureMinUses procedureMinSuccess
procedureStaleDays procedureTrialShare parkedDays undoDays maxRemovedShare distiller episodeIndex callerAuth
piiUnsupportedLanguage guardrailId scrubTranscript decayCalibration dueShards"""

NAMED_BY_THE_DEPLOYMENT = {
    "canary_role",
    "refused_queue", "consolidation_machine", "ingestion_machine", "archive_bucket", "lifecycle_machine",
    "summarise_model_id", "bedrock_model_id", "knowledge_base_id", "data_source_id",
    "erasure_machine", "erasure_role", "receipts_bucket", "receipt_key", "intake_dead_letters",
    "retrievals_dead_letters", "pitr_days",
}  # fmt: skip


def test_every_key_of_the_design_is_a_setting() -> None:
    assert set(KEYS) >= set(NAMED_IN_THE_DESIGN.split())


def test_defaults_are_those_of_the_product() -> None:
    d = a_deployment()
    assert d.env == "dev"
    assert (d.memory_ttl_days, d.failed_retention_days, d.prune_days, d.relevance_threshold) == (90, 7, 45, 0.3)
    assert (d.w_recency, d.w_access, d.w_frequency, d.max_access_baseline) == (0.4, 0.35, 0.25, 50)
    assert d.warnings() == []


def test_the_functions_read_exactly_what_the_stacks_tell_them() -> None:
    deployment = a_deployment(env="prod", pruneDays="21.5", scrubTranscript="true", maxEpisodes="0")
    told = deployment.runtime_environment() | deployment.erasure_environment()
    read = settings_from(told)
    assert (read.environment, read.prune_days, read.scrub_transcript, read.max_episodes) == ("prod", 21.5, True, 0)
    assert {f"AGENT_MEMORY_{name.upper()}" for name in Settings.model_fields} == set(told)


def test_the_functions_default_to_what_the_stacks_default_to() -> None:
    deployment = a_deployment()
    told = settings_from(deployment.runtime_environment() | deployment.erasure_environment())
    alone = Settings.model_construct()
    for name, field in Settings.model_fields.items():
        if not field.is_required() and name not in NAMED_BY_THE_DEPLOYMENT:
            assert getattr(told, name) == getattr(alone, name), name


def test_the_variables_of_a_function_fit_lambda() -> None:
    told = a_deployment(sharedAgents=json.dumps({"a" * 100: ["b" * 100]})).function_environment()
    assert sum(len(key) + len(value) for key, value in told.items()) < 3500


@pytest.mark.parametrize("context", [{"env": "prod"}, {"env": "local"}, {"pruneDays": "21", "distiller": "agent"}])
def test_a_function_that_is_told_less_reads_the_same(context: dict[str, object]) -> None:
    deployment = a_deployment(**context)
    less, all_of_it = deployment.function_environment(), deployment.runtime_environment()
    # A looked-up id is another token each time.
    ids = {key: "x" for key in all_of_it if key.endswith(("KNOWLEDGE_BASE_ID", "DATA_SOURCE_ID"))}
    assert settings_from(less | ids) == settings_from(all_of_it | ids)


@pytest.mark.parametrize(
    ("context", "key", "rule"),
    [
        ({"env": "prd"}, "env", "dev, staging, prod, local"),
        ({"env": "Production"}, "env", "dev, staging, prod, local"),
        ({"env": ""}, "env", "dev, staging, prod, local"),
        ({"prunDays": "3"}, "prunDays", "did you mean pruneDays"),
        ({"pruneDays": "0"}, "pruneDays", "greater than 0"),
        ({"pruneDays": "NaN"}, "pruneDays", "finite"),
        ({"pruneDays": "soon"}, "pruneDays", "number"),
        ({"memoryTtlDays": ""}, "memoryTtlDays", "integer"),
        ({"memoryTtlDays": None}, "memoryTtlDays", "integer"),
        ({"memoryTtlDays": True}, "memoryTtlDays", "true or false"),
        ({"memoryTtlDays": "30.5"}, "memoryTtlDays", "integer"),
        ({"memoryTtlDays": "-1"}, "memoryTtlDays", "greater than or equal to 1"),
        ({"relevanceThreshold": "0"}, "relevanceThreshold", "greater than 0"),
        ({"relevanceThreshold": "1"}, "relevanceThreshold", "less than 1"),
        ({"relevanceThreshold": "0.005"}, "relevanceThreshold", "at least 0.01"),
        ({"relevanceThreshold": "0.75"}, "relevanceThreshold", "below wRecency + wAccess"),
        ({"wRecency": "0.9", "wAccess": "0.9"}, "wRecency", "sum to 1"),
        ({"wRecency": "0.5", "wAccess": "0.3", "wFrequency": "0.1"}, "wRecency", "sum to 1"),
        ({"wRecency": "1.5"}, "wRecency", "less than or equal to 1"),
        ({"embeddingDimensions": "1536"}, "embeddingDimensions", "256 or 512 or 1024"),
        ({"embeddingModelId": "some.other-model"}, "embeddingModelId", "amazon.titan-embed-text-v2:0"),
        ({"tiersByTaskType": "[]"}, "tiersByTaskType", "JSON object"),
        ({"distiller": "llm"}, "distiller", "'model', 'agent' or 'extractive'"),
        ({"preset": "shop"}, "preset", "support"),
        ({"logRetentionDays": "2"}, "logRetentionDays", "731"),
        ({"env": "prod", "retainData": "false"}, "retainData", "true in prod"),
        ({"env": "prod", "deletionProtection": "false"}, "deletionProtection", "true in prod"),
        ({"env": "prod", "pitrDays": "0"}, "pitrDays", "1 to 35 in prod"),
        ({"retainData": "true"}, "emptyOnDestroy", "false where retainData is true"),
        ({"keepMessages": "40"}, "keepMessages", "must rise"),
        ({"maxRemovedShare": "0.9"}, "maxRemovedShare", "maxRemovedShareCeiling"),
        ({"bedrockModelId": "x\ny"}, "bedrockModelId", "pattern"),
        ({"knowledgeBaseId": "KB/1"}, "knowledgeBaseId", "pattern"),
        ({"knowledgeBaseId": "KBGIVEN001"}, "knowledgeBaseId", "given together"),
        ({"dataSourceId": "DSGIVEN001"}, "knowledgeBaseId", "given together"),
        ({"ingestionMinutes": "-1"}, "ingestionMinutes", "greater than or equal to 0"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused_in_one_line(context: dict[str, object], key: str, rule: str) -> None:
    with pytest.raises(DeploymentError) as refused:
        a_deployment(**context)
    line = str(refused.value)
    assert line.startswith(key)
    assert rule in line
    assert "\n" not in line
    assert ", got " in line


def test_synth_stops_with_one_line_and_no_traceback() -> None:
    result = subprocess.run(
        [sys.executable, "app.py", "-c", "env=dev", "-c", "pruneDays=0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == 'agent-memory: pruneDays: must be greater than 0, got "0"\n'
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [["env=dev"], ["-c"], ["-c", "env"], ["-c", "=dev"], ["--env", "dev"]])
def test_arguments_that_are_not_pairs_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert "pairs of -c key=value" in capsys.readouterr().err


def test_a_value_may_hold_an_equals_sign() -> None:
    assert context_of(["-c", 'sharedAgents={"a":["b=c"]}']) == {"sharedAgents": '{"a":["b=c"]}'}


@pytest.mark.parametrize(
    "key",
    [
        "@aws-cdk/aws-iam:minimizePolicies",
        "aws:cdk:bundling-stacks",
        "cdk-nag",
        "availability-zones:account=1:region=x",
    ],
)
def test_keys_of_cdk_itself_pass(key: str) -> None:
    assert a_deployment(**{key: "x"}) == a_deployment()


@pytest.mark.parametrize(("preset", "days"), rules.PRESETS.items())
def test_a_preset_sets_days_and_what_is_asked_for_wins(preset: str, days: tuple[int, int]) -> None:
    d = a_deployment(preset=preset)
    assert (d.prune_days, d.memory_ttl_days) == days
    assert a_deployment(preset=preset, pruneDays="9").prune_days == 9


def test_no_preset_lets_an_unread_memory_outlive_its_ttl() -> None:
    for preset in rules.PRESETS:
        assert a_deployment(preset=preset).warnings() == []


def test_unlikely_settings_are_warned_about() -> None:
    assert "never decays" in a_deployment(relevanceThreshold="0.25").warnings()[0]
    assert "expiry, not relevance" in a_deployment(memoryTtlDays="30").warnings()[0]
    assert "alarmEmail" in a_deployment(env="prod").warnings()[0]
    assert a_deployment(env="prod", alarmEmail="ops@example.com").warnings() == []


def test_an_unread_memory_lasts_as_the_readme_says() -> None:
    assert round(rules.unread_days(a_deployment()), 1) == 34.2
    assert rules.unread_days(a_deployment(decayCalibration="exact")) == 45


@given(
    st.dictionaries(
        st.sampled_from(["wRecency", "wAccess", "wFrequency"]), st.integers(1, 45).map(lambda n: n / 100), max_size=2
    )
)
def test_weights_not_asked_for_share_what_is_left(given_weights: dict[str, float]) -> None:
    asked = {key: str(value) for key, value in given_weights.items()}
    d = a_deployment(**asked, relevanceThreshold="0.01")
    assert math.isclose(d.w_recency + d.w_access + d.w_frequency, 1, abs_tol=1e-6)
    for key, value in given_weights.items():
        assert getattr(d, re.sub("[A-Z]", lambda m: f"_{m.group().lower()}", key)) == value


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_arrives_as_text_as_well_as_typed(key: str) -> None:
    name = next(name for name, field in Deployment.model_fields.items() if field.alias == key)
    default = getattr(a_deployment(), name)
    base = {"wRecency": "0.4", "wAccess": "0.35", "wFrequency": "0.25"}
    text = json.dumps(default) if isinstance(default, bool) else str(default)
    assert a_deployment(**{**base, key: text}) == a_deployment(**{**base, key: default})


def test_runtime_keys_are_settings() -> None:
    assert set(RUNTIME_KEYS) <= set(KEYS)


@pytest.mark.parametrize(
    ("region", "profile"),
    [("eu-west-1", "eu."), ("us-west-2", "us."), ("ap-southeast-2", "au."), ("ap-northeast-1", "jp."), ("", "us.")],
)
def test_the_model_profile_belongs_to_the_region_deployed_to(
    region: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import _with_geography

    monkeypatch.setenv("CDK_DEFAULT_REGION", region)
    assert a_deployment(**_with_geography({"env": "dev"})).distil_model == f"{profile}anthropic.claude-sonnet-5"
    assert a_deployment(**_with_geography({"bedrockGeo": "global"})).distil_model.startswith("global.")


def test_nothing_expires_before_a_night_could_archive_it() -> None:
    with pytest.raises(DeploymentError, match="archiveBeforeExpiryHours"):
        a_deployment(archiveBeforeExpiryHours=23)
    assert a_deployment(archiveBeforeExpiryHours=24).archive_before_expiry_hours == 24


def test_a_vector_index_over_episodes_is_refused_because_it_is_not_built() -> None:
    with pytest.raises(DeploymentError, match=r"^episodeIndex: must be exact: .* is not built"):
        a_deployment(episodeIndex="vector")


def test_an_alarm_that_comes_after_the_parked_run_is_given_up_is_warned_of() -> None:
    [warning] = a_deployment(parkedDays=5).warnings()
    assert warning.startswith("parkedAlarmDays 7 is not below parkedDays 5")
    assert a_deployment(parkedDays=5, parkedAlarmDays=2).warnings() == []
