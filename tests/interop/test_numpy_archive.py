"""`convert` to .npz: one array per key, as `elmo embed -o - --output-format npz` writes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import elmo, made, only_tiny, refused
from store.embedding_files import FILES, lines, write
from store.embedding_files import made as made_file

from elmo_cli.errors import EmbeddingsFileError, OutputError, UsageError
from elmo_cli.interop.numpy_archive import write_archive
from elmo_cli.store.reader import open_embeddings


@pytest.mark.parametrize("name", FILES)
def test_arrays_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    path = made_file(tmp_path / "a.hdf5", name)
    facts = write_archive(path, tmp_path / "a.npz")
    with open_embeddings(path) as embeddings, np.load(tmp_path / "a.npz") as archive:
        assert list(archive) == [str(key) for key in embeddings]
        for key in embeddings:
            stored = archive[str(key)]
            assert stored.dtype == embeddings.dtype
            np.testing.assert_array_equal(stored, embeddings[key])
        assert facts["sentences"] == len(embeddings)


def test_layers_and_dtype(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    write_archive(path, tmp_path / "a.npz", layers="2,0", dtype="float16")
    with open_embeddings(path) as embeddings, np.load(tmp_path / "a.npz") as archive:
        for key in embeddings:
            expected = embeddings[key][[2, 0]].astype(np.float16)
            np.testing.assert_array_equal(archive[str(key)], expected)


def test_the_bytes_are_those_of_embed(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The cat sat .\n\nIt slept .\n")
    streamed = made("embed", "a.txt", "-o", "-", "--output-format", "npz").out
    made("embed", "a.txt", "-o", "a.hdf5")
    done = made("convert", "a.hdf5", "-o", "a.npz", "--json")
    assert Path("a.npz").read_bytes() == streamed
    assert json.loads(done.out) == {"output": "a.npz", "sentences": 3, "bytes": len(streamed)}


def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(Path("a.hdf5"), lines(), layout="flat")
    with pytest.raises(UsageError, match="`dtype=int8`: NumPy archive does not store it"):
        write_archive(path, "a.npz", dtype="int8")
    with pytest.raises(UsageError, match="`layers=7`"):
        write_archive(path, "a.npz", layers="7")
    for option in ("--layout flat", "--sentence-map last"):
        done = elmo("convert", path, "-o", "a.npz", *option.split())
        refused(done, 2, f"{option.split()[0]}: has no effect for .npz", "leave it out")
    with pytest.raises(UsageError, match="is also one of the inputs"):
        write_archive(path, path, overwrite=True)
    assert not Path("a.npz").exists()
    Path("a.npz").touch()
    with pytest.raises(OutputError, match="exists"):
        write_archive(path, "a.npz")


def test_a_corrupt_sentence_leaves_no_archive(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    content = bytearray(path.read_bytes())
    content[12288 + 40] ^= 1  # among the first values
    path.write_bytes(content)
    with pytest.raises(EmbeddingsFileError, match="corrupt"):
        write_archive(path, tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == [path]
