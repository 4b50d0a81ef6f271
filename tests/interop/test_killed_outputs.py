"""`elmo embed` and `convert` to every format, killed before any call that changes a file."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from command_line import only_tiny
from killed_commands import WRITE, KilledCommand
from store.embedding_files import made as made_file

from elmo_cli.embed import blocks
from elmo_cli.interop import parquet_rows
from elmo_cli.interop.parquet_rows import RowGroupWriter

N_LINES = 23
PARQUET = pytest.param("out.parquet", (), marks=pytest.mark.interop)
ZSTD = pytest.param("out.parquet", ("--compression", "zstd"), marks=pytest.mark.interop)


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of 8 rows, of which each is a call, and the footer too: pyarrow writes them."""
    monkeypatch.setattr(parquet_rows, "ROWS", 8)
    monkeypatch.setattr(blocks, "SENTENCES", 6)

    initialize = RowGroupWriter.__init__
    methods = ("_write_group", "finish", "abandon")
    real = {name: getattr(RowGroupWriter, name) for name in methods}

    def initialize_and_count(self: RowGroupWriter, path: Path, *args: object) -> None:
        sys.audit(WRITE, path)
        initialize(self, path, *args)

        def count(name: str, *args: object, **named: object) -> None:
            sys.audit(WRITE, path)
            real[name](self, *args, **named)

        for name in methods:
            setattr(self, name, partial(count, name))

    monkeypatch.setattr(RowGroupWriter, "__init__", initialize_and_count)


def read(name: str, folder: Path) -> bytes:
    return (folder / name).read_bytes()


@pytest.mark.interop
@pytest.mark.parametrize("option", ["", "--overwrite"])
def test_killed_embedding_to_parquet_ends_as_if_undisturbed(
    option: str,
    small_row_groups: None,
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow")
    only_tiny(monkeypatch, tiny)

    def prepare(folder: Path) -> None:
        lines = [f"line {number} of the text .\n" for number in range(N_LINES)]
        (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
        if option:
            (folder / "out.parquet").write_bytes(b"an earlier file")

    words = ("embed", "text.txt", "-o", "out.parquet", "-q", *([option] if option else []))
    command = KilledCommand(words, prepare, partial(read, "out.parquet"))
    n_runs = command.check(tmp_path, is_exhaustive=True)
    print(f"embed {option} to Parquet: {n_runs} runs killed")


@pytest.mark.parametrize(
    ("output", "options"),
    [
        PARQUET,
        ZSTD,
        ("out.hdf5", ("--layout", "flat")),
        ("out.npz", ()),
        ("out.vec", ()),
        ("out.bin", ("--aggregate", "first-component")),
    ],
)
def test_killed_conversion_ends_as_if_undisturbed(
    output: str, options: tuple[str, ...], small_row_groups: None, tmp_path: Path
) -> None:
    if output == "out.parquet":
        pytest.importorskip("pyarrow")

    def prepare(folder: Path) -> None:
        made_file(folder / "in.hdf5", "allennlp")

    words = ("convert", "in.hdf5", "-o", output, "-q", *options)
    command = KilledCommand(words, prepare, partial(read, output))
    n_runs = command.check(tmp_path, is_exhaustive=True)
    print(f"convert to {output}: {n_runs} runs killed")


@pytest.mark.interop
def test_killed_conversion_of_parquet_ends_as_if_undisturbed(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    def prepare(folder: Path) -> None:
        made_file(folder / "in.parquet", "flat")

    words = ("convert", "in.parquet", "-o", "out.hdf5", "-q")
    KilledCommand(words, prepare, partial(read, "out.hdf5")).check(tmp_path, is_exhaustive=True)
