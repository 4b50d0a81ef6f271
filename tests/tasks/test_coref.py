"""Task `coref`: its files, its model, its predictions, and MUC, B-cubed and CEAF."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import COREF_DOCUMENT, COREF_DOCUMENTS, COREF_SENTENCES, COREF_SIZES, LATER_CLUSTERS
from scorch import scores as scorch
from tiny_models import assert_refused, build, read, read_text
from torch.nn import functional

from elmo_cli.errors import InputError, UsageError
from elmo_cli.tasks import coref_model
from elmo_cli.tasks.coref import CorefTask, score_clusters
from elmo_cli.tasks.coref_model import Clusters, CorefSettings, SpanRanker, SpanVectors, join_links
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import load_task

TASK = CorefTask()
CLUSTERS = {((0, 0), (2, 2), (7, 7)), ((2, 3), (5, 5)), ((9, 9),)}
CELLS = "(0) - (0)|(1 1) - | (1) - (0) - | (2) - -"


def rows(cells: str, columns: str = "nw/a\t0\t{i}\t{token}\tX\t{cell}") -> str:
    """The sentences with a last column, separated by blank lines."""
    sentences = []
    for text, cells_of_sentence in zip(COREF_SENTENCES, cells.split(" | "), strict=True):
        pairs = zip(text.split(), cells_of_sentence.split(" "), strict=True)
        lines = []
        for i, (token, cell) in enumerate(pairs):
            lines.append(columns.format(i=i, token=token, cell=cell) + "\n")
        sentences.append("".join(lines))
    return "\n".join(sentences)


CONLL = f"#begin document (nw/a); part 000\n{rows(CELLS)}\n#end document\n"


def changed(**fields: object) -> str:
    """A line of JSON with other fields."""
    return json.dumps(COREF_DOCUMENT | fields)


def as_set(clusters: Clusters | None) -> set:
    return {tuple(sorted(cluster)) for cluster in clusters or ()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conll", CONLL),
        ("a.conll", rows(CELLS, "nw/a 0 {i} {token} {cell}")),
        ("a.txt", rows(CELLS, "{token}\t{cell}")),
        ("a.txt", rows(CELLS, "{i}\tX\t{token}\t{cell}")),
        ("a.conll", rows(CELLS.replace(" -", " "), "a\t0\t{i}\t{token}\t_\t{cell}")),
        ("a.conll", rows(CELLS.replace(" -", " _"))),
        ("a.conll", rows(CELLS.replace(" -", " *"))),
        ("a.conll", rows(CELLS.replace("(0)|(1", "(1|(0)"))),
        ("a.conll", rows(CELLS.replace("(0", "(ada").replace("1)", "dog)").replace("(1", "(dog"))),
        ("a.jsonl", json.dumps(COREF_DOCUMENT)),
        # A mention in two clusters joins them, as in e2e-coref.
        ("a.json", changed(clusters=[[[0, 0], [2, 2]], *LATER_CLUSTERS, [[7, 7], [0, 0]]])),
    ],
)
def test_clusters_are_read(name: str, text: str) -> None:
    split = read("coref", name, text)
    assert [" ".join(tokens) for tokens in split.sentences] == COREF_SENTENCES
    (document,) = split.examples
    assert document.sentences == (0, 1, 2)
    assert as_set(document.target) == CLUSTERS
    (unlabelled,) = read("coref", name, text, labelled=False).examples
    assert unlabelled.target is None


def test_entities_of_two_documents_are_apart() -> None:
    split = read("coref", "a.conll", CONLL + CONLL.replace("part 000", "part 001"))
    assert [document.sentences for document in split.examples] == [(0, 1, 2), (3, 4, 5)]
    assert [as_set(document.target) for document in split.examples] == [CLUSTERS, CLUSTERS]
    lines = TASK.format_lines(split, [[], []], "jsonl")
    headings = [json.loads(line)["doc_key"] for line in lines]
    assert headings == ["(nw/a); part 000", "(nw/a); part 001"]
    assert [document.key for document in split.examples] == [0, 3]  # of their first sentences


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.conll", rows(CELLS.replace("|(1 1)", " 1)")), "line 4: '1)' neither begins nor ends"),
        ("a.conll", rows(CELLS.replace("(1)", "(1")), "line 7: a mention of entity 1 does not end"),
        ("a.conll", rows(CELLS.replace("(2)", "2")), "line 12: '2' neither begins nor ends"),
        ("a.conll", "Ada\n", "line 1: expected a token and its mentions"),
        ("a.conll", "a\t-\n\na\t0\t0\t \t-\n", "line 3: a token is empty"),
        ("a.jsonl", changed(sentences=[[]]), "line 1: a sentence has no tokens"),
        ("a.jsonl", changed(sentences=[]), "line 1: a sentence has no tokens"),
        ("a.conll", "Ada\tNNP\tX\tB-PER\t(0)\n", "line 1: column 3 is 'X', not the number of the"),
        ("a.jsonl", changed(clusters=3), "line 1: no valid clusters: 3 is not a list"),
        ("a.jsonl", changed(clusters=[3]), "line 1: the cluster 3 is not a list of mentions"),
        ("a.jsonl", changed(clusters=[[3]]), "line 1: the mention 3 is not the first and the last"),
        (
            "a.jsonl",
            changed(clusters=[[[0, 1, 2]]]),
            "line 1: the mention [0, 1, 2] is not the fir",
        ),
        ("a.jsonl", changed(clusters=[[[3, 2]]]), "line 1: the mention [3, 2] is not"),
        ("a.jsonl", changed(clusters=[[[0, 12]]]), "line 1: the mention [0, 12] is not"),
        ("a.jsonl", changed(clusters=[[[0.5, 1]]]), "line 1: the mention [0.5, 1] is not"),
    ],
)
def test_bad_files_are_refused(name: str, text: str, where: str) -> None:
    assert_refused("coref", name, text, re.escape(f"{name}, {where}"))


def test_document_starts_of_conll_2003_separate_documents() -> None:
    """If they were rows, a mention could reach across them."""
    starts = "-DOCSTART-\t-\n\n"
    split = read("coref", "a.conll", f"{starts}Ada\t(0)\n\n{starts}She\t(0)\n")
    assert split.sentences == [("Ada",), ("She",)]
    assert [document.sentences for document in split.examples] == [(0,), (1,)]
    assert [document.heading for document in split.examples] == ["a.conll", "a.conll"]
    named = "#begin document (x)\nAda\t(0)\n#end document\n-DOCSTART-\t-\n\nShe\t(0)\n"
    split = read("coref", "a.conll", named)
    assert [document.heading for document in split.examples] == ["(x)", "a.conll"]


def test_blank_sentences_of_new_documents_are_left_out() -> None:
    text = json.dumps({"sentences": [["Ada"], [], ["It"]]})
    [document] = read("coref", "a.jsonl", text, labelled=False).examples
    assert document.sentences == (0, 1)


def test_clusters_are_needed_to_train() -> None:
    split = read("coref", "a.conll", rows("- - - - - | - - - - | - - -"))
    with pytest.raises(InputError, match="no cluster"):
        TASK.collect_labels(split)


def test_scipy_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "elmo_cli.tasks.coref")
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(UsageError, match="scipy") as refused:
        load_task("coref")
    assert "[tasks]" in refused.value.hint


def test_blank_lines_separate_documents_of_text() -> None:
    Path("a.txt").write_text("Ada saw her dog .\nIt saw Ada .\n\n\nRain fell .\n")
    split = read_text(TASK, "a.txt")
    assert [" ".join(tokens) for tokens in split.sentences] == COREF_SENTENCES
    assert [document.sentences for document in split.examples] == [(0, 1), (2,)]
    assert [document.heading for document in split.examples] == ["document_1", "document_2"]


def test_documents_of_json_lines_keep_their_names() -> None:
    lines = [{"doc_key": name, "sentences": [["Ada"], ["It"]]} for name in ("nw/a", "nw/b")]
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    documents = read_text(TASK, "a.jsonl").examples
    assert [document.heading for document in documents] == ["nw/a", "nw/b"]
    assert [document.sentence_keys for document in documents] == [(0, 1), (2, 3)]


def test_mentions_of_an_entity_may_touch() -> None:
    split = read("coref", "a.conll", CONLL)
    predicted = [[frozenset({(0, 2), (2, 3), (4, 4), (4, 6)})]]
    again = read("coref", "b.conll", "".join(TASK.format_lines(split, predicted, "conll")))
    assert as_set(again.examples[0].target) == as_set(predicted[0])


def test_predictions_are_read_back() -> None:
    split = read("coref", "a.conll", CONLL)
    clusters_of_documents = [
        [frozenset({(0, 3), (2, 2)}), frozenset({(2, 3), (5, 8), (5, 5), (5, 7)})]
    ]
    conll = "".join(TASK.format_lines(split, clusters_of_documents, "conll"))
    cells = [line.split("\t")[-1] for line in conll.split("\n") if "\t" in line]
    assert " ".join(cells) == "(0 - (1|(0) 1)|0) - (1|(1|(1) - 1) 1) - - -"
    again = read("coref", "b.conll", conll)
    assert again.sentences == split.sentences
    assert again.examples[0].heading == "(nw/a); part 000"
    assert as_set(again.examples[0].target) == as_set(clusters_of_documents[0])
    (line,) = TASK.format_lines(split, clusters_of_documents, "jsonl")
    predicted = [[[0, 3], [2, 2]], [[2, 3], [5, 5], [5, 7], [5, 8]]]
    fields = json.loads(line)
    fields["clusters"].sort()
    assert fields == COREF_DOCUMENT | {
        "key": 0,
        "doc_key": "(nw/a); part 000",
        "predicted_clusters": predicted,
    }


@pytest.mark.parametrize(
    ("links", "is_mention", "clusters"),
    [
        ([0, 1, 2, 3], [0, 0, 0, 0], set()),
        ([0, 1, 2, 3], [0, 1, 0, 1], {(1,), (3,)}),
        ([0, 0, 2, 2], [1, 1, 1, 1], {(0, 1), (2, 3)}),
        ([0, 0, 1, 3], [0, 0, 0, 1], {(0, 1, 2), (3,)}),
        ([0, 1, 0, 0], [0, 0, 0, 0], {(0, 2, 3)}),
    ],
)
def test_links_make_clusters(links: list, is_mention: list[int], clusters: set) -> None:
    joined = join_links([(i, i) for i in range(4)], links, list(map(bool, is_mention)))
    assert as_set(joined) == {tuple((i, i) for i in cluster) for cluster in clusters}


@pytest.fixture
def split() -> Split:
    return read("coref", "a.jsonl", COREF_DOCUMENTS)


def test_batches_change_no_score(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = build(TASK, split, **COREF_SIZES)
    assert isinstance(model, SpanRanker)
    model.eval()
    numbers = split.examples[0].sentences
    expected = model.candidates(numbers, inputs)
    monkeypatch.setattr(coref_model, "_MAX_PADDED_TOKENS", 5)
    monkeypatch.setattr(coref_model, "_CHUNK_SPANS", 2)
    torch.testing.assert_close(model.candidates(numbers, inputs), expected)


def test_spans_and_their_vectors() -> None:
    layer = SpanVectors(5, 6, CorefSettings(span_dim=4, max_width=3))
    x = torch.randn(12, 5)
    states = torch.randn(12, 6)
    vectors, spans = layer(x, states, torch.tensor([4] * 5 + [8] * 4 + [11] * 3))
    ends = [5] * 5 + [9] * 4 + [12] * 3
    assert spans == [(i, j) for i, end in enumerate(ends) for j in range(i, min(i + 3, end))]
    for vector, (i, j) in zip(vectors, spans, strict=True):
        weights = torch.softmax(layer.attention(states[i : j + 1]), 0)
        attended = (weights * layer.attended(x[i : j + 1])).sum(0)
        width = layer.widths(torch.tensor(j - i))
        expected = layer.first(states[i]) + layer.last(states[j]) + attended + width
        torch.testing.assert_close(vector, torch.relu(expected))


def test_antecedents_precede_their_spans(split: Split) -> None:
    model, inputs = build(TASK, split, **COREF_SIZES, max_antecedents=2)
    assert isinstance(model, SpanRanker)
    candidates = model.candidates(split.examples[0].sentences, inputs)
    kept = candidates.kept.tolist()
    assert kept == sorted(set(kept))
    assert len(kept) == 13  # one per token, and one more
    scores = candidates.mention_scores.tolist()
    rest = [score for number, score in enumerate(scores) if number not in kept]
    assert min(scores[number] for number in kept) >= max(rest)
    rows = torch.arange(len(candidates.kept))[:, None]
    is_before = candidates.antecedents < rows
    assert (candidates.antecedents[:, :1] == rows).all()
    assert (candidates.antecedent_scores[:, 1:][~is_before[:, 1:]] == -1e4).all()
    assert is_before.sum() == rows.clamp(max=2).sum()


def test_pairs_are_scored_by_both_spans_and_their_distance(split: Split) -> None:
    model, _ = build(TASK, split, **COREF_SIZES, max_antecedents=80)
    assert isinstance(model.eval(), SpanRanker)
    vectors = torch.randn(70, 12)
    mention_scores = torch.randn(70)
    own = vectors[69]
    with torch.no_grad():
        antecedents, scores = model._rank(vectors, mention_scores)
        for distance in (1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 69):
            number = 69 - distance
            other = vectors[number]
            bucket = sum(distance >= bound for bound in (1, 2, 3, 4, 5, 8, 16, 32, 64))
            hidden = model.product(own * other) + model.antecedent(other) + model.anaphor(own)
            hidden = hidden + model.distances(torch.tensor(bucket))
            expected = model.pair(hidden[None, None])[0, 0] + model.coarse(own) @ other
            expected = expected + mention_scores[69] + mention_scores[number]
            [column] = (antecedents[69] == number).nonzero()[0]
            torch.testing.assert_close(scores[69, column], expected, rtol=1e-4, atol=1e-4)


def test_the_loss_is_that_of_links_and_mentions(split: Split) -> None:
    sizes = COREF_SIZES | {"spans_per_token": 3.0}  # all spans
    model, inputs = build(TASK, split, **sizes, window_tokens=5)
    assert isinstance(model.eval(), SpanRanker)
    document = split.examples[0]
    expected = set()
    for numbers, start in (((0,), 0), ((1, 2), 5)):  # the windows of five tokens or more
        candidates = model.candidates(numbers, inputs)
        spans = [(first + start, last + start) for first, last in candidates.spans]
        owner = {span: cluster for cluster in document.target for span in cluster}
        entity = [owner.get(span) for span in spans]
        loss = torch.zeros(())
        for cluster, score in zip(entity, candidates.mention_scores, strict=True):
            loss = loss + functional.softplus(score if cluster is None else -score)
        kept = [entity[i] for i in candidates.kept.tolist()]
        for i, scores in enumerate(candidates.antecedent_scores):
            ranked = list(zip(candidates.antecedents[i].tolist(), scores, strict=True))
            true = [score for j, score in ranked if j < i and kept[j] == kept[i] is not None]
            loss = loss + scores.logsumexp(0) - torch.stack(true or [scores[0]]).logsumexp(0)
        expected.add(round(loss.item() / len(kept), 4))
    assert {round(model.loss([document], inputs).item(), 4) for _ in range(20)} == expected


@pytest.mark.parametrize("is_in_train", [True, False])
def test_single_mentions_follow_the_training_data(split: Split, is_in_train: bool) -> None:
    train = split if is_in_train else Split(split.path, split.sentences, split.examples[1:])
    model, inputs = build(TASK, train, **COREF_SIZES)
    assert isinstance(model, SpanRanker)
    with torch.no_grad():
        model.mention[-2].bias += 10
        model.pair[-2].bias -= 100
        model.eval()
        predicted = model.predict(split.examples[:1], inputs)[0]
    assert {len(cluster) for cluster in predicted} == ({1} if is_in_train else set())


def clusters(text: str) -> list[frozenset]:
    """Clusters of mentions of one token, such as "1 2, 3"."""
    return [
        frozenset((int(i), int(i)) for i in numbers.split())
        for numbers in text.split(",")
        if numbers
    ]


SPLIT = "1 2 3, 4 5", "1 2, 3 4 5"
WRONG = "1 2, 3", "1 4, 3"


@pytest.mark.parametrize(
    ("documents", "metric", "precision", "recall"),
    [
        ([WRONG], "mentions", 2 / 3, 2 / 3),
        ([("1, 2", "1, 2")], "muc", 0, 0),
        ([("1 2", "")], "ceaf_phi4", 0, 0),
        # Counts of documents are added up, not their scores.
        ([SPLIT, WRONG], "muc", 2 / 4, 2 / 4),
        ([SPLIT, WRONG], "ceaf_phi4", 3.1 / 4, 3.1 / 4),
    ],
)
def test_scores_worked_out_by_hand(
    documents: list[tuple[str, str]], metric: str, precision: float, recall: float
) -> None:
    pairs = [(clusters(true), clusters(predicted)) for true, predicted in documents]
    score = score_clusters(pairs).by_type[metric]
    assert score["precision"] == pytest.approx(100 * precision)
    assert score["recall"] == pytest.approx(100 * recall)
    total = precision + recall
    f1 = 200 * precision * recall / total if total else 0
    assert score["f1"] == pytest.approx(f1)


def test_the_mean_leaves_mentions_out_and_counts_singletons() -> None:
    values = score_clusters([tuple(map(clusters, SPLIT))]).values
    assert values["f1"] == pytest.approx(100 * (2 / 3 + 11 / 15 + 0.8) / 3)
    scores = score_clusters([(clusters("1 2, 3 4, 5"), clusters("1 2, 3 4"))])
    assert scores.values["f1"] < scores.values["f1_without_singletons"] == 100
    assert scores.by_type["mentions"]["recall"] == pytest.approx(100 * 4 / 5)
    assert scores.by_type["mentions, no singletons"]["recall"] == pytest.approx(100)


def random_clusters(random: np.random.Generator) -> list[frozenset]:
    mentions = defaultdict(set)
    for i in np.flatnonzero(random.random(30) < 0.8).tolist():
        mentions[int(random.integers(1, 12))].add((i, i + i % 3))
    return list(map(frozenset, mentions.values()))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("metric", "oracle"),
    [("muc", scorch.muc), ("b_cubed", scorch.b_cubed), ("ceaf_phi4", scorch.ceaf_e)],
)
def test_scores_are_those_of_scorch(seed: int, metric: str, oracle: object) -> None:
    random = np.random.default_rng(seed)
    true = random_clusters(random)
    predicted = random_clusters(random)
    score = score_clusters([(true, predicted)]).by_type[metric]
    recall, precision, f1 = oracle(true, predicted)
    expected = {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}
    assert score == pytest.approx(expected)
