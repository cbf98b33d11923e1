"""Sifting: the texts of a run that give orders are taken out of it, before anything of the run is stored.

Each text is judged twice: as it was said, and as it is stored. Scrubbing replaces words (a verb that looks like a name
becomes "[NAME]"), so what is left of an order can look harmless, and what is left of two harmless words can be one.
"""

from collections.abc import Iterable, Mapping, Sequence

from agent_memory.domain.models import Artifacts, CandidateFact, CandidateProcedure, Distillation
from agent_memory.domain.quarantine import Part, Withheld
from agent_memory.domain.screening import Screened, Trust, screen, screen_all, trust_of


def without_orders(
    distillation: Distillation, said: Mapping[str, str] | None = None
) -> tuple[Distillation, tuple[Withheld, ...]]:
    """*distillation* without the texts that belong in quarantine, and those.

    *said*: what a text was before it was scrubbed (privacy.before_scrubbing); without it, texts are as they were said.
    """
    artifacts, found = distillation.artifacts, _Sieve(_trust_in(distillation), said or {})
    task = found.one(Part.TASK, distillation.task, Trust.USER)
    asked = found.lines(distillation.asked, known=distillation.task)
    kept = artifacts.model_copy(
        update={
            "task_summary": found.one(Part.SUMMARY, artifacts.task_summary),
            "key_findings": found.each(Part.FINDING, artifacts.key_findings),
            "approach_used": found.one(Part.APPROACH, artifacts.approach_used),
            "reusable_patterns": found.each(Part.PATTERN, artifacts.reusable_patterns),
            "facts": found.facts(artifacts.facts),
            "procedure": found.procedure(artifacts),
        }
    )
    if not found.withheld:
        return distillation, ()
    counts = {**distillation.counts, "texts_quarantined": len(found.withheld)}
    changes = {"task": task, "asked": asked, "artifacts": kept, "counts": counts, "withheld": len(found.withheld)}
    return distillation.model_copy(update=changes), tuple(found.withheld)


def _trust_in(distillation: Distillation) -> Trust:
    """What a run concludes is worth what went into it: a run that read tools or documents speaks for them too."""
    outside = distillation.read_outside or distillation.artifacts.tools_used
    return Trust.OUTSIDE if outside else Trust.AGENT


class _Sieve:
    """Takes out what is held, text by text."""

    def __init__(self, trust: Trust, said: Mapping[str, str]) -> None:
        self._trust = trust
        self._said = said
        self.withheld: list[Withheld] = []

    def one(self, part: Part, text: str, trust: Trust | None = None) -> str:
        return text if self._kept(part, 0, text, trust or self._trust) else ""

    def each(self, part: Part, texts: Sequence[str]) -> tuple[str, ...]:
        """Each by itself, then neighbours: half an order in each of two findings is an order."""
        held = {at for at, text in enumerate(texts) if self._judge(text, self._trust).held}
        for at in range(len(texts) - 1):
            if not {at, at + 1} & held and self._judge_together(texts[at : at + 2]):
                held |= {at, at + 1}
        for at in sorted(held):
            found = self._judge(texts[at], self._trust)
            self._withhold(part, at, texts[at], self._trust, found if found.held else _IN_PARTS)
        return tuple(text for at, text in enumerate(texts) if at not in held)

    def lines(self, asked: str, *, known: str) -> str:
        lines, before = asked.split("\n"), self._said.get(asked, asked).split("\n")
        if len(lines) == len(before):
            self._said = {**dict(zip(lines, before, strict=True)), **self._said}
        held = [line for line in lines if self._judge(line, Trust.USER).held]
        # What is held as the task is not held a second time as what was asked.
        novel = [line for line in held if line not in known]
        if novel:
            found = max((self._judge(line, Trust.USER) for line in novel), key=_weight)
            self._withhold(Part.ASKED, 0, "\n".join(novel), Trust.USER, found)
        return "\n".join(line for line in lines if line not in held) if held else asked

    def facts(self, facts: Iterable[CandidateFact]) -> tuple[CandidateFact, ...]:
        return tuple(
            fact
            for at, fact in enumerate(facts)
            if self._kept(Part.FACT, at, fact.content, trust_of(fact.source), fact=fact)
        )

    def procedure(self, artifacts: Artifacts) -> CandidateProcedure | None:
        proposed = artifacts.procedure
        if proposed is None:
            return None
        texts = (proposed.title, *proposed.steps)
        said = [self._said.get(text, text) for text in texts]
        found = max(screen_all(texts, self._trust), screen_all(said, self._trust), key=_weight)
        if not found.held:
            return proposed
        self._withhold(Part.PROCEDURE, 0, "\n".join(texts), self._trust, found, procedure=proposed)
        return None

    def _kept(self, part: Part, at: int, text: str, trust: Trust, fact: CandidateFact | None = None) -> bool:
        found = self._judge(text, trust)
        if found.held:
            self._withhold(part, at, text, trust, found, fact=fact)
        return not found.held

    def _judge(self, text: str, trust: Trust) -> Screened:
        """*text* as it is stored and as it was said, whichever weighs more."""
        return max(screen(text, trust), screen(self._said.get(text, text), trust), key=_weight)

    def _judge_together(self, texts: Sequence[str]) -> bool:
        said = " ".join(self._said.get(text, text) for text in texts)
        return any(screen(form, self._trust).held for form in (" ".join(texts), said))

    def _withhold(
        self,
        part: Part,
        at: int,
        text: str,
        trust: Trust,
        found: Screened,
        *,
        fact: CandidateFact | None = None,
        procedure: CandidateProcedure | None = None,
    ) -> None:
        self.withheld.append(
            Withheld(
                part=part,
                position=at,
                text=text,
                trust=trust,
                reasons=found.reasons,
                score=found.score,
                fact=fact,
                procedure=procedure,
            )
        )


def _weight(found: Screened) -> tuple[bool, int]:
    return found.held, found.score


_IN_PARTS = Screened(held=True, reasons=("order_in_parts",))
