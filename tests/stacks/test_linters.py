"""What AWS's own linters say of the templates: nothing, or a reason stands beside the resource."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs
from support.deployments import NO_BUNDLING, templates

from app import build

cdk_nag = pytest.importorskip("cdk_nag")
AGENTCORE = (
    '[{"memory_id": "harbour-Abc1234567", "namespaces": ["/actors/"]},'
    ' {"memory_id": "quays-Abc1234567", "namespaces": ["/"], "tenant_id": "b", "region": "eu-west-1"}]'
)
KEY = "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0000-1111-2222-333344445555"


def findings(app: cdk.App, outdir: Path) -> str:
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app, verbose=True))
    try:
        app.synth()
    except RuntimeError as error:
        report = outdir / "validation-report.json"
        return f"{error}\n{report.read_text() if report.exists() else ''}"
    return ""


@pytest.mark.parametrize(
    "context",
    [
        {"env": "dev"},
        {"env": "staging"},
        {"env": "prod", "bedrockGeo": "global", "alarmEmail": "ops@example.com", "encryptionKeyArn": KEY},
        {"env": "local"},
        {"env": "dev", "agentcoreMemories": AGENTCORE},
        {"env": "staging", "agentcoreMemories": AGENTCORE},
        {
            "env": "prod",
            "agentcoreMemories": AGENTCORE,
            "encryptionKeyArn": KEY,
            "guardrailId": "abc123:2",
            "judgeModelId": "eu.anthropic.claude-haiku-5-5",
        },
        {"env": "local", "agentcoreMemories": AGENTCORE},
    ],
    ids=["dev", "staging", "prod", "local", "agentcore-dev", "agentcore-staging", "agentcore-prod", "agentcore-local"],
)
def test_cdk_nag_finds_nothing(context: dict[str, str], tmp_path: Path) -> None:
    app, _ = build({**context, **NO_BUNDLING}, outdir=str(tmp_path))
    assert findings(app, tmp_path) == ""


def test_cdk_nag_would_find_an_open_queue(tmp_path: Path) -> None:
    app, _ = build({"env": "dev", **NO_BUNDLING}, outdir=str(tmp_path))
    sqs.Queue(cdk.Stack(app, "Planted"), "Open")
    assert "SQS" in findings(app, tmp_path)


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    keyed = {"env": "prod", "agentcoreMemories": AGENTCORE, "encryptionKeyArn": KEY}
    named = [{"env": environment, "agentcoreMemories": AGENTCORE} for environment in ("dev", "staging")]
    for number, context in enumerate([{"env": "dev"}, {"env": "prod"}, *named, keyed]):
        for room, template in templates(context).items():
            (tmp_path / f"{number}-{room}.template.json").write_text(json.dumps(template))
    linter = shutil.which("cfn-lint", path=str(Path(sys.executable).parent))
    assert linter
    # W3005: CDK writes dependencies that CloudFormation would find by itself.
    files = [str(file) for file in tmp_path.glob("*.json")]
    result = subprocess.run([linter, "-i", "W3005", "--", *files], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
