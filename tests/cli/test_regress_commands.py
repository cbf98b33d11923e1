"""`agent-memory regress`, on the real function and adapters over moto."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from agent_memory import contract
from agent_memory.aws.regression_function import RegressionFunction
from agent_memory.cli import app as command
from agent_memory.deployment import Deployment
from agent_memory.domain.errors import ModelBusyError
from agent_memory.domain.quality import gate
from support.aws import ENVIRONMENT, AwsAccount, an_aws_account
from support.builders import AGENT, DAY, NOW, TENANT, LambdaContext
from support.detectors import KnownWords
from support.recalls import FixedEmbedder, an_episode_at
from support.regressions import a_case, a_score
from support.retrieval import a_knowledge_base

from lambdas.regression_cases.handler import handler

WHERE = ("--tenant", TENANT, "--env", ENVIRONMENT)
ADD = ("--agent", AGENT, "--question", "Move a booking.", "--criterion", "Booking K7 could be moved without a fee.")


class InvokedHere:
    """Lambda's Invoke, in this process."""

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - as the SDK names them
        try:
            with redirect_stdout(io.StringIO()):  # what Lambda sends to its log
                answer = handler(json.loads(Payload), LambdaContext())
        except Exception as error:
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(str(error)).encode())}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsAccount]:
    with an_aws_account() as aws:
        values = dict.fromkeys(contract.PARAMETER_NAMES, "unused") | {"operator-settings": json.dumps(aws.variables)}
        for name, value in values.items():
            aws.client("ssm").put_parameter(Name=f"/agent-memory/{ENVIRONMENT}/{name}", Value=value, Type="String")
        vars(aws.services)["embedder"] = FixedEmbedder()
        vars(aws.services)["detector"] = KnownWords({"Ada": "NAME"})
        a_knowledge_base(aws)
        function = RegressionFunction(InvokedHere(), function="regression-cases")
        monkeypatch.setattr(Deployment, "regression_function", function)
        yield aws


def run(*words: str) -> int:
    return command.run(list(words))


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(*words, "--output", "json") == code
    return json.loads(capsys.readouterr().out)


def test_cases_are_added_listed_and_removed(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("regress", "add", "move", *ADD, *WHERE) == 0
    printed = capsys.readouterr()
    assert "move is kept" in printed.out
    assert "regress run" in printed.err
    [listed] = asked(capsys, "regress", "list", *WHERE)
    assert (listed["case_id"], listed["minimum"], listed["scorer"]) == ("move", 0.7, "retrieval")
    assert run("regress", "list", *WHERE) == 0
    assert "Booking K7" in capsys.readouterr().out
    assert asked(capsys, "regress", "remove", "move", *WHERE) == {"case_id": "move", "removed": True}
    assert run("regress", "remove", "move", *WHERE) == 3
    assert asked(capsys, "regress", "list", *WHERE) == []


def test_cases_come_from_a_file_and_personal_data_in_them_is_said_to_be_replaced(
    account: AwsAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {"agent_id": AGENT, "question": "Move Ada's booking.", "criteria": ["No fee."], "minimum": 0.5}
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(json.dumps({**case, "case_id": f"c-{n}"}) for n in range(2)) + "\n\n")
    assert run("regress", "add", "--from", str(file), *WHERE) == 0
    assert "c-1 was replaced before it was stored" in capsys.readouterr().err
    found = asked(capsys, "regress", "list", *WHERE)
    assert [one["question"] for one in found] == ["Move [NAME]'s booking."] * 2


def test_a_run_passes_fails_and_never_passes_without_cases(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(capsys, "regress", "run", *WHERE, code=1) == {"gate": "NOT_RUN", "cases": []}
    run("regress", "add", "move", *ADD, *WHERE)
    failed = asked(capsys, "regress", "run", *WHERE, code=1)
    assert (failed["gate"], failed["cases"][0]["verdict"], failed["cases"][0]["score"]) == ("FAIL", "FAIL", 0.0)
    account.services.tenant(TENANT).episodes.put(an_episode_at(0.95))
    passed = asked(capsys, "regress", "run", "move", *WHERE)
    assert (passed["gate"], passed["cases"][0]["score"]) == ("PASS", 1.0)
    assert run("regress", "run", *WHERE) == 0
    assert "PASS: 1 case(s)" in capsys.readouterr().out
    assert run("regress", "run", "none-such", *WHERE) == 3
    run("regress", "add", "judged", *ADD, "--scorer", "judge", *WHERE)
    judged = asked(capsys, "regress", "run", *WHERE, code=1)
    assert (judged["gate"], judged["cases"][0]["reason"]) == ("NOT_RUN", "no_judge_model")


def test_a_model_that_is_down_is_not_a_failed_case(account: AwsAccount, capsys: pytest.CaptureFixture[str]) -> None:
    run("regress", "add", "move", *ADD, *WHERE)
    vars(account.services)["embedder"] = FixedEmbedder(ModelBusyError("down"))
    capsys.readouterr()
    assert run("regress", "run", *WHERE) == 4
    assert "its log says which" in capsys.readouterr().err


def test_the_report_of_a_night_shows_each_case_before_and_after(
    account: AwsAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("regress", "report", *WHERE) == 3
    store, case = account.services.tenant(TENANT).regressions, a_case()
    for night, after in (("n-2027-01-14", 0.2), ("n-2027-01-15", 0.8)):
        quality = gate(TENANT, night, [a_score(case, 0.9)], [a_score(case, after)], now=NOW)
        store.keep_result(quality, expires_at=NOW + DAY)
    latest = asked(capsys, "regress", "report", *WHERE)
    assert (latest["night"], latest["verdict"], latest["delta"]) == ("n-2027-01-15", "PASS", -0.1)
    assert run("regress", "report", "n-2027-01-14", *WHERE) == 1
    printed = capsys.readouterr()
    assert "move-a-booking" in printed.out
    assert "is taken back" in printed.err
    assert run("regress", "report", "n-2020-01-01", *WHERE) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("add", *ADD),
        ("add", "move"),
        ("add", "move", "--from", "cases.jsonl"),
        ("add", "--from", "no-such-file.jsonl"),
        ("add", "a b", *ADD),
        ("remove", "a#b"),
        ("add", "move", *ADD, "--minimum", "7"),
        ("add", "move", *ADD, "--scorer", "agentcore"),
    ],
)
def test_wrong_usage_is_a_sentence(
    account: AwsAccount, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run("regress", *words, *WHERE) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "[]\n", "{not json\n", '{"case_id": "a"}\n7\n'])
def test_a_file_that_holds_no_cases_is_refused(account: AwsAccount, tmp_path: Path, content: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(content)
    assert run("regress", "add", "--from", str(file), *WHERE) == 2
