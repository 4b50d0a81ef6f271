"""Contents of data files that several tests of tasks read."""

from __future__ import annotations

import json
from typing import Any

NER_DATA = {
    "train.conll": """\
Anna B-PER
Berg I-PER
lives O
in O
Oslo B-LOC

Oslo B-LOC
is O
cold O

Anna B-PER
likes O
Bergen B-LOC

it O
rains O
""",
    "dev.conll": """\
Anna B-PER
Berg I-PER
likes O
Oslo B-LOC

it O
is O
cold O
""",
    "words.txt": "the 1 0 0\nanna 0 1 0\noslo 0 0 1\nrains 1 1 0\n",
}

TREES = """\
(+ (0 a) (+ (+ fine) (0 day)))
(~ (0 a) (~ (~ grey) (0 day)))
(~ (0 it) (~ (0 is) (~ (~ (0 not) (+ fine)) (0 (0 to) \
(0 (0 go) (0 (0 out) (0 (0 in) (0 (0 rain) (0 .)))))))))
(+ fine)
(0 .)
"""

COREF_SENTENCES = ["Ada saw her dog .", "It saw Ada .", "Rain fell ."]
LATER_CLUSTERS = [[[2, 3], [5, 5]], [[9, 9]]]
COREF_DOCUMENT = {
    "doc_key": "nw/a_0",
    "sentences": [text.split() for text in COREF_SENTENCES],
    "clusters": [[[0, 0], [2, 2], [7, 7]], *LATER_CLUSTERS],
}
_OTHER_DOCUMENT = {
    "sentences": [["Ben", "slept"], ["He", "was", "old"]],
    "clusters": [[[0, 0], [2, 2]]],
}
COREF_DOCUMENTS = f"{json.dumps(COREF_DOCUMENT)}\n{json.dumps(_OTHER_DOCUMENT)}\n"
COREF_SIZES = {"span_dim": 12, "scorer_dim": 10, "max_width": 3, "spans_per_token": 1.0}

CONTEXT = "The ferry left Bergen at 9.30, in heavy rain; it reached Åsgård on the 20th."


def question(name: str, text: str, *answers: str) -> dict[str, Any]:
    """A question about `CONTEXT`, with answers that occur in it."""
    fields = [{"text": answer, "answer_start": CONTEXT.index(answer)} for answer in answers]
    return {"id": name, "question": text, "answers": fields}


_ABOUT_CONTEXT = [
    question("q1", "Where did the ferry leave?", "Bergen"),
    question("q2", "When did it leave?", "9.30", "at 9.30"),
    question("q3", "What did it reach?", "Åsgård"),
    question("q4", "Which day?", "20"),
]
_OTHER_PARAGRAPH = {"context": "Rain fell.", "qas": [{"id": "q5", "question": "What fell?"}]}
_OTHER_PARAGRAPH["qas"][0]["answers"] = [{"text": "Rain", "answer_start": 0}]
_PARAGRAPHS = [{"context": CONTEXT, "qas": _ABOUT_CONTEXT}, _OTHER_PARAGRAPH]
QUESTIONS = json.dumps({"data": [{"paragraphs": _PARAGRAPHS}]}, ensure_ascii=False)
