"""What a query names, which layer a number means, and which files go together."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from probe_files import DIM, HEADER, LINES, REPEATED, layers, sentences, write

from elmo_cli.analysis.neighbors import nearest, read_query
from elmo_cli.analysis.places import Place, find_place, places_of
from elmo_cli.analysis.queries_layer import queries_layer
from elmo_cli.analysis.stored_layer import StoredLayer
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings

ODD = ["a : b :: c", "at 10:30 or 7 =", "12 7 = == =7", "x"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("0:1", "0:1"),
        ("0:b", "0:2"),
        ("0::", "0:1"),
        ("0:::", "0:3"),
        ("1:10:30", "1:1"),
        ("1:=7", "1:3"),
        ("1:=", "1:4"),
        ("2:1", "2:1"),
        ("2:=12", "2:0"),
        ("2:==", "2:2"),
        ("2:===", "2:3"),
        ("2:==7", "2:4"),
    ],
)
def test_numbers_words_and_colons(tmp_path, query, expected):
    with open_embeddings(write(tmp_path / "a.hdf5", sentences(ODD))) as embeddings:
        assert str(find_place(StoredLayer(embeddings), query)) == expected


@pytest.mark.parametrize(
    ("layout", "options", "query", "key", "at"),
    [
        ("flat", {}, "d_1:2:=play", "d_1:2", 1),
        ("flat", {}, "7:play", 7, 1),
        ("e2e-coref", {}, "d_1:2:1", "d_1:2", 1),
        ("e2e-coref", {}, "7:1", 7, 1),
        ("e2e-coref", {}, "d_1/2:1", "d_1/2", 1),
        ("dygie", {}, "d_1_2:1", "d_1_2", 1),
        ("lsgn", {}, "d_1:2:0", "d_1:2", 0),
        ("allennlp", {"keys": "sentence"}, "a Play : in 3 acts:Play", "a Play : in 3 acts", 1),
        ("allennlp", {"keys": "sentence"}, "a Play : in 3 acts:2", "a Play : in 3 acts", 2),
    ],
)
def test_keys_of_every_layout(tmp_path, layout, options, query, key, at):
    given = [sentence for sentence in sentences(LINES) if sentence.text or layout != "allennlp"]
    path = write(tmp_path / "a.hdf5", given, layout=layout, **options)
    with open_embeddings(path) as embeddings:
        place = find_place(StoredLayer(embeddings), query)
        assert (place.key, place.at) == (key, at)
        assert place.token in (None, "play", "Play", ":", "the")


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "99:0",
            "no sentence '99'; its keys are numbers such as 0",
            "KEY:N is the token N of the ",
        ),
        ("play", "no sentence 'play'", "KEY:N is the token N of the sentence KEY"),
        ("0", "0 names a sentence, and no token of it", "`0:0` is its first token"),
        ("0:", "0: names a sentence, and no token of it", "`0:WORD` the first"),
        ("3:0", "sentence 3 has no tokens", "name another sentence"),
        ("0:5", "sentence 0 has 5 tokens, and no token 5", "`0:4` is its last one, `0:=5` one"),
        ("0:foo", "sentence 0 has no token 'foo'; it has the play began at eight", "`elmo kwic"),
        ("0:=5", "sentence 0 has no token '5'; it has the play", " 5` lists its occ"),
    ],
)
def test_a_query_that_names_nothing(tmp_path, query, message, hint):
    with open_embeddings(write(tmp_path / "a.hdf5", sentences(LINES))) as embeddings:
        layer = StoredLayer(embeddings)
        with pytest.raises(UsageError) as raised:
            find_place(layer, query)
        assert message in raised.value.message
        assert str(embeddings.path) in raised.value.message
        assert hint in raised.value.hint


def test_a_long_sentence_is_shortened_in_a_message(tmp_path):
    given = sentences([" ".join(f"w{k}" for k in range(500)), "x"])
    with open_embeddings(write(tmp_path / "a.hdf5", given)) as embeddings:
        layer = StoredLayer(embeddings)
        with pytest.raises(UsageError, match=r"(?m)it has w0 .* w11 …$"):
            find_place(layer, "0:x")


def test_words_of_a_file_that_does_not_tell_them(tmp_path):
    path = write(tmp_path / "a.hdf5", sentences(LINES), layout="bilm")
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        with pytest.raises(UsageError, match="does not tell the tokens of sentence 0"):
            find_place(layer, "0:play")
        with pytest.raises(UsageError, match="does not tell its tokens"):
            list(places_of(layer, "play"))


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
def test_where_a_word_stands(tmp_path, layout):
    path = write(tmp_path / "a.hdf5", sentences(REPEATED), layout=layout)
    with open_embeddings(path) as embeddings:
        found = [str(place) for place in places_of(StoredLayer(embeddings), "PLAY")]
    assert found == ["0:1", "1:1", "2:1", "6:1", "7:0", "9:1", "10:3"]


@pytest.mark.parametrize(
    ("layout", "options"), [("allennlp", {"keys": "sentence"}), ("manylangs", {})]
)
def test_places_are_numbers_where_a_key_is_a_whole_sentence(tmp_path, layout, options):
    """Tabs, or 700 characters, were shown, which nobody could give back as a query."""
    given = sentences([line for line in LINES if line])
    arrays = [layers(sentence) for sentence in given]
    if layout == "manylangs":
        arrays = [array[2] for array in arrays]
    path = write(tmp_path / "a.hdf5", given, arrays, layout=layout, **options)
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        found = list(places_of(layer, "play"))
        assert [str(place) for place in found] == ["0:1", "1:1", "2:1", "4:0", "6:1", "7:3"]
        assert [find_place(layer, str(place)) for place in found] == found


def test_a_line_that_is_a_number_is_not_another_place(tmp_path):
    given = sentences(["3", "a b", "c d e", "f g"])
    arrays = [layers(sentence)[2] for sentence in given]
    path = write(tmp_path / "a.hdf5", given, arrays, layout="manylangs")
    with open_embeddings(path) as embeddings:
        layer = StoredLayer(embeddings)
        for place in places_of(layer, "g"):
            assert (str(place), find_place(layer, "3:1")) == ("3:1", place)
        assert find_place(layer, "0:0").tokens == ("3",)


def test_a_window_around_a_token():
    tokens = tuple("abcdefg")
    assert Place(0, 3, tokens).window(2) == ("… b c", "d", "e f …")
    assert Place(0, 2, tokens).window(2) == ("a b", "c", "d e …")
    assert Place(0, 6, tokens).window(6) == ("a b c d e f", "g", "")
    assert Place(0, None, tokens).window(2) == ("", "", "a b c d e …")
    assert Place(0, 3, None).window(2) == ("", "", "")


# -- layers ---------------------------------------------------------------------------------------


def layered(path, name, **options):
    """A file with the layers that `--layers name` keeps."""
    bare = options.get("layout") == "manylangs"  # whose sentences have names, of their tokens
    given = [sentence for sentence in sentences(LINES) if sentence.tokens or not bare]
    arrays = [layers(sentence) for sentence in given]
    if name == "top" or bare:
        arrays = [array[2] for array in arrays]
    elif name == "average":
        arrays = [array.mean(0) for array in arrays]
    elif name != "all":
        arrays = [array[[int(part) for part in name.split(",")]] for array in arrays]
    header = {"layers": name, **options.pop("header", {})}
    return write(path, given, arrays, header=header, **options)


@pytest.mark.parametrize(
    ("name", "options", "number", "of_model"),
    [
        ("all", {}, None, 2),
        ("all", {}, 1, 1),
        ("0,2", {}, 2, 2),
        ("0,2", {}, 0, 0),
        ("2,1", {}, None, 2),
        ("2,1", {}, 1, 1),
        ("2", {}, 2, 2),
        ("2", {"layout": "e2e-coref"}, 2, 2),
        ("2", {"layout": "manylangs"}, 2, 2),
        ("top", {}, None, 2),
        ("top", {"layout": "manylangs"}, None, 2),
    ],
)
def test_a_number_is_the_models_layer(tmp_path, name, options, number, of_model):
    """Not the row in the file: of `--layers 0,2` the row 1 is layer 2."""
    with open_embeddings(layered(tmp_path / "a.hdf5", name, **options)) as embeddings:
        layer = StoredLayer(embeddings, number)
        assert layer.name == ("top" if name == "top" else str(of_model))
        key = next(iter(layer))
        np.testing.assert_array_equal(layer.vectors(key), layers(sentences(LINES)[0])[of_model])


@pytest.mark.parametrize(
    ("name", "number", "message", "hint"),
    [
        ("all", 3, "--layer 3: it has layers 0, 1, 2", "`--layer` takes a layer"),
        ("0,2", 1, "--layer 1: it has layers 0, 2", "`--layer` takes a layer"),
        ("2", 0, "--layer 0: it has layer 2", "`--layer` takes a layer"),
        ("top", 2, "--layer 2: the file holds --layers top", "leave out `--layer`"),
        ("average", 0, "--layer 0: the file holds --layers average", "leave out `--layer`"),
    ],
)
def test_a_layer_that_is_not_there(tmp_path, name, number, message, hint):
    with open_embeddings(layered(tmp_path / "a.hdf5", name)) as embeddings:
        with pytest.raises(UsageError) as raised:
            StoredLayer(embeddings, number)
        assert raised.value.message == f"{embeddings.path}: {message}"
        assert hint in raised.value.hint


def test_a_single_layer_of_another_program(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for k in range(2):
            file[str(k)] = np.ones((3, DIM), np.float32)
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        assert StoredLayer(embeddings).name == "unknown"
        with pytest.raises(UsageError, match="the file holds one layer, and not which"):
            StoredLayer(embeddings, 0)


# -- queries of another file ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "number", "of_queries"),
    [
        *(("all", number, "all") for number in (None, 0, 1)),
        ("2", None, "all"),
        ("2", None, "0,2"),
        ("all", 2, "2"),
        ("all", None, "top"),
        ("top", None, "all"),
        ("top", None, "top"),
        ("average", None, "average"),
    ],
)
def test_the_same_layer_of_both_files(tmp_path, name, number, of_queries):
    with (
        open_embeddings(layered(tmp_path / "a.hdf5", name)) as embeddings,
        open_embeddings(layered(tmp_path / "q.hdf5", of_queries)) as other,
    ):
        layer = StoredLayer(embeddings, number)
        theirs, warnings = queries_layer(layer, other)
        assert warnings == []
        np.testing.assert_array_equal(theirs.vectors(6), layer.vectors(6))
        near = nearest(layer, [read_query(theirs, "0:play")], 3).neighbors[0]
        own = nearest(layer, [read_query(layer, "0:play")], 3).neighbors[0]
        assert near == own
        assert all(place.key != 0 for place, _ in near)


@pytest.mark.parametrize(
    ("name", "number", "of_queries"),
    [("2", None, "0,1"), ("all", 1, "top"), ("top", None, "2"), ("average", None, "all")],
)
def test_layers_that_can_not_be_compared(tmp_path, name, number, of_queries):
    with (
        open_embeddings(layered(tmp_path / "a.hdf5", name)) as embeddings,
        open_embeddings(layered(tmp_path / "q.hdf5", of_queries)) as other,
    ):
        layer = StoredLayer(embeddings, number)
        with pytest.raises(EmbeddingsFileError) as raised:
            queries_layer(layer, other)
        assert f"q.hdf5: holds --layers {of_queries}, of " in raised.value.message
        assert raised.value.hint == f"embed the queries with `--layers {layer.name}`"


def test_files_of_two_models(tmp_path):
    given = sentences(LINES)
    paths = {
        "model": write(tmp_path / "m", given, header={"model_sha256": "9ab0"}),
        "dim": write(tmp_path / "d", given, [layers(sentence, dim=5) for sentence in given]),
        "pool": write(
            tmp_path / "p",
            given,
            [layers(sentence).sum(1) for sentence in given],
            header={"pool": "max"},
        ),
        "nothing": write(tmp_path / "n", []),
    }
    said = {
        "model": f"made with m (sha256 9ab0…), {tmp_path / 'a'} with m (sha256 6c1f00000000…)",
        "dim": f"vectors of 5 numbers, {tmp_path / 'a'} has 7",
        "pool": f"holds vectors of sentences (--pool max), {tmp_path / 'a'} of tokens",
        "nothing": "holds no sentences",
    }
    with open_embeddings(write(tmp_path / "a", given)) as embeddings:
        layer = StoredLayer(embeddings)
        for name, path in paths.items():
            with open_embeddings(path) as other, pytest.raises(EmbeddingsFileError) as raised:
                queries_layer(layer, other)
            assert raised.value.message == f"{path}: {said[name]}"
            assert raised.value.hint


def test_settings_that_change_vectors_a_little_are_told(tmp_path):
    given = sentences(LINES)
    header = {"state": "warm", "precision": "int8", "model_sha256": HEADER["model_sha256"]}
    with (
        open_embeddings(write(tmp_path / "a", given)) as embeddings,
        open_embeddings(write(tmp_path / "q", given, header=header)) as other,
    ):
        _, warnings = queries_layer(StoredLayer(embeddings), other)
    assert warnings == [
        f"{tmp_path / 'q'}: {name} is {value}, that of {tmp_path / 'a'} {of}: their vectors are "
        "not quite alike"
        for name, value, of in (("state", "warm", "zero"), ("precision", "int8", "float32"))
    ]
