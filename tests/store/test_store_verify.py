"""verify and compare_with_text: what is wrong with a file, and whether it is of a text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import DIM, documents, foreign, lines, write, write_types

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.verify import MAX_LISTED, compare_with_text, verify
from elmo_cli.text.sentence import Sentence

NESTED = documents("a/b", "c", "a/d")
PARTS = documents("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1", "bc/cnn/00/cnn_0_0")
BARE = lines(blank=False, repeats=False)
ONE = {"layers": None}

FILES: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "allennlp": (lines(), {"layout": "allennlp"}),
    "allennlp, blanks skipped": (lines(blank=False), {"layout": "allennlp"}),
    "allennlp, float16": (lines(), {"layout": "allennlp", "dtype": "float16"}),
    "allennlp, pooled": (lines(), {"layout": "allennlp", "pool": True}),
    "allennlp, sentences": (BARE, {"layout": "allennlp", "keys": "sentence"}),
    "bilm, a shard": (lines()[4:], {"layout": "bilm", "first_sentence": 4}),
    "e2e-coref": (NESTED, {"layout": "e2e-coref"}),
    "lsgn": (PARTS, {"layout": "lsgn"}),
    "dygie": (NESTED, {"layout": "dygie", **ONE}),
    "manylangs": (lines(blank=False), {"layout": "manylangs", **ONE}),
    "flat": (PARTS, {"layout": "flat"}),
    "flat, int8": (lines(), {"layout": "flat", "dtype": "int8"}),
    "flat, pooled": (lines(), {"layout": "flat", "pool": True, **ONE}),
    "bilm-types": ([], {"layout": "bilm-types"}),
}


def made(path: Path, name: str) -> Path:
    """One of FILES."""
    sentences, options = FILES[name]
    return write_types(path, 9) if name == "bilm-types" else write(path, sentences, **options)


# -- changed bytes --------------------------------------------------------------------------------


def regions(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """What holds values, tokens and lines: a name, start and size in bytes, what is to be named."""
    with open_embeddings(path) as embeddings, h5py.File(path) as file:
        reader = embeddings.reader
        for i, handle in enumerate(reader.handles()):
            named = embeddings.name_of(handle)
            if isinstance(handle, str):
                extents = [("values", file[handle], 0, len(file[handle]))]
            elif embeddings.unit == "types":
                extents = [("values", file["embedding"], i, i + 1)]
            else:
                begin, end = (i, i + 1) if reader.pooled else file["offsets"][i : i + 2].tolist()
                held = (name for name in ("vectors", "scales") if name in file)
                extents = [(name, file[name], begin, end) for name in held]
                ends = [0, *file["token_ends"][()].tolist()]
                first, last = (ends[offset] for offset in file["offsets"][i : i + 2])
                extents.append(("tokens", file["token_bytes"], first, last))
            for name, dataset, begin, end in extents:
                row = dataset.nbytes // max(1, len(dataset))
                if end > begin and row:
                    yield name, dataset.id.get_offset() + begin * row, (end - begin) * row, named
        if "sentence_to_index" in file:
            text = file["sentence_to_index"][0]
            yield "map", path.read_bytes().index(text), len(text), "sentence_to_index"


def change(path: Path, at: int, rng: random.Random) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ rng.randrange(1, 256)]))


def check_changes(path: Path, places: list[tuple[str, int, int, str]], rng: random.Random) -> None:
    """Change one byte in each place; what it belongs to must be named."""
    whole = path.read_bytes()
    for _, start, size, named in places:
        change(path, start + rng.randrange(size), rng)
        listed = verify(path).listed
        assert any(f"{named}: " in one or f"{named} " in one for one in listed), (named, listed)
        path.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
def test_each_sentence_with_a_changed_byte_is_named(tmp_path: Path, name: str) -> None:
    """Nobody would see a wrong value, and `merge` and `convert` would carry it on."""
    path = made(tmp_path / "a.hdf5", name)
    assert verify(path).listed == []
    places = list(regions(path))
    assert len(places) >= 5
    check_changes(path, places, random.Random(0))


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
    whole, rng = path.read_bytes(), random.Random(2)
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


def other_type(file: h5py.File) -> None:
    for name in list(file):
        if name.isdigit():
            values = file[name][()]
            del file[name]
            file[name] = values.astype("f8") if name != "4" else values[:2].astype("f8")


CHANGES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "not finite": (lambda f: f["3"].__setitem__((1, 0, 2), np.nan), ("sentence 3: 1 of 36",)),
    "missing sentence": (lambda f: f.__delitem__("9"), ("11 sentences", "12 checksums")),
    "another name": (lambda f: f.create_dataset("x", data=[1.0]), ("'x'",)),
    "other types": (other_type, ("sentence 4: shape", "float64 values, expected float32")),
    "swapped": (lambda f: (f.move("3", "x"), f.move("4", "3"), f.move("x", "4")),
                ("sentence 3: corrupt", "sentence 4: corrupt")),
    "tokens": (lambda f: f.attrs.modify("tokens", 9), ("tokens, its attribute says 9",)),
    "digests": (lambda f: f.attrs.modify("token_digests", np.zeros(12, "u8")),
                ("token_digests",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_other_changes(allennlp: Path, case: str) -> None:
    change, parts = CHANGES[case]
    with h5py.File(allennlp, "a") as file:
        change(file)
    listed = verify(allennlp).listed
    for part in parts:
        assert any(part in one for one in listed), listed


def test_a_sentence_that_cannot_be_read(allennlp: Path) -> None:
    """Those after it are checked too."""
    with h5py.File(allennlp, "a") as file:
        address = h5py.h5o.get_info(file["3"].id).addr
        file["10"][0, 0, 0] = np.inf
    with allennlp.open("r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 40)
    found = verify(allennlp)
    assert any("'3'" in one for one in found.listed)
    assert any("sentence 10: 1 of" in one for one in found.listed)
    assert found.tokens is None


def test_a_file_of_another_program(tmp_path: Path) -> None:
    values = np.full((3, 1, DIM), np.nan, "f4")
    path = foreign(tmp_path / "b.hdf5", {str(i): values for i in range(MAX_LISTED + 9)})
    found = verify(path)
    assert (len(found.listed), found.count, found.tokens) == (MAX_LISTED, *[MAX_LISTED + 9] * 2)


# -- compare_with_text ----------------------------------------------------------------------------

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
    assert compare_with_text(path, text).listed == [
        "the text does not have 1 sentences of the file"
    ]


def test_what_differs_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    text = lines()
    text[1] = replace(text[1], tokens=("A", "cat"))
    text[3] = replace(text[3], tokens=("Yes", ",", "yes", "."))
    assert compare_with_text(path, [*text, Sentence(("more",), 12)]).listed == [
        "sentence 1: its tokens are not those of the text: token 1 is `dog`, not `cat`",
        "sentence 3: 2 tokens in the file, 4 in the text",
        "sentence 12: not in the file, 1 tokens in the text",
        "the file is of 12 sentences, the text has 13",
    ]


@pytest.mark.parametrize("layout", ["flat", "bilm", "manylangs"])
def test_a_shard_has_its_own_part_of_the_text(tmp_path: Path, layout: str) -> None:
    text, options = lines(blank=False), ONE if layout == "manylangs" else {}
    path = tmp_path / "a.hdf5"
    for i, (begin, end) in enumerate([(0, 3), (3, 8), (8, len(text))], start=1):
        first, settings = text[begin].key, {"shard": f"{i}/3"}
        write(path, text[begin:end], layout=layout, first_sentence=first,
              run_settings=settings, **options)  # fmt: skip
        assert compare_with_text(path, text).listed == []
        wrong = [*text[: end - 1], replace(text[end - 1], tokens=("x",) * 9), *text[end:]]
        assert compare_with_text(path, wrong).count >= 1
        short = compare_with_text(path, text[: end - 1]).listed
        assert short == [f"the file is of {end - begin} sentences, the text has "
                         f"{end - begin - 1} for shard {i}/3"]  # fmt: skip
        if i < 3:
            path.unlink()
    more = compare_with_text(path, [*text, Sentence(("more",), 12)])
    assert "sentence 12: not in the file" in more.listed[0]  # the last shard goes on to the end
    with h5py.File(path, "a") as file:
        file.attrs["shard"] = "x"
    assert "`shard` is 'x'" in compare_with_text(path, text).listed[0]


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
