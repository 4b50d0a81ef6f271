"""Each speed script runs and prints its figures."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from command_line import made

from benchmarks.common import Cost, run_timed
from benchmarks.speed import paired

ROOT = Path(__file__).resolve().parents[2]
TEXT = "A much longer sentence .\n\nIt slept .\n" + "The cat sat .\n" * 20
TINY = ["text.txt", "--size", "tiny"]
# Script, arguments, the end of its output, whether it can run in this process.
RUNS = {
    "embed": ([*TINY, "--precision", "int8", "--", "--layout", "flat"], "int8, error of layer 2"),
    "writing": (["--sentences", "1000", "--dim", "4"], "allennlp, float32"),
    "training": ([*TINY, "--steps", "2", "--batch-size", "2"], "tiny"),
    "cluster": ([*TINY, "--tokens", "50"], "ratio"),
    "plain_loop": (["--text", *TINY, "--pairs", "1"], "median"),
}
MARKS = {"cluster": pytest.mark.ray, "plain_loop": pytest.mark.slow}
SMALL_BATCHES = ["--", "--batch-size", "2", "--vocabulary-size", "10"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in RUNS])
def test_script_prints_its_figures(name, tmp_path, monkeypatch, capsys):
    words, expected = RUNS[name]
    script = import_module(f"benchmarks.speed.{name}")
    costs = [Cost(wall=float(n), cpu=1.0, peak=100.0) for n in range(1, 9)]

    def run_in_process(command, **_):
        made(*command[3:])
        return costs.pop(0)

    if name in ("embed", "training"):  # their commands need no process of their own
        monkeypatch.setattr(script, "run_timed", run_in_process)
        monkeypatch.setattr(script, "product_rates", lambda _: [1.0], raising=False)
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    arguments = ["--json", "record.json"]
    arguments += [str(text) if word == "text.txt" else word for word in words]
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    script.main()
    assert expected in capsys.readouterr().out
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["command"].startswith(f"python -m benchmarks.speed.{name} --json record.json ")
    assert record["torch"]["version"] == torch.__version__
    assert len(record["measurements"]) == 1
    assert 0 <= record["other_load"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "is_compared"),
    [
        (["--size", "tiny", "--layout", "flat", "--layout", "allennlp"], True),
        (["--command", "pretrain", "--size", "tiny", "--max-steps", "2", *SMALL_BATCHES], True),
        (["--command", "help"], False),
    ],
)
def test_two_checkouts_are_timed_in_turns(words, is_compared, tmp_path, monkeypatch, capsys):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    record = tmp_path / "record.json"
    arguments = [str(ROOT), str(ROOT), "--json", str(record)]
    arguments += ["--text", str(text), "--pairs", "2", *words]
    monkeypatch.setattr(sys, "argv", ["paired", *arguments])
    with pytest.raises(SystemExit) as ended:
        paired.main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert ("outputs are equal" in printed) == is_compared
    assert "pair 1 (old first): wall " in printed
    assert "pair 2 (new first): wall " in printed
    for name in ("wall", "cpu", "peak"):
        assert re.search(
            rf"^  {name}: median NEW/OLD [\d.]+ \([\d.]+ to [\d.]+, 2 pairs\)$", printed, re.M
        )
    for measurement in json.loads(record.read_text())["measurements"]:
        assert len(measurement["old"]) == len(measurement["new"]) == 2


def test_median_and_range_of_ratios():
    old = [Cost(wall=wall, cpu=1.0, peak=1.0) for wall in (1.0, 2.0, 4.0)]
    new = [Cost(wall=wall, cpu=1.0, peak=1.0) for wall in (2.0, 1.0, 4.0)]
    figures = paired.ratio_figures(old, new, "wall")
    assert figures == "median NEW/OLD 1.000 (0.500 to 2.000, 3 pairs)"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([[1.0, 2.0]], ""),
        ([[1.0, 2.5]], "by up to 0.5"),
        ([[1.0, 2.0], [1.0, 2.0]], "by up to inf"),
    ],
)
def test_difference_of_two_outputs(new, expected, tmp_path):
    for name, array in (("old", [[1.0, 2.0]]), ("new", new)):
        with h5py.File(tmp_path / name, "w") as file:
            file["0"] = np.array(array, np.float32)
    assert paired.file_difference(tmp_path / "old", tmp_path / "new") == expected


def test_the_cost_of_a_process_is_not_that_of_the_one_that_started_it():
    """pytest takes some hundred megabytes, a bare Python about ten."""
    cost = run_timed([sys.executable, "-I", "-S", "-c", "sum(range(10**7))"])
    assert 1 < cost.peak < 60
    assert cost.cpu > 0
    assert cost.wall > 0


def test_a_command_that_fails_ends_a_measurement():
    with pytest.raises(SystemExit, match="exit code 3"):
        run_timed([sys.executable, "-c", "raise SystemExit(3)"])
