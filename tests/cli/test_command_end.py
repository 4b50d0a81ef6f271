"""How a command ends: with two lines and an exit code of the kind of error, or quietly."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from command_line import Done, elmo
from forked_command import ForkedElmo
from situations import CommandScene

from elmo_cli.cli import console, main
from elmo_cli.messages import INTERRUPTED_HINT


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_outside_a_command_ends_with_two_lines(name: str) -> None:
    """As while `cli.main` is imported; click handles an interrupt of a command."""
    program = (
        "import os, signal\n"
        "import elmo_cli.cli.main as cli\n"
        f"cli.main = lambda: os.kill(os.getpid(), signal.{name})\n"
        "from elmo_cli.__main__ import command; command()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130
    first_line, second_line = done.stderr.splitlines()
    assert first_line == "error: interrupted"
    assert second_line == f"hint: {INTERRUPTED_HINT}"


def test_windows_is_refused_in_two_lines() -> None:
    """Instead of a traceback, because `import fcntl` fails there."""
    program = (
        "import sys\n"
        "sys.platform = 'win32'\n"
        "sys.modules['fcntl'] = None\n"
        "from elmo_cli.__main__ import command; command()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    first_line, second_line = done.stderr.splitlines()
    assert first_line.startswith("error: ")
    assert "Windows" in first_line
    assert second_line.startswith("hint: ")
    assert "WSL" in second_line


@pytest.mark.parametrize(
    ("error", "code", "message", "hint"),
    [
        (OSError(28, "No space left on device"), 1, "standard output: cannot be written", "free"),
        (OSError(27, "File too large"), 1, "standard output: cannot be written (File", "free"),
        (OSError(122, "Quota exceeded"), 1, "standard output: cannot be written (Quota", "free"),
        (OSError(13, "Permission denied", "x"), 1, "x: Permission denied", "permissions"),
        (OSError(5, "Input/output error"), 1, "Input/output error", "--debug"),
        (MemoryError(), 1, "out of memory", "smaller model"),
        (ZeroDivisionError("x"), 1, "ZeroDivisionError: x", "report"),
        (KeyboardInterrupt(), 130, "interrupted", "--resume"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_other_errors(
    error: BaseException, code: int, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    done: Done = elmo("embed")
    assert done.code == code
    first, second = done.err.splitlines()
    assert first.startswith(f"error: {message}")
    assert hint in second


@pytest.mark.parametrize(
    ("command", "error", "hint"),
    [
        (
            "embed a.txt -o b.hdf5",
            MemoryError(),
            "choose a smaller `--batch-size` or a smaller model",
        ),
        ("vocab a.txt -o b", MemoryError(), "choose a smaller model, or less text at a time"),
        ("embed a.txt -o b.hdf5", KeyboardInterrupt(), "the same command with `--resume`"),
        ("vocab a.txt -o b", KeyboardInterrupt(), "run the command again"),
    ],
)
def test_a_hint_names_no_option_that_the_command_lacks(
    command: str,
    error: BaseException,
    hint: str,
    scene: CommandScene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("elmo_cli.text.input.check_inputs", fail)
    assert elmo(*command.split()).err.splitlines()[-1].startswith(f"hint: {hint}")


def test_what_the_locale_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a result with a name or a token of another language is a traceback."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "latin-1"))
    monkeypatch.setattr(main.cli, "main", lambda *args, **named: console.say("Zoë, Łódź"))
    with pytest.raises(SystemExit) as ended:
        main.main([])
    assert (ended.value.code, out.getvalue()) == (0, b"Zo\xeb, \\u0141\xf3d\\u017a\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--gpus-per-worker x", "invalid value for '--gpus-per-worker': 'x' is not a number"),
        ("--threads x", "invalid value for '--threads': 'x' is not a whole number"),
    ],
)
def test_a_type_is_named_in_words(words: str, problem: str, scene: CommandScene) -> None:
    done = elmo("embed", "a.txt", "-o", "b.hdf5", *words.split())
    assert done.err == f"error: {problem}\nhint: see `elmo embed --help`\n"


CLOSED_PIPES = {  # what writes more than a pipe holds, and in which way
    "lines of a table": "models list",
    "bytes": "tokenize a.txt",
    "vectors": "embed -q a.txt -o -",
    "help": "embed --help",
}


@pytest.mark.parametrize("line", CLOSED_PIPES.values(), ids=CLOSED_PIPES)
def test_a_closed_pipe_is_no_error(line: str, scene: CommandScene) -> None:
    """`| head` has what it needs; a script with `set -o pipefail` would stop."""
    reader, writer = os.pipe()
    os.close(reader)
    run = ForkedElmo(*line.split(), stdout=writer)
    os.close(writer)
    _, said = run.communicate()
    assert run.returncode == 0
    assert "error" not in said


@pytest.mark.parametrize(
    ("words", "variables", "hint"),
    [
        ([], {"ELMO_MODEL": "nope"}, "; $ELMO_MODEL is `nope`"),
        ([], {"ELMO_MODEL": "original"}, "; $ELMO_MODEL is `original`"),
        ([], {"ELMO_DEVICE": "abacus"}, "; $ELMO_DEVICE is `abacus`"),
        (["-m", "nope"], {"ELMO_DEVICE": "cpu"}, "works too"),
        (["-m", "nope"], {"ELMO_MODEL": "nope"}, "works too"),
        (["--device", "abacus"], {"ELMO_DEVICE": "abacus"}, "if there is one"),
    ],
)
def test_a_hint_names_the_variable_that_a_wrong_value_came_from(
    words: list[str],
    variables: dict[str, str],
    hint: str,
    scene: CommandScene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user may not remember it; but not where the command line has the same value."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = elmo("embed", "a.txt", "-o", "b.hdf5", *words)
    assert done.code in (1, 2)
    assert done.err.splitlines()[-1].endswith(hint)
