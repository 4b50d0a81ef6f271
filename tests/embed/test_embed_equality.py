"""One sentence, one vector: whatever stands around it, and however the work is cut.

Without these the definition of equality in docs/explanation/determinism.md would be a promise only.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tolerance import ATOL_ORDER

from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.shards import merge_shards

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def lines(n: int) -> list[str]:
    """Sentences of 1 to 40 tokens over a few thousand made-up types, all different."""
    made = random.Random(11)
    types = ["".join(made.choices(LETTERS, k=made.randint(1, 12))) for _ in range(4000)]
    return [" ".join([str(k), *made.choices(types, k=made.randint(0, 39))]) for k in range(n)]


def embed(model: Path, folder: Path, name: str, text: list[str], **settings: object) -> Path:
    source = folder / f"{name}.txt"
    out = folder / f"{name}.hdf5"
    source.write_text("\n".join(text) + "\n", encoding="utf-8")
    settings.setdefault("embedder", EmbedderSettings())
    run_job(EmbedJob((str(source),), str(out), ModelSource(str(model)), **settings))
    return out


def largest_difference(a: Path, b: Path, keys: list[tuple[int, int]]) -> float:
    with open_embeddings(a) as first, open_embeddings(b) as second:
        return max(float(np.abs(first[k] - second[j]).max()) for k, j in keys)


@pytest.fixture
def threads():
    """torch's number of threads, put back afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("model", "n"),
    [
        ("odd", 25),
        pytest.param("tiny", 4_000, marks=pytest.mark.slow),
        pytest.param("odd", 4_000, marks=pytest.mark.slow),
    ],
)
def test_whatever_stands_around_it(model, n, tmp_path, threads, request):
    """Alone, in a crowd, in reverse, in other batches, with other threads: the same to rounding."""
    folder = request.getfixturevalue(model)
    text = lines(n)
    threads(1)
    whole = embed(folder, tmp_path, "whole", text)
    same = [(k, k) for k in range(n)]
    differences = {}
    turned = embed(folder, tmp_path, "turned", text[::-1])
    differences["reverse"] = largest_difference(whole, turned, [(k, n - 1 - k) for k in range(n)])
    for k in (0, n // 2, n - 1):
        alone = embed(folder, tmp_path, f"alone-{k}", [text[k]])
        differences[f"alone {k}"] = largest_difference(whole, alone, [(k, 0)])
    for size in (1, 7, 512):
        other = embed(
            folder, tmp_path, f"batch-{size}", text, embedder=EmbedderSettings(batch_size=size)
        )
        differences[f"batch size {size}"] = largest_difference(whole, other, same)
    threads(2)
    other = embed(folder, tmp_path, "threads", text)
    differences["2 threads"] = largest_difference(whole, other, same)
    print(model, n, {name: f"{value:.1e}" for name, value in differences.items()})
    assert max(differences.values()) <= ATOL_ORDER


@pytest.mark.slow
def test_however_the_work_is_cut(tiny, tmp_path):
    """Twice the same command, and three shards merged: the same bytes, with blocks of true size."""
    text = lines(10_000)
    whole = embed(tiny, tmp_path, "text", text).read_bytes()
    again = embed(tiny, tmp_path, "text", text, overwrite=True).read_bytes()
    assert again == whole
    source = str(tmp_path / "text.txt")
    shards = [tmp_path / f"shard-{i}.hdf5" for i in (1, 2, 3)]
    for i, out in enumerate(shards, 1):
        job = EmbedJob((source,), str(out), ModelSource(str(tiny)), shard=ShardNumber(i, 3))
        run_job(job)
    merge_shards(shards[::-1], tmp_path / "merged.hdf5")
    assert (tmp_path / "merged.hdf5").read_bytes() == whole
