"""Command lines that are refused before torch is imported, which takes seconds."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working directory with a text and a former output."""
    Path("corpus.txt").write_text("The cat sat on the mat .\n")
    Path("old.hdf5").write_text("old")


REFUSED = {
    "missing input": "embed nosuch.txt -o new.hdf5",
    "existing output": "embed corpus.txt -o old.hdf5",
    "malformed device": "embed corpus.txt -o new.hdf5 --device cuda:one",
    "malformed device of perplexity": "perplexity corpus.txt --device gpu",
    "malformed device of finetune": "finetune --domain corpus.txt -o model --device gpu",
    "malformed device of pretrain": "pretrain corpus.txt -o model --max-steps 1 --device gpu",
    "missing text of perplexity": "perplexity nosuch.txt",
    "missing softmax": "score corpus.txt --softmax nosuch.hdf5",
    "missing vocabulary": "score corpus.txt --vocabulary nosuch.txt",
    "missing options": "embed corpus.txt -o new.hdf5 --options-file no.json --weight-file no.hdf5",
    "missing training data": "train ner --train nosuch.conll --dev corpus.txt -o new",
    "missing dev data": "train ner --train corpus.txt --dev nosuch.conll -o new",
    "missing word vectors": "train ner --train corpus.txt --dev old.hdf5 --word-vectors no -o n",
    "missing test data": "evaluate new --test nosuch.conll",
    "missing text to predict": "predict new nosuch.txt",
    "missing words": "usages corpus.txt --words nosuch.txt -o new.npz",
    "missing text to compare": "inspect old.hdf5 --text nosuch.txt",
    "unknown model": "embed corpus.txt -o new.hdf5 -m nosuch",
    "layer that the model lacks": "embed corpus.txt -o new.hdf5 --layers 7",
    "layout of another dtype": "embed corpus.txt -o new.hdf5 --dtype int8",
    "name of another format": "embed corpus.txt -o new.npz",
    "format of standard output": "embed corpus.txt -o - --output-format npy",
    "shard of a carried state": "embed corpus.txt -o new.hdf5 --shard 1/2 --state carry",
    "dry run of standard input": "embed - -o new.hdf5 -n",
    "folder of shards": "embed corpus.txt -o new.hdf5 --ray",
    "precision of the plain engine": "embed corpus.txt -o new.hdf5 --engine plain --precision bf16",
    "layout of documents": "embed corpus.txt -o new.hdf5 --layout e2e-coref",
    "layout of types": "embed corpus.txt -o vectors/ --layout bilm-types",
    "dtype of standard output": "embed corpus.txt -o - --dtype int8",
    "missing folder": "embed corpus.txt -o far/new.hdf5",
    "folder that accepts no files": "embed corpus.txt -o /proc/new.hdf5",
    "folder in a file": "embed corpus.txt -o old.hdf5/new/",
    "options of another model": "embed corpus.txt -o new.hdf5 -m ./other",
}
COMMANDS = """
import sys
from elmo_cli.cli.main import main
for words in sys.argv[1:]:
    try: main(words.split())
    except SystemExit as ended: print(ended.code, "torch" in sys.modules)
"""


def test_refused_without_torch(tiny: Path) -> None:
    shutil.copytree(tiny, "other")
    options = json.loads(Path("other/options.json").read_text())
    options["lstm"]["dim"] += 1
    Path("other/options.json").write_text(json.dumps(options))
    command = [sys.executable, "-c", COMMANDS, *REFUSED.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("error: ") == len(REFUSED)
    assert done.stderr.count("hint: ") == len(REFUSED)
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
