"""`elmo plot senses` and `elmo neighbors -o`: tokens in the plane."""

from __future__ import annotations

import json
import re
from collections import Counter
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from command_line import elmo, made
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from elmo_cli.analysis.labelled_vectors import LabelFile, LabelSettings
from elmo_cli.analysis.query import Occurrence
from elmo_cli.plot import point_texts, token_plot
from elmo_cli.plot.figure import GRAY
from elmo_cli.plot.token_groups import plot_groups
from elmo_cli.plot.token_plot import PlottedTokens, read_word, write_tokens
from elmo_cli.store.reader import open_embeddings

PLAYS = ["0:1", "1:1", "2:1", "3:0", "3:5", "5:2"]


def groups_of_page(page: Path) -> dict[str, dict[str, list]]:
    """The columns of each group of a page, by its name with its size."""
    script = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.S
    )
    content = unescape(script[1])
    columns = re.findall(r'"name":"ColumnDataSource".*?"entries":(\[\[.*?\]\])\}', content)
    labels = re.findall(r'"name":"LegendItem".*?"label":\{.*?"value":"(.*?)"', content)
    groups = [dict(json.loads(entries)) for entries in columns]
    return dict(zip(labels, groups, strict=True))


def points_of_page(page: Path) -> list[dict]:
    """Position, before, token, after, x and y of each point of a page."""
    points = []
    for columns in groups_of_page(page).values():
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            points.append(dict(zip(names, values, strict=True)))
    return points


def expected_points(corpus: Path, layer: int) -> np.ndarray:
    """The first two principal components of `PLAYS`, of vectors of length 1, by covariance."""
    vectors = []
    with open_embeddings(corpus) as embeddings:
        for position in PLAYS:
            key, number = position.split(":")
            vectors.append(embeddings[int(key)][layer, int(number)].astype(float))
    unit = np.array(vectors)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    _, directions = np.linalg.eigh(np.cov(unit.T))  # ascending
    return (unit - unit.mean(0)) @ directions[:, [-1, -2]]


CASES = [
    (["--clusters", 1], 2, ["cluster 1 (6)"]),
    (["--clusters", 2, "--layer", 1], 1, None),
    (["--labels", "text.tags"], 2, ["NN (3)", "VB (2)", "NNP (1)"]),
    (["--labels", "senses.txt"], 2, ["drama (5)", "sport (1)"]),
]


@pytest.mark.parametrize(("options", "layer", "labels"), CASES)
def test_all_occurrences_are_on_a_page(options: list, layer: int, labels, corpus: Path) -> None:
    made("plot", "senses", corpus, "--word", "PLAY", "-f", "-o", "plays.html", *options)
    if labels:
        assert list(groups_of_page(Path("plays.html"))) == labels
    points = {point["position"]: point for point in points_of_page(Path("plays.html"))}
    assert sorted(points) == PLAYS
    drawn = np.array([(points[position]["x"], points[position]["y"]) for position in PLAYS])
    expected = expected_points(corpus, layer)
    signs = np.sign((drawn * expected).sum(0))
    np.testing.assert_allclose(drawn, expected * signs, atol=1e-5)
    lines = Path("text.txt").read_text().splitlines()
    for position in PLAYS:
        words = [points[position][name] for name in ("before", "token", "after")]
        key = int(position.split(":")[0])
        assert " ".join(filter(None, words)) == lines[key]


@pytest.mark.parametrize(("options", "layer", "labels"), CASES)
def test_all_occurrences_are_in_a_figure(
    options: list, layer: int, labels, corpus: Path, figures: list[Figure]
) -> None:
    done = made("plot", "senses", corpus, "--word", "PLAY", "-f", "-o", "plays.svg", *options)
    title = f"“PLAY” in text.hdf5, layer {layer} (n = 6)"
    assert done.err.splitlines()[0] == f"plays.svg: {title}"
    axes = figures[-1].axes[0]
    assert axes.get_title() == title
    names = (axes.get_xlabel(), axes.get_ylabel())
    percents = [
        int(re.match(rf"principal component {n} \((\d+)% of the variance\)", name)[1])
        for n, name in enumerate(names, 1)
    ]
    assert 100 >= sum(percents) >= percents[0] >= percents[1] > 0
    collections = axes.collections
    if labels:
        assert [str(collection.get_label()) for collection in collections] == labels
    points = np.concatenate([collection.get_offsets() for collection in collections])
    distances = np.sort(np.linalg.norm(points, axis=1))  # from the mean, in any order
    expected = np.sort(np.linalg.norm(expected_points(corpus, layer), axis=1))
    np.testing.assert_allclose(distances, expected, atol=1e-5)


def test_many_occurrences_are_thinned_out(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_plot, "MAX_TOKENS", 4)
    tokens = token_plot.read_word(corpus, "play", None)
    assert list(map(str, tokens.tokens)) == [PLAYS[n] for n in (0, 1, 3, 4)]
    assert tokens.title.endswith("(n = 4 of 6)")


def test_rare_groups_share_one(tmp_path: Path, figures: list[Figure]) -> None:
    names = list("abcdefg" + "bbfccaa")
    tokens = [Occurrence(0, n, ("x",) * 14) for n in range(14)]
    write_tokens(
        PlottedTokens("t", tokens, np.eye(14, dtype=np.float32), names), tmp_path / "a.svg"
    )
    labels = [str(collection.get_label()) for collection in figures[0].axes[0].collections]
    assert labels == ["a (3)", "b (3)", "c (3)", "f (2)", "d (1)", "other (2)"]


@pytest.mark.parametrize(("n_groups", "n_rows_of_last"), [(24, 1), (25, 2)])
def test_each_of_many_queries_has_a_style_of_its_own(n_groups: int, n_rows_of_last: int) -> None:
    groups = plot_groups([f"near {number}" for number in range(n_groups)], n_groups)
    assert len({group.style for group in groups}) == len(groups) == 24
    assert len(groups[-1].rows) == n_rows_of_last
    assert (groups[-1].name == "other") == (n_groups == 25)


def test_cluster_numbers_increase_in_the_legend(tmp_path: Path, figures: list[Figure]) -> None:
    vectors = np.repeat(np.eye(6, dtype=np.float32)[[4, 2, 5, 0, 3, 1]], [2, 2, 1, 2, 3, 1], axis=0)
    tokens = [Occurrence(0, n, ("x",) * 11) for n in range(11)]
    write_tokens(PlottedTokens("t", tokens, vectors), tmp_path / "a.svg", 6)
    (legend,) = figures[0].legends
    sizes = [3, 2, 2, 2, 1, 1]
    expected = [f"cluster {number} ({size})" for number, size in enumerate(sizes, 1)]
    assert [text.get_text() for text in legend.get_texts()] == expected


def test_a_group_may_be_called_other() -> None:
    first, second = plot_groups(["a", "other", "other"], 0)
    assert (first.name, first.rows, second.rows) == ("other", [1, 2], [0])
    assert first.style.color != GRAY


@pytest.mark.parametrize(
    ("position", "tokens", "text"),
    [
        (3, ["t" * 10] * 7, "… tttttttttt [tttttttttt] tttttttttt …"),  # three of a side do not fit
        (3, ["t" * 30] * 7, "… [tttttttttttttttttttttttttttttt] …"),
        (12, None, "0:12"),
    ],
)
def test_the_text_of_a_point_has_as_much_context_as_fits(
    position: int, tokens: list[str] | None, text: str
) -> None:
    occurrence = Occurrence(0, position, None if tokens is None else tuple(tokens))
    assert token_plot._text(occurrence) == text


def test_labels_of_a_file_that_is_keyed_by_sentences(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tokens are found by sentence number, its labels by sentence."""
    monkeypatch.chdir(tmp_path)
    Path("a.conll").write_text("play NN\nbegan VBD\n\nthey PRP\nplay VB\n")
    made("embed", "a.conll", "-o", "a.hdf5", "-m", tiny, "--use-sentence-keys", "-q")
    labels = LabelFile("a.conll", LabelSettings())
    assert read_word("a.hdf5", "play", None, labels).groups == ["NN", "VB"]


def test_other_spellings_are_named(tmp_path: Path, tiny: Path) -> None:
    """A capitalized word has other characters, and often a point of its own."""
    text = tmp_path / "a.txt"
    text.write_text("we play here\nPlay it again\nthey play it\nPLAY or play\n")
    made("embed", text, "-o", tmp_path / "a.hdf5", "-m", tiny, "-q")
    done = made("plot", "senses", tmp_path / "a.hdf5", "--word", "play", "-o", tmp_path / "a.html")
    assert "2 of 5 are spelled Play, PLAY; another spelling alone can set a point apart" in done.err
    assert read_word(tmp_path / "a.hdf5", "it", None).note == ""


def distance(box: Bbox, pixel: np.ndarray) -> float:
    """How far a point is from a box, 0 inside it."""
    nearest = np.clip(pixel, (box.x0 - 4, box.y0), (box.x1 + 4, box.y1))  # as padded there
    return float(np.hypot(*(pixel - nearest)))


@pytest.mark.parametrize("n", [1, 5, 60])
def test_texts_cover_neither_texts_nor_points(
    n: int, tmp_path: Path, figures: list[Figure]
) -> None:
    words = [("one", "$2", "three", "bank", f"w{k}", "v") for k in range(n)]
    tokens = [Occurrence(k, 3, sentence) for k, sentence in enumerate(words)]
    vectors = np.random.default_rng(3).normal(size=(n, 5)).astype(np.float32)
    write_tokens(PlottedTokens("t", tokens, vectors), tmp_path / "a.png")
    figures[0].canvas.draw()
    (axes,) = figures[0].axes
    boxes = [text.get_window_extent() for text in axes.texts]
    texts = {rf"one \$2 three [bank] w{k} v" for k in range(n)}
    assert {text.get_text() for text in axes.texts} <= texts
    assert len(boxes) >= min(n, 4)
    points = np.concatenate([collection.get_offsets() for collection in axes.collections])
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert not any(box.contains(*pixel) for pixel in axes.transData.transform(points))
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        own = axes.transData.transform(axes.texts[number].xy)
        assert distance(box, own) <= min(distance(box, p) for p in axes.transData.transform(points))
    note = f"context is shown for {len(boxes)} of {n} points"
    assert (note in axes.get_xlabel()) == (len(boxes) < n)


@pytest.mark.parametrize(("above", "y"), [([], 11), ([(0.5, 0.54)], -11)])
def test_a_point_between_others_has_its_text_above_or_below(above: list, y: int) -> None:
    axes = Figure().subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    points = np.array([(0.48, 0.5), (0.5, 0.5), (0.52, 0.5), *above])
    texts = [f"a [bank] {number}" for number in range(len(points))]
    assert point_texts.write_texts(axes, points, texts, 0) == len(points)
    (centered,) = [text for text in axes.texts if text.get_ha() == "center"]
    assert centered.get_text() == "a [bank] 1"
    assert centered.get_position() == (0, y)


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
    groups = groups_of_page(Path("near.html"))
    queries = {position_of(query): query for query in json.loads(done.out)["queries"]}
    assert len(queries) == n_queries
    assert len(groups) == n_queries  # one entry of the legend for each
    for label, columns in groups.items():
        stars = [n for n, marker in enumerate(columns["marker"]) if marker == "star"]
        assert [columns["position"][n] for n in stars] == [label.split()[1]]  # "near 0:1 …"
        assert label.endswith(f" ({len(columns['position']) - 1})")
        for column in columns.values():
            del column[stars[0]]
    nearest_queries: dict[str, tuple[float, str]] = {}
    for query_position, query in queries.items():
        for neighbor in query["neighbors"]:
            position = position_of(neighbor)
            if are_of_file and position in queries:
                continue
            rank = (-neighbor["cosine"], query_position)
            nearest_queries[position] = min(rank, nearest_queries.get(position, rank))
    expected = {position: query for position, (_, query) in nearest_queries.items()}
    shown = {}
    for label, columns in groups.items():
        for position in columns["position"]:
            shown[position] = label.split()[1]  # "near 0:1 …"
    assert shown == expected


def test_each_query_has_one_entry_and_one_text(corpus: Path, figures: list[Figure]) -> None:
    """Also if it is given twice, or in two ways, and where neighbors take all the room."""
    words = ["0:1", "0:play", "0:1", "3:0", "1:1", "2:1", "3:5", "5:2", "1:0", "2:0"]
    made("neighbors", corpus, *words, "-k", 8, "-o", "near.svg", "-f")
    (legend,) = figures[-1].legends
    labels = [text.get_text().split()[1] for text in legend.get_texts()]
    assert sorted(labels) == sorted(["0:1", "3:0", "1:1", "2:1", "3:5", "5:2", "1:0", "2:0"])
    axes = figures[-1].axes[0]
    texts = [text.get_text() for text in axes.texts]
    lines = Path("text.txt").read_text().splitlines()
    for key, position in (label.split(":") for label in labels):
        word = lines[int(key)].split()[int(position)]
        assert any(f"[{word}]" in text for text in texts)
    assert len(texts) >= len(labels)


def test_a_single_occurrence_is_refused(corpus: Path) -> None:
    counts = Counter(Path("text.txt").read_text().lower().split())
    word = next(word for word, n in counts.items() if n == 1 and word.isalpha())
    done = elmo("plot", "senses", corpus, "--word", word, "-o", "a.svg")
    assert done.code == 2
    assert f"'{word}' occurs once" in done.err
    assert "elmo neighbors" in done.err


def test_clusters_are_not_called_senses(corpus: Path, figures: list[Figure]) -> None:
    done = made("plot", "senses", corpus, "--word", "play", "-o", "p.svg", "-f")
    (legend,) = figures[-1].legends
    assert "need not be senses" in legend.get_title().get_text()
    assert "need not be senses; --labels colors by groups of your own\n" in done.err
    made("plot", "senses", corpus, "--word", "play", "-o", "p.html", "-f")
    assert "need not be senses" in Path("p.html").read_text()
    done = made("plot", "senses", corpus, "--word", "play", "--labels", "text.tags", "-o", "l.svg")
    assert "senses" not in done.err


def position_of(occurrence: dict) -> str:
    """KEY:N of an occurrence in JSON."""
    return f"{occurrence['key']}:{occurrence['position']}"
