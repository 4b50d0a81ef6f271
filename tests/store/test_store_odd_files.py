"""Files of other programs, damaged ones and hostile ones: each is read or refused in two lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import elmo
from reader_files import DIM, documents, foreign, write

from elmo_cli.errors import ResumeError, WeightFileError
from elmo_cli.store.held_layers import held_layers
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.weightfile.read import read_bilm

Change = Callable[[h5py.File], object]
DEEP = "[" * 50_000
DIGITS = "9" * 5_000


def inspected(path: Path) -> str:
    """What is wrong with a file, as both ways of printing it say; empty for a sound one."""
    found = [elmo("inspect", path), elmo("inspect", "--json", path)]
    assert not any("fault of elmo" in done.err for done in found)
    said = {(done.code, done.err.partition("\n")[0]) for done in found}
    ((code, error),) = said
    assert code == bool(error)
    return error.removeprefix(f"error: {path}: ")


def attribute(name: str, value: Any) -> Change:
    return lambda file: file.attrs.__setitem__(name, value)


def dataset(name: str, value: Any) -> Change:
    def change(file: h5py.File) -> None:
        file.pop(name, None)
        file[name] = value

    return change


def of_time(name: str, shape: tuple[int, ...] = (5,)) -> Change:
    """A dataset of a type that HDF5 has and numpy has not."""

    def change(file: h5py.File) -> None:
        file.pop(name, None)
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.UNIX_D32LE, space)

    return change


def attribute_of_time(file: h5py.File) -> None:
    h5py.h5a.create(file.id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))


@pytest.mark.parametrize(
    "change",
    [
        attribute("sources", "wikipedia"),
        attribute("sources", "[1, 2]"),
        attribute("channel#1", 7),
        lambda file: (attribute("channel#0", 3)(file), attribute("channel#1", 7)(file)),
        attribute("deep", DEEP),
        attribute("layers", np.arange(2)),
        lambda file: attribute("reference", file["0"].ref)(file),
        lambda file: attribute("nothing", h5py.Empty("f4"))(file),
        attribute("complex", 1 + 2j),
    ],
)
def test_attributes_of_other_programs(tmp_path: Path, change: Change) -> None:
    """They may be called as ours and hold anything; no reason to refuse the arrays."""
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM)), "1": np.ones((3, 1, DIM))})
    with h5py.File(path, "a") as file:
        change(file)
    assert inspected(path) == ""


@pytest.mark.parametrize("layers", [DIGITS, "²", "1,", "top"])
def test_a_layer_without_a_number_has_none(tmp_path: Path, layers: str) -> None:
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((2, DIM))})
    with h5py.File(path, "a") as file:
        file.attrs["layers"] = layers
    with open_embeddings(path) as embeddings:
        assert held_layers(embeddings) == ()


@pytest.mark.parametrize("tokens", ["12 million", np.arange(2), 7])
def test_a_count_that_is_none(tmp_path: Path, tokens: Any) -> None:
    path = foreign(tmp_path / "a.hdf5", {"0": np.ones((3, 2, DIM))})
    with h5py.File(path, "a") as file:
        file.attrs["tokens"] = tokens
    shown = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    assert inspected(path) == f"it has 2 tokens, its attribute says {shown}"


@pytest.mark.parametrize(
    ("layout", "change", "problem"),
    [
        ("allennlp", attribute("layout", np.arange(2)), "unknown layout array([0, 1])"),
        ("allennlp", attribute("complete", np.zeros(2)), "no end mark, its run did not finish"),
        ("allennlp", dataset(DIGITS, np.ones((3, 2, DIM))),
         "a name of 5000 digits is no number of a sentence"),
        ("allennlp", dataset("1", ["a", "b"]),
         "sentence 1 holds object in shape (2,), not floats in 1 to 3 axes"),
        ("allennlp", dataset("0", h5py.Empty("f4")),
         "holds float32 in shape None, not floats in 1 to 3 axes"),
        ("allennlp", of_time("1"), "No NumPy equivalent for TypeTimeID exists"),
        ("allennlp", attribute_of_time, "No NumPy equivalent for TypeTimeID exists"),
        ("e2e-coref", dataset("x/0", np.float32(1)),
         "sentence 'x:0' holds float32 in shape (), not floats in 1 to 3 axes"),
        ("flat", dataset("numbers", np.zeros((0, 2), int)), "numbers has no rows for 3 sentences"),
        ("flat", dataset("vectors", np.ones(6)),
         "`vectors` holds float64 in rows of shape (), not floats in (dim,) or (layer, dim)"),
        ("flat", dataset("offsets", np.zeros((4, 2), int)),
         "`offsets` holds int64 in rows of shape (2,), not integers in ()"),
        ("flat", dataset("token_ends", np.ones(6)),
         "`token_ends` holds float64 in rows of shape (), not integers in ()"),
    ],
)  # fmt: skip
def test_our_own_layouts_with_something_else_in_them(
    tmp_path: Path, layout: str, change: Change, problem: str
) -> None:
    """Damage, or harm that is meant: nobody should be asked to report it as a fault of ours."""
    path = write(tmp_path / "a.hdf5", documents("x"), layout=layout)
    with h5py.File(path, "a") as file:
        change(file)
    assert inspected(path).endswith(problem)
    done = elmo("convert", path, "-o", tmp_path / "b.hdf5", "-q")
    assert "fault of elmo" not in done.err


def test_going_on_with_a_file_whose_attributes_can_not_be_read(tmp_path: Path) -> None:
    """`--resume` and `inspect x.part` ask what such a file says of itself before all else."""
    path = write(tmp_path / "a.part", documents("x"), layout="bilm")
    with h5py.File(path, "a") as file:
        attribute_of_time(file)
    with pytest.raises(ResumeError, match="not an embeddings file that a run of elmo finished"):
        EmbeddingsWriter.resume(path, layout="bilm", header={})
    assert inspected(path) == "unfinished: 0 sentences are committed"


def test_arrays_that_do_not_go_together(tmp_path: Path) -> None:
    """Only the writer of the new file meets it, and it takes its callers to know better."""
    path = write(tmp_path / "a.hdf5", documents("x"), layout="manylangs", layers=None)
    with h5py.File(path, "a") as file:
        file.attrs["pool"] = "mean"  # which is not so
    done = elmo("convert", path, "-o", tmp_path / "b.hdf5", "--layout", "flat")
    assert done.err.startswith(f"error: {path}: sentence 1: rows of shape ")
    assert sorted(tmp_path.iterdir()) == [path]


def test_weights_of_a_type_that_numpy_has_not(tmp_path: Path, tiny: Path) -> None:
    """As above, for the reader of weights as well."""
    path = tmp_path / "weights.hdf5"
    shutil.copy(tiny / "weights.hdf5", path)
    with h5py.File(path, "a") as file:
        of_time("CNN_proj/b_proj", file["CNN_proj/b_proj"].shape)(file)
    assert inspected(path) == "No NumPy equivalent for TypeTimeID exists"
    with pytest.raises(WeightFileError, match="never written"):
        read_bilm(tiny / "options.json", path)
