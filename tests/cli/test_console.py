"""What a terminal gets to see: no control characters; progress; a clean end at Ctrl-C."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest
from command_line import elmo, made
from situations import CommandScene, file, hdf5, objects, stocked, zipped

from elmo_cli.cli import console
from elmo_cli.cli.lm_training import ConsoleReporter
from elmo_cli.cli.task_options import TaskReporter
from elmo_cli.messages import duration
from elmo_cli.training.reporter import Estimate

ESCAPE = "\x1b[31m\x9b2J"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OK = stocked("ok.hdf5")
LONG = json.dumps({"tokens": [f"{ESCAPE}{'x' * 99}"]})


def set_model(file: h5py.File) -> None:
    file.attrs["model"] = f"m{ESCAPE}\nchecked"


def embedded(scene: CommandScene) -> None:
    """An embeddings file of a sentence with a control character in a token."""
    objects("t.jsonl", {"tokens": ["The", f"{ESCAPE}cat"]})(scene)
    made("embed", "-q", "t.jsonl", "-o", "t.hdf5")


def rename_a_sentence(file: h5py.File) -> None:
    file.move("1", f"1{ESCAPE}")


# The way in -> command, files, exit code.
UNTRUSTED = {
    "attribute": (["inspect", "ok.hdf5"], [OK, hdf5("ok.hdf5", set_model)], 0),
    "zip member": (["embed", "a.txt", "-o", "b.hdf5", "-m", "m.zip"],
        [zipped("m.zip", {f"../{ESCAPE}weights.hdf5": "x", "options.json": "{}"})], 1),
    "HDF5 name": (["inspect", "ok.hdf5"],
        [OK, hdf5("ok.hdf5", rename_a_sentence)], 1),
    "token in an error": (["neighbors", "t.hdf5", "0:nope"], [embedded], 2),
    "token in a table": (["kwic", "t.hdf5", f"{ESCAPE}cat"], [embedded], 0),
    "long token": (["embed", "-", "--input-format", "jsonl", "-o", "b.hdf5"], [], 0),
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


def test_data_on_standard_output_stays_as_it_is_but_on_a_terminal(
    scene: CommandScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    file("e.txt", "a\u202eb\n")(scene)  # which changes the direction of writing
    assert made("tokenize", "e.txt").out.decode().startswith("a\u202eb")
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    assert made("tokenize", "e.txt").out.decode() == "a\\u202eb\n"


def test_numbers_that_are_not_finite_are_null_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(console, "running", console.RunningCommand(as_json=True))
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


@pytest.mark.parametrize("limit", ["_LOADING_S", "_LOADING_IN_LOG_S"])
@pytest.mark.parametrize(
    ("seconds", "quiet", "expected"), [(0.1, False, 1), (0.1, True, 0), (0.0, False, 0)]
)
def test_loading_is_announced_if_it_takes_long(
    seconds: float, quiet: bool, expected: int, limit: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """On a terminal early, in a log late; the other limit has no effect."""
    monkeypatch.setattr(console, "_LOADING_S", 600)
    monkeypatch.setattr(console, "_LOADING_IN_LOG_S", 600)
    monkeypatch.setattr(console, limit, 0.05)
    monkeypatch.setattr(console, "is_terminal", lambda stream: limit == "_LOADING_S")
    monkeypatch.setattr(console, "running", console.RunningCommand(quiet=quiet))
    with console.loading("a model"):
        time.sleep(seconds)
    assert capsys.readouterr().err == "loading a model\n" * expected


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
    n_read = iter([0, 300, 600])
    with console.ProgressDisplay(None, "") as progress:
        progress.begin("reading", "bytes", 1000)
        progress.poll = lambda: next(n_read)
        for counts in ("0 bytes of 1,000", "300 bytes of 1,000", "600 bytes of 1,000"):
            assert progress.text().startswith(f"reading, {counts} (")
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


def frames(shown: str) -> list[str]:
    """The texts of a bar's line, one for each time that it was drawn; without colors."""
    uncolored = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", uncolored).splitlines()
    return [line for line in lines if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard error is a terminal of 80 columns."""
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich looks at the stream itself
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


@pytest.mark.parametrize("columns", [150, 80, 30])
def test_a_bar_takes_one_line_of_a_terminal(
    columns: int, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", str(columns))
    with console.ProgressDisplay(None, "tokens") as progress:
        progress.update(2, 4, "of a text whose name is longer than a line of it")
        time.sleep(0.3)
    shown = capsys.readouterr().err
    text = frames(shown)[-1]
    assert "50%" in text
    assert text.endswith(", 0 s elapsed")
    assert len(text) <= columns
    if columns >= 80:
        assert re.match("[━╸╺]{10,40} ", text)
    assert shown.count("\x1b[1A") == 1  # to the line that is removed at the end


@pytest.mark.parametrize("no_color", [True, False])
def test_a_bar_is_colored_unless_no_color_is_set(
    no_color: bool, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("NO_COLOR", "1" if no_color else "")
    with console.ProgressDisplay(4, "tokens") as progress:
        progress.update(2, 4)
    has_color = re.search(r"\x1b\[[0-9;]*3[0-8]", capsys.readouterr().err) is not None
    assert has_color == (not no_color)


def test_names_in_a_bar_are_plain_text(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither control characters nor the markup of rich."""
    with console.ProgressDisplay(None, "tokens") as progress:
        progress.update(2, 4, f"{ESCAPE}[b]x[/b]")
    assert r"\x1b[31m\x9b2J[b]x[/b]" in frames(capsys.readouterr().err)[-1]


def test_a_bar_ends_at_100_percent(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the last update came just before the end; and its figures have one unit each."""
    with console.ProgressDisplay(None, "tokens", rate=2.0) as progress:
        progress.begin("reading", "bytes")
        progress.update(10, 10)
        progress.begin("embedding", "tokens")
        progress.update(0, 4)
        progress.update(4, 4)
    text = frames(capsys.readouterr().err)[-1]
    assert re.fullmatch(
        r"━+ embedding, 4 tokens of 4 \(100%\), [\d,]+ tokens/s, 0 s elapsed", text
    ) or re.fullmatch(r"━+ embedding, 100%, [\d,]+ tokens/s, 0 s elapsed", text)


def test_a_log_gets_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line from time to time, whose end no control character marks."""
    monkeypatch.setattr(console, "_LINE_EVERY_S", 0.02)
    with console.ProgressDisplay(4, "tokens") as progress:
        progress.update(2, 4)
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert lines[-1].startswith("2 tokens of 4 (50%), ")


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (0, None, "embedding dev.conll\n"),
        (0, 100, ""),
        (40, 100, "embedding dev.conll, 40 tokens of 100 (40%)\n"),
    ],
)
def test_the_first_line_of_a_log_has_no_count_of_zero(
    done: int, total: int | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = ConsoleReporter("the dev data")
    with console.ProgressDisplay(None, ""):
        reporter.progress("embedding dev.conll", done, total)
        reporter._print_first_line()
    reporter._stack.close()
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("age_s", "done", "is_shown"), [(0.0, 0, False), (0.0, 1, True), (15.0, 0, True)]
)
def test_a_count_of_zero_is_shown_only_if_a_phase_takes_long(
    age_s: float, done: int, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with console.ProgressDisplay(None, "") as progress:
        progress.begin("embedding dev.conll", "tokens")
        assert not progress._has_news()
        progress.update(done, 100)
        started_s = time.monotonic()
        monkeypatch.setattr("time.monotonic", lambda: started_s + age_s)
        assert progress._has_news() == is_shown
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_training_run_is_reported_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ConsoleReporter("the validation text")
    measured = {"average": 12.3, "forward": 1.26, "backward": 30, "unknown_fraction": 0.0421}
    position = {"tokens": 2500, "seconds": 1061.5}
    reporter.log_line({"step": 1200, **position, "heldout": measured})
    reporter.log_line({"fit_pass": 2, **position, "heldout": measured})
    reporter.log_line({"step": 1300, **position, "loss": 1.0})
    reporter.estimate(
        Estimate(seconds=200, tokens=2500, epochs=1.5, rate=1234.4, limit="max_seconds")
    )
    shown = "perplexity 12.3 on the validation text (forward 1.3, backward 30.0), 4.2% unknown"
    assert capsys.readouterr().err.splitlines() == [
        f"step 1,200, 2,500 tokens, 1,062 s: {shown}",
        f"fit, pass 2, 2,500 tokens, 1,062 s: {shown}",
        "training takes about 3 min 20 s until --max-seconds: about 2,500 tokens (1.50 epochs) at "
        "1,234 tokens/s",
    ]


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
