"""What every test may count on: no account, no profile of the person who runs it, a namespace for metrics."""

import os

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "agent-memory")
os.environ.setdefault("POWERTOOLS_SERVICE_NAME", "tests")
