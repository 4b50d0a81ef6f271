"""SentenceMap: the map from lines to names, and the memory that making it takes."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path

import h5py
import pytest

from elmo_cli.store.layouts import sentence_map as module
from elmo_cli.store.layouts import spool
from elmo_cli.store.layouts.sentence_map import SentenceMap
from elmo_cli.store.layouts.spool import SpooledText
from elmo_cli.store.spec import read_attributes, write_attributes

UNLIMITED = 1 << 32
BYTES_PER_SENTENCE = 48  # of the digest, the mask, and of a line that occurs again


def different(n: int) -> list[str]:
    return [f"line {number}" for number in range(n)]


def all_equal(n: int) -> list[str]:
    return ["the same line"] * n


def twice(n: int) -> list[str]:
    """As in a text that was concatenated with itself."""
    return 2 * different(n // 2)


def some_repeated(n: int) -> list[str]:
    common = ["", "Yes .", 'é\t\x01 "q" \\', "a\ud800"]
    return [common[number % 7] if number % 7 < 4 else f"line {number}" for number in range(n)]


KINDS = [different, all_equal, twice, some_repeated]


def key_of(position: int) -> int:
    """Keys increase; some are left out."""
    return 3 * position + 7


def map_of(folder: Path, lines: Sequence[str], *, numbers_occurrences: bool = False) -> SentenceMap:
    sentences = SentenceMap(folder, numbers_occurrences=numbers_occurrences)
    for position, line in enumerate(lines):
        sentences.add(line, key_of(position))
    assert sentences.make_json(UNLIMITED)
    return sentences


@pytest.mark.parametrize("n_bytes", [1, 100, 1 << 18])
@pytest.mark.parametrize("kind", KINDS)
def test_the_map_has_the_last_of_equal_lines_at_the_position_of_the_first(
    kind, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it is in memory, and in however many chunks it is read."""
    monkeypatch.setattr(module, "_MAX_PENDING", n_bytes)
    monkeypatch.setattr(spool, "_CHUNK_BYTES", n_bytes)
    lines = kind(60)
    last_keys = {line: key_of(position) for position, line in enumerate(lines)}
    expected = json.dumps({line: str(key) for line, key in last_keys.items()}).encode()
    repeated = []
    for position, line in enumerate(lines):
        if key_of(position) != last_keys[line]:
            repeated.append([key_of(position), last_keys[line]])
    sentences = map_of(tmp_path, lines)
    assert sentences.json.content() == expected
    assert sentences.json_crc32() == zlib.crc32(expected)
    assert sentences.repeated_lines.content() == json.dumps(repeated).encode()
    sentences.close()


def neurox_map(lines: Sequence[str]) -> dict[str, str]:
    """As NeuroX's `HDF5ActivationsWriter` makes it, and without a name that is another line."""
    names: dict[str, str] = {}
    for position, line in enumerate(lines):
        name = line
        occurrence = 1
        while name in names or (occurrence > 1 and name in lines):
            occurrence += 1
            name = f"{line} (Occurrence {occurrence})"
        names[name] = str(key_of(position))
    return names


def like_numbered_names(n: int) -> list[str]:
    """Some are the names that later occurrences of others would have."""
    endings = ["", " (Occurrence 2)", "", " (Occurrence 3)", " (Occurrence 2)", "", " (Occurrence)"]
    return [f"a{endings[number % 7]}" for number in range(n)]


@pytest.mark.parametrize("n_bytes", [1, 100, 1 << 18])
@pytest.mark.parametrize("kind", [*KINDS, like_numbered_names])
def test_numbered_occurrences_have_an_entry_each(
    kind, n_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_PENDING", n_bytes)
    monkeypatch.setattr(spool, "_CHUNK_BYTES", n_bytes)
    lines = kind(60)
    sentences = map_of(tmp_path, lines, numbers_occurrences=True)
    expected = neurox_map(lines)
    assert len(expected) == len(lines)
    assert sentences.json.content() == json.dumps(expected).encode()
    first_keys = {line: int(expected[line]) for line in lines}
    repeated = []
    for position, line in enumerate(lines):
        if key_of(position) != first_keys[line]:
            repeated.append([key_of(position), first_keys[line]])
    assert sentences.repeated_lines.content() == json.dumps(repeated).encode()
    sentences.close()


@pytest.mark.parametrize("numbers_occurrences", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_making_the_map_takes_a_few_bytes_per_sentence(
    kind, numbers_occurrences: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of entries or a dict of lines takes some hundred; the JSON is on the disk."""
    monkeypatch.setattr(module, "_MAX_PENDING", 1 << 12)
    monkeypatch.setattr(spool, "_CHUNK_BYTES", 1 << 12)
    sizes = (500, 2_500)
    peaks = []
    for n in sizes:
        lines = kind(n)
        tracemalloc.start()
        map_of(tmp_path, lines, numbers_occurrences=numbers_occurrences).close()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < BYTES_PER_SENTENCE * (sizes[1] - sizes[0])


def test_a_text_on_the_disk_is_written_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As data set and as attribute; h5py must read it from the spool, not from the `str`."""
    monkeypatch.setattr(module, "_MAX_PENDING", 100)
    sentences = map_of(tmp_path, some_repeated(60))
    kind = h5py.string_dtype("utf-8")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("map", (1,), kind)[0] = SpooledText.of(sentences.json)
        repeated = SpooledText.of(sentences.repeated_lines)
        write_attributes(file, {"elmo_schema": 2, "repeated_lines": repeated})
        assert file["map"][0] == sentences.json.content()
        pairs = read_attributes(file)["repeated_lines"]
        assert pairs == json.loads(sentences.repeated_lines.content())
        assert h5py.check_string_dtype(file.attrs.get_id("repeated_lines").dtype) == (
            h5py.check_string_dtype(kind)
        )
    sentences.close()
