"""Parquet files that another program has changed: refused in two lines, never read as others."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import elmo, made, refused
from store.embedding_files import DIM, lines, write

from elmo_cli.store.reader import open_embeddings

pytestmark = pytest.mark.interop

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ChangeTable = Callable[[Any], Any]
ChangeIndex = Callable[[dict[str, Any]], object]
READERS = (
    "inspect a.parquet",
    "convert a.parquet -o b.hdf5",
    "neighbors a.parquet 0:1",
    "kwic a.parquet cat",
)


def nothing(content: Any) -> Any:
    return content


@pytest.fixture(autouse=True)
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that elmo has written, as original.parquet, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write(Path("original.hdf5"), lines(), layout="flat")
    made("convert", "original.hdf5", "-o", "original.parquet")


def rewrite(
    change_table: ChangeTable = nothing,
    change_index: ChangeIndex = nothing,
    arrays: dict[str, np.ndarray] | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Write original.parquet again as a.parquet, with its metadata and its index.

    Args:
        change_table: returns the rows to be written.
        change_index: changes the metadata `elmo_index`, with the positions in the new file.
        arrays: to be written in place of those of the index.
        settings: changes of the metadata `elmo`.
    """
    content = Path("original.parquet").read_bytes()
    with parquet.ParquetFile("original.parquet") as file:
        table = change_table(file.read())
        metadata = file.metadata.metadata
    index = json.loads(metadata[b"elmo_index"])
    with pa.OSFile("a.parquet", "w") as sink:
        schema = table.schema.remove_metadata()
        writer = parquet.ParquetWriter(sink, schema, use_dictionary=False)
        writer.write_table(table)
        for name, entry in index["arrays"].items():
            begin = entry["begin"]
            n_bytes = entry["size"] * np.dtype(entry["dtype"]).itemsize
            written = content[begin : begin + n_bytes]
            if arrays is not None and name in arrays:
                written = arrays[name].tobytes()
                entry["size"] = len(arrays[name])
                entry["crc32"] = zlib.crc32(written)
            entry["begin"] = sink.tell()
            sink.write(written)
        change_index(index)
        changed = {**json.loads(metadata[b"elmo"]), **(settings or {})}
        written_metadata = {"elmo": json.dumps(changed), "elmo_index": json.dumps(index)}
        writer.add_key_value_metadata(written_metadata)
        writer.close()


def refused_by_readers(problem: str, hint: str) -> None:
    for command in READERS:
        refused(elmo(*command.split(), "-q"), 1, f"a.parquet: {problem}", hint)
    assert not Path("b.hdf5").exists()


def test_an_unchanged_copy_is_read() -> None:
    """So that the tests below fail for the change alone."""
    rewrite()
    with open_embeddings("a.parquet") as copy, open_embeddings("original.parquet") as original:
        for key in original:
            np.testing.assert_array_equal(copy[key], original[key])


def with_column(name: str, make: Callable[[Any], Any]) -> ChangeTable:
    def change(table: Any) -> Any:
        position = table.schema.get_field_index(name)
        return table.set_column(position, name, make(table.column(position)))

    return change


def as_doubles(column: Any) -> Any:
    return column.cast(pa.list_(pa.float64(), DIM))


def as_lists_of_any_length(column: Any) -> Any:
    return column.cast(pa.list_(pa.float32()))


def of_two_numbers(column: Any) -> Any:
    return pa.array([[1.0, 2.0]] * len(column), pa.list_(pa.float32(), 2))


def as_numbers(column: Any) -> Any:
    return pa.array(range(len(column)))


def as_bytes(column: Any) -> Any:
    return pa.array([b"\xff"] * len(column))


def as_lists_of_strings(column: Any) -> Any:
    return pa.array([["a"]] * len(column))


def without(*names: str) -> ChangeTable:
    def change(table: Any) -> Any:
        return table.drop_columns([*names])

    return change


def with_a_layer_twice(table: Any) -> Any:
    return table.append_column("layer_1", table.column("layer_1"))


def with_layers_exchanged(table: Any) -> Any:
    names = [name for name in table.column_names if not name.startswith("layer_")]
    return table.select([*names, "layer_1", "layer_0", "layer_2"])


def all_as_doubles(table: Any) -> Any:
    for number in range(3):
        table = with_column(f"layer_{number}", as_doubles)(table)
    return table


def without_rows(table: Any) -> Any:
    return table.slice(0, 0)


LISTS = "its columns of vectors are not lists of floats of one length"
NAMES = "its columns of vectors are"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_column("layer_1", as_doubles), LISTS),
        (all_as_doubles, LISTS),
        (with_column("layer_1", as_lists_of_any_length), LISTS),
        (with_column("layer_1", of_two_numbers), LISTS),
        (with_column("layer_1", as_numbers), LISTS),
        (without("layer_1"), f"{NAMES} layer_0, layer_2, expected layer_0, layer_1, layer_2"),
        (without("layer_2"), f"{NAMES} layer_0, layer_1, expected layer_0, layer_1, layer_2"),
        (without("layer_0", "layer_1", "layer_2"), f"{NAMES} missing, expected layer_0"),
        (with_a_layer_twice, f"{NAMES} layer_0, layer_1, layer_2, layer_1, expected layer_0"),
        (with_layers_exchanged, f"{NAMES} layer_1, layer_0, layer_2, expected layer_0"),
        (with_column("token", as_numbers), "its column 'token' is int64, expected string"),
        (with_column("token", as_bytes), "its column 'token' is binary, expected string"),
        (with_column("token", as_lists_of_strings), "its column 'token' is list<"),
        (without("token"), "its column 'token' is missing, expected string"),
        (without_rows, "it has 0 rows, expected 38"),
    ],
)
def test_other_columns_are_refused(change: ChangeTable, problem: str) -> None:
    """A missing layer would shift the numbers of the others, or give vectors of zeros."""
    rewrite(change)
    refused_by_readers(problem, "get it again")


def test_a_vector_that_is_null_is_refused() -> None:
    def with_a_null(column: Any) -> Any:
        kind = pa.list_(pa.field("element", pa.float32(), nullable=False), DIM)
        return pa.array([None, *column.to_pylist()[1:]], kind)

    rewrite(with_column("layer_2", with_a_null))
    done = elmo("neighbors", "a.parquet", "0:1", "-q")
    refused(done, 1, "a.parquet: column 'layer_2' of row group 0: ", "get it again")


def test_a_value_that_is_null_is_refused() -> None:
    """In columns whose type permits it."""

    def with_a_null_at(number: int, column: Any) -> Any:
        vectors = column.to_pylist()
        vectors[number][2] = None
        return pa.array(vectors, pa.list_(pa.float32(), DIM))

    def change(table: Any) -> Any:
        for number in range(3):
            make = partial(with_a_null_at, number)
            table = with_column(f"layer_{number}", make)(table)
        return table

    rewrite(change)
    done = elmo("neighbors", "a.parquet", "0:1", "-q")
    refused(done, 1, "a.parquet: column 'layer_2' of row group 0: 1 values are null", "get it")


def entry_of(name: str, **changes: Any) -> ChangeIndex:
    def change(index: dict[str, Any]) -> None:
        index["arrays"][name].update(changes)

    return change


def is_a_list(index: dict[str, Any]) -> None:
    index["arrays"] = [1, 2]


def is_empty(index: dict[str, Any]) -> None:
    index["arrays"] = {}


def has_a_number(index: dict[str, Any]) -> None:
    index["arrays"] = {"offsets": 3}


def lacks_the_columns(index: dict[str, Any]) -> None:
    del index["vectors"]


@pytest.mark.parametrize(
    "change",
    [
        entry_of("offsets", dtype="|O"),
        entry_of("offsets", dtype="<f16"),
        entry_of("offsets", dtype=["<i8"]),
        entry_of("offsets", size=-1),
        entry_of("offsets", begin=-8),
        entry_of("offsets", size=1e400),
        entry_of("offsets", size=10**30),
        entry_of("offsets", begin=1 << 40),
        entry_of("offsets", crc32=0),
        is_a_list,
        is_empty,
        has_a_number,
        lacks_the_columns,
    ],
)
def test_another_index_is_refused(change: ChangeIndex) -> None:
    rewrite(change_index=change)
    refused_by_readers("its index of sentences is missing or corrupt", "another program")


def test_an_array_of_the_index_that_is_too_short_is_refused() -> None:
    rewrite(arrays={"offsets": np.array([], "<i8")})
    refused_by_readers("'offsets' has no numbers 0 to ", "get it again")


def test_a_layout_whose_names_cannot_be_made_is_refused() -> None:
    rewrite(settings={"layout": "dygie"})
    refused_by_readers("sentence 0: ", "get it again")
