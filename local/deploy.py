"""From the CDK app to running stacks, by CloudFormation's API alone: synthesise, upload assets, create or update."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local.layout import ACCOUNT, REGION, ROOT, Layout, LocalRuntimeError, node, read_json, write_whole

INPUTS: Final = ("app.py", "cdk.json", "stacks", "lambdas", "layers", "statemachines", "requirements.txt")
STACK_SECONDS: Final = 120.0
REASON_CHARACTERS: Final = 600
TEMPLATES_BUCKET: Final = "agent-memory-local-templates"
DONE: Final = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
Say = Callable[[str], None]


def client(service: str, environment: Mapping[str, str]) -> Any:
    """A client of the emulator, whatever the caller's own AWS configuration says."""
    return boto3.client(
        service,
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
        config=Config(retries={"mode": "standard"}, connect_timeout=5, read_timeout=120),
    )


def deploy(layout: Layout, environment: Mapping[str, str], context: Mapping[str, str], say: Say) -> list[str]:
    """Bring the stacks to what the sources say; return the names of those that changed."""
    fingerprint = inputs_fingerprint(context)
    before = read_json(layout.deployed_file)
    deployer = Deployer(environment, say)
    templates = before.get("templates")
    known: dict[str, str] = templates if isinstance(templates, dict) else {}
    if before.get("inputs") == fingerprint and known and deployer.stand(known):
        return []
    say("synthesising the application")
    synthesise(layout.synthesised, context)
    stacks = stacks_in_order(layout.synthesised)
    changed = [stack.name for stack in stacks if deployer.bring(stack, known.get(stack.name))]
    deployed = {stack.name: stack.fingerprint for stack in stacks}
    write_whole(layout.deployed_file, json.dumps({"inputs": fingerprint, "templates": deployed}))
    return changed


def inputs_fingerprint(context: Mapping[str, str], root: Path = ROOT) -> str:
    """Changes with every source that a deployment is made of."""
    digest = hashlib.sha256(json.dumps([sys.version, sorted(context.items())]).encode())
    for name in INPUTS:
        for path in _files(root / name):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and not _made(p))


def _made(path: Path) -> bool:
    return any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)


def synthesise(out: Path, context: Mapping[str, str], app: Path = ROOT / "app.py") -> None:
    pairs = {**context, "env": "local"}
    arguments = [argument for key, value in pairs.items() for argument in ("-c", f"{key}={value}")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_", "PYTHONPATH"))}
    environment = {**clean, "CDK_OUTDIR": str(out), "JSII_NODE": str(node())}
    done = subprocess.run(
        [sys.executable, str(app), *arguments],
        cwd=app.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LocalRuntimeError(f"the application could not be synthesised:\n{done.stderr.strip()[-2000:]}")


class SynthesisedStack:
    """One template of a cloud assembly, with its assets."""

    def __init__(self, out: Path, name: str, template_file: str) -> None:
        self.name = name
        template = json.loads((out / template_file).read_text())
        # The bootstrap version is a fact of a CDK account; there is none here.
        template.get("Parameters", {}).pop("BootstrapVersion", None)
        template.get("Rules", {}).pop("CheckBootstrapVersion", None)
        self.template: dict[str, Any] = {key: value for key, value in template.items() if value}
        self.body = json.dumps(self.template)
        self.fingerprint = hashlib.sha256(self.body.encode()).hexdigest()
        self._out = out
        self._assets_file = out / f"{template_file.removesuffix('.template.json')}.assets.json"

    def assets(self) -> list["Asset"]:
        """All but the template itself."""
        if not self._assets_file.exists():
            return []
        entries = json.loads(self._assets_file.read_text())["files"].values()
        return [Asset(self._out, entry) for entry in entries if not entry["source"]["path"].endswith(".template.json")]


class Asset:
    """Code or layer that a template refers to."""

    def __init__(self, out: Path, entry: Mapping[str, Any]) -> None:
        destination = next(iter(entry["destinations"].values()))
        self.bucket = _resolved(destination["bucketName"])
        self.key = _resolved(destination["objectKey"])
        self._source = out / entry["source"]["path"]
        self._zipped = entry["source"]["packaging"] == "zip" and self._source.is_dir()

    def content(self) -> bytes:
        if not self._zipped:
            content: bytes = self._source.read_bytes()
            return content
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(p for p in self._source.rglob("*") if p.is_file()):
                archive.write(path, path.relative_to(self._source))
        return buffer.getvalue()


def _resolved(name: str) -> str:
    return (
        name.replace("${AWS::AccountId}", ACCOUNT).replace("${AWS::Region}", REGION).replace("${AWS::Partition}", "aws")
    )


def stacks_in_order(out: Path) -> list[SynthesisedStack]:
    """The assembly's stacks, each after those it depends on."""
    artifacts = json.loads((out / "manifest.json").read_text())["artifacts"]
    ordered: list[str] = []

    def visit(artifact_id: str) -> None:
        for needed in artifacts[artifact_id].get("dependencies", []):
            visit(needed)
        if artifact_id not in ordered:
            ordered.append(artifact_id)

    for artifact_id in artifacts:
        visit(artifact_id)
    return [
        SynthesisedStack(out, properties.get("stackName", artifact_id), properties["templateFile"])
        for artifact_id in ordered
        if artifacts[artifact_id]["type"] == "aws:cloudformation:stack"
        for properties in [artifacts[artifact_id]["properties"]]
    ]


class Deployer:
    """What is asked of the emulator's CloudFormation, S3 and DynamoDB."""

    def __init__(self, environment: Mapping[str, str], say: Say) -> None:
        self._formation = client("cloudformation", environment)
        self._objects = client("s3", environment)
        self._tables = client("dynamodb", environment)
        self._say = say

    def stand(self, names: Iterable[str]) -> bool:
        """Whether all of these stacks are there: a killed emulator forgets what came since its start."""
        return all(self._status(name) in DONE for name in names)

    def bring(self, stack: SynthesisedStack, known: str | None) -> bool:
        status = self._status(stack.name)
        if status in DONE and known == stack.fingerprint:
            return False
        self._say(f"deploying {stack.name}")
        self._upload(stack)
        if status in DONE:
            self._write("update", stack)
        else:
            if status:
                self._formation.delete_stack(StackName=stack.name)
                self._wait(stack.name)
            self._write("create", stack)
        self._apply_what_the_emulator_drops(stack)
        return True

    def _status(self, name: str) -> str:
        try:
            stacks = self._formation.describe_stacks(StackName=name)["Stacks"]
        except ClientError:
            return ""
        status = str(stacks[0]["StackStatus"])
        return "" if status == "DELETE_COMPLETE" else status

    def _upload(self, stack: SynthesisedStack) -> None:
        for asset in stack.assets():
            self._put(asset.bucket, asset.key, asset.content)
        self._put(TEMPLATES_BUCKET, stack.fingerprint, stack.body.encode)

    def _put(self, bucket: str, key: str, content: Callable[[], bytes]) -> None:
        """Keys are hashes of the content, so what is there is right."""
        try:
            self._objects.head_object(Bucket=bucket, Key=key)
        except ClientError:
            self._objects.create_bucket(Bucket=bucket)
            self._objects.put_object(Bucket=bucket, Key=key, Body=content())

    def _write(self, operation: str, stack: SynthesisedStack) -> None:
        act = getattr(self._formation, f"{operation}_stack")
        # By address: a template of more than 51,200 bytes is refused inline.
        url = f"https://s3.amazonaws.com/{TEMPLATES_BUCKET}/{stack.fingerprint}"
        try:
            act(StackName=stack.name, TemplateURL=url, Capabilities=["CAPABILITY_NAMED_IAM"])
        except ClientError as error:
            if "No updates are to be performed" in str(error):
                return
            raise LocalRuntimeError(f"{stack.name} was refused: {str(error)[-REASON_CHARACTERS:]}") from None
        status = self._wait(stack.name)
        if status not in DONE:
            raise LocalRuntimeError(f"{stack.name} ended as {status}: {self._reasons(stack.name)}")

    def _wait(self, name: str) -> str:
        deadline = time.monotonic() + STACK_SECONDS
        while (status := self._status(name)).endswith("IN_PROGRESS"):
            if time.monotonic() > deadline:
                raise LocalRuntimeError(
                    f"{name} is still {status} after {STACK_SECONDS:.0f} s; see `python -m local logs`"
                )
            time.sleep(0.1)
        return status

    def _reasons(self, name: str) -> str:
        events = self._formation.describe_stack_events(StackName=name)["StackEvents"]
        failed = [e for e in events if e["ResourceStatus"].endswith("FAILED")]
        return "; ".join(f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason', '')}" for e in failed[:5])

    def _apply_what_the_emulator_drops(self, stack: SynthesisedStack) -> None:
        """Its CloudFormation creates tables without their TTL."""
        for logical_id, resource in stack.template["Resources"].items():
            expiry = resource.get("Properties", {}).get("TimeToLiveSpecification")
            if expiry and resource["Type"] in ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"):
                found = self._formation.describe_stack_resource(StackName=stack.name, LogicalResourceId=logical_id)
                table = found["StackResourceDetail"]["PhysicalResourceId"]
                current = self._tables.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
                if current.get("AttributeName") != expiry["AttributeName"]:
                    self._tables.update_time_to_live(TableName=table, TimeToLiveSpecification=expiry)
