"""convert: layouts and dtypes into each other, and what is refused for want of knowledge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reader_files import DIM, array, content, documents, foreign, lines, write, write_types

from elmo_cli.errors import EmbeddingsFileError, OutputError, UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.sentence import Sentence

DOCUMENTS = documents("z", "a/b", "c", n_places=4)
PARTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "bc/cnn/00/cnn_0_0")
BARE = lines(blank=False, repeats=False)


@pytest.mark.parametrize(
    ("sentences", "options", "way"),
    [
        (lines(), {"layout": "allennlp"}, ["flat", "allennlp"]),
        (BARE, {"layout": "allennlp", "layers": None}, ["flat", "allennlp"]),
        (lines(blank=False), {"layout": "allennlp"}, ["flat", "allennlp"]),
        (DOCUMENTS, {"layout": "e2e-coref"}, ["lsgn", "e2e-coref"]),
        (DOCUMENTS, {"layout": "e2e-coref"}, ["dygie", "e2e-coref"]),
        (DOCUMENTS, {"layout": "lsgn"}, ["dygie", "lsgn"]),
        (PARTS, {"layout": "e2e-coref"}, ["dygie", "e2e-coref"]),
        (DOCUMENTS, {"layout": "e2e-coref", "pool": True}, ["dygie", "e2e-coref"]),
        (PARTS, {"layout": "flat"}, ["flat"]),
        (PARTS, {"layout": "flat", "dtype": "int8"}, ["flat"]),
        (DOCUMENTS, {"layout": "flat", "dtype": "int8", "layers": None}, ["flat"]),
        (lines(), {"layout": "bilm"}, ["bilm"]),
        (BARE, {"layout": "allennlp", "keys": "sentence"}, ["allennlp"]),
        (PARTS, {"layout": "lsgn"}, ["lsgn"]),
        (lines(blank=False), {"layout": "manylangs", "layers": None}, ["manylangs"]),
    ],
)
def test_there_and_back_again_bit_for_bit(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], way: list[str]
) -> None:
    """Without it a conversion could lose texts, order, axes, attributes or values on its way; where
    a `/` in the names has lost the order, that is told."""
    first = here = write(tmp_path / "0.hdf5", sentences, **options)
    nests = False
    for step, layout in enumerate(way, start=1):
        there = tmp_path / f"{step}.hdf5"
        with open_embeddings(here) as embeddings:
            nests |= getattr(embeddings.sentences, "nests", False)
        done = convert(here, there, layout=layout)
        assert done["layout"] == layout
        assert done["sentences"] == len(open_embeddings(there))
        here = there
    attributes, datasets = content(here)
    assert (("order_lost", True) in attributes) == nests
    assert ([fact for fact in attributes if fact != ("order_lost", True)], datasets) == content(
        first
    )


def test_an_order_that_is_lost_is_lost_for_good(tmp_path: Path) -> None:
    """By way of names a file of numbers would be made in another order than the text's."""
    path = write(tmp_path / "a.hdf5", documents("x/b", "x", "x/a"), layout="dygie")
    convert(path, tmp_path / "b.hdf5", layout="e2e-coref")
    with pytest.raises(UsageError, match="bilm numbers sentences, and their order was lost before"):
        convert(tmp_path / "b.hdf5", tmp_path / "c.hdf5", layout="bilm")


@pytest.mark.parametrize("layout", ["allennlp", "e2e-coref", "lsgn", "dygie", "manylangs", "bilm"])
def test_flat_knows_enough_for_every_layout(tmp_path: Path, layout: str) -> None:
    """A flat file holds tokens, lines and documents, so each layout is that of the text itself."""
    layers = None if layout == "manylangs" else 3
    sentences = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "x")
    sentences = [replace(s, tokens=(f"{s.key}.", *s.tokens[1:])) for s in sentences]
    flat = write(tmp_path / "flat.hdf5", sentences, layout="flat", layers=layers)
    convert(flat, tmp_path / "out.hdf5", layout=layout)
    straight = write(tmp_path / "straight.hdf5", sentences, layout=layout, layers=layers)
    assert content(tmp_path / "out.hdf5") == content(straight)


@pytest.mark.parametrize("source", ["e2e-coref", "lsgn"])
def test_a_colon_in_a_document_key_stays(tmp_path: Path, source: str) -> None:
    """PMID:12 would come out as PMID/12, and nobody finds it under that; `/` may be lost, though,
    and that is told."""
    path = write(tmp_path / "a.hdf5", documents("x", "PMID:12", "PMID:13"), layout=source)
    done = convert(path, tmp_path / "b.hdf5", layout="dygie")
    assert done["warnings"] == [
        f"{path}: the `:` in document keys like PMID:12 may have been `/`, and is kept"
    ]
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert "PMID:12_0" in list(embeddings)
    assert convert(path, tmp_path / "c.hdf5")["warnings"] == []
    parts = write(tmp_path / "d.hdf5", PARTS, layout="e2e-coref")
    assert convert(parts, tmp_path / "e.hdf5", layout="dygie")["warnings"] == []
    with open_embeddings(tmp_path / "e.hdf5") as embeddings:
        assert "bc/cctv/00/cctv_0000_1_0" in list(embeddings)
    short = write(tmp_path / "f.hdf5", documents("nw/wsj_0001_1"), layout="e2e-coref")
    convert(short, tmp_path / "g.hdf5", layout="dygie")
    with open_embeddings(tmp_path / "g.hdf5") as embeddings:
        assert "nw/wsj_0001_1_0" in list(embeddings)


def test_repeated_lines_get_their_tokens_back(tmp_path: Path) -> None:
    """The map names only the last of equal lines; vectors of the token layer tell the others."""
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    convert(path, tmp_path / "flat.hdf5", layout="flat")
    with open_embeddings(tmp_path / "flat.hdf5") as embeddings:
        assert [embeddings.tokens(s.key) for s in lines()] == [s.tokens for s in lines()]


def test_repeated_lines_that_nothing_tells_apart_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        file["3"][0] = 7
    with pytest.raises(UsageError, match="the line of sentence 3 occurs again"):
        convert(path, tmp_path / "flat.hdf5", layout="flat")
    assert not (tmp_path / "flat.hdf5.part").exists()


def test_dtype(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    assert convert(path, tmp_path / "b.hdf5", dtype="float16")["dtype"] == "float16"
    half = write(tmp_path / "c.hdf5", lines(), layout="allennlp", dtype="float16")
    assert content(tmp_path / "b.hdf5") == content(half)
    assert convert(half, tmp_path / "d.hdf5")["dtype"] == "float16"


def test_values_that_float16_cannot_hold(tmp_path: Path) -> None:
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM)), "1": np.full((3, 2, DIM), 1e6)})
    with pytest.raises(OutputError) as caught:
        convert(path, tmp_path / "b.hdf5", dtype="float16")
    assert caught.value.message == f"{path}: sentence 1: a value is beyond float16"
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("top", lambda values: values[2]),
        ("0", lambda values: values[0]),
        ("average", lambda values: values.mean(0, dtype=np.float32)),
    ],
)
def test_one_layer_for_manylangs(tmp_path: Path, layers: str, expected: Any) -> None:
    path = write(tmp_path / "a.hdf5", lines(blank=False), layout="allennlp")
    done = convert(path, tmp_path / "b.hdf5", layout="manylangs", layers=layers)
    assert done["sentences"] == len(BARE)
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert embeddings.attributes["layers"] == layers
        assert embeddings.attributes["duplicates"] == 3
        for sentence in BARE:
            np.testing.assert_array_equal(embeddings[sentence.text], expected(array(sentence)))


def test_layers_have_the_numbers_of_the_model(tmp_path: Path) -> None:
    """A file with layers 0 and 2: layer 2 is its second, and its last need not be the top."""
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm", layers=2, header={"layers": "0,2"})
    convert(path, tmp_path / "b.hdf5", layers="2")
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        np.testing.assert_array_equal(embeddings[0], array(lines()[0], 2)[1:])
    for layers in ("1", "top", "average", "x", "0,1", "mix:1,2"):
        with pytest.raises(UsageError, match=f"--layers {layers}: it has layers 0, 2"):
            convert(path, tmp_path / "c.hdf5", layers=layers)


@pytest.mark.parametrize("layout", ["allennlp", "flat"])
@pytest.mark.parametrize(
    ("layers", "name", "expected"),
    [
        (" 2, 0", "2,0", lambda values: values[[2, 0]]),
        ("1", "1", lambda values: values[1:2]),
        ("all", "all", lambda values: values),
        (
            "mix:0.25,-0.5,1",
            "mix:0.25,-0.5,1",
            lambda values: np.float32(0.25) * values[0] - np.float32(0.5) * values[1] + values[2],
        ),
        (
            "mix: 0, 1, 3, 0.5",
            "mix:0,1,3,0.5",
            lambda values: np.float32(0.5) * values[1] + np.float32(1.5) * values[2],
        ),
    ],
)
def test_some_layers_or_a_mix(
    tmp_path: Path, layout: str, layers: str, name: str, expected: Any
) -> None:
    """What a task has learned of the layers makes a small file of a large one, without a model."""
    header = {"layers": "all"}
    path = write(tmp_path / "a.hdf5", lines(), layout=layout, header=header)
    convert(path, tmp_path / "b.hdf5", layers=layers)
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert embeddings.attributes["layers"] == name
        assert len(embeddings) == len(lines())
        for k, sentence in enumerate(lines()):
            wanted = expected(array(sentence))
            assert embeddings[k].shape == wanted.shape
            assert embeddings[k].dtype == np.float32
            np.testing.assert_allclose(embeddings[k], wanted, rtol=1e-6, atol=1e-6)


def test_a_mix_beyond_the_type_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with pytest.raises(OutputError, match="a value is beyond float16"):
        convert(path, tmp_path / "b.hdf5", dtype="float16", layers="mix:1e6,1e6,1e6")
    for dtype in ("float32", "int8"):
        with pytest.raises(UsageError, match=r"--layers mix:3e38,.*: a value is beyond float32"):
            convert(path, tmp_path / "b.hdf5", dtype=dtype, layers="mix:3e38,3e38,3e38")
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_average_beyond_the_type_is_told(tmp_path: Path) -> None:
    """Of values that are finite; what was infinite before goes over as it is."""
    large = np.full((3, 2, DIM), 3e38, "f4")
    path = foreign(tmp_path / "a.hdf5", {"0": large})
    with pytest.raises(UsageError, match=r"--layers average: a value is beyond float32"):
        convert(path, tmp_path / "b.hdf5", layers="average")
    infinite = foreign(tmp_path / "c.hdf5", {"0": np.full((3, 2, DIM), np.inf, "f4")})
    convert(infinite, tmp_path / "d.hdf5", layers="average")
    with open_embeddings(tmp_path / "d.hdf5") as embeddings:
        assert np.isinf(embeddings[0]).all()


@pytest.mark.parametrize("odd", [(2, 3, DIM), (3, DIM), (4, 3, DIM)])
@pytest.mark.parametrize("layers", ["0,2", "2", "top", "average", "mix:1,1,1"])
def test_a_sentence_with_other_layers_is_damage(
    tmp_path: Path, layers: str, odd: tuple[int, ...]
) -> None:
    """A sum over its tokens would pass for one over layers."""
    values = {"0": np.ones((3, 2, DIM), "f4"), "1": np.ones(odd, "f4")}
    path = foreign(tmp_path / "a.hdf5", values)
    with pytest.raises(EmbeddingsFileError, match=r"sentence 1: shape .*, others have 3 layers"):
        convert(path, tmp_path / "b.hdf5", layers=layers)
    assert sorted(tmp_path.iterdir()) == [path]


def test_foreign_files(tmp_path: Path) -> None:
    """Files of other programs have no attributes; dims and axes are enough."""
    values = {f"d/{i}": np.random.default_rng(i).standard_normal((i + 1, DIM, 3)) for i in range(3)}
    path = foreign(tmp_path / "a.hdf5", {k: v.astype("f4") for k, v in values.items()})
    convert(path, tmp_path / "b.hdf5", layout="dygie")
    with h5py.File(tmp_path / "b.hdf5") as file:
        np.testing.assert_array_equal(file["d_2"][()], values["d/2"].astype("f4"))
    proteins = foreign(tmp_path / "p.hdf5", {"P1": np.ones((4, DIM), "f4")})
    done = convert(proteins, tmp_path / "q.hdf5", layout="allennlp")
    assert done["sentence_map"] is True
    with open_embeddings(tmp_path / "q.hdf5") as embeddings:
        assert embeddings["P1"].shape == (4, DIM)


def test_types(tmp_path: Path) -> None:
    path = write_types(tmp_path / "a.hdf5", 4)
    convert(path, tmp_path / "b.hdf5", dtype="float16")
    half = write_types(tmp_path / "c.hdf5", 4, dtype="float16")
    assert content(tmp_path / "b.hdf5") == content(half)
    others = foreign(tmp_path / "d.hdf5", {"embedding": np.ones((4, DIM), "f4")})
    assert convert(others, tmp_path / "e.hdf5")["tokens"] == 4  # and not 0


def test_without_a_map_there_is_none_afterwards(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    assert convert(path, tmp_path / "b.hdf5", layout="allennlp")["sentence_map"] is False
    plain = write(tmp_path / "c.hdf5", lines(), layout="allennlp", forget_sentences=True)
    assert content(tmp_path / "b.hdf5") == content(plain)


SPOKEN = [s for s in lines(blank=False) if "/" not in s.text]


@pytest.mark.parametrize(
    ("sentences", "options", "layout", "why"),
    [
        (
            SPOKEN,
            {"layout": "manylangs", "layers": None, "attributes": {"left_out": 1}},
            "bilm",
            "3 sentences equal to another and 1 sentence blank or not to be read",
        ),
        (
            [s for s in BARE if "/" not in s.text],
            {"layout": "allennlp", "keys": "sentence", "attributes": {"left_out": 2}},
            "flat",
            "2 sentences blank or not to be read",
        ),
    ],
)
def test_numbers_that_are_not_those_of_the_lines_are_told(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], layout: str, why: str
) -> None:
    """Sentences were left out, so from there on keys are others than those of the text."""
    path = write(tmp_path / "a.hdf5", sentences, **options)
    assert convert(path, tmp_path / "b.hdf5", layout=layout)["warnings"] == [
        f"{path}: made without {why}, so keys count the sentences of this file, not those of the "
        "text"
    ]
    assert list(open_embeddings(tmp_path / "b.hdf5")) == list(range(len(open_embeddings(path))))
    assert convert(path, tmp_path / "c.hdf5")["warnings"] == []


def test_a_shard_stays_that_shard(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.hdf5",
        lines()[5:],
        layout="allennlp",
        first_sentence=5,
        header={"shard": "2/3"},
    )
    convert(path, tmp_path / "b.hdf5", layout="bilm")
    straight = write(
        tmp_path / "c.hdf5", lines()[5:], layout="bilm", first_sentence=5, header={"shard": "2/3"}
    )
    assert content(tmp_path / "b.hdf5") == content(straight)


def test_counted_tokens_of_pooled_files_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", DOCUMENTS, layout="e2e-coref", pool=True)
    assert convert(path, tmp_path / "b.hdf5", layout="bilm")["tokens"] == sum(
        len(sentence.tokens) for sentence in DOCUMENTS
    )


def test_numbers_need_no_part_of_a_document(tmp_path: Path) -> None:
    """lsgn's keys for OntoNotes lack the part; keys that are numbers do not tell of documents."""
    path = write(tmp_path / "a.hdf5", PARTS, layout="lsgn")
    convert(path, tmp_path / "b.hdf5", layout="bilm")
    with open_embeddings(path) as before, open_embeddings(tmp_path / "b.hdf5") as after:
        assert list(after) == list(range(len(PARTS)))
        for number in after:
            np.testing.assert_array_equal(after[number], before[number])


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentences", "options", "asked", "message"),
    [
        (
            lines(),
            {"layout": "allennlp"},
            {"layout": "e2e-coref"},
            "sentence 0: e2e-coref is keyed by documents, this allennlp file knows none",
        ),
        (
            lines(),
            {"layout": "bilm"},
            {"layout": "flat"},
            "sentence 0: flat holds tokens, this bilm file doesn't tell them",
        ),
        (
            lines(),
            {"layout": "allennlp", "pool": True, "layers": None},
            {"layout": "flat"},
            "sentence 0: flat holds tokens, this allennlp file doesn't tell them",
        ),
        (
            DOCUMENTS,
            {"layout": "dygie"},
            {"layout": "manylangs", "layers": "top"},
            "sentence 0: manylangs holds tokens, this dygie file doesn't tell them",
        ),
        (
            PARTS,
            {"layout": "lsgn"},
            {"layout": "e2e-coref"},
            "sentence 0: its key doesn't tell the document's part, which e2e-coref needs",
        ),
        (
            PARTS,
            {"layout": "e2e-coref"},
            {"layout": "lsgn"},
            "sentence 0: lsgn counts the sentences of bc/cctv/00/cctv_0000_0 from the document's "
            "first part on, e2e-coref doesn't tell where this part begins",
        ),
        (
            lines(),
            {"layout": "allennlp"},
            {"layout": "manylangs"},
            "manylangs holds one layer a file, this one has 3",
        ),
        (
            lines(),
            {"layout": "allennlp", "layers": None},
            {"layers": "top"},
            "--layers top: it has but one layer",
        ),
        (lines(), {"layout": "allennlp"}, {"layers": "3"}, "--layers 3: it has layers 0, 1, 2"),
        (lines(), {"layout": "allennlp"}, {"layers": ""}, "--layers : it has layers 0, 1, 2"),
        (
            lines(),
            {"layout": "allennlp"},
            {"layers": "1" * 5000},
            f"--layers {'1' * 5000}: not a choice of layers",
        ),
        (
            lines(),
            {"layout": "allennlp", "header": {"layers": "0,1,2"}},
            {"layers": "top"},
            "--layers top: it has layers 0, 1, 2, chosen from those of its model",
        ),
        (lines(), {"layout": "flat"}, {"layers": "1,1"}, "--layers 1,1: a layer is named twice"),
        (
            lines(),
            {"layout": "flat"},
            {"layers": "mix:1,2"},
            "--layers mix:1,2: 2 numbers, the file needs 3 weights, and gamma if you like",
        ),
        (
            BARE,
            {"layout": "allennlp"},
            {"layout": "manylangs", "layers": "0,1"},
            "--layers 0,1: manylangs holds one layer a file",
        ),
        (
            lines(),
            {"layout": "allennlp"},
            {"layout": "bilm-types"},
            "allennlp can't become bilm-types: one holds vectors of types, the other those of "
            "sentences",
        ),
        (lines(), {"layout": "allennlp"}, {"layout": "x"}, "no layout 'x' can be written"),
        (
            documents("a/b", "c", "a/d"),
            {"layout": "dygie"},
            {"layout": "bilm"},
            "bilm numbers sentences, and a `/` in the keys of this file has lost their order",
        ),
        (
            BARE,
            {"layout": "allennlp", "keys": "sentence"},
            {"layout": "flat"},
            "flat numbers sentences, and a `/` in the keys of this file has lost their order",
        ),
    ],
)
def test_refused(
    tmp_path: Path,
    sentences: list[Sentence],
    options: dict[str, Any],
    asked: dict[str, str],
    message: str,
) -> None:
    """Without it a file would be written that its reader can't use; nothing may be left of it."""
    path = write(tmp_path / "a.hdf5", sentences, **options)
    with pytest.raises(UsageError) as caught:
        convert(path, tmp_path / "b.hdf5", **asked)
    assert caught.value.message == f"{path}: {message}"
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == [path]


COREF = {f"{doc}/{i}": np.full((i + 1, DIM, 3), i, "f4") for doc in ("nw:a:0", "b") for i in (0, 1)}
SPOKEN_FIRST = {"zebra\tsat": np.zeros((2, DIM), "f4"), "apple\tfell": np.ones((2, DIM), "f4")}
ONTONOTES = {f"nw:{doc}:{i}": np.full((3, 2, DIM), i, "f4") for doc in ("b", "a") for i in (0, 1)}
SAID = {"zebra sat": np.zeros((3, 2, DIM), "f4"), "apple fell": np.ones((3, 2, DIM), "f4")}
PROTEINS = {"P2": np.zeros((2, DIM), "f4"), "P1": np.ones((2, DIM), "f4")}


@pytest.mark.parametrize(
    ("datasets", "target", "by_name"),
    [
        (COREF, "allennlp", "dygie"),
        (COREF, "bilm", "e2e-coref"),
        (ONTONOTES, "allennlp", "lsgn"),
        (SPOKEN_FIRST, "flat", "manylangs"),
        (SPOKEN_FIRST, "allennlp", "manylangs"),
        (SAID, "flat", "allennlp"),
        (PROTEINS, "allennlp", None),
    ],
)
def test_files_without_order_get_no_numbers(
    tmp_path: Path, datasets: dict[str, np.ndarray], target: str, by_name: str | None
) -> None:
    """The original programs keep no order: numbers would be those of the alphabet, unseen. What is
    made of such a file by name keeps that order, and is no better for it."""
    path = foreign(tmp_path / "a.hdf5", datasets)
    sources = [path]
    if by_name is not None:
        convert(path, tmp_path / "b.hdf5", layout=by_name)
        convert(tmp_path / "b.hdf5", tmp_path / "c.hdf5", dtype="float16")
        sources += [tmp_path / "b.hdf5", tmp_path / "c.hdf5"]
    for source in sources:
        with pytest.raises(UsageError) as caught:
            convert(source, tmp_path / "out.hdf5", layout=target)
        why = "their order was lost before this file was made"
        if source is path:
            why = "this file lists them by name, not in the order of the text"
        assert caught.value.message == f"{source}: {target} numbers sentences, and {why}"
        assert f"`elmo embed --layout {target}`" in caught.value.hint
        assert ("e2e-coref, lsgn, dygie" in caught.value.hint) == (
            by_name in ("e2e-coref", "lsgn", "dygie")
        )
        assert not (tmp_path / "out.hdf5").exists()
    kept = foreign(tmp_path / "kept.hdf5", datasets, track_order=True)
    convert(kept, tmp_path / "out.hdf5", layout=target)
    with open_embeddings(tmp_path / "out.hdf5") as numbered, open_embeddings(kept) as named:
        assert "order_lost" not in numbered.attributes
        for number, key in enumerate(named):
            np.testing.assert_array_equal(numbered[number].squeeze(), named[key].squeeze())


@pytest.mark.parametrize(
    "names", [[f"d/{i}" for i in range(12)], [f"nw:d:{i}" for i in range(12)], ["a\tb"]]
)
def test_the_numbers_of_one_document_tell_its_order(tmp_path: Path, names: list[str]) -> None:
    """Nor is there any order of a single sentence to lose."""
    axes = (2, DIM, 3) if "/" in names[0] else (2, DIM) if "\t" in names[0] else (3, 2, DIM)
    path = foreign(tmp_path / "a.hdf5", {n: np.full(axes, k, "f4") for k, n in enumerate(names)})
    convert(path, tmp_path / "b.hdf5", layout="allennlp")
    with open_embeddings(tmp_path / "b.hdf5") as embeddings:
        assert [embeddings[number].flat[0] for number in embeddings] == list(range(len(names)))


def test_names_without_a_layout_need_one(tmp_path: Path) -> None:
    path = foreign(tmp_path / "p.hdf5", {"P1": np.ones((4, DIM), "f4")})
    with pytest.raises(UsageError, match="no layout 'named' can be written"):
        convert(path, tmp_path / "q.hdf5")


def test_output_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    out = tmp_path / "b.hdf5"
    out.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        convert(path, out, layout="bilm")
    assert out.read_text() == "mine"
    convert(path, out, layout="bilm", overwrite=True)
    assert len(open_embeddings(out)) == len(lines())


def test_output_that_is_the_input(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    (tmp_path / "b.hdf5").symlink_to(path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is the file to convert"):
        convert(path, tmp_path / "b.hdf5", overwrite=True)
    assert path.read_bytes() == before


def test_input_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingsFileError, match="no such file"):
        convert(tmp_path / "a.hdf5", tmp_path / "b.hdf5")
