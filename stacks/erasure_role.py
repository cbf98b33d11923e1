"""The only role that deletes versions of objects and rows of every table, held to one tenant by its session's tag."""

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.settings import Deployment
from stacks.tenant_role import READ_ITEMS, TENANT, WRITE_ITEMS, for_one_tenant, never_the_registry, on_own_keys
from stacks.wildcards import ERASED_OBJECTS, acknowledge

READ_VERSIONS = ("s3:GetObject", "s3:GetObjectVersion")
DELETE_VERSIONS = ("s3:DeleteObject", "s3:DeleteObjectVersion")


Actions = tuple[str, ...]


class ErasureRole(Construct):
    """Assumed by the functions of erasures alone, so that no function of every day can delete what undo needs."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._names = deployment.names
        self._of_agentcore = bool(deployment.agentcore_entries)
        self.role = iam.Role(
            self,
            "Role",
            role_name=self._names.erasure_role,
            description="Deletes the memories of the one tenant that the session tag names",
            assumed_by=for_one_tenant(),
            max_session_duration=cdk.Duration.hours(1),
        )
        self._items()
        self._objects()
        if deployment.encryption_key_arn:
            actions = ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"]
            self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[deployment.encryption_key_arn]))

    def _items(self) -> None:
        names = self._names
        tables = [
            names.table_arn(table)
            for table in (names.episodes_table, names.facts_table, names.ledger_table, names.procedures_table)
        ]
        review = f"{names.table_arn(names.procedures_table)}/index/{contract.REVIEW_INDEX}"
        for statement in (
            on_own_keys((*READ_ITEMS, *WRITE_ITEMS, "dynamodb:DeleteItem"), tables),
            on_own_keys(("dynamodb:Query",), [review]),
            never_the_registry(names.table_arn(names.ledger_table)),
        ):
            self.role.add_to_policy(statement)

    def _objects(self) -> None:
        names = self._names
        rewritten: Actions = (*READ_VERSIONS, *DELETE_VERSIONS, "s3:PutObject")
        night_files = [f"{contract.LIFECYCLE_PREFIX}*/{room}/{TENANT}/*" for room in contract.NIGHT_ROOMS]
        for bucket, prefixes, actions in (
            (names.transcripts_bucket, [f"{TENANT}/*"], DELETE_VERSIONS),
            (names.transcripts_bucket, [f"{contract.WORK_ROOT}/{TENANT}/*"], (*READ_VERSIONS, *DELETE_VERSIONS)),
            (names.parked_bucket, [f"parked/{TENANT}/*"], (*READ_VERSIONS, *DELETE_VERSIONS)),
            (names.knowledge_bucket, [f"{contract.KNOWLEDGE_PREFIX}{TENANT}/*"], (*READ_VERSIONS, *DELETE_VERSIONS)),
            (names.archive_bucket, [f"{contract.ARCHIVE_PREFIX}{TENANT}/*"], rewritten),
            # Slices and results of nights lie under their night. The room is named: a tenant may be called as one is.
            (names.archive_bucket, night_files, rewritten),
            (names.receipts_bucket, [f"{contract.RECEIPTS_PREFIX}{TENANT}/*"], ("s3:GetObject", "s3:PutObject")),
            (names.receipts_bucket, [f"{contract.ERASURE_WORK_PREFIX}{TENANT}/*"], rewritten),
            *self._objects_of_agentcore(night_files, rewritten),
        ):
            arn = names.bucket_arn(bucket)
            objects = [f"{arn}/{prefix}" for prefix in prefixes]
            self.role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=objects))
            self.role.add_to_policy(
                iam.PolicyStatement(
                    actions=["s3:ListBucket", "s3:ListBucketVersions"],
                    resources=[arn],
                    conditions={"StringLike": {"s3:prefix": prefixes}},
                )
            )
            acknowledge(self.role, ERASED_OBJECTS.reason, *(f"IAM5[Resource::{one}]" for one in objects))

    def _objects_of_agentcore(self, night_files: list[str], rewritten: Actions) -> list[tuple[str, list[str], Actions]]:
        """The book, archive and nights' files of the tenant's entry of agentcoreMemories, when there are entries."""
        if not self._of_agentcore:
            return []
        bucket, own = self._names.agentcore_bucket, f"{contract.AGENTCORE_PREFIX}{TENANT}/*"
        archive = [f"{contract.ARCHIVE_PREFIX}{TENANT}/*"]
        return [
            (bucket, [own], rewritten),
            (bucket, archive, (*READ_VERSIONS, *DELETE_VERSIONS)),
            (bucket, night_files, rewritten),
        ]
