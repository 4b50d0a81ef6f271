"""Damaged and hostile embeddings files: refused in words, before memory is taken."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.convert import convert
from elmo_cli.store.damage import is_from_hdf5
from elmo_cli.store.describe import describe
from elmo_cli.store.journaled_file import roll_back
from elmo_cli.store.merge import merge_shards
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.reading_lines import reading_lines
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.verify import verify

OURS = {"elmo_schema": 1, "complete": True, "sentences": 2, "tokens": 4}


def write(path: Path, layout: str = "allennlp", **datasets: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
        file.attrs.update(OURS | {"layout": layout})
    return path


def numbered(path: Path) -> Path:
    values = np.ones((3, 2, 4), np.float32)
    return write(path, **{"0": values, "1": values})


def flat(path: Path, *, ends: list[int]) -> Path:
    arrays = {"offsets": np.array([0, 2, 4]), "token_ends": np.array(ends)}
    vectors = np.ones((4, 3, 2), np.float32)
    return write(path, "flat", vectors=vectors, token_bytes=np.zeros(4, np.uint8), **arrays)


def test_an_array_that_is_only_said_to_be_huge_takes_no_memory(tmp_path: Path) -> None:
    """2 KB that claim 48 GB: without the check the machine is out of memory."""
    path = write(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file.create_dataset("0", (3, 1_000_000_000, 4), np.float32, chunks=(3, 1024, 4))
    with open_embeddings(path) as embeddings:
        tracemalloc.start()
        with pytest.raises(EmbeddingsFileError, match="would have 48000000000 bytes"):
            embeddings[0]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
    assert any("48000000000" in problem for problem in verify(path).problems)


def test_rows_that_are_only_said_to_be_there_take_no_memory(tmp_path: Path) -> None:
    path = flat(tmp_path / "a.hdf5", ends=[1, 2, 3, 4])
    with h5py.File(path, "a") as file:
        del file["vectors"]
        file.create_dataset("vectors", (1 << 40, 3, 2), np.float32, chunks=(1024, 3, 2))
        file["offsets"][...] = [0, 1 << 39, 1 << 40]
    with (
        open_embeddings(path) as embeddings,
        pytest.raises(EmbeddingsFileError, match="more than such a file can hold"),
    ):
        embeddings[0]
    assert any("more than such a file can hold" in problem for problem in verify(path).problems)


@pytest.mark.parametrize("ends", [[1, -5, 3, 4], [1, 99, 3, 4], [3, 2, 1, 4]])
def test_ends_of_tokens_that_lead_nowhere_are_damage(tmp_path: Path, ends: list[int]) -> None:
    """numpy's own errors came out, or tokens of other sentences."""
    path = flat(tmp_path / "a.hdf5", ends=ends)
    with open_embeddings(path) as embeddings, pytest.raises(EmbeddingsFileError):
        [embeddings.tokens(key) for key in (0, 1)]


@pytest.mark.parametrize(
    ("name", "value"), [("elmo_schema", "one"), ("elmo_schema", [1, 2]), ("first_sentence", "x")]
)
def test_an_attribute_of_another_type_is_damage(tmp_path: Path, name: str, value: object) -> None:
    path = write(tmp_path / "a.hdf5", "manylangs", the=np.ones((1, 4), np.float32))
    with h5py.File(path, "a") as file:
        file.attrs[name] = value
    with pytest.raises(EmbeddingsFileError, match=name):
        describe(path)


def test_a_number_that_is_no_array_is_damage(tmp_path: Path) -> None:
    """KeyError came out of `describe`, `verify` and `merge_shards`, which ask for it by name."""
    path = numbered(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        del file["0"]
        file.create_group("0")
        file.attrs.update({"shard": "1/1", "keys": "number", "forget_sentences": True})
        file.attrs.update({"dtype": "float32", "first_sentence": 0})
    assert any("0" in problem for problem in verify(path).problems)
    for read in (describe, reading_lines, lambda path: merge_shards([path], tmp_path / "out.hdf5")):
        with pytest.raises(EmbeddingsFileError, match="no sentence 0"):
            read(path)


def test_a_name_that_is_no_utf8_is_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "manylangs", caff=np.ones((1, 4), np.float32))
    path.write_bytes(path.read_bytes().replace(b"caff", b"caf\xe9"))
    with open_embeddings(path) as embeddings, pytest.raises(EmbeddingsFileError, match="UTF-8"):
        list(embeddings)


@pytest.mark.parametrize("mark", [b"SNOD", b"TREE", b"HEAP"])
def test_what_h5py_finds_is_an_error_of_ours(tmp_path: Path, mark: bytes) -> None:
    """h5py has RuntimeError, KeyError, ValueError and OSError for damage."""
    path = numbered(tmp_path / "a.hdf5")
    path.write_bytes(path.read_bytes().replace(mark, b"????"))
    for read in (describe, reading_lines):
        with pytest.raises(EmbeddingsFileError, match=r"a\.hdf5: ") as raised:
            read(path)
        assert raised.value.hint


def test_an_error_is_from_hdf5_by_where_it_was_raised(tmp_path: Path) -> None:
    """A fault of ours inside a walk through a file would pass for damage of the file."""
    with h5py.File(numbered(tmp_path / "a.hdf5")) as file:
        for raise_it, is_it in (
            (lambda: file["9"], True),
            (lambda: h5py.File("\ud800"), True),  # raised by `os`, which h5py asks
            (lambda: file.visit(parse_shard), False),
            (lambda: parse_shard("9"), False),
        ):
            with pytest.raises((KeyError, ValueError)) as raised:
                raise_it()
            assert is_from_hdf5(raised.value) == is_it


def test_half_a_surrogate_pair_in_an_attribute_is_carried_along(tmp_path: Path) -> None:
    """h5py reads bytes that are no UTF-8 so, and can't write them."""
    path = numbered(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file.attrs["tokenizer"] = "caff"
    path.write_bytes(path.read_bytes().replace(b"caff", b"caf\xe9"))
    convert(path, tmp_path / "out.hdf5", layout="bilm")
    with open_embeddings(path) as before, open_embeddings(tmp_path / "out.hdf5") as after:
        assert after.attributes["tokenizer"] == before.attributes["tokenizer"] == "caf\udce9"


def test_an_undo_log_takes_no_memory_for_what_it_only_claims(tmp_path: Path) -> None:
    part, undo = tmp_path / "a.part", tmp_path / "a.part.undo"
    part.write_bytes(b"old")
    fields = struct.pack("<4sQQII", b"UNDO", 0, 0, (1 << 32) - 1, 0)
    undo.write_bytes(fields + struct.pack("<I", zlib.crc32(fields)) + b"new")
    tracemalloc.start()
    with part.open("rb+") as file:
        roll_back(file.fileno(), undo, committed=3, block=0, name="a.part")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert part.read_bytes() == b"old"
