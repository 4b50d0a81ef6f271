"""Copies of our files by programs that do not keep the order of attributes, as h5py by default."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
from embedding_files import RUN, lines, write

from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import verify
from elmo_cli.store.shards import merge_shards


def copied(path: Path) -> Path:
    """A copy of a file, whose attributes are read in the order of their names."""
    copy = path.with_name(f"copy-{path.name}")
    with h5py.File(path) as source, h5py.File(copy, "w") as target:
        for name in source:
            source.copy(name, target)
        for name, value in source.attrs.items():
            target.attrs[name] = value
    return copy


@pytest.mark.parametrize("layout", ["allennlp", "flat"])
def test_a_copy_is_converted_as_the_file(tmp_path: Path, layout: str) -> None:
    """What the writer has found is not taken for settings."""
    path = write(tmp_path / "a.hdf5", lines(), layout=layout)
    copy = copied(path)
    assert verify(copy).listed == []
    convert(copy, tmp_path / "b.hdf5", dtype="float16")
    assert verify(tmp_path / "b.hdf5").listed == []
    with h5py.File(path) as before, h5py.File(tmp_path / "b.hdf5") as after:
        assert set(after.attrs) == set(before.attrs)
        for name in RUN:
            assert after.attrs[name] == before.attrs[name]


def test_copies_of_shards_are_merged(tmp_path: Path) -> None:
    copies = []
    for number, sentences in enumerate((lines()[:5], lines()[5:]), start=1):
        path = write(
            tmp_path / f"{number}.hdf5",
            sentences,
            layout="bilm",
            first_sentence=sentences[0].key,
            run_settings={"shard": f"{number}/2"},
        )
        copies.append(copied(path))
    merged = merge_shards(copies, tmp_path / "m.hdf5")
    assert merged.n_sentences == len(lines())
    assert verify(tmp_path / "m.hdf5").listed == []
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert "shard" not in file.attrs
