"""The table of minimal pairs of the model card: against values by hand, and the script once."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import made

from benchmarks.model_card import commands, minimal_pairs

PUBLISHED = [
    {"UID": "a", "linguistics_term": "t_1", "ngram": 0.5, "lstm": 0.25, "txl": 1, "gpt2": 0.5},
    {"UID": "b", "linguistics_term": "t_1", "ngram": 0.1, "lstm": 0.75, "txl": 0, "gpt2": 0.75},
    {"UID": "c", "linguistics_term": "u", "ngram": 0.3, "lstm": 0.9, "txl": 0.2, "gpt2": 0.75},
    {"UID": "overall", "linguistics_term": "u", "ngram": 0, "lstm": 0, "txl": 0, "gpt2": 0},
]


def paradigm(name: str, forward: float, n_unknown: int) -> dict[str, Any]:
    """What `elmo score` reports of a paradigm of four pairs."""
    accuracy = {"forward": forward, "backward": 50.0, "sum": 75.0}
    return {"name": name, "pairs": 4, "pairs_with_unknown": n_unknown, "accuracy": accuracy}


FACTS = {"paradigms": [paradigm("b", 100, 1), paradigm("a", 50, 2), paradigm("c", 75, 3)]}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "published.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in PUBLISHED))
    return path


def test_means_and_correlations_by_hand(published: Path) -> None:
    """Terms are those of the published accuracies, whose lines with means do not count."""
    accuracies, terms = minimal_pairs.read_published(published)
    figures = minimal_pairs.with_published(FACTS, accuracies)
    by_term = minimal_pairs.rows_by_term(figures, terms)
    assert by_term == [
        ["t 1", "2", "75.0", "50.0", "75.0", "30.0", "50.0", "50.0", "62.5", "37.5"],
        ["u", "1", "75.0", "50.0", "75.0", "30.0", "90.0", "20.0", "75.0", "75.0"],
        [
            "mean of all paradigms",
            "3",
            "75.0",
            "50.0",
            "75.0",
            "30.0",
            "63.3",
            "40.0",
            "66.7",
            "50.0",
        ],
    ]
    with np.errstate(invalid="ignore"):  # equal accuracies have no correlation
        forward, _, _ = minimal_pairs.correlation_rows(figures)
    assert forward == ["forward", "-1.00", "0.50", "-1.00", "0.87"]


def test_a_paradigm_without_published_figures_ends_the_script() -> None:
    with pytest.raises(SystemExit, match="b: not among"):
        minimal_pairs.with_published(FACTS, {"a": {}})


def test_the_script_prints_its_tables(
    published: Path,
    tiny: Path,
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(command: list[str], **_: object) -> SimpleNamespace:  # in this process
        assert "--tokenize" in command
        words = [word for word in command[3:] if word != "--tokenize"]  # which takes seconds
        return SimpleNamespace(returncode=0, stdout=made(*words).out.decode())

    model = shutil.copytree(tiny, tmp_path / "model")
    for part in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / part, model)
    pairs = tmp_path / "pairs.jsonl"
    versions = {"sentence_good": "the old boat .", "sentence_bad": "old the boat ."}
    lines = [json.dumps({**versions, "UID": uid}) + "\n" for uid in "aabbc"]
    pairs.write_text("".join(lines))
    monkeypatch.setattr(commands.subprocess, "run", run)
    words = ["minimal_pairs", pairs, published, "-m", model, "--by-paradigm"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    with np.errstate(invalid="ignore"):
        minimal_pairs.main()
    out = capsys.readouterr().out
    assert "| mean of all paradigms |         3 |" in out
    assert "| a        |         1 |" in out
    assert "5 pairs, 0 with <UNK>; equal scores: 0 forward, 0 backward, 0 in sum" in out
