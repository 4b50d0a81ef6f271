"""Measure how fast embeddings files are written and read, without a model.

    python -m benchmarks.speed.writing [--folder DIR] [--sentences N] [--dim D] [--json FILE]

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

from benchmarks.common import parse_arguments, table
from benchmarks.record import Record
from elmo_cli import Sentence, open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter

N_TOKENS = 20  # of a sentence
N_LAYERS = 3
BLOCK = 1000  # sentences
KINDS = [("flat", "float32"), ("flat", "float16"), ("flat", "int8"), ("allennlp", "float32")]
HEADER = ["", "written, MB of float32/s", "sentences/s", "bytes per value", "read, MB of float32/s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="on the disk to measure  [default: /tmp's]")
    parser.add_argument("--sentences", type=int, default=8000, metavar="N", help="[default: 8000]")
    parser.add_argument("--dim", type=int, default=1024, metavar="D", help="[default: 1024]")
    given = parse_arguments(parser)
    record = Record(given.json, "benchmarks.speed.writing")
    n_blocks = -(-given.sentences // BLOCK)
    values = np.random.default_rng(1).standard_normal(
        (N_LAYERS, BLOCK * N_TOKENS, given.dim), np.float32
    )
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        files = measure(Path(name) / "out.hdf5", values, n_blocks)
    n_sentences = n_blocks * BLOCK
    facts = {"sentences": n_sentences, "dim": given.dim, "files": files}
    record.add(**facts)
    print(f"{n_sentences:,} sentences of {N_TOKENS} tokens, {given.dim} dimensions")
    print(table(HEADER, rows_of(facts)))


def measure(path: Path, values: Any, n_blocks: int) -> list[dict[str, Any]]:
    """The seconds and bytes of a plain file, and of every kind of embeddings file."""

    def cost(
        name: str, write_it: Callable[[], None], read_it: Callable[[], object]
    ) -> dict[str, Any]:
        written_s = timed(write_it)
        size = path.stat().st_size
        read_s = timed(read_it)
        path.unlink()
        return {"file": name, "written_s": written_s, "read_s": read_s, "bytes": size}

    costs = [cost("a plain file", partial(write_plain, path, values, n_blocks), path.read_bytes)]
    for layout, dtype in KINDS:
        write_it = partial(write, path, FileSpec(layout=layout, dtype=dtype), values, n_blocks)
        costs.append(cost(f"{layout}, {dtype}", write_it, partial(read, path)))
    return costs


def rows_of(facts: dict[str, Any]) -> list[list[str]]:
    """The rows of the table of a measurement, below `HEADER`."""
    n_sentences = facts["sentences"]
    n_values = n_sentences * N_TOKENS * N_LAYERS * facts["dim"]
    n_megabytes = 4 * n_values / 1e6  # of float32
    rows = []
    for file in facts["files"]:
        row = [
            file["file"],
            f"{n_megabytes / file['written_s']:,.0f}",
            f"{n_sentences / file['written_s']:,.0f}",
            f"{file['bytes'] / n_values:.2f}",
            f"{n_megabytes / file['read_s']:,.0f}",
        ]
        rows.append(row)
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
