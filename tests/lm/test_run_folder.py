"""The output folder of a run: what may be in it, and that one run at a time writes to it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.lm.run_folder import LOCK_FILE, RunFolder

RUN = {
    "pretrain": ("recipe.json", "checkpoint.pt", "log.jsonl", "text.npz", "weights.hdf5"),
    "finetune": ("finetune.json", "checkpoint.pt", "fitted_softmax.hdf5", "README.md"),
}
FOREIGN = (("mine.txt",), ("weights.hdf5", "options.json"), ("checkpoint.pt",), ("model.hdf5",))
OTHER = {"pretrain": "finetune", "finetune": "pretrain"}


def fill(folder: Path, names: tuple[str, ...] | None) -> None:
    """Create a folder with files; nothing for None."""
    for name in names or ():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    if names == ():
        folder.mkdir()


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
@pytest.mark.parametrize(
    ("names", "mode", "expected"),
    [
        (None, "new", None),
        (None, "overwrite", None),
        (None, "resume", ResumeError),
        ((), "new", None),
        ((), "overwrite", None),
        ((), "resume", ResumeError),
        ((LOCK_FILE,), "new", None),
        ("run", "new", OutputError),
        ("run", "overwrite", None),
        ("run", "resume", None),
        *((names, mode, OutputError) for names in FOREIGN for mode in ("new", "overwrite")),
        (FOREIGN[0], "resume", OutputError),
        ("other run", "new", OutputError),
        ("other run", "overwrite", OutputError),
        ("other run", "resume", OutputError),
    ],
)
def test_what_a_run_may_find_in_its_folder(
    kind: str,
    names: tuple[str, ...] | str | None,
    mode: str,
    expected: type[Exception] | None,
    tmp_path: Path,
) -> None:
    """Whatever is refused stays as it is, and a refused new folder is not left behind."""
    folder = tmp_path / "out"
    if isinstance(names, str):
        names = RUN[kind if names == "run" else OTHER[kind]]
    fill(folder, names)
    before = content(folder)
    with RunFolder(folder, kind) as opened:
        if expected is None:
            opened.open(mode)
            assert (folder / LOCK_FILE).exists()
        else:
            with pytest.raises(expected, match=r"^.*out: contains") as caught:
                opened.open(mode)
            assert getattr(caught.value, "hint", "")
    before.pop(LOCK_FILE, None) if expected is None else None
    found = content(folder)
    found.pop(LOCK_FILE, None)
    assert found == before
    assert folder.exists() == (names is not None)


@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
def test_overwriting_removes_only_the_files_of_such_a_run(kind: str, tmp_path: Path) -> None:
    mine = ("mine.txt", "README.md" if kind == "pretrain" else "text.npz")
    fill(tmp_path, (*RUN[kind], *mine))
    with RunFolder(tmp_path, kind) as folder:
        folder.open("overwrite")
        folder.start()
    assert set(content(tmp_path)) == set(mine)


@pytest.mark.parametrize("mode", ["new", "overwrite", "resume"])
def test_the_model_that_a_run_starts_from_is_not_replaced(mode: str, tmp_path: Path) -> None:
    """Under whatever name its folder is given."""
    model, link = tmp_path / "model", tmp_path / "link"
    fill(model, RUN["pretrain"])
    link.symlink_to(model)
    message = r"link: contains weights\.hdf5, which the run starts"
    with RunFolder(link, "pretrain") as folder, pytest.raises(UsageError, match=message):
        folder.open(mode, reads=[model / "weights.hdf5"])
    assert set(content(model)) == set(RUN["pretrain"])
    with RunFolder(tmp_path / "new", "pretrain") as folder:
        folder.open("new", reads=[model / "weights.hdf5", tmp_path / "gone/vocab.txt"])


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    folder = RunFolder(tmp_path / "out", "pretrain")
    with folder, pytest.raises(OutputError, match="is a file, not a folder"):
        folder.open()
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("mode", ["new", "overwrite", "resume"])
def test_a_second_run_is_refused(mode: str, tmp_path: Path) -> None:
    """Otherwise the weights of one run would end next to the log and checkpoint of another."""
    with RunFolder(tmp_path / "out", "pretrain") as first:
        first.open()
        fill(tmp_path / "out", RUN["pretrain"] if mode != "new" else None)
        with RunFolder(tmp_path / "out", "pretrain") as second:
            with pytest.raises(OutputError, match="another process is training there") as caught:
                second.open(mode)
            assert caught.value.hint.startswith("wait for it")
        assert (tmp_path / "out" / LOCK_FILE).exists()
    assert not (tmp_path / "out" / LOCK_FILE).exists()


def test_a_run_that_ended_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that both found an empty folder may not write into one."""
    acquire = fcntl.flock

    def meanwhile(descriptor: int, how: int) -> None:
        fill(tmp_path, RUN["pretrain"])
        acquire(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    folder = RunFolder(tmp_path, "pretrain")
    with folder, pytest.raises(OutputError, match="contains a pretrain run already"):
        folder.open()
    assert set(content(tmp_path)) == set(RUN["pretrain"])


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing could be trained there."""

    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with RunFolder(tmp_path / "out", "finetune") as folder:
        folder.open()
        (tmp_path / "out" / "finetune.json").touch()
    assert os.listdir(tmp_path / "out") == ["finetune.json"]


def test_a_lock_file_of_the_user_stays(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("mine")
    with RunFolder(tmp_path, "pretrain") as folder:
        folder.open()
    assert (tmp_path / LOCK_FILE).read_text() == "mine"


def test_parts_of_files_that_a_kill_left_are_removed(tmp_path: Path) -> None:
    """Each kill while a checkpoint is saved would take its size of the disk for good."""
    ours = tuple(f"{name}.0a1b2c3d.part" for name in ("checkpoint.pt", "weights.hdf5"))
    others = ("mine.pt.part", "corpus.hdf5.0a1b2c3d.part", "checkpoint.pt.part")
    fill(tmp_path, (*RUN["pretrain"], *ours, *others))
    with RunFolder(tmp_path, "pretrain") as folder:
        folder.open("resume")
    assert set(content(tmp_path)) == {*RUN["pretrain"], *others}
