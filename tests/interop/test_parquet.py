"""Parquet files of embeddings: written by embed, convert and merge, and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import elmo, made, only_tiny, refused
from store.embedding_files import FILES, lines, write
from store.embedding_files import made as made_file

from elmo_cli.errors import EmbeddingsFileError, OutputError
from elmo_cli.interop import parquet_rows
from elmo_cli.store.convert import convert
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.sentence import Sentence

pytestmark = pytest.mark.interop

parquet = pytest.importorskip("pyarrow.parquet")

# Files whose values Parquet does not store.
STORED = [name for name in FILES if "int8" not in name]
TEXT = "The cat sat .\n\nIt slept .\nThe cat sat .\n"


def same(path: Path, other: Path) -> None:
    """Whether two files give the same to `open_embeddings`."""
    with open_embeddings(path) as first, open_embeddings(other) as second:
        assert list(first) == list(second)
        assert first.layers == second.layers
        assert first.unit == second.unit
        assert first.dtype == second.dtype
        for info, other_info in zip(first.infos(), second.infos(), strict=True):
            assert info.tokens == other_info.tokens
            assert (info.document, info.place) == (other_info.document, other_info.place)
            if not first.is_keyed_by_name:  # otherwise the text may be the name
                assert info.text == other_info.text
        for key in first:
            np.testing.assert_array_equal(first[key], second[key])
        for name in ("model", "model_sha256", "state", "layers", "tokens", "sentences", "keys"):
            assert first.attributes.get(name) == second.attributes.get(name), name
        for name in ("sentence_crc32", "token_digests"):
            of_first = first.attributes.get(name)
            assert np.array_equal(of_first, second.attributes.get(name)), name


@pytest.mark.parametrize("name", STORED)
def test_there_and_back_again(name: str, tmp_path: Path) -> None:
    source = made_file(tmp_path / "a.hdf5", name)
    convert(source, tmp_path / "a.parquet")
    convert(tmp_path / "a.parquet", tmp_path / "b.hdf5")
    with open_embeddings(source) as first, open_embeddings(tmp_path / "a.parquet") as table:
        assert list(first) == list(table)
        assert first.records == table.records
        for key in first:
            np.testing.assert_array_equal(first[key], table[key])
        for index, layer in enumerate(first.layers):
            assert table.layers[index] == layer
            ours = [array for _, array in first.infos_and_layer(index)]
            theirs = [array for _, array in table.infos_and_layer(index)]
            for our_array, their_array in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(our_array, their_array)
    same(tmp_path / "a.parquet", tmp_path / "b.hdf5")


def test_the_columns_are_those_of_the_page(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    names = ["sentence", "position", "token", "layer_0", "layer_1", "layer_2"]
    assert table.column_names == names
    assert str(table.schema.field("sentence").type) == "int32"
    assert str(table.schema.field("position").type) == "int32"
    assert str(table.schema.field("token").type) == "string"
    assert str(table.schema.field("layer_1").type).startswith("fixed_size_list<element: float")
    rows = table.to_pylist()
    with open_embeddings(source) as embeddings:
        row = 0
        for key in embeddings:
            for position, token in enumerate(embeddings.tokens(key)):
                assert rows[row]["sentence"] == key
                assert rows[row]["position"] == position
                assert rows[row]["token"] == token
                for layer in range(3):
                    expected = embeddings[key][layer, position].tolist()
                    assert rows[row][f"layer_{layer}"] == expected
                row += 1
        assert row == len(rows)


def test_one_layer_and_numbered_layers_have_their_names(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "top.parquet", layers="top")
    convert(source, tmp_path / "two.parquet", layers="0,2")
    assert parquet.read_schema(tmp_path / "top.parquet").names[3:] in (["vector"], ["layer_2"])
    assert parquet.read_schema(tmp_path / "two.parquet").names[3:] == ["layer_0", "layer_2"]


@pytest.mark.parametrize("rows", [1, 2, 7, 4096])
def test_a_sentence_may_be_longer_than_a_row_group(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "ROWS", rows)
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "a.parquet")
    metadata = parquet.read_metadata(tmp_path / "a.parquet")
    assert metadata.num_row_groups == -(-metadata.num_rows // rows)
    positions = [number for sentence in lines() for number in range(len(sentence.tokens))]
    assert parquet.read_table(tmp_path / "a.parquet")["position"].to_pylist() == positions
    same(tmp_path / "a.parquet", source)


def test_a_row_group_of_long_strings_is_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow addresses the bytes of its strings in int32, beyond which they would be others."""
    monkeypatch.setattr(parquet_rows, "_MAX_CHARACTERS", 6)
    sentences = [Sentence(("long", "er"), 0), Sentence(("a",), 1), Sentence(("b", "cdefgh"), 2)]
    source = write(tmp_path / "a.hdf5", sentences, layout="flat")
    convert(source, tmp_path / "a.parquet")
    metadata = parquet.read_metadata(tmp_path / "a.parquet")
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sizes == [2, 1, 2]
    same(tmp_path / "a.parquet", source)


def test_no_sentences(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", [], layout="flat")
    convert(source, tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 0
    with open_embeddings(tmp_path / "a.parquet") as embeddings:
        assert len(embeddings) == 0


def test_tokens_that_are_not_recorded_are_null(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="bilm")
    convert(source, tmp_path / "a.parquet")
    assert set(parquet.read_table(tmp_path / "a.parquet")["token"].to_pylist()) == {None}


@pytest.mark.parametrize(("dtype", "is_split"), [("float32", True), ("float16", False)])
def test_compression(dtype: str, is_split: bool, tmp_path: Path) -> None:
    """DuckDB cannot read float16 that is split into streams of bytes."""
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "a.parquet", dtype=dtype, compression="zstd")
    convert(source, tmp_path / "b.parquet", dtype=dtype)
    column = parquet.read_metadata(tmp_path / "a.parquet").row_group(0).column(3)
    assert column.compression == "ZSTD"
    assert ("BYTE_STREAM_SPLIT" in column.encodings) == is_split
    assert not column.is_stats_set  # nobody searches for the values of vectors
    plain = parquet.read_metadata(tmp_path / "b.parquet").row_group(0).column(3)
    assert plain.compression == "UNCOMPRESSED"
    assert "BYTE_STREAM_SPLIT" not in plain.encodings
    same(tmp_path / "a.parquet", tmp_path / "b.parquet")


def test_the_settings_are_metadata_for_other_programs(tmp_path: Path) -> None:
    source = write(tmp_path / "a.hdf5", lines(), layout="flat")
    convert(source, tmp_path / "a.parquet")
    metadata = parquet.read_metadata(tmp_path / "a.parquet").metadata
    assert b'"model_sha256"' in metadata[b"elmo"]


# -- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a text, and a small model as the default."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--layout", "flat"], ["--pool", "mean"]])
def test_embed_writes_what_convert_writes(words: list[str], folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet", *words)
    made("embed", "a.txt", "-o", "a.hdf5", *words)
    made("convert", "a.hdf5", "-o", "b.parquet")
    same(folder / "a.parquet", folder / "b.parquet")
    same(folder / "a.parquet", folder / "a.hdf5")
    assert sorted(path.name for path in folder.glob("a.parquet*")) == ["a.parquet"]


def test_shards_merge_into_the_file_of_one_run(folder: Path) -> None:
    Path("b.txt").write_text(TEXT * 300)
    made("embed", "b.txt", "-o", "all.parquet")
    made("embed", "b.txt", "-o", "1.parquet", "--shard", "1/2")
    made("embed", "b.txt", "-o", "2.hdf5", "--shard", "2/2")
    made("merge", "2.hdf5", "1.parquet", "-o", "merged.parquet")
    same(folder / "merged.parquet", folder / "all.parquet")


def test_a_finished_file_is_recognized_and_an_existing_one_kept(folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet")
    content = Path("a.parquet").read_bytes()
    made("embed", "a.txt", "-o", "a.parquet", "--resume")
    assert Path("a.parquet").read_bytes() == content
    done = elmo("embed", "a.txt", "-o", "a.parquet")
    assert done.code == 1
    assert "exists" in done.err


def test_other_commands_read_it(folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet")
    assert b"sentences" in made("inspect", "a.parquet").out
    made("inspect", "a.parquet", "--text", "a.txt")
    assert made("neighbors", "a.parquet", "0:cat").out
    assert made("kwic", "a.parquet", "cat").out


def test_a_changed_value_is_found_with_its_sentence(folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet")
    content = bytearray(Path("a.parquet").read_bytes())
    with open_embeddings("a.parquet") as embeddings:
        value = embeddings[2][0, 1, 3].tobytes()
    content[content.index(value)] ^= 1
    Path("a.parquet").write_bytes(content)
    done = elmo("inspect", "a.parquet")
    assert done.code == 1
    assert "2" in done.err + done.out.decode()


def test_files_that_elmo_has_not_written_are_refused(folder: Path) -> None:
    import pyarrow

    parquet.write_table(pyarrow.table({"a": [1]}), "a.parquet")
    refused(
        elmo("neighbors", "a.parquet", "x"),
        1,
        "a.parquet: a Parquet file that elmo has not written",
        "give one that `elmo embed` or `elmo convert` wrote",
    )


@pytest.mark.parametrize("keep", [4, 100, 0.5, 0.9, -8, -1])
def test_a_truncated_file_is_refused(keep: float, folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet")
    content = Path("a.parquet").read_bytes()
    n_bytes = int(keep * len(content)) if isinstance(keep, float) else keep
    Path("a.parquet").write_bytes(content[:n_bytes])
    with pytest.raises(EmbeddingsFileError):
        open_embeddings("a.parquet")
    done = elmo("inspect", "a.parquet")
    assert done.code == 1
    assert "internal error" not in done.err


@pytest.mark.parametrize(
    "content", [b"", b"The cat sat .\n", b"PAR1" + bytes(8) + b"\xff\xff\0\0PAR1"]
)
def test_another_file_with_the_suffix_is_no_parquet_file(content: bytes, folder: Path) -> None:
    Path("a.parquet").write_bytes(content)
    done = elmo("inspect", "a.parquet")
    refused(done, 1, "a.parquet: not a Parquet file", "get it again")


def test_damages_are_read_or_refused(folder: Path) -> None:
    made("embed", "a.txt", "-o", "a.parquet")
    content = Path("a.parquet").read_bytes()
    chance = np.random.default_rng(1)
    for _ in range(30):
        damaged = bytearray(content)
        for position in chance.integers(0, len(content), 8):
            damaged[position] ^= int(chance.integers(1, 256))
        Path("b.parquet").write_bytes(damaged)
        done = elmo("convert", "b.parquet", "-o", "b.hdf5", "--overwrite")
        assert done.code in (0, 1), done.err
        assert "internal error" not in done.err
        if done.code == 0:
            same(folder / "b.hdf5", folder / "a.parquet")


def test_a_damaged_name_of_the_schema_is_refused(folder: Path) -> None:
    """Without its own schema, pyarrow reads lists of any length, which have no size."""
    made("embed", "a.txt", "-o", "a.parquet")
    content = Path("a.parquet").read_bytes()
    assert content.count(b"ARROW:schema") == 1
    Path("a.parquet").write_bytes(content.replace(b"ARROW:schema", b"ARROW:schemb"))
    refused(
        elmo("kwic", "a.parquet", "cat"),
        1,
        "a.parquet: its columns of vectors are not lists of floats of one length",
        "get it again",
    )


def test_what_parquet_cannot_hold_is_refused(tmp_path: Path) -> None:
    lone = Sentence(("a\udc80",), 0, "a\udc80", source="in.txt", line=1)
    source = write(tmp_path / "a.hdf5", [lone], layout="flat")
    with pytest.raises(OutputError, match="lone surrogate"):
        convert(source, tmp_path / "a.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.hdf5"]
