"""load_language_model: where softmax and vocabulary are found, and errors if they are not."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_cli.errors import InputError, ModelError, UsageError, WeightFileError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import load_language_model, new_bilm
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import ModelSource

CORPUS = Corpus.read([["the", "old", "tree", "is", "xyzzy", "."]])


@pytest.fixture
def model(tmp_path: Path, tiny: Path, golden: Path) -> Path:
    """A folder with all four files."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    for name in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / name, folder)
    return folder


def average(model: str | Path | ModelSource, **parts: str | Path) -> float:
    return perplexity(load_language_model(model, **parts), CORPUS).average


def test_softmax_and_vocabulary_are_found_everywhere(model: Path, tmp_path: Path) -> None:
    """Next to the weights, inside them, in a zip file, or named."""
    loaded = load_language_model(model)
    assert loaded.bilm.name == "model"
    assert loaded.softmax.weight.shape == (55, 8)
    assert loaded.softmax.weight.dtype == torch.float32
    beside = average(model)
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", model)
    assert average(archive) == beside
    softmax = shutil.move(model / "softmax.hdf5", tmp_path / "other.hdf5")
    assert average(model, softmax=softmax) == beside
    with h5py.File(softmax) as source, h5py.File(model / "weights.hdf5", "a") as target:
        source.copy("softmax", target)
    assert average(model) == beside
    assert average(ModelSource(None, model / "options.json", model / "weights.hdf5")) == beside
    text = (model / "vocab.txt").read_bytes()
    (model / "vocab.txt").unlink()
    (model / "vocab.txt.gz").write_bytes(gzip.compress(text))
    assert average(model) == beside
    other = tmp_path / "types"
    other.write_bytes(text)
    assert average(model, vocabulary=other) == beside


def test_loaded_parameters_take_no_gradients(model: Path) -> None:
    """A step would change the model that is measured."""
    loaded = load_language_model(model)
    parameters = [*loaded.bilm.parameters(), *loaded.softmax.parameters()]
    assert not any(parameter.requires_grad for parameter in parameters)


def test_missing_files_are_named(model: Path, tiny: Path) -> None:
    """Published weights come without a softmax."""
    with pytest.raises(ModelError, match=r"this model has no softmax: no softmax\.hdf5") as caught:
        load_language_model(tiny)
    assert caught.value.hint == "`elmo finetune` fits one to a text"
    types = shutil.move(model / "vocab.txt", model.parent)
    with pytest.raises(ModelError, match=r"model: no vocab\.txt beside weights\.hdf5"):
        load_language_model(model)
    with pytest.raises(WeightFileError, match=r"gone\.hdf5: no such file"):
        load_language_model(tiny, softmax="gone.hdf5", vocabulary=types)
    with pytest.raises(InputError, match=r"gone\.txt: can't be read"):
        load_language_model(model, vocabulary="gone.txt")
    with pytest.raises(UsageError, match="expected one model"):
        load_language_model(ModelSource(model, options=model / "options.json"))


def test_parts_of_different_models_are_refused(model: Path, odd: Path) -> None:
    """One type more or less moves all ids after it, which would give a number like any other."""
    text = (model / "vocab.txt").read_text()
    (model / "vocab.txt").write_text(text + "more\n")
    with pytest.raises(WeightFileError, match=r"\(55, 8\), expected shape \(56, 8\)"):
        load_language_model(model)
    (model / "vocab.txt").write_text(text)
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(odd / name, model)
    with pytest.raises(WeightFileError, match=r"\(55, 8\), expected shape \(55, 12\)"):
        load_language_model(model)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_initial_values(activation: str) -> None:
    """Those of bilm-tf, and a softmax that starts with the frequencies of the types."""
    sizes = {"projection_dim": 16, "lstm_dim": 24, "char_dim": 8, "n_highway": 1}
    options = Options(filters=((1, 40), (3, 40)), activation=activation, **sizes)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    counts = np.asarray([7.0, 0, 1, 88])
    bilm, softmax = new_bilm(options, counts, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    cnn = bilm.char_cnn
    layer = bilm.backward_lm.layers[1]
    assert (cnn.highways[0].carry.bias == -2).all()
    for part in (cnn.highways[0].transform, *cnn.filters, cnn.projection, layer.input):
        assert (part.bias == 0).all()
    widest = 0.05 if activation == "relu" else 5 * 24**-0.5
    assert widest / 2 < cnn.filters[1].weight.abs().max() <= widest
    assert cnn.highways[0].carry.weight.std().item() == pytest.approx(80**-0.5, rel=0.05)
    bound = (6 / (2 * 16 + 4 * 24)) ** 0.5
    for weight in (layer.input.weight, layer.recurrent.weight):
        assert 0.9 * bound < weight.abs().max() <= bound
    assert softmax.bias.tolist() == pytest.approx(np.log([0.08, 0.01, 0.02, 0.89]), abs=1e-6)
    assert softmax.weight.std().item() == pytest.approx(0.02, rel=0.3)
