"""Names that the stacks, the functions and the client share. Constants only; imports nothing."""

from typing import Final

SCHEMA_VERSION: Final = 1
COMPONENT: Final = "agent-memory"

# Events. Agents put them with source CLIENT_SOURCE_PREFIX + tenant_id; rules match the prefix.
CLIENT_SOURCE_PREFIX: Final = "agent-memory.client/"
OWN_SOURCE: Final = "agent-memory"
RUN_ENDED: Final = "Agent Run Ended"
RUN_CONSOLIDATED: Final = "Run Consolidated"
MEMORY_RETRIEVED: Final = "Memory Retrieved"
RECORDS_READ: Final = "AgentCore Records Read"
PROCEDURE_AWAITING_REVIEW: Final = "Procedure Awaiting Review"
LIFECYCLE_FINISHED: Final = "Lifecycle Finished"

# Physical names are "<name>-<environment>".
BUS: Final = "agent-memory"
EPISODES_TABLE: Final = "agent-episodic-memory"
LEDGER_TABLE: Final = "agent-memory-ledger"
FACTS_TABLE: Final = "fact-confirmation-log"
PROCEDURES_TABLE: Final = "agent-procedural-memory"

# Episodes table.
EPISODES_PARTITION_KEY: Final = "agent_id"
EPISODES_SORT_KEY: Final = "run_id"
EPISODES_TTL: Final = "expires_at"
AGENT_TIME_INDEX: Final = "agent-time-index"
USER_INDEX: Final = "user-index"
DUE_INDEX: Final = "due-index"
CREATED_AT: Final = "created_at"  # sort key of agent-time-index, a number
USER_KEY: Final = "user_key"  # key of user-index (tenant#user_ref, text), absent without a user
DUE_SHARD: Final = "due_shard"  # key of due-index (text), absent when nothing is due
DECAYS_AT: Final = "decays_at"  # sort key of due-index, a number
# What recall reads. Only attributes that no read and no access count ever changes: an index
# that projects a changing attribute costs writes on every access.
AGENT_TIME_PROJECTION: Final = (
    "task",
    "digest",
    "task_vector",
    "digest_vector",
    "embedding_model",
    "outcome",
    "kind",
    "ended_at",
    "expires_at",
    "schema_version",
)

# Facts table: facts, the observations of each by its runs, and one head row of each domain. No TTL: a fact is
# withdrawn from the Knowledge Base before its row goes. Also here: user-index (observations) and due-index.
FACTS_PARTITION_KEY: Final = "domain_key"
FACTS_SORT_KEY: Final = "fact_id"
PENDING_INDEX: Final = "pending-index"
PENDING_KEY: Final = "pending_key"  # key of pending-index (tenant#domain), present while promoted and not ingested
PROMOTED_AT: Final = "promoted_at"  # sort key of pending-index, a number

# Procedures table: procedures, the runs that proposed each, and one head row of each task type. No TTL: a procedure
# stays until a person retires it. Also here: user-index (the runs that proposed).
PROCEDURES_PARTITION_KEY: Final = "task_key"
PROCEDURES_SORT_KEY: Final = "procedure_id"
PROCEDURE_INDEX: Final = "procedure-index"
PROCEDURE_KEY: Final = "procedure_key"  # key of procedure-index (tenant#procedure_id)
REVIEW_INDEX: Final = "review-index"
REVIEW_KEY: Final = "review_key"  # key of review-index (tenant#state), on procedures only
LAST_USED_AT: Final = "last_used_at"  # sort key of review-index, a number
# What review-index shows beside keys: what a recall without a task type compares before it reads any procedure.
REVIEW_PROJECTION: Final = ("task_vector", "embedding_model")

# Knowledge bucket and the Knowledge Base over it.
KNOWLEDGE_PREFIX: Final = "semantic-memory/"

# Archive bucket: what nights removed lies under "archive/<tenant>/", their own slices, plans and reports under
# "lifecycle/<run>/".
ARCHIVE_PREFIX: Final = "archive/"
LIFECYCLE_PREFIX: Final = "lifecycle/"
# Below a night and, for what came of them, `done`, `progress` or `changed`; the tenant follows.
NIGHT_ROOMS: Final = ("look", "plan", "expire", "merge", "prune", "facts", "rollback", "procedures", "quality")

# Bucket of receipts: receipts of erasures lie under "receipts/<tenant>/", what the work needs under "work/<tenant>/".
RECEIPTS_PREFIX: Final = "receipts/"
ERASURE_WORK_PREFIX: Final = "work/"

# AgentCore bucket: as the archive bucket, and under this prefix the indexes of memories and the ledger of accesses.
AGENTCORE_PREFIX: Final = "agentcore/"
ACCESS_LEDGER_KEY: Final = "agentcore/accesses.json.gz"
# Trail bucket: what CloudTrail delivers, and what agents' sides report under "reports/<tenant>/<day>/".
TRAIL_PREFIX: Final = "AWSLogs/"
REPORTS_PREFIX: Final = "reports/"

# Ledger table.
LEDGER_PARTITION_KEY: Final = "ledger_key"
LEDGER_SORT_KEY: Final = "entry_id"
LEDGER_TTL: Final = "expires_at"
REGISTRY_TENANT: Final = "registry"
# Two tenants of nobody's, each with a secret: the canary asks as one for what is the other's, and no caller speaks for
# them.
CANARY_TENANTS: Final = ("canary-a", "canary-b")
# Kinds of rows under the registry. `dirty`: domains with facts to ingest, entry tenant#domain. `ingestion`: the lock
# and the last report of the ingestion machine. `stored`: agents that stored something since a night looked at them,
# entry tenant#agent. `lifecycle`: the lock of the night, the last completed one, approvals. `callers`: for which
# tenants a principal speaks, entry its ARN.
REGISTRY_TENANTS: Final = "tenants"
REGISTRY_DIRTY: Final = "dirty"
REGISTRY_INGESTION: Final = "ingestion"
REGISTRY_STORED: Final = "stored"
REGISTRY_LIFECYCLE: Final = "lifecycle"
REGISTRY_CALLERS: Final = "callers"
REGISTRY_AGENTCORE: Final = "agentcore"  # the same, of the night over AgentCore

# A message that was received this often without success goes to the dead letters.
MAX_RECEIVES: Final = 5

# Transcripts bucket: uploads lie under "<tenant>/", the pipeline's own objects under this. `~` is in no id.
WORK_ROOT: Final = "~runs"

# The tools that agents are given, under the names that a transcript shows: of tools.MemoryTools and of the MCP server.
MEMORY_TOOLS: Final = frozenset({"recall_memory", "recall", "remember", "rate_procedure", "end_run"})

# Decisions travel between states; a Choice reads the word, nothing else.
DECISION: Final = "decision"

# SSM parameters "/agent-memory/<environment>/<name>" hold what the client and the CLI must find.
PARAMETER_ROOT: Final = "/agent-memory"
PARAMETER_NAMES: Final = (
    "agentcore-memories",
    "archive-bucket",
    "bootstrap-function",
    "bootstrap-url",
    "bus",
    "caller-auth",
    "consolidation-machine",
    "embedding-model",
    "environment",
    "episodes-table",
    "erasure-function",
    "erasure-machine",
    "facts-table",
    "ingestion-machine",
    "intake-dead-letters",
    "intake-queue",
    "knowledge-bucket",
    "ledger-table",
    "lifecycle-machine",
    "operator-settings",
    "parked-bucket",
    "procedures-table",
    "refused-queue",
    "regression-function",
    "retrievals-dead-letters",
    "retrievals-queue",
    "review-function",
    "review-url",
    "tenant-role",
    "transcripts-bucket",
    "user-key-secret",
    "working-memory",
)

# Published beside these where a memory of AgentCore is named.
AGENTCORE_PARAMETER_NAMES: Final = ("agentcore-reads-dead-letters", "agentcore-reads-queue")

# "operator-settings" holds the functions' whole environment as JSON, so that the CLI builds the
# very same services from it that the functions build from their environment.
ENVIRONMENT_PREFIX: Final = "AGENT_MEMORY_"
METRICS_NAMESPACE: Final = "agent-memory"
# Metrics that alarms read.
READS_REFUSED: Final = "ReadsRefused"
TRAIL_DIGESTS: Final = "TrailDigests"
CANARY_LEAKS: Final = "CanaryLeaks"
CANARY_LOOKED: Final = "CanaryLooked"
CROSS_TENANT_RESULTS: Final = "CrossTenantResults"
INGESTION_JOBS_FAILED: Final = "IngestionJobsFailed"
INGESTION_DOCUMENTS_FAILED: Final = "IngestionDocumentsFailed"
QUALITY_GATES_FAILED: Final = "QualityGatesFailed"
QUALITY_GATES_FAILED_BEFORE: Final = "QualityGatesFailedBefore"
QUALITY_GATES_NOT_RUN: Final = "QualityGatesNotRun"
OLDEST_PARKED_RUN_DAYS: Final = "OldestParkedRunDays"
OLDEST_PENDING_FACT_SECONDS: Final = "OldestPendingFactSeconds"
ERASURES_PARTIAL: Final = "ErasuresPartial"
TENANT_TAG: Final = "tenant_id"


def environment_variable(context_key: str) -> str:
    """Return the variable that carries a cdk context key: memoryTtlDays -> AGENT_MEMORY_MEMORY_TTL_DAYS."""
    words = "".join(f"_{c}" if c.isupper() else c for c in context_key)
    return ENVIRONMENT_PREFIX + words.replace("-", "_").upper()
