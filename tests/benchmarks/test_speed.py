"""Each speed script runs and prints its figures."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from command_line import made

from benchmarks.common import Cost

TEXT = "A much longer sentence .\n\nIt slept .\n" + "The cat sat .\n" * 20
TINY = ["text.txt", "--size", "tiny"]
# Script, arguments, the end of its output, whether it can run in this process.
RUNS = {
    "embed": ([*TINY, "--precision", "int8", "--", "--layout", "flat"], "int8, error of layer 2"),
    "writing": (["--sentences", "1000", "--dim", "4"], "allennlp, float32"),
    "training": ([*TINY, "--steps", "2", "--batch-size", "2"], "tiny"),
    "cluster": ([*TINY, "--tokens", "50"], "ratio"),
    "plain_loop": (["--text", *TINY, "--pairs", "1"], "median"),
    "paired": ([".", ".", "--text", *TINY, "--pairs", "1"], "median NEW/OLD"),
}
MARKS = {"cluster": pytest.mark.ray, "plain_loop": pytest.mark.slow, "paired": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in RUNS])
def test_script_prints_its_figures(name, tmp_path, monkeypatch, capsys):
    words, expected = RUNS[name]
    script = import_module(f"benchmarks.speed.{name}")
    costs = (Cost(wall=float(n), cpu=1.0, peak=100.0) for n in range(1, 9))

    def run_in_process(command, **_):
        made(*command[3:])
        return next(costs)

    if name in ("embed", "training"):  # their commands need no process of their own
        monkeypatch.setattr(script, "run_timed", run_in_process)
        monkeypatch.setattr(script, "product_rate", lambda _: 1.0, raising=False)
    Path(tmp_path, "text.txt").write_text(TEXT)
    monkeypatch.chdir(Path(__file__).parents[2] if name == "paired" else tmp_path)
    text = str(tmp_path / "text.txt")
    monkeypatch.setattr(sys, "argv", [name, *(text if w == "text.txt" else w for w in words)])
    with pytest.raises(SystemExit, match="0") if name == "paired" else nullcontext():
        script.main()
    assert expected in capsys.readouterr().out
