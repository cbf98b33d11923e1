"""Parallel reads inside a time budget. A read that is late is left behind, never waited for."""

import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from threading import TIMEOUT_MAX, Thread
from typing import TypeVar

from agent_memory.domain.errors import AccessRefusedError, RefusedInputError, RetryableError

Result = TypeVar("Result")


class Budget:
    """The time of one call. *clock*: monotonic seconds."""

    def __init__(self, milliseconds: int, clock: Callable[[], float]) -> None:
        self._seconds = milliseconds / 1000
        self._clock = clock
        self._started = clock()

    @property
    def spent_ms(self) -> int:
        """Whole milliseconds since the call began."""
        return round((self._clock() - self._started) * 1000)

    def left(self, share: float) -> float:
        """Seconds until *share* of the budget is spent; nought when it is."""
        return max(0.0, self._seconds * share - (self._clock() - self._started))


def patience(seconds: object, field: str) -> float:
    """How long somebody waits at most. Raises RefusedInputError for what is no time, or for ever."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < TIMEOUT_MAX:
        raise RefusedInputError(field, "must be a number of seconds above 0")
    return float(seconds)


def started(work: Callable[[], Result]) -> "Future[Result]":
    """Begin *work* in a thread of its own, in the caller's context: what traces the run finds its place there. A
    daemon: a read that hangs must not keep the process from ending."""
    future: Future[Result] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=context.run, args=(run,), daemon=True).start()
    return future


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """What *work* gives. Raises RetryableError when it takes longer than *seconds*; it is left behind then."""
    try:
        return started(work).result(timeout=seconds)
    except LateError:
        raise RetryableError(f"memory did not answer within {seconds:g} s", why="timeout") from None


def reason_of(error: Exception) -> str:
    """The word for why a read gave nothing: `denied`, `throttled`, `timeout`, `unreachable` or `error`."""
    if isinstance(error, AccessRefusedError):
        return "denied"
    if isinstance(error, LateError | TimeoutError):
        return "timeout"
    return error.why if isinstance(error, RetryableError) else "error"


class Reads:
    """Results of reads inside one budget. What gave nothing is noted in *degraded*, once per tier and reason."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.degraded: list[dict[str, str]] = []

    def result(self, future: "Future[Result]", share: float, *, tier: str) -> Result | None:
        """What *future* gives until *share* of the budget is spent; None when it gives nothing."""
        try:
            return future.result(timeout=self._budget.left(share))
        except Exception as error:
            degraded = {"tier": tier, "reason": reason_of(error)}
            if degraded not in self.degraded:
                self.degraded.append(degraded)
            return None
