"""The output folder of a run: what may be in it, and that one run at a time writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.training.run_folder import LOCK_FILE, RunFolder

RUN = {
    "pretrain": ("recipe.json", "checkpoint.pt", "log.jsonl", "text.npz", "weights.hdf5"),
    "finetune": ("finetune.json", "checkpoint.pt", "fitted_softmax.hdf5", "README.md"),
}
MODES = ("new", "overwrite", "resume")


def fill(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)


def content(folder: Path) -> set[str]:
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert all((folder / name).read_text() in (name, "") for name in names)
    return names


@pytest.mark.parametrize(("kind", "other"), [("pretrain", "finetune"), ("finetune", "pretrain")])
@pytest.mark.parametrize(
    ("names", "expected"),  # the error in each of MODES
    [
        (None, (None, None, ResumeError)),
        ((), (None, None, ResumeError)),
        ((LOCK_FILE,), (None, None, ResumeError)),
        ("run", (OutputError, None, None)),
        ("other run", (OutputError, OutputError, OutputError)),
        (("mine.txt",), (OutputError, OutputError, OutputError)),
        (("weights.hdf5", "options.json"), (OutputError, OutputError, OutputError)),
        (("checkpoint.pt",), (OutputError, OutputError, OutputError)),
    ],
)
def test_what_a_run_may_find_in_its_folder(
    kind: str,
    other: str,
    names: Sequence[str] | None,
    expected: Sequence[type[Exception] | None],
    tmp_path: Path,
) -> None:
    """Whatever is refused stays as it is, and a refused new folder is not left behind."""
    runs = {"run": RUN[kind], "other run": RUN[other]}
    for mode, error in zip(MODES, expected, strict=True):
        folder = tmp_path / mode
        if names is not None:
            fill(folder, runs[names] if isinstance(names, str) else names)
        before = content(folder) - {LOCK_FILE}
        with RunFolder(folder, kind) as opened:
            if error is None:
                opened.open(mode)
                assert (folder / LOCK_FILE).exists()
            else:
                with pytest.raises(error, match=rf"^.*{mode}: contains"):
                    opened.open(mode)
        assert content(folder) - {LOCK_FILE} == before
        assert folder.exists() == (names is not None)


@pytest.mark.parametrize(("kind", "foreign"), [("pretrain", "README.md"), ("finetune", "text.npz")])
def test_overwriting_removes_only_the_files_of_such_a_run(
    kind: str, foreign: str, tmp_path: Path
) -> None:
    fill(tmp_path, (*RUN[kind], "mine.txt", foreign))
    with RunFolder(tmp_path, kind) as folder:
        folder.open("overwrite")
        folder.clear()
    marker = RUN[kind][0]  # a run that is killed now is still a run
    assert content(tmp_path) == {"mine.txt", foreign, marker}


SHARED = "checkpoint.pt parts.json log.jsonl"
MODEL = "options.json weights.hdf5 softmax.hdf5 vocab.txt state.hdf5"
ALL_FILES = {  # the marker first
    "pretrain": f"recipe.json {SHARED} {MODEL} text.npz",
    "finetune": f"finetune.json {SHARED} {MODEL} fitted_softmax.hdf5 README.md",
    "train": f"task.json {SHARED} model.pt word_vectors.npz scores.json",
}


@pytest.mark.parametrize("kind", ALL_FILES)
def test_all_files_of_a_run_are_removed(kind: str, tmp_path: Path) -> None:
    """All but the marker, which also goes if it was lost and only a lock file shows the run.

    The vectors of a task model stay: the next run reads them.
    """
    (tmp_path / "run/vectors").mkdir(parents=True)
    (tmp_path / "lost/vectors").mkdir(parents=True)
    marker, *others = ALL_FILES[kind].split()
    fill(tmp_path / "run", (marker, *others))
    with RunFolder(tmp_path / "run", kind) as folder:
        folder.open("overwrite")
        folder.clear()
        assert {path.name for path in folder.path.iterdir()} == {marker, LOCK_FILE, "vectors"}
    fill(tmp_path / "lost", (LOCK_FILE, *others))
    with RunFolder(tmp_path / "lost", kind) as folder:
        folder.open("new")
        assert {path.name for path in folder.path.iterdir()} == {LOCK_FILE, "vectors"}


@pytest.mark.parametrize("mode", MODES)
def test_the_model_that_a_run_starts_from_is_not_replaced(mode: str, tmp_path: Path) -> None:
    """Under whatever name its folder is given."""
    model = tmp_path / "model"
    link = tmp_path / "link"
    fill(model, RUN["pretrain"])
    link.symlink_to(model)
    message = r"link: contains weights\.hdf5, which the run starts"
    with RunFolder(link, "pretrain") as folder, pytest.raises(UsageError, match=message):
        folder.open(mode, reads=[model / "weights.hdf5"])
    assert content(model) == set(RUN["pretrain"])
    with RunFolder(tmp_path / "new", "pretrain") as folder:
        folder.open("new", reads=[model / "weights.hdf5", tmp_path / "gone/vocab.txt"])


@pytest.mark.parametrize("mode", MODES)
def test_a_second_run_is_refused(mode: str, tmp_path: Path) -> None:
    """Otherwise the weights of one run would end next to the log and checkpoint of another."""
    out = tmp_path / "out"
    with RunFolder(out, "pretrain") as first:
        first.open()
        fill(out, RUN["pretrain"] if mode != "new" else ())
        message = "another process is training there"
        with RunFolder(out, "pretrain") as second, pytest.raises(OutputError, match=message):
            second.open(mode)
        assert (out / LOCK_FILE).exists()
    assert not (out / LOCK_FILE).exists()


def test_what_stays_and_what_a_kill_left(tmp_path: Path) -> None:
    """Each kill while a checkpoint is saved would take its size of the disk for good."""
    ours = tuple(f"{name}.0a1b2c3d.part" for name in ("checkpoint.pt", "weights.hdf5"))
    others = ("mine.pt.part", "corpus.hdf5.0a1b2c3d.part", "checkpoint.pt.part", ".lock")
    fill(tmp_path, (*RUN["pretrain"], *ours, *others))
    with RunFolder(tmp_path, "pretrain") as folder:
        folder.open("resume")
    assert content(tmp_path) == {*RUN["pretrain"], *others}


@pytest.mark.parametrize("mode", ["new", "overwrite"])
@pytest.mark.parametrize("has_lock", [True, False])
def test_what_is_left_of_a_run_without_its_marker(
    has_lock: bool, mode: str, tmp_path: Path
) -> None:
    """Temporary files are ours in any case, others only next to the lock file of a killed run."""
    partial_files = ("recipe.json.0a1b2c3d.part", "weights.hdf5.0a1b2c3d.part")
    fill(tmp_path, (*partial_files, *((LOCK_FILE, "text.npz") if has_lock else ())))
    with RunFolder(tmp_path, "pretrain") as folder:
        folder.open(mode)
        assert content(tmp_path) == {LOCK_FILE}
    fill(tmp_path, ("weights.hdf5",))
    with RunFolder(tmp_path, "pretrain") as folder, pytest.raises(OutputError):
        folder.open(mode)
    fill(tmp_path, ("mine.txt", LOCK_FILE))
    with RunFolder(tmp_path, "pretrain") as folder, pytest.raises(OutputError, match=r"mine\.txt"):
        folder.open(mode)
    assert "weights.hdf5" in content(tmp_path)


@pytest.mark.parametrize(
    ("kind", "last"),
    [("pretrain", "state.hdf5"), ("finetune", "README.md"), ("train", "scores.json")],
)
@pytest.mark.parametrize("is_finished", [True, False])
def test_the_hint_names_the_option_for_the_state_of_the_run(
    kind: str, last: str, is_finished: bool, tmp_path: Path
) -> None:
    markers = {"pretrain": "recipe.json", "finetune": "finetune.json", "train": "task.json"}
    fill(tmp_path, (markers[kind], *((last,) if is_finished else ())))
    with RunFolder(tmp_path, kind) as folder, pytest.raises(OutputError) as caught:
        folder.open()
    condition = "a finished" if is_finished else "an unfinished"
    assert caught.value.problem == f"contains {condition} {kind} run"
    assert caught.value.hint.startswith("`resume=True`")
    assert ("higher limit" in caught.value.hint) == is_finished


@pytest.mark.parametrize("kind", ALL_FILES)
def test_the_checkpoint_is_removed_before_what_it_belongs_to(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed meanwhile is not resumed from it with other weights, or none."""
    removed: list[str] = []
    fill(tmp_path, ALL_FILES[kind].split())
    with RunFolder(tmp_path, kind) as folder:
        folder.open("overwrite")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", lambda path, missing_ok: removed.append(path.name))
            folder.clear()
    assert removed[1] == "checkpoint.pt"
    assert sorted(removed) == sorted(ALL_FILES[kind].split()[1:])


@pytest.mark.parametrize(
    ("kind", "marker", "last"),
    [
        ("pretrain", "recipe.json", "state.hdf5"),
        ("finetune", "finetune.json", "README.md"),
        ("train", "task.json", "scores.json"),
    ],
)
def test_a_run_that_is_killed_while_it_is_removed_is_not_finished(
    kind: str, marker: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights may be gone, and a higher limit would not continue it."""
    unlink = Path.unlink

    def unlink_and_die(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        raise KeyboardInterrupt

    fill(tmp_path, (marker, last, "checkpoint.pt", "log.jsonl"))
    with RunFolder(tmp_path, kind) as folder:
        folder.open("overwrite")
        monkeypatch.setattr(Path, "unlink", unlink_and_die)
        with pytest.raises(KeyboardInterrupt):
            folder.clear()
        monkeypatch.undo()
    with RunFolder(tmp_path, kind) as folder, pytest.raises(OutputError, match="an unfinished"):
        folder.open()
