"""Which settings the functions are told."""

from typing import Final

# What the functions are told, beside the names of their resources: settings.Settings of the layer, key by key.
RUNTIME_KEYS: Final = (
    "memoryTtlDays", "failedRetentionDays", "parkedDays", "transcriptDays", "runMinConfidence",
    "wRecency", "wAccess", "wFrequency", "maxAccessBaseline", "relevanceThreshold", "pruneDays", "decayCalibration",
    "dueShards", "distiller", "bedrockModelId", "distilMaxTokens", "embeddingModelId", "embeddingDimensions",
    "piiUnsupportedLanguage", "accessWindowHours", "summariseMaxTokens", "guardrailId", "prefetchMinutes",
    "piiTypes", "piiMinScore", "piiAllow", "scrubTranscript", "bootstrapBudgetMs", "maxEpisodes", "maxContextTokens",
    "episodeFloor", "contextDays", "tiersByTaskType", "sharedAgents", "confirmationThreshold", "requireDistinctUsers",
    "minFactConfidence", "factFloor", "semanticTtlDays", "maxFacts", "judgeModelId", "knowledgeBaseId", "dataSourceId",
    "procedureMinUses", "procedureMinSuccess", "procedureStaleDays", "procedureTrialShare", "procedureFloor",
    "taskTypeAliases", "procedureReviewerAgents", "callerAuth", "canaryStorageProbe",
    "summaryTtlDays", "maxEpisodesPerAgent", "undoDays", "archiveBeforeExpiryHours", "consolidationBatchSize",
    "maxRemovedShare", "maxRemovedShareCeiling", "blastRadiusFrom", "lifecycleLimitHours", "summariseModelId",
)  # fmt: skip

# What only the functions of erasures are told beside that: the variables of a function have 4 KB.
ERASURE_KEYS: Final = ("intakeDays", "deadLetterDays", "pitrDays", "erasureSettleSeconds", "agentcoreSettleSeconds")
