"""`elmo plot`: command lines that are refused."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import elmo, made

BASELINES = {"majority_label": {"test": 13.0}, "majority_label_per_word": {"test": 71.25}}


@pytest.fixture
def files(corpus: Path) -> dict[Path, bytes]:
    """The files of the working directory; none may be written or replaced."""
    Path("keep.png").write_bytes(b"mine")
    Path("scores.json").write_bytes(b"{}")
    Path("log.jsonl").write_text('{"epoch": 1, "loss": 1, "dev": {"f1": 2}}\n')
    return contents()


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().iterdir()}


def check_refused(words: list[str], message: str, files: dict[Path, bytes]) -> None:
    """In two lines."""
    done = elmo("plot", *words)
    assert done.code in (1, 2)
    assert message in done.err
    assert len(done.err.splitlines()) == 2
    assert contents() == files


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "senses text.hdf5 --word plya",
            "contains no token 'plya'\nhint: give a whole token; case is ignored",
        ),
        (
            "senses text.hdf5 --word play --labels short.tags",
            "has 7 sentences, short.tags contains 6 of them",
        ),
        ("senses text.hdf5 --word play --label-column upos", "no effect without --labels"),
        (
            "senses text.hdf5 --word play --labels text.tags --clusters 2",
            "effect with --labels",
        ),
        ("similarity text.hdf5 0 99", "no sentence '99'"),
        ("similarity text.hdf5 0 4", "has 0 tokens"),
        ("similarity text.hdf5 0 6", "has 81 tokens"),
        ("probe no.json", "no.json: not a file with"),
    ],
)
def test_a_refused_input(line: str, message: str, files: dict[Path, bytes]) -> None:
    check_refused([*shlex.split(line), "-o", "new.svg"], message, files)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("senses text.hdf5 --word play -o x.gif", "not a supported plot format"),
        ("curves log.jsonl -o curves.html", "curves.html: its suffix is not a supported"),
        ("curves log.jsonl -o -", "-: its suffix is not a supported plot format"),
        # Matplotlib would write keep.png.
        ("curves log.jsonl -o keep", "keep: its suffix is not a supported plot format"),
        ("curves log.jsonl -o keep.png", "keep.png: exists"),
        ("curves log.jsonl -o log.jsonl -f", "is also one of the inputs"),
        ("curves . -o log.jsonl -f", "is also one of the inputs"),
        ("layers . -o scores.json -f", "is also one of the inputs"),
    ],
)
def test_a_refused_output(line: str, message: str, files: dict[Path, bytes]) -> None:
    """Least of all the log of a run is replaced."""
    check_refused(shlex.split(line), message, files)


@pytest.mark.parametrize(
    "result",
    [
        [],
        {},
        {"layers": [{"name": "0", "test": 80.0}]},
        {**BASELINES, "layers": []},
        {**BASELINES, "layers": 3},
        {**BASELINES, "layers": [{}]},
        {**BASELINES, "layers": [{"name": "0", "test": "x"}]},
        {**BASELINES, "layers": [{"name": "0", "test": 10**400}]},
    ],
    ids=str,
)
def test_a_file_without_the_result_of_a_probe(result: Any, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(result))
    done = elmo("plot", "probe", path, "-o", tmp_path / "new.svg")
    assert done.code == 1
    assert f"{path}: not a file with" in done.err
    assert len(done.err.splitlines()) == 2
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "words", [("plot", "senses", "text.hdf5", "--word", "play"), ("neighbors", "text.hdf5", "play")]
)
def test_plots_of_tokens_without_scikit_learn(
    words: tuple[str, ...], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    done = elmo(*words, "-o", "new.svg")
    assert done.code == 1
    assert done.err.splitlines() == [
        "error: new.svg: scikit-learn is not installed",
        "hint: `pip install '.[plot]'` in a clone",
    ]


def test_other_plots_do_not_need_scikit_learn(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    made("plot", "similarity", corpus, "0", "3", "-o", tmp_path / "similarity.svg")
