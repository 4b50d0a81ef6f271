"""open_embeddings: recognising files, keys, order, bad files, processes."""

from __future__ import annotations

import gzip
import json
import mmap
import multiprocessing
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from reader_files import (
    DIM,
    array,
    biLM_weights,
    documents,
    foreign,
    lines,
    write,
    write_types,
)

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.flat_sentences import FlatSentences
from elmo_cli.store.members import walk
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.recognise import some_datasets
from elmo_cli.store.rows import MappedRows, PlainRows
from elmo_cli.store.schema import MAP
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

ONTONOTES = "bc/cctv/00/cctv_0000_0"


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


# -- keys of our own files ------------------------------------------------------------------------


def test_numbers_iterate_as_numbers_and_are_found_as_int_name_and_line(tmp_path: Path) -> None:
    """Without it sentence 2 would come after sentence 10, and lines could not be looked up."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == list(range(12))
        assert embeddings.layout == "allennlp"
        assert (len(embeddings), embeddings.n_layers, embeddings.dim) == (12, 3, DIM)
        for sentence in lines():
            np.testing.assert_array_equal(embeddings[sentence.key], array(sentence))
            assert embeddings.shape(sentence.key) == (3, len(sentence.tokens), DIM)
        np.testing.assert_array_equal(embeddings["1"], embeddings[1])
        np.testing.assert_array_equal(embeddings["A dog"], embeddings[7])  # the last one wins
        np.testing.assert_array_equal(embeddings[np.int64(10)], embeddings[10])
        assert embeddings.attributes["state"] == "zero"
        assert embeddings.attributes["sources"] == [["in.txt", 0]]


def test_tokens_are_told_where_the_map_knows_them(tmp_path: Path) -> None:
    """Without it an earlier line of equal ones would get the tokens of some other sentence."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with open_embeddings(path) as embeddings:
        assert embeddings.tokens(0) == ("The", "cat", "sat", "on", "the", "mat", ".")
        assert embeddings.tokens(7) == ("A", "dog")
        assert embeddings.tokens(1) is None
        assert embeddings.tokens(2) == ()


def test_tokens_of_a_line_that_was_tokenised_otherwise_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    write(path, [Sentence(("can", "n't"), 0, "cann't")], layout="allennlp")
    with open_embeddings(path) as embeddings:
        assert embeddings.tokens(0) is None


def test_lines_as_keys_also_with_a_slash(tmp_path: Path) -> None:
    """Without it a sentence with a / (a group in the file) would not be found or counted."""
    sentences = lines(blank=False, repeats=False)
    path = write(tmp_path / "a.hdf5", sentences, layout="allennlp", keys="sentence")
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [sentence.text for sentence in sentences]
        for sentence in sentences:
            np.testing.assert_array_equal(embeddings[sentence.text], array(sentence))
        assert embeddings.tokens("A dog") == ("A", "dog")
        assert embeddings.n_layers == 3
        with pytest.raises(KeyError, match="a `/` in its keys nests and loses the order"):
            embeddings[0]


def test_lines_as_keys_by_number_where_no_line_nests(tmp_path: Path) -> None:
    sentences = [s for s in lines(blank=False, repeats=False) if "/" not in s.text]
    path = write(tmp_path / "a.hdf5", sentences, layout="allennlp", keys="sentence")
    with open_embeddings(path) as embeddings:
        np.testing.assert_array_equal(embeddings[1], array(sentences[1]))


@pytest.mark.parametrize("layout", ["e2e-coref", "lsgn", "dygie"])
@pytest.mark.parametrize("key", ["doc-b", "S/7"])
def test_documents_are_found_by_key_and_place(tmp_path: Path, layout: str, key: str) -> None:
    """Without it the axes of e2e-coref and DyGIE would come out as (token, dim, layer)."""
    sentences = documents("z", key, "a", n_places=12)
    path = write(tmp_path / "a.hdf5", sentences, layout=layout)
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), embeddings.n_layers, embeddings.dim) == (36, 3, DIM)
        for sentence in sentences:
            found = embeddings[sentence.document, sentence.place]
            np.testing.assert_array_equal(found, array(sentence))
            assert found.flags.c_contiguous
            named = embeddings[f"{sentence.document}:{sentence.place}"]
            np.testing.assert_array_equal(named, found)
        assert [embeddings[name].sum() for name in embeddings] == [
            array(sentence).sum() for sentence in sentences
        ]
        if not (layout == "dygie" and "/" in key):
            np.testing.assert_array_equal(embeddings[13], array(sentences[13]))


def test_a_single_layer_has_no_layer_axis_in_any_layout(tmp_path: Path) -> None:
    for layout in ("allennlp", "bilm", "e2e-coref", "lsgn", "dygie", "manylangs", "flat"):
        sentences = documents("d")
        path = write(tmp_path / layout, sentences, layout=layout, layers=None)
        with open_embeddings(path) as embeddings:
            assert embeddings.n_layers is None
            np.testing.assert_array_equal(embeddings[2], array(sentences[2], None))


def test_pooled_arrays_have_no_token_axis(tmp_path: Path) -> None:
    for layout in ("allennlp", "bilm", "e2e-coref", "lsgn", "dygie", "flat"):
        for layers in (3, None):
            sentences = documents("d")
            path = tmp_path / f"{layout}{layers}"
            write(path, sentences, layout=layout, layers=layers, pool=True)
            with open_embeddings(path) as embeddings:
                assert embeddings.n_layers == layers
                assert embeddings.dim == DIM
                expected = array(sentences[1], layers).sum(-2)
                np.testing.assert_array_equal(embeddings[1], expected)


def test_lsgn_ontonotes_keys(tmp_path: Path) -> None:
    """Without it the sentences of a second part could not be found: LSGN counts on over parts."""
    sentences = documents(ONTONOTES, "bc/cctv/00/cctv_0000_1")
    path = write(tmp_path / "a.hdf5", sentences, layout="lsgn")
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [f"bc:cctv:00:cctv_0000:{i}" for i in range(6)]
        np.testing.assert_array_equal(embeddings["bc/cctv/00/cctv_0000", 4], array(sentences[4]))


def test_manylangs_by_tokens_and_by_sentence(tmp_path: Path) -> None:
    sentences = lines(blank=False)
    path = write(tmp_path / "a.hdf5", sentences, layout="manylangs", layers=None)
    with open_embeddings(path) as embeddings:
        expected = array(sentences[0], None)
        np.testing.assert_array_equal(embeddings["The cat sat on the mat ."], expected)
        np.testing.assert_array_equal(embeddings[sentences[0].tokens], expected)
        np.testing.assert_array_equal(embeddings[0], expected)
        assert next(iter(embeddings)) == "The\tcat\tsat\ton\tthe\tmat\t$period$"
        assert embeddings.tokens("He said / she said") == ("He", "said", "/", "she", "said")


def test_types(tmp_path: Path) -> None:
    with open_embeddings(write_types(tmp_path / "a.hdf5", 5)) as embeddings:
        assert (embeddings.layout, len(embeddings), embeddings.dim) == ("bilm-types", 5, DIM)
        assert embeddings[3].tolist() == [3] * DIM
        assert list(embeddings) == [0, 1, 2, 3, 4]
        with pytest.raises(KeyError, match="no row 5; it has 5"):
            embeddings[5]


def test_float16_stays_float16(tmp_path: Path) -> None:
    for layout in ("allennlp", "flat"):
        path = write(tmp_path / layout, lines(), layout=layout, dtype="float16")
        with open_embeddings(path) as embeddings:
            assert embeddings[0].dtype == embeddings.dtype == np.float16
            np.testing.assert_array_equal(embeddings[0], array(lines()[0]).astype(np.float16))


@pytest.mark.parametrize("layout", ["allennlp", "bilm", "flat"])
def test_numbers_of_a_shard_and_of_skipped_lines_are_those_of_the_input(
    tmp_path: Path, layout: str
) -> None:
    """Without it `embeddings[7]` would be another line as soon as one was left out."""
    sentences = lines(blank=False)[1:]
    path = write(tmp_path / "a.hdf5", sentences, layout=layout, first_sentence=1)
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        for sentence in sentences:
            np.testing.assert_array_equal(embeddings[sentence.key], array(sentence))
        assert 0 not in embeddings
        assert 2 not in embeddings


def test_names_in_a_shard_count_from_its_first_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", documents("d"), layout="dygie", first_sentence=40)
    with open_embeddings(path) as embeddings:
        np.testing.assert_array_equal(embeddings[41], array(documents("d")[1]))
        assert 0 not in embeddings


# -- keys that are not there ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [-1, 12, "12", "00", "01", "no such line", ".", "/", "./0", "0/", "a\0b", "\ud800", ("d", 0)],
)
@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_missing_keys_say_what_keys_there_are(
    tmp_path: Path, layout: str, key: int | str | tuple[str, int]
) -> None:
    """Without it HDF5 would take "./0" for "0", and NUL or "" would raise its own errors."""
    with open_embeddings(write(tmp_path / "a.hdf5", lines(), layout=layout)) as embeddings:
        assert key not in embeddings
        with pytest.raises(
            KeyError, match=r"no sentence .*(its keys are like|numbers go from 0 to 11)"
        ):
            embeddings[key]


@pytest.mark.parametrize("n", range(1, 12))
def test_a_file_with_sentences_is_never_said_to_have_none(tmp_path: Path, n: int) -> None:
    """The first name that HDF5 comes upon may be that of the sentence map."""
    path = write(tmp_path / "a.hdf5", lines()[:n], layout="allennlp")
    with (
        open_embeddings(path) as embeddings,
        pytest.raises(KeyError, match=r"its keys are like \d"),
    ):
        embeddings[n]


@pytest.mark.parametrize("key", [-1, 3, "d:3", "d:x", ("d", -1), ("e", 0), "d", "", ":0"])
def test_missing_documents(tmp_path: Path, key: int | str | tuple[str, int]) -> None:
    path = write(tmp_path / "a.hdf5", documents("d"), layout="e2e-coref")
    with open_embeddings(path) as embeddings:
        assert key not in embeddings
        with pytest.raises(KeyError, match="its keys are like 'd:"):
            embeddings[key]


def test_a_key_of_another_type_is_a_type_error(tmp_path: Path) -> None:
    with open_embeddings(write(tmp_path / "a.hdf5", lines(), layout="bilm")) as embeddings:
        with pytest.raises(TypeError, match="not float"):
            embeddings[1.0]  # type: ignore[index]
        with pytest.raises(TypeError, match="not bool"):
            embeddings[True]


ABSENT = (
    *(-1, 99, 10**30, np.int64(-1), "-1", "99", "9" * 5_000, "²", "٣", "1.0", "no such line"),
    *(".", "..", "/", "0/", "/0", "./0", "a//b", "a\0b", "\0", "\ud800", "x" * 70_000),
    *(("d", 99), ("d", -1), ("d", "e"), "d:99", "d:-1", "d:" + "9" * 5_000, ("no", "such")),
)


@pytest.mark.parametrize(
    "layout", ["allennlp", "bilm", "bilm-types", "e2e-coref", "lsgn", "dygie", "manylangs", "flat"]
)
def test_a_key_that_is_not_there_is_a_key_error(tmp_path: Path, layout: str) -> None:
    """Without it `get` and `in` would fail, or answer with another sentence."""
    path = tmp_path / "a.hdf5"
    if layout == "bilm-types":
        write_types(path, 4)
    else:
        layers = None if layout == "manylangs" else 3
        write(path, documents("d", "e/f"), layout=layout, layers=layers)
    with open_embeddings(path) as embeddings:
        for key in ABSENT:
            assert key not in embeddings
            assert embeddings.get(key) is None  # type: ignore[call-overload]
        assert embeddings.get(np.int64(1)) is not None or layout == "dygie"


# -- files of other programs ----------------------------------------------------------------------


def test_foreign_allennlp(tmp_path: Path) -> None:
    index = json.dumps({"a b": "0", "c": "10"})
    names = {str(i): random(3, 2 if i == 0 else 1, DIM) for i in (0, 2, 10)}
    path = foreign(tmp_path / "a.hdf5", names)
    with h5py.File(path, "a") as file:
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = index
    with open_embeddings(path) as embeddings:
        assert embeddings.layout == "allennlp"
        assert list(embeddings) == [0, 2, 10]
        assert embeddings.tokens(0) == ("a", "b")
        np.testing.assert_array_equal(embeddings["c"], names["10"])
        assert embeddings.attributes == {}


FOREIGN = {
    "bilm": ({"0": random(3, 2, DIM), "1": random(3, 4, DIM)}, "bilm", [0, 1]),
    "allennlp --top": ({"0": random(2, DIM), "1": random(4, DIM)}, "allennlp", [0, 1]),
    "allennlp sentences": (
        {"a b": random(3, 2, DIM), "c": random(3, 1, DIM)},
        "allennlp",
        ["a b", "c"],
    ),
    "fast-elmo, gap": ({"0": random(1, 2, DIM), "2": random(1, 4, DIM)}, "bilm", [0, 2]),
    "types": ({"embedding": random(5, DIM)}, "bilm-types", [0, 1, 2, 3, 4]),
    "e2e-coref": (
        {f"nw:x_0/{i}": random(i % 3 + 1, DIM, 3) for i in range(11)},
        "e2e-coref",
        [f"nw:x_0:{i}" for i in range(11)],
    ),
    "lsgn": (
        {f"S1:x/{i}": random(3, i % 3 + 1, DIM) for i in range(3)},
        "lsgn",
        [f"S1:x:{i}" for i in range(3)],
    ),
    "lsgn ontonotes": (
        {f"bc:cctv:00:cctv_0000:{i}": random(3, i % 3 + 1, DIM) for i in range(11)},
        "lsgn",
        [f"bc:cctv:00:cctv_0000:{i}" for i in range(11)],
    ),
    "dygie": (
        {f"{d}_{i}": random(i % 4 + 1, DIM, 3) for d in ("J87", "W99/x") for i in range(11)},
        "dygie",
        [f"{d}_{i}" for d in ("J87", "W99/x") for i in range(11)],
    ),
    "manylangs": (
        {"a\tb": random(2, DIM), "c$period$": random(1, DIM)},
        "manylangs",
        ["a\tb", "c$period$"],
    ),
    "seqvec": ({"P12345": random(7, DIM), "Q6": random(2, DIM)}, "named", ["P12345", "Q6"]),
    "seqvec --protein": ({"P1": random(DIM), "P10": random(DIM)}, "named", ["P1", "P10"]),
}


@pytest.mark.parametrize("maker", FOREIGN)
def test_foreign_files_are_recognised(tmp_path: Path, maker: str) -> None:
    """Without it a file of another program would be refused, or read with its axes exchanged."""
    datasets, layout, keys = FOREIGN[maker]
    path = foreign(tmp_path / "a.hdf5", datasets)
    with open_embeddings(path) as embeddings:
        assert embeddings.layout == layout
        assert list(embeddings) == keys
        assert len(embeddings) == len(keys)
        assert embeddings.dim == DIM
        for key in keys:
            assert embeddings[key].shape == embeddings.shape(key)
            assert embeddings[key].shape[-1] == DIM
        if embeddings.n_layers == 3:
            assert {embeddings[key].shape[0] for key in keys} == {3}


@pytest.mark.parametrize("shape", [(3, 4, DIM), (4, DIM)])
def test_a_tab_in_a_line_of_allennlp_joins_no_tokens(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """It splits at any white space; ELMoForManyLangs joins the tokens, a vector for each."""
    path = foreign(tmp_path / "a.hdf5", {"the cat\tsat down": np.ones(shape, "f4")})
    with open_embeddings(path) as embeddings:
        assert embeddings.layout == "allennlp"
        assert embeddings.tokens("the cat\tsat down") == ("the", "cat", "sat", "down")
    for joined in ((2, DIM), (DIM,), (3, 2, DIM)):
        path = foreign(tmp_path / "b.hdf5", {"the cat\tsat": np.ones(joined, "f4")})
        with open_embeddings(path) as embeddings:
            assert embeddings.layout == "manylangs"
            assert embeddings.tokens("the cat\tsat") == ("the cat", "sat")


def test_layers_last_is_known_by_the_axis_that_stays(tmp_path: Path) -> None:
    """(token, dim, layer) with as many tokens as layers: only the dim tells it from LSGN's."""
    path = foreign(tmp_path / "a.hdf5", {"d/0": random(3, 1024, 3), "d/1": random(3, 1024, 3)})
    with open_embeddings(path) as embeddings:
        assert (embeddings.layout, embeddings.dim) == ("e2e-coref", 1024)


def test_foreign_flat_without_attributes_or_numbers(tmp_path: Path) -> None:
    ends = np.array([1, 2, 4], np.int64)
    path = foreign(
        tmp_path / "a.hdf5",
        {
            "vectors": random(3, 2, DIM),
            "offsets": np.array([0, 1, 3]),
            "token_ends": ends,
            "token_bytes": np.frombuffer(b"abcd", np.uint8),
        },
    )
    with open_embeddings(path) as embeddings:
        assert embeddings.layout == "flat"
        assert embeddings[1].shape == (2, 2, DIM)
        assert embeddings.tokens(1) == ("b", "cd")


# -- flat -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_mapped_rows_are_the_rows_that_hdf5_reads(tmp_path: Path, dtype: str) -> None:
    """Without it a wrong offset of a chunk would go unseen: the values would just be others."""
    sizes = [0, 1, 700, 3, 400, 41, 0, 399, 1]  # a chunk of 1 MiB is 341 or 682 of these rows
    sentences = [Sentence(("a",) * size, key, "a") for key, size in enumerate(sizes)]
    path = tmp_path / "a.hdf5"
    with EmbeddingsWriter.create(path, layout="flat", header={}, dtype=dtype) as writer:
        for sentence in sentences:
            writer.append(sentence, random(3, len(sentence.tokens), 256) + sentence.key)
        writer.finish({})
    with open_embeddings(path) as mapped, h5py.File(path) as file:
        plain = FlatSentences(file, None, pooled=False)
        assert type(mapped.sentences.rows("vectors")) is MappedRows  # type: ignore[attr-defined]
        assert type(plain.rows("vectors")) is PlainRows
        for key in mapped:
            np.testing.assert_array_equal(mapped[key], plain.array(key))
            assert mapped.tokens(key) == plain.facts(key).tokens
        vectors = mapped.sentences.rows("vectors")  # type: ignore[attr-defined]
        everything = vectors.read(0, vectors.shape[0])
        np.testing.assert_array_equal(everything, file["vectors"][()])
        assert file["vectors"].id.get_num_chunks() >= 3


def test_the_places_of_all_chunks_are_asked_for_once(tmp_path: Path) -> None:
    """HDF5 walks to a chunk over all before it: asked for each, a file takes quadratic time."""
    values = random(100, DIM)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("vectors", data=values, chunks=(3, DIM))
    with open(tmp_path / "a.hdf5", "rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with h5py.File(tmp_path / "a.hdf5") as file:
        rows = MappedRows(file["vectors"], mapped)
        rows.read(50, 51)
    np.testing.assert_array_equal(rows.read(0, 100), values)  # the file is closed


def test_a_filtered_or_unwritten_array_is_read_through_hdf5(tmp_path: Path) -> None:
    """Without it compressed bytes would be taken for values."""
    datasets = {
        "offsets": np.array([0, 1, 3]),
        "token_ends": np.array([1, 2, 3]),
        "token_bytes": np.frombuffer(b"abc", np.uint8),
    }
    values = random(3, 2, DIM)
    path = foreign(tmp_path / "a.hdf5", datasets)
    with h5py.File(path, "a") as file:
        file.create_dataset("vectors", data=values, chunks=(2, 2, DIM), compression="gzip")
    with open_embeddings(path) as embeddings:
        np.testing.assert_array_equal(embeddings[1], values[1:].swapaxes(0, 1))
    with h5py.File(path, "a") as file:
        del file["vectors"]
        file.create_dataset("vectors", (3, 2, DIM), "f4", chunks=(2, 2, DIM), fillvalue=7)
    with open_embeddings(path) as embeddings:
        assert embeddings[1].tolist() == np.full((2, 2, DIM), 7).tolist()


def test_flat_tells_tokens_and_documents(tmp_path: Path) -> None:
    sentences = [*lines(), *documents("x/y", "z")]
    sentences = [replace(s, key=key) for key, s in enumerate(sentences)]
    with open_embeddings(write(tmp_path / "a.hdf5", sentences, layout="flat")) as embeddings:
        for sentence in sentences:
            assert embeddings.tokens(sentence.key) == sentence.tokens
            facts = embeddings.sentences.facts(sentence.key)
            found = facts.sentence(tokens=facts.tokens or (), text=facts.text or "")
            assert found == replace(sentence, source="-", line=0, starts_document=False)
            if sentence.document:
                values = embeddings[sentence.document, sentence.place]
                np.testing.assert_array_equal(values, array(sentence))
        assert ("z", 3) not in embeddings


@pytest.mark.parametrize(
    "layout", ["allennlp", "bilm", "bilm-types", "e2e-coref", "lsgn", "dygie", "manylangs", "flat"]
)
def test_a_file_without_sentences_is_empty_not_an_error(tmp_path: Path, layout: str) -> None:
    with open_embeddings(write(tmp_path / "a.hdf5", [], layout=layout)) as embeddings:
        assert list(embeddings) == []
        assert (len(embeddings), embeddings.dim, embeddings.n_layers) == (0, 0, None)
        assert embeddings.dtype is None
        with pytest.raises(KeyError):
            embeddings[0]


# -- bad files ------------------------------------------------------------------------------------


def refused(path: Path) -> tuple[str, str]:
    """Message, without the path in front of it, and hint."""
    with pytest.raises(EmbeddingsFileError) as caught:
        open_embeddings(path)
    message = caught.value.message
    assert message.startswith(f"{path}: ")
    assert caught.value.hint
    return message.removeprefix(f"{path}: "), caught.value.hint


def test_missing(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.hdf5") == ("no such file", "check the name")


def test_missing_but_unfinished(tmp_path: Path) -> None:
    (tmp_path / "a.hdf5.part").touch()
    message, hint = refused(tmp_path / "a.hdf5")
    assert message == "not there, but a.hdf5.part is: its run did not finish"
    assert "--resume" in hint


def test_folder(tmp_path: Path) -> None:
    assert refused(tmp_path) == ("is a folder", "give the HDF5 file itself")
    weights = tmp_path / "weights.hdf5"
    weights.touch()
    assert refused(tmp_path)[1] == f"give the HDF5 file itself: `elmo inspect {weights}`"


def test_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert refused(tmp_path / "a" / "b.hdf5")[0] == "can't be read: Not a directory"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file (0 bytes)"),
        (b"The cat sat .\nA dog .\n" * 9, "a text file, not an HDF5 file"),
        ("日本語 ".encode() * 200, "a text file, not an HDF5 file"),
        (gzip.compress(b"x" * 99), "gzip data, not an HDF5 file"),
        (b"PK\x03\x04" + b"\0" * 99, "a zip archive (or docx, odt, xlsx), not an HDF5 file"),
        (b"\xfd7zXZ\x00" + b"\0" * 99, "xz data, not an HDF5 file"),
        (b"\x93NUMPY" + b"\0" * 99, "a NumPy array, not an HDF5 file"),
        (b"\x80\x04\x95" + b"\0" * 99, "a Python pickle, not an HDF5 file"),
        (
            b"\x00\x01\x02\x03\xff\xfe\xfd\xfc\x00",
            "unknown (first bytes 00 01 02 03 ff fe fd fc), not an HDF5 file",
        ),
    ],
    ids=["empty", "text", "utf-8", "gzip", "zip", "xz", "npy", "pickle", "binary"],
)
def test_not_hdf5(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "a.hdf5").write_bytes(content)
    assert refused(tmp_path / "a.hdf5")[0] == what


def test_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert refused(path) == (
        f"cut off: {len(whole) // 2} bytes of {len(whole)} are there",
        "copy it again, or make it anew",
    )


def test_groups_that_lead_round_in_circles(tmp_path: Path) -> None:
    """Two names for each of 60 groups are 2^60 ways; a group within itself has no end."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        group = file
        for _ in range(60):
            group["b"] = group.create_group("a")
            group = group["a"]
        group["a"] = file["a"]
        file["c"] = h5py.SoftLink("/")
        group["x_0"] = random(2, DIM, 3)
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        assert list(embeddings) == ["a/" * 60 + "x_0"]
        assert embeddings.dim == DIM


def test_a_line_with_a_thousand_slashes(tmp_path: Path) -> None:
    """Each nests a group, and Python goes no thousand calls deep."""
    line = "/".join(["a"] * 1500)
    options = {"layout": "allennlp", "keys": "sentence"}
    path = write(tmp_path / "a.hdf5", [Sentence((line,), 0, line)], **options)
    with open_embeddings(path) as embeddings:
        assert list(embeddings) == [line]
        assert embeddings[line].shape == (3, 1, DIM)


def test_only_the_map_of_the_root_is_no_sentence(tmp_path: Path) -> None:
    """A document may be called so; what samples and what lists sentences have to agree."""
    path = foreign(tmp_path / "a.hdf5", {f"d/{MAP}": random(2, DIM, 3)})
    with h5py.File(path) as file:
        assert [path for path, _ in some_datasets(file)] == list(walk(file)) == [f"d/{MAP}"]


def test_another_program_is_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    program = (
        f"import h5py; f = h5py.File({str(path)!r}, 'w'); print(flush=True); input(); f.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert refused(path)[0] == "locked, another program writes it"
        writer.communicate("\n")


def test_h5py_may_have_the_file_open_as_well(tmp_path: Path) -> None:
    """Without it a user who looks at the file with h5py could not open it with us."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with open_embeddings(path) as embeddings, h5py.File(path) as file:
        np.testing.assert_array_equal(embeddings[0], file["0"][()])


def test_damaged_head(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    path.write_bytes(path.read_bytes()[:8] + b"\xff" * 100)
    message, hint = refused(path)
    assert message.startswith("can't be read as HDF5: ")
    assert "damaged" in hint


def test_damaged_sentence(tmp_path: Path) -> None:
    """Without it a sentence that can't be read would look like one that isn't there."""
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    with h5py.File(path) as file:
        address = h5py.h5o.get_info(file["3"].id).addr
    with path.open("r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 40)
    with open_embeddings(path) as embeddings:
        np.testing.assert_array_equal(embeddings[0], array(lines()[0]))
        with pytest.raises(EmbeddingsFileError, match=r"'3' can't be read: .*header"):
            embeddings[3]


def test_weight_file(tmp_path: Path) -> None:
    message, hint = refused(biLM_weights(tmp_path / "weights.hdf5"))
    assert message == "this is a weight file (biLM), not embeddings"
    assert "--model" in hint


def test_softmax_file(tmp_path: Path) -> None:
    path = foreign(tmp_path / "s.hdf5", {"softmax/W": random(9, 4), "softmax/b": random(9)})
    assert refused(path)[0] == "this is a weight file (softmax), not embeddings"


def test_keras_file(tmp_path: Path) -> None:
    path = foreign(tmp_path / "k.h5", {"model_weights/dense/kernel": random(9, 4)})
    assert refused(path)[0] == "a Keras model, not embeddings"


def test_foreign_names(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.h5", {"image/left": random(9, 4), "image/right": random(9, 4)})
    what = "an HDF5 file of no known layout (it holds 'image/left', 'image/right')"
    assert refused(path)[0] == what


def test_no_datasets(tmp_path: Path) -> None:
    assert refused(foreign(tmp_path / "a.h5", {}))[0] == "an HDF5 file without datasets"


def test_strings(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.h5", {"0": "text"})
    assert refused(path)[0] == "dataset '0' holds text, embeddings are floats"


def test_integers(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.h5", {"0": np.arange(6).reshape(1, 2, 3)})
    assert refused(path)[0] == "dataset '0' holds int64, embeddings are floats"


def test_rank_4(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.h5", {"0": random(1, 3, 2, DIM)})
    what = f"dataset '0' has 4 axes, shape (1, 3, 2, {DIM}); embeddings have 1 to 3"
    assert refused(path)[0] == what


def test_warm_state(tmp_path: Path) -> None:
    """It lies beside the weights that elmo writes, so somebody will ask what it is."""
    path = foreign(tmp_path / "state.hdf5", {"h": random(2, 2, 1, DIM), "c": random(2, 2, 1, DIM)})
    message, hint = refused(path)
    assert message == "a model's warm state (h, c), neither embeddings nor weights"
    assert "`elmo embed --state warm`" in hint


def test_no_end_mark(tmp_path: Path) -> None:
    """Without it half a file that somebody renamed would be read as a whole one."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        del file.attrs["complete"]
    message, hint = refused(path)
    assert message == "no end mark, its run did not finish"
    assert "--resume" in hint


def test_later_schema_and_unknown_layout(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        file.attrs["layout"] = "cubes"
    assert refused(path)[0] == "unknown layout 'cubes'"
    with h5py.File(path, "a") as file:
        file.attrs["elmo_schema"] = 9
    assert refused(path)[0] == "schema 9, this program reads up to 1"


def test_a_map_that_is_none(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.hdf5", {"0": random(3, 2, DIM)})
    with h5py.File(path, "a") as file:
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = "[1]"
    with open_embeddings(path) as embeddings:
        assert embeddings[0].shape == (3, 2, DIM)
        with pytest.raises(EmbeddingsFileError, match="not a JSON object of lines and numbers"):
            embeddings["a line"]


def test_flat_that_lacks_an_array_or_points_beyond_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with h5py.File(path, "a") as file:
        file["offsets"][12] = 10**6
    with (
        open_embeddings(path) as embeddings,
        pytest.raises(EmbeddingsFileError, match=r"position 11 is rows \d+ to 1000000 of \d+"),
    ):
        embeddings[11]
    with h5py.File(path, "a") as file:
        del file["vectors"]
    with (
        open_embeddings(path) as embeddings,
        pytest.raises(EmbeddingsFileError, match="no dataset `vectors`"),
    ):
        embeddings[0]


# -- processes ------------------------------------------------------------------------------------


def open_of_documents(folder: Path, layout: str) -> Embeddings:
    return open_embeddings(
        write(folder / f"{layout}.hdf5", documents("d", "e", n_places=8), layout=layout)
    )


@pytest.fixture(params=["allennlp", "flat", "e2e-coref"])
def file_of_documents(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with open_of_documents(tmp_path, request.param) as embeddings:
        return embeddings.path


class Items:
    """A data set of sums, as a torch `Dataset` would be; reads in the worker."""

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, number: int) -> float:
        return float(self.embeddings[number].sum())


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more than there are cores
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_data_loader(tmp_path: Path, method: str) -> None:
    """Without it workers would share the parent's handle, which HDF5 doesn't survive."""
    from torch.utils.data import ConcatDataset, DataLoader

    files = [open_of_documents(tmp_path, layout) for layout in ("allennlp", "flat", "e2e-coref")]
    expected = [float(file[number].sum()) for file in files for number in range(16)]
    loader: DataLoader[float] = DataLoader(
        ConcatDataset([Items(file) for file in files]),  # type: ignore[list-item]
        batch_size=4,
        num_workers=2,
        multiprocessing_context=multiprocessing.get_context(method),
    )
    assert [value for batch in loader for value in batch.tolist()] == expected
    for file in files:
        assert float(file[3].sum()) == expected[3]  # the parent goes on reading
        file.close()


def test_a_process_that_is_spawned(tmp_path: Path) -> None:
    """The same without torch, which takes seconds to import in each worker."""
    files = [open_of_documents(tmp_path, layout) for layout in ("allennlp", "flat", "e2e-coref")]
    expected = [float(file[7].sum()) for file in files]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(sum_of_seventh, files) == expected
    for file in files:
        file.close()


def sum_of_seventh(embeddings: Embeddings) -> float:
    return float(embeddings[7].sum())


def test_a_pickle_holds_no_handle(file_of_documents: Path) -> None:
    with open_embeddings(file_of_documents) as embeddings:
        twin = pickle.loads(pickle.dumps(embeddings))
        np.testing.assert_array_equal(twin[5], embeddings[5])
        assert twin.attributes == embeddings.attributes
        twin.close()
        np.testing.assert_array_equal(embeddings[5], embeddings[5])


def test_closed(file_of_documents: Path) -> None:
    embeddings = open_embeddings(file_of_documents)
    embeddings.close()
    with pytest.raises(EmbeddingsFileError, match="closed"):
        embeddings[0]
    file_of_documents.unlink()  # nothing holds it


def test_an_array_outlives_its_file(file_of_documents: Path) -> None:
    """Without it an array of a mapped file would be read-only, or gone with the map."""
    with open_embeddings(file_of_documents) as embeddings:
        first = embeddings[0]
    first += 1
    assert np.isfinite(first).all()


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    program = (
        "import sys; from elmo_cli import open_embeddings\n"
        f"with open_embeddings({str(path)!r}) as e: print(e[1].shape, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"(3, 2, {DIM}) False\n"


def test_opening_lists_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it opening a big file would take as long as listing it, once in every worker."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")

    def listed(*_: object) -> None:
        raise AssertionError("all names were read")

    monkeypatch.setattr("elmo_cli.store.datasets.numbers", listed)
    monkeypatch.setattr(h5py.Group, "__iter__", listed)
    with open_embeddings(path) as embeddings:
        assert (len(embeddings), embeddings.dim, embeddings.n_layers) == (12, DIM, 3)
        assert "A dog" in embeddings
        np.testing.assert_array_equal(embeddings[10], array(lines()[10]))
        with pytest.raises(AssertionError, match="all names"):
            list(embeddings)


def test_two_readers_are_two_things(file_of_documents: Path) -> None:
    """A mapping compares all its values, which for arrays is an error; a cache needs a hash."""
    with open_embeddings(file_of_documents) as one, open_embeddings(file_of_documents) as other:
        assert one == one
        assert one != other
        assert one in [other, one]
        assert len({one, other}) == 2
