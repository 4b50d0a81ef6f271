"""`elmo plot senses` and `elmo neighbors -o`: tokens in the plane."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from command_line import made
from matplotlib.figure import Figure

from elmo_cli.analysis.labelled_vectors import LabelSettings
from elmo_cli.analysis.query import Occurrence
from elmo_cli.plot import token_plot
from elmo_cli.plot.token_plot import PlottedTokens, draw_tokens, read_word
from elmo_cli.store.reader import open_embeddings

PLAYS = ["0:1", "1:1", "2:1", "3:0", "3:5", "5:2"]


def of_page(page: Path) -> dict[str, dict]:
    """The columns of each group of a page, by its name with its size."""
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S
    )
    content = unescape(found[1])
    columns = re.findall(r'"name":"ColumnDataSource".*?"entries":(\[\[.*?\]\])\}', content)
    labels = re.findall(r'"name":"LegendItem".*?"label":\{.*?"value":"(.*?)"', content)
    return dict(zip(labels, (dict(json.loads(one)) for one in columns), strict=True))


@pytest.mark.parametrize(
    ("options", "layer", "groups"),
    [
        (["--clusters", 1], 2, {"cluster 1": 6}),
        (["--clusters", 2, "--layer", 1], 1, None),
        (["--labels", "text.tags"], 2, {"NN": 3, "VB": 2, "NNP": 1}),
    ],
)
@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_all_occurrences_are_drawn(
    suffix: str, options, layer: int, groups, corpus: Path, figures: list[Figure]
) -> None:
    """On two principal components of vectors of length 1, by their covariance."""
    made("plot", "senses", corpus, "--word", "PLAY", "-f", "-o", f"plays.{suffix}", *options)
    keys = [tuple(map(int, one.split(":"))) for one in PLAYS]
    with open_embeddings(corpus) as embeddings:
        vectors = np.array([embeddings[key][layer, n] for key, n in keys], float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    _, directions = np.linalg.eigh(np.cov(unit.T))
    expected = (unit - unit.mean(0)) @ directions[:, [-1, -2]]
    if suffix == "html":
        page = of_page(Path("plays.html"))
        labels = list(page)
        drawn = {
            place: (data["x"][n], data["y"][n])
            for data in page.values()
            for n, place in enumerate(data["position"])
        }
        points = np.array([drawn[place] for place in PLAYS])
        assert np.allclose(points, expected * np.sign((points * expected).sum(0)), atol=1e-5)
        lines = {
            place: " ".join(filter(None, words))
            for data in page.values()
            for place, *words in zip(
                *map(data.get, ("position", "before", "token", "after")), strict=True
            )
        }
        text = Path("text.txt").read_text().splitlines()
        assert [lines[place] for place in PLAYS] == [text[key] for key, _ in keys]
    else:
        collections = figures[-1].axes[0].collections
        labels = [str(one.get_label()) for one in collections]
        points = np.concatenate([one.get_offsets() for one in collections])
        assert np.allclose(*(np.sort(np.hypot(*one.T)) for one in (points, expected)), atol=1e-5)
    if groups:
        assert labels == [f"{name} ({n})" for name, n in groups.items()]


def test_many_occurrences_are_thinned_out(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_plot, "MAX_TOKENS", 4)
    tokens = token_plot.read_word(corpus, "play", None)
    assert list(map(str, tokens.tokens)) == [PLAYS[n] for n in (0, 1, 3, 4)]
    assert tokens.title.endswith("(n = 4 of 6)")


def test_rare_groups_share_one(tmp_path: Path, figures: list[Figure]) -> None:
    names = list("abcdefg" + "bbfccaa")
    tokens = [Occurrence(0, n, ("x",) * 14) for n in range(14)]
    draw_tokens(PlottedTokens("t", tokens, np.eye(14, dtype=np.float32), names), tmp_path / "a.svg")
    labels = [str(one.get_label()) for one in figures[0].axes[0].collections]
    assert labels == ["a (3)", "b (3)", "c (3)", "f (2)", "d (1)", "other (2)"]


def test_labels_of_a_file_that_is_keyed_by_sentences(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens are found by sentence number, its labels by sentence."""
    monkeypatch.chdir(tmp_path)
    Path("a.conll").write_text("play NN\nbegan VBD\n\nthey PRP\nplay VB\n")
    made("embed", "a.conll", "-o", "a.hdf5", "-m", tiny, "--use-sentence-keys", "-q")
    assert read_word("a.hdf5", "play", None, ("a.conll", LabelSettings())).groups == ["NN", "VB"]


@pytest.mark.parametrize("n", [1, 5, 60])
def test_texts_cover_neither_texts_nor_points(
    n: int, tmp_path: Path, figures: list[Figure]
) -> None:
    words = [("one", "$2", "three", "bank", f"w{k}", "v") for k in range(n)]
    tokens = [Occurrence(k, 3, sentence) for k, sentence in enumerate(words)]
    vectors = np.random.default_rng(3).normal(size=(n, 5)).astype(np.float32)
    draw_tokens(PlottedTokens("t", tokens, vectors), tmp_path / "a.png")
    figures[0].canvas.draw()
    (axes,) = figures[0].axes
    boxes = [text.get_window_extent() for text in axes.texts]
    texts = {rf"one \$2 three [bank] w{k} v" for k in range(n)}
    assert {text.get_text() for text in axes.texts} <= texts
    assert len(boxes) >= min(n, 4)
    points = np.concatenate([one.get_offsets() for one in axes.collections])
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert not any(box.contains(*pixel) for pixel in axes.transData.transform(points))
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
    note = f"context is shown for {len(boxes)} of {n} points"
    assert (note in axes.get_xlabel()) == (len(boxes) < n)


@pytest.mark.parametrize(
    ("words", "n_queries", "are_of_file"),
    [
        (["play", "-k", 2], 5, True),
        (["0:play", "3:0", "-k", 3], 2, True),
        (["--text", "they [play] ball", "-m", "tiny"], 1, False),
        (["0:1", "--query-file", "text.hdf5"], 1, False),
    ],
)
def test_neighbors_are_drawn(
    words: list[object], n_queries: int, are_of_file: bool, corpus: Path, tiny: Path
) -> None:
    words = [tiny if word == "tiny" else word for word in words]
    done = made("neighbors", corpus, *words, "-o", "near.html", "-f", "--json")
    page = of_page(Path("near.html"))
    queries = {"{key}:{position}".format(**one): one for one in json.loads(done.out)["queries"]}
    assert page.pop(f"query ({n_queries})")["position"] == list(queries)
    cosines: dict[str, list[tuple[float, str]]] = {}
    for name, query in queries.items():
        for near in query["neighbors"]:
            position = "{key}:{position}".format(**near)
            if not (are_of_file and position in queries):
                cosines.setdefault(position, []).append((-near["cosine"], name))
    shown = {one: label.split()[1] for label, data in page.items() for one in data["position"]}
    assert shown == {place: min(found)[1] for place, found in cosines.items()}
