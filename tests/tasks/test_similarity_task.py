"""Task `similarity`: its files, its scores and its predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tiny_models import build, read

from elmo_cli.errors import InputError
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.similarity import SimilarityTask
from elmo_cli.tasks.task import Example


def read_scores(path: str, *scores: object, field: str = "relatedness") -> Split:
    """Read pairs with these scores; the second sentence of a pair has one word more."""
    pairs = [
        {"premise": list("abcd")[: i + 1], "hypothesis": list("bcde")[: i + 2], field: score}
        for i, score in enumerate(scores)
    ]
    return read("similarity", path, "\n".join(map(json.dumps, pairs)))


@pytest.mark.parametrize("field", ["relatedness", "relatedness_score", "score", "label"])
def test_relatedness_is_read(field: str) -> None:
    split = read_scores("a.jsonl", 3, 4.5, field=field)
    assert SimilarityTask().collect_labels(split) == {"mean": 3.75, "deviation": 0.75}


@pytest.mark.parametrize("score", ["3.5", True, float("inf"), 1e300, 10**400])
def test_bad_scores_are_refused(score: object) -> None:
    words = "line 2: (no valid rel|.* is not a number below|not JSON .Infinity)"
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


def test_scores_are_learned_in_deviations_and_predicted_on_their_own_scale() -> None:
    gold = np.array([1, 2, 6])
    split = read_scores("a.jsonl", *gold.tolist())
    model, inputs = build(SimilarityTask(), split)
    model.eval()
    with torch.no_grad():
        outputs = model.scores(split.examples, inputs)[:, 0].numpy()
        loss = model.loss(split.examples, inputs).item()
    predicted = model.predict(split.examples, inputs)
    assert predicted == pytest.approx(3 + gold.std() * outputs, abs=1e-4)
    assert loss == pytest.approx(np.mean((outputs - (gold - 3) / gold.std()) ** 2), rel=1e-4)


def test_predictions_are_written_in_a_form_that_is_read() -> None:
    split = read_scores("a.jsonl", 1, 5)
    lines = SimilarityTask().format_lines(split, [1.23456, 4.0], "jsonl")
    again = read("similarity", "b.jsonl", "".join(lines))
    assert again.sentences == split.sentences
    assert [example.target for example in again.examples] == [1.2346, 4.0]
