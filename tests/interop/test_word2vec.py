"""`convert` to .vec and .bin: vectors of types, by falling count; without other programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import elmo, made, refused
from store.embedding_files import array, lines, write, write_types

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.interop import word2vec
from elmo_cli.interop.word2vec import first_component
from elmo_cli.interop.word2vec import write_types as write_vectors
from elmo_cli.store.convert import convert
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.text.sentence import Sentence

SENTENCES = lines()


def occurrences(sentences: Sequence[Sentence], layer: int) -> dict[str, np.ndarray]:
    """All vectors of each token, (occurrence, dim), computed in the plainest way."""
    found: dict[str, list[np.ndarray]] = {}
    for sentence in sentences:
        for token, vector in zip(sentence.tokens, array(sentence)[layer], strict=True):
            found.setdefault(token, []).append(vector)
    return {token: np.array(vectors) for token, vectors in found.items()}


def read_text(path: Path) -> dict[str, np.ndarray]:
    header, *rows = path.read_text("utf-8").splitlines()
    vectors = {}
    for row in rows:
        word, *values = row.split(" ")
        vectors[word] = np.array(values, np.float32)
    assert header.split() == [str(len(rows)), str(len(values))]
    return vectors


def read_binary(path: Path) -> dict[str, np.ndarray]:
    header, rest = path.read_bytes().split(b"\n", 1)
    n_words, dim = map(int, header.split())
    vectors = {}
    for _ in range(n_words):
        word, rest = rest.split(b" ", 1)
        vectors[word.decode()] = np.frombuffer(rest[: 4 * dim], "<f4")
        assert rest[4 * dim : 4 * dim + 1] == b"\n"
        rest = rest[4 * dim + 1 :]
    assert rest == b""
    return vectors


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
@pytest.mark.parametrize("layer", [0, 1, None])
def test_means_by_falling_count(tmp_path: Path, layout: str, layer: int | None) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout=layout)
    facts = write_vectors(path, tmp_path / "a.vec", layer=layer)
    vectors = read_text(tmp_path / "a.vec")
    expected = occurrences(SENTENCES, 2 if layer is None else layer)
    counts = Counter(token for sentence in SENTENCES for token in sentence.tokens)
    assert list(vectors) == sorted(counts, key=lambda token: (-counts[token], token))
    for token, found in expected.items():
        np.testing.assert_allclose(vectors[token], found.mean(0), rtol=1e-6, atol=1e-6)
    assert facts["types"] == len(counts)
    assert facts["layer"] == (2 if layer is None else layer)
    assert facts["left_out"] == 0
    assert facts["bytes"] == (tmp_path / "a.vec").stat().st_size


def test_a_layer_has_its_number_and_not_its_position(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    convert(path, tmp_path / "two.hdf5", layers="0,2")
    write_vectors(path, tmp_path / "a.bin", layer=2)
    write_vectors(tmp_path / "two.hdf5", tmp_path / "b.bin", layer=2)
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()


@pytest.mark.parametrize("layer", [None, 1])
@pytest.mark.parametrize("sentences", [[], [Sentence((), 0, "")]])
def test_a_file_without_tokens_is_refused(
    sentences: list[Sentence], layer: int | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.hdf5", sentences, layout="flat")
    with pytest.raises(UsageError, match=r"has no (tokens|sentences)") as caught:
        write_vectors(path, tmp_path / "a.vec", layer=layer)
    assert caught.value.hint == "embed a text that is not empty"


def test_text_and_binary_have_the_same_values(tmp_path: Path) -> None:
    """Text has the digits that identify a float32."""
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    write_vectors(path, tmp_path / "a.vec")
    write_vectors(path, tmp_path / "a.bin")
    as_text = read_text(tmp_path / "a.vec")
    as_binary = read_binary(tmp_path / "a.bin")
    assert list(as_text) == list(as_binary)
    for word, vector in as_text.items():
        np.testing.assert_array_equal(vector, as_binary[word])


def test_task_models_read_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    write_vectors(path, tmp_path / "a.vec", min_count=2)
    found = WordVectors.read(str(tmp_path / "a.vec"))
    assert list(found.words)[:2] == [".", "Yes"]


def test_rare_types_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    write_vectors(path, tmp_path / "a.vec", min_count=3)
    assert list(read_text(tmp_path / "a.vec")) == [".", "Yes"]
    with pytest.raises(UsageError, match="no type occurs at least 100 times"):
        write_vectors(path, tmp_path / "b.vec", min_count=100)
    assert not (tmp_path / "b.vec").exists()


@pytest.mark.parametrize("token", ["10 000", "a\u00a0b", "a\tb", " ", "\u3000", ""])
def test_a_type_with_spaces_is_left_out_and_counted(tmp_path: Path, token: str) -> None:
    """It would be read as another word and one more value."""
    sentences = [Sentence((token, "one"), 0, f"{token} one"), Sentence((token, "x y"), 1, "…")]
    path = write(tmp_path / "a.hdf5", sentences, layout="flat")
    facts = write_vectors(path, tmp_path / "a.vec")
    assert facts["left_out"] == 2
    assert list(read_text(tmp_path / "a.vec")) == ["one"]
    assert "left out 2 types that cannot be written" in facts["warnings"][0]


def test_the_first_component_is_the_first_singular_direction(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    write_vectors(path, tmp_path / "a.bin", aggregate="first-component")
    vectors = read_binary(tmp_path / "a.bin")
    for token, found in occurrences(SENTENCES, 2).items():
        _, _, directions = np.linalg.svd(found.astype(np.float64), full_matrices=False)
        expected = directions[0] * math.copysign(1, directions[0] @ found.mean(0))
        np.testing.assert_allclose(vectors[token], expected, atol=1e-5, err_msg=token)


def test_the_first_component_of_many_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are read at once; centered, it would be the direction of the second axis."""
    monkeypatch.setattr(word2vec, "_CHUNK_ROWS", 7)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 3)).astype(np.float32) * [0.1, 2, 0.1] + [-9, 0, 0]
    component = first_component(vectors.astype(np.float32))
    np.testing.assert_allclose(np.abs(component), [1, 0, 0], atol=0.05)
    assert component[0] < 0
    _, _, directions = np.linalg.svd(vectors)
    np.testing.assert_allclose(component, directions[0] * np.sign(-directions[0, 0]), atol=1e-6)


@pytest.mark.parametrize("vectors", [np.zeros((3, 2)), np.array([[1.0, 0.0], [-1.0, 0.0]])])
def test_the_first_component_without_a_mean(vectors: np.ndarray) -> None:
    component = first_component(vectors.astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(component), 1 if vectors.any() else 0)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no such layer": ({"layout": "flat"}, {"layer": 7}, "`layer=7`: the file has layers 0, 1, 2"),
    "pooled": ({"layout": "flat", "pool": True}, {}, "has vectors of sentences, not of tokens"),
    "without tokens": ({"layout": "bilm"}, {}, "does not record the tokens"),
    "no such aggregate": ({"layout": "flat"}, {"aggregate": "sum"}, "`aggregate=sum`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    options, settings, message = REFUSED[case]
    path = write(tmp_path / "a.hdf5", SENTENCES, **options)
    with pytest.raises(UsageError, match=message):
        write_vectors(path, tmp_path / "a.vec", **settings)
    assert sorted(tmp_path.iterdir()) == [path]


def test_types_that_all_contain_spaces_are_refused(tmp_path: Path) -> None:
    """A smaller `min_count` would not help."""
    path = write(tmp_path / "a.hdf5", [Sentence(("New York", "a\u00a0b"), 0)], layout="flat")
    with pytest.raises(UsageError, match="2 types, none of which is a word without") as caught:
        write_vectors(path, tmp_path / "a.vec")
    assert "min_count" not in caught.value.hint


def test_types_of_a_vocabulary_are_refused(tmp_path: Path) -> None:
    path = write_types(tmp_path / "a.hdf5", 3)
    with pytest.raises(UsageError, match="has vectors of types"):
        write_vectors(path, tmp_path / "a.vec")


def test_a_value_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", SENTENCES, layout="flat")
    with h5py.File(path, "r+") as file:
        file["vectors"][3, 2, 1] = math.nan
    with pytest.raises(EmbeddingsFileError, match="not finite"):
        write_vectors(path, tmp_path / "a.vec")


def test_sentences_without_recorded_tokens_are_counted(tmp_path: Path) -> None:
    sentences = [Sentence(("a", "b c"), 0, "a b c"), Sentence(("a", "d"), 1, "a d")]
    path = write(tmp_path / "a.hdf5", sentences, layout="allennlp")
    facts = write_vectors(path, tmp_path / "a.vec")
    assert list(read_text(tmp_path / "a.vec")) == ["a", "d"]
    assert "1 sentence whose tokens are not recorded" in facts["warnings"][0]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.hdf5"), SENTENCES, layout="flat")
    done = made("convert", "a.hdf5", "-o", "a.vec", "--layer", "1", "--min-count", "2", "--json")
    facts = json.loads(done.out)
    assert (facts["layer"], facts["dim"]) == (1, 6)
    assert "a.vec: " in done.err
    assert list(read_text(Path("a.vec")))[:2] == [".", "Yes"]
    refused(elmo("convert", "a.hdf5", "-o", "a.vec"), 1, "a.vec: exists", "--overwrite")
    options = (
        "--layers top",
        "--dtype float16",
        "--layout flat",
        "--compression zstd",
        "--sentence-map last",
    )
    for option in options:
        done = elmo("convert", "a.hdf5", "-o", "b.vec", *option.split())
        refused(done, 2, f"{option.split()[0]}: has no effect", "leave it out")
    for option in ("--layer 1", "--min-count 2", "--aggregate mean"):
        done = elmo("convert", "a.hdf5", "-o", "b.hdf5", *option.split())
        refused(done, 2, f"{option.split()[0]}: has no effect", "leave it out")
