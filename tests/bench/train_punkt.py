"""Train the sentence splitter's parameters from running text.

    python tests/bench/train_punkt.py TEXT[.xz]... > elmo_cli/text/english_punkt.json

Reads at most `CHARACTERS_A_FILE` of each file: one paragraph a line, a blank line between
documents. Abbreviations, collocations and sentence starters are those that nltk's unsupervised
trainer finds (Kiss and Strunk 2006), with a list of common abbreviations added. The orthographic
context is counted anew, because the trainer sets its flags at a single occurrence: one "The" inside
a title would hide that "the" begins sentences.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from nltk.tokenize.punkt import PunktTrainer

CHARACTERS_A_FILE = 3_000_000
MIN_LOWER = 8
MAX_UPPER_SHARE = 0.05
MIN_ABBREVIATION_COUNT = 10
# Abbreviations that the trainer misses or meets too seldom, and that are no words of their own.
COMMON = """
    a.m al approx apr asst ave b.a b.c.e b.s blvd bros c.e capt cf co col corp dec dept dr e.g esq
    est etc feb ft gen gov hon hr hrs i.e inc jan jr lt ltd m.a m.d messrs mme mr mrs ms mt nov oct
    p.m ph.d prof rep rev sen sept sgt sr st supt u.k u.n u.s u.s.a univ viz vs
"""


def opening(path: Path) -> str:
    """The first paragraphs of a text file, plain or .xz."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            return lines.read(CHARACTERS_A_FILE)
    with path.open(encoding="utf-8") as lines:
        return lines.read(CHARACTERS_A_FILE)


def case_counts(text: str) -> tuple[Counter[str], Counter[str]]:
    """How often each word stands in lower case, and with a capital inside a sentence."""
    lower = Counter(re.findall(r"\b(?:a|[a-z]{2,})\b", text))
    inside = Counter(word.lower() for word in re.findall(r"(?<=[a-z,] )[A-Z][a-z]*\b", text))
    return lower, inside


def orthography(text: str) -> tuple[list[str], list[str]]:
    """Words that have a capital only as a sentence begins; words that are also names."""
    lower, inside = case_counts(text)
    usual, names = [], []
    for word, count in lower.items():
        if count >= MIN_LOWER:
            (usual if inside[word] <= MAX_UPPER_SHARE * count else names).append(word)
    return sorted(usual), sorted(names)


def parameters(texts: list[str]) -> dict[str, Any]:
    """What `elmo_cli.text.tokenizer` reads."""
    trainer = PunktTrainer()
    trainer.INCLUDE_ABBREV_COLLOCS = False
    for text in texts:
        trainer.train(text, finalize=False)
    trainer.finalize_training()
    found = trainer.get_params()
    whole = "\n".join(texts)
    words = Counter(re.findall(r"\S+(?=\.)", whole.lower()))
    usual, names = orthography(whole)
    return {
        "abbreviations": sorted(
            {a for a in found.abbrev_types if words[a] >= MIN_ABBREVIATION_COUNT}.union(
                COMMON.split()
            )
        ),
        "collocations": sorted(" ".join(pair) for pair in found.collocations),
        "sentence_starters": sorted(found.sent_starters.intersection(usual + names)),
        "lower_case_words": " ".join(usual),
        "words_and_names": " ".join(names),
    }


def main(paths: list[str]) -> None:
    texts = [opening(Path(path)) for path in paths]
    json.dump(parameters(texts), sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
