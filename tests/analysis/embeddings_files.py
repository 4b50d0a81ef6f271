"""Small embeddings files with known vectors, and label files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

DIM = 7
LINES = (
    "the play began at eight",
    "They play ball in the park",
    "a Play : in 3 acts",
    "",
    "Yes .",
    "play",
    "the cat sat on the mat",
    "the play",
    "he began to play at once",
    "No , not at 10:30 = noon",
)
REPEATED = (*LINES[:5], "Yes .", LINES[0], *LINES[5:], "Yes .")
HEADER = {"model": "m", "model_sha256": "6c1f" + "0" * 60, "state": "zero", "pool": "none"}


def make_sentences(
    lines: Sequence[str] = LINES, numbers: Sequence[int] | None = None
) -> list[Sentence]:
    """A sentence per line, in two documents."""
    keys = range(len(lines)) if numbers is None else numbers
    half = max(1, len(lines) // 2)
    return [
        Sentence(
            tokens=tuple(line.split()),
            key=key,
            text=line,
            source="in.txt",
            line=key + 1,
            document=f"d_{n // half}",
            place=n % half,
        )
        for n, (key, line) in enumerate(zip(keys, lines, strict=True))
    ]


def layers(sentence: Sentence, n_layers: int = 3, dim: int = DIM) -> np.ndarray:
    """Vectors (layer, token, dim): layer 0 depends on the token, the others on the sentence.

    The vectors of equal sentences differ a little, as if by rounding.
    """
    values = np.zeros((n_layers, len(sentence.tokens), dim), np.float32)
    for position, token in enumerate(sentence.tokens):
        values[0, position] = _random(token, dim)
        for layer in range(1, n_layers):
            values[layer, position] = _random(f"{sentence.text}|{position}|{layer}", dim)
    values[1:] *= np.float32(1 + 1e-6 * sentence.key)
    return values


def _random(text: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dim)


def write(
    path: Path,
    sentences: Sequence[Sentence],
    arrays: Sequence[np.ndarray] | None = None,
    *,
    layout: str = "flat",
    header: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """A complete file of some arrays, by default those of `layers`."""
    header = {**HEADER, "layers": "all", **(header or {})}
    arrays = [layers(sentence) for sentence in sentences] if arrays is None else arrays
    spec = FileSpec(layout=layout, run_settings=header, **options)
    with EmbeddingsWriter.open(path, spec) as writer:
        writer.append_block(sentences, arrays, text_sha256="")
        writer.finish({"sources": [["in.txt", 0]]})
    return path


def write_lines(path: Path, labels: Sequence[Sequence[str]]) -> Path:
    """A line of labels per sentence."""
    path.write_text("".join(" ".join(line) + "\n" for line in labels), encoding="utf-8")
    return path


def write_conllu(
    path: Path, sentences: Sequence[Sentence], labels: Sequence[Sequence[str]]
) -> Path:
    """CoNLL-U with labels as XPOS, in lower case as UPOS, with a range and an empty node."""
    lines = []
    for sentence, labels_of_sentence in zip(sentences, labels, strict=True):
        if sentence.place == 0:
            lines.append(f"# newdoc id = {sentence.document}")
        labelled_tokens = zip(sentence.tokens, labels_of_sentence, strict=True)
        for number, (token, label) in enumerate(labelled_tokens, 1):
            if number == 2:
                lines.append("2-3" + "\t_" * 9)
            lines.append(f"{number}\t{token}\t_\t{label.lower()}\t{label}" + "\t_" * 5)
        lines.append("8.1" + "\t_" * 9)
        lines.append("")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
