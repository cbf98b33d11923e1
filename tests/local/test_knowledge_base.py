"""Ingestion into the laptop's Knowledge Base, as unchanged botocore clients see it."""

import json
import urllib.error
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError
from support.local_knowledge import IDS, a_knowledge_base, named
from support.local_stack import ai_client, an_ai_server

from local.layout import KNOWLEDGE_BASE_ID

TENANT = {"tenant_id": "north", "domain": "billing"}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with a_knowledge_base(tmp_path_factory.mktemp("knowledge")) as base:
        yield base


@pytest.fixture
def base(running):
    running.empty()
    running.fault(job_seconds=0, throttle=False, fail_documents=0)
    running.sync()
    return running


@contextmanager
def refused(code, status=400, match=None):
    with pytest.raises(ClientError, match=match) as caught:
        yield
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)


def test_a_job_indexes_what_is_new_or_changed_and_removes_what_is_gone(base):
    base.put("a.txt", "Invoices are sent on the first of the month.", TENANT)
    base.put("b.txt", "Refunds need a receipt.", TENANT)
    assert base.counts() == {"numberOfNewDocumentsIndexed": 2}
    assert base.counts() == {}
    base.put("a.txt", "Invoices are sent on the third of the month.", TENANT)
    base.put("b.txt", "Refunds need a receipt.", TENANT | {"confidence": 0.9})
    assert base.counts() == {"numberOfModifiedDocumentsIndexed": 1, "numberOfMetadataDocumentsModified": 1}
    assert base.found("When are invoices sent?", numberOfResults=1) == ["Invoices are sent on the third of the month."]
    base.remove("a.txt")
    assert base.counts() == {"numberOfDocumentsDeleted": 1}
    assert base.found("When are invoices sent?") == ["Refunds need a receipt."]
    assert base.status("a.txt", "b.txt") == ["NOT_FOUND", "INDEXED"]


def test_a_job_that_runs_shows_its_states_and_keeps_others_out(base):
    base.fault(job_seconds=1)
    base.put("a.txt", "Parcels leave at noon.", TENANT)
    job = base.start(description="by hand")
    assert (job["status"], job["description"]) == ("STARTING", "by hand")
    with refused("ConflictException", 409, match="still running"):
        base.start()
    seen = {job["status"]}
    while (job := base.job(job["ingestionJobId"]))["status"] in ("STARTING", "IN_PROGRESS"):
        seen.add(job["status"])
    assert seen == {"STARTING", "IN_PROGRESS"}
    assert job["status"] == "COMPLETE"
    assert 1 <= (job["updatedAt"] - job["startedAt"]).total_seconds() < 10
    assert job["statistics"]["numberOfDocumentsScanned"] == job["statistics"]["numberOfMetadataDocumentsScanned"] == 1
    base.fault(job_seconds=0)
    assert base.sync()["status"] == "COMPLETE"


def test_a_token_starts_one_job_however_often_it_is_sent(base):
    token = "token-" + "7" * 30
    first = base.start(clientToken=token)
    assert base.start(clientToken=token)["ingestionJobId"] == first["ingestionJobId"]
    base.finished(first["ingestionJobId"])
    assert base.start(clientToken=token)["status"] == "COMPLETE"
    with refused("ValidationException", match="33 to 256"):
        base.start(clientToken="x" * 257)


def test_a_job_can_be_stopped_and_only_while_it_runs(base):
    base.fault(job_seconds=30)
    job_id = base.start()["ingestionJobId"]
    assert base.agent.stop_ingestion_job(**IDS, ingestionJobId=job_id)["ingestionJob"]["status"] == "STOPPING"
    assert base.finished(job_id)["status"] == "STOPPED"
    with refused("ConflictException", 409):
        base.agent.stop_ingestion_job(**IDS, ingestionJobId=job_id)


def test_jobs_are_listed_newest_first_in_pages_and_by_status(base):
    newest = [base.sync()["ingestionJobId"] for _ in range(3)][::-1]
    page = base.agent.list_ingestion_jobs(**IDS, maxResults=2)
    assert [job["ingestionJobId"] for job in page["ingestionJobSummaries"]] == newest[:2]
    page = base.agent.list_ingestion_jobs(**IDS, maxResults=2, nextToken=page["nextToken"])
    assert page["ingestionJobSummaries"][0]["ingestionJobId"] == newest[2]
    by_status = {"filters": [{"attribute": "STATUS", "operator": "EQ", "values": ["FAILED"]}]}
    assert base.agent.list_ingestion_jobs(**IDS, **by_status)["ingestionJobSummaries"] == []
    oldest_first = {"sortBy": {"attribute": "STARTED_AT", "order": "ASCENDING"}}
    jobs = base.agent.list_ingestion_jobs(**IDS, **oldest_first)["ingestionJobSummaries"]
    assert jobs[-1]["ingestionJobId"] == newest[0]
    for wrong in (
        {"maxResults": 1001},
        {"nextToken": "elsewhere"},
        {"sortBy": {"attribute": "NAME", "order": "ASCENDING"}},
        {"filters": [{"attribute": "STATUS", "operator": "EQ", "values": ["DONE"]}]},
    ):
        with refused("ValidationException"):
            base.agent.list_ingestion_jobs(**IDS, **wrong)


def test_documents_that_fail_do_not_fail_the_job_and_are_tried_again(base):
    for number in range(4):
        base.put(f"{number}.txt", f"Shelf {number} holds paper.", TENANT)
    base.fault(fail_documents=2)
    job = base.sync()
    assert job["status"] == "COMPLETE"
    assert job["statistics"]["numberOfDocumentsFailed"] == 2
    assert job["statistics"]["numberOfNewDocumentsIndexed"] == 2
    assert all("[Files: s3://" in reason for reason in job["failureReasons"])
    assert len(job["failureReasons"]) == 2
    assert sorted(base.status(*(f"{number}.txt" for number in range(4)))) == ["FAILED"] * 2 + ["INDEXED"] * 2
    assert base.counts() == {"numberOfNewDocumentsIndexed": 2}


MALFORMED = "metadata file is malformed"


@pytest.mark.parametrize(
    ("sidecar", "reason"),
    [
        (b"not json", MALFORMED),
        (b"[]", MALFORMED),
        (b"{}", MALFORMED),
        (b"[" * 5000, MALFORMED),
        (b'{"metadataAttributes": ["tenant_id"]}', MALFORMED),
        (b'{"metadataAttributes": {"a": null}}', MALFORMED),
        (b'{"metadataAttributes": {"a": NaN}}', MALFORMED),
        (b'{"metadataAttributes": {"a": 1' + b"0" * 400 + b"}}", MALFORMED),
        (b'{"metadataAttributes": {"a": "\\ud800"}}', MALFORMED),
        (b'{"metadataAttributes": {"a": ["x", 1]}}', MALFORMED),
        (b'{"metadataAttributes": {"": "x"}}', MALFORMED),
        (b'{"metadataAttributes": {"x-amz-bedrock-kb-source-uri": "s3://other/place"}}', MALFORMED),
        (b'{"metadataAttributes": {"a": {"value": {"type": "NUMBER", "stringValue": "1"}}}}', MALFORMED),
        (b'{"metadataAttributes": {"a": {"value": {"type": "NUMBER", "numberValue": "1"}}}}', MALFORMED),
        (b'{"metadataAttributes": {"a": "' + b"x" * 2048 + b'"}}', "at most 2048 bytes"),
        (b'{"metadataAttributes": {' + b",".join(b'"k%d": 1' % n for n in range(51)) + b"}}", "at most 50 keys"),
        (b'{"metadataAttributes": {"a": "x"}}' + b" " * 10_240, "larger than 10240 bytes"),
    ],
)
def test_a_sidecar_that_can_not_be_believed_fails_its_document_only(base, sidecar, reason):
    base.put("bad.txt", "The gate opens at six.", sidecar=sidecar)
    base.put("good.txt", "The gate closes at ten.", TENANT)
    assert base.counts() == {"numberOfNewDocumentsIndexed": 1, "numberOfDocumentsFailed": 1}
    (details,) = base.details("bad.txt")
    assert details["status"] == "FAILED"
    assert reason in details["statusReason"]
    assert base.found("When does the gate open?") == ["The gate closes at ten."]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"x" * 50_001, "50000 characters"),
        (b"x" * (50 * 1024 * 1024 + 1), "larger than"),
    ],
    ids=["empty", "blank", "binary", "too long to embed", "too large"],
)
def test_a_document_that_can_not_be_embedded_fails_with_its_reason(base, content, reason):
    base.put("bad.txt", content, TENANT)
    assert base.counts() == {"numberOfDocumentsFailed": 1}
    assert reason in base.details("bad.txt")[0]["statusReason"]


def test_files_that_are_no_documents_are_left_out(base):
    base.put("picture.png", "not text", TENANT)
    base.put("folder/", b"")
    base.put("orphan.txt.metadata.json", json.dumps({"metadataAttributes": TENANT}))
    assert base.counts() == {"numberOfDocumentsSkipped": 1}
    assert base.status("picture.png", "orphan.txt") == ["IGNORED", "NOT_FOUND"]


def test_a_job_reads_every_page_of_the_bucket(base):
    # A page of S3 holds 1,000 objects; files of another format make no work.
    for number in range(1001):
        base.put(f"a/{number:04d}.png", b"x")
    base.put("z.txt", "The last one in the list.", TENANT)
    job = base.sync()
    assert job["statistics"]["numberOfDocumentsScanned"] == 1002
    assert job["statistics"]["numberOfDocumentsSkipped"] == 1001
    assert base.status("z.txt") == ["INDEXED"]


def test_one_document_can_be_handed_in_and_deleted_without_a_job(base):
    uri = base.put("a.txt", "The lift is out of order.", TENANT)
    content = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": uri}}}
    sidecar = {"type": "S3_LOCATION", "s3Location": {"uri": f"{uri}.metadata.json"}}
    answer = base.agent.ingest_knowledge_base_documents(**IDS, documents=[{"content": content, "metadata": sidecar}])
    assert [details["status"] for details in answer["documentDetails"]] == ["STARTING"]
    assert base.settled("a.txt")["status"] == "INDEXED"
    (result,) = base.retrieve("Is the lift working?")["retrievalResults"]
    assert result["metadata"]["tenant_id"] == "north"
    assert base.counts() == {}
    delete = base.agent.delete_knowledge_base_documents
    answer = delete(**IDS, documentIdentifiers=[named(uri), named(base.uri("never.txt"))])
    assert [details["status"] for details in answer["documentDetails"]] == ["DELETING", "NOT_FOUND"]
    assert base.settled("a.txt")["status"] == "NOT_FOUND"
    assert base.found("Is the lift working?") == []
    # The object is still there, so the next job brings it back: whoever deletes has to delete both.
    assert base.counts() == {"numberOfNewDocumentsIndexed": 1}


def test_a_document_handed_in_without_its_object_fails(base):
    content = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": base.uri("missing.txt")}}}
    base.agent.ingest_knowledge_base_documents(**IDS, documents=[{"content": content}])
    assert base.settled("missing.txt")["statusReason"] == "The object does not exist."


def test_documents_of_another_kind_or_place_are_refused(base):
    get = base.agent.get_knowledge_base_documents
    for identifiers in (
        [named("s3://elsewhere/semantic-memory/a.txt")],
        [named(base.uri("a.txt").replace("semantic-memory/", "other/"))],
        [named(base.uri("a.txt.metadata.json"))],
        [{"dataSourceType": "CUSTOM", "custom": {"id": "a"}}],
        [named(base.uri(f"{number}.txt")) for number in range(11)],
    ):
        with refused("ValidationException"):
            get(**IDS, documentIdentifiers=identifiers)
    inline = {"sourceType": "IN_LINE", "inlineContent": {"type": "TEXT", "textContent": {"data": "a"}}}
    custom = {"dataSourceType": "CUSTOM", "custom": {"customDocumentIdentifier": {"id": "a"}, **inline}}
    location = {"dataSourceType": "S3", "s3": {"s3Location": {"uri": base.uri("a.txt")}}}
    attribute = {"key": "tenant_id", "value": {"type": "STRING", "stringValue": "south"}}
    for document in (
        {"content": custom},
        {"content": location, "metadata": {"type": "IN_LINE_ATTRIBUTE", "inlineAttributes": [attribute]}},
        {"content": location, "metadata": {"type": "S3_LOCATION", "s3Location": {"uri": base.uri("b.txt")}}},
    ):
        with refused("ValidationException"):
            base.agent.ingest_knowledge_base_documents(**IDS, documents=[document])


def test_documents_are_listed_in_pages(base):
    for name in ("a.txt", "b.txt", "c.txt"):
        base.put(name, f"Note {name}", TENANT)
    base.sync()
    page = base.agent.list_knowledge_base_documents(**IDS, maxResults=2)
    rest = base.agent.list_knowledge_base_documents(**IDS, maxResults=2, nextToken=page["nextToken"])
    listed = [details["identifier"]["s3"]["uri"] for details in page["documentDetails"] + rest["documentDetails"]]
    assert listed == [base.uri(name) for name in ("a.txt", "b.txt", "c.txt")]
    assert "nextToken" not in rest


def test_only_the_one_knowledge_base_and_data_source_exist(base):
    about = base.agent.get_knowledge_base(knowledgeBaseId=KNOWLEDGE_BASE_ID)["knowledgeBase"]
    assert (about["status"], about["knowledgeBaseConfiguration"]["type"]) == ("ACTIVE", "VECTOR")
    assert base.agent.get_data_source(**IDS)["dataSource"]["status"] == "AVAILABLE"
    with refused("ResourceNotFoundException", 404):
        base.agent.get_knowledge_base(knowledgeBaseId="KBOTHER001")
    with refused("ResourceNotFoundException", 404):
        base.agent.start_ingestion_job(**IDS | {"dataSourceId": "DSOTHER001"})
    with refused("ResourceNotFoundException", 404):
        base.job("NOSUCHJOB1")


def test_faults_are_throttling_failing_documents_and_slow_jobs(base):
    told = base.fault(throttle=True)
    assert told == {"throttle": True, "fail_documents": 0, "job_seconds": 0.0}
    with refused("ThrottlingException", 429):
        base.start()
    base.fault(throttle=False)
    for wrong in ({}, {"fail_documents": -1}, {"fail_documents": True}, {"job_seconds": "2"}, {"slow": 1}):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            base.fault(**wrong)


def test_a_data_source_that_can_not_be_read_fails_the_job(tmp_path):
    with an_ai_server(tmp_path, emulator="http://127.0.0.1:9") as server:
        agent = ai_client("bedrock-agent", server)
        job_id = agent.start_ingestion_job(**IDS)["ingestionJob"]["ingestionJobId"]
        while (job := agent.get_ingestion_job(**IDS, ingestionJobId=job_id)["ingestionJob"])["status"] != "FAILED":
            assert job["status"] in ("STARTING", "IN_PROGRESS")
        assert job["failureReasons"] == ["The data source could not be read: EndpointConnectionError."]


def test_what_it_knows_survives_a_restart_and_a_job_that_it_interrupted_has_failed(base, tmp_path):
    emulator = base.s3.meta.endpoint_url
    uri = base.put("kept.txt", "Keys are kept at the desk.", TENANT)
    with an_ai_server(tmp_path, emulator=emulator) as server:
        before = type(base)(base.s3, server)
        before.fault(job_seconds=0)
        before.sync()
        before.fault(job_seconds=30)
        interrupted = before.start()["ingestionJobId"]
    with an_ai_server(tmp_path, emulator=emulator) as server:
        after = type(base)(base.s3, server)
        (result,) = after.retrieve("Where are the keys?")["retrievalResults"]
        assert result["location"]["s3Location"]["uri"] == uri
        assert after.job(interrupted)["status"] == "FAILED"
        after.fault(job_seconds=0)
        assert after.counts() == {}
