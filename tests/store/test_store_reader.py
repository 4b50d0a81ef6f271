"""open_embeddings: every key of our own files, the axes of their arrays, keys that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import DIM, FILES, PROTEINS, array, documents, lines, made, write

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.sentence import Sentence

ONTONOTES = "bc/cctv/00/cctv_0000_0"
PART = "bc/cctv/00/cctv_0000_1"
BARE = lines(blank=False, repeats=False)
PLAIN = [sentence for sentence in BARE if "/" not in sentence.text]
LATER_DOCUMENTS = [replace(s, key=s.key + 20) for s in documents("x/y", "z")]
MIXED = [*lines(), *LATER_DOCUMENTS]
SHARD: dict[str, Any] = {"layout": "manylangs", "layers": None, "first_sentence": 40}
OWN: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "allennlp": (lines(), {}),
    "allennlp, occurrences": (lines(), {"layout": "allennlp", "sentence_map": "occurrences"}),
    "allennlp by lines": (PLAIN, {"layout": "allennlp", "keys": "sentence"}),
    "bilm": (lines(), {}),
    "e2e-coref": (documents("z", "doc-b", "a:b", ONTONOTES, n_places=12), {}),
    "lsgn": (documents(ONTONOTES, PART, "S/7", n_places=3), {}),
    "dygie": (documents("z", "S/7", "a", "S/9", n_places=4), {}),
    "manylangs": (BARE, {"layers": None}),
    "manylangs, a shard": (BARE, SHARD),
    "seqvec": (PROTEINS, {}),
    "bio-embeddings": (PROTEINS, {}),
    "flat": (MIXED, {}),
    "flat, skipped lines": (lines(blank=False)[2:], {"layout": "flat", "first_sentence": 2}),
}
NUMBERED = ["allennlp", "allennlp, occurrences", "bilm", "flat", "flat, skipped lines"]
WITH_DOCUMENTS = ["e2e-coref", "dygie", "flat", "seqvec", "bio-embeddings"]
WITH_LINES = ["allennlp", "allennlp, occurrences", "allennlp by lines"]
WITH_TOKENS = [*WITH_LINES, "manylangs", "manylangs, a shard", "flat", "flat, skipped lines"]
SLICES = (slice(2, 5), slice(-2, None), slice(None), slice(None, None, -2), slice(5, 5))


class OwnFile:
    """An opened file of OWN, the sentences that it was written from, and their arrays."""

    def __init__(self, folder: Path, case: str) -> None:
        self.sentences, own_options = OWN[case]
        options = {"layout": case, "layers": 3, **own_options}
        self.n_layers = options["layers"]
        self.case = case
        self.arrays = [array(sentence, self.n_layers) for sentence in self.sentences]
        self.embeddings = open_embeddings(write(folder / "a.hdf5", self.sentences, **options))
        self.keys = list(self.embeddings)

    def number(self, position: int) -> int:
        """The number of a sentence; files with names count from the first of their shard."""
        if self.embeddings.is_keyed_by_name:
            return self.embeddings.first_sentence + position
        return self.sentences[position].key


@pytest.fixture(params=OWN)
def own_file(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OwnFile]:
    file = OwnFile(tmp_path, request.param)
    with file.embeddings:
        yield file


def test_facts_of_a_file(own_file: OwnFile) -> None:
    embeddings = own_file.embeddings
    assert len(embeddings) == len(own_file.sentences)
    assert embeddings.dim == DIM
    assert embeddings.n_layers == own_file.n_layers
    assert embeddings.order_is_known
    assert embeddings.is_keyed_by_name is (own_file.case not in NUMBERED)
    assert ("tokens" in embeddings.records) is (own_file.case in WITH_TOKENS)
    assert ("document" in embeddings.records) is (own_file.case in WITH_DOCUMENTS)


def test_iteration_gives_every_sentence(own_file: OwnFile) -> None:
    embeddings = own_file.embeddings
    assert len(list(embeddings.sentences())) == len(own_file.keys)
    assert list(embeddings.infos()) == list(map(embeddings.info, own_file.keys))


@pytest.mark.parametrize("own_file", NUMBERED, indirect=True)
def test_numbers_of_lines_without_a_sentence_are_no_keys(own_file: OwnFile) -> None:
    absent = set(range(40)) - {sentence.key for sentence in own_file.sentences}
    assert not any(number in own_file.embeddings for number in absent)


@pytest.mark.parametrize("own_file", ["e2e-coref", "dygie", "lsgn"], indirect=True)
def test_a_number_of_numpy_in_a_key(own_file: OwnFile) -> None:
    for sentence, expected in zip(own_file.sentences, own_file.arrays, strict=True):
        assert sentence.document is not None
        key = (sentence.document, np.int64(sentence.place))
        if own_file.embeddings.key_of(sentence) == key:  # not in a flat name of lsgn
            np.testing.assert_array_equal(own_file.embeddings[key], expected)


def test_layers_are_counted_from_the_end_too(own_file: OwnFile) -> None:
    embeddings = own_file.embeddings
    n_layers = len(embeddings.layers)
    for key in own_file.keys:
        last = embeddings.layer(key, n_layers - 1)
        np.testing.assert_array_equal(embeddings.layer(key, -1), last)
    for index in (n_layers, -n_layers - 1):
        with pytest.raises(IndexError, match=f"no layer {index}, it has {n_layers} layer"):
            embeddings.layer(own_file.keys[0], index)
        with pytest.raises(IndexError):
            next(embeddings.infos_and_layer(index))


def test_slices_are_lists_by_position(own_file: OwnFile) -> None:
    """Whatever the keys are."""
    for span in SLICES:
        for values, expected in zip(own_file.embeddings[span], own_file.arrays[span], strict=True):
            np.testing.assert_array_equal(values, expected)


def test_every_sentence_is_found_by_every_key(own_file: OwnFile) -> None:
    """By the key of the layout, by number, by its place in iteration, from the end too."""
    embeddings = own_file.embeddings
    for position, sentence in enumerate(own_file.sentences):
        expected = own_file.arrays[position]
        own_key = own_file.keys[position]
        for key in (own_key, embeddings.key_of(sentence), own_file.number(position)):
            np.testing.assert_array_equal(embeddings[key], expected)
            assert embeddings[key].flags.c_contiguous
            assert embeddings.shape(key) == expected.shape
        from_the_end = position - len(own_file.keys)
        for key in (from_the_end, np.int64(from_the_end)):
            np.testing.assert_array_equal(embeddings[key], expected)
            assert embeddings.info(key) == embeddings.info(own_key)


@pytest.mark.parametrize("own_file", WITH_TOKENS, indirect=True)
def test_tokens_are_those_of_the_text(own_file: OwnFile) -> None:
    for position, sentence in enumerate(own_file.sentences):
        info = own_file.embeddings.info(own_file.keys[position])
        assert own_file.embeddings.tokens(own_file.number(position)) == sentence.tokens
        assert info.tokens == sentence.tokens


@pytest.mark.parametrize("own_file", WITH_DOCUMENTS, indirect=True)
def test_sentences_of_documents_are_found_by_document_and_place(own_file: OwnFile) -> None:
    embeddings = own_file.embeddings
    for position, sentence in enumerate(own_file.sentences):
        document = sentence.document
        if not document:
            continue
        info = embeddings.info(own_file.keys[position])
        expected = own_file.arrays[position]
        assert (info.document, info.place) == (document, sentence.place)
        np.testing.assert_array_equal(embeddings[document, sentence.place], expected)
        np.testing.assert_array_equal(embeddings[f"{document}:{sentence.place}"], expected)


@pytest.mark.parametrize("own_file", WITH_LINES, indirect=True)
def test_lines_of_allennlp_are_keys(own_file: OwnFile) -> None:
    """Of equal lines the last one is found, or the first one if all have an entry in the map."""
    embeddings = own_file.embeddings
    finds_first = own_file.case == "allennlp, occurrences"
    in_order = own_file.sentences[::-1] if finds_first else own_file.sentences
    found_keys = {sentence.text: sentence.key for sentence in in_order}
    for position, sentence in enumerate(own_file.sentences):
        line = sentence.text
        assert embeddings.info(own_file.keys[position]).text == line
        found_key = line if embeddings.is_keyed_by_name else found_keys[line]
        np.testing.assert_array_equal(embeddings[line], embeddings[found_key])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "bilm-types"])
@pytest.mark.parametrize("layers", [3, None])
@pytest.mark.parametrize("pool", [False, True])
def test_layer_and_token_axes(tmp_path: Path, layout: str, layers: int | None, pool: bool) -> None:
    """A single layer has no layer axis in any layout, and pooled arrays no token axis."""
    layers = None if layout == "manylangs" else layers
    texts = documents("d", "e", "f", n_places=1)
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
            assert [embeddings.tokens(key) for key in embeddings] == [None, ("a", "b")]
            assert embeddings.info(0).text == "cann't"


NUMBERS = (-99, 99, 10**30, np.int64(-99), "-1", "99", "00", "9" * 5_000, "²", "٣", "1.0")
PATHS = ("", ".", "..", "/", "0/", "/0", "./0", "a//b", "a\0b", "\0", "\ud800", "x" * 70_000)
POSITIONS = (("d", 99), ("d", -1), ("d", "e"), "d:99", "d:-1", "d:" + "9" * 5_000, ":0")
ABSENT = (*NUMBERS, *PATHS, *POSITIONS, "no line", ("no", "such"))
# These have "" in their maps.
BLANK = ("allennlp", "allennlp, float16", "allennlp, occurrences", "allennlp, pooled")


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
        with pytest.raises(KeyError, match="; it has none"):
            embeddings[0]


def test_tokens_are_keys_in_the_layout_of_manylangs(tmp_path: Path) -> None:
    """Joined by spaces or tabs, as they are or as ELMoForManyLangs spells them."""
    spaced = Sentence(("10 000", "roses."), 20, "10 000 roses.")
    path = write(tmp_path / "a.hdf5", [*BARE, spaced], layout="manylangs", layers=None)
    with open_embeddings(path) as embeddings:
        for key in (spaced.tokens, "10 000\troses."):
            np.testing.assert_array_equal(embeddings[key], array(spaced, None))
        for sentence in BARE:
            text = "\t".join(sentence.tokens)
            spelled = text.replace(".", "$period$").replace("/", "$backslash$")
            for key in (sentence.tokens, " ".join(sentence.tokens), text, spelled):
                np.testing.assert_array_equal(embeddings[key], array(sentence, None))


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


@pytest.mark.parametrize("pool", [False, True])
def test_a_layer_of_int8_has_its_own_scales(tmp_path: Path, pool: bool) -> None:
    path = write(tmp_path / "a.hdf5", documents("d"), layout="flat", dtype="int8", pool=pool)
    with open_embeddings(path) as embeddings:
        for key in embeddings:
            for index in range(3):
                layer = embeddings.layer(key, index)
                np.testing.assert_array_equal(layer, embeddings[key][index], strict=True)


def test_a_line_that_is_a_number_does_not_hide_the_sentence_of_that_number(tmp_path: Path) -> None:
    sentences = [Sentence((line,), key, line) for key, line in enumerate(("1", "0", "one"))]
    path = write(tmp_path / "a.hdf5", sentences, layout="allennlp")
    with open_embeddings(path) as embeddings:
        for sentence in sentences:
            for key in (sentence.key, str(sentence.key)):
                assert embeddings.info(key).text == sentence.text
        assert embeddings.info("one").text == "one"


@pytest.mark.parametrize("keys", ["number", "sentence"])
def test_a_token_with_a_no_break_space_stays_one_token(tmp_path: Path, keys: str) -> None:
    """If all lines are their tokens, the number of vectors says where a line is split."""
    texts = [("the", "cat"), ("10\u00a0000", "roses"), ("a\u2009b", "c"), ("one",)]
    made = [Sentence(tokens, key, " ".join(tokens)) for key, tokens in enumerate(texts)]
    path = write(tmp_path / "a.hdf5", made, layout="allennlp", keys=keys)
    with open_embeddings(path) as embeddings:
        assert "tokens" in embeddings.records
        assert [embeddings.tokens(key) for key in embeddings] == texts
