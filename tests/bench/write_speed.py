"""How fast embeddings files are written and read, apart from the model.

    python tests/bench/write_speed.py [--folder DIR] [--sentences N] [--dim D]

Sentences of 20 tokens in three layers, random values, as `elmo embed` hands them to the store: in
blocks that are committed one by one, to the disk and not to its cache alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

N_TOKENS, BLOCK = 20, 1000  # tokens of a sentence, sentences of a block
KINDS = {
    "flat, float32": ("flat", "float32"),
    "flat, float16": ("flat", "float16"),
    "flat, int8": ("flat", "int8"),
    "allennlp, float32": ("allennlp", "float32"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="on the disk to measure; the default is /tmp's")
    parser.add_argument("--sentences", type=int, default=8000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--times", type=int, default=3, help="of which the best counts")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts: dict[str, Any] = {"sentences": given.sentences, "dim": given.dim}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        disk = shutil.disk_usage(folder).free
        needed = 2 * given.sentences * N_TOKENS * 3 * given.dim * 4
        if disk < needed:
            raise SystemExit(f"{folder}: {needed:,} bytes are needed, {disk:,} are free")
        rounds = [one_round(Path(folder), given) for _ in range(given.times)]
    for name in rounds[0]:
        pick = max if name.endswith("/s") else min
        facts[name] = pick(of[name] for of in rounds)
    if given.json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:44}{value:>14,.2f}" if isinstance(value, float) else f"{name:44}{value:>14,}")


def one_round(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Every kind once, and the disk beside it."""
    random = np.random.default_rng(1)
    values = random.standard_normal((3, BLOCK * N_TOKENS, given.dim), np.float32)
    tokens = tuple(f"word{n}" for n in range(N_TOKENS))
    plain = folder / "plain"
    facts = {}
    n_bytes = given.sentences // BLOCK * values.nbytes
    facts["the disk itself, MB/s"] = (
        n_bytes / timed(lambda: write_plain(plain, values, given)) / 1e6
    )
    plain.unlink()
    sizes = {}
    for name, (layout, dtype) in KINDS.items():
        path = folder / f"{dtype}.hdf5"
        seconds = timed(lambda p=path, la=layout, d=dtype: write(p, la, d, values, tokens, given))
        facts[f"{name}, MB of float32/s"] = n_bytes / seconds / 1e6
        facts[f"{name}, sentences/s"] = given.sentences / seconds
        sizes[name] = path.stat().st_size
        facts[f"{name}, bytes a value"] = sizes[name] / (n_bytes / 4)
        facts[f"{name}, read, MB of float32/s"] = n_bytes / timed(lambda p=path: read(p)) / 1e6
        path.unlink()
    return facts


def write_plain(path: Path, values: Any, given: argparse.Namespace) -> None:
    """The same bytes into a plain file, committed block by block."""
    with path.open("wb", buffering=0) as file:
        for _ in range(given.sentences // BLOCK):
            file.write(values.data.cast("B"))
            os.fsync(file.fileno())


def write(
    path: Path, layout: str, dtype: str, values: Any, tokens: tuple[str, ...], given: Any
) -> None:
    """One file, from its creation to its name."""
    text, keys = " ".join(tokens), itertools.count()
    with EmbeddingsWriter.open(path, FileSpec(layout=layout, dtype=dtype)) as writer:
        for _ in range(given.sentences // BLOCK):
            numbers = itertools.islice(keys, BLOCK)
            block = [Sentence(tokens, key, f"{text} {key}") for key in numbers]
            arrays = np.split(values, BLOCK, 1)  # (layer, token, dim)
            writer.append_block(block, arrays, text_sha256="")
        writer.finish({})


def read(path: Path) -> None:
    """Every array, in order."""
    with open_embeddings(path) as embeddings:
        for key in embeddings:
            embeddings[key].sum()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
