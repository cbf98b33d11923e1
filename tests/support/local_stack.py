"""An emulator on a folder of its own and a small cloud assembly, made by hand: no synth, no application."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from local import ai_process
from local.deploy import Deployer, client, stacks_in_order
from local.engine import Engine, client_environment
from local.layout import Layout
from local.processes import Server, free_port

FUNCTION = "small-function"
TABLE = "small-table"
BUCKET = "small-bucket"
QUEUE = "small-queue"
MACHINE = "small-machine"
ASSETS = "small-assets"
ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"RoleName": "small-role", "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}
HANDLER = """
    import json, os, sys, time

    def handler(event, context):
        if event.get("say"):
            print(json.dumps({"said": event["say"]}))
        if event.get("fail"):
            raise ValueError("asked to fail")
        time.sleep(event.get("seconds", 0))
        import small_layer
        return {"pid": os.getpid(), "environment": dict(os.environ), "layer": small_layer.__file__, "path": sys.path}
"""


@contextmanager
def an_emulator(state: Path, *, port: int | None = None) -> Iterator[Engine]:
    layout = Layout(state)
    layout.create()
    engine = Engine(layout, port=port or free_port())
    clients = client_environment(emulator_url=engine.server.url, ai_url="http://127.0.0.1:9")
    engine.start(clients)
    try:
        engine.server.wait_until_ready(30)
        yield engine
    finally:
        engine.server.stop()


def clients_of(engine: Engine) -> dict[str, str]:
    return client_environment(emulator_url=engine.server.url, ai_url="http://127.0.0.1:9")


def deployed(engine: Engine, out: Path, **changes: Any) -> bool:
    """Write the small assembly to *out* and bring it; return whether anything changed."""
    write_assembly(out, **changes)
    known = json.loads((out / "known.json").read_text()) if (out / "known.json").exists() else {}
    (stack,) = stacks_in_order(out)
    changed = Deployer(clients_of(engine), lambda _: None).bring(stack, known.get(stack.name))
    (out / "known.json").write_text(json.dumps({stack.name: stack.fingerprint}))
    return changed


def invoke(engine: Engine, payload: Mapping[str, Any]) -> Any:
    answer = client("lambda", clients_of(engine)).invoke(FunctionName=FUNCTION, Payload=json.dumps(payload))
    body = json.loads(answer["Payload"].read())
    return {"error": body} if answer.get("FunctionError") else body


def write_assembly(out: Path, *, memory: int = 128, expiry: bool = True) -> None:
    for folder, name, text in (("code", "index.py", HANDLER), ("layer/python", "small_layer.py", "")):
        (out / folder).mkdir(parents=True, exist_ok=True)
        (out / folder / name).write_text(textwrap.dedent(text))
    template = {
        "Resources": {
            "Role": ROLE,
            "Layer": _resource("AWS::Lambda::LayerVersion", LayerName="small", Content=_code("layer.zip")),
            "Function": _resource(
                "AWS::Lambda::Function",
                FunctionName=FUNCTION,
                Runtime="python3.13",
                Handler="index.handler",
                Code=_code("code.zip"),
                Layers=[{"Ref": "Layer"}],
                MemorySize=memory,
                Timeout=20,
                Role={"Fn::GetAtt": ["Role", "Arn"]},
            ),
            "Table": _resource(
                "AWS::DynamoDB::Table",
                TableName=TABLE,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                **({"TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True}} if expiry else {}),
            ),
            "Bucket": _resource("AWS::S3::Bucket", BucketName=BUCKET),
            "Queue": _resource("AWS::SQS::Queue", QueueName=QUEUE),
            "Machine": _resource(
                "AWS::StepFunctions::StateMachine",
                StateMachineName=MACHINE,
                RoleArn={"Fn::GetAtt": ["Role", "Arn"]},
                DefinitionString=json.dumps(
                    {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 2, "End": True}}}
                ),
            ),
        }
    }
    stack = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "small.template.json", "stackName": "small"},
    }
    files = {name: _file(name) for name in ("code", "layer")}
    (out / "manifest.json").write_text(json.dumps({"artifacts": {"small": stack}}))
    (out / "small.template.json").write_text(json.dumps(template))
    (out / "small.assets.json").write_text(json.dumps({"files": files}))


def _resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def _code(key: str) -> dict[str, str]:
    return {"S3Bucket": ASSETS, "S3Key": key}


def _file(name: str) -> dict[str, Any]:
    destination = {"bucketName": ASSETS, "objectKey": f"{name}.zip"}
    return {"source": {"path": name, "packaging": "zip"}, "destinations": {"here": destination}}


@contextmanager
def an_ai_server(state: Path, *, chat: str = "", emulator: str = "") -> Iterator[Server]:
    layout = Layout(state)
    layout.create()
    server = ai_process.server(layout, port=free_port())
    ai_process.start(server, layout, chat_url=chat, emulator_url=emulator)
    try:
        server.wait_until_ready(ai_process.READY_SECONDS)
        yield server
    finally:
        server.stop()


def ai_client(service: str, server: Server) -> Any:
    """A client as the product makes it, but with no second tries: the tests look at the first answer."""
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )
