"""Episodes, parked runs and waiting for the ledger, on the real adapters over moto."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from agent_memory import contract, deployment
from agent_memory.cli import app as command
from agent_memory.domain.models import EpisodeKind, RunState
from agent_memory.domain.parking import parked_event
from support.aws import ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import AGENT, RUN, TENANT, a_claim, a_detail, a_ledger_run, a_parked_run, an_episode, an_event

DAY = 86_400
WHO = ("--tenant", TENANT, "--agent", AGENT, "--env", ENVIRONMENT)


@pytest.fixture
def account() -> Iterator[AwsAccount]:
    with an_aws_account() as aws:
        ssm = aws.client("ssm")
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused")
        values |= {"bus": aws.settings.bus, "operator-settings": json.dumps(aws.variables)}
        for name, value in values.items():
            ssm.put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        yield aws


def now() -> int:
    return int(time.time())


def run(*words: str) -> int:
    return command.run(list(words))


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert run(*words, "--output", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_episodes_are_listed_newest_first_without_vectors(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = account.services.tenant(TENANT).episodes
    for age in (3, 1, 2):
        ended = now() - age * DAY
        episodes.put(an_episode(run_id=f"r-{age}", ended_at=ended, created_at=ended, expires_at=now() + DAY))
    listed = asked(capsys, "episodes", "list", *WHO, "--limit", "2")
    assert isinstance(listed, list)
    assert [row["run_id"] for row in listed] == ["r-1", "r-2"]
    assert not {"task_vector", "digest_vector"} & set(listed[0])
    assert run("episodes", "list", *WHO) == 0
    assert "3 of 3 live episodes" in capsys.readouterr().err


def test_an_episode_is_shown_whole_and_a_missing_one_is_exit_code_3(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    account.services.tenant(TENANT).episodes.put(an_episode(expires_at=now() + DAY))
    shown = asked(capsys, "episodes", "show", RUN, *WHO)
    assert isinstance(shown, dict)
    assert shown["key_findings"] == ["Booking K7 could be moved without a fee."]
    assert "task_vector" not in shown
    assert run("episodes", "show", RUN, *WHO) == 0
    assert "Booking K7 could be moved" in capsys.readouterr().out
    assert run("episodes", "show", "another", *WHO) == 3
    assert run("episodes", "pin", "another", *WHO) == 3


def test_a_pin_removes_both_deadlines_and_unpinning_leaves_time_to_archive(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes = account.services.tenant(TENANT).episodes
    old = now() - 200 * DAY
    episodes.put(an_episode(ended_at=old, created_at=old, expires_at=now() + 60))
    asked(capsys, "episodes", "pin", RUN, *WHO)
    pinned = episodes.get(AGENT, RUN)
    assert pinned is not None
    assert (pinned.pinned, pinned.expires_at, pinned.decays_at) == (True, None, None)
    asked(capsys, "episodes", "pin", RUN, "--unpin", *WHO)
    loose = episodes.get(AGENT, RUN)
    assert loose is not None
    assert loose.expires_at is not None
    assert loose.decays_at is not None
    assert not loose.pinned
    assert loose.expires_at >= now() + 3 * DAY
    assert loose.decays_at <= loose.expires_at


def test_unpinning_leaves_the_time_in_which_this_deployment_archives(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.dumps({**account.variables, "AGENT_MEMORY_ARCHIVE_BEFORE_EXPIRY_HOURS": "240"})
    name = f"/agent-memory/{ENVIRONMENT}/operator-settings"
    account.client("ssm").put_parameter(Name=name, Value=told, Type="String", Overwrite=True)
    old = now() - 200 * DAY
    episodes = account.services.tenant(TENANT).episodes
    episodes.put(an_episode(ended_at=old, created_at=old, expires_at=now() + 60))
    asked(capsys, "episodes", "pin", RUN, "--unpin", *WHO)
    loose = episodes.get(AGENT, RUN)
    assert loose is not None
    assert loose.expires_at is not None
    assert loose.expires_at >= now() + 10 * DAY


def test_an_unpinned_summary_lives_as_long_as_summaries_do(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    dates = {"created_at": now() - DAY, "ended_at": now() - 60 * DAY, "expires_at": now() + 44 * DAY}
    account.services.tenant(TENANT).episodes.put(an_episode(kind=EpisodeKind.SUMMARY, sources=("r-1",), **dates))
    answer = asked(capsys, "episodes", "pin", RUN, "--unpin", *WHO)
    assert abs(answer["expires_at"] - (now() + 44 * DAY)) < 60


def park_one(account: AwsAccount, agent_id: str = AGENT, run_id: str = RUN) -> None:
    tenant = account.services.tenant(TENANT)
    content = parked_event(an_event(a_detail(agent_id=agent_id, run_id=run_id, ended_at=now() - 60)), None)
    key = tenant.claims.park(agent_id, run_id, content)
    tenant.ledger.accept(
        a_ledger_run(agent_id=agent_id, run_id=run_id, state=RunState.PARKED, content_sha256="", ended_at=now() - 60)
    )
    tenant.ledger.park(
        a_parked_run(agent_id=agent_id, run_id=run_id, content_key=key, expires_at=now() + DAY, user_ref="u-secret")
    )


def test_parked_runs_are_listed_and_shown_with_their_reason_and_no_user(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    park_one(account)
    park_one(account, agent_id="another-bot", run_id="r-8")
    listed = asked(capsys, "parked", "list", "--tenant", TENANT, "--env", ENVIRONMENT)
    assert isinstance(listed, list)
    assert {row["run_id"] for row in listed} == {RUN, "r-8"}
    assert run("parked", "show", RUN, "--tenant", TENANT, "--env", ENVIRONMENT) == 0
    printed = capsys.readouterr()
    assert "model_busy" in printed.out
    assert "parked redrive" in printed.err
    assert "u-secret" not in json.dumps(listed) + printed.out
    assert run("parked", "show", "another", "--tenant", TENANT, "--env", ENVIRONMENT) == 3


def test_the_same_run_id_of_two_agents_needs_the_agent(account: AwsAccount) -> None:
    park_one(account)
    park_one(account, agent_id="another-bot")
    where = ("--tenant", TENANT, "--env", ENVIRONMENT)
    assert run("parked", "show", RUN, *where) == 2
    assert run("parked", "show", RUN, *where, "--agent", "another-bot") == 0


def test_redriving_all_starts_each_parked_run_once(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    park_one(account)
    park_one(account, run_id="r-8")
    where = ("--tenant", TENANT, "--env", ENVIRONMENT)
    redriven = asked(capsys, "parked", "redrive", "--all", *where)
    assert isinstance(redriven, list)
    assert [row["decision"] for row in redriven] == ["started", "started"]
    again = asked(capsys, "parked", "redrive", "--all", *where)
    assert isinstance(again, list)
    # StartExecution with a name and input that still run answers as it did the first time.
    assert {row["decision"] for row in again} <= {"already_running", "started"}
    assert len(account.executions()) == 2


@pytest.mark.parametrize("words", [(), (RUN, "--all")])
def test_redrive_wants_a_run_or_all_and_not_both(account: AwsAccount, words: tuple[str, ...]) -> None:
    assert run("parked", "redrive", *words, "--tenant", TENANT, "--env", ENVIRONMENT) == 2


def emitted(
    account: AwsAccount, path: str, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[dict[str, object]]]:
    code = run("emit", path, "--wait", "--env", ENVIRONMENT, "--output", "json", *words)
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("runs") / "run.json"
    path.write_text(json.dumps(a_detail(ended_at=now() - 60)))
    return str(path)


@pytest.mark.parametrize(("state", "code"), [(RunState.STORED, 0), (RunState.PARKED, 1), (RunState.ERASED, 1)])
def test_emit_waits_on_the_ledger_until_the_run_is_settled(
    account: AwsAccount,
    file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    state: RunState,
    code: int,
) -> None:
    ledger = account.services.tenant(TENANT).ledger
    # What the pipeline does while the command waits, one step for every time it looks.
    steps: list[Callable[[], object]] = [
        lambda: ledger.accept(a_ledger_run()),
        lambda: ledger.move(AGENT, RUN, state=state, attempt=1, reason="why"),
    ]
    monkeypatch.setattr(deployment.Deployment, "pause", lambda *_: steps.pop(0)())
    found, arrivals = emitted(account, file, capsys)
    assert (found, arrivals[0]["state"], arrivals[0]["reason"]) == (code, state.value, "why")
    assert steps == []


def test_emit_stops_waiting_and_says_that_nothing_was_seen(
    account: AwsAccount, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, arrivals = emitted(account, file, capsys, "--timeout", "1")
    assert (code, arrivals[0]["state"]) == (1, "not_seen")


def test_emit_says_that_another_content_of_the_run_was_there_first(
    account: AwsAccount, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    account.services.tenant(TENANT).ledger.accept(a_ledger_run(content_sha256="0" * 64, state=RunState.STORED))
    code, arrivals = emitted(account, file, capsys)
    assert (code, arrivals[0]["state"]) == (1, "refused")
    assert "the first stays" in str(arrivals[0]["reason"])


@pytest.fixture
def letters(account: AwsAccount) -> tuple[str, str]:
    """The addresses of the dead letters of the intake and of the intake itself."""
    sqs = account.client("sqs")
    urls = tuple(sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("letters", "home"))
    for name, url in zip(("intake-dead-letters", "intake-queue"), urls, strict=True):
        account.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=url, Overwrite=True)
    return urls[0], urls[1]


def waiting(account: AwsAccount, url: str) -> int:
    answer = account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


def test_dead_letters_are_listed_by_ids_only_and_stay(
    account: AwsAccount, letters: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(12):
        body = json.dumps(an_event(run_id=f"r-{i}", user_id="ann@example.org"))
        account.client("sqs").send_message(QueueUrl=letters[0], MessageBody=body)
    account.client("sqs").send_message(QueueUrl=letters[0], MessageBody="prose about K7")
    listed = asked(capsys, "dead-letters", "list", "--env", ENVIRONMENT)
    assert isinstance(listed, list)
    assert {row["run_id"] for row in listed} == {None, *(f"r-{i}" for i in range(12))}
    assert not [word for word in ("ann@example.org", "K7") if word in json.dumps(listed)]
    assert waiting(account, letters[0]) == 13


def test_dead_letters_go_back_to_their_queue_as_they_came(
    account: AwsAccount, letters: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = {json.dumps(an_event(run_id=f"r-{i}")) for i in range(12)}
    for body in bodies:
        account.client("sqs").send_message(QueueUrl=letters[0], MessageBody=body)
    assert asked(capsys, "dead-letters", "redrive", "--env", ENVIRONMENT) == {"queue": "intake", "redriven": 12}
    assert asked(capsys, "dead-letters", "redrive", "--env", ENVIRONMENT) == {"queue": "intake", "redriven": 0}
    assert waiting(account, letters[0]) == 0
    received: set[str] = set()
    for _ in range(2):
        answer = account.client("sqs").receive_message(QueueUrl=letters[1], MaxNumberOfMessages=10)
        received |= {message["Body"] for message in answer["Messages"]}
    assert received == bodies


READS = {
    "source": f"agent-memory.client/{TENANT}",
    "detail-type": contract.RECORDS_READ,
    "detail": {
        "tenant_id": TENANT, "agent_id": AGENT, "memory_id": "harbour-Abc1234567", "context_id": "c-1",
        "record_ids": ["mem-" + "a" * 36],
    },
}  # fmt: skip


@pytest.fixture
def reads_letters(account: AwsAccount) -> tuple[str, str]:
    """The same of reports of reads, in a deployment that names a memory of AgentCore."""
    sqs, ssm = account.client("sqs"), account.client("ssm")
    urls = tuple(sqs.create_queue(QueueName=f"reads-{n}")["QueueUrl"] for n in range(2))
    values = {**dict(zip(contract.AGENTCORE_PARAMETER_NAMES, urls, strict=True))}
    values["agentcore-memories"] = json.dumps({TENANT: "harbour-Abc1234567"})
    for name, value in values.items():
        ssm.put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String", Overwrite=True)
    return urls[0], urls[1]


def test_reports_of_reads_that_could_not_be_kept_are_listed_and_go_back_to_their_queue(
    account: AwsAccount, reads_letters: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    recall = {"source": contract.OWN_SOURCE, "detail": {"tenant_id": TENANT, "agent_id": AGENT, "context_id": "c-2"}}
    strange = {**READS, "source": "agent-memory.client/someone-else"}
    for event in (READS, recall, strange):
        account.client("sqs").send_message(QueueUrl=reads_letters[0], MessageBody=json.dumps(event))
    of_reads = ("--queue", "agentcore-reads", "--env", ENVIRONMENT)
    listed = asked(capsys, "dead-letters", "list", *of_reads)
    assert isinstance(listed, list)
    told = {(one["tenant_id"], one["agent_id"], one["context_id"], one["memory_id"]) for one in listed}
    assert told == {(TENANT, AGENT, "c-1", "harbour-Abc1234567"), (TENANT, AGENT, "c-2", None), (None,) * 4}
    assert "mem-" not in json.dumps(listed)
    assert asked(capsys, "dead-letters", "redrive", *of_reads) == {"queue": "agentcore-reads", "redriven": 3}
    assert (waiting(account, reads_letters[0]), waiting(account, reads_letters[1])) == (0, 3)


@pytest.mark.usefixtures("account")
def test_without_a_memory_of_agentcore_there_are_no_letters_of_its_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dead-letters", "list", "--queue", "agentcore-reads", "--env", ENVIRONMENT) != 0
    said = capsys.readouterr().err
    assert "agentcoreMemories" in said
    # The stack of the last memory that was taken off the list stays, and CDK does not say so.
    assert f"cdk destroy agent-memory-{ENVIRONMENT}-agentcore" in " ".join(said.split())


def test_a_stuck_run_is_listed_shown_and_redriven_like_a_parked_one(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = account.services.tenant(TENANT)
    claim = a_claim(ended_at=now() - 60)
    tenant.claims.put_claim(claim)
    tenant.ledger.accept(a_ledger_run(ended_at=now() - 60, accepted_at=now() - 3600))
    where = ("--tenant", TENANT, "--env", ENVIRONMENT)
    listed = asked(capsys, "parked", "list", *where)
    assert isinstance(listed, list)
    assert [(row["run_id"], row["reason"]) for row in listed] == [(RUN, "stuck")]
    assert run("parked", "show", RUN, *where) == 0
    assert "0 parked, 1 stuck" in (run("parked", "list", *where), capsys.readouterr().err)[1]
    redriven = asked(capsys, "parked", "redrive", RUN, *where)
    assert isinstance(redriven, list)
    assert redriven[0]["decision"] == "started"
    assert asked(capsys, "parked", "list", *where) == []
