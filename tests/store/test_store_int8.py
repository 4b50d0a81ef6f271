"""int8 in `flat`: how far values are off, and that storing them again changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reader_files import array, lines, write

from elmo_cli.errors import OutputError
from elmo_cli.store.convert import convert
from elmo_cli.store.int8 import quantized, restored
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.reading_lines import reading_lines
from elmo_cli.store.verify import verify

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
VECTORS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=3), elements=FLOATS)


@given(VECTORS)
def test_no_value_is_off_by_more_than_half_a_step(vectors: np.ndarray) -> None:
    """A scale that is too small would cut the greatest value of a vector."""
    values, scales = quantized(vectors)
    assert (values.dtype, scales.dtype) == (np.int8, np.float32)
    assert scales.shape == vectors.shape[:-1]
    greatest = np.abs(vectors).max(-1)
    assert (scales <= greatest / 127 * (1 + 2.0**-14)).all()
    off = np.abs(restored(values, scales).astype(np.float64) - vectors)
    assert (off <= np.maximum(scales[..., None] * 0.5000001, 1.6e-36)).all()


@given(VECTORS)
def test_what_was_stored_is_stored_again_in_the_same_bytes(vectors: np.ndarray) -> None:
    """Else merged shards would not be the file of one run."""
    values, scales = quantized(vectors)
    again = quantized(restored(values, scales))
    assert again[0].tobytes() == values.tobytes()
    assert again[1].tobytes() == scales.tobytes()


def test_zeros_stay_zeros() -> None:
    """A division by a scale of 0 would make NaN of them."""
    values, scales = quantized(np.zeros((2, 3), np.float32))
    assert not values.any()
    assert not scales.any()
    assert quantized(np.zeros((0, 3, 4), np.float32))[1].shape == (0, 3)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    """Its scale would be capped: [1, 2, inf] came back as [0, 0, 3.4e38], and nothing was wrong."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat")
    with h5py.File(path, "r+") as file:
        file["vectors"][3, 1, 2] = value
    with pytest.raises(OutputError) as caught:
        convert(path, tmp_path / "b.hdf5", dtype="int8")
    assert caught.value.message.startswith(f"{path}: sentence ")
    assert caught.value.message.endswith(": a value is NaN or infinite, beyond int8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_gives_floats_back(tmp_path: Path) -> None:
    """Readers are not to know of steps and scales."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype="int8")
    with h5py.File(path) as file:
        assert file["vectors"].dtype == np.int8
        assert file["scales"].shape == file["vectors"].shape[:2]
        assert file["scales"].dtype == np.float32
    with open_embeddings(path) as embeddings:
        assert embeddings.dtype == np.float32
        assert embeddings.stored_dtype == np.int8
        for sentence in lines():
            found, exact = embeddings[sentence.key], array(sentence)
            assert (found.shape, found.dtype) == (exact.shape, np.float32)
            step = np.abs(exact).max(-1, keepdims=True, initial=0) / 127
            assert (np.abs(found - exact) <= 0.51 * step).all()


def test_other_layouts_get_floats_and_give_them(tmp_path: Path) -> None:
    """`convert` is the way from a small file to one that other programs read, and back."""
    small = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype="int8")
    out = tmp_path / "b.hdf5"
    assert convert(small, out, layout="allennlp")["dtype"] == "float32"
    with open_embeddings(small) as one, open_embeddings(out) as other:
        for key in one:
            assert np.array_equal(one[key], other[key])
    back = convert(out, tmp_path / "c.hdf5", layout="flat", dtype="int8")
    assert back["dtype"] == "int8"
    with h5py.File(small) as one, h5py.File(tmp_path / "c.hdf5") as other:
        for name in ("vectors", "scales"):
            assert np.array_equal(one[name][()], other[name][()])


@pytest.mark.parametrize(("change", "problem"), [(np.nan, "no scale"), (-1.0, "no scale")])
def test_a_scale_that_is_none_is_told(tmp_path: Path, change: Any, problem: str) -> None:
    """One damaged scale makes a whole vector wrong, and no value of it looks so."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype="int8")
    with h5py.File(path, "r+") as file:
        file["scales"][3, 1] = change
    assert any(problem in found for found in verify(path).problems)


@pytest.mark.parametrize("options", [{}, {"layers": None}, {"pool": True}])
def test_the_printed_lines_multiply_by_the_scales(tmp_path: Path, options: dict[str, Any]) -> None:
    """They are printed to be pasted; without the scales they would give integers."""
    path = write(tmp_path / "a.hdf5", lines(), layout="flat", dtype="int8", **options)
    plain, ours = ({}, {})
    for names, program in zip((plain, ours), reading_lines(path).split("\n\n"), strict=True):
        exec(program, names)
    assert sorted(plain["array"].ravel().tolist()) == sorted(ours["array"].ravel().tolist())
