"""convert: layouts, dtypes and layers into each other, and what a file does not record."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import BARE, DIM, FILES, NESTED, array, documents, foreign, lines, made, write

from elmo_cli.errors import ElmoError, EmbeddingsFileError, OutputError, UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.derived_file import write_derived_file
from elmo_cli.store.inspection import verify
from elmo_cli.store.intact_sentence import IntactSentence
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


def with_own_first_token(sentence: Sentence) -> Sentence:
    """A sentence that differs from all others."""
    tokens = (f"{sentence.key}.", *sentence.tokens[1:])
    return replace(sentence, tokens=tokens, text=" ".join(tokens))


DOCUMENTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_12", "x")
PARTS = [with_own_first_token(sentence) for sentence in DOCUMENTS]
TOP: dict[str, Any] = {"layers": None, "run_settings": {"layers": "top"}}
# What our own file of PARTS records; lsgn's names for OntoNotes do not say which part it is.
RECORDS = {
    "allennlp": {"tokens", "lines"},
    "bilm": set(),
    "bilm-types": {"vectors of types"},
    "e2e-coref": {"document"},
    "lsgn": set(),
    "dygie": {"document"},
    "manylangs": {"tokens", "lines"},
    "seqvec": {"document"},
    "bio-embeddings": {"document"},
    "flat": {"tokens", "lines", "document", "part offset"},
}
# Each is a document of one sentence, as the layouts of proteins need.
PROTEINS = [replace(s, document=f"P{s.key}", place=0, offset=0) for s in PARTS]


def one_layer(path: Path, layout: str, sentences: list[Sentence] = PARTS, **options: Any) -> Path:
    """A file of one layer of PARTS in a layout."""
    if layout == "bilm-types":
        return made(path, "bilm-types")
    return write(path, sentences, layout=layout, **{**TOP, **options})


def refused(kind: type[ElmoError], path: Path, *parts: str, **asked: Any) -> None:
    """Convert, expect an error with these parts, and nothing left of the output."""
    before = sorted(path.parent.iterdir())
    with pytest.raises(kind) as caught:
        convert(path, path.with_name("out.hdf5"), **asked)
    assert all(part in caught.value.message for part in parts), caught.value.message
    assert caught.value.hint
    assert sorted(path.parent.iterdir()) == before


@pytest.mark.parametrize(("source", "target"), list(product(LAYOUTS, LAYOUTS)))
def test_a_layout_becomes_every_other(tmp_path: Path, source: str, target: str) -> None:
    """The result is the file that a run of the other layout writes, to the last attribute; or it
    is refused with what is not recorded, since its readers could not use it."""
    of_proteins = {source, target} & {"seqvec", "bio-embeddings"}
    sentences = PROTEINS if of_proteins else PARTS
    path = one_layer(tmp_path / "a.hdf5", source, sentences)
    needs = LAYOUTS[target].needs - {"one layer", "text order"}
    assert needs <= RECORDS["flat"]  # a word that is misspelled would refuse every conversion
    missing = set() if source == target else needs - RECORDS[source]
    if (source == "bilm-types") != (target == "bilm-types"):
        missing = {"vectors of"}
    if missing:
        return refused(UsageError, path, f"{path}: ", target, *missing, layout=target)
    convert(path, tmp_path / "b.hdf5", layout=target)
    known = sentences
    if "document" not in RECORDS[source]:
        known = [replace(s, document=None, place=0, offset=0) for s in sentences]
    if target != source:
        forget = target == "allennlp" and "lines" not in RECORDS[source]
        path = one_layer(tmp_path / "c.hdf5", target, known, forget_sentences=forget)
    assert (tmp_path / "b.hdf5").read_bytes() == path.read_bytes()
    return None


A_SHARD = {"layout": "flat", "first_sentence": 5, "run_settings": {"shard": "2/3"}}
COPIED: dict[str, tuple[list[Sentence], dict[str, Any]]] = FILES | {
    "int8, pooled": (NESTED, {"layout": "flat", "dtype": "int8", "pool": True}),
    "no tokens": ([replace(s, text=f"x{s.text}") for s in BARE], {"layout": "allennlp"}),
    "a shard": (lines()[5:], A_SHARD),
    "empty": ([], {"layout": "flat"}),
    "pooled, without tokens": (lines(), {"layout": "bilm", "pool": True}),
}


@pytest.mark.parametrize("case", COPIED)
def test_a_copy_has_the_same_bytes(tmp_path: Path, case: str) -> None:
    """Keys, order, lines, digests, counts of what was left out or the shard could be lost."""
    path = made(tmp_path / "a.hdf5", case, COPIED)
    convert(path, tmp_path / "b.hdf5")
    assert (tmp_path / "b.hdf5").read_bytes() == path.read_bytes()


KEPT = [replace(sentence, key=key) for key, sentence in enumerate(BARE)]
AGAIN = [replace(KEPT[key], key=len(KEPT) + i) for i, key in enumerate((4, 1))]


@pytest.mark.parametrize(
    ("source", "sentences", "target", "expected"),
    [("dygie", NESTED, "e2e-coref", NESTED), ("manylangs", [*KEPT, *AGAIN], "flat", KEPT)],
)
def test_what_only_the_old_layout_records_is_left_out(
    tmp_path: Path, source: str, sentences: list[Sentence], target: str, expected: list[Sentence]
) -> None:
    """An order of other names would be believed, and sentences that nobody left out be missed."""
    path = write(tmp_path / "a.hdf5", sentences, layout=source, layers=None)
    convert(path, tmp_path / "b.hdf5", layout=target)
    whole = write(tmp_path / "c.hdf5", expected, layout=target, layers=None)
    assert (tmp_path / "b.hdf5").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("stored", "target", "dtype"),
    [("int8", "bilm", "float32"), ("float16", "bilm", "float16"), ("int8", "flat", "int8")],
)
def test_the_dtype_is_kept_if_the_layout_can(
    tmp_path: Path, stored: str, target: str, dtype: str
) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype=stored)
    assert convert(path, tmp_path / "b.hdf5", layout=target)["dtype"] == dtype
    doubles = foreign(tmp_path / "d.hdf5", {"0": np.ones((3, 2, DIM), "f8")})
    assert convert(doubles, tmp_path / "e.hdf5")["dtype"] == "float32"


def test_a_file_without_sentences_lacks_nothing(tmp_path: Path) -> None:
    """The last shards of a small text have none."""
    path = write(tmp_path / "a.hdf5", [], layout="bilm")
    convert(path, tmp_path / "b.hdf5", layout="flat")
    whole = write(tmp_path / "c.hdf5", [], layout="flat")
    assert (tmp_path / "b.hdf5").read_bytes() == whole.read_bytes()


def test_repeated_lines_of_another_program(tmp_path: Path) -> None:
    """Its map is kept, and nobody guesses the lines that it does not have."""
    values = {str(i): np.full((3, 2, DIM), i, "f4") for i in range(3)}
    texts = {"sentence_to_index": ['{"a b": "2", "c d": "1"}']}
    path = foreign(tmp_path / "a.hdf5", values | texts)
    refused(UsageError, path, "tokens", layout="flat")
    convert(path, tmp_path / "b.hdf5", dtype="float16")
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert [embeddings[key].flat[0] for key in ("a b", "c d", 0)] == [2, 1, 0]
        assert [embeddings.tokens(key) for key in range(3)] == [None, ("c", "d"), ("a", "b")]
    assert verify(tmp_path / "b.hdf5").count == 0


@pytest.mark.parametrize("texts", [{"sentence_to_index": ['{"a b": "0", "c d e": "1"}']}, {}])
def test_lines_with_other_words_than_their_vectors_are_not_tokens(
    texts: dict[str, list[str]], tmp_path: Path
) -> None:
    """With subword vectors, for example, the copy would have empty tokens with valid checksums."""
    keys = ("0", "1") if texts else ("a b", "c d e")
    path = foreign(tmp_path / "a.hdf5", {key: np.ones((3, 2, DIM), "f4") for key in keys} | texts)
    refused(UsageError, path, "tokens", layout="flat")


@pytest.mark.parametrize(
    ("dtypes", "layers", "rounded_from"),
    [
        (("float32", "float16", "float16"), None, None),
        (("float16", "int8"), None, "float16"),
        (("int8", "float16", "float32"), None, "int8,float16"),
        (("int8", "float16", "int8", "float32"), None, "int8,float16,int8"),
        (("float16", "float16"), "average", "float16"),
        (("float16", "float16"), "0", None),
    ],
)
def test_each_rounding_is_recorded(
    tmp_path: Path, dtypes: tuple[str, ...], layers: str | None, rounded_from: str | None
) -> None:
    """A comparison with the model has to allow for each rounding."""
    path = write(tmp_path / "0.hdf5", lines(), layout="flat", dtype=dtypes[0])
    for step, dtype in enumerate(dtypes[1:], start=1):
        converted = tmp_path / f"{step}.hdf5"
        convert(path, converted, dtype=dtype, layers=layers)
        path = converted
    with open_embeddings(path) as embeddings:
        assert embeddings.attributes.get("rounded_from") == rounded_from


# Layout, layers, and the weights of the layers 0, 1 and 2 in each layer of the result, or in its
# only one, which then has no axis.
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"layers": None}, {"layers": "top"}),
        ({}, {"layers": "3"}),
        ({}, {"layers": "mix:1,2"}),
        ({"run_settings": {"layers": "0,1,2"}}, {"layers": "top"}),
        ({"pool": True, "run_settings": {"pool": "max"}}, {"layers": "average"}),
        ({}, {"layout": "manylangs"}),
        ({}, {"layout": "manylangs", "layers": "0,1"}),
        ({}, {"layout": "x"}),
        ({}, {"dtype": "float64"}),
        ({}, {"dtype": "int8"}),
    ],
)
def test_refused_settings(tmp_path: Path, options: dict[str, Any], asked: dict[str, str]) -> None:
    """Values of other layers, or infinite ones, would be taken for those that were asked for."""
    settings = options.pop("run_settings", {})
    path = write(tmp_path / "a.hdf5", BARE, layout="allennlp", run_settings=settings, **options)
    if settings.get("pool"):
        with h5py.File(path, "a") as file:
            file.attrs["pool"] = "max"
    refused(UsageError, path, *asked.values(), **asked)


@pytest.mark.parametrize("layers", [None, "0,2", "mix:1,1,1"])
@pytest.mark.parametrize("odd", [(2, 3, DIM), (3, DIM), (4, 3, DIM), (3, 2, DIM + 1)])
def test_an_array_of_another_shape(
    tmp_path: Path, layers: str | None, odd: tuple[int, ...]
) -> None:
    """A sum over its tokens would pass for one over layers."""
    values = {"0": np.ones((3, 2, DIM), "f4"), "1": np.ones(odd, "f4")}
    path = foreign(tmp_path / "a.hdf5", values)
    refused(EmbeddingsFileError, path, f"{path}: sentence 1: shape", layers=layers)


@pytest.mark.parametrize("layout", ["allennlp", "e2e-coref", "flat"])
def test_a_corrupt_source_is_an_error_that_names_the_sentence(tmp_path: Path, layout: str) -> None:
    """A changed value would get a new checksum and could never be found again."""
    path = one_layer(tmp_path / "a.hdf5", layout)
    needle = array(PARTS[4], None).tobytes()
    raw = bytearray(path.read_bytes())
    raw[raw.index(needle) + 7] ^= 1
    path.write_bytes(raw)
    with open_embeddings(path) as embeddings:
        key = list(embeddings)[4]
    refused(EmbeddingsFileError, path, f"{key!r} is corrupt", layout="bilm")
    with h5py.File(path, "a") as file:
        del file.attrs["keys"]
    refused(EmbeddingsFileError, path, "its attributes are not", dtype="float16")


def test_values_that_no_file_of_the_layout_holds(tmp_path: Path) -> None:
    """Infinite values would be written without an error."""
    source = write(tmp_path / "s.hdf5", lines(), layout="bilm")
    refused(OutputError, source, "is beyond float32", layers="mix:1e38,3e38,3e38")
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM)), "1": np.full((3, 2, DIM), 1e6)})
    refused(OutputError, path, f"{path}: sentence 1", "float16", dtype="float16")
    vectors = foreign(tmp_path / "v.hdf5", {"0": np.ones(DIM, "f4"), "1": np.ones(DIM, "f4")})
    refused(UsageError, vectors, f"{vectors}: sentence 0", layout="bilm")
    infinite = foreign(tmp_path / "c.hdf5", {"0": np.full((3, 2, DIM), np.inf, "f4")})
    convert(infinite, tmp_path / "d.hdf5", layers="average")  # they were infinite before
    with open_embeddings(tmp_path / "d.hdf5") as embeddings:
        assert np.isinf(embeddings[0]).all()


@pytest.mark.parametrize(("n_layers", "n_rows"), [(2, 9), (3, 10)])
def test_rows_of_different_shapes_or_of_another_number(
    tmp_path: Path, n_layers: int, n_rows: int
) -> None:
    """Values of a sentence would be read as those of its neighbor."""
    first, second = lines()[:2]
    read = [
        IntactSentence(first, array(first, layers=3)),
        IntactSentence(second, array(second, layers=n_layers)),
    ]
    problem = f"{n_rows} vectors of one shape, found 9 of {4 - n_layers} shapes"
    with pytest.raises(EmbeddingsFileError, match=problem):
        write_derived_file(tmp_path / "a.hdf5", FileSpec(layout="flat"), read, {}, n_rows=n_rows)


COREF = {f"{doc}/{i}": np.full((i + 1, DIM, 3), i, "f4") for doc in ("nw:a:0", "b") for i in (0, 1)}
SPOKEN = {"zebra\tsat": np.zeros((2, DIM), "f4"), "apple\tfell": np.ones((2, DIM), "f4")}
ONTONOTES = {f"nw:{doc}:{i}": np.full((3, 2, DIM), i, "f4") for doc in ("b", "a") for i in (0, 1)}
SAID = {"zebra sat": np.zeros((3, 2, DIM), "f4"), "apple fell": np.ones((3, 2, DIM), "f4")}


@pytest.mark.parametrize(
    ("datasets", "target", "by_name"),
    [
        (COREF, "bilm", "e2e-coref"),
        (ONTONOTES, "allennlp", "lsgn"),
        (SPOKEN, "flat", "manylangs"),
        (SAID, "flat", "allennlp"),
    ],
)
def test_sentences_without_order(
    tmp_path: Path, datasets: dict[str, np.ndarray], target: str, by_name: str
) -> None:
    """The original programs keep no order: numbers would be those of the alphabet, unseen. A file
    that is made from such a file by name has that order, and records that it is not the text's."""
    path = foreign(tmp_path / "a.hdf5", datasets)
    refused(UsageError, path, "text order", layout=target)
    convert(path, tmp_path / "b.hdf5", layout=by_name)
    convert(tmp_path / "b.hdf5", tmp_path / "c.hdf5", dtype="float16")
    for name in ("b", "c"):
        refused(UsageError, tmp_path / f"{name}.hdf5", "text order", layout=target)
        assert verify(tmp_path / f"{name}.hdf5").count == 0


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("manylangs", "bilm", "lacks 3 sentences"),
        ("allennlp, sentences", "flat", "lacks 2 sentences"),
        ("e2e-coref", "dygie", None),
        ("manylangs", "manylangs", None),  # names stay
        ("allennlp, blanks skipped", "flat", None),  # numbers stay
    ],
)
def test_warnings_of_other_keys(tmp_path: Path, name: str, target: str, said: str | None) -> None:
    """New numbers are not those of the text where sentences were left out."""
    sentences, options = FILES[name]
    attributes = {"skipped_sentences": 2} if "allennlp" in name else {}
    path = write(tmp_path / "a.hdf5", sentences, attributes=attributes, **options)
    warnings = convert(path, tmp_path / "b.hdf5", layout=target)["warnings"]
    assert verify(tmp_path / "b.hdf5").listed == []
    if said is None:
        assert warnings == []
    else:
        (warning,) = warnings
        assert said in warning


def test_numbers_of_a_shard_that_is_keyed_by_names(tmp_path: Path) -> None:
    """They begin where the shard begins in the text."""
    path = write(tmp_path / "a", BARE, layout="manylangs", first_sentence=40, **TOP)
    convert(path, tmp_path / "b", layout="flat")
    with open_embeddings(tmp_path / "b") as embeddings:
        assert list(embeddings) == list(range(40, 40 + len(BARE)))


def test_output_paths(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", BARE, layout="allennlp")
    out = tmp_path / "out.hdf5"
    out.write_text("mine")
    refused(OutputError, path, str(out), layout="bilm")
    assert out.read_text() == "mine"
    assert convert(path, out, layout="bilm", overwrite=True)["sentences"] == len(BARE)
    out.unlink()
    out.symlink_to(path)
    before = path.read_bytes()
    refused(UsageError, path, overwrite=True)
    assert path.read_bytes() == before
    with pytest.raises(EmbeddingsFileError, match=r"x\.hdf5: "):
        convert(tmp_path / "x.hdf5", tmp_path / "y.hdf5")


def test_left_out_duplicates_are_counted(tmp_path: Path) -> None:
    sentences = lines(blank=False)
    write(tmp_path / "a.hdf5", sentences, layout="flat", layers=None)
    convert(tmp_path / "a.hdf5", tmp_path / "b.hdf5", layout="manylangs")
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        n_left_out = len(sentences) - len(embeddings)
        assert n_left_out > 0
        assert embeddings.count("duplicate_sentences") == n_left_out
