"""Several memories become one: created and read back, then their originals are archived and removed.

The entry that stands for them and the marks on them are one transaction, so that at every moment a memory is either
itself or represented by an entry that names it. A night that breaks off goes on from the marks.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_memory.domain.archive import Archive, ArchiveError, put_away
from agent_memory.domain.collapsing import survivor_of
from agent_memory.domain.errors import AgentMemoryError, ModelAnswerError, RetryableError, UnsupportedLanguageError
from agent_memory.domain.examining import NightRules, brought_back, judged
from agent_memory.domain.grouping import mixed, says_as_much
from agent_memory.domain.guardrails import Guardrail
from agent_memory.domain.keys import result_key, slice_key
from agent_memory.domain.lifecycle import (
    Action,
    Done,
    LifecycleRun,
    MemoryGroup,
    PlanItem,
    PlanSlice,
    Reason,
    SliceResult,
)
from agent_memory.domain.lifecycle_ports import NightFiles, TenantNotes
from agent_memory.domain.merge_answers import Merger, ask, texts_of
from agent_memory.domain.models import Episode
from agent_memory.domain.night_changes import Journal, collapsed, held_back
from agent_memory.domain.ports import ChatModel, Embedder
from agent_memory.domain.privacy import ScrubbedTexts
from agent_memory.domain.retention import DAY_SECONDS, archived_from
from agent_memory.domain.shelves import EpisodeShelf
from agent_memory.domain.summaries import compose, stands_for

PROGRESS = "progress/merge"
ROOM = "merge"
# Whoever is read between its copy and its removal is copied again; it is represented already.
TRIES = 3
REMOVED = frozenset({"removed", "gone"})


class MergeDoors(NamedTuple):
    """What merging memories of one tenant touches. *model*, *guardrail* None: the deployment has none.

    *scrub*: takes personal data out of texts. *observe*: takes the key facts of a summary and its sources through the
    confirmation gate and returns the decisions, counted. *late*: whether the function should come to an end."""

    files: NightFiles
    shelf: EpisodeShelf
    archive: Archive
    notes: TenantNotes
    embedder: Embedder
    scrub: Callable[[Sequence[str]], ScrubbedTexts]
    model: ChatModel | None
    guardrail: Guardrail | None
    observe: Callable[[Episode, Sequence[Episode]], Mapping[str, int]]
    late: Callable[[], bool]


class MergeRules(NamedTuple):
    """The deployment's rules. *review_days*: how long originals are left alone after an answer was refused."""

    night: NightRules
    min_confidence: float = 0.7
    max_tokens: int = 2000
    review_days: int = 30


def merge(run: LifecycleRun, part: PlanSlice, doors: MergeDoors, rules: MergeRules) -> SliceResult:
    """Work off the groups of a slice and keep what came of each. Raises to be called again, and then goes on."""
    merging = _Merging(run, part, doors, rules)
    for group in part.groups:
        merging.work_off(group)
    return merging.finished()


class _Merging:
    """One slice on its way."""

    def __init__(self, run: LifecycleRun, part: PlanSlice, doors: MergeDoors, rules: MergeRules) -> None:
        self._run, self._part, self._doors, self._rules = run, part, doors, rules
        self._holds: Collection[str] = doors.notes.holds()
        self._journal = Journal(doors.files, run.run_id, ROOM, part.tenant_id, part.name)
        known = doors.files.get(self._key(), SliceResult)
        self._done: list[Done] = list(known.done) if known else []
        self._counts: Counter[str] = Counter(known.counts if known else {})
        self._settled = {(one.agent_id, one.run_id) for one in self._done}

    def _key(self) -> str:
        return slice_key(self._run.run_id, PROGRESS, self._part.tenant_id, self._part.name)

    def finished(self) -> SliceResult:
        """Write the slice's result, which is what makes it done."""
        result = self._result()
        key = result_key(self._run.run_id, ROOM, self._part.tenant_id, self._part.name)
        self._doors.files.put(key, result)
        return result

    def _result(self) -> SliceResult:
        decided = Counter(one.decision for one in self._done)
        counts = dict(Counter(self._counts) + decided)
        return SliceResult(
            tenant_id=self._part.tenant_id, step=ROOM, name=self._part.name, done=tuple(self._done), counts=counts
        )

    def work_off(self, group: MemoryGroup) -> None:
        """Settle one group, whatever comes of it, and note that before the next."""
        if all((item.agent_id, item.run_id) in self._settled for item in group.items):
            return
        if self._doors.late():
            self._settle(self._kept(group.items, "out_of_time"))
            return
        try:
            self._settle(list(self._outcome(group)))
        except RetryableError:
            raise
        except ArchiveError:
            self._settle(self._kept(group.items, "archive", decision="failed"))
        except AgentMemoryError:
            self._settle(self._kept(group.items, "unreadable", decision="failed"))
        counts = dict(self._counts)
        self._doors.files.put(self._key(), self._result().model_copy(update={"counts": counts}))

    def _settle(self, done: Sequence[Done]) -> None:
        self._done += done
        self._settled |= {(one.agent_id, one.run_id) for one in done}

    def _kept(self, items: Sequence[PlanItem], reason: str, *, decision: str = "kept") -> list[Done]:
        return [_done(item, item.action, decision, reason) for item in items]

    def _outcome(self, group: MemoryGroup) -> Iterator[Done]:
        items = {(item.agent_id, item.run_id): item for item in group.items}
        found = {(one.agent_id, one.run_id): one for one in self._doors.shelf.get_many(list(items))}
        members, marked = [], []
        for place, item in items.items():
            episode = found.get(place)
            if episode is not None and episode.merged_into and not episode.pinned:
                marked.append(episode)
                continue
            reason = "gone" if episode is None else self._objection(item, episode)
            if reason or episode is None:
                yield _done(item, item.action, self._gone(item) if episode is None else "kept", reason)
            else:
                members.append(episode)
        yield from self._finish(marked, items)
        if len(members) < 2 or mixed(members):
            reason = "mixed" if len(members) > 1 else "alone"
            yield from self._kept([items[one.agent_id, one.run_id] for one in members], reason)
        elif group.action is Action.COLLAPSE:
            yield from self._collapse(members, items)
        else:
            yield from self._merge(members, items)

    def _gone(self, item: PlanItem) -> str:
        """What became of one that is not there: an earlier try of this step may have put it away and not told."""
        place = (item.agent_id, item.run_id)
        there = self._doors.archive.holds("episodic", place, night=self._run.run_id)
        return _left(item) if there else "gone"

    def _objection(self, item: PlanItem, episode: Episode) -> str:
        """Why *episode* may not go after all: pinned, on hold, read or changed settings since the plan was made."""
        now_so = judged(episode, self._rules.night, now=self._run.now, holds=self._holds)
        if item.reason is Reason.LOW_RELEVANCE:
            return "" if now_so.reason is Reason.LOW_RELEVANCE else now_so.reason.value
        if brought_back(episode, now=self._run.now):
            return now_so.reason.value
        settled = now_so.reason in (Reason.NOT_DUE, Reason.UNDER_REVIEW, Reason.LOW_RELEVANCE)
        return "" if settled and not episode.pinned else now_so.reason.value

    def _finish(self, marked: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]) -> Iterator[Done]:
        """Go on where a night, or an earlier try of this one, broke off."""
        for target_id in sorted({one.merged_into or "" for one in marked}):
            group = [one for one in marked if one.merged_into == target_id]
            target = self._doors.shelf.get(group[0].agent_id, target_id)
            if target is None or not all(stands_for(target, one) for one in group):
                for one in group:
                    self._doors.shelf.unmark((one.agent_id, one.run_id), target_id)
                yield from self._kept([items[one.agent_id, one.run_id] for one in group], "not_represented")
                continue
            yield from self._replaced(target, group, items)

    def _collapse(self, members: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]) -> Iterator[Done]:
        # Who comes first may be another by now than the one that they were all held against.
        seen, *rest = members
        others = [one for one in rest if says_as_much(seen, one)]
        kept = {one.run_id for one in (seen, *others)} if others else set()
        alone = [one for one in members if one.run_id not in kept]
        yield from self._kept([items[one.agent_id, one.run_id] for one in alone], "alone")
        if others:
            yield from self._into(seen, others, items)

    def _into(
        self, seen: Episode, others: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]
    ) -> Iterator[Done]:
        place = (seen.agent_id, seen.run_id)
        low = items[place].reason is Reason.LOW_RELEVANCE
        survivor = survivor_of(seen, others, self._rules.night, low=low, now=self._run.now)
        self._journal.note(collapsed(seen, survivor))
        written = self._doors.shelf.collapse(survivor, seen, others)
        if written != "stored":
            yield from self._kept([items[one.agent_id, one.run_id] for one in (seen, *others)], written)
            return
        yield _done(items[place], Action.COLLAPSE, "survived", "near_duplicate")
        yield from self._away(others, items)

    def _merge(self, members: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]) -> Iterator[Done]:
        planned = [items[one.agent_id, one.run_id] for one in members]
        if self._doors.model is None:
            yield from self._kept(planned, "no_model")
            return
        asked = ask(
            self._doors.model,
            members,
            min_confidence=self._rules.min_confidence,
            max_tokens=self._rules.max_tokens,
        )
        self._counts.update(
            merges_asked=1, merge_input_tokens=asked.input_tokens, merge_output_tokens=asked.output_tokens
        )
        summary, reason = (None, asked.reason) if asked.merger is None else self._summary(asked.merger, members)
        if summary is None:
            yield from self._flagged(members, items, reason)
            return
        written = self._doors.shelf.merge(summary, members)
        if written in ("erased", "changed"):
            yield from self._kept(planned, written)
            return
        created = self._doors.shelf.get(summary.agent_id, summary.run_id)
        if created is None or not all(stands_for(created, one) for one in members):
            for one in members:
                self._doors.shelf.unmark((one.agent_id, one.run_id), summary.run_id)
            yield from self._kept(planned, "not_verified", decision="failed")
            return
        yield Done(
            agent_id=created.agent_id, run_id=created.run_id, action=Action.MERGE, decision="created", reason="merged"
        )
        yield from self._replaced(created, members, items)

    def _summary(self, merger: Merger, members: Sequence[Episode]) -> tuple[Episode | None, str]:
        """The summary as it may be stored, or the reason why it may not."""
        try:
            clean = self._doors.scrub((merger.summary, *merger.key_facts))
        except (UnsupportedLanguageError, ModelAnswerError):
            return None, "not_scrubbed"
        merger = merger.model_copy(update={"summary": clean.texts[0], "key_facts": clean.texts[1:]})
        reason = self._guarded(merger, members)
        if reason:
            return None, reason
        summary = compose(
            merger,
            members,
            self._doors.embedder,
            self._rules.night,
            names_unchecked=clean.names_unchecked,
            now=self._run.now,
        )
        return (None, "not_embedded") if summary.digest_vector is None else (summary, "")

    def _guarded(self, merger: Merger, members: Sequence[Episode]) -> str:
        if self._doors.guardrail is None:
            self._counts["grounding_by_rules_only"] += 1
            return ""
        said = "\n".join((merger.summary, *merger.key_facts))
        verdict = self._doors.guardrail.check(
            said, [text for one in members for text in texts_of(one)], query=members[-1].task
        )
        self._counts["grounding_checked" if verdict.grounding_checked else "grounding_by_rules_only"] += 1
        return verdict.reason

    def _flagged(
        self, members: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem], reason: str
    ) -> Iterator[Done]:
        """The originals stay, marked for a person, and no night asks about them again for a while."""
        kept_until = self._run.now + self._rules.review_days * DAY_SECONDS
        retention = self._rules.night.retention
        due = [
            kept_until if one.expires_at is None else min(kept_until, archived_from(one.expires_at, retention))
            for one in members
        ]
        pairs = list(zip(members, due, strict=True))
        self._journal.note(
            *(held_back(one, review=reason, kept_until=kept_until, decays_at=date) for one, date in pairs)
        )
        for one, date in pairs:
            held = self._doors.shelf.hold_for_review(
                (one.agent_id, one.run_id), review=reason, kept_until=kept_until, decays_at=date
            )
            yield _done(items[one.agent_id, one.run_id], Action.FLAG, "flagged" if held else "kept", reason)

    def _replaced(
        self, target: Episode, members: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]
    ) -> Iterator[Done]:
        """Learn what *target* says for its sources, while they are there; then put them away."""
        if target.run_id.startswith("m-"):
            self._counts.update(self._doors.observe(target, members))
        yield from self._away(members, items)

    def _away(self, members: Sequence[Episode], items: Mapping[tuple[str, str], PlanItem]) -> Iterator[Done]:
        for one in members:
            place = (one.agent_id, one.run_id)
            removed = "changed"
            for _ in range(TRIES):
                removed, _copy = put_away(
                    place,
                    self._doors.shelf,
                    self._doors.archive,
                    night=self._run.run_id,
                    reason=items[place].action.value,
                    now=self._run.now,
                )
                if removed != "changed":
                    break
            word = _left(items[place]) if removed in REMOVED else "kept"
            yield _done(items[place], items[place].action, word, removed)


def _left(item: PlanItem) -> str:
    return "collapsed" if item.action is Action.COLLAPSE else "merged"


def _done(item: PlanItem, action: Action, decision: str, reason: str) -> Done:
    return Done(agent_id=item.agent_id, run_id=item.run_id, action=action, decision=decision, reason=reason)
