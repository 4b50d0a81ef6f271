"""What a terminal gets to see: no control characters; progress; a clean end at Ctrl-C."""

from __future__ import annotations

import ast
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Done, elmo, made
from situations import CommandScene, Maker, file, hdf5, objects, stocked, zipped

from elmo_cli.cli import console, main
from elmo_cli.cli.task_options import TaskReporter
from elmo_cli.messages import duration

ESCAPE = "\x1b[31m\x9b2J"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OK = stocked("ok.hdf5")
LONG = f"{ESCAPE}{'x' * 99}"


def attribute(name: str, value: str) -> Maker:
    return hdf5("ok.hdf5", lambda opened: opened.attrs.modify(name, value))


def embedded(scene: CommandScene) -> None:
    """An embeddings file of a sentence with a control character in a token."""
    objects("t.jsonl", {"tokens": ["The", f"{ESCAPE}cat"]})(scene)
    made("embed", "-q", "t.jsonl", "-o", "t.hdf5")


# The way in -> command, files, exit code.
UNTRUSTED = {
    "attribute": (["inspect", "ok.hdf5"], [OK, attribute("model", f"m{ESCAPE}\nchecked")], 0),
    "zip member": (["embed", "a.txt", "-o", "b.hdf5", "-m", "m.zip"],
        [zipped("m.zip", {f"../{ESCAPE}weights.hdf5": "x", "options.json": "{}"})], 1),
    "HDF5 name": (["inspect", "ok.hdf5"],
        [OK, hdf5("ok.hdf5", lambda opened: opened.move("1", f"1{ESCAPE}"))], 1),
    "token in an error": (["neighbors", "t.hdf5", "0:nope"], [embedded], 2),
    "token in a table": (["kwic", "t.hdf5", f"{ESCAPE}cat"], [embedded], 0),
    "long token": (["embed", "-", "-o", "b.hdf5"], [], 0),
    "file name": (["tokenize", f"no{ESCAPE}.txt"], [], 1),
    "file name in a result": (["embed", f"n{ESCAPE}.txt", "-o", "v/", "-n"],
        [file(f"n{ESCAPE}.txt")], 0),
    "command": ([f"{ESCAPE}"], [], 2),
}  # fmt: skip


@pytest.mark.parametrize("way", UNTRUSTED)
def test_untrusted_text_cannot_control_the_terminal(way: str, scene: CommandScene) -> None:
    words, makes, code = UNTRUSTED[way]
    for make in makes:
        make(scene)
    done = elmo(*words, stdin=LONG.encode())
    shown = done.out.decode() + done.err
    assert done.code == code, shown
    assert not UNSAFE.search(shown)
    assert r"\x1b[31m\x9b2J" in shown, shown


def test_line_ends_in_names_start_no_line_of_their_own() -> None:
    assert console.printable("no\n error: x\u2028y\r\n z") == "no error: x y z"
    assert console.printable("two  blanks\tand café \udce9 \u202etxt") == (
        r"two  blanks\tand café \udce9 \u202etxt"
    )


def test_data_on_standard_output_stays_as_it_is(scene: CommandScene) -> None:
    file("e.txt", f"a{ESCAPE}\n")(scene)
    assert made("tokenize", "e.txt").out.decode().startswith("a\x1b [ 31")


def test_numbers_that_are_not_finite_are_null_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(console, "mode", console.Mode(as_json=True))
    console.print_result({"a": [math.inf, 1.5], "b": {"c": math.nan}})
    assert capsys.readouterr().out == '{"a": [null, 1.5], "b": {"c": null}}\n'


def test_only_console_prints() -> None:
    """`printable` is applied in one place, because everything for people passes through it."""
    for path in Path(console.__file__).parent.glob("*.py"):
        if path.name == "console.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in ("print", "click.echo", "click.secho"), path.name
            assert not called.endswith((".stdout.write", ".stderr.write")), path.name


@pytest.mark.parametrize("module", ["elmo_cli.errors", "elmo_cli.cli.main", "numpy"])
def test_interrupted_in_an_import(module: str, scene: CommandScene) -> None:
    """Libraries swallow an exception while they are imported, or are left half initialized."""
    program = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        try:\n"
        f"            if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "        except BaseException:\n"
        "            pass  # as some libraries do\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from elmo_cli.__main__ import command; command()"
    )
    words = [sys.executable, "-c", program, "embed", "-q", "a.txt", "-o", "b.hdf5"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.splitlines()[0] == "error: interrupted"
    assert len(done.stderr.splitlines()) == 2
    assert not Path("b.hdf5").exists()


def test_interrupted_before_the_command() -> None:
    """The script that pip installs runs code between the import and the call."""
    program = "import os, signal, elmo_cli.__main__; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[0]) == (130, "error: interrupted")


def test_little_is_imported_before_interrupts_are_handled() -> None:
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "before = set(sys.modules); import elmo_cli.__main__\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    repository = Path(console.__file__).parents[2]
    words = [sys.executable, "-I", "-S", "-c", program, repository]  # without other startup code
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "elmo_cli", "elmo_cli.__main__"]


@pytest.mark.parametrize(
    ("seconds", "quiet", "expected"), [(0.1, False, 1), (0.1, True, 0), (0.0, False, 0)]
)
def test_loading_is_announced_if_it_takes_long(
    seconds: float, quiet: bool, expected: int, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(console, "_LOADING_S", 0.05)
    monkeypatch.setattr(console, "mode", console.Mode(quiet=quiet))
    with console.loading():
        time.sleep(seconds)
    assert capsys.readouterr().err == "loading\n" * expected


def test_rate_and_time_left_pass_between_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    texts = []
    with console.ProgressDisplay(None, "tokens", rate=50.0, is_estimate=True) as progress:
        progress.update(100, 1000)
        for seconds, done in ((0, 100), (3, 100), (10, 400), (11, 400), (99, 400)):
            clock[0] = seconds
            if done != progress.done:
                progress.update(done, 1300)
            texts.append(progress.text())
    assert texts == [
        "100 tokens of about 1,000 (10%), 50 tokens/s, 18 s left",
        "100 tokens of about 1,000 (10%), 50 tokens/s, 15 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s, 30 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s, 29 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s",  # nobody knows
    ]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (91, "training, 90 tokens of about 300 (30%), 10 tokens/s, 21 s left, loss 5.32"),
        (72, "training, 30%, 10 tokens/s, 21 s left, loss 5.32"),
        (47, "training, 30%, 10 tokens/s, 21 s left"),
        (36, "30%, 10 tokens/s, 21 s left"),
        (1, "30%, 10 tokens/s, 21 s left"),
    ],
)
def test_rate_and_time_left_are_kept_where_space_is_short(
    width: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of a training run filled 80 columns, which left no room for the bar."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    progress = console.ProgressDisplay(None, "tokens", rate=10.0, is_estimate=True)
    progress.begin("training", "tokens")
    progress.update(90, 300, "loss 5.32")
    assert progress.text(width) == text
    progress.begin("starting", "")
    assert progress.text(width) == "starting"


def test_a_phase_that_nobody_updates_is_polled() -> None:
    """The reading of files; the next phase has figures of its own."""
    read = iter([0, 300, 600])
    with console.ProgressDisplay(None, "") as progress:
        progress.begin("reading", "bytes", 1000)
        progress.poll = lambda: next(read)
        texts = [progress.text().split(",")[1].split(" of")[0] for _ in range(3)]
        assert texts == [" 0 bytes", " 300 bytes", " 600 bytes"]
        progress.begin("training", "tokens")
        progress.update(5, None)
        assert progress.text() == "training, 5 tokens"


def test_a_message_about_a_task_ends_the_progress_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(console, "_LINE_EVERY_S", 0.02)
    with TaskReporter() as reporter:
        reporter.progress("embedding a", 5, 10)
        time.sleep(0.1)
        assert "5 tokens of about 10 (50%)" in capsys.readouterr().err
        reporter.message("reading")
        time.sleep(0.1)
        assert capsys.readouterr().err.splitlines()[-1] == "reading"
        reporter.progress("embedding b", 1, 2)
        time.sleep(0.1)
    assert "1 tokens of about 2 (50%)" in capsys.readouterr().err


@pytest.mark.parametrize(("no_color", "columns"), [("", 150), ("1", 80), ("1", 30)])
def test_a_bar_takes_one_line_of_a_terminal(
    no_color: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich looks at the stream itself
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", str(columns))
    with console.ProgressDisplay(4, "tokens") as progress:
        progress.update(2, 4, f"{ESCAPE}[b] of a text whose name is longer than a line of it")
        time.sleep(0.3)
    shown = capsys.readouterr().err
    uncolored = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", uncolored).splitlines()
    text = max(lines, key=len)
    assert "50%" in text
    assert len(text) <= columns
    assert text.endswith((" 0 s", "…") if columns < 60 else " 0 s")
    assert columns < 100 or r"\x1b[31m\x9b2J[b] of" in text
    if columns >= 60:
        assert re.match(r"\W{10,40} ", text)  # the bar; spaces if there are no colors
    assert shown.count("\x1b[1A") == 1  # to the line that is removed at the end
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-8]", shown)) == (not no_color)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("error", "code", "message", "hint"),
    [
        (OSError(28, "No space left on device"), 1, "standard output: cannot be written", "free"),
        (OSError(13, "Permission denied", "x"), 1, "x: Permission denied", "permissions"),
        (OSError(5, "Input/output error"), 1, "Input/output error", "--debug"),
        (MemoryError(), 1, "out of memory", "--batch-size"),
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
    ("variables", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_spin_briefly(variables: dict[str, str], expected: str) -> None:
    """A process that spins takes the core from the one that it waits for; users can choose."""
    program = (
        "import os, sys\n"
        "import elmo_cli.cli.main as cli\n"
        "found = os.environ.get\n"
        "cli.main = lambda: sys.exit(print(found('GOMP_SPINCOUNT'), 'torch' in sys.modules))\n"
        "from elmo_cli.__main__ import command; command()"
    )
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env={**clean, **variables}, capture_output=True, text=True)
    assert done.stdout == f"{expected} False\n"
