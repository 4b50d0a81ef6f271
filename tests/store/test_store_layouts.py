"""Each layout's names, shapes and types, what it refuses, and the checksums of its sentences."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import LINES, array, documents, lines, proteins, write
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import EmbeddingsFileError, InputError, OutputError, UsageError
from elmo_cli.hdf5 import dataset_names
from elmo_cli.store.digests import tokens_digest, tokens_sha256
from elmo_cli.store.layouts import LAYOUTS, UniqueNames, layout_of_spec
from elmo_cli.store.layouts.line_tokens import LineCheck, split_line, split_line_by_digest
from elmo_cli.store.layouts.spool import SpooledText
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

ONTONOTES = "bc/cctv/00/cctv_0000_0"
PART = "bc/cctv/00/cctv_0000_1"


def sentence(key: int, text: str, **more: Any) -> Sentence:
    tokens = tuple(text.split())
    return Sentence(tokens, key, text, source="in.txt", line=key + 1, **more)


def md5(sequence: str) -> str:
    return hashlib.md5(sequence.encode(), usedforsecurity=False).hexdigest()


def datasets(path: Path) -> list[tuple[str, str, str]]:
    """Name, shape and type of every data set, in the order of the file."""
    with h5py.File(path) as file:
        facts = []
        for name in dataset_names(file):
            dataset = file[name]
            shape = ",".join(map(str, dataset.shape))
            facts.append((name, shape, str(dataset.dtype)))
        return facts


TWO = [sentence(0, "a b.c"), sentence(1, "d/e")]
PROTEINS = proteins("P1 MKV", "a/b M", "Q2 MK", "a/c KK")
COREF = documents(ONTONOTES, "x/S", n_places=2)
PARTS = documents(ONTONOTES, PART, n_places=1)
OF_COREF = "bc:cctv:00:cctv_0000_0"
OF_LSGN = "bc:cctv:00:cctv_0000:0=3,1,6 | bc:cctv:00:cctv_0000:1=3,3,6"
LINES_AS_KEYS = {"layout": "allennlp", "keys": "sentence"}
ONE_LAYER = {"layers": None}
POOLED = {"pool": True}
NO_MAP = {"layout": "allennlp", "forget_sentences": True}
# layout, sentences, options of `write`, names with shapes in the order of the file (the dim is 6)
NAMES: list[tuple[str, list[Sentence], dict[str, Any], str]] = [
    ("allennlp", TWO, {}, "0=3,2,6 | 1=3,1,6 | sentence_to_index=1"),
    ("allennlp", TWO, NO_MAP, "0=3,2,6 | 1=3,1,6"),
    ("allennlp", TWO, LINES_AS_KEYS, "a b.c=3,2,6 | d/e=3,1,6"),
    ("bilm", TWO, ONE_LAYER, "0=2,6 | 1=1,6"),
    ("bilm", TWO, POOLED, "0=3,6 | 1=3,6"),
    ("e2e-coref", COREF[:2], {}, f"{OF_COREF}/0=1,6,3 | {OF_COREF}/1=3,6,3"),
    ("e2e-coref", COREF[2:], ONE_LAYER, "x:S/0=5,6,1 | x:S/1=2,6,1"),
    ("e2e-coref", COREF[2:], POOLED, "x:S/0=6,3 | x:S/1=6,3"),
    ("lsgn", COREF, {}, f"{OF_LSGN} | x:S/0=3,5,6 | x:S/1=3,2,6"),
    ("lsgn", PARTS, {}, OF_LSGN),
    ("dygie", COREF[2:], {}, "x/S_0=5,6,3 | x/S_1=2,6,3"),
    ("manylangs", TWO, ONE_LAYER, "a\tb$period$c=2,6 | d$backslash$e=1,6"),
    ("manylangs", TWO, {**ONE_LAYER, **POOLED}, "a\tb$period$c=6 | d$backslash$e=6"),
    ("manylangs", TWO, {"layers": 1}, "a\tb$period$c=2,6 | d$backslash$e=1,6"),
    ("manylangs", TWO, {"layers": 1, **POOLED}, "a\tb$period$c=6 | d$backslash$e=6"),
    ("seqvec", PROTEINS, {}, "P1=3,18 | a/b=1,18 | a/c=2,18 | Q2=2,18"),
    ("seqvec", PROTEINS[:1], ONE_LAYER, "P1=3,6"),
    ("seqvec", PROTEINS[:1], {"layers": 1}, "P1=3,6"),
    ("seqvec", PROTEINS[:1], POOLED, "P1=18"),
    ("seqvec", PROTEINS[:1], {**ONE_LAYER, **POOLED}, "P1=6"),
    ("bio-embeddings", PROTEINS[:1], {}, f"{md5('MKV')}=3,3,6"),
    ("bio-embeddings", PROTEINS[:1], {**ONE_LAYER, **POOLED}, f"{md5('MKV')}=6"),
    ("flat", TWO, {}, "vectors=3,3,6 | offsets=3 | keys=2 | token_bytes=7 | token_ends=3"),
    ("allennlp", [], {}, "sentence_to_index=1"),
    ("bilm", [], {}, ""),
    ("dygie", [], {}, ""),
    ("bilm-types", [], {}, ""),
    ("flat", [], {}, "offsets=1 | keys=0 | token_bytes=0 | token_ends=0"),
]


@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_names_shapes_types(tmp_path: Path, case: tuple[Any, ...], dtype: str) -> None:
    """Another name, axis order or type, and the consumers of the layout find nothing."""
    layout, sentences, options, expected = case
    path = write(tmp_path / "a.hdf5", sentences, **{"layout": layout, "dtype": dtype, **options})
    facts = datasets(path)
    assert " | ".join(f"{name}={shape}" for name, shape, _ in facts) == expected
    kinds = {"sentence_to_index": "object", "token_bytes": "uint8"}
    kinds |= dict.fromkeys(("offsets", "keys", "token_ends"), "int64")
    assert all(kind == kinds.get(name, dtype) for name, _, kind in facts)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["allennlp", "e2e-coref", "flat"])
def test_arrays_of_any_strides(layout: str, dtype: str) -> None:
    """Arrays cut from a batch have their layers apart; their values must not be taken in a row."""
    spec = FileSpec(layout=layout, dtype=dtype)
    made = documents("d")[1]
    n_tokens = len(made.tokens)
    values = array(made)
    batch = np.zeros((3, 9, 6), np.float32)
    batch[:, :n_tokens] = values
    tokens_first = values.transpose(1, 0, 2).copy().transpose(1, 0, 2)
    layout_object = layout_of_spec(spec)
    expected = layout_object.store(made, values, spec)
    for strided in (batch[:, :n_tokens], tokens_first):
        stored = layout_object.store(made, strided, spec)
        assert stored.values.flags.c_contiguous
        assert stored.values.tobytes() == expected.values.tobytes()
        assert stored.crc32 == expected.crc32


@pytest.mark.parametrize("layout", ["dygie", "allennlp"])
def test_groups_that_are_entered_again_keep_the_order(tmp_path: Path, layout: str) -> None:
    """A `/` creates a group, in which a later sentence comes before earlier ones of the file."""
    texts = ["a/x y", "b", "i", "a/z", "c/d/e", "c/f", "c/d/g", "h"]
    made = [sentence(i, text, document=text) for i, text in enumerate(texts)]
    options: dict[str, Any] = {"keys": "sentence"} if layout == "allennlp" else {}
    path = write(tmp_path / "a.hdf5", made, layout=layout, **options)
    with h5py.File(path) as file:
        assert file.attrs["sentence_order"].tolist() == [0, 3, 1, 2, 4, 6, 5, 7]
    with open_embeddings(path) as embeddings:
        assert embeddings.order_is_known
        assert list(embeddings) == (texts if options else [f"{text}_0" for text in texts])
        for (_, values), expected in zip(embeddings.sentences(), made, strict=True):
            np.testing.assert_array_equal(values, array(expected))
            np.testing.assert_array_equal(embeddings[expected.key], array(expected))
    with h5py.File(path, "a") as file:
        file.attrs["sentence_order"] = file.attrs["sentence_order"] * 0
    with pytest.raises(EmbeddingsFileError, match="sentence_order"), open_embeddings(path) as bad:
        list(bad)


def test_flat_columns(tmp_path: Path) -> None:
    """Nothing else says where a sentence is; texts and documents are there only if needed."""
    made = [
        sentence(5, "a  b", document="d", place=2, offset=7),
        sentence(6, "é", document="d", place=3, offset=7),
        sentence(10, "", place=3, offset=3),
        sentence(12, "h i", document="e", place=1),
    ]
    with h5py.File(write(tmp_path / "a.hdf5", made, layout="flat")) as file:
        columns = {name: member[...] for name, member in file.items()}
    rows = [array(sentence).transpose(1, 0, 2) for sentence in made]
    np.testing.assert_array_equal(columns.pop("vectors"), np.concatenate(rows))
    strings = {name: columns.pop(f"{name}_bytes") for name in ("token", "text", "document")}
    assert [value.tobytes().decode() for value in strings.values()] == ["abéhi", "a  b", "dde"]
    assert {name: values.tolist() for name, values in columns.items()} == {
        "offsets": [0, 2, 3, 3, 5],
        "keys": [5, 6, 10, 12],
        "token_ends": [1, 2, 4, 5, 6],
        "text_ends": [4, 4, 4, 4],
        "document_ends": [1, 2, 2, 3],
        "places": [2, 3, 0, 1],
        "part_offsets": [7, 7, 0, 0],
    }


REPEATED = ["b a", 'é\t\x01 "q" \\', "b a", "", "😀 x", "a\ud800", "b a", "", "99"]


@pytest.mark.parametrize("takes_spools", [True, False])
def test_sentence_map(takes_spools: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`json.loads(file["sentence_to_index"][0])` is how every reader of AllenNLP's files begins.

    An h5py that takes the `str` for the text, instead of what it encodes, gets the text itself.
    """
    if not takes_spools:
        monkeypatch.setattr(SpooledText, "encode", str.encode)
    made = [sentence(key, line) for key, line in enumerate(REPEATED)]
    path = write(tmp_path / "a.hdf5", made, layout="allennlp")
    expected = {line: str(key) for key, line in enumerate(REPEATED)}
    with h5py.File(path) as file:
        assert file["sentence_to_index"][0] == json.dumps(expected).encode()
        kind = h5py.check_string_dtype(file["sentence_to_index"].dtype)
        assert kind == h5py.h5t.string_info("utf-8", None)
        assert json.loads(file.attrs["repeated_lines"]) == [[0, 6], [2, 6], [3, 7]]
    with open_embeddings(path) as embeddings:
        assert [embeddings.info(key).text for key in embeddings] == REPEATED
        for expected in made:
            assert embeddings.tokens(expected.key) == expected.tokens
        assert ("99" in embeddings, 99 in embeddings) == (True, False)


def test_a_map_beyond_hdf5_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is complete in all else."""
    monkeypatch.setattr("elmo_cli.store.layouts.allennlp._MAX_MAP_BYTES", 100)
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    assert [name for name, *_ in datasets(path)] == [str(key) for key in range(len(LINES))]


@pytest.mark.parametrize(
    ("tokens", "text", "words"),
    [
        (("10 000", "roses"), "10 000 roses", "has tokens that contain spaces"),
        (("can", "n't"), "cann't", "has another text than its tokens"),
    ],
)
def test_a_warning_says_why_tokens_are_lost(tokens: tuple[str, ...], text: str, words: str) -> None:
    check = LineCheck(pooled=False)
    check.add(Sentence(("a", "b"), 0, "a b"))
    assert check.warning() == ""
    check.add(Sentence(tokens, 1, text))
    check.add(Sentence(("x", "y"), 2, "xyz"))
    expected = f"tokens of 2 sentences are not recorded: sentence 1 (`{text}`) {words}"
    assert expected in check.warning()


TOKENS = st.lists(st.text("ab \t\u00a0", max_size=3), max_size=4)


@given(st.lists(TOKENS, max_size=3), st.booleans())
def test_text_is_tokens_is_never_said_wrongly(texts: list[list[str]], pooled: bool) -> None:
    """JSON lines and CoNLL-U may hold `10 000`; its parts would be embedded, or kept as tokens."""
    check = LineCheck(pooled=pooled)
    for key, tokens in enumerate(texts):
        check.add(Sentence(tuple(tokens), key, " ".join(tokens)))
    for tokens in texts if check.are_tokens else ():
        line = " ".join(tokens)
        n_tokens = None if pooled else len(tokens)
        assert (tokens and not line) or split_line(line, n_tokens) == tuple(tokens)
    plain = all(token.split() == [token] for tokens in texts for token in tokens)
    assert check.are_tokens or not plain


@given(TOKENS, st.text("ab \t\u00a0"))
def test_tokens_of_a_single_line_are_never_wrong(tokens: list[str], text: str) -> None:
    """In a file some of whose lines are not their tokens, no number of parts proves anything."""
    digest = tokens_digest(tokens)
    assert split_line_by_digest(text, digest) in (None, tuple(tokens))
    if all(token and " " not in token for token in tokens):
        assert split_line_by_digest(" ".join(tokens), digest) == tuple(tokens)


def test_a_token_with_a_space_loses_only_its_own_sentence(tmp_path: Path) -> None:
    """A treebank with one `10 000` must not lose the words of all its other sentences."""
    texts = [["Prices", "rose"], ["10 000", "roses"], [], ["a\u00a0b", "c"], ["10 000", "\u00a0"]]
    made = [Sentence(tuple(tokens), key, " ".join(tokens)) for key, tokens in enumerate(texts)]
    lost = (1, 4)
    for number, options in enumerate(({}, {"pool": True}, {"keys": "sentence"})):
        written = [sentence for sentence in made if sentence.text or "keys" not in options]
        path = write(tmp_path / f"{number}.hdf5", written, layout="allennlp", **options)
        with open_embeddings(path) as embeddings:
            assert not embeddings.records & {"tokens"}
            for sentence in written:
                key = embeddings.key_of(sentence)
                expected = None if sentence.key in lost else sentence.tokens
                assert embeddings.tokens(key) == expected
                assert embeddings.info(key).text == sentence.text


INVALID_NAMES = (".", "a/./b", "a//b", "/b", "a\0b", "a\ud800", "sentence_to_index")


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ("a b", "a b", "'a b' exists already"),
        ("a/b", "a", "'a' conflicts with an earlier one"),
        ("a", "a/b", "'a/b' conflicts with an earlier one"),
        *[("x", name, f"{name!r} is not a valid HDF5 name") for name in INVALID_NAMES],
        ("x", "ab" * 40_000, f"'{'ab' * 40}…' is not a valid HDF5 name"),
        ("x", "", "a blank line cannot be a key"),
    ],
)
def test_lines_that_cannot_be_keys(first: str, second: str, problem: str) -> None:
    names = UniqueNames(layout_of_spec(FileSpec(keys="sentence")))
    assert names.add(sentence(0, first))
    with pytest.raises(InputError, match=r"^in\.txt, line 2: ") as caught:
        names.add(sentence(1, second))
    assert problem in caught.value.message
    assert caught.value.hint
    assert names.add(sentence(2, "after"))


@pytest.mark.parametrize("keys", [[5, 5], [5, 3], [4, 6, 5]])
def test_numbers_rise(keys: list[int]) -> None:
    """A number twice would be a data set twice, or a column in which nothing is found."""
    names = UniqueNames(LAYOUTS["flat"])
    for key in keys[:-1]:
        assert names.add(sentence(key, "a"))
    with pytest.raises(InputError, match=f"'{keys[-1]}' comes after {keys[-2]}"):
        names.add(sentence(keys[-1], "a"))


@pytest.mark.parametrize("layout", ["e2e-coref", "lsgn", "dygie"])
def test_documents_are_needed_and_unique(layout: str) -> None:
    """Two documents of one key would be stored in one place."""
    names = UniqueNames(LAYOUTS[layout])
    assert names.add(sentence(0, "a", document="d/1", place=0))
    assert names.add(sentence(1, "a", document="d/1", place=1))
    with pytest.raises(InputError, match="exists already") as caught:
        names.add(sentence(2, "b", document="d/1", place=0))
    assert "`doc_key`" in caught.value.hint
    with pytest.raises(UsageError, match="needs documents, this sentence has none"):
        names.add(sentence(3, "c"))


@pytest.mark.parametrize("token", ["$period$", "and$backslash$or", "a\tb", ""])
def test_tokens_that_manylangs_spells_otherwise(token: str) -> None:
    """Without it `$period$` and `.` would be equal sentences, of which one is left out."""
    with pytest.raises(InputError):
        UniqueNames(LAYOUTS["manylangs"]).add(Sentence((token,), 0))
    with pytest.raises(InputError, match="the key '' is empty"):
        UniqueNames(LAYOUTS["manylangs"]).add(Sentence((), 0))


@pytest.mark.parametrize(
    ("spec", "values", "error"),
    [
        ({"layout": "flat"}, np.zeros((3, 1, 4)), UsageError),
        ({"layout": "allennlp"}, np.zeros(4), UsageError),
        ({"layout": "manylangs"}, np.zeros((3, 2, 4)), UsageError),
        ({"layout": "bilm-types"}, np.zeros((3, 2, 4)), UsageError),
        ({"layout": "bilm", "run_settings": {"pool": "mean"}}, np.zeros((3, 2, 4)), UsageError),
        ({"layout": "bilm", "dtype": "float16"}, np.full((2, 4), 70_000), OutputError),
        ({"layout": "bilm"}, np.full((2, 4), 1e39), OutputError),
        ({"layout": "flat", "dtype": "int8"}, np.full((2, 4), -np.inf), OutputError),
    ],
)
def test_arrays_that_are_refused(
    spec: dict[str, Any], values: np.ndarray, error: type[Exception]
) -> None:
    """A value beyond float16 would be stored as infinity, other tokens would shift the rest."""
    made = FileSpec(**spec)
    with pytest.raises(error) as caught:
        layout_of_spec(made).store(sentence(0, "a b"), values, made)
    assert caught.value.hint  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "allenlp"},
        {"layout": "bilm", "keys": "x"},
        {"layout": "bilm", "dtype": "int4"},
        {"layout": "bilm", "dtype": "int8"},
        {"layout": "bilm", "keys": "sentence"},
        {"layout": "flat", "forget_sentences": True},
        {"layout": "flat", "sentence_map": "occurrences"},
        {"forget_sentences": True, "sentence_map": "occurrences"},
        {"keys": "sentence", "sentence_map": "occurrences"},
    ],
)
def test_settings_that_cannot_be_combined(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        layout_of_spec(FileSpec(**options))
    assert caught.value.hint


def test_digests_of_tokens_depend_on_the_tokens_alone() -> None:
    """`elmo train` finds embeddings by them, whatever file and format they come from."""
    different = [(), ("",), ("", ""), ("a", "b"), ("ab",), ("b", "a"), ("a", "b", ""), ("\ud800",)]
    assert len({tokens_digest(tokens) for tokens in different}) == len(different)
    assert tokens_digest(("a", "b")).hex() == tokens_digest(["a", "b"]).hex()
    known = struct.pack("<3Q", 2, 1, 3) + "écat".encode()  # as SCHEMA.md says
    assert tokens_digest(("é", "cat")) == hashlib.blake2b(known, digest_size=8).digest()
    assert tokens_sha256(tokens_digest(("a",))) != tokens_sha256(b"")
