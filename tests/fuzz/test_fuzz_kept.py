"""Files that fuzzing found: what they did to HDF5 2.0.0, to h5py or to elmo is in their names.

Another HDF5 may find the damage itself, so the message is left open, but not that there is one.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import seeds
from command_line import elmo

from elmo_cli import isolate

KEPT = Path(__file__).parent / "kept"
EMBEDDINGS = sorted(path.stem for path in KEPT.glob("*.gz"))


@pytest.fixture(autouse=True, scope="module")
def short_cpu_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolate, "MIN_CPU_SECONDS", 2)
        yield


def unpacked(name: str, to: Path) -> Path:
    to.write_bytes(gzip.decompress((KEPT / f"{name}.gz").read_bytes()))
    return to


def check_one_error(err: str) -> None:
    error, hint = err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert "a fault of elmo" not in hint


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_commands_end_in_one_error_and_leave_nothing(name: str, tmp_path: Path) -> None:
    path, out = unpacked(name, tmp_path / "in.hdf5"), tmp_path / "out.hdf5"
    sampled = ["inspect", path, "--no-verify", "--recompute", 2]
    for words in (
        ["inspect", path],
        sampled,
        ["convert", path, "-o", out],
        ["merge", path, "-o", out],
    ):
        done = elmo(*words, "-q")
        assert done.code in (0, 1, 2)
        if done.code:
            check_one_error(done.err)
            assert sorted(tmp_path.iterdir()) == [path]
        out.unlink(missing_ok=True)


def test_a_crash_leaves_the_unfinished_file_of_another_run(tmp_path: Path) -> None:
    """`elmo merge` writes to OUT.tmp, and leaves nothing of it."""
    path, out = unpacked("crash-shard", tmp_path / "in.hdf5"), tmp_path / "out.hdf5"
    for ending, content in seeds.run_files("allennlp").items():
        (tmp_path / f"out.hdf5{ending}").write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert elmo("merge", path, "-o", out).code == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_that_crashes_hdf5_is_refused(tmp_path: Path) -> None:
    """The loader, too, lets a child try a file that came from anywhere."""
    (tmp_path / "options.json").write_bytes(seeds.options())
    shutil.copy(unpacked("crash-btree", tmp_path / "in"), tmp_path / "weights.hdf5")
    (tmp_path / "a.txt").write_text("The cat\n")
    done = elmo("embed", tmp_path / "a.txt", "-m", tmp_path, "-o", tmp_path / "out.hdf5", "-q")
    assert done.code == 1
    check_one_error(done.err)
