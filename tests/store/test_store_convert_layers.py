"""convert: a choice of layers, also of a file that is itself one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import BARE, array, attribute, write

from elmo_cli.errors import UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import verify
from elmo_cli.store.reader import open_embeddings

LAYERS: list[tuple[str, str, list[Any]]] = [
    ("allennlp", "2,0", [[0, 0, 1], [1, 0, 0]]),
    ("flat", "1", [[0, 1, 0]]),
    ("flat", "all", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ("bilm", "average", [1 / 3, 1 / 3, 1 / 3]),
    ("flat", "sum", [1, 1, 1]),
    ("flat", "mix:0.25,-0.5,1", [0.25, -0.5, 1]),
    ("manylangs", "top", [0, 0, 1]),
    ("manylangs", "0", [1, 0, 0]),
]


@pytest.mark.parametrize(("layout", "layers", "weights"), LAYERS)
def test_layers(tmp_path: Path, layout: str, layers: str, weights: list[Any]) -> None:
    """What a task has learned of the layers makes a small file of a large one, without a model."""
    path = write(tmp_path / "a.hdf5", BARE, layout="allennlp")
    convert(path, tmp_path / "b.hdf5", layout=layout, layers=f" {layers}")
    assert verify(tmp_path / "b.hdf5").count == 0
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert embeddings.attributes["layers"] == layers
        for sentence in BARE:
            expected = np.tensordot(np.array(weights, "f4"), array(sentence), 1)
            values = embeddings[embeddings.key_of(sentence)]
            assert values.shape == expected.shape
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_layers_of_a_file_of_some_are_numbered_as_in_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", BARE, layout="allennlp")
    convert(path, tmp_path / "b.hdf5", layers="2,0")
    convert(tmp_path / "b.hdf5", tmp_path / "c.hdf5", layers="2")
    with open_embeddings(tmp_path / "c.hdf5") as embeddings:
        assert embeddings.attributes["layers"] == "2"
        for sentence in BARE:
            values = embeddings[embeddings.key_of(sentence)]
            np.testing.assert_array_equal(values, array(sentence)[[2]])
    with pytest.raises(UsageError, match="has layers 2, 0"):
        convert(tmp_path / "b.hdf5", tmp_path / "x.hdf5", layers="1")
    # Without its axis the layer is still layer 2; a layout for several layers has the axis again.
    convert(tmp_path / "c.hdf5", tmp_path / "d.hdf5", layout="manylangs")
    convert(tmp_path / "d.hdf5", tmp_path / "e.hdf5", layout="flat")
    for name, n_layers in (("d", None), ("e", 1)):
        with open_embeddings(tmp_path / f"{name}.hdf5") as embeddings:
            assert (embeddings.n_layers, embeddings.layers) == (n_layers, (2,))
            for sentence, values in zip(BARE, embeddings[:], strict=True):
                expected = array(sentence)[[2]] if n_layers else array(sentence)[2]
                np.testing.assert_array_equal(values, expected)


def test_single_layers_of_maxima(tmp_path: Path) -> None:
    """Only a sum of maxima means nothing."""
    path = write(tmp_path / "a.hdf5", BARE, layout="allennlp", pool=True)
    with h5py.File(path, "a") as file:
        attribute("pool", "max")(file)
    convert(path, tmp_path / "b.hdf5", layers="2,1")
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert (embeddings.layers, embeddings.attributes["pool"]) == ((2, 1), "max")
    with pytest.raises(UsageError, match="has maxima over sentences"):
        convert(path, tmp_path / "c.hdf5", layers="sum")
