"""All checkpoints of the reference, of which the repository has a few."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import made

from elmo_cli import Embedder
from elmo_cli.families.tensor_bundle import TensorBundle
from elmo_cli.pretrained.load import load

pytestmark = pytest.mark.reference
CHARACTER_MODELS = ["full", "plain", "onelayer"]


@pytest.fixture
def checkpoints(reference: Path) -> Path:
    return reference / "tf_checkpoint"


def test_every_tensor_bit_for_bit(checkpoints: Path) -> None:
    listed = json.loads((checkpoints / "tensors.json").read_text())
    indexes = sorted(checkpoints.rglob("*.index"))
    assert len(indexes) > 10
    n_tensors = 0
    for index in indexes:
        bundle = TensorBundle(index)
        folder = index.parent.relative_to(checkpoints).as_posix()
        for name, (dtype, shape, digest) in listed.get(folder, {}).items():
            if dtype == "float32":
                array = bundle.read(name)
                assert array.shape == tuple(shape)
                assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == digest
                n_tensors += 1
    assert n_tensors > 300


@pytest.mark.parametrize("name", CHARACTER_MODELS)
def test_dumps_vectors_and_perplexities(name: str, checkpoints: Path, tmp_path: Path) -> None:
    folder = checkpoints / name
    made("models", "convert", folder, "-o", tmp_path / "copy", "-q")
    copy = tmp_path / "copy" / "weights.hdf5"
    with h5py.File(folder / "dump_weights.hdf5") as dump, h5py.File(copy) as converted:
        names: list[str] = []
        converted.visit(names.append)
        arrays = [path for path in names if isinstance(converted[path], h5py.Dataset)]
        assert len(arrays) >= 13
        for path in arrays:
            in_dump = path.replace("MultiRNNCell/Cell0/", "") if name == "onelayer" else path
            np.testing.assert_array_equal(converted[path], dump[in_dump])
    embedder = Embedder(load(folder))
    lines = (checkpoints / "sentences.txt").read_text("utf-8").splitlines()
    with h5py.File(folder / "vectors_float64.hdf5") as expected:
        for number, line in enumerate(lines):
            layers = embedder.embed(line.split())
            np.testing.assert_allclose(layers, expected[str(number)], rtol=0, atol=1e-6)
    expected_figures = json.loads((checkpoints / "expected.json").read_text())[name]
    words = ["-m", folder, "--vocabulary", checkpoints / "vocab.txt", "--state", "carry", "--json"]
    done = made("perplexity", checkpoints / "heldout.txt", *words, "--device", "cpu")
    average = json.loads(done.out)["perplexity"]["average"]
    float64 = expected_figures["float64_batch_size_1"]["perplexity"]
    assert average == pytest.approx(float64, rel=2e-6)
