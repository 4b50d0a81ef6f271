"""`elmo plot geometry`: the lines of each panel, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import elmo, made
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MEASURES = (
    "self_similarity",
    "sentence_similarity",
    "mev_uncentered",
    "mev_pca",
    "mev_truncated_svd",
)


def layer(name: str, value: float, adjusted: float | None = 0.25) -> dict[str, Any]:
    """The measures of a layer, all of them equal; None for those of PCA in layer 0."""
    measures: dict[str, Any] = {}
    for measure in MEASURES:
        measures[measure] = {"raw": value, "baseline": 0.1, "adjusted": adjusted}
    if name == "0":
        measures["mev_pca"] = {"raw": None, "baseline": 0.1, "adjusted": None}
    return {"name": name, "norm": 3.0, "anisotropy": value / 2, **measures}


def file(name: str, *layers: dict[str, Any]) -> dict[str, Any]:
    return {"file": name, "layers": [*layers]}


def write(path: Path, *files: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"files": files, "cka": []}))
    return path


def panel(figure: Figure, title: str) -> Axes:
    (found,) = [axes for axes in figure.axes if axes.get_title() == title]
    return found


def values(axes: Axes) -> list[list[float]]:
    """The heights of the lines that are no line at 0."""
    lines = [np.asarray(line.get_ydata(), float).tolist() for line in axes.get_lines()]
    return [line for line in lines if line and line != [0, 0]]


def test_panels_have_a_line_for_each_file(tmp_path: Path, figures: list[Figure]) -> None:
    """Also of other layers, and from several results."""
    both = write(
        tmp_path / "both.json",
        file("v/$trained.hdf5", layer("0", 0.9), layer("1", 0.8), layer("2", 0.7)),
        file("v/one.hdf5", layer("2", 0.4, adjusted=-0.5)),
    )
    third = write(tmp_path / "third.json", file("w/one.hdf5", layer("top", 0.3)))
    out = tmp_path / "a.svg"
    done = made("plot", "geometry", both, third, "-o", out)
    assert done.err == f"{out}: written\n"
    (figure,) = figures
    anisotropy = panel(figure, "anisotropy")
    assert values(anisotropy) == [[0.45, 0.4, 0.35], [0.2], [0.15]]
    self_similarity = panel(figure, "self-similarity")
    expected = [[0.9, 0.8, 0.7], [0.25, 0.25, 0.25], [0.4], [-0.5], [0.3], [0.25]]
    assert values(self_similarity) == expected
    x = [np.asarray(line.get_xdata()).tolist() for line in self_similarity.get_lines()[:6]]
    assert x == [[0, 1, 2], [0, 1, 2], [2], [2], [3], [3]]
    names = [label.get_text() for label in self_similarity.get_xticklabels()]
    assert names == ["token\nlayer", "LSTM\nlayer 1", "LSTM\nlayer 2", "top"]
    pca = values(panel(figure, "explained variance, PCA"))[0]
    assert np.isnan(pca[0])
    assert pca[1:] == [0.8, 0.7]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    paths = ["v/one.hdf5", "w/one.hdf5"]  # two files have the same name
    assert legend == [r"\$trained", *paths, "minus that of random tokens"]


@pytest.mark.parametrize(("value", "adjusted"), [(0.9, 0.25), (0.9, -0.02), (0.01, 0.001)])
def test_axes_include_zero(
    value: float, adjusted: float, tmp_path: Path, figures: list[Figure]
) -> None:
    """So that small differences, and small values, do not look large."""
    result = write(tmp_path / "a.json", file("a.hdf5", layer("1", value, adjusted)))
    made("plot", "geometry", result, "-o", tmp_path / "a.svg")
    bottom, top = panel(figures[0], "self-similarity").get_ylim()
    assert bottom <= min(0, adjusted)
    assert (bottom == 0) == (adjusted > 0)
    assert top >= max(0.1, value)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"files": []},
        {"files": 3},
        {"files": [file("a.hdf5")]},
        {"files": [{"layers": [layer("0", 0.5)]}]},
        {"files": [file("a.hdf5", {"name": "0", "anisotropy": 0.5})]},
        {"files": [file("a.hdf5", {**layer("0", 0.5), "mev_pca": 0.5})]},
        {"files": [file("a.hdf5", {**layer("0", 0.5), "anisotropy": "x"})]},
        {"files": [file("a.hdf5", {**layer("0", 0.5), "anisotropy": float("inf")})]},
        {"files": [file("a.hdf5", {**layer("0", 0.5), "anisotropy": 10**400})]},
    ],
    ids=str,
)
def test_a_file_without_geometry_is_refused(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    done = elmo("plot", "geometry", path, "-o", tmp_path / "new.svg")
    assert done.code == 1
    assert f"{path}: not a file with the geometry of layers" in done.err
    assert len(done.err.splitlines()) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    done = elmo("plot", "geometry", tmp_path / "no.json", "-o", tmp_path / "new.svg")
    assert "no.json: not a file with" in done.err
    assert "elmo geometry … --json" in done.err
