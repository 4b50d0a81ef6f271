"""Bad surroundings: a full disk, a closed stream, Ctrl-C, no text at all; two lines here too.

The exit code and what Python adds at its own end show only in a process of one's own.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from situations import Scene, file, stocked

from elmo_cli.cli.main import main
from elmo_cli.errors import ResumeError
from elmo_cli.store.log_lines import read_log

LONG = ("embed", "-q", "long.txt", "-o", "long.hdf5")
COMMAND = "from elmo_cli.__main__ import command; command()"
NO_SPACE = (
    "error: long.hdf5.part: no space left (File too large)\n"
    "hint: free some space, then `--resume` continues after what is saved\n"
)


def elmo(
    *args: str, before: str = "", flags: tuple[str, ...] = (), **kwargs
) -> subprocess.Popen[str]:
    """The command in a process of its own, after some lines of Python, with flags for Python."""
    code = f"import sys\n{before}\nsys.argv[0] = 'elmo'\n{COMMAND}"
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code, *args], stderr=subprocess.PIPE, text=True, **kwargs
    )


def in_process(*args: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(list(args))
    return done.value.code


def files(scene: Scene) -> set[str]:
    return {path.name for path in scene.folder.iterdir()}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("line", ["embed -q a.txt -o -", "--help"])
def test_standard_output_on_a_full_disk(line: str, scene: Scene) -> None:
    """Without it a cut file would pass for a whole one."""
    with open("/dev/full", "w") as full:
        run = elmo(*line.split(), stdout=full)
        said = run.communicate()[1]
    assert said == (
        "error: standard output: cannot be written (No space left on device)\n"
        "hint: free some space, or redirect it to a file on another disk\n"
    )
    assert run.returncode == 1


WITHOUT_TEXT = (
    "error: standard input is a terminal: no text is coming\n"
    "hint: name a file, or pipe the text in\n"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "line",
    [
        "embed - -o v.hdf5",
        "vocab - -o v.txt",
        "perplexity -",
        "pretrain - -o m --max-steps 1",
        "pretrain a.txt --heldout - -o m --max-steps 1",
        "pretrain --recipe recipe.json -o m",
        "finetune --domain - -o m",
        "inspect ok.hdf5 --text -",
    ],
)
def test_a_terminal_as_standard_input(line: str, scene: Scene, monkeypatch, capsys) -> None:
    """Without it a command waits for ever for a text that nobody types."""
    file("recipe.json", '{"texts": ["-"], "max-steps": 1}')(scene)
    stocked("ok.hdf5")(scene)
    before = files(scene)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert (in_process(*line.split()), capsys.readouterr().err) == (2, WITHOUT_TEXT)
    assert files(scene) == before


def test_a_real_terminal_as_standard_input(scene: Scene) -> None:
    keyboard, terminal = os.openpty()
    run = elmo("tokenize", "-", stdin=terminal, stdout=subprocess.DEVNULL)
    try:
        assert run.communicate(timeout=60)[1] == WITHOUT_TEXT
    finally:
        run.kill()
        run.wait()
        os.close(keyboard)
        os.close(terminal)


def test_standard_output_that_is_closed(scene: Scene, monkeypatch, capsys) -> None:
    """Without it `elmo … >&-` would be an AttributeError."""
    monkeypatch.setattr(sys, "stdout", None)
    assert in_process("embed", "-q", "a.txt", "-o", "-") == 1
    assert capsys.readouterr().err == (
        "error: standard output: is closed\nhint: `-o FILE` writes a file\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "embed -q a.txt -o a.hdf5 --json",
        "embed -q a.txt -o a.hdf5 --dry-run",
        "inspect ok.hdf5",
        "inspect -q ok.hdf5 --json",
        "perplexity -q a.txt",
        "models list",
        "models show small --json",
    ],
)
def test_answers_that_nobody_can_read(line: str, scene: Scene, monkeypatch, capsys) -> None:
    """Without it the answer would be lost, and the exit code say that all is well."""
    stocked("ok.hdf5")(scene)
    before = files(scene)
    monkeypatch.setattr(sys, "stdout", None)
    assert in_process(*line.split()) == 1
    assert capsys.readouterr().err == (
        "error: standard output: is closed\nhint: `> FILE` saves the result in a file\n"
    )
    assert files(scene) == before


def test_a_file_is_made_where_nothing_can_be_printed(scene: Scene, monkeypatch, capsys) -> None:
    """What a command is for is its file: without `--json` it prints nothing there."""
    monkeypatch.setattr(sys, "stdout", None)
    assert in_process("embed", "-q", "a.txt", "-o", "a.hdf5") == 0
    assert in_process("inspect", "-q", "a.hdf5") == 0
    assert capsys.readouterr().err == ""


def test_no_space_after_the_first_block(scene: Scene, stock: Path) -> None:
    """Without it a full disk would cost the work before it, or leave a cut file."""
    stocked("long.txt")(scene)
    limit = (stock / "long.hdf5.part").stat().st_size + 40_000
    before = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    run = elmo(*LONG, before=before)
    assert (run.communicate()[1], run.returncode) == (NO_SPACE, 1)
    assert files(scene) >= {"long.hdf5.part", "long.hdf5.part.log"}
    assert in_process(*LONG, "--resume") == 0
    assert in_process("embed", "-q", "long.txt", "-o", "whole.hdf5") == 0
    assert (scene.folder / "long.hdf5").read_bytes() == (scene.folder / "whole.hdf5").read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        "merge part-1.hdf5 part-2.hdf5",
        "convert part-1.hdf5",
        "convert part-1.hdf5 --layout flat",
        "convert part-1.hdf5 --layout flat --dtype int8",
    ],
)
def test_no_space_for_what_can_not_be_gone_on_with(line: str, scene: Scene) -> None:
    """`--resume` was advised, which these commands don't have, and nothing of theirs is kept."""
    stocked("part-1.hdf5", "part-2.hdf5")(scene)
    limit = 100_000
    before = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    there = files(scene)
    run = elmo(*line.split(), "-o", "new.hdf5", before=before)
    assert run.communicate()[1] == (
        "error: new.hdf5: no space left (File too large)\n"
        "hint: free some space, then run it again\n"
    )
    assert (run.returncode, files(scene)) == (1, there)


def test_no_space_for_the_first_block(scene: Scene, capsys) -> None:
    """What holds nothing to go on with is not left behind."""
    stocked("long.txt")(scene)
    before = files(scene)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        code = in_process(*LONG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    nothing_saved = NO_SPACE.replace("`--resume` continues after what is saved", "run it again")
    assert (capsys.readouterr().err, code) == (nothing_saved, 1)
    assert files(scene) == before


def committed(part: str) -> int:
    """How many sentences of an unfinished file are committed."""
    try:
        return read_log(part)[2].sentences
    except (OSError, ResumeError):  # there is no log, or only a part of its first line
        return 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: int, scene: Scene, stock: Path, monkeypatch) -> None:
    """Without it Ctrl-C, or a cluster's scheduler, would cost what was done, or say how to go on
    and not be able to."""
    stocked("long.txt")(scene)
    text = (stock / "long.txt").read_text()
    run = elmo("embed", "-q", "-", "-o", "long.hdf5", stdin=subprocess.PIPE)
    run.stdin.write(text)
    run.stdin.flush()  # and not closed, so that the run waits for more
    until = time.monotonic() + 60
    while not (n_committed := committed("long.hdf5.part")):
        assert time.monotonic() < until, "no block was committed"
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(number)
    said = run.stderr.read()
    assert said == (
        "\nerror: interrupted\n"  # after the ^C that a terminal shows
        "hint: `--resume` continues where the command has it; else give the same command again\n"
    )
    assert run.wait() == 130
    run.stdin.close()
    run.stderr.close()
    assert committed("long.hdf5.part") == n_committed
    assert "long.hdf5" not in files(scene)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert in_process("embed", "-q", "-", "-o", "long.hdf5", "--resume") == 0
    assert "long.hdf5" in files(scene)


@pytest.mark.parametrize("name", ["e.txt", "-"])
def test_empty_text_is_warned_of(name: str, scene: Scene, monkeypatch, capsys) -> None:
    """A text without a line makes a file without a sentence, and not in silence."""
    file("e.txt", "")(scene)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert in_process("embed", name, "-o", "e.hdf5") == 0
    assert f"warning: {name}: empty, without any line\n" in capsys.readouterr().err
