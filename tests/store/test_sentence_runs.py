"""Runs: sentences read together give what each gives by itself, in all layouts and after damage."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedding_files import PROTEINS, documents, lines, write

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store import digests, intact_sentence
from elmo_cli.store.convert import convert
from elmo_cli.store.half_precision import all_finite, to_float32
from elmo_cli.store.inspection import verify
from elmo_cli.store.layouts import SentenceReader, base, flat_reader
from elmo_cli.store.layouts.flat_reader import FlatReader
from elmo_cli.store.layouts.rows import Rows
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.sentence import Sentence

MIXED = [*lines(), *documents("d", n_places=2)]
NUMBERED = [Sentence(s.tokens, key, s.text, document=s.document) for key, s in enumerate(MIXED)]
FILES: dict[str, tuple[list[Sentence], dict[str, Any]]] = {
    "flat": (NUMBERED, {}),
    "flat int8": (NUMBERED, {"layout": "flat", "dtype": "int8"}),
    "flat without layers": (NUMBERED, {"layout": "flat", "layers": None, "dtype": "float16"}),
    "flat pooled": (NUMBERED, {"layout": "flat", "pool": True}),
    "allennlp": (lines(), {}),
    "e2e-coref": (documents("z", "a"), {}),
    "manylangs": (lines(blank=False, repeats=False), {"layers": None}),
    "seqvec": (PROTEINS, {}),
}


def opened(folder: Path, case: str) -> Embeddings:
    sentences, options = FILES[case]
    return open_embeddings(write(folder / "a.hdf5", sentences, **{"layout": case, **options}))


@pytest.mark.parametrize("n_rows", [1, 7, 4096])
@pytest.mark.parametrize("case", FILES)
def test_a_run_gives_what_its_sentences_give(tmp_path, monkeypatch, case, n_rows):
    monkeypatch.setattr(flat_reader, "RUN_ROWS", n_rows)
    with opened(tmp_path, case) as embeddings:
        reader = embeddings.reader
        positions = count()
        for run in embeddings.runs():
            run.read_infos()
            assert run.begin == next(positions)
            vectors = []
            for number, handle in enumerate(run.handles):
                if number:
                    next(positions)
                assert run.key(number) == reader.key(handle)
                assert run.info(number) == reader.info(handle)
                assert run.identity(number) == reader.identity(handle)
                assert run.shape(number) == reader.shape(handle)
                assert run.sentence(number, 3, 2) == reader.sentence(handle, 3, 2)
                for found, single in zip(run.stored(number), reader.stored(handle), strict=True):
                    assert np.array_equal(found, single)
                layer = None if embeddings.n_layers is None else 1
                array = embeddings.array_of(*run.stored(number, layer))
                vectors.append(array.reshape(-1, embeddings.dim))
            in_one_array = run.rows(layer)
            if in_one_array is not None:
                assert np.array_equal(in_one_array[0], np.concatenate(vectors))
                assert in_one_array[1].tolist() == np.cumsum([len(v) for v in vectors]).tolist()
        assert next(positions) == len(embeddings)


@pytest.mark.parametrize("case", ["flat", "flat int8", "flat without layers", "flat pooled"])
def test_flat_is_read_by_runs(tmp_path, monkeypatch, case):
    reads = []
    read = Rows.read
    monkeypatch.setattr(Rows, "read", lambda *args: reads.append(args) or read(*args))
    with opened(tmp_path, case) as embeddings:
        reads.clear()
        n_sentences = len(list(embeddings.sentences()))
        assert len(reads) < n_sentences


@pytest.mark.parametrize("case", ["allennlp", "e2e-coref", "manylangs", "seqvec"])
def test_values_of_contiguous_data_sets_are_not_read_by_hdf5(tmp_path, monkeypatch, case):
    with opened(tmp_path, case) as embeddings:
        expected = list(embeddings.sentences())
        monkeypatch.setattr(hdf5, "mapped_file", lambda file: None)
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        unmapped = list(embeddings.sentences())
        monkeypatch.undo()
    read = hdf5.read_dataset
    sizes = []
    monkeypatch.setattr(
        hdf5, "read_dataset", lambda dataset, *args: sizes.append(dataset.size) or read(dataset)
    )
    with open_embeddings(tmp_path / "a.hdf5") as embeddings:
        mapped = [embeddings[key] for key in embeddings]
    assert not any(sizes)  # of blank lines
    for (_, array), (_, other), another in zip(expected, unmapped, mapped, strict=True):
        assert np.array_equal(array, other)
        assert np.array_equal(array, another)


@pytest.mark.parametrize("case", FILES)
def test_a_sentence_that_does_not_change_is_compared_with_its_checksum_once(
    tmp_path, monkeypatch, case
):
    with opened(tmp_path, case) as source:
        n_sentences = len(source)
        can_be_copied = source.stored_dtype != np.int8 and not source.is_keyed_by_name
    computed = []

    def counted(*args):
        computed.append(args)
        return digests.checksum(*args)

    monkeypatch.setattr(intact_sentence, "checksum", counted)
    monkeypatch.setattr(base, "checksum", counted)
    convert(tmp_path / "a.hdf5", tmp_path / "b.hdf5")
    assert (len(computed) == n_sentences) == can_be_copied
    with h5py.File(tmp_path / "a.hdf5") as old, h5py.File(tmp_path / "b.hdf5") as new:
        names = list(old)
        assert list(new) == names
        for name in names:
            if isinstance(old[name], h5py.Dataset):
                assert np.array_equal(old[name][()], new[name][()])
        assert np.array_equal(old.attrs["sentence_crc32"], new.attrs["sentence_crc32"])
        assert old.attrs["tokens_sha256"] == new.attrs["tokens_sha256"]


@pytest.mark.parametrize("case", FILES)
def test_arrays_outlive_their_file(tmp_path, case):
    with opened(tmp_path, case) as embeddings:
        together = [array for _, array in embeddings.sentences()]
        singly = [embeddings[key] for key in embeddings]
    (tmp_path / "a.hdf5").write_bytes(b"")  # a view of the file would now end the process
    for array, single in zip(together, singly, strict=True):
        assert np.array_equal(array, single)
        for copy in (array, single):
            assert copy.flags.writeable
            assert copy.flags.c_contiguous


def lower_an_offset(file: h5py.File) -> None:
    file["offsets"][6] = 1


def raise_an_offset(file: h5py.File) -> None:
    file["offsets"][6] = 1 << 40


def break_a_token(file: h5py.File) -> None:
    file["token_bytes"][int(file["token_ends"][10])] = 0xFF


def write_nan(file: h5py.File) -> None:
    file["vectors"][7, 0, 1] = np.nan
    file["vectors"][8, 1, 2] = np.inf


def shorten_the_keys(file: h5py.File) -> None:
    keys = file["keys"][:-3]
    del file["keys"]
    file["keys"] = keys


@pytest.mark.parametrize(
    "damage", [lower_an_offset, raise_an_offset, break_a_token, shorten_the_keys, write_nan]
)
def test_damage_is_reported_for_its_sentence(tmp_path, monkeypatch, damage):
    with opened(tmp_path, "flat") as embeddings:
        path = embeddings.path
    with h5py.File(path, "r+") as file:
        damage(file)
    found = verify(path)
    n_read, problem = read_until_damage(path)
    monkeypatch.setattr(FlatReader, "runs", SentenceReader.runs)  # one by one
    assert found.listed == verify(path).listed
    assert (n_read, problem) == read_until_damage(path)
    assert found.count
    assert problem


def read_until_damage(path: Path) -> tuple[int, str]:
    """How many sentences can be read before an error, and what it says."""
    n_read = 0
    try:
        with open_embeddings(path) as embeddings:
            for _ in embeddings.sentences():
                n_read += 1
    except EmbeddingsFileError as error:
        return n_read, str(error)
    return n_read, ""


def test_all_halves_have_the_float32_of_numpy():
    halves = np.arange(1 << 16, dtype="u2").view("f2").reshape(256, 256)
    assert np.array_equal(to_float32(halves), halves.astype("f4"), equal_nan=True)
    is_finite = np.isfinite(halves)
    finite = halves[is_finite]
    assert to_float32(finite).tobytes() == finite.astype("f4").tobytes()
    assert to_float32(finite[::3]).tobytes() == finite[::3].astype("f4").tobytes()
    for half, expected in zip(halves.ravel()[::7], is_finite.ravel()[::7], strict=True):
        assert all_finite(np.array([1, half, -2], "f2")) == expected


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f2"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_is_found_wherever_it_is(dtype, value):
    values = np.ones((3, 50, 2000), dtype)  # several chunks
    assert all(map(all_finite, (values, values[:, ::2], values[:0])))
    values[2, 49, 1999] = value
    assert not any(map(all_finite, (values, values[:, 1::2, ::-1])))
