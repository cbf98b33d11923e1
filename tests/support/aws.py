"""An AWS account on moto with the product's tables, buckets, queues, secret, bus and machine, by contract names."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest.mock import patch

from agent_memory import contract, settings, wiring
from agent_memory.settings import Settings, settings_from
from agent_memory.wiring import Services
from botocore.client import BaseClient
from moto import mock_aws
from support.quick_account import client

REGION = "us-east-1"
ACCOUNT = "123456789012"
ENVIRONMENT = "test"
RECEIPT_KEY = f"alias/agent-memory-receipts-{ENVIRONMENT}"
USER_KEY = b"0123456789abcdef0123456789abcdef"


def create_tables(dynamodb: Any) -> tuple[str, str]:
    """Create the episodes and the ledger table from contract.py and return their names."""
    episodes, ledger = f"{contract.EPISODES_TABLE}-{ENVIRONMENT}", f"{contract.LEDGER_TABLE}-{ENVIRONMENT}"
    texts = (contract.EPISODES_PARTITION_KEY, contract.EPISODES_SORT_KEY, contract.USER_KEY, contract.DUE_SHARD)
    numbers = (contract.CREATED_AT, contract.DECAYS_AT)
    dynamodb.create_table(
        TableName=episodes,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in texts]
        + [{"AttributeName": name, "AttributeType": "N"} for name in numbers],
        KeySchema=_key(contract.EPISODES_PARTITION_KEY, contract.EPISODES_SORT_KEY),
        GlobalSecondaryIndexes=[
            {
                "IndexName": contract.AGENT_TIME_INDEX,
                "KeySchema": _key(contract.EPISODES_PARTITION_KEY, contract.CREATED_AT),
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": list(contract.AGENT_TIME_PROJECTION),
                },
            },
            {
                "IndexName": contract.USER_INDEX,
                "KeySchema": _key(contract.USER_KEY),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
            {
                "IndexName": contract.DUE_INDEX,
                "KeySchema": _key(contract.DUE_SHARD, contract.DECAYS_AT),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ],
    )
    ledger_keys = (contract.LEDGER_PARTITION_KEY, contract.LEDGER_SORT_KEY)
    dynamodb.create_table(
        TableName=ledger,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ledger_keys],
        KeySchema=_key(*ledger_keys),
    )
    return episodes, ledger


def create_facts_table(dynamodb: Any) -> str:
    """Create the facts table from contract.py and return its name."""
    facts = f"{contract.FACTS_TABLE}-{ENVIRONMENT}"
    texts = (contract.FACTS_PARTITION_KEY, contract.FACTS_SORT_KEY, contract.PENDING_KEY, contract.USER_KEY)
    indexes = {
        contract.PENDING_INDEX: (contract.PENDING_KEY, contract.PROMOTED_AT),
        contract.USER_INDEX: (contract.USER_KEY,),
        contract.DUE_INDEX: (contract.DUE_SHARD, contract.DECAYS_AT),
    }
    dynamodb.create_table(
        TableName=facts,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in (*texts, contract.DUE_SHARD)]
        + [{"AttributeName": name, "AttributeType": "N"} for name in (contract.PROMOTED_AT, contract.DECAYS_AT)],
        KeySchema=_key(contract.FACTS_PARTITION_KEY, contract.FACTS_SORT_KEY),
        GlobalSecondaryIndexes=[
            {"IndexName": name, "KeySchema": _key(*keys), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            for name, keys in indexes.items()
        ],
    )
    return facts


def create_procedures_table(dynamodb: Any) -> str:
    """Create the procedures table from contract.py and return its name."""
    procedures = f"{contract.PROCEDURES_TABLE}-{ENVIRONMENT}"
    indexes = {
        contract.PROCEDURE_INDEX: (contract.PROCEDURE_KEY,),
        contract.REVIEW_INDEX: (contract.REVIEW_KEY, contract.LAST_USED_AT),
        contract.USER_INDEX: (contract.USER_KEY,),
    }
    keys_only = {"ProjectionType": "KEYS_ONLY"}
    shown = list(contract.REVIEW_PROJECTION)
    projections = {contract.REVIEW_INDEX: {"ProjectionType": "INCLUDE", "NonKeyAttributes": shown}}
    keys = (contract.PROCEDURES_PARTITION_KEY, contract.PROCEDURES_SORT_KEY)
    texts = (*keys, contract.PROCEDURE_KEY, contract.REVIEW_KEY, contract.USER_KEY)
    dynamodb.create_table(
        TableName=procedures,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in texts]
        + [{"AttributeName": contract.LAST_USED_AT, "AttributeType": "N"}],
        KeySchema=_key(*keys),
        GlobalSecondaryIndexes=[
            {"IndexName": name, "KeySchema": _key(*of), "Projection": projections.get(name, keys_only)}
            for name, of in indexes.items()
        ],
    )
    return procedures


def _key(*names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


@dataclass
class AwsAccount:
    """The account and the deployment's variables. *variables* is what a function's environment would hold."""

    variables: dict[str, str] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        return client(service, REGION)

    @cached_property
    def settings(self) -> Settings:
        return settings_from(self.variables)

    @property
    def settings_now(self) -> Settings:
        """With what was added to the deployment since it was opened."""
        return settings_from(self.variables)

    @cached_property
    def services(self) -> Services:
        """The very services that the handlers get from wiring.services()."""
        return wiring.services()

    def items(self, table: str) -> list[dict[str, Any]]:
        """Every raw item of a table, as DynamoDB JSON."""
        pages = self.client("dynamodb").get_paginator("scan").paginate(TableName=table)
        return [item for page in pages for item in page["Items"]]

    def episodes(self) -> list[dict[str, Any]]:
        return self.items(self.settings.episodes_table)

    def facts(self) -> list[dict[str, Any]]:
        return self.items(self.settings.facts_table)

    def procedures(self) -> list[dict[str, Any]]:
        return self.items(self.settings.procedures_table)

    def knowledge(self) -> dict[str, bytes]:
        """Every object of the knowledge bucket by its key."""
        s3, bucket = self.client("s3"), self.settings.knowledge_bucket
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def executions(self) -> list[dict[str, Any]]:
        machine = self.settings.consolidation_machine
        return list(self.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"])

    def ticket_of(self, execution: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
        return dict(json.loads(answer["input"]))

    def refused(self) -> list[dict[str, Any]]:
        """The bodies in the refused queue."""
        answer = self.client("sqs").receive_message(QueueUrl=self.settings.refused_queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]

    def erase(self, tenant_id: str, entry: str, *, before: int) -> None:
        """Plant a tombstone (entry: a user_ref, or "*" for the whole tenant)."""
        self.client("dynamodb").put_item(
            TableName=self.settings.ledger_table,
            Item={
                contract.LEDGER_PARTITION_KEY: {"S": f"{tenant_id}#tombstone"},
                contract.LEDGER_SORT_KEY: {"S": entry},
                "erased_before": {"N": str(before)},
            },
        )


def _variables(episodes: str, ledger: str, refused: str, machine: str) -> dict[str, str]:
    values = {
        "environment": ENVIRONMENT,
        "episodesTable": episodes,
        "ledgerTable": ledger,
        "factsTable": f"{contract.FACTS_TABLE}-{ENVIRONMENT}",
        "proceduresTable": f"{contract.PROCEDURES_TABLE}-{ENVIRONMENT}",
        "knowledgeBucket": f"agent-memory-knowledge-{ENVIRONMENT}-{ACCOUNT}",
        "archiveBucket": f"agent-memory-archive-{ENVIRONMENT}-{ACCOUNT}",
        "knowledgeBaseId": "KBTEST0001",
        "dataSourceId": "DSTEST0001",
        "transcriptsBucket": f"agent-memory-transcripts-{ENVIRONMENT}-{ACCOUNT}",
        "parkedBucket": f"agent-memory-parked-{ENVIRONMENT}-{ACCOUNT}",
        "bus": f"{contract.BUS}-{ENVIRONMENT}",
        "tenantRole": f"arn:aws:iam::{ACCOUNT}:role/agent-memory-{ENVIRONMENT}-tenant-data",
        "userKeySecret": f"agent-memory/{ENVIRONMENT}/user-key",
        "refusedQueue": refused,
        "erasureRole": f"arn:aws:iam::{ACCOUNT}:role/agent-memory-{ENVIRONMENT}-erasure-data",
        "receiptsBucket": f"agent-memory-receipts-{ENVIRONMENT}-{ACCOUNT}",
        "receiptKey": RECEIPT_KEY,
        "erasureSettleSeconds": "1",
        "consolidationMachine": machine,
        "embeddingModelId": "test-model",
        "embeddingDimensions": "8",
    }
    return {contract.environment_variable(key): value for key, value in values.items()}


def _machine(stepfunctions: Any) -> str:
    definition = {"StartAt": "Wait", "States": {"Wait": {"Type": "Succeed"}}}
    answer = stepfunctions.create_state_machine(
        name=f"agent-memory-consolidation-{ENVIRONMENT}",
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine",
    )
    return str(answer["stateMachineArn"])


def _bucket(name: str) -> None:
    s3 = client("s3", REGION)
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})


def for_erasures(account: AwsAccount) -> None:
    """Add what only erasures need: the key of receipts, dead letters and their machine."""
    kms = account.client("kms")
    key = kms.create_key(KeySpec="HMAC_256", KeyUsage="GENERATE_VERIFY_MAC")["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName=RECEIPT_KEY, TargetKeyId=key)
    machine = account.client("stepfunctions").create_state_machine(
        name=f"agent-memory-erasure-{ENVIRONMENT}",
        definition=json.dumps({"StartAt": "Wait", "States": {"Wait": {"Type": "Succeed"}}}),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine",
    )
    sqs = account.client("sqs")
    found = {
        "erasureMachine": str(machine["stateMachineArn"]),
        "intakeDeadLetters": sqs.create_queue(QueueName="intake-dead-letters")["QueueUrl"],
        "retrievalsDeadLetters": sqs.create_queue(QueueName="retrievals-dead-letters")["QueueUrl"],
    }
    os.environ.update({contract.environment_variable(name): value for name, value in found.items()})
    account.variables.update({contract.environment_variable(name): value for name, value in found.items()})
    _forget_services()


@contextmanager
def an_aws_account(**changes: str) -> Iterator[AwsAccount]:
    """Open an empty account with the deployment in it; *changes* are settings by their cdk context key."""
    credentials = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_SESSION_TOKEN": "test",
        "AWS_DEFAULT_REGION": REGION,
        "POWERTOOLS_METRICS_NAMESPACE": contract.METRICS_NAMESPACE,
    }
    with patch.dict(os.environ, credentials), mock_aws():
        for name in [name for name in os.environ if name.startswith(("AWS_ENDPOINT_URL", contract.ENVIRONMENT_PREFIX))]:
            del os.environ[name]
        episodes, ledger = create_tables(client("dynamodb", REGION))
        create_facts_table(client("dynamodb", REGION))
        create_procedures_table(client("dynamodb", REGION))
        refused = client("sqs", REGION).create_queue(QueueName=f"agent-memory-refused-{ENVIRONMENT}")["QueueUrl"]
        variables = _variables(episodes, ledger, refused, _machine(client("stepfunctions", REGION)))
        variables |= {contract.environment_variable(key): value for key, value in changes.items()}
        for bucket in ("transcripts", "parked", "knowledge", "archive", "receipts"):
            _bucket(f"agent-memory-{bucket}-{ENVIRONMENT}-{ACCOUNT}")
        client("secretsmanager", REGION).create_secret(
            Name=f"agent-memory/{ENVIRONMENT}/user-key", SecretBinary=USER_KEY
        )
        client("events", REGION).create_event_bus(Name=f"{contract.BUS}-{ENVIRONMENT}")
        with patch.dict(os.environ, variables):
            _forget_services()
            yield AwsAccount(variables)
    _forget_services()


@contextmanager
def calls_in_turn() -> Iterator[None]:
    """Let threads call the account one at a time: moto's transactions are not atomic between threads, AWS's are."""
    call, turn = BaseClient._make_api_call, threading.RLock()

    def in_turn(self: BaseClient, *arguments: Any) -> Any:
        with turn:
            return call(self, *arguments)

    with patch.object(BaseClient, "_make_api_call", in_turn):
        yield


def _forget_services() -> None:
    settings.settings.cache_clear()
    wiring.services.cache_clear()
