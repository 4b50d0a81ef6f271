"""The format of a file is that of its suffix; a suffix that is not written names those that are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from embedding_files import lines, write

from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ElmoError, OutputError, UsageError
from elmo_cli.store.convert import convert
from elmo_cli.store.file_formats import (
    ALL_FORMATS,
    EMBEDDINGS_FORMATS,
    HDF5,
    NPZ,
    PARQUET,
    WORD2VEC_BINARY,
    WORD2VEC_TEXT,
    format_of_file,
    format_of_output,
)
from elmo_cli.store.shards import merge_shards
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter

NOT_WRITTEN = (
    ".npy .json .jsonl .ndjson .txt .tsv .csv .pt .pth .pkl .pickle .safetensors .mat .arrow "
    ".feather .zarr .zip .tar .TXT"
)
ONLY_CONVERTED = (".npz", ".vec", ".bin", ".NPZ")


@pytest.mark.parametrize(
    ("name", "file_format"),
    [
        ("a.hdf5", HDF5),
        ("a.h5", HDF5),
        ("a", HDF5),
        ("corpus.2024-11", HDF5),
        ("a.parquet.hdf5", HDF5),
        ("a.parquet", PARQUET),
        ("v/a.b.PARQUET", PARQUET),
    ],
)
def test_the_suffix_decides(name: str, file_format: object) -> None:
    assert format_of_output(name) is file_format
    assert format_of_output(name, ALL_FORMATS) is file_format


@pytest.mark.parametrize(
    ("name", "file_format"),
    [("a.npz", NPZ), ("a.vec", WORD2VEC_TEXT), ("a.bin", WORD2VEC_BINARY)],
)
def test_what_only_convert_writes(name: str, file_format: object) -> None:
    assert format_of_output(name, ALL_FORMATS) is file_format


@pytest.mark.parametrize("suffix", [*NOT_WRITTEN.split(), *ONLY_CONVERTED])
def test_a_suffix_that_is_not_written_names_those_that_are(suffix: str) -> None:
    """The file would be HDF5, which no program expects under such a name."""
    with pytest.raises(OutputError) as caught:
        format_of_output(f"v/a.b{suffix}", alternatives=["`-o -` writes text"])
    assert caught.value.message == f"v/a.b{suffix}: embeddings are not written as {suffix.lower()}"
    written = "the suffixes that can be written are .hdf5 (HDF5) and .parquet (Parquet)"
    assert caught.value.hint == f"{written}; `-o -` writes text"
    assert format_of_output(f"a{suffix}.h5") is HDF5


@pytest.mark.parametrize("suffix", NOT_WRITTEN.split())
def test_convert_names_all_that_it_writes(suffix: str) -> None:
    with pytest.raises(OutputError) as caught:
        format_of_output(f"a{suffix}", ALL_FORMATS)
    for file_format in ALL_FORMATS:
        assert f"{file_format.suffixes[0]} ({file_format.name})" in caught.value.hint


def test_the_library_refuses_what_the_commands_refuse(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    out = tmp_path / "b.npz"
    job = EmbedJob(inputs=(__file__,), output=str(out))
    for work in (
        lambda: convert(source, out),
        lambda: merge_shards([write(tmp_path / "1.hdf5", lines(), layout="flat",
                                    run_settings={"shard": "1/1"})], out),
        lambda: EmbeddingsWriter.open(out, FileSpec()),
        job.check_paths,
    ):  # fmt: skip
        with pytest.raises(OutputError, match=r"b\.npz: embeddings are not written as \.npz"):
            work()
    assert not list(tmp_path.glob("b*"))


def test_the_content_decides_how_a_file_is_read(tmp_path: Path) -> None:
    """A file may have been renamed."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    assert format_of_file(path.rename(tmp_path / "a.parquet")) is HDF5
    (tmp_path / "b").write_bytes(b"PAR1" + b"\0" * 20)
    assert format_of_file(tmp_path / "b") is PARQUET
    (tmp_path / "c").write_bytes(b"")
    assert format_of_file(tmp_path / "c") is HDF5


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "pyarrow":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.usefixtures("without_pyarrow")
def test_a_missing_program_is_named_before_any_work(tmp_path: Path) -> None:
    """Otherwise a run of days would end in this error."""
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    out = tmp_path / "b.parquet"
    job = EmbedJob(inputs=(__file__,), output=str(out))
    for work in (
        job.check_paths,
        lambda: EmbeddingsWriter.open(out, FileSpec()),
        lambda: convert(source, out),
    ):
        with pytest.raises(ElmoError, match="pyarrow is not installed") as caught:
            work()
        assert caught.value.hint == "`pip install '.[parquet]'` in a clone"
    assert not list(tmp_path.glob("b*"))


def test_int8_is_refused_before_any_work(tmp_path: Path) -> None:
    out = tmp_path / "b.parquet"
    int8 = FileSpec(layout="flat", dtype="int8")
    job = EmbedJob(
        inputs=(__file__,),
        output=str(out),
        embedder=EmbedderSettings(dtype="int8"),
        file=FileSpec(layout="flat"),
    )
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    for work in (
        job.check_paths,
        lambda: EmbeddingsWriter.open(out, int8),
        lambda: convert(source, out, dtype="int8"),
    ):
        with pytest.raises(UsageError, match=r"`dtype=int8`: Parquet does not store it"):
            work()


@pytest.mark.parametrize(("out", "name"), [("b.hdf5", "zstd"), ("b.parquet", "snappy")])
def test_a_compression_that_the_format_lacks_is_refused(
    tmp_path: Path, out: str, name: str
) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with pytest.raises(UsageError, match=f"`compression={name}`") as caught:
        convert(source, tmp_path / out, compression=name)
    assert "none" in caught.value.hint


def test_formats_have_different_suffixes() -> None:
    suffixes = [suffix for file_format in ALL_FORMATS for suffix in file_format.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert {file_format.signature for file_format in EMBEDDINGS_FORMATS} == {
        b"PAR1",
        b"\x89HDF\r\n\x1a\n",
    }
