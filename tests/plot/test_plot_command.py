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
LAYERS: list[Any] = [[], 3, [{}], [{"name": "0", "test": "x"}]]
NO_RESULTS: list[Any] = [[], {}, {"layers": [{"name": "0", "test": 80.0}]}]
NO_RESULTS += [{**BASELINES, "layers": layers} for layers in LAYERS]
SENSES, PLAY = "senses text.hdf5 --word", "senses text.hdf5 --word play"
SIMILARITY = "similarity text.hdf5 0"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{SENSES} plya", "contains no token 'plya'\nhint: give a whole token; case is ignored"),
        (f"{PLAY} --labels short.tags", "has 7 sentences, short.tags has 6"),
        (f"{PLAY} --label-column upos", "no effect without --labels"),
        (f"{PLAY} --labels text.tags --clusters 2", "effect with --labels"),
        (f"{PLAY} -o x.gif", "not a supported plot format"),
        (f"{SIMILARITY} 99", "no sentence '99'"),
        (f"{SIMILARITY} 4", "has 0 tokens"),
        (f"{SIMILARITY} 6", "has 81 tokens"),
        ("probe no.json", "no.json: not a file with"),
        *((f"probe {n}.json", f"{n}.json: not a file with") for n in range(len(NO_RESULTS))),
        # Matplotlib would write keep.png.
        *((f"curves log.jsonl -o {name}", f"{name}: its suffix is not a supported plot format")
          for name in ("curves.html", "-", "keep")),
        ("curves log.jsonl -o keep.png", "keep.png: exists"),
        ("curves log.jsonl -o log.jsonl -f", "is also one of the inputs"),
        ("curves . -o log.jsonl -f", "is also one of the inputs"),
        ("layers . -o scores.json -f", "is also one of the inputs"),
    ],
)  # fmt: skip
def test_refused(line: str, message: str, corpus: Path) -> None:
    """In two lines; nothing is written or replaced, least of all the log of a run."""
    for number, content in enumerate(NO_RESULTS):
        Path(f"{number}.json").write_text(json.dumps(content))
    Path("keep.png").write_bytes(b"mine")
    Path("scores.json").write_bytes(b"{}")
    Path("log.jsonl").write_text('{"epoch": 1, "loss": 1, "dev": {"f1": 2}}\n')
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = elmo("plot", *shlex.split(line), *([] if " -o " in line else ["-o", "new.svg"]))
    assert done.code in (1, 2)
    assert message in done.err
    assert len(done.err.splitlines()) == 2
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


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
