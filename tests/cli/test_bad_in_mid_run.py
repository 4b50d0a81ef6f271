"""What goes bad while `elmo embed` runs: the disk fills up, the folder is closed, a file vanishes.

Each time two lines say so, what was committed is kept, and `--resume` ends in the file of a run
that nothing befell.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, elmo, made
from disks import read_only, small_disk
from situations import Scene

from elmo_cli.cli import console
from elmo_cli.embed import blocks

COMMAND = ("embed", "-q", "first.txt", "second.txt", "-o")
Embed = Callable[..., Done]


@pytest.fixture(autouse=True)
def texts(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts of six blocks each: while the first block is written, some more are read."""
    monkeypatch.setattr(blocks, "SENTENCES", 50)
    for name in ("first.txt", "second.txt"):
        (scene.folder / name).write_text("".join(f"Line {i} of {name}\n" for i in range(300)))


def embed(out: str, befalls: Callable[[], object]) -> Done:
    """The command, with something that befalls it once its first block is committed."""
    call = console.Progress.update

    def called(self: Any, done: int, total: int | None) -> None:
        call(self, done, total)
        if done and not happened:
            happened.append(befalls())

    happened: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console.Progress, "update", called)
        done = elmo(*COMMAND, out)
    assert happened, done.err
    return done


def refused(done: Done, says: str, hint: str) -> None:
    assert (done.code, done.err) == (1, f"error: {says}\nhint: {hint}\n")


def check_resumed(out: str) -> None:
    """The same command with `--resume` does the rest, not all, and makes the very file."""
    assert not Path(out).exists()
    assert "resuming: " in made("embed", *COMMAND[2:], out, "--resume").err
    made(*COMMAND, "whole.hdf5")
    assert Path(out).read_bytes() == Path("whole.hdf5").read_bytes()
    left = sorted(path.name for path in Path(out).parent.iterdir())
    assert [name for name in left if name.startswith(Path(out).name)] == [Path(out).name]


def test_the_disk_fills_up(scene: Scene) -> None:
    """Without it a full disk would cost what was done, or leave a file that can't be gone on
    with. The space was there when the run began, and somebody else has taken it."""

    def fill() -> None:
        n_free = shutil.disk_usage("disk").free
        Path("disk/other").write_bytes(bytes(n_free))

    with small_disk(scene.folder / "disk", 4 << 20):
        done = embed("disk/out.hdf5", fill)
        refused(
            done,
            "disk/out.hdf5.part: no space left (No space left on device)",
            "free some space, then `--resume` continues after what is saved",
        )
        Path("disk/other").unlink()
        check_resumed("disk/out.hdf5")


def test_the_folder_is_closed(scene: Scene) -> None:
    """Without it a disk that was mounted anew for reading would be a traceback."""
    (scene.folder / "vectors").mkdir()
    with ExitStack() as closed:
        done = embed("vectors/out.hdf5", lambda: closed.enter_context(read_only(Path("vectors"))))
    says, hint = done.err.splitlines()
    assert done.code == 1
    assert says.startswith("error: vectors/out.hdf5: cannot be written (")
    assert hint == "hint: choose an output path in a folder that you can write to"
    check_resumed("vectors/out.hdf5")


def test_a_text_vanishes(scene: Scene) -> None:
    """Without it the run would end as if the text had ended, or with a traceback."""
    away = scene.folder / "away.txt"
    done = embed("new.hdf5", lambda: (scene.folder / "second.txt").rename(away))
    refused(
        done,
        "second.txt: no such file",
        "check the name and the working directory",
    )
    away.rename(scene.folder / "second.txt")
    check_resumed("new.hdf5")


def test_a_text_is_cut_off(scene: Scene) -> None:
    """Without it a file of half the text would be finished as if it were whole."""
    text = scene.folder / "second.txt"
    whole = text.read_bytes()
    done = embed("new.hdf5", lambda: text.write_bytes(whole[:-500]))
    refused(
        done,
        "first.txt, second.txt: changed while it was read",
        "give the text with which the run began, then `--resume` continues",
    )
    text.write_bytes(whole)
    check_resumed("new.hdf5")
