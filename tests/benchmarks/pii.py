"""How much personal data the deployed scrubber leaves, and how much else it takes, on labelled synthetic text.

`python -m benchmarks.pii --data FOLDER` (FOLDER/presidio_pii/*.json: full_text and spans). A text leaks when a single
character of an e-mail address, phone, card, IBAN, social security number or IP address in it remains.
"""

import argparse
import json
import re
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_memory.domain.models import Artifacts, DetectedSpan, Distillation, DistilledBy, Outcome, RunTicket
from agent_memory.domain.privacy import TYPES, Policy, scrub_distillation
from benchmarks.stack import BenchStack, data_folder, figures, say, the_stack

DIRECT = {"EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "IP_ADDRESS"}
TENANT, AGENT = "bench-pii", "bench"
# Texts in one run, as findings of it: the scrubber works on runs, not on single sentences.
TEXTS_PER_RUN = 10
PLACEHOLDER = re.compile(r"\[(?:" + "|".join(sorted(TYPES)) + r")\]")
Scrubber = Callable[[Sequence[str]], list[str]]


def measure(documents: Sequence[dict[str, Any]], scrubbed: Sequence[str]) -> dict[str, object]:
    """The figures for labelled *documents* and what the scrubber made of each."""
    labelled, hit = Counter[str](), Counter[str]()
    taken = unlabelled = leaking = identified = 0
    for document, result in zip(documents, scrubbed, strict=True):
        text = document["full_text"]
        removed = removed_characters(text, result)
        labels = bytearray(len(text))
        direct = leak = False
        for span in document["spans"]:
            kind, start, end = span["entity_type"], span["start_position"], span["end_position"]
            labels[start:end] = b"\1" * (end - start)
            labelled[kind] += end - start
            hit[kind] += sum(removed[start:end])
            if kind in DIRECT:
                direct, leak = True, leak or sum(removed[start:end]) < end - start
        identified += direct
        leaking += leak
        unlabelled += labels.count(0)
        taken += sum(1 for was, label in zip(removed, labels, strict=True) if was and not label)
    return {
        "identifier_leak": round(leaking / max(identified, 1), 5),
        "over_redaction": round(taken / max(unlabelled, 1), 5),
        "texts_with_identifier": identified,
        "texts": len(documents),
        "recall": {kind: round(hit[kind] / labelled[kind], 4) for kind in sorted(labelled) if labelled[kind]},
    }


def removed_characters(text: str, scrubbed: str) -> bytearray:
    """One for each character of *text* that *scrubbed* no longer holds, found by aligning what is left."""
    kept = PLACEHOLDER.split(scrubbed)
    pattern = "([\\s\\S]+?)".join(f"({re.escape(piece)})" for piece in kept)
    aligned = re.fullmatch(pattern, text)
    if aligned is None:
        raise ValueError("scrubbing changed text outside the entities")
    removed = bytearray(len(text))
    for group in range(2, 2 * len(kept), 2):
        start, end = aligned.span(group)
        removed[start:end] = b"\1" * (end - start)
    return removed


def a_run_that_says(texts: Sequence[str]) -> Distillation:
    artifacts = Artifacts(task_summary="", outcome=Outcome.COMPLETED, key_findings=tuple(texts))
    return Distillation(task="", asked="", artifacts=artifacts, distilled_by=DistilledBy.AGENT)


def deployed(stack: BenchStack) -> Scrubber:
    """Through the pii_scrubbing function: a distillation goes into the claims bucket, the scrubbed one comes out."""
    claims = stack.services.tenant(TENANT).claims

    def through(texts: Sequence[str]) -> list[str]:
        run_id = f"r-{uuid.uuid4()}"
        claim_key = f"~runs/{TENANT}/{AGENT}/{run_id}/claim-0.json.gz"
        key = claims.put_distillation(claim_key, 1, a_run_that_says(texts))
        ticket = RunTicket(tenant_id=TENANT, agent_id=AGENT, run_id=run_id, attempt=1, claim_key=claim_key)
        answer = RunTicket.model_validate(
            stack.invoke("pii_scrubbing", ticket.decided("distilled", artifacts_key=key).model_dump())
        )
        if answer.decision != "scrubbed" or answer.scrubbed_key is None:
            raise RuntimeError(f"the scrubber decided {answer.decision} ({answer.reason})")
        return list(claims.get_distillation(answer.scrubbed_key).artifacts.key_findings)

    return through


class EngineProcess:
    """The laptop's detector in its own environment, for a quick look without a stack."""

    SOURCE = (
        "import json, sys; from local.personal_data import PersonalDataEngine; engine = PersonalDataEngine()\n"
        "for line in sys.stdin: print(json.dumps(engine.detect(*json.loads(line))), flush=True)"
    )

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child

    def detect(self, text: str, language: str) -> list[DetectedSpan]:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(json.dumps([text, language]) + "\n")
        self._child.stdin.flush()
        return [
            DetectedSpan(type=e["Type"], start=e["BeginOffset"], end=e["EndOffset"], score=e["Score"])
            for e in json.loads(self._child.stdout.readline())
        ]


@contextmanager
def in_process() -> Iterator[Scrubber]:
    from local.layout import AI_VENV, ROOT, python_of

    command = [str(python_of(AI_VENV)), "-c", EngineProcess.SOURCE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        detector = EngineProcess(child)
        yield lambda texts: list(
            scrub_distillation(a_run_that_says(texts), detector, Policy())[0].artifacts.key_findings
        )
        assert child.stdin
        child.stdin.close()


def scrub_all(texts: Sequence[str], through: Scrubber, workers: int) -> list[str]:
    packs = [texts[at : at + TEXTS_PER_RUN] for at in range(0, len(texts), TEXTS_PER_RUN)]
    with ThreadPoolExecutor(workers) as pool:
        return [text for pack in pool.map(through, packs) for text in pack]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", required=True, type=Path)
    arguments.add_argument("--in-process", action="store_true", help="without a stack: the same code in this process")
    given = arguments.parse_args()
    files = sorted((data_folder(given) / "presidio_pii").glob("*.json"))
    documents = [document for file in files for document in json.loads(file.read_text(encoding="utf-8"))]
    if not documents:
        sys.exit("no labelled texts in presidio_pii under the data folder")
    texts = [document["full_text"] for document in documents]
    say(f"scrubbing {len(texts)} texts")
    if given.in_process:
        with in_process() as through:
            scrubbed = scrub_all(texts, through, workers=1)
    else:
        with the_stack() as stack:
            scrubbed = scrub_all(texts, deployed(stack), workers=4)
    figures(**measure(documents, scrubbed))


if __name__ == "__main__":
    main()
