"""nearest: compared with a search by brute force, over layouts, dtypes and chunk borders."""

from __future__ import annotations

import json
import tracemalloc
from typing import NamedTuple

import h5py
import numpy as np
import pytest
from embeddings_files import DIM, LINES, REPEATED, layers, make_sentences, write

from elmo_cli.analysis import neighbors
from elmo_cli.analysis.neighbors import embed_queries, nearest, read_queries
from elmo_cli.analysis.query import phrase_occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import EmbeddingsFileError, ModelError, UsageError
from elmo_cli.pretrained.load import load
from elmo_cli.store.layouts.sentence_datasets import DatasetReader
from elmo_cli.store.reader import open_embeddings

FILES = [
    ("allennlp", "float32", {}, REPEATED),
    ("allennlp", "float16", {}, REPEATED),
    ("allennlp", "float32", {"forget_sentences": True}, REPEATED),
    ("allennlp", "float32", {"keys": "sentence"}, [line for line in LINES if line]),
    ("bilm", "float32", {}, REPEATED),
    ("e2e-coref", "float16", {}, REPEATED),
    ("lsgn", "float32", {}, REPEATED),
    ("dygie", "float32", {}, REPEATED),
    ("flat", "float32", {}, REPEATED),
    ("flat", "float16", {}, REPEATED),
    ("flat", "int8", {}, REPEATED),
]
IDS = [f"{layout}-{dtype}-{'-'.join(options)}" for layout, dtype, options, _ in FILES]


class ExpectedNeighbor(NamedTuple):
    sentence: int  # its number
    position: int
    cosine: float

    def rank(self) -> tuple[float, int, int]:
        """The nearest is the smallest; ties are in file order."""
        return -round(self.cosine, 6), self.sentence, self.position


def brute_force(view, sentences, query, k, *, same_word=False):
    """The k nearest, in float64, except zeros."""
    keys = list(view.embeddings)
    own = sentences[keys.index(query.key)].tokens
    vector = view.vectors(query.key)[query.position or 0].astype(np.float64)
    neighbors = []
    for number, key in enumerate(keys):
        tokens = sentences[number].tokens
        if key == query.key or (query.tokens is not None and tokens == own):
            continue
        for position, row in enumerate(view.vectors(key).astype(np.float64)):
            is_word = not same_word or tokens[position].lower() == own[query.position].lower()
            if is_word and row.any():
                cosine = row @ vector / np.linalg.norm(row) / np.linalg.norm(vector)
                neighbors.append(ExpectedNeighbor(number, position, cosine))
    return sorted(neighbors, key=ExpectedNeighbor.rank)[:k]


def agree(view, neighbors, expected):
    keys = list(view)
    for (occurrence, cosine), neighbor in zip(neighbors, expected, strict=True):
        assert keys.index(occurrence.key) == neighbor.sentence
        assert (occurrence.position or 0) == neighbor.position
        assert cosine == pytest.approx(neighbor.cosine, abs=1e-6)


def tokens_of(neighbors):
    return [occurrence.token for occurrence, _ in neighbors]


def keys_of(neighbors):
    return [occurrence.key for occurrence, _ in neighbors]


def cosines_of(neighbors):
    return [cosine for _, cosine in neighbors]


def search(view, *texts, k=3, query_file=None, **options):
    queries, _ = read_queries(view, texts, query_file=query_file)
    return nearest(view, queries, k, **options)


@pytest.mark.parametrize("chunk", [1, 5, 4096])
@pytest.mark.parametrize(("layout", "dtype", "options", "lines"), FILES, ids=IDS)
def test_nearest_equals_brute_force(tmp_path, monkeypatch, layout, dtype, options, lines, chunk):
    monkeypatch.setattr(neighbors, "CHUNK_TOKENS", chunk)
    sentences = make_sentences(lines)
    path = write(tmp_path / "a.hdf5", sentences, layout=layout, dtype=dtype, **options)
    with open_embeddings(path) as embeddings:
        keys = list(embeddings)
        names = [f"{keys[0]}:1", f"{keys[1]}:0", f"{keys[-1]}:0"]
        for layer in (0, 1, 2):
            view = LayerView(embeddings, layer)
            queries, _ = read_queries(view, names)
            result = nearest(view, queries, 6)
            assert result.n_compared == sum(len(sentence.tokens) for sentence in sentences)
            for query, near in zip(queries, result.neighbors, strict=True):
                agree(view, near, brute_force(view, sentences, query.token, 6))
                for occurrence, _ in near:
                    tokens = sentences[list(view).index(occurrence.key)].tokens
                    assert occurrence.tokens in (None, tokens)


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
@pytest.mark.parametrize("chunk", [1, 4096])
def test_same_word_in_any_case(tmp_path, monkeypatch, layout, chunk):
    monkeypatch.setattr(neighbors, "CHUNK_TOKENS", chunk)
    sentences = make_sentences(REPEATED)
    with open_embeddings(write(tmp_path / "a.hdf5", sentences, layout=layout)) as embeddings:
        view = LayerView(embeddings)
        [query], _ = read_queries(view, ["2:Play"])
        result = nearest(view, [query], 10, same_word=True)
        agree(
            view, result.neighbors[0], brute_force(view, sentences, query.token, 10, same_word=True)
        )
        assert tokens_of(result.neighbors[0]) == ["play"] * 6
        assert result.n_compared == sum(len(sentence.tokens) for sentence in sentences)
        assert result.sentences_without_tokens == 0


def test_only_vectors_that_are_compared_are_read(tmp_path, monkeypatch):
    """Of the default layout, where each sentence has a data set of its own."""
    sizes = {}  # of the vectors that are read, by data set
    stored = DatasetReader.stored

    def stored_and_noted(reader, handle, layer=None):
        values, scales = stored(reader, handle, layer)
        if values.size:
            sizes[handle] = values.size
        return values, scales

    monkeypatch.setattr(DatasetReader, "stored", stored_and_noted)
    sentences = make_sentences(REPEATED)
    with open_embeddings(write(tmp_path / "a.hdf5", sentences, layout="allennlp")) as embeddings:
        view = LayerView(embeddings, 1)
        assert len(list(phrase_occurrences(view, "play"))) == 7
        assert list(phrase_occurrences(view, "not here")) == []
        assert sizes == {}
        search(view, "2:Play", same_word=True)
        assert sizes == {
            str(sentence.key): DIM * len(sentence.tokens)
            for sentence in sentences
            if "play" in sentence.text.lower()
        }


def test_equally_near_tokens_come_in_file_order(tmp_path, monkeypatch):
    """Products over other chunks may round the cosines of equal vectors differently."""
    sentences = make_sentences([f"w{k} x{k} y{k}" for k in range(60)])
    rng = np.random.default_rng(1)
    vector = rng.standard_normal(301).astype(np.float32)
    arrays = [rng.standard_normal((1, 3, 301)).astype(np.float32) for _ in sentences]
    for k, array in enumerate(arrays):
        array[0, k % 3] = vector * np.float32(2.0 ** (k % 5))  # the length does not matter
    path = write(tmp_path / "a.hdf5", sentences, arrays, header={"layers": "2"})
    for chunk in (1, 7, 50, 4096):
        monkeypatch.setattr(neighbors, "CHUNK_TOKENS", chunk)
        with open_embeddings(path) as embeddings:
            near = search(LayerView(embeddings), "10:1", k=25).neighbors[0]
        assert keys_of(near) == [k for k in range(60) if k != 10][:25]
        assert set(cosines_of(near)) == {1.0}


@pytest.mark.parametrize(("pool", "query", "zero"), [("none", "0:1", "1:2"), ("mean", "0", "3")])
def test_zero_vectors_and_pooled_sentences(tmp_path, pool, query, zero):
    sentences = make_sentences(REPEATED)
    arrays = [layers(sentence) for sentence in sentences]
    arrays[1][:, 2] = 0
    arrays[8][...] = 0
    if pool == "mean":
        empty = np.zeros((3, DIM), np.float32)
        arrays = [array.mean(1) if array.size else empty for array in arrays]
    with open_embeddings(
        write(tmp_path / "a", sentences, arrays, header={"pool": pool})
    ) as embeddings:
        view = LayerView(embeddings)
        [asked], _ = read_queries(view, [query])
        result = nearest(view, [asked], 1000)
        agree(view, result.neighbors[0], brute_force(view, sentences, asked.token, 1000))
        assert result.n_compared == sum(len(view.vectors(key)) for key in view)
        with pytest.raises(UsageError, match=f"vector of {zero} is zero"):
            search(view, zero)


@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_squares_beyond_float32(tmp_path, size):
    rng = np.random.default_rng(2)
    values = [rng.standard_normal((5, DIM)) for _ in range(3)]
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for k, array in enumerate(values):
            file[str(k)] = (array * size).astype("<f4")
    query = values[0][2]
    rows = np.concatenate(values[1:])
    cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        neighbors = search(LayerView(embeddings), "0:2", k=10).neighbors[0]
    np.testing.assert_allclose(cosines_of(neighbors), sorted(cosines, reverse=True), atol=1e-6)


def test_types(tmp_path):
    types = [np.full(DIM, 1, np.float32), np.arange(DIM, dtype=np.float32)]
    types += [types[1] + 1, -types[1]]
    path = write(
        tmp_path / "types",
        make_sentences(REPEATED)[:4],
        types,
        layout="bilm-types",
        header={"layers": "0"},
    )
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, 0)
        assert keys_of(search(view, "1", k=2).neighbors[0]) == [2, 0]
        assert view.unit == "types"
        with pytest.raises(UsageError, match="has vectors of types, not of tokens"):
            search(view, "1", same_word=True)
    with pytest.raises(UsageError, match="has vectors of types, not of tokens"):
        embed_queries(str(path), ["a [b]"])


def test_file_without_tokens(tmp_path):
    sentences = make_sentences(REPEATED)
    bare = write(tmp_path / "a.hdf5", sentences, layout="bilm")
    full = write(tmp_path / "b.hdf5", sentences)
    with open_embeddings(bare) as embeddings:
        view = LayerView(embeddings)
        neighbors = search(view, "0:1").neighbors[0]
        assert {occurrence.tokens for occurrence, _ in neighbors} == {None}
        with pytest.raises(UsageError, match=r"a\.hdf5: the file does not store tokens"):
            search(view, "0:1", same_word=True, query_file=full)
    message = r"a\.hdf5: the word of 0:1 is not stored"
    with open_embeddings(full) as embeddings, pytest.raises(UsageError, match=message):
        search(LayerView(embeddings), "0:1", same_word=True, query_file=bare)


def test_sentences_without_tokens_are_counted(tmp_path):
    """The map of another program has only the last of equal lines."""
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for sentence in make_sentences(REPEATED):
            file[str(sentence.key)] = layers(sentence)
        names = {sentence.text: str(sentence.key) for sentence in make_sentences(REPEATED)}
        file["sentence_to_index"] = [json.dumps(names)]
    with open_embeddings(path) as embeddings:
        result = search(LayerView(embeddings), "2:Play", same_word=True)
    assert result.sentences_without_tokens == 3  # the first two `Yes .`, and the first line once
    assert result.n_compared == sum(len(line.split()) for line in REPEATED)
    assert set(tokens_of(result.neighbors[0])) == {"play"}


def test_queries_of_another_file(tmp_path):
    """Key 0 of the other file is another sentence; equal tokens are left out all the same."""
    other = write(tmp_path / "q.hdf5", make_sentences([LINES[4], LINES[0]]))
    with open_embeddings(write(tmp_path / "a.hdf5", make_sentences(LINES))) as embeddings:
        neighbors = search(LayerView(embeddings), "0:0", k=1000, query_file=other).neighbors[0]
    assert set(keys_of(neighbors)) == {k for k, line in enumerate(LINES) if line and k != 4}


def test_model_of_another_size_is_refused(tmp_path, tiny):
    """Of a file that records no model; the vectors of both could not be compared."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["0"] = np.ones((3, 5, DIM), np.float32)
    with pytest.raises(EmbeddingsFileError, match="3 layers of dimension 7, but the model "):
        embed_queries(str(tmp_path / "a.hdf5"), ["a [b]"], model=str(tiny))
    with pytest.raises(UsageError, match="does not record its model"):
        embed_queries(str(tmp_path / "a.hdf5"), ["a [b]"])


@pytest.mark.parametrize(
    ("state", "is_warned"),
    [("zero", False), ("warm", False), ("carry", True), ("document", True)],
)
def test_states_that_a_typed_sentence_cannot_have_are_warned_of(tmp_path, tiny, state, is_warned):
    """The vectors of a file with a warm state do not depend on the text before."""
    sentences = make_sentences(["a b"])
    arrays = [layers(sentence, dim=16) for sentence in sentences]
    header = {"state": state, "model_sha256": load(tiny).sha256}
    path = str(write(tmp_path / "a.hdf5", sentences, arrays, header=header))
    [query], warnings = embed_queries(path, ["a [b]"], model=str(tiny))
    assert (query.source, query.n_occurrences, str(query.token)) == ("`text`", None, "0:1")
    expected = [f"{path}: state is {state!r}, that of a typed sentence is 'zero'"]
    assert warnings == (expected if is_warned else [])


def test_a_model_that_cannot_be_loaded_is_named(tmp_path):
    """The name is that in the file, with a hint, or that which the user gives."""
    write(tmp_path / "a.hdf5", make_sentences(["a b"]), header={"model": "nosuch"})
    with pytest.raises(ModelError, match=r"a\.hdf5: its model 'nosuch': no model named") as caught:
        embed_queries(str(tmp_path / "a.hdf5"), ["a [b]"])
    assert caught.value.hint == "give its path with `model`"
    with pytest.raises(ModelError, match=r"^no model named `other`") as caught:
        embed_queries(str(tmp_path / "a.hdf5"), ["a [b]"], model="other")
    assert "elmo models list" in caught.value.hint


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbors, "CHUNK_TOKENS", 256)
    sentences = make_sentences([f"a{k} b c d e f g h" for k in range(400)])
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((3, 8, 128)).astype(np.float32) for _ in sentences]
    path = write(tmp_path / "a.hdf5", sentences, arrays)
    assert path.stat().st_size > 4 << 20
    tracemalloc.start()
    with open_embeddings(path) as embeddings:
        search(LayerView(embeddings), "0:1", k=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_lengths_beyond_float32_do_not_change_the_nearest(tmp_path, layout, scale):
    sentences = make_sentences(REPEATED)
    arrays = [layers(sentence) for sentence in sentences]
    for array in arrays[::2]:
        array *= np.float32(scale)
    path = write(tmp_path / "a.hdf5", sentences, arrays, layout=layout)
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings)
        queries, _ = read_queries(view, ["0:1", "1:0"])
        for query, near in zip(queries, nearest(view, queries, 6).neighbors, strict=True):
            agree(view, near, brute_force(view, sentences, query.token, 6))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_closer_than_float32_shows_are_ranked(tmp_path, dtype):
    rng = np.random.default_rng(5)
    sentences = make_sentences([f"a{k} b" for k in range(300)])
    base = rng.standard_normal(64).astype(np.float32)
    arrays = [np.tile(base, (1, 2, 1)) for _ in sentences]
    for k, array in enumerate(arrays):
        array[0, 1, k % 64] += 0.01 + 0.001 * (k % 7)
    path = write(tmp_path / "a.hdf5", sentences, arrays, layout="flat", dtype=dtype)
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings)
        [query], _ = read_queries(view, ["7:0"])
        [near] = nearest(view, [query], 400).neighbors
        agree(view, near, brute_force(view, sentences, query.token, 400))
