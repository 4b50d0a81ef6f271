"""Tasks `entailment` and `similarity`: pairs of sentences, their model and their scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tiny_models import assert_refused, build, read

from elmo_cli.errors import InputError
from elmo_cli.tasks.entailment import EntailmentTask, Esim
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.similarity import SimilarityTask
from elmo_cli.tasks.task import Example

SNLI = (
    '{"gold_label": "neutral", "sentence1": "It rains.", "sentence2": "It is wet."}\n'
    '{"gold_label": "-", "sentence1": "It rains.", "sentence2": "It snows."}\n'
    '{"gold_label": "yes", "sentence1": "It rains.", "sentence2": ["It", "rains"]}\n'
)
SICK = '{"premise": "It rains", "hypothesis": "It snows", "label": "no", "relatedness": 2}\n'
SICK_2014 = (
    '{"pair_ID": 6, "sentence_A": "It rains", "sentence_B": "It pours", "relatedness_score": 4.5, '
    '"entailment_judgment": "NEUTRAL"}\n'
)


def test_pairs_are_read_with_the_fields_of_snli_and_of_sick() -> None:
    split = read("entailment", "a.jsonl", SNLI + SICK + SICK_2014)
    targets = [example.target for example in split.examples]
    assert targets == ["neutral", "yes", "no", "NEUTRAL"]
    assert [example.sentences for example in split.examples] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    texts = ["It rains .", "It is wet .", "It rains .", "It rains", "It rains", "It snows"]
    texts += ["It rains", "It pours"]
    assert split.sentences == [tuple(text.split()) for text in texts]
    assert split.examples[2].where.endswith("a.jsonl, line 4")
    assert EntailmentTask().collect_labels(split) == ["NEUTRAL", "neutral", "no", "yes"]
    similar = read("similarity", "a.jsonl", SICK + SICK_2014)
    assert [example.target for example in similar.examples] == [2, 4.5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"premise": "a", "label": "x"}', "line 1: no valid sentence2 or hypothesis"),
        ('{"hypothesis": "a", "label": "x"}', "line 1: no valid sentence1 or premise"),
        ('{"premise": "a", "hypothesis": "b"}', "line 1: no valid gold_label or label"),
    ],
)
def test_bad_files_are_refused(text: str, words: str) -> None:
    assert_refused("entailment", "a.jsonl", text, words)


@pytest.mark.parametrize("label", ["-", -1])
def test_pairs_without_a_label_are_only_predicted(label: object) -> None:
    text = SNLI + json.dumps({"premise": ["a"], "hypothesis": ["b"], "label": label})
    assert len(read("entailment", "a.jsonl", text).examples) == 2
    split = read("entailment", "a.jsonl", text, labelled=False)
    lines = EntailmentTask().format_lines(split, ["yes"] * 4, "jsonl")
    again = read("entailment", "b.jsonl", "".join(lines))
    assert again.sentences == split.sentences
    assert again.sentences[-2:] == [("a",), ("b",)]


def test_scores_equal_those_of_each_pair() -> None:
    """The layers above the encoder, for pairs without padding, written out from the paper."""
    split = read("entailment", "a.jsonl", SNLI + SICK)
    model, inputs = build(EntailmentTask(), split, **{"elmo.where": "input"})
    assert isinstance(model.eval(), Esim)
    with torch.no_grad():
        found = model.scores(split.examples, inputs)
        assert found.shape == (3, 3)
        for score, example in zip(found, split.examples, strict=True):
            batches = [inputs.batch([number]) for number in example.sentences]
            a, b = (model.encoder(model.representation(one), one.lengths)[0] for one in batches)
            pooled = []
            for x, y in ((a, b), (b, a)):
                aligned = torch.softmax(x @ y.T, 1) @ y
                compared = torch.cat([x, aligned, x - aligned, x * aligned], 1)
                compared = torch.relu(model.comparison(compared))
                composed = model.composition(compared[None], torch.tensor([len(x)]))[0]
                pooled += [composed.mean(0), composed.amax(0)]
            assert torch.allclose(score, model.output(torch.cat(pooled)), atol=1e-5)


def read_scores(path: str, *scores: object, field: str = "relatedness") -> Split:
    """Read pairs with these scores; the second sentence of a pair has one word more."""
    pairs = [
        {"premise": list("abcd")[: i + 1], "hypothesis": list("bcde")[: i + 2], field: score}
        for i, score in enumerate(scores)
    ]
    return read("similarity", path, "\n".join(map(json.dumps, pairs)))


def test_relatedness_is_read() -> None:
    split = read_scores("a.jsonl", 3, 4.5, field="score")
    assert SimilarityTask().collect_labels(split) == {"mean": 3.75, "deviation": 0.75}


@pytest.mark.parametrize("score", [None, "3.5", True, float("nan"), 1e300])
def test_bad_scores_are_refused(score: object) -> None:
    words = "line 2: (no valid rel|.* is not a number below)"
    with pytest.raises(InputError, match=words):
        read_scores("a.jsonl", 1, score)


def test_equal_scores_cannot_be_trained_on() -> None:
    split = read_scores("a.jsonl", 2, 2.0)
    with pytest.raises(InputError, match=r"a\.jsonl: all scores are 2"):
        SimilarityTask().collect_labels(split)


@pytest.mark.parametrize(
    "predictions", [[1.0, 2.0, 3.5, 3.0], [4.0, 3.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0], [9.0]]
)
def test_scores_are_pearson_and_squared_error(predictions: list[float]) -> None:
    gold = [1.0, 2.0, 3.0, 5.0][: len(predictions)]
    examples = [Example((0, 1), "", score) for score in gold]
    scores = SimilarityTask().score(examples, predictions)
    is_constant = len(set(predictions)) == 1
    r = 0.0 if is_constant else np.corrcoef(gold, predictions)[0, 1]
    assert scores.values["pearson"] == pytest.approx(100 * r)
    assert scores.values["mse"] == pytest.approx(np.mean(np.subtract(gold, predictions) ** 2))


def test_predictions_are_written_in_a_form_that_is_read() -> None:
    split = read_scores("a.jsonl", 1, 5)
    lines = SimilarityTask().format_lines(split, [1.23456, 4.0], "jsonl")
    again = read("similarity", "b.jsonl", "".join(lines))
    assert again.sentences == split.sentences
    assert [example.target for example in again.examples] == [1.2346, 4.0]
