"""write_numbers: the file that HDF5 would write, whatever the size and the place of the values."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_cli.store import large_attributes
from elmo_cli.store.large_attributes import write_numbers
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.output_file import _new_hdf5

SIZES = (1_000, 40_000, 90_000)  # below, near and above the size of a large attribute


def numbers(dtype: str, size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 1 << 32, size).astype(dtype)


def spool_of(folder: Path, values: np.ndarray) -> Spool:
    spool = Spool(folder, values.dtype.str)
    spool.pending.frombytes(values.tobytes())
    return spool


def write(path: Path, alignment: int, *, with_hdf5: bool) -> Path:
    """Attributes of several sizes, between others, in a file with some data sets."""
    with _new_hdf5(path, alignment) as file:
        for number in range(40):
            file.create_dataset(str(number), data=np.ones(number), track_times=False)
        for size in SIZES:
            for dtype in ("<u4", "<u8"):
                name = f"{dtype[1:]}_{size}"
                values = numbers(dtype, size)
                file.attrs[f"before_{name}"] = f"text {size}"
                if with_hdf5:
                    file.attrs[name] = values
                else:
                    write_numbers(file, name, spool_of(path.parent, values))
        file.attrs["complete"] = True
    return path


@pytest.mark.parametrize("alignment", [1, 4096])
@pytest.mark.parametrize("n_searched", [1 << 16, 0], ids=["found", "not found"])
def test_the_file_is_that_of_hdf5(
    alignment: int, n_searched: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the address of the values is not found, so that HDF5 writes them."""
    monkeypatch.setattr(large_attributes, "_SEARCHED_BYTES", n_searched)
    expected = write(tmp_path / "a.hdf5", alignment, with_hdf5=True)
    path = write(tmp_path / "b.hdf5", alignment, with_hdf5=False)
    assert path.read_bytes() == expected.read_bytes()
    with h5py.File(path) as file:
        assert np.array_equal(file.attrs["u8_90000"], numbers("<u8", 90_000))


def test_hdf5_does_not_take_the_values_of_a_large_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be in memory three times."""
    monkeypatch.setattr(Spool, "array", lambda spool: pytest.fail("read as a whole"))
    values = numbers("<u8", 90_000)
    with _new_hdf5(tmp_path / "a.hdf5", 1) as file:
        write_numbers(file, "token_digests", spool_of(tmp_path, values))
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert np.array_equal(file.attrs["token_digests"], values)
