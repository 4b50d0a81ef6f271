"""Small embeddings files with vectors that a test can reckon with."""

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


def sentences(lines: Sequence[str] = LINES) -> list[Sentence]:
    """A sentence a line, of two documents."""
    half = len(lines) // 2
    return [
        Sentence(tuple(line.split()), key, line, "in.txt", key + 1, f"d_{key // half}", key % half)
        for key, line in enumerate(lines)
    ]


def layers(sentence: Sentence, n_layers: int = 3, dim: int = DIM) -> np.ndarray:
    """Vectors (layer, token, dim) by the sentence alone, and of layer 0 by the token alone.

    Layers above differ from one time that a sentence occurs to another as rounding makes them.
    """
    values = np.zeros((n_layers, len(sentence.tokens), dim), np.float32)
    for at, token in enumerate(sentence.tokens):
        values[0, at] = _random(token, dim)
        for layer in range(1, n_layers):
            values[layer, at] = _random(f"{sentence.text}|{at}|{layer}", dim)
    values[1:] *= np.float32(1 + 1e-6 * sentence.key)
    return values


def _random(text: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dim)


def write(
    path: Path,
    given: Sequence[Sentence],
    arrays: Sequence[np.ndarray] | None = None,
    *,
    layout: str = "flat",
    header: dict[str, Any] | None = None,
    **options: Any,
) -> Path:
    """A whole file; of arrays that are not given those of `layers`."""
    header = {**HEADER, "layers": "all", **(header or {})}
    arrays = [layers(sentence) for sentence in given] if arrays is None else arrays
    spec = FileSpec(layout=layout, run_settings=header, **options)
    with EmbeddingsWriter.open(path, spec) as writer:
        writer.append_block(given, arrays, text_sha256="")
        writer.finish({"sources": [["in.txt", 0]]})
    return path
