"""The Knowledge Base of confirmed facts, and how the rest of the house knows it."""

from typing import Any

import pytest
from agent_memory.settings import settings_from
from support.deployments import allow_statements, as_list, flat, functions, resources, templates

BUCKET = "arn:<AWS::Partition>:s3:::agent-memory-knowledge-prod-<AWS::AccountId>"
GIVEN = {"knowledgeBaseId": "KBGIVEN001", "dataSourceId": "DSGIVEN001"}


def knowledge(**context: object) -> dict[str, Any]:
    return templates({"env": "prod", **context})["knowledge"]


def the(kind: str, **context: object) -> dict[str, Any]:
    [resource] = resources(knowledge(**context), kind).values()
    properties: dict[str, Any] = resource["Properties"]
    return properties


def test_what_bedrock_keeps_beside_a_vector_is_not_filterable() -> None:
    """Filterable metadata may hold 2 KB: the text of a fact would fail its ingestion."""
    index = the("AWS::S3Vectors::Index")
    assert index["MetadataConfiguration"]["NonFilterableMetadataKeys"] == [
        "AMAZON_BEDROCK_TEXT",
        "AMAZON_BEDROCK_METADATA",
    ]
    assert (index["DistanceMetric"], index["DataType"]) == ("cosine", "float32")
    assert "IndexName" not in index


@pytest.mark.parametrize("dimensions", [256, 512, 1024])
def test_index_and_knowledge_base_and_functions_have_one_dimension(dimensions: int) -> None:
    context = {"embeddingDimensions": str(dimensions)}
    base = the("AWS::Bedrock::KnowledgeBase", **context)["KnowledgeBaseConfiguration"]
    embedding = base["VectorKnowledgeBaseConfiguration"]["EmbeddingModelConfiguration"]
    told = functions_of(templates({"env": "prod", **context})["consolidation"])
    assert the("AWS::S3Vectors::Index", **context)["Dimension"] == dimensions
    assert embedding["BedrockEmbeddingModelConfiguration"] == {
        "Dimensions": dimensions,
        "EmbeddingDataType": "FLOAT32",
    }
    read = [settings_from({key: flat(value) for key, value in variables.items()}) for variables in told]
    assert {settings.embedding_dimensions for settings in read} == {dimensions}


def functions_of(template: dict[str, Any]) -> list[dict[str, str]]:
    return [f["Properties"]["Environment"]["Variables"] for f in resources(template, "AWS::Lambda::Function").values()]


def test_the_knowledge_base_embeds_with_the_model_of_the_functions_into_the_index() -> None:
    base = the("AWS::Bedrock::KnowledgeBase")
    vectors = base["KnowledgeBaseConfiguration"]["VectorKnowledgeBaseConfiguration"]
    assert flat(vectors["EmbeddingModelArn"]).endswith("::foundation-model/amazon.titan-embed-text-v2:0")
    assert base["StorageConfiguration"] == {
        "Type": "S3_VECTORS",
        "S3VectorsConfiguration": {"IndexArn": {"Fn::GetAtt": ["Facts", "IndexArn"]}},
    }


def test_one_document_is_one_vector_and_only_facts_are_read() -> None:
    source = the("AWS::Bedrock::DataSource")
    place = source["DataSourceConfiguration"]["S3Configuration"]
    assert source["VectorIngestionConfiguration"]["ChunkingConfiguration"] == {"ChunkingStrategy": "NONE"}
    assert (flat(place["BucketArn"]), place["InclusionPrefixes"]) == (BUCKET, ["semantic-memory/"])
    assert source["DataDeletionPolicy"] == "RETAIN"


def test_the_role_is_lent_to_knowledge_bases_of_this_account_only() -> None:
    [trust] = the("AWS::IAM::Role")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "bedrock.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    source = flat(trust["Condition"]["ArnLike"]["aws:SourceArn"])
    assert source == "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:knowledge-base/*"


def test_the_role_reads_documents_and_keeps_vectors_and_nothing_else() -> None:
    found = {}
    for _, statement in allow_statements(knowledge()):
        for action in as_list(statement["Action"]):
            found[action] = flat(statement["Resource"])
            if action.startswith("s3:"):
                assert statement["Condition"] == {"StringEquals": {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    vectors = ("GetIndex", "QueryVectors", "PutVectors", "GetVectors", "DeleteVectors")
    assert found == {
        "bedrock:InvokeModel": "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0",
        "s3:ListBucket": BUCKET,
        "s3:GetObject": f"{BUCKET}/semantic-memory/*",
        **{f"s3vectors:{action}": "<Facts.IndexArn>" for action in vectors},
    }


def test_the_role_can_do_its_work_before_the_knowledge_base_is_made() -> None:
    [base] = resources(knowledge(), "AWS::Bedrock::KnowledgeBase").values()
    assert set(resources(knowledge(), "AWS::IAM::Policy")) <= set(base["DependsOn"])


@pytest.mark.parametrize(("environment", "policy"), [("prod", "Retain"), ("staging", "Retain"), ("dev", "Delete")])
def test_the_knowledge_base_outlives_the_stack_where_it_matters(environment: str, policy: str) -> None:
    template = knowledge(env=environment)
    for kind in (
        "AWS::S3Vectors::VectorBucket",
        "AWS::S3Vectors::Index",
        "AWS::Bedrock::KnowledgeBase",
        "AWS::Bedrock::DataSource",
    ):
        [store] = resources(template, kind).values()
        assert (store["DeletionPolicy"], store["UpdateReplacePolicy"]) == (policy, policy)


def test_a_key_of_the_owner_encrypts_vectors_and_is_lent_to_the_knowledge_base() -> None:
    key = "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0000-1111-2222-333344445555"
    template = knowledge(encryptionKeyArn=key)
    [bucket] = resources(template, "AWS::S3Vectors::VectorBucket").values()
    assert bucket["Properties"]["EncryptionConfiguration"] == {"SseType": "aws:kms", "KmsKeyArn": key}
    lent = [s for _, s in allow_statements(template) if s["Resource"] == key]
    assert [s["Action"] for s in lent] == [["kms:Decrypt", "kms:GenerateDataKey"]]


def test_the_other_stacks_look_its_ids_up_where_it_puts_them() -> None:
    rooms = templates({"env": "prod"})
    published = {p["Properties"]["Name"] for p in resources(rooms["knowledge"], "AWS::SSM::Parameter").values()}
    for room in ("consolidation", "access"):
        asked = {name: p["Default"] for name, p in rooms[room]["Parameters"].items() if name.endswith("Id")}
        assert asked == {
            "KnowledgeBaseId": "/agent-memory/prod/knowledge-base-id",
            "DataSourceId": "/agent-memory/prod/data-source-id",
        }
        assert set(asked.values()) == published
    for function in functions("prod").values():
        variables = function["Environment"]["Variables"]
        assert variables["AGENT_MEMORY_KNOWLEDGE_BASE_ID"] == {"Ref": "KnowledgeBaseId"}
        assert variables["AGENT_MEMORY_DATA_SOURCE_ID"] == {"Ref": "DataSourceId"}


@pytest.mark.parametrize(
    ("context", "base"), [({"env": "local"}, "KBLOCAL001"), ({"env": "dev", **GIVEN}, "KBGIVEN001")]
)
def test_a_deployment_that_names_a_knowledge_base_makes_none(context: dict[str, str], base: str) -> None:
    rooms = templates(context)
    assert "knowledge" not in rooms
    assert "KnowledgeBaseId" not in rooms["consolidation"].get("Parameters", {})
    told = functions_of(rooms["access"])
    assert {variables["AGENT_MEMORY_KNOWLEDGE_BASE_ID"] for variables in told} == {base}
    asked = [flat(s["Resource"]) for _, s in allow_statements(rooms["access"]) if s["Action"] == "bedrock:Retrieve"]
    # Both who ask: bootstrap, and the asking of regression cases.
    assert [arn.rsplit("/")[-1] for arn in asked] == [base, base]
