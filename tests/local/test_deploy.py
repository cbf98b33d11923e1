"""From a cloud assembly to running stacks."""

import json
import stat
from pathlib import Path

import pytest
from support.local_stack import TABLE, an_emulator, clients_of, deployed, invoke, write_assembly

from local import layout
from local.deploy import Asset, Deployer, client, inputs_fingerprint, stacks_in_order, synthesise
from local.layout import LocalRuntimeError


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with an_emulator(tmp_path_factory.mktemp("deploy")) as running:
        yield running


def test_a_stack_is_deployed_once_and_updated_when_its_template_changes(engine, tmp_path):
    assert deployed(engine, tmp_path)
    assert not deployed(engine, tmp_path)
    assert deployed(engine, tmp_path, memory=256)
    configuration = client("lambda", clients_of(engine)).get_function_configuration(FunctionName="small-function")
    assert configuration["MemorySize"] == 256
    assert "pid" in invoke(engine, {})


def test_an_update_keeps_what_the_tables_hold(engine, tmp_path):
    deployed(engine, tmp_path)
    tables = client("dynamodb", clients_of(engine))
    tables.put_item(TableName=TABLE, Item={"id": {"S": "kept"}})
    deployed(engine, tmp_path, memory=512)
    assert "Item" in tables.get_item(TableName=TABLE, Key={"id": {"S": "kept"}})


def test_expiry_that_the_emulator_drops_is_applied(engine, tmp_path):
    deployed(engine, tmp_path, memory=192)
    expiry = client("dynamodb", clients_of(engine)).describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", "expires_at")


def test_a_stack_that_the_emulator_forgot_does_not_stand(engine, tmp_path):
    deployed(engine, tmp_path)
    deployer = Deployer(clients_of(engine), lambda _: None)
    assert deployer.stand(["small"])
    assert not deployer.stand(["small", "never-deployed"])


def test_a_template_that_fails_says_which_resource_and_why(engine, tmp_path):
    write_assembly(tmp_path)
    file = tmp_path / "small.template.json"
    template = json.loads(file.read_text())
    template["Resources"] = {"Odd": {"Type": "AWS::Nothing::AtAll", "Properties": {}}}
    file.write_text(json.dumps(template))
    (stack,) = stacks_in_order(tmp_path)
    stack.name = "odd"
    with pytest.raises(LocalRuntimeError, match=r"odd .*AWS::Nothing::AtAll"):
        Deployer(clients_of(engine), lambda _: None).bring(stack, None)


def test_stacks_come_after_those_they_depend_on(tmp_path):
    artifacts = {}
    for name, needs in (("access", ["consolidation", "storage"]), ("consolidation", ["storage"]), ("storage", [])):
        (tmp_path / f"{name}.json").write_text('{"Resources": {}}')
        properties = {"templateFile": f"{name}.json"}
        artifacts[name] = {"type": "aws:cloudformation:stack", "dependencies": needs, "properties": properties}
    artifacts["tree"] = {"type": "cdk:tree", "properties": {}}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    assert [stack.name for stack in stacks_in_order(tmp_path)] == ["storage", "consolidation", "access"]


def test_the_check_of_a_cdk_accounts_bootstrap_is_taken_out(tmp_path):
    write_assembly(tmp_path)
    file = tmp_path / "small.template.json"
    template = json.loads(file.read_text()) | {
        "Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>"}},
        "Rules": {"CheckBootstrapVersion": {}},
    }
    file.write_text(json.dumps(template))
    (stack,) = stacks_in_order(tmp_path)
    assert set(stack.template) == {"Resources"}


def test_an_assets_bucket_may_be_named_by_account_and_region(tmp_path):
    destination = {"bucketName": "assets-${AWS::AccountId}-${AWS::Region}", "objectKey": "k"}
    asset = Asset(tmp_path, {"source": {"path": "p", "packaging": "file"}, "destinations": {"d": destination}})
    assert asset.bucket == "assets-000000000000-us-east-1"


@pytest.mark.parametrize("name", ["app.py", "stacks/storage.py", "lambdas/bootstrap/handler.py", "cdk.json"])
def test_every_source_and_setting_changes_the_fingerprint_and_caches_do_not(tmp_path, name):
    before = inputs_fingerprint({}, tmp_path)
    (tmp_path / "lambdas" / "__pycache__").mkdir(parents=True)
    (tmp_path / "lambdas" / "__pycache__" / "handler.pyc").write_text("")
    assert inputs_fingerprint({}, tmp_path) == before
    assert inputs_fingerprint({"memoryTtlDays": "30"}, tmp_path) != before
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1")
    assert inputs_fingerprint({}, tmp_path) != before


def an_app(folder, text):
    app = folder / "app.py"
    app.write_text(f"import json, os, pathlib, sys\nout = pathlib.Path(os.environ['CDK_OUTDIR'])\nout.mkdir()\n{text}")
    return app


def test_synth_gets_settings_node_and_nothing_of_an_aws_account(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "somebody")
    app = an_app(tmp_path, "(out / 'seen').write_text(json.dumps([sys.argv[1:], dict(os.environ)]))")
    synthesise(tmp_path / "out", {"memoryTtlDays": "30"}, app)
    arguments, environment = json.loads((tmp_path / "out" / "seen").read_text())
    assert arguments == ["-c", "memoryTtlDays=30", "-c", "env=local"]
    assert not [name for name in environment if name.startswith("AWS_")]
    assert Path(environment["JSII_NODE"]).stat().st_mode & stat.S_IXUSR


def test_a_synth_that_fails_says_why(tmp_path):
    app = an_app(tmp_path, "sys.exit('pruneDays: must be above 0')")
    with pytest.raises(LocalRuntimeError, match="pruneDays: must be above 0"):
        synthesise(tmp_path / "out", {}, app)


def test_a_missing_node_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(layout.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LocalRuntimeError, match=r"Node is missing.*make install|Node is missing.*make local-install"):
        synthesise(tmp_path / "out", {}, an_app(tmp_path, ""))
