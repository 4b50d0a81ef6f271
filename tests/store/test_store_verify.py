"""verify: changed bytes, lost and swapped sentences, values that are not finite."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
from embedding_files import DIM, FILES, Change, attribute, foreign, lines, made, write

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import MAX_LISTED, compare_with_text, verify
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.sentence import Sentence


class Region(NamedTuple):
    """Bytes under a checksum, and what `verify` must name if one of them changes."""

    start: int
    size: int
    name: str


Extent = tuple[h5py.Dataset, int, int]


def extents(
    file: h5py.File, embeddings: Embeddings, position: int, handle: int | str
) -> list[Extent]:
    """Where a sentence is stored: data sets, each with its first row and the one after its last."""
    if isinstance(handle, str):
        return [(file[handle], 0, len(file[handle]))]
    if embeddings.unit == "types":
        return [(file["embedding"], position, position + 1)]
    first_token, end_token = file["offsets"][position : position + 2].tolist()
    first_row = position if embeddings.reader.pooled else first_token
    end_row = position + 1 if embeddings.reader.pooled else end_token
    ends = [0, *file["token_ends"][()].tolist()]
    stored = [(file[name], first_row, end_row) for name in ("vectors", "scales") if name in file]
    return [*stored, (file["token_bytes"], ends[first_token], ends[end_token])]


def regions(path: Path) -> Iterator[Region]:
    """Where values, tokens and lines are stored."""
    with open_embeddings(path) as embeddings, h5py.File(path) as file:
        for position, handle in enumerate(embeddings.reader.handles):
            for dataset, first_row, end_row in extents(file, embeddings, position, handle):
                row_bytes = dataset.nbytes // max(1, len(dataset))
                size = (end_row - first_row) * row_bytes
                if size > 0:
                    start = dataset.id.get_offset() + first_row * row_bytes
                    yield Region(start, size, embeddings.name_of(handle))
        if "sentence_to_index" in file:
            text = file["sentence_to_index"][0]
            yield Region(path.read_bytes().index(text), len(text), "sentence_to_index")


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
    for region in own_regions:
        change(path, region.start + rng.randrange(region.size), rng)
        listed = verify(path).listed
        pattern = re.compile(rf"{re.escape(region.name)}:? ")
        assert any(pattern.search(problem) for problem in listed), (region, listed)
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


def lacks_two_sentences(file: h5py.File) -> None:
    del file["10"], file["9"]


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
        (lacks_two_sentences, ["names sentences that are missing: 9", "10 sentences, expected 12"]),
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


@pytest.mark.parametrize("name", ["sentence_crc32", "token_digests"])
@pytest.mark.parametrize("value", [np.int64(7), "text", "[1, 2]", np.zeros((12, 1), "u4")])
def test_attributes_that_are_no_lists_of_numbers(allennlp: Path, name: str, value: object) -> None:
    with h5py.File(allennlp, "a") as file:
        attribute(name, value)(file)
    assert any(name in problem for problem in verify(allennlp).listed)
    with suppress(EmbeddingsFileError):  # with the digests of the text
        problems = compare_with_text(allennlp, lines())
        assert problems.count == 0 or any(name in problem for problem in problems.listed)
    with suppress(EmbeddingsFileError):
        convert(allennlp, allennlp.with_name("b.hdf5"), layout="bilm")


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
    problems = verify(allennlp)
    assert any("'3'" in problem for problem in problems.listed)
    assert any("sentence 10: not finite: 1 of" in problem for problem in problems.listed)
    assert problems.tokens is None


def test_a_file_of_another_program(tmp_path: Path) -> None:
    values = np.full((3, 1, DIM), np.nan, "f4")
    path = foreign(tmp_path / "b.hdf5", {str(i): values for i in range(MAX_LISTED + 9)})
    problems = verify(path)
    assert len(problems.listed) == MAX_LISTED
    assert problems.count == MAX_LISTED + 9
    assert problems.tokens == MAX_LISTED + 9


def test_scales_that_are_not_finite(tmp_path: Path) -> None:
    """Values of int8 are finite by themselves."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype="int8")
    with h5py.File(path, "a") as file:
        file["scales"][8, 1] = np.inf  # of the second token of sentence 1
    assert verify(path).listed[0] == "sentence 1: not finite: 1 of 6 values"
