"""The emulator as a child: what it keeps, what it refuses, what its functions see."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.local_stack import (
    BUCKET,
    FUNCTION,
    MACHINE,
    QUEUE,
    TABLE,
    an_emulator,
    clients_of,
    deployed,
    invoke,
)

from local.deploy import client
from local.engine import Engine
from local.layout import Layout, LocalRuntimeError
from local.processes import children, free_port


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with pytest.MonkeyPatch.context() as caller:
        caller.setenv("AWS_PROFILE", "somebody")
        caller.setenv("A_SECRET_OF_THE_CALLER", "secret")
        with an_emulator(tmp_path_factory.mktemp("engine")) as running:
            caller.undo()  # the clients of this test process must not look for that profile
            deployed(running, tmp_path_factory.mktemp("assembly"))
            yield running


def test_what_a_stack_holds_survives_down_and_up(tmp_path):
    state, out, port = tmp_path / "state", tmp_path / "out", free_port()
    with an_emulator(state, port=port) as running:
        deployed(running, out)
        clients = clients_of(running)
        client("dynamodb", clients).put_item(TableName=TABLE, Item={"id": {"S": "kept"}})
        client("s3", clients).put_object(Bucket=BUCKET, Key="a/b", Body=b"kept")
        queue = client("sqs", clients).get_queue_url(QueueName=QUEUE)["QueueUrl"]
        client("sqs", clients).send_message(QueueUrl=queue, MessageBody="kept")

    with an_emulator(state, port=port) as running:
        clients = clients_of(running)
        assert "Item" in client("dynamodb", clients).get_item(TableName=TABLE, Key={"id": {"S": "kept"}})
        expiry = client("dynamodb", clients).describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
        assert expiry["AttributeName"] == "expires_at"
        assert client("s3", clients).get_object(Bucket=BUCKET, Key="a/b")["Body"].read() == b"kept"
        received = client("sqs", clients).receive_message(QueueUrl=queue)["Messages"]
        assert [message["Body"] for message in received] == ["kept"]
        assert "pid" in invoke(running, {})
        machines = client("stepfunctions", clients).list_state_machines()["stateMachines"]
        assert [machine["name"] for machine in machines] == [MACHINE]
        assert not deployed(running, out)


def test_an_execution_that_a_restart_interrupted_is_begun_again(tmp_path):
    state, out, port = tmp_path / "state", tmp_path / "out", free_port()
    with an_emulator(state, port=port) as running:
        deployed(running, out)
        machines = client("stepfunctions", clients_of(running))
        (machine,) = machines.list_state_machines()["stateMachines"]
        started = machines.start_execution(stateMachineArn=machine["stateMachineArn"], input='{"a": 1}')
    with an_emulator(state, port=port):
        deadline = time.monotonic() + 10
        while (execution := machines.describe_execution(executionArn=started["executionArn"]))["status"] == "RUNNING":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (execution["status"], execution["output"]) == ("SUCCEEDED", '{"a": 1}')


def test_a_second_start_on_the_same_state_is_refused_with_what_to_do(engine):
    second = Engine(engine._layout, port=free_port())
    with pytest.raises(LocalRuntimeError, match=r"already runs .* python -m local down"):
        second.start({})


def test_a_port_in_use_is_refused_with_what_to_do(tmp_path):
    layout = Layout(tmp_path)
    layout.create()
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(LocalRuntimeError, match=r"taken by another program.*python -m local reset"),
    ):
        Engine(layout, port=taken.getsockname()[1]).start({})
    assert not layout.pid_file("emulator").exists()


def test_a_pid_file_left_by_a_crash_does_not_stop_a_start(tmp_path):
    state, port = tmp_path / "state", free_port()
    with an_emulator(state, port=port) as crashed:
        os.kill(crashed.server.pid, signal.SIGKILL)
        os.waitpid(-1, 0)
        # The number may belong to another program by now.
        left = Layout(state).pid_file("emulator")
        left.write_text(left.read_text().replace('"pid": ', f'"pid": {os.getpid()}, "was": '))
        assert crashed.server.pid is None
    with an_emulator(state, port=port) as running:
        assert running.server.answers()


def test_functions_inherit_nothing_of_the_caller(engine):
    environment = invoke(engine, {})["environment"]
    assert environment["AWS_ENDPOINT_URL"] == engine.server.url
    assert environment["AWS_ENDPOINT_URL_COMPREHEND"] == "http://127.0.0.1:9"
    assert environment["HOME"] != os.environ["HOME"]
    assert not {"AWS_PROFILE", "A_SECRET_OF_THE_CALLER"} & set(environment)


def test_functions_cannot_import_the_runtime_that_runs_them(engine):
    assert not [entry for entry in invoke(engine, {})["path"] if entry.endswith("/local")]


def test_calls_over_the_concurrency_cap_wait_and_all_succeed(engine):
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: invoke(engine, {"seconds": 0.2}), range(24)))
    assert all("pid" in answer for answer in answers)
    assert len({answer["pid"] for answer in answers}) <= 10


def test_a_warm_call_does_not_wait_for_log_lines(engine):
    invoke(engine, {})
    seconds = []
    for _ in range(10):
        started = time.monotonic()
        invoke(engine, {})
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 0.04


def test_what_a_function_logs_and_why_it_failed_is_in_the_log_file(engine):
    invoke(engine, {"say": "a line to find"})
    assert "errorMessage" in invoke(engine, {"fail": True})["error"]
    deadline = time.monotonic() + 3
    while "asked to fail" not in (text := engine._layout.function_log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert f'{FUNCTION} {{"said": "a line to find"}}' in text
    assert f"{FUNCTION} ERROR" in text
    assert "ValueError: asked to fail" in text


def test_workers_share_one_unpacked_copy_of_a_layer(engine):
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: invoke(engine, {"seconds": 0.3}), range(3)))
    assert len({answer["pid"] for answer in answers}) == 3
    assert len({os.path.realpath(answer["layer"]) for answer in answers}) == 1
    assert Path(os.path.realpath(answers[0]["layer"])).is_relative_to(engine._layout.layer_cache)


def test_killed_workers_are_replaced(engine):
    before = invoke(engine, {})["pid"]
    assert before in children(engine.server.pid)
    assert engine.kill_workers() >= 1
    time.sleep(0.2)
    assert invoke(engine, {})["pid"] != before


def test_the_emulator_listens_on_loopback_only(engine):
    hostname = socket.gethostbyname(socket.gethostname())
    if hostname.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((hostname, engine.server.port), timeout=1)


def test_the_launcher_refuses_another_version_than_the_one_it_mends(tmp_path, monkeypatch):
    import importlib.metadata

    from local import emulator

    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.9.9")
    with pytest.raises(SystemExit, match="python -m local install"):
        emulator.main(tmp_path / "log", tmp_path)


def test_records_of_agentcore_are_found_below_their_namespace_and_by_their_date(engine):
    control, data = (client(name, clients_of(engine)) for name in ("bedrock-agentcore-control", "bedrock-agentcore"))
    memory_id = control.create_memory(name="quays", eventExpiryDuration=30)["memory"]["id"]
    spaces = {"mine": "/tenants/a/x/", "old": "/tenants/a/", "neighbour": "/tenants/ab/"}
    records = [
        {
            "requestIdentifier": name,
            "namespaces": [space],
            "content": {"text": name},
            "timestamp": 1_700_000_000 if name == "old" else 1_800_000_000,
        }
        for name, space in spaces.items()
    ]
    data.batch_create_memory_records(memoryId=memory_id, records=records)

    def found(**asked):
        listed = data.list_memory_records(memoryId=memory_id, namespacePath="/tenants/a/", **asked)
        return {one["content"]["text"] for one in listed["memoryRecordSummaries"]}

    before = {
        "left": {"metadataKey": "x-amz-agentcore-memory-createdAt"},
        "operator": "BEFORE",
        "right": {"metadataValue": {"dateTimeValue": 1_750_000_000}},
    }
    assert found() == {"mine", "old"}
    assert found(metadataFilters=[before]) == {"old"}
    assert found(metadataFilters=[{**before, "operator": "AFTER"}]) == {"mine"}
