"""The Embedder against the frozen outputs of AllenNLP and bilm-tf."""

from __future__ import annotations

import hashlib
import json
from itertools import chain
from pathlib import Path

import h5py
import numpy as np
import pytest
from make_weights import MODELS, weight_arrays, write_model
from oracle import Oracle
from tolerance import ATOL, ATOL_ORACLE, ATOL_PUBLISHED

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM
from elmo_cli.text.sentence import Sentence
from elmo_cli.weightfile.read import read_bilm


@pytest.fixture(params=["tiny", "odd"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bilm(model: str, request: pytest.FixtureRequest) -> BiLM:
    fixture = request.getfixturevalue(f"{model}_bilm")
    assert isinstance(fixture, BiLM)
    return fixture


def frozen(path: Path) -> list[FloatArray]:
    with h5py.File(path) as file:
        return [file[str(key)][...] for key in range(len(file))]


def sentences_of(tokens: list[list[str]]) -> list[Sentence]:
    return [Sentence(tuple(words), key) for key, words in enumerate(tokens)]


def close(found: FloatArray, expected: FloatArray, atol: float) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_the_weights_are_those_that_the_outputs_were_made_with(model: str, golden: Path) -> None:
    """Without it a change of the generator would look like a mistake of the model."""
    frozen_hashes = json.loads((golden / "expected" / "weights_sha256.json").read_text())
    hashes = {
        name: hashlib.sha256(array.tobytes()).hexdigest()
        for name, array in weight_arrays(MODELS[model], model).items()
    }
    assert hashes == frozen_hashes[model]["arrays"]


def test_the_oracle_is_allennlp(model: str, lines: list[list[str]], golden: Path) -> None:
    """Without it the oracle could share a mistake with the model."""
    oracle = Oracle(MODELS[model], weight_arrays(MODELS[model], model))
    for tokens, expected in zip(lines, frozen(golden / "expected" / f"{model}.hdf5"), strict=True):
        close(oracle.read(tokens)[0], expected, ATOL_ORACLE)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_sentence_from_zeros(
    model: str, bilm: BiLM, engine: str, dtype: str, lines: list[list[str]], golden: Path
) -> None:
    """Without it the file could hold other numbers than the originals' own."""
    embedder = Embedder(bilm, engine=engine, dtype=dtype, device="cpu")
    arrays, _ = embedder.embed_batch(lines)
    for array, expected in zip(arrays, frozen(golden / "expected" / f"{model}.hdf5"), strict=True):
        assert array.dtype == dtype
        close(array, expected, ATOL[engine, dtype])
        half = array.shape[2] // 2
        np.testing.assert_array_equal(array[0, :, :half], array[0, :, half:])


@pytest.mark.parametrize("run", ["carry_a", "carry_b", "carry_c"])
def test_state_carried_from_batch_to_batch(
    run: str, model: str, bilm: BiLM, engine: str, lines: list[list[str]], golden: Path
) -> None:
    """Without it old files of `allennlp elmo` and bilm-tf could not be made again."""
    batches = json.loads((golden / "expected" / "carry_batches.json").read_text())[run]
    embedder = Embedder(bilm, state="carry", engine=engine, device="cpu")
    state = None
    arrays = []
    for batch in batches:
        tokens = [[] if number is None else lines[number] for number in batch]
        vectors, state = embedder.embed_batch(tokens, state)
        arrays += vectors
    for array, expected in zip(
        arrays, frozen(golden / "expected" / f"{run}_{model}.hdf5"), strict=True
    ):
        close(array, expected, ATOL[engine, "float32"])


@pytest.mark.parametrize("run", ["carry_a", "carry_c"])
def test_state_carried_within_blocks(
    run: str, model: str, bilm: BiLM, engine: str, lines: list[list[str]], golden: Path
) -> None:
    """Without it batches within a block would be cut otherwise than `--batch-size` says."""
    batches = json.loads((golden / "expected" / "carry_batches.json").read_text())[run]
    texts = [[] if number is None else lines[number] for number in chain(*batches)]
    embedder = Embedder(bilm, state="carry", batch_size=3, engine=engine, device="cpu")
    first, state = embedder.embed_block(sentences_of(texts[:6]), None)
    second, _ = embedder.embed_block(sentences_of(texts[6:]), state)
    expected = frozen(golden / "expected" / f"{run}_{model}.hdf5")
    for array, wanted in zip(first + second, expected, strict=True):
        close(array, wanted, ATOL[engine, "float32"])


@pytest.mark.parametrize("source", ["allennlp", "bilm_tf"])
def test_the_models_that_the_originals_ship(source: str, engine: str, golden: Path) -> None:
    """Without it only models of our own making would be compared."""
    folder = golden / source
    name = "sentences.json" if source == "allennlp" else "lm_embeddings_sentences.json"
    rows = json.loads((folder / name).read_text(encoding="utf-8"))
    bilm = read_bilm(folder / "options.json", folder / "lm_weights.hdf5")
    embedder = Embedder(bilm, state="carry", layers="top", engine=engine, device="cpu")
    expected = [frozen(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    state = None
    for i in range(10):
        arrays, state = embedder.embed_batch([row[i].split() for row in rows], state)
        for k in range(3):
            ahead, back = expected[k][i]
            close(arrays[k], np.concatenate([ahead, back], 1), ATOL[engine, "float32"])


def test_token_vectors_of_allennlp(engine: str, golden: Path) -> None:
    """Without it the vectors of a vocabulary could be others than those within sentences."""
    folder = golden / "allennlp"
    bilm = read_bilm(folder / "options.json", folder / "lm_weights.hdf5")
    types = (folder / "vocab_test.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    vectors = Embedder(bilm, engine=engine, device="cpu").embed_types(types)
    close(vectors, expected, ATOL[engine, "float32"])


@pytest.mark.reference
@pytest.mark.slow
def test_the_published_sizes(
    engine: str, reference: Path, lines: list[list[str]], tmp_path: Path
) -> None:
    """Without it rounding could grow with the size of a model and nobody would see."""
    folder = write_model(tmp_path, MODELS["small"], "small")
    bilm = read_bilm(folder / "options.json", folder / "weights.hdf5")
    arrays, _ = Embedder(bilm, engine=engine, device="cpu").embed_batch(lines)
    for array, expected in zip(arrays, frozen(reference / "expected" / "small.hdf5"), strict=True):
        close(array, expected, ATOL_PUBLISHED)
