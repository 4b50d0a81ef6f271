"""One training run at a time in a folder; what a run leaves hinders no other."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from make_weights import MODELS, write_model
from training_commands import Command, refused

from elmo_cli.errors import OutputError
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.source_model import load_source

LINES = [f"the cat number {i % 7} sees the dog {'again ' * (i % 3)}." for i in range(120)]
SHORT = ("--max-steps", "1", "--quiet")
TAKEN = "out: another process is training there"
ELSEWHERE = "wait for it, or name another folder with `-o`"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def finetune(capsys: pytest.CaptureFixture[str], text: Path, out: Path, tmp_path: Path) -> Command:
    model = write_model(tmp_path / "model", MODELS["tiny"], "tiny")
    words = ("--domain", text, "-m", model, "-o", out, "--batch-size", "2", "--threads", "1")
    return Command(capsys, "finetune", *map(str, words), "--device", "cpu", *SHORT)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["finetune"])
def test_a_second_run_is_refused(kind: str, out: Path, request: pytest.FixtureRequest) -> None:
    """Without it the weights of one run and the log, the text, the checkpoint of another mix."""
    run: Command = request.getfixturevalue(kind)
    out.mkdir()
    with FolderLock(out) as lock:
        lock.take()
        refused(run(), TAKEN, ELSEWHERE)
        assert list(files(out)) == [".lock"]
    (out / ".lock").touch()  # as a kill leaves it, or a copy of the folder takes it along
    code, _, said = run()
    assert code == 0, said
    before = files(out)
    assert ".lock" not in before
    with FolderLock(out) as lock:
        lock.take()
        for more in ((), ("--resume",), ("--overwrite",)):
            refused(run(*more), TAKEN, ELSEWHERE)
    assert files(out) == before
    code, _, said = run("--resume")
    assert code == 0, said


@pytest.mark.parametrize(
    ("kind", "reader"),
    [("finetune", load_source)],
    ids=["finetune"],
)
def test_a_run_that_came_meanwhile_is_left_alone(
    kind: str,
    reader: Callable[..., Any],
    out: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it two runs that both found no folder would write into one."""
    run: Command = request.getfixturevalue(kind)
    name = {
        "finetune": "elmo_cli.lm.finetune.run.load_source",
    }[kind]

    def meanwhile(happens: Callable[[], object]) -> None:
        def read(*args: Any, **more: Any) -> Any:
            monkeypatch.setattr(name, reader)
            happens()
            return reader(*args, **more)

        monkeypatch.setattr(name, read)

    with FolderLock(out) as lock:
        meanwhile(lambda: (out.mkdir(), lock.take()))
        refused(run(), TAKEN, ELSEWHERE)
    out.rmdir()
    kept: dict[str, bytes] = {}
    meanwhile(lambda: (run(), kept.update(files(out))))
    refused(run(), " of an earlier run", "`--resume` goes on with it")
    assert kept
    assert files(out) == kept


@pytest.mark.parametrize("kind", ["finetune"])
def test_the_folder_is_held_to_the_end(
    kind: str, out: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the warm state of one run could end beside the weights of the next."""
    run: Command = request.getfixturevalue(kind)
    told = []

    def write_warm_state(folder: Path) -> None:
        with FolderLock(folder) as other, pytest.raises(OutputError) as caught:
            other.take()
        told.append(caught.value.message)

    room = {"finetune": "finetuning"}[kind]
    monkeypatch.setattr(f"elmo_cli.cli.{room}.write_warm_state", write_warm_state)
    code, _, said = run()
    assert code == 0, said
    assert told == [f"{out}: another process is training there"]
    assert not (out / ".lock").exists()


def test_a_file_system_without_locks(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing could be trained there."""

    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    out.mkdir()
    with FolderLock(out) as lock:
        lock.take()
    assert list(out.iterdir()) == []


def test_beginnings_of_files_that_a_kill_left_are_removed(out: Path) -> None:
    """Without it each kill while a checkpoint is saved would take its size of the disk for good."""
    out.mkdir()
    for name in ("checkpoint.pt.0a1b2c3d.part", "checkpoint.pt", "mine.pt.part", "a.txt.part"):
        (out / name).touch()
    with FolderLock(out) as lock:
        lock.take()
        lock.take()
    assert set(files(out)) == {"checkpoint.pt", "mine.pt.part", "a.txt.part"}


def test_only_what_a_run_writes_is_cleared_away(tmp_path: Path) -> None:
    """Another program may be writing a text or an embeddings file into the same folder."""
    ours = ["checkpoint.pt", "best-12.pt", "weights.hdf5", "finetune.json", "fitted_softmax.hdf5"]
    others = ["tok.txt", "corpus.hdf5", "notes.md", "figures.json"]
    for name in (*ours, *others):
        (tmp_path / f"{name}.0a1b2c3d.part").touch()
    with FolderLock(tmp_path) as lock:
        lock.take()
        left = {path.name.removesuffix(".0a1b2c3d.part") for path in tmp_path.glob("*.part")}
    assert left == set(others)
