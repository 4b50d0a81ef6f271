"""The script that makes a biLM larger for training to go on from: what it says stays the same."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.embed.embedder import Embedder
from elmo_cli.train.language_model import LanguageModel, load_language_model

SCRIPT = Path(__file__).parents[1] / "bench" / "grow.py"
SHARE = 0.25


def halves(model: LanguageModel, layer: int) -> list[np.ndarray]:
    """Of a sentence, forward and backward, (token, projection) each."""
    array = Embedder(model.bilm, device="cpu").embed(["the", "old", "baker", "was", "zzz", "."])
    return np.split(array[layer], 2, axis=1)


def test_more_cells_and_filters_change_nothing(tiny: Path, golden: Path, tmp_path: Path) -> None:
    """They are there to be trained; and a projection that large would be taken for none."""
    small, large = tmp_path / "small", tmp_path / "large"
    shutil.copytree(tiny, small)
    for name in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / name, small)
    words = [sys.executable, SCRIPT, small, large, "--cell", 19, "--filter", "2,5"]
    subprocess.run(list(map(str, words)), check=True, capture_output=True)
    before, after = load_language_model(small), load_language_model(large)
    old, new = before.bilm.options, after.bilm.options
    assert (new.lstm_dim, new.n_filters) == (19, old.n_filters + 5)
    for layer in range(3):
        for one, other in zip(halves(before, layer), halves(after, layer), strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-6)
    words[-4:] = ["--projection", str(old.lstm_dim)]
    done = subprocess.run(
        [*map(str, words[:3]), str(tmp_path / "no"), *words[-2:]], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"projection {old.lstm_dim}: taken for none at all" in done.stderr


def test_predictions_and_old_values_stay(tiny: Path, golden: Path, tmp_path: Path) -> None:
    """Training goes on from the same loss, with room for more."""
    small, wide = tmp_path / "small", tmp_path / "wide"
    shutil.copytree(tiny, small)
    for name in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / name, small)
    words = [small, wide, golden / "lm" / "sentences.txt", "--projection", 13, "--treebank", SHARE]
    subprocess.run([sys.executable, SCRIPT, *map(str, words)], check=True, capture_output=True)
    before, after = load_language_model(small), load_language_model(wide)
    n_old = before.bilm.options.projection_dim
    assert after.bilm.options.projection_dim == 13 > n_old
    for layer in range(3):
        for old, new in zip(halves(before, layer), halves(after, layer), strict=True):
            assert new.shape == (len(old), 13)
            np.testing.assert_allclose(new[:, :n_old], old, rtol=0, atol=1e-6)
            assert np.abs(new[:, n_old:]).min() > 0

    scores = [
        halves(model, 2)[0] @ model.head.weight.detach().numpy().T
        + model.head.bias.detach().numpy()
        for model in (before, after)
    ]
    types, more = ((f / "vocab.txt").read_text().splitlines() for f in (small, wide))
    places = [after.vocabulary.id(name) for name in types]
    np.testing.assert_allclose(scores[1][:, places], scores[0], rtol=0, atol=1e-5)
    assert set(more) - set(types) == {"``", "''"}
    plain, opening = (scores[1][:, after.vocabulary.id(name)] for name in ('"', "``"))
    assert opening - plain == pytest.approx(math.log(SHARE / 2), abs=1e-5)
