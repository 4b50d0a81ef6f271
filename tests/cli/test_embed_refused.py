"""`elmo embed` refuses what it can before torch is imported, and announces slow loading."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import elmo, only_tiny

from elmo_cli.cli import console

REFUSED = {
    "missing input": "embed nosuch.txt -o new.hdf5",
    "existing output": "embed a.txt -o old.hdf5",
    "unknown model": "embed a.txt -o new.hdf5 -m nosuch",
    "layer that the model lacks": "embed a.txt -o new.hdf5 --layers 7",
    "layout of another dtype": "embed a.txt -o new.hdf5 --dtype int8",
    "name of another format": "embed a.txt -o new.parquet",
    "format of standard output": "embed a.txt -o - --output-format npy",
    "shard of a carried state": "embed a.txt -o new.hdf5 --shard 1/2 --state carry",
    "dry run of standard input": "embed - -o new.hdf5 -n",
}
COMMAND = """
import sys
from elmo_cli.cli.main import main
for words in sys.argv[1:]:
    try: main(words.split())
    except SystemExit as ended: print(ended.code, "torch" in sys.modules)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The cat\n")
    Path("old.hdf5").write_text("old")


def test_refused_without_torch() -> None:
    command = [sys.executable, "-c", COMMAND, *REFUSED.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("error: ") == done.stderr.count("hint: ") == len(REFUSED)
    for name, line in zip(REFUSED, done.stdout.splitlines(), strict=True):
        assert re.fullmatch("[12] False", line), (name, line, done.stderr)


def test_a_missing_input_takes_less_than_half_a_second_of_cpu_time() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "elmo_cli", *REFUSED["missing input"].split()]
        assert subprocess.run(command, capture_output=True).returncode == 1
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.4


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("v.parquet", "open_embeddings"),
        ("v.pt", "open_embeddings"),
        ("V.NPY", "--output-format npz"),
        ("v.npz", "--output-format npz"),
        ("v.csv", "--output-format text"),
        ("v.jsonl", "--output-format jsonl"),
    ],
)
def test_names_of_other_formats_are_refused_with_two_ways(name: str, other: str) -> None:
    done = elmo("embed", "a.txt", "-o", name)
    assert done.code == 1
    stem = name.partition(".")[0]
    assert f"hint: `-o {stem}.hdf5`" in done.err
    assert other in done.err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["a.txt", "old.hdf5"]


@pytest.mark.parametrize(
    ("seconds", "quiet", "says"), [(0.1, False, 1), (0.1, True, 0), (0.0, False, 0)]
)
def test_loading_is_announced_if_it_takes_long(
    seconds: float, quiet: bool, says: int, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    monkeypatch.setattr(console, "_LOADING_S", 0.05)
    with console.loading(quiet=quiet):
        time.sleep(seconds)
    assert capsys.readouterr().err == "loading\n" * says  # type: ignore[attr-defined]


def test_rate_and_time_left_pass_between_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    bar = console.Bar(1000, "tokens", done=100, rate=50.0, is_estimate=True)
    texts = []
    for seconds, done in ((0, 100), (3, 100), (10, 400), (11, 400), (99, 400)):
        clock[0] = seconds
        if done != bar.done:
            bar.update(done, 1300)
        texts.append(bar.text())
    assert texts == [
        "100 tokens of about 1,000 (10%), 50 tokens/s, 18 s left",
        "100 tokens of about 1,000 (10%), 50 tokens/s, 15 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s, 30 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s, 29 s left",
        "400 tokens of about 1,300 (31%), 30 tokens/s, 0 s left",
    ]
    assert console.Bar(None, "tokens", 0, 0.0, False).text() == "0 tokens"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert console.duration(seconds) == words
