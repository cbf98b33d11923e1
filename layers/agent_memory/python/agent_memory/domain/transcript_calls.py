"""Tool calls and their results, matched by id wherever in the run the two stand."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from agent_memory.domain.models import Model
from agent_memory.domain.transcript_blocks import Call, Piece, Result


class ToolCall(Model):
    """One call and its answer; *result* None: it was never answered."""

    name: str
    arguments: str
    result: str | None = None
    failed: bool = False


class MatchedCalls:
    """The calls and the unexplained results of each message of a run."""

    def __init__(self, messages: Sequence[Sequence[Piece]], counts: Counter[str]) -> None:
        self._counts = counts
        self._calls: list[tuple[int, Call]] = []
        self._answers: dict[int, Result] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._open: dict[str, deque[int]] = defaultdict(deque)
        self._answered: set[tuple[str | None, str]] = set()
        self._orphans: dict[int, list[str]] = defaultdict(list)
        self._of_message: dict[int, list[int]] = defaultdict(list)
        for position, pieces in enumerate(messages):
            for piece in pieces:
                if isinstance(piece, Call):
                    self._add(position, piece)
        results = [(p, piece) for p, pieces in enumerate(messages) for piece in pieces if isinstance(piece, Result)]
        for position, result in results:
            if result.id is not None:
                self._match_by_id(position, result)
        self._match_by_name([(position, result) for position, result in results if result.id is None])

    def calls(self, position: int) -> tuple[ToolCall, ...]:
        """The calls of the message at *position*, each once."""
        return tuple(self._tool_call(index) for index in self._of_message.get(position, ()))

    def orphans(self, position: int) -> list[str]:
        """Texts of the results at *position* that no call explains."""
        return self._orphans.get(position, [])

    def _tool_call(self, index: int) -> ToolCall:
        call, answer = self._calls[index][1], self._answers.get(index)
        return ToolCall(
            name=call.name,
            arguments=call.arguments,
            result=answer.text if answer else None,
            failed=answer.failed if answer else False,
        )

    def _add(self, position: int, call: Call) -> None:
        if call.id is not None:
            # A block and an entry of tool_calls are one call in two spellings; a repeated message is another matter.
            same, again = (position, call.id), (call.id, call.name, call.arguments)
            if same in self._seen or again in self._seen:
                self._counts["duplicate_tool_calls"] += same not in self._seen
                return
            self._seen |= {same, again}
            self._open[call.id].append(len(self._calls))
        self._of_message[position].append(len(self._calls))
        self._calls.append((position, call))

    def _match_by_id(self, position: int, result: Result) -> None:
        waiting = self._open.get(result.id or "")
        if waiting:
            self._answers[waiting.popleft()] = result
            self._answered.add((result.id, result.text))
        elif (result.id, result.text) in self._answered:
            self._counts["duplicate_tool_results"] += 1
        else:
            self._orphan(position, result)

    def _match_by_name(self, results: list[tuple[int, Result]]) -> None:
        """Results without an id answer the oldest open call before them, of their name when they have one."""
        waiting: dict[str, deque[int]] = defaultdict(deque)
        ready = 0
        for position, result in results:
            while ready < len(self._calls) and self._calls[ready][0] <= position:
                if ready not in self._answers:
                    waiting[""].append(ready)
                    waiting[self._calls[ready][1].name].append(ready)
                ready += 1
            queue = waiting[result.name]
            while queue and queue[0] in self._answers:
                queue.popleft()
            if queue:
                self._answers[queue.popleft()] = result
            else:
                self._orphan(position, result)

    def _orphan(self, position: int, result: Result) -> None:
        self._counts["orphan_tool_results"] += 1
        if result.text.strip():
            self._orphans[position].append(result.text)
