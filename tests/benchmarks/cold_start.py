"""CPU time until the bootstrap function can take its first call, against a bare minimum and against the article's way.

`python -m benchmarks.cold_start`. Each start is a fresh interpreter with its three clients opened (DynamoDB, Bedrock
Runtime, EventBridge; the article's: a table, a knowledge base and an embeddings client for each of its stores); the
kinds alternate, so that a busy machine slows all alike. User and system time of the child count, not the clock.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_memory.contract import environment_variable
from benchmarks.stack import figures, say

ROOT = Path(__file__).parents[2]
CLIENTS = "dynamodb", "bedrock-runtime", "events"
BARE = f"""
import boto3, numpy, pydantic
clients = [boto3.client(name) for name in {CLIENTS}]
"""
OURS = """
import sys
sys.path.insert(0, "lambdas/bootstrap")
import handler
from agent_memory.wiring import services
own = services()
assert {"recall_rules", "embedder", "bus"} <= set(vars(own))
"""
ARTICLE = """
from benchmarks.baseline.bootstrap import MemoryBootstrap
memory = MemoryBootstrap()
"""
SETTINGS = {
    "environment": "bench",
    "episodesTable": "episodes",
    "ledgerTable": "ledger",
    "factsTable": "facts",
    "proceduresTable": "procedures",
    "transcriptsBucket": "transcripts",
    "parkedBucket": "parked",
    "knowledgeBucket": "knowledge",
    "knowledgeBaseId": "KBBENCH001",
    "dataSourceId": "DSBENCH001",
    "bus": "bus",
    "tenantRole": "arn:aws:iam::123456789012:role/tenant",
    "userKeySecret": "key",
}


def environment() -> dict[str, str]:
    """What a function's process would have; nothing of the person who runs this."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("layers/agent_memory/python", "tests", ".")),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
        "POWERTOOLS_SERVICE_NAME": "bootstrap",
        "POWERTOOLS_METRICS_NAMESPACE": "agent-memory",
        **{environment_variable(key): value for key, value in SETTINGS.items()},
    }


def cpu_seconds(source: str) -> float:
    """User and system time of one child that runs *source*."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, env=environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alternating(sources: Sequence[str], rounds: int) -> list[float]:
    """The median of each source over *rounds*; a first round fills the caches of the disk and does not count."""
    seconds: list[list[float]] = [[] for _ in sources]
    for round_ in range(rounds + 1):
        for source, found in zip(sources, seconds, strict=True):
            spent = cpu_seconds(source)
            if round_:
                found.append(spent)
        say(f"round {round_} of {rounds}: " + ", ".join(f"{found[-1]:.3f} s" for found in seconds if found))
    return [statistics.median(found) for found in seconds]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", help="not needed here")
    arguments.add_argument("--rounds", type=int, default=9)
    given = arguments.parse_args()
    bare, ours, article = alternating((BARE, OURS, ARTICLE), given.rounds)
    figures(
        ratio_to_bare=round(ours / bare, 3),
        article_ratio=round(article / ours, 3),
        bare_seconds=round(bare, 3),
        bootstrap_seconds=round(ours, 3),
        article_seconds=round(article, 3),
    )


if __name__ == "__main__":
    main()
