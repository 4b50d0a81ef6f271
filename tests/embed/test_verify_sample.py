"""recompute_sample: valid files agree with their model after any rounding, corrupt ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.run import embed_file
from elmo_cli.embed.verify_sample import RecomputedSentence, recompute_sample
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.convert import convert
from elmo_cli.store.sentence_sample import take_sample
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import read_sentences

N_SENTENCES = 6
INT8 = {"dtype": "int8"}
FLOAT16 = {"dtype": "float16"}
# Layout, settings of the embedder, conversions one after the other.
FILES: list[tuple[str, dict[str, Any], tuple[dict[str, str], ...]]] = [
    ("flat", INT8, ()),
    ("flat", FLOAT16, ()),
    *(("flat", {"precision": precision}, ()) for precision in ("bf16", "int8")),
    ("flat", {"pool": "max"}, ()),
    ("flat", {"state": "warm"}, ()),
    ("flat", {"layers": "mix:1,2,3"}, ()),
    *((layout, {"layers": "2"}, ()) for layout in ("flat", "manylangs")),
    ("e2e-coref", {"layers": "2", "pool": "mean"}, ()),
    # Each layer was rounded by its own largest value, which is larger than that of the sum.
    ("flat", FLOAT16, ({"layers": "average", **INT8},)),
    ("flat", INT8, ({"layers": "mix:0.2,-1.5,3", **FLOAT16},)),
    ("flat", INT8, ({"layers": "mix:1,1,1,999", "dtype": "float32"},)),
    ("flat", FLOAT16, (INT8,)),
    ("flat", INT8, (FLOAT16, INT8, {"dtype": "float32"})),
]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Three documents of two sentences of three tokens."""
    path = tmp_path / "text.jsonl"
    lines = [[f"w{k}", f"x{k % 7}", f"y{k % 11}"] for k in range(N_SENTENCES)]
    rows = [{"doc_key": f"d_{k}", "sentences": lines[k : k + 2]} for k in (0, 2, 4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recomputed(path: Path, text: Path, bilm: BiLM) -> list[RecomputedSentence]:
    sample = take_sample(path, N_SENTENCES, read_sentences(str(text)))
    return recompute_sample(sample, bilm, device="cpu")


@pytest.mark.parametrize(("layout", "settings", "conversions"), FILES)
def test_only_a_changed_value_differs(
    layout: str,
    settings: dict[str, Any],
    conversions: tuple[dict[str, str], ...],
    text: Path,
    tmp_path: Path,
    tiny_bilm: BiLM,
) -> None:
    """Otherwise each valid file would be called wrong, or each corrupt one right."""
    path = tmp_path / "0.hdf5"
    embed_file(text, path, Embedder(tiny_bilm, device="cpu", **settings), file=FileSpec(layout))
    for step, options in enumerate(conversions, 1):
        convert(path, tmp_path / f"{step}.hdf5", **options)
        path = tmp_path / f"{step}.hdf5"
    sample = recomputed(path, text, tiny_bilm)
    assert [sentence.problem for sentence in sample] == [""] * N_SENTENCES
    if layout != "flat":
        return
    with h5py.File(path, "r+") as file:  # one vector off by more than rounding
        values = file["scales" if "scales" in file else "vectors"]
        values[0] = np.float32(1.1) * values[0]
    wrong = [sentence.problem != "" for sentence in recomputed(path, text, tiny_bilm)]
    assert wrong == [True] + [False] * (N_SENTENCES - 1)


@pytest.mark.parametrize(
    ("value", "layers", "problem"),
    [
        (np.inf, "all", "differs from what the model computes, by up to inf"),
        (np.nan, "all", "differs from what the model computes, by up to nan"),
        (1.0, "top", "has the shape (3, 16), the model computes (3, 3, 16)"),
    ],
)
def test_a_sentence_without_a_difference(
    value: float, layers: str, problem: str, text: Path, tmp_path: Path, tiny_bilm: BiLM
) -> None:
    path = tmp_path / "a.hdf5"
    embed_file(text, path, Embedder(tiny_bilm, device="cpu", layers=layers))
    with h5py.File(path, "r+") as file:
        file["0"][..., 2] = value
        for name in list(file.attrs):
            del file.attrs[name]
    first = recomputed(path, text, tiny_bilm)[0]
    assert first.problem == problem
    assert first.difference is None or not np.isfinite(first.difference)
