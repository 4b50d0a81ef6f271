"""Small embeddings files of made-up vectors, and label files, for tests of the probe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

HEADER = {
    "model": "made-up",
    "model_sha256": "6c1f" + "0" * 60,
    "state": "zero",
    "layers": "all",
    "pool": "none",
}


def write_vectors(
    path: Path,
    words: Sequence[Sequence[str]],
    arrays: Sequence[np.ndarray],
    *,
    numbers: Sequence[int] | None = None,
    layout: str = "flat",
    header: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """An embeddings file of sentences with these arrays; numbered from 0 if not given."""
    header = {**HEADER, **(header or {})}
    given = [
        Sentence(tuple(tokens), key, " ".join(tokens), "in.txt", key + 1)
        for key, tokens in zip(numbers or range(len(words)), words, strict=True)
    ]
    spec = FileSpec(layout=layout, run_settings=header, **options)
    with EmbeddingsWriter.open(path, spec) as writer:
        writer.append_block(given, arrays, text_sha256="")
        writer.finish({"sources": [["in.txt", 0]]})
    return str(path)


def write_lines(path: Path, labels: Sequence[Sequence[str]]) -> str:
    """A line of labels for each sentence."""
    path.write_text("".join(" ".join(line) + "\n" for line in labels), encoding="utf-8")
    return str(path)


def write_conllu(
    path: Path, words: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]
) -> str:
    """CoNLL-U with the labels as XPOS, and as UPOS in small letters; a range and an empty node."""
    lines = []
    for tokens, line in zip(words, labels, strict=True):
        lines.append("# text = " + " ".join(tokens))
        for number, (token, label) in enumerate(zip(tokens, line, strict=True), 1):
            if number == 2:
                lines.append("2-3" + "\t_" * 9)
            lines.append(f"{number}\t{token}\t_\t{label.lower()}\t{label}" + "\t_" * 5)
        lines += ["8.1" + "\t_" * 9, ""]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
