"""The spool: bounded, private, a tenant's own, and nothing in it is lost."""

import json
import os
import stat
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest
from agent_memory.domain.errors import AccessRefusedError, AgentMemoryError, RefusedInputError, RetryableError
from agent_memory.spool import DAY_SECONDS, Spool, SpoolFullError
from agent_memory.spool_sending import MAX_DENIALS

WORDS = "the customer's own words"


def a_detail(run_id: str = "r-1", tenant_id: str = "meadow", **changes: object) -> dict[str, object]:
    transcript = {"messages": [{"role": "user", "content": WORDS}]}
    return {"tenant_id": tenant_id, "agent_id": "gardener", "run_id": run_id, "transcript": transcript, **changes}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", "test")


def refuse(error: Exception) -> object:
    def send(_: object) -> None:
        raise error

    return send


def test_what_was_kept_is_sent_as_it_was_oldest_first_and_is_gone_then(spool: Spool) -> None:
    for number in (1, 2, 3):
        file = spool.keep(a_detail(f"r-{number}"))
        os.utime(file, (file.stat().st_mtime - 60 * number,) * 2)
    sent: list[dict[str, object]] = []
    report = spool.send("meadow", sent.append)
    assert (report.sent, report.waiting, report.reason) == (3, 0, None)
    assert sent == [a_detail("r-3"), a_detail("r-2"), a_detail("r-1")]
    assert spool.runs("meadow") == []


def test_the_same_run_kept_twice_waits_once_and_another_content_beside_it(spool: Spool) -> None:
    assert spool.keep(a_detail()) == spool.keep(a_detail())
    spool.keep(a_detail(task="another"))
    assert len(spool.runs("meadow")) == 2


def test_only_the_owner_can_read_what_waits(spool: Spool) -> None:
    before = os.umask(0)
    try:
        file = spool.keep(a_detail())
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (file.parent, spool.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(found.stat().st_mode) & 0o077 == 0 for found in file.parent.rglob("*"))


def test_a_tenants_runs_are_sent_as_that_tenants_and_as_nobody_elses(spool: Spool) -> None:
    spool.keep(a_detail(tenant_id="meadow"))
    stray = spool.keep(a_detail(tenant_id="Meadow"))
    assert spool.tenants() == ["Meadow", "meadow"]
    stray.rename(next(spool.folder.glob("meadow-*")) / stray.name)
    sent: list[dict[str, object]] = []
    report = spool.send("meadow", sent.append)
    assert [detail["tenant_id"] for detail in sent] == ["meadow"]
    assert (report.sent, report.set_aside) == (1, 1)


@pytest.mark.parametrize("tenant_id", ["../elsewhere", "a/b", "", "registry", None, ".."])
def test_an_id_that_is_no_tenant_never_becomes_a_folder(spool: Spool, tenant_id: object) -> None:
    with pytest.raises(RefusedInputError, match="tenant_id"):
        spool.keep(a_detail() | {"tenant_id": tenant_id})
    assert not spool.folder.exists()


@pytest.mark.parametrize("error", [RetryableError("down"), AccessRefusedError("denied")])
def test_what_a_later_try_may_mend_keeps_everything(spool: Spool, error: Exception) -> None:
    spool.keep(a_detail("r-1"))
    spool.keep(a_detail("r-2"))
    report = spool.send("meadow", refuse(error))  # type: ignore[arg-type]
    assert (report.sent, report.waiting, report.reason) == (0, 2, str(error))


@pytest.mark.parametrize(
    "poison", [RefusedInputError("detail", "must be small"), AgentMemoryError("never"), TypeError(WORDS)]
)
def test_a_run_that_can_never_be_sent_is_set_aside_and_holds_up_no_other(spool: Spool, poison: Exception) -> None:
    bad = spool.keep(a_detail("r-bad"))
    os.utime(bad, (bad.stat().st_mtime - 60,) * 2)
    spool.keep(a_detail("r-good"))
    sent: list[object] = []

    def send(detail: dict[str, object]) -> None:
        if detail["run_id"] == "r-bad":
            raise poison
        sent.append(detail)

    report = spool.send("meadow", send)
    assert (report.sent, report.set_aside, report.waiting) == (1, 1, 0)
    (aside,) = spool.runs("meadow")
    assert aside.run_id == "r-bad"
    assert aside.reason
    assert WORDS not in aside.reason
    assert spool.send("meadow", sent.append, again=True).sent == 1
    assert spool.runs("meadow") == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'"text"'])
def test_a_file_that_is_no_run_is_set_aside(spool: Spool, content: bytes) -> None:
    spool.keep(a_detail()).write_bytes(content)
    assert spool.runs("meadow")[0].run_id == ""
    report = spool.send("meadow", lambda _: None)
    assert (report.sent, report.set_aside) == (0, 1)


def test_the_spool_is_bounded_for_each_tenant_and_keeps_what_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "test", max_bytes=400)
    spool.keep(a_detail("r-1"))
    spool.keep(a_detail("r-2"))
    with pytest.raises(SpoolFullError, match="agent-memory spool send"):
        spool.keep(a_detail("r-3"))
    assert len(spool.runs("meadow")) == 2
    spool.keep(a_detail("r-1", tenant_id="orchard"))


def test_what_is_too_old_goes_and_is_counted(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    spool = Spool(tmp_path, "test", max_days=2, clock=lambda: now[0])
    os.utime(spool.keep(a_detail("r-old")), (now[0], now[0]))
    now[0] += 2 * DAY_SECONDS + 1
    with pytest.warns(RuntimeWarning, match="1 run.* of meadow waited too long"):
        kept = spool.keep(a_detail("r-new", task="x"))
    os.utime(kept, (now[0], now[0]))
    sent: list[dict[str, object]] = []
    spool.send("meadow", sent.append)
    assert [detail["run_id"] for detail in sent] == ["r-new"]


def test_half_a_file_that_a_dead_writer_left_is_never_sent_and_goes(spool: Spool) -> None:
    file = spool.keep(a_detail())
    half = file.with_name(f".{file.name}.1.2.part")
    half.write_bytes(b'{"tenant')
    os.utime(half, (1, 1))
    assert spool.send("meadow", lambda _: None).sent == 1
    assert not half.exists()


def _keep_and_send(folder: Path, worker: int, out: Path) -> None:
    spool = Spool(folder, "test")
    for number in range(25):
        spool.keep(a_detail(f"r-{worker}-{number}"))
        if number % 5 == 0:
            spool.send("meadow", lambda detail: _note(out, str(detail["run_id"])))


def _note(out: Path, run_id: str) -> None:
    (out / run_id).touch()


def test_two_processes_that_keep_and_send_at_once_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    context = get_context("spawn")
    workers = [context.Process(target=_keep_and_send, args=(tmp_path / "spool", n, out)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    Spool(tmp_path / "spool", "test").send("meadow", lambda detail: _note(out, str(detail["run_id"])))
    assert {found.name for found in out.iterdir()} == {f"r-{w}-{n}" for w in range(2) for n in range(25)}


def test_a_second_sender_leaves_the_first_alone(spool: Spool) -> None:
    spool.keep(a_detail())
    under_way, done = threading.Event(), threading.Event()

    def slow(_: object) -> None:
        under_way.set()
        assert done.wait(10)

    first = threading.Thread(target=spool.send, args=("meadow", slow))
    first.start()
    assert under_way.wait(10)
    assert spool.send("meadow", lambda _: pytest.fail("sent twice")).reason == "another process is sending"
    done.set()
    first.join(10)
    assert spool.runs("meadow") == []


def test_a_file_holds_the_detail_and_nothing_more(spool: Spool) -> None:
    assert json.loads(spool.keep(a_detail()).read_text()) == a_detail()


def test_a_run_that_is_denied_does_not_hold_up_the_others(spool: Spool) -> None:
    for number in range(3):
        spool.keep(a_detail(f"r-{number}"))
    sent: list[object] = []

    def send(detail: dict[str, object]) -> None:
        if detail["run_id"] == "r-0":
            raise AccessRefusedError("s3:PutObject was refused")
        sent.append(detail["run_id"])

    report = spool.send("meadow", send)
    assert (sorted(map(str, sent)), report.waiting) == (["r-1", "r-2"], 1)
    assert report.reason == "s3:PutObject was refused"


def aged(spool: Spool, *run_ids: str) -> None:
    """Keep runs, the first the oldest."""
    for place, run_id in enumerate(run_ids):
        file = spool.keep(a_detail(run_id))
        os.utime(file, (file.stat().st_mtime - 600 + place,) * 2)


@pytest.mark.parametrize("error", [AccessRefusedError("s3:PutObject was refused"), RetryableError("late")])
def test_the_oldest_runs_that_fail_do_not_hold_up_those_behind_them(spool: Spool, error: Exception) -> None:
    aged(spool, "bad-1", "bad-2", "bad-3", "good-1", "good-2", "good-3")
    sent: list[object] = []

    def send(detail: dict[str, object]) -> None:
        if str(detail["run_id"]).startswith("bad"):
            raise error
        sent.append(detail["run_id"])

    for _ in range(5):
        spool.send("meadow", send, limit=3)
    assert sent == ["good-1", "good-2", "good-3"]
    assert len(spool.runs("meadow")) == 3


def test_a_run_that_is_denied_again_and_again_is_set_aside_with_its_reason_and_comes_back_when_asked(
    spool: Spool,
) -> None:
    aged(spool, "r-large")
    denied = refuse(AccessRefusedError("s3:PutObject was refused"))
    reports = [spool.send("meadow", denied, limit=3) for _ in range(MAX_DENIALS)]  # type: ignore[arg-type]
    assert [(report.set_aside, report.waiting) for report in reports] == [(0, 1)] * (MAX_DENIALS - 1) + [(1, 0)]
    assert "1 set aside" in str(reports[-1].notice("meadow"))
    (aside,) = spool.runs("meadow")
    assert aside.reason == f"s3:PutObject was refused; tried {MAX_DENIALS} times while other runs were taken"
    assert spool.send("meadow", denied, limit=3, again=True).set_aside == 0  # type: ignore[arg-type]
    (waits,) = spool.runs("meadow")
    assert (waits.reason, waits.tries, waits.last_failure) == (None, 1, "s3:PutObject was refused")
    assert spool.send("meadow", lambda _: None).sent == 1
    assert [file.name for file in next(spool.folder.glob("meadow-*")).rglob("*.tries")] == []


def test_where_nothing_gets_through_no_run_is_set_aside(spool: Spool) -> None:
    aged(spool, "r-1", "r-2")
    for _ in range(MAX_DENIALS + 1):
        report = spool.send("meadow", refuse(AccessRefusedError("events:PutEvents was refused")))  # type: ignore[arg-type]
    assert (report.set_aside, report.waiting, report.notice("meadow")) == (0, 2, None)
    assert [run.last_failure for run in spool.runs("meadow")] == ["events:PutEvents was refused"] * 2
