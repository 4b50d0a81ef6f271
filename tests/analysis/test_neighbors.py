"""nearest: against a search by brute force, over layouts, types and the borders of pieces."""

from __future__ import annotations

import json
import tracemalloc

import h5py
import numpy as np
import pytest
from probe_files import DIM, LINES, REPEATED, layers, sentences, write

from elmo_cli.analysis import neighbors
from elmo_cli.analysis.neighbors import nearest, read_query
from elmo_cli.analysis.stored_layer import StoredLayer
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings

FORMS = [
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
IDS = [f"{layout}-{dtype}-{'-'.join(options)}" for layout, dtype, options, _ in FORMS]


def brute(embeddings, given, layer, key, at, n, *, same_word=False):
    """The n nearest as (number of the sentence, place, cosine), all in memory and float64."""
    keys = list(embeddings)
    own = given[keys.index(key)].tokens
    vector = embeddings[key][layer, at].astype(np.float64)
    found = []
    for number, other in enumerate(keys):
        rows = embeddings[other][layer].astype(np.float64)
        for place, row in enumerate(rows):
            word = given[number].tokens[place].lower() == own[at].lower()
            if given[number].tokens != own and row.any() and (word or not same_word):
                cosine = row @ vector / np.linalg.norm(row) / np.linalg.norm(vector)
                found.append((number, place, cosine))
    return sorted(found, key=lambda one: (-round(one[2], 12), one[0], one[1]))[:n]


def numbers(layer, found):
    """What `nearest` found in the form of `brute`."""
    keys = list(layer)
    return [(keys.index(place.key), place.at, cosine) for place, cosine in found]


def agree(found, expected):
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    np.testing.assert_allclose([one[2] for one in found], [one[2] for one in expected], atol=1e-6)


@pytest.mark.parametrize("piece", [1, 5, 4096])
@pytest.mark.parametrize(("layout", "dtype", "options", "lines"), FORMS, ids=IDS)
def test_the_nearest_of_every_layout(tmp_path, monkeypatch, layout, dtype, options, lines, piece):
    """A wrong axis, a token from the wrong side of a border, or a copy of the query's sentence."""
    monkeypatch.setattr(neighbors, "PIECE_TOKENS", piece)
    given = sentences(lines)
    path = write(tmp_path / "a.hdf5", given, layout=layout, dtype=dtype, **options)
    with open_embeddings(path) as embeddings:
        keys = list(embeddings)
        asked = [(keys[at], place) for at, place in ((0, 1), (1, 0), (len(keys) - 1, 0))]
        for number in (0, 1, 2):
            layer = StoredLayer(embeddings, number)
            queries = [read_query(layer, f"{key}:{at}") for key, at in asked]
            found = nearest(layer, queries, 6)
            assert found.tokens == sum(len(sentence.tokens) for sentence in given)
            for (key, at), near in zip(asked, found.neighbors, strict=True):
                agree(numbers(layer, near), brute(embeddings, given, number, key, at, 6))


@pytest.mark.parametrize("piece", [1, 4096])
def test_the_same_word_whatever_its_letters(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(neighbors, "PIECE_TOKENS", piece)
    given = sentences(REPEATED)
    for layout in ("flat", "allennlp"):
        with open_embeddings(write(tmp_path / layout, given, layout=layout)) as embeddings:
            layer = StoredLayer(embeddings)
            found = nearest(layer, [read_query(layer, "2:Play")], 10, same_word=True)
            expected = brute(embeddings, given, 2, 2, 1, 10, same_word=True)
            assert len(expected) == 6
            agree(numbers(layer, found.neighbors[0]), expected)
            assert {place.token for place, _ in found.neighbors[0]} == {"play"}
            assert found.untold == 0


def test_tokens_are_those_of_the_sentence(tmp_path):
    """A sentence map names of equal lines only the last; the others are told by their vectors."""
    given = sentences(REPEATED)
    for layout in ("flat", "allennlp"):
        with open_embeddings(write(tmp_path / layout, given, layout=layout)) as embeddings:
            layer = StoredLayer(embeddings)
            found = nearest(layer, [read_query(layer, "9:0")], 100).neighbors[0]
            assert len(found) == sum(len(one.tokens) for one in given) - len(given[9].tokens)
            for place, _ in found:
                assert place.tokens == given[place.key].tokens
                assert place.token == given[place.key].tokens[place.at]


def test_equally_near_tokens_come_in_order(tmp_path, monkeypatch):
    """Products by pieces may round equal vectors' apart; which comes first would be chance."""
    given = sentences([f"w{k} x{k} y{k}" for k in range(60)])
    rng = np.random.default_rng(1)
    vector = rng.standard_normal(301).astype(np.float32)
    arrays = [rng.standard_normal((1, 3, 301)).astype(np.float32) for _ in given]
    for k, array in enumerate(arrays):
        array[0, k % 3] = vector * np.float32(2.0 ** (k % 5))  # as near whatever the length
    path = write(tmp_path / "a.hdf5", given, arrays, header={"layers": "2"})
    for piece in (1, 7, 50, 4096):
        monkeypatch.setattr(neighbors, "PIECE_TOKENS", piece)
        with open_embeddings(path) as embeddings:
            layer = StoredLayer(embeddings)
            near = nearest(layer, [read_query(layer, "10:1")], 25).neighbors[0]
            expected = [k for k in range(60) if k != 10][:25]
            assert [place.key for place, _ in near] == expected
            assert len({cosine for _, cosine in near}) == 1
            assert near[0][1] == pytest.approx(1)


def test_vectors_of_zeros_are_near_to_nothing(tmp_path):
    """Their cosine is no number: it would sort anywhere, and be printed as nan."""
    given = sentences(LINES)
    arrays = [layers(sentence) for sentence in given]
    arrays[1][:, 2] = 0
    arrays[7][...] = 0
    with open_embeddings(write(tmp_path / "a.hdf5", given, arrays)) as embeddings:
        layer = StoredLayer(embeddings)
        found = nearest(layer, [read_query(layer, "0:1")], 1000).neighbors[0]
        places = [str(place) for place, _ in found]
        assert "1:1" in places
        assert not {"1:2", "7:0", "7:1"} & set(places)
        assert np.isfinite([cosine for _, cosine in found]).all()
        with pytest.raises(UsageError, match="the vector of 1:2 is all zeros"):
            read_query(layer, "1:2")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_named(tmp_path, value):
    given = sentences(LINES)
    arrays = [layers(sentence) for sentence in given]
    arrays[1][2, 4, 3] = value
    with open_embeddings(write(tmp_path / "a.hdf5", given, arrays)) as embeddings:
        layer = StoredLayer(embeddings)
        query = read_query(layer, "0:1")
        message = r"a.hdf5: sentence 1, token 4: a value is not finite"
        with pytest.raises(EmbeddingsFileError, match=message):
            nearest(layer, [query], 3)
        with pytest.raises(EmbeddingsFileError, match=message):
            read_query(layer, "1:4")
        assert nearest(StoredLayer(embeddings, 1), [query], 3).neighbors[0]


@pytest.mark.parametrize(("dtype", "size"), [("<f4", 1e30), ("<f4", 1e-30), ("<f8", 1e200)])
def test_squares_beyond_the_type(tmp_path, dtype, size):
    """Products of such values are infinite or zero; cosines are not."""
    rng = np.random.default_rng(2)
    values = [rng.standard_normal((5, DIM)) for _ in range(3)]
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for k, array in enumerate(values):
            file[str(k)] = (array * size).astype(dtype)
    rows = np.concatenate(values[1:])
    cosines = rows @ values[0][2] / np.linalg.norm(rows, axis=1) / np.linalg.norm(values[0][2])
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        layer = StoredLayer(embeddings)
        found = nearest(layer, [read_query(layer, "0:2")], 10).neighbors[0]
        np.testing.assert_allclose([c for _, c in found], sorted(cosines, reverse=True), atol=1e-6)


def test_sentences_that_were_pooled_and_types(tmp_path):
    given = sentences(REPEATED)
    pooled = [layers(sentence).mean(1) if sentence.tokens else np.zeros((3, DIM), np.float32)
              for sentence in given]  # fmt: skip
    path = write(tmp_path / "pooled", given, pooled, header={"pool": "mean"})
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        found = nearest(layer, [read_query(layer, "0")], 3)
        rows = np.stack([array[2] for array in pooled]).astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        cosines = rows @ rows[0]
        cosines[[3, *(k for k, one in enumerate(given) if one.text == LINES[0])]] = -2
        expected = np.argsort(-cosines, kind="stable")[:3]
        assert [place.key for place, _ in found.neighbors[0]] == expected.tolist()
        assert found.neighbors[0][0][0].at is None
        assert (layer.what, found.tokens) == ("sentences", len(given))
    types = [np.full(DIM, 1, np.float32), np.arange(DIM, dtype=np.float32)]
    types += [types[1] + 1, -types[1]]
    path = write(tmp_path / "types", given[:4], types, layout="bilm-types", header={"layers": "0"})
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings, 0)
        found = nearest(layer, [read_query(layer, "1")], 2)
        assert [place.key for place, _ in found.neighbors[0]] == [2, 0]
        assert layer.what == "types"
        with pytest.raises(UsageError, match="holds vectors of types"):
            nearest(layer, [read_query(layer, "1")], 2, same_word=True)


def test_no_file_tells_words_that_it_does_not_hold(tmp_path):
    given = sentences(REPEATED)
    with open_embeddings(write(tmp_path / "a.hdf5", given, layout="bilm")) as embeddings:
        layer = StoredLayer(embeddings)
        query = read_query(layer, "0:1")
        found = nearest(layer, [query], 3).neighbors[0]
        assert {(place.token, place.tokens) for place, _ in found} == {(None, None)}
        with pytest.raises(UsageError, match="does not tell which word 0:1 is"):
            nearest(layer, [query], 3, same_word=True)


def test_sentences_passed_over_are_counted(tmp_path):
    """A map of another program has only the last of equal lines: a neighbour would be missing."""
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for sentence in sentences(REPEATED):
            file[str(sentence.key)] = layers(sentence)
        names = {sentence.text: str(sentence.key) for sentence in sentences(REPEATED)}
        file["sentence_to_index"] = [json.dumps(names)]
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        found = nearest(layer, [read_query(layer, "2:Play")], 3, same_word=True)
        assert found.untold == 3  # the first two `Yes .`, and the first line once
        assert all(place.token == "play" for place, _ in found.neighbors[0])


def test_a_sentence_of_another_shape_is_damage(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for k, shape in enumerate([(3, 2, DIM), (3, 4, DIM), (2, 4, DIM)]):
            file[str(k)] = np.ones(shape, np.float32)
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        layer = StoredLayer(embeddings)
        with pytest.raises(EmbeddingsFileError, match=r"sentence 2 has shape \(2, 4, 7\)"):
            nearest(layer, [read_query(layer, "0:1")], 3)


def test_fewer_tokens_than_asked_for(tmp_path):
    given = sentences(["one", "two words"])
    with open_embeddings(write(tmp_path / "a.hdf5", given)) as embeddings:
        layer = StoredLayer(embeddings)
        queries = [read_query(layer, name) for name in ("0:0", "1:1")]
        found = nearest(layer, queries, 5)
        assert [len(near) for near in found.neighbors] == [2, 1]


def test_memory_does_not_grow_with_the_file(tmp_path):
    """A file of 10 GB is read in pieces."""
    given = sentences([f"a{k} b c d e f g h i j k l m n o p" for k in range(3000)])
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((3, 16, 32)).astype(np.float32) for _ in given]
    path = write(tmp_path / "a.hdf5", given, arrays)
    assert path.stat().st_size > 18 << 20
    tracemalloc.start()
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        nearest(layer, [read_query(layer, "0:1")], 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
