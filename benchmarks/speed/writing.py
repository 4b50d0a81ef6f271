"""Measure how fast embeddings files are written and read, without a model.

    python -m benchmarks.speed.writing [--folder DIR] [--sentences N] [--dim D]

Sentences of 20 tokens in three layers of random values, in blocks that are committed to the disk
one by one, as `elmo embed` writes them. A plain file of the same bytes shows what the disk can do.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common import table
from elmo_cli import Sentence, open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter

N_TOKENS = 20  # of a sentence
BLOCK = 1000  # sentences
KINDS = [("flat", "float32"), ("flat", "float16"), ("flat", "int8"), ("allennlp", "float32")]
HEADER = ["", "written, MB of float32/s", "sentences/s", "bytes per value", "read, MB of float32/s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="on the disk to measure  [default: /tmp's]")
    parser.add_argument("--sentences", type=int, default=8000, metavar="N", help="[default: 8000]")
    parser.add_argument("--dim", type=int, default=1024, metavar="D", help="[default: 1024]")
    given = parser.parse_args()
    n_blocks = -(-given.sentences // BLOCK)
    values = np.random.default_rng(1).standard_normal((3, BLOCK * N_TOKENS, given.dim), np.float32)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        rows = measure(Path(name) / "out.hdf5", values, n_blocks)
    print(f"{n_blocks * BLOCK:,} sentences of {N_TOKENS} tokens, {given.dim} dimensions")
    print(table(HEADER, rows))


def measure(path: Path, values: Any, n_blocks: int) -> list[list[str]]:
    """A row of figures for a plain file, and for every kind of embeddings file."""
    n_bytes = n_blocks * values.nbytes
    n_sentences = n_blocks * BLOCK
    n_values = n_bytes / 4

    def row(name: str, write_it: Callable[[], None], read_it: Callable[[], object]) -> list[str]:
        written_s = timed(write_it)
        size = path.stat().st_size
        read_s = timed(read_it)
        path.unlink()
        return [
            name,
            f"{n_bytes / written_s / 1e6:,.0f}",
            f"{n_sentences / written_s:,.0f}",
            f"{size / n_values:.2f}",
            f"{n_bytes / read_s / 1e6:,.0f}",
        ]

    rows = [row("a plain file", partial(write_plain, path, values, n_blocks), path.read_bytes)]
    for layout, dtype in KINDS:
        write_it = partial(write, path, FileSpec(layout=layout, dtype=dtype), values, n_blocks)
        rows.append(row(f"{layout}, {dtype}", write_it, partial(read, path)))
    return rows


def write_plain(path: Path, values: Any, n_blocks: int) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(n_blocks):
            file.write(values.data.cast("B"))
            os.fsync(file.fileno())


def write(path: Path, spec: FileSpec, values: Any, n_blocks: int) -> None:
    """An embeddings file, from its creation to its final name."""
    tokens = tuple(f"word{n}" for n in range(N_TOKENS))
    with EmbeddingsWriter.open(path, spec) as writer:
        for number in range(n_blocks):
            sentences = []
            for key in range(number * BLOCK, (number + 1) * BLOCK):
                sentences.append(Sentence(tokens, key, f"{' '.join(tokens)} {key}"))
            writer.append_block(sentences, np.split(values, BLOCK, 1), text_sha256="")
        writer.finish({})


def read(path: Path) -> None:
    with open_embeddings(path) as embeddings:
        for key in embeddings:
            embeddings[key].sum()


def timed(work: Callable[[], object]) -> float:
    start_s = perf_counter()
    work()
    return perf_counter() - start_s


if __name__ == "__main__":
    main()
