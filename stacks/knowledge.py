"""The Knowledge Base of confirmed facts: S3 Vectors index, Knowledge Base, data source and the role they work under.

Nothing of it changes in place: dimensions, metric, non-filterable keys and chunking are fixed when they are made.
"""

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_bedrock as bedrock
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3vectors as s3vectors
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.settings import KNOWLEDGE_IDS, Deployment, looked_up
from stacks.wildcards import KNOWLEDGE_OBJECTS, acknowledge

# Bedrock keeps the text and its own bookkeeping in these; as filterable metadata they may hold 2 KB together with
# the sidecar, and ingestion would fail document by document.
NON_FILTERABLE: Final = ["AMAZON_BEDROCK_TEXT", "AMAZON_BEDROCK_METADATA"]


class KnowledgeStack(cdk.Stack):
    """Stateful. Absent where a deployment names a Knowledge Base of its own."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            synthesizer=synthesizer,
            description="agent-memory: the Knowledge Base of confirmed facts",
            termination_protection=deployment.deletion_protection,
        )
        self._deployment = deployment
        self._bucket_arn = deployment.names.bucket_arn(deployment.names.knowledge_bucket)
        self._model_arn = (
            f"arn:{cdk.Aws.PARTITION}:bedrock:{cdk.Aws.REGION}::foundation-model/{deployment.embedding_model_id}"
        )
        index = self._index()
        role = self._role(index)
        base = self._base(index, role)
        source = self._source(base)
        for resource in (base, source):
            resource.apply_removal_policy(self._removal)
        self._publish({"knowledgeBaseId": base.attr_knowledge_base_id, "dataSourceId": source.attr_data_source_id})

    @property
    def _removal(self) -> cdk.RemovalPolicy:
        return cdk.RemovalPolicy.RETAIN if self._deployment.retain_data else cdk.RemovalPolicy.DESTROY

    def _index(self) -> s3vectors.CfnIndex:
        key = self._deployment.encryption_key_arn
        bucket = s3vectors.CfnVectorBucket(
            self,
            "Vectors",
            vector_bucket_name=self._deployment.names.vector_bucket,
            encryption_configuration=s3vectors.CfnVectorBucket.EncryptionConfigurationProperty(
                sse_type="aws:kms" if key else "AES256", kms_key_arn=key or None
            ),
        )
        # Without a name of its own a new index can stand beside the old one while facts move over.
        index = s3vectors.CfnIndex(
            self,
            "Facts",
            vector_bucket_arn=bucket.attr_vector_bucket_arn,
            data_type="float32",
            dimension=self._deployment.embedding_dimensions,
            distance_metric="cosine",
            metadata_configuration=s3vectors.CfnIndex.MetadataConfigurationProperty(
                non_filterable_metadata_keys=NON_FILTERABLE
            ),
        )
        for resource in (bucket, index):
            resource.apply_removal_policy(self._removal)
        return index

    def _role(self, index: s3vectors.CfnIndex) -> iam.Role:
        here: Mapping[str, object] = {"StringEquals": {"aws:ResourceAccount": cdk.Aws.ACCOUNT_ID}}
        objects = f"{self._bucket_arn}/{contract.KNOWLEDGE_PREFIX}*"
        role = iam.Role(
            self,
            "Role",
            description="What the Knowledge Base of agent-memory works under",
            # Another account's Knowledge Base must not be able to borrow this role through the service.
            assumed_by=iam.ServicePrincipal("bedrock.amazonaws.com").with_conditions(
                {
                    "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": self._deployment.names.arn("bedrock", "knowledge-base/*")},
                }
            ),
        )
        vectors = ("GetIndex", "QueryVectors", "PutVectors", "GetVectors", "DeleteVectors")
        grants: list[tuple[list[str], str, Mapping[str, object] | None]] = [
            (["bedrock:InvokeModel"], self._model_arn, None),
            (["s3:ListBucket"], self._bucket_arn, here),
            (["s3:GetObject"], objects, here),
            ([f"s3vectors:{action}" for action in vectors], index.attr_index_arn, None),
        ]
        if self._deployment.encryption_key_arn:
            grants.append((["kms:Decrypt", "kms:GenerateDataKey"], self._deployment.encryption_key_arn, None))
        for actions, resource, conditions in grants:
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource], conditions=conditions))
        acknowledge(role, KNOWLEDGE_OBJECTS.reason, f"IAM5[Resource::{objects}]")
        return role

    def _base(self, index: s3vectors.CfnIndex, role: iam.Role) -> bedrock.CfnKnowledgeBase:
        of = bedrock.CfnKnowledgeBase
        base = of(
            self,
            "Base",
            name=self._deployment.names.knowledge_base,
            description="Facts that independent runs confirmed, one document each",
            role_arn=role.role_arn,
            knowledge_base_configuration=of.KnowledgeBaseConfigurationProperty(
                type="VECTOR",
                vector_knowledge_base_configuration=of.VectorKnowledgeBaseConfigurationProperty(
                    embedding_model_arn=self._model_arn,
                    embedding_model_configuration=of.EmbeddingModelConfigurationProperty(
                        bedrock_embedding_model_configuration=of.BedrockEmbeddingModelConfigurationProperty(
                            dimensions=self._deployment.embedding_dimensions, embedding_data_type="FLOAT32"
                        )
                    ),
                ),
            ),
            storage_configuration=of.StorageConfigurationProperty(
                type="S3_VECTORS",
                s3_vectors_configuration=of.S3VectorsConfigurationProperty(index_arn=index.attr_index_arn),
            ),
        )
        # The policy too: Bedrock tries the index while the Knowledge Base is being made.
        base.node.add_dependency(role)
        return base

    def _source(self, base: bedrock.CfnKnowledgeBase) -> bedrock.CfnDataSource:
        of = bedrock.CfnDataSource
        return of(
            self,
            "Source",
            name=self._deployment.names.knowledge_base,
            knowledge_base_id=base.attr_knowledge_base_id,
            # With DELETE, deleting a stack gets stuck once the index has gone; the index takes its vectors along.
            data_deletion_policy="RETAIN",
            data_source_configuration=of.DataSourceConfigurationProperty(
                type="S3",
                s3_configuration=of.S3DataSourceConfigurationProperty(
                    bucket_arn=self._bucket_arn, inclusion_prefixes=[contract.KNOWLEDGE_PREFIX]
                ),
            ),
            # One document is one fact is one vector.
            vector_ingestion_configuration=of.VectorIngestionConfigurationProperty(
                chunking_configuration=of.ChunkingConfigurationProperty(chunking_strategy="NONE")
            ),
        )

    def _publish(self, ids: dict[str, str]) -> None:
        for key, name in KNOWLEDGE_IDS.items():
            ssm.StringParameter(
                self,
                looked_up(key),
                parameter_name=f"{contract.PARAMETER_ROOT}/{self._deployment.env}/{name}",
                string_value=ids[key],
            )
