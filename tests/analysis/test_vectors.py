"""Layers of embeddings files, and which files are comparable."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from embeddings_files import DIM, HEADER, LINES, layers, make_sentences, write

from elmo_cli.analysis.vectors import LayerView, check_comparable
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings

SHA256 = HEADER["model_sha256"][:12]


def layered(path, name, **options):
    """A file with the layers that `elmo embed --layers NAME` stores."""
    has_one_layer = options.get("layout") == "manylangs"  # which stores no empty sentences
    sentences = [
        sentence for sentence in make_sentences(LINES) if sentence.tokens or not has_one_layer
    ]
    arrays = [layers(sentence) for sentence in sentences]
    if name == "top" or has_one_layer:
        arrays = [array[2] for array in arrays]
    elif name != "all":
        numbers = [int(number) for number in name.split(",")]
        arrays = [array[numbers] for array in arrays]
    return write(path, sentences, arrays, header={"layers": name}, **options)


@pytest.mark.parametrize(
    ("name", "options", "layer", "expected_layer", "row"),
    [
        ("all", {}, None, 2, 2),
        ("all", {}, 1, 1, 1),
        ("0,2", {}, 2, 2, 2),
        ("2,1", {}, None, 2, 2),
        ("2", {}, 2, 2, 2),
        ("2", {"layout": "manylangs"}, 2, 2, 2),
        ("top", {}, None, "top", 2),
    ],
)
def test_layer_is_a_number_of_the_model(tmp_path, name, options, layer, expected_layer, row):
    """Not the row of the file: row 1 of `--layers 0,2` is layer 2."""
    path = layered(tmp_path / "a.hdf5", name, **options)
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, layer)
        assert view.layer == expected_layer
        first_key = next(iter(view))
        expected = layers(make_sentences(LINES)[0])[row]
        np.testing.assert_array_equal(view.vectors(first_key), expected)


@pytest.mark.parametrize(
    ("name", "layer", "existing"),
    [("all", 3, "layers 0, 1, 2"), ("0,2", 1, "layers 0, 2"), ("top", 2, "layer top")],
)
def test_a_layer_that_is_missing_is_refused(tmp_path, name, layer, existing):
    path = layered(tmp_path / "a.hdf5", name)
    with open_embeddings(path) as embeddings, pytest.raises(UsageError) as raised:
        LayerView(embeddings, layer)
    assert raised.value.message == f"{path}: `layer={layer}`: the file has {existing}"


def test_array_of_another_shape_is_corrupt(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for k, shape in enumerate([(3, 2, DIM), (3, 4, DIM), (2, 4, DIM)]):
            file[str(k)] = np.ones(shape, np.float32)
    with (
        open_embeddings(tmp_path / "a.hdf5") as embeddings,
        pytest.raises(EmbeddingsFileError, match=r"sentence 2 has shape \(2, 4, 7\)"),
    ):
        LayerView(embeddings).vectors(2)


@pytest.mark.parametrize(
    ("dtype", "value"), [("<f4", np.nan), ("<f4", np.inf), ("<f4", -np.inf), ("<f8", 1e39)]
)
def test_value_that_is_not_finite_in_float32_is_named(tmp_path, dtype, value):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for key in ("0", "1"):
            file[key] = np.ones((3, 5, DIM), dtype)
        file["1"][2, 4, 3] = value
        file["sentence_to_index"] = ['{"a b c d e": "1"}']
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        assert LayerView(embeddings, 2).vectors(0).all()
        assert LayerView(embeddings, 1).vectors(1).all()
        with pytest.raises(EmbeddingsFileError, match=r"sentence 1: .* layer 2 "):
            LayerView(embeddings, 2).vectors(1)


@pytest.mark.parametrize(
    ("header", "dim", "message"),
    [
        ({"model_sha256": "9ab0"}, DIM, f"model_sha256 is '9ab0', that of {{}} is '{SHA256}'"),
        ({}, 5, "dimension is 5, that of {} is 7"),
        ({"pool": "max"}, DIM, "unit is 'sentences', that of {} is 'tokens'"),
    ],
)
def test_incomparable_files_are_refused(tmp_path, header, dim, message):
    sentences = make_sentences(LINES)
    arrays = [layers(sentence, dim=dim) for sentence in sentences]
    if "pool" in header:
        arrays = [array.sum(1) for array in arrays]
    reference_path = write(tmp_path / "a", sentences)
    path = write(tmp_path / "q", sentences, arrays, header=header)
    with (
        open_embeddings(reference_path) as reference,
        open_embeddings(path) as embeddings,
        pytest.raises(EmbeddingsFileError) as raised,
    ):
        check_comparable(embeddings, reference)
    assert raised.value.message == f"{path}: {message.format(reference_path)}"


def test_files_pooled_in_different_ways_are_refused(tmp_path):
    sentences = make_sentences(["a b", "c"])
    arrays = [layers(sentence).sum(1) for sentence in sentences]
    paths = {
        pool: write(tmp_path / pool, sentences, arrays, header={"pool": pool})
        for pool in ("mean", "max")
    }
    with (
        open_embeddings(paths["mean"]) as reference,
        open_embeddings(paths["max"]) as embeddings,
        pytest.raises(EmbeddingsFileError, match=r"max: pool is 'max', that of .*mean is 'mean'"),
    ):
        check_comparable(embeddings, reference)


def test_settings_that_change_vectors_a_little_are_listed(tmp_path):
    """Between two files of elmo all of them, of another program what it records."""
    sentences = make_sentences(LINES)
    reference_path = write(tmp_path / "a", sentences)
    path = write(tmp_path / "q", sentences, header={"state": "warm", "precision": "int8"})
    state = f"state is 'warm', that of {reference_path} is 'zero'"
    precision = f"precision is 'int8', that of {reference_path} is 'float32'"
    with open_embeddings(reference_path) as reference, open_embeddings(path) as embeddings:
        assert check_comparable(embeddings, reference) == [state, precision]
        del reference.attributes["model_sha256"]
        assert check_comparable(embeddings, reference) == [state]
    path = write(tmp_path / "b", sentences, header={"state_sha256": "ab", "batch_size": 12})
    with open_embeddings(reference_path) as reference, open_embeddings(path) as embeddings:
        assert check_comparable(embeddings, reference) == [
            f"state_sha256 is 'ab', that of {reference_path} is None",
            f"batch_size is 12, that of {reference_path} is None",
        ]
