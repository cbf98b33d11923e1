"""What one tenant's credentials reach."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_memory.settings import Settings

if TYPE_CHECKING:
    from agent_memory.aws.agent_notes import DynamoAgentNotes
    from agent_memory.aws.archive import S3Archive
    from agent_memory.aws.claims import S3Claims
    from agent_memory.aws.episode_changes import DynamoEpisodeChanges
    from agent_memory.aws.episode_dates import DynamoEpisodeDates
    from agent_memory.aws.episode_shelf import DynamoEpisodeShelf
    from agent_memory.aws.episodes import DynamoEpisodes
    from agent_memory.aws.erasing_facts import ErasingFacts
    from agent_memory.aws.fact_counts import DynamoFactCounts
    from agent_memory.aws.fact_documents import S3FactDocuments
    from agent_memory.aws.fact_shelf import DynamoFactShelf
    from agent_memory.aws.facts import DynamoFacts
    from agent_memory.aws.ledger import DynamoLedger
    from agent_memory.aws.prefetches import DynamoPrefetches
    from agent_memory.aws.procedures import DynamoProcedures
    from agent_memory.aws.quarantine import DynamoQuarantine
    from agent_memory.aws.regressions import DynamoRegressions
    from agent_memory.aws.tenancy import TenantSessions
    from agent_memory.domain.knowledge_ports import DirtyDomains


class TenantServices:
    """What one tenant's credentials can reach."""

    def __init__(self, tenant_id: str, *, sessions: "TenantSessions", settings: Settings) -> None:
        self.tenant_id = tenant_id
        self._sessions = sessions
        self._settings = settings

    def _client(self, name: str) -> Any:
        return self._sessions.client(self.tenant_id, name)

    @cached_property
    def episodes(self) -> "DynamoEpisodes":
        from agent_memory.aws.episodes import DynamoEpisodes

        s = self._settings
        return DynamoEpisodes(
            self._client("dynamodb"),
            table=s.episodes_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            due_shards=s.due_shards,
        )

    @cached_property
    def episode_shelf(self) -> "DynamoEpisodeShelf":
        """The episodes, for functions that merge, remove or bring back."""
        from agent_memory.aws.episode_shelf import DynamoEpisodeShelf

        s = self._settings
        return DynamoEpisodeShelf(
            self._client("dynamodb"),
            table=s.episodes_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            due_shards=s.due_shards,
        )

    @cached_property
    def archive(self) -> "S3Archive":
        from agent_memory.aws.archive import S3Archive

        return S3Archive(self._client("s3"), bucket=self._settings.archive_bucket, tenant_id=self.tenant_id)

    @cached_property
    def episode_changes(self) -> "DynamoEpisodeChanges":
        """The episodes, for a rollback of what a night changed and did not remove."""
        from agent_memory.aws.episode_changes import DynamoEpisodeChanges

        s = self._settings
        return DynamoEpisodeChanges(
            self._client("dynamodb"),
            table=s.episodes_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            due_shards=s.due_shards,
        )

    @cached_property
    def episode_dates(self) -> "DynamoEpisodeDates":
        from agent_memory.aws.episode_dates import DynamoEpisodeDates

        s = self._settings
        return DynamoEpisodeDates(
            self._client("dynamodb"), table=s.episodes_table, tenant_id=self.tenant_id, due_shards=s.due_shards
        )

    @cached_property
    def agent_notes(self) -> "DynamoAgentNotes":
        from agent_memory.aws.agent_notes import DynamoAgentNotes

        table = self._settings.ledger_table
        return DynamoAgentNotes(self._client("dynamodb"), table=table, tenant_id=self.tenant_id)

    @cached_property
    def ledger(self) -> "DynamoLedger":
        from agent_memory.aws.ledger import DynamoLedger

        s = self._settings
        return DynamoLedger(
            self._client("dynamodb"),
            table=s.ledger_table,
            episodes_table=s.episodes_table,
            procedures_table=s.procedures_table,
            tenant_id=self.tenant_id,
        )

    @cached_property
    def quarantine(self) -> "DynamoQuarantine":
        from agent_memory.aws.quarantine import DynamoQuarantine

        return DynamoQuarantine(
            self._client("dynamodb"), table=self._settings.ledger_table, tenant_id=self.tenant_id, claims=self.claims
        )

    @cached_property
    def regressions(self) -> "DynamoRegressions":
        from agent_memory.aws.regressions import DynamoRegressions

        table = self._settings.ledger_table
        return DynamoRegressions(self._client("dynamodb"), table=table, tenant_id=self.tenant_id)

    @cached_property
    def prefetches(self) -> "DynamoPrefetches":
        from agent_memory.aws.prefetches import DynamoPrefetches

        table = self._settings.ledger_table
        return DynamoPrefetches(self._client("dynamodb"), table=table, tenant_id=self.tenant_id)

    @cached_property
    def facts(self) -> "DynamoFacts":
        from agent_memory.aws.facts import DynamoFacts

        s = self._settings
        return DynamoFacts(
            self._client("dynamodb"),
            table=s.facts_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            ttl_days=s.semantic_ttl_days,
            due_shards=s.due_shards,
        )

    @cached_property
    def fact_counts(self) -> "DynamoFactCounts":
        """The facts, as the plan of the night counts them."""
        from agent_memory.aws.fact_counts import DynamoFactCounts

        s = self._settings
        return DynamoFactCounts(
            self._client("dynamodb"),
            table=s.facts_table,
            ledger_table=s.ledger_table,
            tenant_id=self.tenant_id,
            ttl_days=s.semantic_ttl_days,
        )

    def fact_shelf(self, dirty: "DirtyDomains") -> "DynamoFactShelf":
        """The facts, for functions that remove or bring back; *dirty*: where domains to ingest are noted."""
        from agent_memory.aws.fact_shelf import DynamoFactShelf

        return DynamoFactShelf(self._client("dynamodb"), **self._of_facts(dirty))

    def reducible_facts(self, dirty: "DirtyDomains") -> "ErasingFacts":
        """The facts, for functions that take out what some runs said for them."""
        from agent_memory.aws.erasing_facts import ErasingFacts

        return ErasingFacts(self._client("dynamodb"), **self._of_facts(dirty))

    def _of_facts(self, dirty: "DirtyDomains") -> dict[str, Any]:
        s = self._settings
        return {
            "documents": self.documents,
            "dirty": dirty,
            "table": s.facts_table,
            "ledger_table": s.ledger_table,
            "tenant_id": self.tenant_id,
            "ttl_days": s.semantic_ttl_days,
            "due_shards": s.due_shards,
        }

    @cached_property
    def procedures(self) -> "DynamoProcedures":
        from agent_memory.aws.procedures import DynamoProcedures

        s = self._settings
        return DynamoProcedures(
            self._client("dynamodb"), table=s.procedures_table, ledger_table=s.ledger_table, tenant_id=self.tenant_id
        )

    @cached_property
    def documents(self) -> "S3FactDocuments":
        from agent_memory.aws.fact_documents import S3FactDocuments

        bucket = self._settings.knowledge_bucket
        return S3FactDocuments(self._client("s3"), bucket=bucket, tenant_id=self.tenant_id)

    @cached_property
    def claims(self) -> "S3Claims":
        from agent_memory.aws.claims import S3Claims

        s = self._settings
        return S3Claims(
            self._client("s3"), bucket=s.transcripts_bucket, parked_bucket=s.parked_bucket, tenant_id=self.tenant_id
        )
