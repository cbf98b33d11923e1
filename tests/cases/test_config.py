"""Faults of configuration: what an operator types must mean what it says, or be refused."""

from typing import Any

import pytest
from agent_memory.contract import environment_variable
from agent_memory.settings import settings_from
from support.deployments import NO_BUNDLING, a_deployment, flat, functions, resources, templates

from app import build, committed_context, main
from stacks.rules import EMBEDDING_DIMENSIONS, DeploymentError
from stacks.settings import deployment_from


def variables(template: dict[str, Any]) -> dict[str, Any]:
    function = next(iter(resources(template, "AWS::Lambda::Function").values()))
    found: dict[str, Any] = function["Properties"]["Environment"]["Variables"]
    return found


@pytest.mark.case("cf-h01")
def test_numbers_typed_on_the_command_line_and_in_cdk_json_give_one_template() -> None:
    typed = {"env": "dev", "memoryTtlDays": 21, "pruneDays": 9.5, "wRecency": 0.15, "scrubTranscript": True}
    texts = {"env": "dev", "memoryTtlDays": "21", "pruneDays": " 9.5", "wRecency": ".15", "scrubTranscript": "true"}
    assert templates(typed) == templates(texts)
    told = variables(templates(texts)["access"])
    assert told[environment_variable("memoryTtlDays")] == "21"
    read = settings_from({key: value for key, value in told.items() if isinstance(value, str)} | stores())
    assert read.memory_ttl_days * 86_400 == 1_814_400
    assert (read.w_recency, read.prune_days, read.scrub_transcript) == (0.15, 9.5, True)


def stores() -> dict[str, str]:
    """The names that CloudFormation joins, as any text."""
    return {environment_variable(key): "x" for key in a_deployment().names.for_functions()}


@pytest.mark.case("cf-h01")
def test_a_value_from_the_section_of_the_environment_is_the_same_as_from_the_command_line() -> None:
    sections = committed_context()["envs"]
    in_file = {**sections, "dev": {**sections["dev"], "pruneDays": 12, "wFrequency": 0}}
    by_hand = {"pruneDays": "12", "wFrequency": "0"}
    assert deployment_from({}, in_file) == deployment_from(by_hand, sections)
    assert deployment_from({"pruneDays": "13"}, in_file).prune_days == 13


@pytest.mark.case("cf-h02")
@pytest.mark.parametrize("zero", ["0", "0.0", "-0", 0, 0.0])
def test_zero_stays_zero_on_its_way_to_the_functions(zero: object) -> None:
    for key in ("wRecency", "wFrequency", "failedRetentionDays", "piiMinScore", "maxEpisodes", "runMinConfidence"):
        if key not in {"wRecency", "wFrequency", "piiMinScore", "runMinConfidence"} and zero in ("0.0", "-0"):
            continue
        told = a_deployment(**{key: zero}).runtime_environment()
        read = settings_from(told).model_dump()
        name = environment_variable(key).removeprefix("AGENT_MEMORY_").lower()
        assert float(told[environment_variable(key)]) == 0
        assert read[name] == 0


@pytest.mark.case("cf-h02")
def test_without_recency_the_other_weights_carry_all() -> None:
    d = a_deployment(wRecency="0")
    assert d.w_recency == 0
    assert d.w_access + d.w_frequency == pytest.approx(1)


@pytest.mark.case("cf-h03")
@pytest.mark.parametrize("misspelt", ["prodd", "PROD", "prod ", "", "development", "live", "None"])
def test_a_misspelt_environment_never_falls_through(misspelt: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", f"env={misspelt}"]) == 1
    error = capsys.readouterr().err
    assert f'must be one of dev, staging, prod, local, got "{misspelt}"' in error
    assert error.count("\n") == 1


@pytest.mark.case("cf-h03")
@pytest.mark.parametrize("odd", [None, True, 1, ["prod"]])
def test_an_environment_that_is_not_text_is_refused(odd: object) -> None:
    with pytest.raises(DeploymentError, match="dev, staging, prod, local"):
        a_deployment(env=odd)


@pytest.mark.case("cf-h03")
def test_no_environment_is_dev_and_never_prod(tmp_path: Any) -> None:
    _, deployment = build(NO_BUNDLING, outdir=str(tmp_path))
    assert (deployment.env, deployment.retain_data) == ("dev", False)


@pytest.mark.case("cf-h03")
def test_prod_keeps_every_store_and_dev_none() -> None:
    for environment, policy in (("prod", "Retain"), ("dev", "Delete")):
        template = templates({"env": environment})["storage"]
        for kind in ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::SecretsManager::Secret"):
            found = resources(template, kind).values()
            assert {(r["DeletionPolicy"], r["UpdateReplacePolicy"]) for r in found} == {(policy, policy)}


@pytest.mark.case("cf-h03")
@pytest.mark.parametrize("key", ["retainData", "deletionProtection"])
def test_prod_cannot_be_talked_out_of_keeping_its_data(key: str) -> None:
    with pytest.raises(DeploymentError, match=f"{key}: must be true in prod"):
        a_deployment(env="prod", **{key: "false"})


@pytest.mark.case("cf-h07")
@pytest.mark.parametrize(("model", "sizes"), EMBEDDING_DIMENSIONS.items())
def test_a_dimension_that_the_model_does_not_give_stops_synth_naming_both(model: str, sizes: tuple[int, ...]) -> None:
    for size in sizes:
        assert a_deployment(embeddingModelId=model, embeddingDimensions=str(size)).embedding_dimensions == size
    with pytest.raises(DeploymentError) as refused:
        a_deployment(embeddingModelId=model, embeddingDimensions="768")
    assert "768" in str(refused.value)
    assert str(sizes[0]) in str(refused.value)


@pytest.mark.case("cf-h07")
def test_a_change_of_model_without_its_dimension_is_refused() -> None:
    with pytest.raises(DeploymentError, match=r"embeddingDimensions: must be 384.*got 512"):
        a_deployment(embeddingModelId="local.all-minilm-l6-v2")


@pytest.mark.case("cf-h07")
def test_reader_and_writer_are_told_one_model_and_one_dimension() -> None:
    told = set()
    for function in functions("prod").values():
        variables = {key: flat(value) for key, value in function["Environment"]["Variables"].items()}
        read = settings_from(variables)
        told.add((read.embedding_model_id, read.embedding_dimensions))
    assert told == {("amazon.titan-embed-text-v2:0", 512)}
