"""The laptop's embedding model, in its own environment."""

import json
import subprocess
from pathlib import Path

import pytest

from local.layout import AI_VENV, DEFAULT_STATE, ROOT, python_of

TOKENIZER = next((f for f in (DEFAULT_STATE / "models").glob("*tokenizer.json")), None)
SOURCE = """
import json, math, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from local.embedder import MiniLm
model = MiniLm(Path(sys.argv[1]))
texts = ["A parcel is held at customs.", "Customs holds a parcel.", "Water the plants.", "x " * 3000, "窯 \\ud800"]
vectors = [model.embed(text) for text in texts]
with ThreadPoolExecutor(8) as pool:
    again = list(pool.map(model.embed, texts * 4))
cosine = lambda a, b: sum(x * y for x, y in zip(a, b))
blank = ""
try:
    model.embed("  ")
except ValueError as error:
    blank = str(error)
print(json.dumps({
    "lengths": [len(v) for v in vectors], "norms": [math.sqrt(cosine(v, v)) for v in vectors],
    "same": again == vectors * 4, "near": cosine(vectors[0], vectors[1]), "far": cosine(vectors[0], vectors[2]),
    "blank": blank, "cut": model.count_tokens("x " * 3000),
}))
"""


@pytest.mark.skipif(TOKENIZER is None or not python_of(AI_VENV).exists(), reason="make local-install brings the model")
def test_vectors_have_length_one_mean_something_and_do_not_depend_on_threads() -> None:
    answer = subprocess.run(
        [python_of(AI_VENV), "-c", SOURCE, str(TOKENIZER)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    assert found["lengths"] == [384] * 5
    assert found["norms"] == pytest.approx([1.0] * 5, abs=1e-5)
    assert found["same"]
    assert found["near"] > 0.8 > 0.3 > found["far"]
    assert found["blank"] == "text is blank"
    assert found["cut"] == 256


def test_the_pinned_files_are_named_by_hash() -> None:
    source = Path(ROOT / "local" / "embedder.py").read_text()
    assert "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6" in source
