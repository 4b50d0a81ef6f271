"""Zip files of arrays: every array comes back, and what nobody has written is refused."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from elmo_cli import zip_files
from elmo_cli.zip_files import check_zip, read_npz


def test_arrays_come_back(tmp_path: Path) -> None:
    """Also those in the order of Fortran, as NumPy saves a transposed one, and scalars."""
    arrays = {
        "rows": np.arange(6, dtype="<i4").reshape(2, 3),
        "columns": np.arange(24.0).reshape(2, 3, 4).T,
        "scalar": np.array(2.5),
        "none": np.zeros((0, 3)),
        "words": np.array(["the", "cat"]),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    read = read_npz(tmp_path / "a.npz")
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array, strict=True)


def zipped(path: Path, *members: tuple[str, bytes]) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of a name that occurs twice
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_members_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(20_000)
    for limit, n_most in ((30_000, 1), (60_000, 3)):
        monkeypatch.setattr(zip_files, "MIN_LIMIT", limit)
        members = [(f"{number}", zeros) for number in range(n_most + 1)]
        check_zip(zipped(tmp_path / "a.zip", *members[:n_most]))
        with pytest.raises(ValueError, match=r"its content has .*, more than "):
            check_zip(zipped(tmp_path / "a.zip", *members))


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    """Readers take one of them, not all of them the same."""
    path = zipped(tmp_path / "a.zip", ("a", b"1"), ("b", b"2"), ("a", b"3"))
    with pytest.raises(ValueError, match="occurs 2 times"):
        check_zip(path)


@pytest.mark.parametrize("names", [("a", "a.npy"), ("a.npy", "a")])
def test_an_array_that_occurs_with_and_without_suffix_is_refused(
    names: tuple[str, str], tmp_path: Path
) -> None:
    """NumPy reads the member without the suffix, wherever it is in the file."""
    members = []
    for number, name in enumerate(names):
        content = io.BytesIO()
        np.save(content, np.array(number))
        members.append((name, content.getvalue()))
    path = zipped(tmp_path / "a.npz", *members)
    with pytest.raises(ValueError, match=r"the array 'a' occurs as a and as a\.npy"):
        read_npz(path)
    assert read_npz(zipped(path, members[0])) == {"a": 0}


def test_the_number_of_members_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", ("a", b"1"), ("b", b"2"), ("c", b"3"))
    monkeypatch.setattr(zip_files, "_MAX_MEMBERS", 3)
    check_zip(path)
    monkeypatch.setattr(zip_files, "_MAX_MEMBERS", 2)
    with pytest.raises(ValueError, match="3 members"):
        check_zip(path)
