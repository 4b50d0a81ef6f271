"""Weights of layers and accuracies of probes, and `elmo plot layers` and `probe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import elmo, made, refused
from matplotlib.figure import Figure

from elmo_cli.analysis import linear
from elmo_cli.errors import ElmoError
from elmo_cli.plot.layer_results import parse_mix, read_mixes

MIX = {"weights": [0.25, 0.5, 0.25], "gamma": 1.1}


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("mix", "weights"),
    [
        ("mix:1,2,5", (0.125, 0.25, 0.625)),
        ("mix:1,2,5,3", (0.125, 0.25, 0.625)),  # gamma changes no weight
    ],
)
def test_a_mix_is_normalized(mix: str, weights: tuple[float, ...]) -> None:
    assert parse_mix(mix) == (mix, weights)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ElmoError, match="a weight is negative"):
        parse_mix("mix:1,-2,5")


@pytest.mark.parametrize(
    ("mixes", "names"),
    [({"input": MIX}, ["$ner"]), ({"x": MIX, "y": MIX}, ["$ner, x", "$ner, y"])],
)
def test_mixes_of_a_task_model(mixes: Any, names: list[str], tmp_path: Path) -> None:
    scores_file = tmp_path / "$ner/scores.json"
    write(scores_file, {"best_epoch": 1, "mix": mixes})
    assert read_mixes(scores_file) == [(name, (0.25, 0.5, 0.25)) for name in names]


@pytest.mark.parametrize(
    ("mixes", "message"),
    [
        ({}, "has no mix of layers"),
        ({"input": {"weights": [1.0]}}, "has no mix of layers"),
        ({"x": {"weights": ["x"]}}, "not a folder with"),
        ({"x": {}}, "not a folder with"),
        ({"x": {"weights": [0.5, np.nan]}}, "not a folder with"),
        ({"x": {"weights": [1.5, -0.5]}}, "not a folder with"),
        ([1], "not a folder with"),
    ],
)
def test_a_task_model_without_a_mix_is_refused(mixes: Any, message: str, tmp_path: Path) -> None:
    scores_file = tmp_path / "$ner/scores.json"
    write(scores_file, {"best_epoch": 1, "mix": mixes})
    with pytest.raises(ElmoError, match=message):
        read_mixes(scores_file)


def test_a_folder_without_scores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match="ner: not a folder with"):
        read_mixes(tmp_path / "$ner/scores.json")


def test_bars_are_stacked(tmp_path: Path, figures: list[Figure]) -> None:
    """Also those of models with different numbers of layers."""
    deep = {"weights": [0.1, 0.2, 0.3, 0.4], "gamma": 0.9}
    write(tmp_path / "$ner/scores.json", {"mix": {"output": deep}})
    done = made("plot", "layers", tmp_path / "$ner", "mix:50,48,2", "-o", tmp_path / "a.svg")
    assert done.err == f"{tmp_path / 'a.svg'}: written\n"
    (axes,) = figures[0].axes
    bars = [bar for container in axes.containers for bar in container]
    left_of_layers = [(0, 0), (0.1, 0.5), (0.3, 0.98), (0.6, 1)]
    widths_of_layers = [(0.1, 0.5), (0.2, 0.48), (0.3, 0.02), (0.4, 0)]
    np.testing.assert_allclose([bar.get_x() for bar in bars], np.ravel(left_of_layers))
    np.testing.assert_allclose([bar.get_width() for bar in bars], np.ravel(widths_of_layers))
    names = ["token layer", "LSTM layer 1", "LSTM layer 2", "LSTM layer 3"]
    assert [text.get_text() for text in figures[0].legends[0].texts] == names
    assert [text.get_text() for text in axes.get_yticklabels()] == [r"\$ner", "mix:50,48,2"]
    assert axes.yaxis_inverted()
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["0.10", "0.50", "0.20", "0.48", "0.30", "", "0.40", ""]


def test_characters_that_a_plot_lacks_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path / "日本/scores.json", {"mix": {"input": MIX}})
    done = made("plot", "layers", tmp_path / "日本", "-o", tmp_path / "a.svg")
    warning, _ = done.err.splitlines()
    assert warning.startswith(f"warning: {tmp_path / 'a.svg'}: the font lacks 2 characters (日 本)")


LAYERS = [
    {"name": "0", "test": 80.0, "unseen_words": 60.0, "control": {"test": 70.0}},
    {"name": "1", "test": 90.0, "unseen_words": None, "control": {"test": 55.5}},
]
PER_WORD = {"majority_label": {"test": 13.0}, "majority_label_per_word": {"test": 71.25}}
RESULT = {**PER_WORD, "layers": LAYERS}
NO_WORDS = {"majority_label": {"test": 50.0}, "majority_label_per_word": None}
POOLED = {**NO_WORDS, "layers": [{"name": "top", "test": 60.0, "unseen_words": None}]}
SERIES = {"all words": [80, 90], "unseen words": [60, np.nan], "control labels": [70, 55.5]}
BASELINE = {"majority label per word: 71.2": [71.25, 71.25]}


def drawn_lines(figure: Figure) -> dict[str, list[float]]:
    """The heights of each line, by its label."""
    (axes,) = figure.axes
    return {str(line.get_label()): list(line.get_ydata()) for line in axes.lines}


@pytest.mark.parametrize(
    ("result", "lines", "layers"),
    [
        (RESULT, SERIES | BASELINE, ["token layer", "LSTM layer 1"]),
        (POOLED, {"all words": [60], "majority label: 50.0": [50, 50]}, ["top"]),
    ],
)
def test_all_series_of_one_probe_are_drawn(
    result: Any,
    lines: dict[str, list[float]],
    layers: list[str],
    tmp_path: Path,
    figures: list[Figure],
) -> None:
    file = write(tmp_path / "pos.json", result)
    made("plot", "probe", file, "-o", tmp_path / "p.svg")
    np.testing.assert_equal(drawn_lines(figures[0]), lines)
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.get_xticklabels()] == layers
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > max(lines["all words"])
    assert [text.get_text() for text in axes.texts] == [f"{x:.1f}" for x in lines["all words"]]
    assert [text.xy for text in axes.texts] == list(enumerate(lines["all words"]))


def test_several_probes_are_compared_on_all_words(tmp_path: Path, figures: list[Figure]) -> None:
    """At their layers, with one line for a baseline that they share."""
    results = {"a": RESULT, "b": {**PER_WORD, "layers": LAYERS[1:]}, "c": POOLED}
    files = [write(tmp_path / f"{name}.json", result) for name, result in results.items()]
    done = made("plot", "probe", *files, "-o", tmp_path / "p.svg")
    assert done.err == f"{tmp_path / 'p.svg'}: written\n"
    baselines = {**BASELINE, "majority label: 50.0": [50, 50]}
    assert drawn_lines(figures[0]) == {"a": [80, 90], "b": [90], "c": [60], **baselines}
    (axes,) = figures[0].axes
    assert [list(line.get_xdata()) for line in axes.lines[:3]] == [[0, 1], [1], [2]]
    names = ["token layer", "LSTM layer 1", "top"]
    assert [text.get_text() for text in axes.get_xticklabels()] == names
    assert [text.get_text() for text in axes.texts] == []


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({**RESULT, "layers": [{"name": "0", "test": np.inf}]}, "not a file with the result"),
        (
            {**RESULT, "layers": [{**LAYERS[0], "unseen_words": np.inf}]},
            "not a file with the result",
        ),
        ({**RESULT, "majority_label_per_word": {"test": np.inf}}, "not a file with the result"),
        ([1], "not a file with the result"),
        ({"structural": "depth", "layers": []}, "the result of a structural probe, which has no"),
    ],
)
def test_other_results_are_refused(result: Any, message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "p.json", result)
    done = elmo("plot", "probe", file, "-o", tmp_path / "p.svg")
    refused(done, 1, f"{file}: {message}", "")


def test_what_probe_prints_can_be_read(
    corpus: Path, figures: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", (1e-3,))
    pair = (corpus, "text.tags")
    done = made("probe", "--train", *pair, "--test", *pair, "--json", "--control", "-q")
    Path("result.json").write_bytes(done.out)
    made("plot", "probe", "result.json", "-o", "p.png", "-f")
    layers = json.loads(done.out)["layers"]
    lines = figures[0].axes[0].lines
    assert list(lines[0].get_ydata()) == [layer["test"] for layer in layers]
    assert list(lines[-2].get_ydata()) == [layer["control"]["test"] for layer in layers]
