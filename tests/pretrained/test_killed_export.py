"""`elmo models export`, `convert` and `random`: killed at any call, refused, or failed."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import h5py
import pytest
from command_line import elmo, made, refused
from killed_commands import KilledCommand

from elmo_cli.file_locks import FileLock

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CHECKPOINT = GOLDEN / "tf_checkpoint" / "full"
LOCK = ".elmo-lock"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def written(folder: Path) -> dict[str, bytes]:
    return content(folder / "made/out")


@pytest.mark.parametrize(
    ("words", "is_exhaustive"),
    [
        (("random", "--like", GOLDEN / "seqvec"), True),
        (("export", GOLDEN / "elmoformanylangs" / "cnn-both-clip", "--dtype", "float16"), True),
        (("convert", CHECKPOINT, "--optimizer-state"), False),
        pytest.param(("convert", CHECKPOINT, "--optimizer-state"), True, marks=pytest.mark.slow),
    ],
    ids=["random", "export", "convert", "convert at all calls"],
)
def test_killed_command_ends_as_if_undisturbed(
    words: Sequence[object], is_exhaustive: bool, tmp_path: Path
) -> None:
    """The same command is enough, without an option."""
    command = KilledCommand(
        ("models", *words, "-o", "made/out", "-q"), lambda folder: None, written
    )
    n_runs = command.check(tmp_path, is_exhaustive=is_exhaustive, is_repeated_as_it_is=True)
    print(f"models {words[0]}: {n_runs} runs killed")


@pytest.fixture
def incomplete(tmp_path: Path) -> Path:
    """A folder as a killed command leaves it."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / LOCK).write_bytes(b"an incomplete model\n")
    (folder / "options.json").write_bytes(b"half of it")
    (folder / "weights.hdf5.0123abcd.part").write_bytes(b"half of them")
    return folder


def test_an_incomplete_model_of_another_command_is_replaced(
    incomplete: Path, tiny: Path, tmp_path: Path
) -> None:
    (incomplete / "optimizer.hdf5").touch()
    made("models", "random", "--like", tiny, "-o", incomplete)
    made("models", "random", "--like", tiny, "-o", tmp_path / "other")
    assert content(incomplete) == content(tmp_path / "other")


@pytest.mark.parametrize(
    ("lock", "name"),
    [(b"", "options.json"), (b"an incomplete model\n", "notes.txt")],
    ids=["of a training run", "with a file of the user"],
)
def test_files_that_the_command_has_not_written_stay(
    lock: bytes, name: str, incomplete: Path, tiny: Path
) -> None:
    (incomplete / LOCK).write_bytes(lock)
    (incomplete / name).write_bytes(b"of the user")
    before = content(incomplete)
    done = elmo("models", "random", "--like", tiny, "-o", incomplete)
    refused(done, 1, f"{incomplete}: contains {name}", "new or empty folder")
    assert content(incomplete) == before


def test_the_model_that_is_read_stays(tiny: Path) -> None:
    """Even if its folder looks like an incomplete one."""
    lock = tiny / LOCK
    lock.write_bytes(b"an incomplete model\n")
    before = content(tiny)
    done = elmo("models", "export", tiny, "-o", tiny)
    lock.unlink()
    refused(done, 1, f"{tiny}: contains options.json", "new or empty folder")
    assert content(tiny) == {name: before[name] for name in before if name != LOCK}


def test_a_folder_that_another_process_fills_is_refused(incomplete: Path, tiny: Path) -> None:
    before = content(incomplete)
    with open(incomplete / LOCK, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = elmo("models", "random", "--like", tiny, "-o", incomplete)
    refused(done, 1, f"{incomplete}: another process is writing there", "wait for it")
    assert content(incomplete) == before


def test_a_model_that_another_process_has_completed_meanwhile_stays(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look into the folder and the lock, which is a new one then."""
    acquire = FileLock.acquire

    def acquire_later(lock: FileLock) -> bool:
        (tmp_path / "out" / "options.json").write_bytes(b"of another process")
        return acquire(lock)

    monkeypatch.setattr(FileLock, "acquire", acquire_later)
    done = elmo("models", "random", "--like", tiny, "-o", tmp_path / "out")
    refused(done, 1, f"{tmp_path}/out: contains options.json", "new or empty folder")
    assert content(tmp_path / "out") == {"options.json": b"of another process"}


@pytest.mark.parametrize("is_new", [True, False])
def test_an_error_leaves_the_folder_as_it_was(is_new: bool, tiny: Path, tmp_path: Path) -> None:
    """So that the command that the hint advises finds a new or empty folder again."""
    model = tmp_path / "model"
    model.mkdir()
    for name, file_content in content(tiny).items():
        (model / name).write_bytes(file_content)
    with h5py.File(model / "weights.hdf5", "r+") as file:
        file["CNN_proj/W_proj"][0, 0] = 1e6
    out = tmp_path / "out"
    if not is_new:
        out.mkdir()
    done = elmo("models", "export", model, "-o", out, "--dtype", "float16")
    message = f"{out}/weights.hdf5: CNN_proj/W_proj has a value beyond float16"
    refused(done, 1, message, "--dtype float32")
    assert out.exists() != is_new
    assert not list(tmp_path.glob("out/*"))
    made("models", "export", model, "-o", out)
