"""open_embeddings: recognizing files, keys, order, bad files, processes."""

from __future__ import annotations

import json
import os
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import (
    DIM,
    FILES,
    Change,
    array,
    attribute,
    documents,
    foreign,
    lines,
    made,
    write,
    write_types,
)

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError, UsageError
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.sentence import Sentence

ONTONOTES = "bc/cctv/00/cctv_0000_0"
PART = "bc/cctv/00/cctv_0000_1"


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


# -- keys of our own files ------------------------------------------------------------------------

BARE = lines(blank=False, repeats=False)
PLAIN = [sentence for sentence in BARE if "/" not in sentence.text]
LATER_DOCUMENTS = [replace(s, key=s.key + 20) for s in documents("x/y", "z")]
MIXED = [*lines(), *LATER_DOCUMENTS]
SHARD: dict[str, Any] = {"layout": "manylangs", "layers": None, "first_sentence": 40}
OWN: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "allennlp": (lines(), {}),
    "allennlp by lines": (PLAIN, {"layout": "allennlp", "keys": "sentence"}),
    "bilm": (lines(), {}),
    "e2e-coref": (documents("z", "doc-b", "a", n_places=12), {}),
    "lsgn": (documents(ONTONOTES, PART, "S/7", n_places=3), {}),
    "dygie": (documents("z", "S/7", "a", "S/9", n_places=4), {}),
    "manylangs": (BARE, {"layers": None}),
    "manylangs, a shard": (BARE, SHARD),
    "flat": (MIXED, {}),
    "flat, skipped lines": (lines(blank=False)[2:], {"layout": "flat", "first_sentence": 2}),
}
SLICES = (slice(2, 5), slice(-2, None), slice(None), slice(None, None, -2), slice(5, 5))


@pytest.mark.parametrize("case", OWN)
def test_every_sentence_is_found_by_every_key(tmp_path: Path, case: str) -> None:
    """By the key of the layout, by number, by its place in iteration; with all that is recorded.
    Slices are lists by position, whatever the keys are."""
    sentences, options = OWN[case]
    options = {"layout": case, "layers": 3, **options}
    path = write(tmp_path / "a.hdf5", sentences, **options)
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), embeddings.dim) == (len(sentences), DIM)
        assert embeddings.n_layers == options["layers"]
        assert embeddings.order_is_known
        last_keys = {sentence.text: sentence.key for sentence in sentences}
        has_tokens = case.startswith(("allennlp", "manylangs", "flat"))
        assert ("tokens" in embeddings.records) is has_tokens
        keys = list(embeddings)
        assert len(list(embeddings.sentences())) == len(keys)
        assert list(embeddings.infos()) == list(map(embeddings.info, keys))
        if not embeddings.is_keyed_by_name:
            absent = set(range(40)) - {sentence.key for sentence in sentences}
            assert not any(number in embeddings for number in absent)
        for span in SLICES:
            arrays = [array(sentence, options["layers"]) for sentence in sentences[span]]
            for found, expected in zip(embeddings[span], arrays, strict=True):
                np.testing.assert_array_equal(found, expected)
        for position, sentence in enumerate(sentences):
            expected = array(sentence, options["layers"])
            number = sentence.key
            if embeddings.is_keyed_by_name:
                number = embeddings.first_sentence + position
            for key in (keys[position], embeddings.key_of(sentence), number):
                np.testing.assert_array_equal(embeddings[key], expected)
                assert embeddings[key].flags.c_contiguous
                assert embeddings.shape(key) == expected.shape
            info = embeddings.info(keys[position])
            if has_tokens:
                assert embeddings.tokens(number) == info.tokens == sentence.tokens
            if "document" in embeddings.records and sentence.document:
                document = sentence.document
                place = sentence.place
                assert (info.document, info.place) == (document, place)
                np.testing.assert_array_equal(embeddings[document, place], expected)
                np.testing.assert_array_equal(embeddings[f"{document}:{place}"], expected)
            for key in (position - len(keys), np.int64(position - len(keys))):
                np.testing.assert_array_equal(embeddings[key], expected)
                assert embeddings.info(key) == info
            if embeddings.layout == "allennlp":
                line = sentence.text
                assert info.text == line
                last_key = line if embeddings.is_keyed_by_name else last_keys[line]
                np.testing.assert_array_equal(embeddings[line], embeddings[last_key])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "bilm-types"])
@pytest.mark.parametrize("layers", [3, None])
@pytest.mark.parametrize("pool", [False, True])
def test_layer_and_token_axes(tmp_path: Path, layout: str, layers: int | None, pool: bool) -> None:
    """A single layer has no layer axis in any layout, and pooled arrays no token axis."""
    layers = None if layout == "manylangs" else layers
    texts = documents("d")
    path = write(tmp_path / "a.hdf5", texts, layout=layout, layers=layers, pool=pool)
    with open_embeddings(path) as embeddings:
        expected = array(texts[1], layers)
        np.testing.assert_array_equal(embeddings[1], expected.sum(-2) if pool else expected)
        assert (embeddings.n_layers, embeddings.dim) == (layers, DIM)
        assert embeddings.unit == ("sentences" if pool else "tokens")
        for (_, values), key in zip(embeddings.sentences(), embeddings, strict=True):
            np.testing.assert_array_equal(values, embeddings[key])
            for index in range(layers or 1):
                layer = values[index] if layers else values
                np.testing.assert_array_equal(embeddings.layer(key, index), layer)


LAYERS = [
    ("all", 3, (0, 1, 2)),
    ("0,1", 3, (0, 1, 2)),
    ("0,2", 2, (0, 2)),
    ("0, 2", 2, (0, 2)),
    ("2", None, (2,)),
    ("top", None, ("top",)),
    ("all", None, ("unknown",)),
    ("²", None, ("²",)),
    ("mix:0.5,0.5,0", None, ("mix:0.5,0.5,0",)),
]


@pytest.mark.parametrize(("setting", "layers", "expected"), LAYERS)
def test_layers(tmp_path: Path, setting: str, layers: int | None, expected: object) -> None:
    settings: dict[str, Any] = {"layers": setting}
    path = write(tmp_path / "a", lines(), layout="bilm", layers=layers, run_settings=settings)
    with open_embeddings(path) as embeddings:
        assert embeddings.layers == expected


def test_tokens_that_the_lines_do_not_give_are_not_guessed(tmp_path: Path) -> None:
    texts = [Sentence(("can", "n't"), 0, "cann't"), Sentence(("a", "b"), 1, "a b")]
    for keys in ("number", "sentence"):
        path = write(tmp_path / keys, texts, layout="allennlp", keys=keys)
        with open_embeddings(path) as embeddings:
            assert "tokens" not in embeddings.records
            assert [embeddings.tokens(key) for key in embeddings] == [None, None]
            assert embeddings.info(0).text == "cann't"


# -- keys that do not exist -----------------------------------------------------------------------

NUMBERS = (-99, 99, 10**30, np.int64(-99), "-1", "99", "00", "9" * 5_000, "²", "٣", "1.0")
PATHS = ("", ".", "..", "/", "0/", "/0", "./0", "a//b", "a\0b", "\0", "\ud800", "x" * 70_000)
POSITIONS = (("d", 99), ("d", -1), ("d", "e"), "d:99", "d:-1", "d:" + "9" * 5_000, ":0")
ABSENT = (*NUMBERS, *PATHS, *POSITIONS, "no line", ("no", "such"))
BLANK = ("allennlp", "allennlp, float16", "allennlp, pooled")  # have "" in their maps


@pytest.mark.parametrize("name", sorted(FILES.keys() - BLANK))
def test_a_key_that_does_not_exist_is_a_key_error(tmp_path: Path, name: str) -> None:
    """HDF5 would take "./0" for "0", and NUL or "" would raise its own errors."""
    with open_embeddings(made(tmp_path / "a.hdf5", name)) as embeddings:
        first = embeddings.reader.handles[0]
        others = (f"./{first}", f"/{first}", f"{first}/")
        for key in (*ABSENT, *others):
            assert key not in embeddings
            with pytest.raises(KeyError, match=r"its keys are (numbers|names) such as"):
                embeddings[key]
        assert embeddings.get(np.int64(4)) is not None
        for wrong in (1.0, True, None):
            with pytest.raises(TypeError, match="a key is a number, a name or a tuple"):
                embeddings[wrong]  # type: ignore[index]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_without_sentences_is_empty_not_an_error(tmp_path: Path, layout: str) -> None:
    with open_embeddings(write(tmp_path / "a.hdf5", [], layout=layout)) as embeddings:
        assert (list(embeddings), list(embeddings.sentences())) == ([], [])
        assert (len(embeddings), embeddings.dim, embeddings.n_layers) == (0, 0, None)
        with pytest.raises(KeyError):
            embeddings[0]


# -- files of other programs ----------------------------------------------------------------------

SEQUENCES = {"P12345": random(7, DIM), "Q6": random(2, DIM)}
OF_DYGIE = [f"{document}_{i}" for document in ("J87", "W99/x") for i in range(11)]
OF_COREF = {f"nw:x_0/{i}": random(i % 3 + 1, DIM, 3) for i in range(11)}
OF_LSGN = {f"S1:x/{i}": random(3, i % 3 + 1, DIM) for i in range(3)}
OF_ONTONOTES = {f"bc:cctv:00:cctv_0000:{i}": random(3, i % 3 + 1, DIM) for i in range(11)}
OF_MANYLANGS = {"a\tb": random(2, DIM), "c$period$": random(1, DIM)}
# Data sets, layout and keys.
FOREIGN: dict[str, tuple[dict[str, Any], str, list[Any]]] = {
    "bilm": ({"0": random(3, 2, DIM), "1": random(3, 4, DIM)}, "bilm", [0, 1]),
    "allennlp --top": ({"0": random(2, DIM), "1": random(4, DIM)}, "allennlp", [0, 1]),
    "lines": ({"a b": random(3, 2, DIM), "c": random(3, 1, DIM)}, "allennlp", ["a b", "c"]),
    "a tab": ({"the cat\tsat down": random(3, 4, DIM)}, "allennlp", ["the cat\tsat down"]),
    "types": ({"embedding": random(5, DIM)}, "bilm-types", [0, 1, 2, 3, 4]),
    "e2e-coref": (OF_COREF, "e2e-coref", [f"nw:x_0:{i}" for i in range(11)]),
    "lsgn": (OF_LSGN, "lsgn", [f"S1:x:{i}" for i in range(3)]),
    "lsgn, ontonotes": (OF_ONTONOTES, "lsgn", list(OF_ONTONOTES)),
    "dygie": ({name: random(4, DIM, 3) for name in OF_DYGIE}, "dygie", OF_DYGIE),
    "manylangs": (OF_MANYLANGS, "manylangs", list(OF_MANYLANGS)),
    "seqvec": (SEQUENCES, "allennlp", list(SEQUENCES)),
}


@pytest.mark.parametrize("program", FOREIGN)
def test_foreign_files_are_recognized(tmp_path: Path, program: str) -> None:
    """Otherwise a file of another program would be refused, or read with its axes exchanged."""
    datasets, layout, keys = FOREIGN[program]
    with open_embeddings(foreign(tmp_path / "a.hdf5", datasets)) as embeddings:
        assert (embeddings.layout, list(embeddings), len(embeddings)) == (layout, keys, len(keys))
        is_ordered = not embeddings.is_keyed_by_name  # names are listed in their own order
        assert (embeddings.dim, embeddings.order_is_known) == (DIM, is_ordered)
        assert ("text order" in embeddings.records) is is_ordered
        assert len(list(embeddings.sentences())) == len(keys)
        assert list(embeddings.reader.problems()) == []
        for key in keys:
            assert embeddings[key].shape == embeddings.shape(key)
            assert embeddings[key].shape[-1] == DIM
            assert embeddings.n_layers in (None, len(embeddings[key]))


def with_map(path: Path, content: str, datasets: dict[str, Any]) -> Path:
    foreign(path, datasets)
    with h5py.File(path, "a") as file:
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = content
    return path


def test_foreign_allennlp_with_repeated_lines(tmp_path: Path) -> None:
    """Its map has only the last of equal lines; of the others nothing is known."""
    names = {str(i): random(3, n, DIM) for i, n in ((0, 2), (2, 2), (10, 1), (11, 3))}
    index = json.dumps({"a b": "2", "c": "10", "not four tokens": "11"})
    with open_embeddings(with_map(tmp_path / "a.hdf5", index, names)) as embeddings:
        assert list(embeddings) == [0, 2, 10, 11]
        assert [embeddings.tokens(key) for key in (0, 2, 10)] == [None, ("a", "b"), ("c",)]
        assert embeddings.info(0).text is None
        np.testing.assert_array_equal(embeddings["c"], names["10"])
        np.testing.assert_array_equal(embeddings["a", "b"], names["2"])
        assert embeddings.attributes == {}
        assert "tokens" not in embeddings.records
    names.pop("0")
    with open_embeddings(with_map(tmp_path / "b.hdf5", index, names)) as embeddings:
        assert "tokens" in embeddings.records
        assert embeddings.tokens(11) == ("not", "four", "tokens")


@pytest.mark.parametrize("layout", ["e2e-coref", "dygie"])
def test_a_sentence_without_a_document_in_a_file_of_documents(tmp_path: Path, layout: str) -> None:
    plain = Sentence(("a",), 1, "a")
    path = write(tmp_path / "a.hdf5", documents("d"), layout=layout)
    with open_embeddings(path) as embeddings:
        assert embeddings.key_of(plain) == 1
    with h5py.File(path, "a") as file:
        file.attrs["order_unknown"] = True
    with open_embeddings(path) as embeddings, pytest.raises(UsageError, match="has no name"):
        embeddings.key_of(plain)


# -- bad files ------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    """What is wrong with a file that cannot be opened."""
    with pytest.raises(EmbeddingsFileError) as caught:
        open_embeddings(path)
    assert caught.value.where == str(path)
    assert caught.value.hint
    return caught.value.problem


@pytest.mark.parametrize("name", ["a.hdf5", "a.hdf5.part"])
def test_unfinished(tmp_path: Path, name: str) -> None:
    """Half a file must not be read as a complete one, by whatever name."""
    (tmp_path / "a.hdf5.part").touch()
    (tmp_path / "a.hdf5.part.log").touch()
    with pytest.raises(UnfinishedError):
        open_embeddings(tmp_path / name)


def test_a_log_of_the_user_is_no_sign_of_an_unfinished_file(tmp_path: Path) -> None:
    """`elmo embed … 2> a.hdf5.log` writes one."""
    (tmp_path / "a.hdf5.log").touch()
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    assert len(open_embeddings(path)) == len(lines())


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({"softmax/W": random(9, 4), "softmax/b": random(9)}, "a weight file (softmax)"),
        ({}, "it has no data sets"),
        ({"0": np.arange(6).reshape(1, 2, 3)}, "'0' with int64"),
        ({"h": random(2, 2, 1, DIM), "c": random(2, 2, 1, DIM)}, "'c' with float32"),
    ],
)
def test_hdf5_of_something_else(tmp_path: Path, datasets: dict[str, Any], message: str) -> None:
    assert message in refused(foreign(tmp_path / "a.hdf5", datasets))


def dataset(name: str, value: Any) -> Change:
    def change(file: h5py.File) -> None:
        file.pop(name, None)
        file[name] = value

    return change


def without(name: str) -> Change:
    """Removes a data set."""

    def change(file: h5py.File) -> None:
        del file[name]

    return change


def is_not_complete(file: h5py.File) -> None:
    del file.attrs["complete"]


def huge(name: str, shape: tuple[int, ...]) -> Change:
    """A data set of which the file has nothing but the claim."""

    def change(file: h5py.File) -> None:
        file.pop(name, None)
        file.create_dataset(name, shape, np.float32, chunks=(1024, *shape[1:]))

    return change


READING: dict[str, tuple[str, Change]] = {
    "not complete": ("allennlp", is_not_complete),
    "complete is an array": ("allennlp", attribute("complete", np.zeros(2))),
    "unknown layout": ("allennlp", attribute("layout", "cubes")),
    "schema 1": ("allennlp", attribute("elmo_schema", 1)),
    "schema is a word": ("allennlp", attribute("elmo_schema", "one")),
    "no offsets": ("flat", without("offsets")),
    "a scalar": ("e2e-coref", dataset("x/0", np.float32(1))),
    "a name without a number": ("dygie", dataset("x", np.ones((2, DIM, 3)))),
    "an external link": ("bilm", dataset("1", h5py.ExternalLink("/etc/other.hdf5", "/0"))),
    "48 GB in a small file": ("bilm", huge("1", (3_000_000_000, 4))),
    "rows that are only claimed": ("flat", huge("vectors", (1 << 40, 3, 2))),
    "no vectors": ("flat", without("vectors")),
    "offsets beyond the rows": ("flat", dataset("offsets", np.array([0, 1, 2, 10**6]))),
    "offsets that are no integers": ("flat", dataset("offsets", np.array([0.0, 1, 4, 9]))),
    "vectors with one axis": ("flat", dataset("vectors", np.ones(9, "f4"))),
    "types that are integers": ("bilm-types", dataset("embedding", np.ones((9, 4), "i4"))),
    "types with one axis": ("bilm-types", dataset("embedding", np.ones(9, "f4"))),
    "no map": ("allennlp", without("sentence_to_index")),
    "a count that is a word": ("manylangs", attribute("first_sentence", "x")),
    "repeated lines that do not exist": ("allennlp", attribute("repeated_lines", "[[0, 77]]")),
    "a short order": ("dygie", attribute("sentence_order", np.zeros(1, "u4"))),
    "fewer checksums": ("bilm", attribute("sentence_crc32", np.zeros(1, "u4"))),
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[draft] my run", "[draft] my run"),
        ("[" * 50_000, "[" * 50_000),
        (1 + 2j, "(1+2j)"),
        (np.bytes_(b"x"), "b'x'"),
        (h5py.Empty("f4"), "Empty(dtype=dtype('<f4'))"),
    ],
)
def test_an_attribute_that_somebody_added_is_kept(
    tmp_path: Path, value: object, expected: str
) -> None:
    path = write(tmp_path / "a.hdf5", documents("x"), layout="bilm")
    with h5py.File(path, "a") as file:
        file.attrs["note"] = value
    with open_embeddings(path) as embeddings:
        assert embeddings.attributes["note"] == expected


@pytest.mark.parametrize("case", READING)
def test_files_of_ours_with_something_else_in_them(tmp_path: Path, case: str) -> None:
    """Corrupt or crafted: an error of ours with a hint, or a problem, and no memory is taken."""
    layout, change = READING[case]
    layers = None if layout == "manylangs" else 3
    if layout == "bilm-types":
        path = write_types(tmp_path / "a.hdf5", 9)
    else:
        path = write(tmp_path / "a.hdf5", documents("x"), layout=layout, layers=layers)
    with h5py.File(path, "a") as file:
        change(file)
    tracemalloc.start()
    problems: list[str] = []
    error = None
    try:
        with open_embeddings(path) as embeddings:
            problems = [*embeddings.reader.problems(), *["?"] * embeddings.first_sentence]
            assert embeddings.records is not None
            list(embeddings.sentences())
    except EmbeddingsFileError as caught:
        error = caught
    assert problems or (error is not None and str(path) in error.message and error.hint)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "content",
    ["[1]", "nonsense", '{"a": 0}', '{"a": "x"}', '{"a": "007"}', "[" * 50_000, '{"a": "9"}'],
)
def test_a_foreign_map_that_is_none(tmp_path: Path, content: str) -> None:
    path = with_map(tmp_path / "a.hdf5", content, {"0": random(3, 2, DIM)})
    with open_embeddings(path) as embeddings:
        assert embeddings[0].shape == (3, 2, DIM)
        assert list(embeddings.reader.problems())
        with pytest.raises((EmbeddingsFileError, KeyError)):
            embeddings["a"]


def test_attributes_of_other_programs(tmp_path: Path) -> None:
    """They may be called as ours and hold anything; no reason to refuse the arrays."""
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM)), "1": np.ones((3, 1, DIM))})
    with h5py.File(path, "a") as file:
        file.attrs.update({"layers": "[1, 2", "pool": 1 + 2j, "first_sentence": file["0"].ref})
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [0, 1]
        assert (embeddings.n_layers, embeddings.attributes) == (3, {})


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunked_rows_are_read_through_hdf5(tmp_path: Path, compression: str | None) -> None:
    """A program that repacks a file may do so; compressed bytes must not be taken for values."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with h5py.File(path, "a") as file:
        for name in list(file):
            values = file.pop(name)[()]
            file.create_dataset(name, data=values, chunks=True, compression=compression)
    with open_embeddings(path) as embeddings:
        for expected, (found, values) in zip(lines(), embeddings.sentences(), strict=True):
            np.testing.assert_array_equal(values, array(expected))
            assert found.tokens == expected.tokens


# -- processes ------------------------------------------------------------------------------------

SHARED = ("allennlp", "flat", "e2e-coref")


def open_documents(folder: Path, layout: str) -> Embeddings:
    path = folder / f"{layout}.hdf5"
    return open_embeddings(write(path, documents("d", "e", n_places=8), layout=layout))


@pytest.mark.parametrize("layout", SHARED)
def test_a_forked_process_does_not_share_the_handle(tmp_path: Path, layout: str) -> None:
    """HDF5 does not survive a handle that two processes share: its file has one position."""
    with open_documents(tmp_path, layout) as embeddings:
        inherited = embeddings.reader
        expected = embeddings[7].tobytes()
        child = os.fork()
        if not child:
            is_right = embeddings[7].tobytes() == expected
            os._exit(0 if is_right and embeddings.reader is not inherited else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert embeddings.reader is inherited


@pytest.mark.parametrize("layout", SHARED)
def test_pickles_and_closed_files(tmp_path: Path, layout: str) -> None:
    embeddings = open_documents(tmp_path, layout)
    first = embeddings[0]
    with pickle.loads(pickle.dumps(embeddings)) as twin:
        np.testing.assert_array_equal(twin[0], first)
        assert twin.attributes.keys() == embeddings.attributes.keys()
        assert twin != embeddings
        assert len({twin, embeddings}) == 2
    np.testing.assert_array_equal(embeddings[5], embeddings[5])
    embeddings.close()
    first += 1  # an array outlives its file and is writable
    with pytest.raises(EmbeddingsFileError, match="closed"):
        embeddings[0]
    embeddings.path.unlink()


def test_opening_lists_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a large file would take as long as listing it, once in every worker."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")

    def listed(*_: object) -> None:
        raise AssertionError("all names were read")

    monkeypatch.setattr("elmo_cli.store.layouts.sentence_datasets.DatasetReader.handles", listed)
    monkeypatch.setattr(h5py.Group, "__iter__", listed)
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), embeddings.dim, embeddings.n_layers) == (12, DIM, 3)
        assert "A dog" in embeddings
        assert embeddings.tokens(10) == lines()[10].tokens
        np.testing.assert_array_equal(embeddings[10], array(lines()[10]))
        with pytest.raises(TypeError):
            list(embeddings)
