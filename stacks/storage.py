"""What must not be lost: tables, buckets, the key of the pseudonyms, and the one role that reaches tenants' data."""

import aws_cdk as cdk
from agent_memory import contract
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.buckets import a_bucket
from stacks.emptying import tend_the_emptying_function
from stacks.settings import Deployment
from stacks.tenant_role import TenantRole
from stacks.wildcards import acknowledge

TEXT = dynamodb.AttributeType.STRING
NUMBER = dynamodb.AttributeType.NUMBER
HOURS_A_DAY = 24


def _key(name: str, kind: dynamodb.AttributeType = TEXT) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


class StorageStack(cdk.Stack):
    """The stateful stack. stacks/stateful.json records what may never be replaced."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, synthesizer: cdk.StackSynthesizer
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            synthesizer=synthesizer,
            description="agent-memory: tables, buckets and the role that reaches them",
            termination_protection=deployment.deletion_protection,
        )
        self._deployment = deployment
        self._removal = cdk.RemovalPolicy.RETAIN if deployment.retain_data else cdk.RemovalPolicy.DESTROY
        arn = deployment.encryption_key_arn
        self._key = kms.Key.from_key_arn(self, "Key", arn) if arn else None
        self._tables()
        self._buckets()
        self._receipts()
        self._user_key()
        TenantRole(self, "TenantRole", deployment=deployment)
        if deployment.empty_on_destroy:
            tend_the_emptying_function(self, name="agent-memory-empty-buckets", deployment=deployment)

    def _tables(self) -> None:
        names = self._deployment.names
        self._table(
            "Episodes",
            names.episodes_table,
            _key(contract.EPISODES_PARTITION_KEY),
            _key(contract.EPISODES_SORT_KEY),
            ttl=contract.EPISODES_TTL,
            indexes=_episode_indexes(),
        )
        self._table(
            "Ledger",
            names.ledger_table,
            _key(contract.LEDGER_PARTITION_KEY),
            _key(contract.LEDGER_SORT_KEY),
            ttl=contract.LEDGER_TTL,
        )
        self._table(
            "Facts",
            names.facts_table,
            _key(contract.FACTS_PARTITION_KEY),
            _key(contract.FACTS_SORT_KEY),
            indexes=_fact_indexes(),
        )
        self._table(
            "Procedures",
            names.procedures_table,
            _key(contract.PROCEDURES_PARTITION_KEY),
            _key(contract.PROCEDURES_SORT_KEY),
            indexes=_procedure_indexes(),
        )

    def _buckets(self) -> None:
        names, asked = self._deployment.names, self._deployment
        self._bucket("Transcripts", names.transcripts_bucket, lifecycle=_forgetting(asked.transcript_days))
        self._bucket("Parked", names.parked_bucket, lifecycle=_forgetting(asked.parked_days))
        self._bucket("Knowledge", names.knowledge_bucket, lifecycle=_keeping(asked.undo_days))
        # What a night removed can be brought back from here, and is gone for good afterwards. A copy may be made
        # some days before TTL takes what it is of.
        ahead = -(-asked.archive_before_expiry_hours // HOURS_A_DAY)
        self._bucket("Archive", names.archive_bucket, lifecycle=_forgetting(asked.undo_days + ahead))

    def _receipts(self) -> None:
        """Receipts of erasures outlive what they are about, and so does the key that proves them."""
        names = self._deployment.names
        # What the work needs is deleted with it; what an erasure that failed left behind goes by itself.
        unfinished = s3.LifecycleRule(
            prefix=contract.ERASURE_WORK_PREFIX,
            expiration=cdk.Duration.days(self._deployment.undo_days),
            noncurrent_version_expiration=cdk.Duration.days(1),
        )
        self._bucket("Receipts", names.receipts_bucket, lifecycle=unfinished)
        key = kms.Key(
            self,
            "ReceiptKey",
            description="Signs the receipts of erasures; without it no receipt can be proved",
            key_spec=kms.KeySpec.HMAC_256,
            key_usage=kms.KeyUsage.GENERATE_VERIFY_MAC,
            removal_policy=self._removal,
        )
        kms.Alias(self, "ReceiptKeyAlias", alias_name=names.receipt_key, target_key=key)

    def _table(
        self,
        construct_id: str,
        name: str,
        partition: dynamodb.Attribute,
        sort: dynamodb.Attribute,
        *,
        ttl: str | None = None,
        indexes: list[dynamodb.GlobalSecondaryIndexPropsV2] | None = None,
    ) -> None:
        pitr = self._deployment.pitr_days
        table = dynamodb.TableV2(
            self,
            construct_id,
            table_name=name,
            partition_key=partition,
            sort_key=sort,
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute=ttl,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=pitr > 0, recovery_period_in_days=pitr or None
            ),
            deletion_protection=self._deployment.deletion_protection,
            removal_policy=self._removal,
            global_secondary_indexes=indexes,
        )
        self._encrypt(table)

    def _encrypt(self, table: dynamodb.TableV2) -> None:
        # TableV2 takes a key of the owner only in a stack that knows its region, and this one deploys anywhere.
        resource = table.node.default_child
        if self._key and isinstance(resource, cdk.CfnResource):
            resource.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
            resource.add_property_override("Replicas.0.SSESpecification.KMSMasterKeyId", self._key.key_arn)

    def _bucket(self, construct_id: str, name: str, *, lifecycle: s3.LifecycleRule) -> None:
        own = self._deployment
        a_bucket(
            self, construct_id, name, deployment=own, key=self._key, rules=[lifecycle], unlogged="tenants and runs"
        )

    def _user_key(self) -> None:
        secret = secretsmanager.Secret(
            self,
            "UserKey",
            secret_name=self._deployment.names.user_key_secret,
            description="Key under which user ids become pseudonyms. A new key would orphan every stored pseudonym.",
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=64, exclude_punctuation=True),
            encryption_key=self._key,
            removal_policy=self._removal,
        )
        acknowledge(secret, "Rotating the key would orphan every stored pseudonym.", "SMG4")


def _forgetting(days: int) -> s3.LifecycleRule:
    """Raw transcripts, archives: what expires or is overwritten is gone for good a day later."""
    return s3.LifecycleRule(
        expiration=cdk.Duration.days(days),
        noncurrent_version_expiration=cdk.Duration.days(1),
        abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
    )


def _keeping(undo_days: int) -> s3.LifecycleRule:
    """Documents stay until they are withdrawn, and can be brought back for a while after."""
    return s3.LifecycleRule(
        noncurrent_version_expiration=cdk.Duration.days(undo_days),
        abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
    )


def _fact_indexes() -> list[dynamodb.GlobalSecondaryIndexPropsV2]:
    return [
        _keys_only(contract.PENDING_INDEX, _key(contract.PENDING_KEY), _key(contract.PROMOTED_AT, NUMBER)),
        _keys_only(contract.USER_INDEX, _key(contract.USER_KEY)),
        _keys_only(contract.DUE_INDEX, _key(contract.DUE_SHARD), _key(contract.DECAYS_AT, NUMBER)),
    ]


def _procedure_indexes() -> list[dynamodb.GlobalSecondaryIndexPropsV2]:
    return [
        _keys_only(contract.PROCEDURE_INDEX, _key(contract.PROCEDURE_KEY)),
        dynamodb.GlobalSecondaryIndexPropsV2(
            index_name=contract.REVIEW_INDEX,
            partition_key=_key(contract.REVIEW_KEY),
            sort_key=_key(contract.LAST_USED_AT, NUMBER),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(contract.REVIEW_PROJECTION),
        ),
        _keys_only(contract.USER_INDEX, _key(contract.USER_KEY)),
    ]


def _keys_only(
    name: str, partition: dynamodb.Attribute, sort: dynamodb.Attribute | None = None
) -> dynamodb.GlobalSecondaryIndexPropsV2:
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        partition_key=partition,
        sort_key=sort,
        projection_type=dynamodb.ProjectionType.KEYS_ONLY,
    )


def _episode_indexes() -> list[dynamodb.GlobalSecondaryIndexPropsV2]:
    # Indexes project only what no access ever changes, or each read of a memory would cost writes here.
    return [
        dynamodb.GlobalSecondaryIndexPropsV2(
            index_name=contract.AGENT_TIME_INDEX,
            partition_key=_key(contract.EPISODES_PARTITION_KEY),
            sort_key=_key(contract.CREATED_AT, NUMBER),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(contract.AGENT_TIME_PROJECTION),
        ),
        _keys_only(contract.USER_INDEX, _key(contract.USER_KEY)),
        _keys_only(contract.DUE_INDEX, _key(contract.DUE_SHARD), _key(contract.DECAYS_AT, NUMBER)),
    ]
