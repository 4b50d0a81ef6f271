"""Plots of trees: which edges are drawn where, and files that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import elmo, made, refused
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from elmo_cli.plot.figure import COLORS, GRAY
from elmo_cli.plot.tree_plot import draw_tree, read_tree

EDGES: dict[str, Any] = {
    "key": 7,
    "layer": "1",
    "words": ["The", "$cat", "sat", "."],
    "heads": [2, 3, 0, 3],
    "punctuation": [4],
    "gold_edges": [[1, 2], [2, 3]],
    "edges": [[1, 3], [2, 3]],
}
DEPTHS: dict[str, Any] = {
    **{name: EDGES[name] for name in ("layer", "words", "heads", "punctuation")},
    "key": "d/0",
    "gold_depths": [2, 1, 0, 1],
    "depths": [2.5, 0.5, 0.25, 1],
}


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trees.jsonl"
    path.write_text("".join(json.dumps(tree) + "\n" for tree in (EDGES, DEPTHS)))
    return path


def test_true_edges_are_above_and_predicted_ones_below(trees: Path) -> None:
    """Edges in both have one color, the others one each."""
    figure = draw_tree(read_tree(trees))
    [axes] = figure.axes
    words = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert list(words) == ["The", r"\$cat", "sat", "."]
    colors = {text.get_text(): text.get_color() for text in axes.texts}
    assert [colors["."], colors["sat"]] == [GRAY, "black"]
    the, cat, sat, _ = words.values()
    drawn = set()
    for arc in axes.lines:
        xs, ys = arc.get_data()
        if len(xs):
            assert min(ys) > 0 or max(ys) < 0
            side = "above" if min(ys) > 0 else "below"
            drawn.add((round(xs[0], 6), round(xs[-1], 6), side, to_hex(arc.get_color())))
    found = COLORS[0].lower()
    wrong = COLORS[3].lower()
    assert drawn == {
        (the, cat, "above", GRAY),
        (cat, sat, "above", found),
        (cat, sat, "below", found),
        (the, sat, "below", wrong),
    }
    assert figure.legends[0].get_texts()[0].get_text() == "in both: 1 of 2 edges"
    assert axes.get_title() == "sentence 7, LSTM layer 1"


def test_depths_are_marks(trees: Path) -> None:
    figure = draw_tree(read_tree(trees, "d/0"))
    [axes] = figure.axes
    gold, predicted = axes.lines
    assert list(gold.get_ydata()) == DEPTHS["gold_depths"]
    assert list(predicted.get_ydata()) == DEPTHS["depths"]
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["The", r"\$cat", "sat", "."]


def test_arcs_are_above_those_within(tmp_path: Path) -> None:
    """Also in a long sentence, whose arcs are flatter."""
    n_words = 60
    nested = [[word, n_words] for word in range(1, n_words)]
    tree = {**EDGES, "words": ["w"] * n_words, "edges": nested, "gold_edges": nested}
    (tmp_path / "a.jsonl").write_text(json.dumps(tree))
    figure = draw_tree(read_tree(tmp_path / "a.jsonl"))
    heights = [max(arc.get_ydata()) for arc in figure.axes[0].lines if len(arc.get_xdata())]
    above = heights[: n_words - 1]
    assert above == sorted(above, reverse=True)
    assert len(set(above)) == n_words - 1
    assert max(above) < 10
    assert figure.get_figwidth() <= 16


def test_the_command_writes_the_named_sentence(trees: Path, figures: list[Figure]) -> None:
    made("plot", "tree", trees, "--sentence", "d/0", "-o", "a.svg")
    made("plot", "tree", trees, "-o", "b.svg")
    titles = [figure.axes[0].get_title() for figure in figures]
    assert titles == ["sentence d/0, LSTM layer 1", "sentence 7, LSTM layer 1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"words": []},
        {"words": [3]},
        {"words": "The"},
        {"edges": [[0, 1]]},
        {"edges": [[2, 5]]},
        {"edges": [[2, 2]]},
        {"edges": [[1]]},
        {"edges": [["a", "b"]]},
        {"edges": 3},
        {"gold_edges": [[1.5, 2]]},
        {"punctuation": None},
        {"punctuation": "2"},
        {"punctuation": [5]},
        {"punctuation": [True]},
    ],
    ids=str,
)
def test_other_contents_are_refused(changes: dict[str, Any], trees: Path) -> None:
    trees.write_text(json.dumps({**EDGES, **changes}) + "\n")
    done = elmo("plot", "tree", trees, "-o", "new.svg")
    refused(done, 1, f"{trees}, line 1: not a predicted tree", "--trees")
    assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "words", "code", "message"),
    [
        (b"", [], 1, "{}: contains no trees"),
        (b"\xff\n", [], 1, "{}, line 1: not a predicted tree"),
        (b"[" * 100_000, [], 1, "{}, line 1: not a predicted tree"),
        (b'{"key": ' + b"1" * 5000 + b"}", [], 1, "{}, line 1: not a predicted tree"),
        (json.dumps({**DEPTHS, "depths": [1, 2, 3]}).encode(), [], 1, "{}, line 1: not a pred"),
        (
            json.dumps({**DEPTHS, "depths": "1234"}).encode(),
            [],
            1,
            "{}, line 1: not a pred",
        ),
        (
            json.dumps({**DEPTHS, "depths": [1, 2, 3, 10**400]}).encode(),
            [],
            1,
            "{}, line 1: not a pred",
        ),
        (
            json.dumps({**DEPTHS, "depths": [1, 2, 3, float("nan")]}).encode(),
            [],
            1,
            "{}, line 1: not",
        ),
        (json.dumps(EDGES).encode(), ["--sentence", "8"], 2, "`--sentence 8`: no such sentence"),
        (
            json.dumps({**EDGES, "words": ["w"] * 81}).encode(),
            [],
            2,
            "{}, line 1: sentence 7 has 81 words",
        ),
    ],
    ids=[
        "empty",
        "bytes",
        "deep",
        "digits",
        "few depths",
        "text",
        "large",
        "NaN",
        "no sentence",
        "long",
    ],
)
def test_files_without_the_tree(
    content: bytes, words: list[str], code: int, message: str, trees: Path
) -> None:
    trees.write_bytes(content)
    done = elmo("plot", "tree", trees, "-o", "new.svg", *words)
    refused(done, code, message.format(trees), "")
    assert not Path("new.svg").exists()


def test_a_missing_file(trees: Path) -> None:
    refused(elmo("plot", "tree", "no.jsonl", "-o", "new.svg"), 1, "no.jsonl: can't be read", "")
