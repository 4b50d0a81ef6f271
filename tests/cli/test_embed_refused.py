"""`elmo embed` refuses what it can before torch is imported, and announces slow loading."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import elmo, only_tiny

REFUSED = {
    "missing input": "embed nosuch.txt -o new.hdf5",
    "existing output": "embed a.txt -o old.hdf5",
    "malformed device": "embed a.txt -o new.hdf5 --device cuda:one",
    "malformed device of perplexity": "perplexity a.txt --device gpu",
    "malformed device of finetune": "finetune --domain a.txt -o model --device gpu",
    "malformed device of pretrain": "pretrain a.txt -o model --max-steps 1 --device gpu",
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


@pytest.mark.parametrize("name", ["v.parquet", "V.NPY", "v.csv", "v.jsonl"])
def test_suffixes_of_other_formats_are_refused_with_two_ways(name: str) -> None:
    done = elmo("embed", "a.txt", "-o", name)
    assert done.code == 1
    assert f"hint: `-o {name[0]}.hdf5` writes HDF5" in done.err
    assert "--output-format" in done.err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["a.txt", "old.hdf5"]
