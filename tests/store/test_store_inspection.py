"""What `elmo inspect` reports: facts and problems of a file, and how it differs from its text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import (
    BARE,
    DIM,
    FILES,
    ONE,
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
from make_weights import MODELS, weight_arrays, write_arrays

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.inspection import (
    MAX_LISTED,
    compare_with_text,
    describe,
    python_example,
    take_sample,
    verify,
)
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

N_TOKENS = sum(len(sentence.tokens) for sentence in lines())


def test_facts_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    facts = describe(path)
    attributes = facts.pop("attributes")
    assert facts == {
        "kind": "embeddings",
        "path": str(path),
        "bytes": path.stat().st_size,
        "layout": "allennlp",
        "complete": True,
        "sentences": 12,
        "tokens": N_TOKENS,
        "n_layers": 3,
        "dim": DIM,
        "dtype": "float32",
        "sentence_map": True,
        "checksums": True,
        "sources": [["in.txt", 0]],
        "samples": [
            {"key": 0, "shape": [3, 7, DIM]},
            {"key": 1, "shape": [3, 2, DIM]},
            {"key": 2, "shape": [3, 0, DIM]},
        ],
    }
    assert attributes["state"] == "zero"
    assert not {"sentence_crc32", "token_digests", "repeated_lines"} & attributes.keys()


def test_facts_of_a_file_of_another_program(tmp_path: Path) -> None:
    """Its attributes may have the names of ours."""
    path = foreign(tmp_path / "a.hdf5", {"d/0": np.ones((2, DIM, 3), "f4")})
    with h5py.File(path, "a") as file:
        file.attrs["sources"] = "web"
        file.attrs["tokens"] = "many"
    facts = describe(path)
    assert facts["sources"] is None
    assert (facts["layout"], facts["complete"], facts["tokens"]) == ("e2e-coref", None, None)
    assert facts["samples"] == [{"key": "d:0", "shape": [3, 2, DIM]}]
    assert facts["checksums"] is False


@pytest.mark.parametrize("value", ["abc", "[[1, 2, 3]]", np.arange(3)])
@pytest.mark.parametrize("name", ["tokens", "sources"])
def test_attributes_that_are_not_ours_are_not_facts(name: str, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp")
    with h5py.File(path, "a") as file:
        file.attrs[name] = value
    assert describe(path)[name] is None
    assert len(verify(path).listed) == (name == "tokens")


def test_weights(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "weights.hdf5", weight_arrays(MODELS["tiny"], "tiny"))
    facts = describe(path)
    assert (facts["kind"], facts["weights"]) == ("weights", "biLM")
    assert verify(path).count == 0
    with h5py.File(path, "a") as file:
        file["CNN_proj/b_proj"][2] = np.inf
    assert "CNN_proj/b_proj" in verify(path).listed[0]


def test_an_unfinished_file(tmp_path: Path) -> None:
    """HDF5 could not open it; its log tells what is committed."""
    with EmbeddingsWriter.open(
        tmp_path / "a.hdf5", FileSpec(layout="bilm", run_settings={"state": "x"})
    ) as writer:
        block = lines()[:4]
        arrays = [array(sentence) for sentence in block]
        writer.append_block(block, arrays, text_sha256="")
    part = tmp_path / "a.hdf5.part"
    facts = describe(part)
    assert (facts["kind"], facts["sentences"], facts["tokens"]) == ("unfinished", 4, 11)
    assert (facts["settings"]["state"], facts["is_complete"]) == ("x", False)
    assert verify(part).listed == ["unfinished: 4 sentences committed"]


# -- changed bytes --------------------------------------------------------------------------------


def regions(path: Path) -> Iterator[tuple[int, int, str]]:
    """What holds values, tokens and lines: start and size in bytes, what is to be named."""
    with open_embeddings(path) as embeddings, h5py.File(path) as file:
        reader = embeddings.reader
        for i, handle in enumerate(reader.handles):
            if isinstance(handle, str):
                extents = [(file[handle], 0, len(file[handle]))]
            elif embeddings.unit == "types":
                extents = [(file["embedding"], i, i + 1)]
            else:
                tokens = file["offsets"][i : i + 2].tolist()
                rows = (i, i + 1) if reader.pooled else tokens
                extents = [(file[name], *rows) for name in ("vectors", "scales") if name in file]
                ends = [0, *file["token_ends"][()].tolist()]
                extents.append((file["token_bytes"], *(ends[offset] for offset in tokens)))
            for dataset, begin, end in extents:
                row = dataset.nbytes // max(1, len(dataset))
                if end > begin and row:
                    start = dataset.id.get_offset() + begin * row
                    yield start, (end - begin) * row, embeddings.name_of(handle)
        if "sentence_to_index" in file:
            text = file["sentence_to_index"][0]
            yield path.read_bytes().index(text), len(text), "sentence_to_index"


def change(path: Path, at: int, rng: random.Random) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ rng.randrange(1, 256)]))


@pytest.mark.parametrize("name", FILES)
def test_each_sentence_with_a_changed_byte_is_named(tmp_path: Path, name: str) -> None:
    """Nobody would see a wrong value, and `merge` and `convert` would carry it on."""
    path = made(tmp_path / "a.hdf5", name)
    assert verify(path).listed == []
    own_regions = list(regions(path))
    whole = path.read_bytes()
    rng = random.Random(0)
    assert len(own_regions) >= 5
    for start, size, name_of_region in own_regions:
        change(path, start + rng.randrange(size), rng)
        listed = verify(path).listed
        pattern = re.compile(rf"{re.escape(name_of_region)}:? ")
        assert any(pattern.search(problem) for problem in listed), (name_of_region, listed)
        path.write_bytes(whole)


def test_every_byte_of_flat_is_under_a_checksum(tmp_path: Path) -> None:
    """One changed byte in any column is found in a sentence near it, whatever it says."""
    texts = [
        (("a", "b"), "a  b", "d"),
        ((), "", None),
        (("é", "c"), "é c", None),
        (("x",), "", "e"),
    ]
    sentences = [
        Sentence(tokens, 3 + 2 * i, text or " ".join(tokens), document=document, place=i, offset=2)
        for i, (tokens, text, document) in enumerate(texts)
    ]
    path = write(tmp_path / "a.hdf5", sentences, layout="flat", dtype="int8")
    with h5py.File(path) as file:
        columns = {name: (data.id.get_offset(), data.nbytes) for name, data in file.items()}
    assert len(columns) == 12
    whole = path.read_bytes()
    rng = random.Random(2)
    for name, (start, size) in columns.items():
        unused = range(8, 24) if name in ("places", "part_offsets") else ()  # without a document
        for index in set(range(0, size, max(1, size // 9))).difference(unused):
            change(path, start + index, rng)
            with suppress(EmbeddingsFileError):  # it cannot even be opened
                assert verify(path).count, (name, index)
            path.write_bytes(whole)


# -- other damage ---------------------------------------------------------------------------------


@pytest.fixture
def allennlp(tmp_path: Path) -> Path:
    return write(tmp_path / "a.hdf5", lines(), layout="allennlp")


def has_other_types(file: h5py.File) -> None:
    for name in list(file):
        if name.isdigit():
            values = file[name][()]
            del file[name]
            file[name] = values.astype("f8") if name != "4" else values[:2].astype("f8")


def has_a_value_that_is_not_finite(file: h5py.File) -> None:
    file["3"][1, 0, 2] = np.nan


def lacks_a_sentence(file: h5py.File) -> None:
    del file["9"]


def has_another_name(file: h5py.File) -> None:
    file.create_dataset("x", data=[1.0])


def has_swapped_sentences(file: h5py.File) -> None:
    file.move("3", "x")
    file.move("4", "3")
    file.move("x", "4")


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (has_a_value_that_is_not_finite, ["not finite: 1 of 36"]),
        (lacks_a_sentence, ["11 sentences", "12 checksums"]),
        (has_another_name, ["'x'"]),
        (has_other_types, ["sentence 4: shape", "float64 values, expected float32"]),
        (has_swapped_sentences, ["sentence 3: corrupt", "sentence 4: corrupt"]),
        (attribute("tokens", 9), ["tokens, its attribute says 9"]),
        (attribute("token_digests", np.zeros(12, "u8")), ["token_digests"]),
    ],
)
def test_other_changes(allennlp: Path, damage: Change, parts: list[str]) -> None:
    with h5py.File(allennlp, "a") as file:
        damage(file)
    listed = verify(allennlp).listed
    for part in parts:
        assert any(part in problem for problem in listed), listed


def test_a_missing_sentence_does_not_make_the_later_ones_corrupt(allennlp: Path) -> None:
    """Which checksum belongs to which sentence is not known then."""
    with h5py.File(allennlp, "a") as file:
        lacks_a_sentence(file)
    listed = verify(allennlp).listed
    assert listed
    assert not any("corrupt" in problem for problem in listed), listed


def test_a_sentence_that_cannot_be_read(allennlp: Path) -> None:
    """Those after it are checked too."""
    with h5py.File(allennlp, "a") as file:
        address = h5py.h5o.get_info(file["3"].id).addr
        file["10"][0, 0, 0] = np.inf
    with allennlp.open("r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 40)
    found = verify(allennlp)
    assert any("'3'" in problem for problem in found.listed)
    assert any("sentence 10: not finite: 1 of" in problem for problem in found.listed)
    assert found.tokens is None


def test_a_file_of_another_program(tmp_path: Path) -> None:
    values = np.full((3, 1, DIM), np.nan, "f4")
    path = foreign(tmp_path / "b.hdf5", {str(i): values for i in range(MAX_LISTED + 9)})
    found = verify(path)
    assert len(found.listed) == MAX_LISTED
    assert found.count == MAX_LISTED + 9
    assert found.tokens == MAX_LISTED + 9


# -- python_example -------------------------------------------------------------------------------

POOLED: dict[str, Any] = {"layout": "flat", "pool": True}
READ: list[tuple[list[Sentence], dict[str, Any], str]] = [
    (lines(), {"layout": "allennlp"}, "layer, token, dim"),
    (lines(repeats=False)[4:], {"layout": "allennlp", "keys": "sentence"}, "layer, token, dim"),
    (documents("a/b'\""), {"layout": "e2e-coref", "layers": None}, "token, dim"),
    (lines(), POOLED, "layer, dim"),
    (lines(), {**POOLED, "layers": None}, "dim"),
]


@pytest.mark.parametrize(("sentences", "options", "axes"), READ)
def test_the_example_reads_the_first_sentence(
    tmp_path: Path, sentences: list[Sentence], options: dict[str, Any], axes: str
) -> None:
    """It is printed to be pasted, so it must run and state the right axes."""
    path = write(tmp_path / "it's.hdf5", sentences, **options)
    program = "\n".join(python_example(path))
    assert f"# axes: {axes}\n" in f"{program}\n"
    expected = array(sentences[0], options.get("layers", 3))
    names: dict[str, Any] = {}
    exec(program, names)
    np.testing.assert_array_equal(
        names["array"], expected.sum(-2) if "pool" in options else expected
    )
    with open_embeddings(path) as embeddings:
        assert names.get("tokens") == embeddings.tokens(next(iter(embeddings)))


def test_a_file_without_sentences_has_no_example(tmp_path: Path) -> None:
    assert python_example(write(tmp_path / "e.hdf5", [], layout="bilm")) == []


# -- compare_with_text -----------------------------------------------------------------------------

COMPARED = [name for name in FILES if name not in ("bilm-types", "bilm, a shard")]


@pytest.mark.parametrize("name", COMPARED)
def test_another_text_is_found_by_its_tokens(tmp_path: Path, name: str) -> None:
    """A text with as many tokens in each sentence would pass for that of the file."""
    sentences, _ = FILES[name]
    path = made(tmp_path / "a.hdf5", name)
    assert compare_with_text(path, sentences).listed == []
    last = sentences[-1]
    other = replace(last, tokens=("x", *last.tokens[1:]))
    if "sentences" in name or name == "manylangs":  # the key is the line, or are the tokens
        other = replace(other, text=" ".join(other.tokens))
    found = compare_with_text(path, [*sentences[:-1], other])
    assert f"sentence {last.key}: " in found.listed[0]
    more = replace(last, key=last.key + 1, place=99, tokens=("more",), text="more")
    assert compare_with_text(path, [*sentences, more]).count == 2
    assert compare_with_text(path, sentences[:-1]).count == 1


def test_a_text_that_repeats_a_line_lacks_another(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", BARE[:2], layout="allennlp", keys="sentence")
    text = [BARE[0], replace(BARE[0], key=1)]
    assert compare_with_text(path, text).listed == ["the text lacks 1 sentence of the file"]


def test_what_differs_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    text = lines()
    text[1] = replace(text[1], tokens=("A", "cat"))
    text[3] = replace(text[3], tokens=("Yes", ",", "yes", "."))
    assert compare_with_text(path, [*text, Sentence(("more",), 12)]).listed == [
        "sentence 1: its tokens are not those of the text: token 1 is `dog`, not `cat`",
        "sentence 3: 2 tokens in the file, 4 in the text",
        "sentence 12: not in the file, 1 token in the text",
        "the file was made from 12 sentences, the text has 13",
    ]


@pytest.mark.parametrize("layout", ["flat", "bilm", "manylangs"])
def test_a_shard_has_its_own_part_of_the_text(tmp_path: Path, layout: str) -> None:
    text = lines(blank=False)
    options = ONE if layout == "manylangs" else {}
    path = tmp_path / "a.hdf5"
    for i, (begin, end) in enumerate([(0, 3), (3, 8), (8, len(text))], start=1):
        write(
            path,
            text[begin:end],
            layout=layout,
            first_sentence=text[begin].key,
            run_settings={"shard": f"{i}/3"},
            **options,
        )
        assert compare_with_text(path, text).listed == []
        wrong = [*text[: end - 1], replace(text[end - 1], tokens=("x",) * 9), *text[end:]]
        assert compare_with_text(path, wrong).count >= 1
        short = compare_with_text(path, text[: end - 1]).listed
        n = end - begin
        made_from = f"the file was made from {n} sentences"
        assert short == [f"{made_from}, the text has {n - 1} for shard {i}/3"]
        if i < 3:
            path.unlink()
    more = compare_with_text(path, [*text, Sentence(("more",), 12)])
    assert "sentence 12: not in the file" in more.listed[0]  # the last shard extends to the end


def test_files_of_other_programs_have_lines_or_counts(tmp_path: Path) -> None:
    values = {str(i): np.ones((3, 2, DIM), "f4") for i in range(2)}
    text = [Sentence(("a", "b"), 0, "a b"), Sentence(("c", "d"), 1, "c d")]
    other = [text[0], Sentence(("c", "e"), 1, "c e")]
    bare = foreign(tmp_path / "a.hdf5", values)
    assert compare_with_text(bare, other).count == 0
    assert compare_with_text(bare, [text[0], Sentence(("c",), 1, "c")]).count == 1
    mapped = foreign(
        tmp_path / "b.hdf5", {**values, "sentence_to_index": ['{"a b": "0", "c d": "1"}']}
    )
    assert compare_with_text(mapped, text).count == 0
    assert compare_with_text(mapped, other).count == 1
    types = foreign(tmp_path / "c.hdf5", {"embedding": np.ones((4, DIM), "f4")})
    with pytest.raises(UsageError, match="records neither tokens nor"):
        compare_with_text(types, text)
    with pytest.raises(EmbeddingsFileError, match=r"d\.hdf5: "):
        compare_with_text(tmp_path / "d.hdf5", text)


# -- take_sample -------------------------------------------------------------------------------

NO_MAP: dict[str, Any] = {"layout": "allennlp", "forget_sentences": True}


@pytest.mark.parametrize(("n", "keys"), [(1, [0]), (3, [0, 6, 11]), (99, list(range(12)))])
@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_sentences_are_evenly_spread(tmp_path: Path, layout: str, n: int, keys: list[int]) -> None:
    """Lines that occur again are taken like others."""
    path = write(tmp_path / "a.hdf5", lines(), layout=layout)
    sample = take_sample(path, n)
    assert [key for key, _, _ in sample.sentences] == keys
    assert (sample.passed_over, sample.dtype) == (0, "float32")
    for key, tokens, values in sample.sentences:
        assert tokens == lines()[key].tokens
        np.testing.assert_array_equal(values, array(lines()[key]))


def test_sentences_whose_tokens_are_not_recorded_are_counted(tmp_path: Path) -> None:
    """A map of another program has only the last of equal lines: `a b` is sentence 4."""
    names = {"a b": "4", "c": "2"}
    values = {str(i): np.ones((3, 1 if i == 2 else 2, DIM), "f4") for i in range(5)}
    path = foreign(tmp_path / "a.hdf5", {**values, "sentence_to_index": [json.dumps(names)]})
    sample = take_sample(path, 5)
    assert [(key, tokens) for key, tokens, _ in sample.sentences] == [(2, ("c",)), (4, ("a", "b"))]
    assert sample.passed_over == 3


def test_a_text_gives_the_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), **NO_MAP)
    sample = take_sample(path, 3, lines())
    assert [tokens for _, tokens, _ in sample.sentences] == [lines()[i].tokens for i in (0, 6, 11)]
    more = [*lines(), Sentence(("more",), 12, "more")]  # `compare_with_text` reports it
    assert [key for key, *_ in take_sample(path, 3, more).sentences] == [0, 6, 11]


def test_samples_that_cannot_be_recomputed(tmp_path: Path) -> None:
    carried: dict[str, Any] = {"layout": "flat", "run_settings": {"state": "carry"}}
    for path, what in (
        (write(tmp_path / "a.hdf5", lines(), **NO_MAP), "does not record the tokens"),
        (write(tmp_path / "b.hdf5", lines(), **carried), "made with `state=carry`"),
        (write_types(tmp_path / "c.hdf5", 3), "holds types"),
    ):
        with pytest.raises(UsageError, match=f"^{path}: {what}") as caught:
            take_sample(path, 12)
        assert caught.value.hint
    assert take_sample(write(tmp_path / "d.hdf5", [], layout="flat"), 3).sentences == []
