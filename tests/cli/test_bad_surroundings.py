"""Bad surroundings: a full disk, a closed stream, Ctrl-C, no text at all; two lines here too.

The exit code and what Python adds at its own end show only in a process of one's own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import Done, elmo, made, refused
from disks import disk_of
from forked_command import ForkedElmo
from situations import CommandScene, file, stocked

from elmo_cli.errors import ResumeError
from elmo_cli.store.log_lines import read_log

LONG = ("embed", "-q", "long.txt", "-o", "long.hdf5")
NO_SPACE = (
    "error: long.hdf5.part: no space left (File too large)\n"
    "hint: free some space, then `--resume` continues after what is saved\n"
)


def files(scene: CommandScene) -> set[str]:
    """The names of all files in the folder."""
    return {path.name for path in scene.folder.iterdir()}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("line", ["embed -q a.txt -o -", "--help"])
def test_standard_output_on_a_full_disk(line: str, scene: CommandScene) -> None:
    """Without it a cut file would pass for a whole one."""
    with open("/dev/full", "w") as full:
        run = ForkedElmo(*line.split(), stdout=full.fileno())
        said = run.communicate()[1]
    assert said == (
        "error: standard output: cannot be written (No space left on device)\n"
        "hint: free some space, or redirect the output to another disk\n"
    )
    assert run.wait() == 1


@pytest.mark.parametrize("line", ["models list", "embed -q a.txt -o -", "embed a.txt -o x -n"])
def test_a_closed_standard_output(line: str, scene: CommandScene) -> None:
    """Otherwise the result is lost, or written into the first file that is opened."""
    before = files(scene)
    done = elmo(*line.split(), has_stdout=False)
    refused(done, 1, "standard output: is closed", "`> FILE` saves the result in a file")
    assert files(scene) == before
    assert elmo("embed", "-q", "a.txt", "-o", "a.hdf5", has_stdout=False).code == 0


def test_no_space_after_the_first_block(scene: CommandScene, stock: Path) -> None:
    """Without it a full disk would cost the work before it, or leave a cut file."""
    stocked("long.txt")(scene)
    with disk_of((stock / "long.hdf5.part").stat().st_size + 40_000):
        assert elmo(*LONG) == Done(1, b"", NO_SPACE)
    assert files(scene) >= {"long.hdf5.part", "long.hdf5.part.log"}
    made(*LONG, "--resume")
    made("embed", "-q", "long.txt", "-o", "whole.hdf5")
    assert (scene.folder / "long.hdf5").read_bytes() == (scene.folder / "whole.hdf5").read_bytes()


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("merge part-1.hdf5 part-2.hdf5 -o new.hdf5", "new.hdf5"),
        ("convert part-1.hdf5 --layout flat -o new.hdf5", "new.hdf5"),
        ("embed -q long.txt -o long.hdf5", "long.hdf5.part"),
    ],
)
def test_no_space_before_anything_can_be_resumed(
    line: str, written: str, scene: CommandScene
) -> None:
    """Nothing is left behind, and no `--resume` is advised."""
    stocked("part-1.hdf5", "part-2.hdf5", "long.txt")(scene)
    before = files(scene)
    with disk_of(60_000):
        done = elmo(*line.split())
    said = NO_SPACE.replace("`--resume` continues after what is saved", "run it again")
    assert done == Done(1, b"", said.replace("long.hdf5.part", written))
    assert files(scene) == before


def committed(part: str) -> int:
    """How many sentences of an unfinished file are committed."""
    try:
        return read_log(part).progress.sentences
    except (OSError, ResumeError):  # there is no log, or only a part of its first line
        return 0


def wait_for_a_block(part: str, run: ForkedElmo) -> int:
    """Wait until a run has committed sentences to an unfinished file, and return how many."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        assert run.poll() is None, "the run has ended"
        n_committed = committed(part)
        if n_committed:
            return n_committed
        time.sleep(0.05)
    raise AssertionError("no block was committed")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupted(number: int, scene: CommandScene, stock: Path) -> None:
    """Without it Ctrl-C, or a cluster's scheduler, would cost what was done, or say how to go on
    and not be able to."""
    stocked("long.txt")(scene)
    text = (stock / "long.txt").read_text()
    reader, writer = os.pipe()
    run = ForkedElmo("embed", "-q", "-", "-o", "long.hdf5", stdin=reader)
    os.close(reader)
    os.write(writer, text.encode())  # and not closed, so that the run waits for more
    n_committed = wait_for_a_block("long.hdf5.part", run)
    run.send_signal(number)
    said = run.communicate()[1]
    assert said == (
        "\nerror: interrupted\n"  # after the ^C that a terminal shows
        "hint: the same command with `--resume` continues the run\n"
    )
    assert run.wait() == 130
    os.close(writer)
    assert committed("long.hdf5.part") == n_committed
    assert "long.hdf5" not in files(scene)
    made("embed", "-q", "-", "-o", "long.hdf5", "--resume", stdin=text.encode())
    assert "long.hdf5" in files(scene)


@pytest.mark.parametrize("output", ["e.hdf5", "-"])
@pytest.mark.parametrize("name", ["e.txt", "-"])
def test_empty_text_is_warned_of(name: str, output: str, scene: CommandScene) -> None:
    """A text without a line makes a file without a sentence, and not in silence."""
    file("e.txt", "")(scene)
    done = made("embed", name, "-o", output)
    assert f"warning: {name}: empty, without any line\n" in done.err


def test_a_library_that_cannot_be_imported(folder: Path) -> None:
    """It is no internal error of elmo."""
    words = ["models", "random", "--like", "elmo-en", "-o", "new"]
    without_torch = "import sys; sys.modules['torch'] = None; from elmo_cli.cli.main import main"
    run = f"{without_torch}; main({words})"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    problem, hint = done.stderr.splitlines()
    assert problem.startswith("error: a library cannot be imported (import of torch halted")
    assert hint == (
        "hint: `elmo info` lists the installed versions; install elmo in a new environment"
    )


def test_a_library_without_its_shared_libraries(folder: Path) -> None:
    """torch loads them by ctypes, whose error is not an ImportError."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    incomplete = folder / "torch"
    incomplete.mkdir()
    for path in Path(spec.origin).parent.iterdir():
        if path.name != "lib":
            (incomplete / path.name).symlink_to(path)
    words = ["models", "random", "--like", "elmo-en", "-o", "new"]
    incomplete_first = f"import sys; sys.path.insert(0, {str(folder)!r})"
    run = f"{incomplete_first}; from elmo_cli.cli.main import main; main({words})"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    problem, hint = done.stderr.splitlines()
    assert problem.startswith(f"error: a library cannot be imported ({incomplete}")
    assert hint.startswith("hint: `elmo info` lists the installed versions")
