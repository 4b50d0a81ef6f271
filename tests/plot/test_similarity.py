"""`elmo plot similarity`: cosines between the tokens of two sentences."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import made
from matplotlib.figure import Figure

from elmo_cli.plot.similarity import Similarity, draw_similarity
from elmo_cli.store.reader import open_embeddings


@pytest.mark.parametrize(("first", "second"), [("0", "3"), ("3", "0")])
def test_cosines_of_each_layer(
    first: str, second: str, corpus: Path, figures: list[Figure]
) -> None:
    done = made("plot", "similarity", corpus, first, second, "-o", "s.svg", "-f")
    assert done.err == "s.svg: written\n"
    *panels, bar = figures[0].axes
    names = ["token layer", "LSTM layer 1", "LSTM layer 2"]
    assert [axes.get_title() for axes in panels] == names
    assert bar.get_ylabel() == "cosine"
    lines = Path("text.txt").read_text().splitlines()
    rows = [text.get_text() for text in panels[0].get_yticklabels()]
    columns = [text.get_text() for text in panels[0].get_xticklabels()]
    assert rows == lines[int(first)].split()
    assert columns == lines[int(second)].split()
    with open_embeddings(corpus) as embeddings:
        a = embeddings[int(first)].astype(float)  # (layer, token, dim)
        b = embeddings[int(second)].astype(float)
    a /= np.linalg.norm(a, axis=-1, keepdims=True)
    b /= np.linalg.norm(b, axis=-1, keepdims=True)
    for a_layer, b_layer, axes in zip(a, b, panels, strict=True):
        cosines = a_layer @ b_layer.T
        np.testing.assert_allclose(axes.images[0].get_array(), cosines, atol=1e-6)
    lowest = min(0.0, *(axes.images[0].get_array().min() for axes in panels))
    assert {axes.images[0].get_clim() for axes in panels} == {(lowest, 1.0)}


def test_tokens_that_are_not_stored_have_numbers(
    tmp_path: Path, tiny: Path, figures: list[Figure]
) -> None:
    """One sentence has as many tokens as a plot can have."""
    (tmp_path / "a.txt").write_text(f"a b c\n{'a ' * 80}\n")
    made("embed", tmp_path / "a.txt", "-o", tmp_path / "a.hdf5", "--layout", "bilm", "-m", tiny)
    made("plot", "similarity", tmp_path / "a.hdf5", 1, 0, "-o", tmp_path / "a.svg")
    axes = figures[0].axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(n) for n in range(80)]
    assert axes.images[0].get_array().shape == (80, 3)


@pytest.mark.parametrize(
    ("n_layers", "n_rows", "n_columns"),
    [(1, 1, 1), (3, 14, 14), (3, 60, 60), (5, 80, 80), (5, 80, 2)],
)
def test_figures_of_any_length_fit_a_screen(n_layers: int, n_rows: int, n_columns: int) -> None:
    similarity = Similarity(
        layers=[f"layer {layer}" for layer in range(n_layers)],
        rows=[f"t{n}" for n in range(n_rows)],
        columns=[f"t{n}" for n in range(n_columns)],
        cosines=np.ones((n_layers, n_rows, n_columns)),
    )
    figure = draw_similarity(similarity)
    figure.draw_without_rendering()  # lays it out as for a file
    width, height = figure.get_size_inches()
    assert 4 <= width <= 16
    assert 2.4 <= height <= 9
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == similarity.layers
    lowest = {axes.get_position().x0: axes for axes in panels}  # of each column of panels
    for axes in lowest.values():
        assert len(axes.get_xticklabels()) == n_columns
    for axes in panels:
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        for box, other in pairwise(boxes):
            assert box.y0 > other.y0  # rows are listed from above
            assert box.height < 1.7 * (box.y0 - other.y0)
