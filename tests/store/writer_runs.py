"""Small runs of EmbeddingsWriter that every test of the write side begins with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

HEADER = {"layers": "all", "model_sha256": "6c1f" + "0" * 60, "state": "zero"}
DIM = 4


def sentences(n: int) -> list[Sentence]:
    """Sentences of 1 to 3 tokens, in documents of 3; one line stands twice."""
    made = []
    for key in range(n):
        tokens = tuple(f"t{key if key != 3 else 2}.{i}/é" for i in range(1 + key % 3))
        document, place = divmod(key, 3)
        name = f"bc/cctv/00/cctv_000{document}_{document}"
        text = "  ".join(tokens) if key % 2 else " ".join(tokens)
        made.append(Sentence(tokens, key, text, "in.txt", key + 1, name, place, 0, place == 0))
    return made


def array(sentence: Sentence, layers: int | None = 3) -> np.ndarray:
    """Values that differ for each sentence, layer, token and dim; (layer, token, dim)."""
    shape = (len(sentence.tokens), DIM) if layers is None else (layers, len(sentence.tokens), DIM)
    return (np.arange(np.prod(shape)).reshape(shape) / 8 + sentence.key).astype(np.float32)


def run(
    out: Path,
    *,
    layout: str,
    n: int = 5,
    block: int = 2,
    resume: bool = False,
    header: dict[str, object] | None = None,
    **options: Any,
) -> EmbeddingsWriter:
    """Write `n` sentences in blocks, as `elmo embed` does; with `resume` those that are missing."""
    settings = {"layout": layout, "header": HEADER if header is None else header, **options}
    make = EmbeddingsWriter.resume if resume else EmbeddingsWriter.create
    layers = None if layout == "manylangs" else 3
    with make(out, **settings) as writer:
        if writer.finished:
            return writer
        write(writer, sentences(n), block=block, layers=layers)
        writer.finish({"sources": [["in.txt", 0]]})
    return writer


def write(
    writer: EmbeddingsWriter, given: Sequence[Sentence], *, block: int, layers: int | None = 3
) -> None:
    """Remember what is committed, append and commit the rest."""
    done = writer.progress.sentences
    for sentence in given[:done]:
        writer.remember(sentence)
    for number, sentence in enumerate(given[done:], start=done + 1):
        writer.append(sentence, array(sentence, layers))
        if number % block == 0 or number == len(given):
            writer.commit(f"hash of {number}", b"state %d" % number)
