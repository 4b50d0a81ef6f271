"""Task `similarity`: its files, its model and its scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import build, train_on, without_gradient

from elmo_cli.errors import InputError
from elmo_cli.tasks.similarity import SimilarityTask
from elmo_cli.tasks.task import Example, Split

TASK = SimilarityTask()


def read(path: Path, *scores: object, name: str = "relatedness", labelled: bool = True) -> Split:
    """Read pairs with these scores; the second sentence of a pair has one word more."""
    pairs = [
        {"premise": list("abcd")[: i + 1], "hypothesis": list("bcde")[: i + 2], name: score}
        for i, score in enumerate(scores)
    ]
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return TASK.read(str(path), labelled=labelled)


@pytest.mark.parametrize("name", ["relatedness", "score"])
def test_scores_are_read(tmp_path: Path, name: str) -> None:
    split = read(tmp_path / "a.jsonl", 3, 4.5, name=name)
    assert [example.target for example in split.examples] == [3.0, 4.5]
    assert split.examples[1].sentences == (2, 3)
    assert split.sentences[3] == ("b", "c", "d")
    assert TASK.collect_labels(split) == {"mean": 3.75, "deviation": 0.75}
    unlabelled = read(tmp_path / "a.jsonl", None, labelled=False)
    assert unlabelled.examples[0].target is None


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (None, 'line 2: no "relatedness" or "score"'),
        ("3.5", 'line 2: "relatedness" is not a number'),
        (True, "is not a number"),
        (float("nan"), "is not a number"),
    ],
)
def test_bad_scores_are_refused(tmp_path: Path, score: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "a.jsonl", 1, score)
    assert caught.value.hint


def test_equal_scores_cannot_be_trained_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl: all scores are 2"):
        TASK.collect_labels(read(tmp_path / "a.jsonl", 2, 2.0))


def test_a_model_learns_its_examples(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", 1, 5, 2)
    model, inputs = build(TASK, split, **{"dropout": 0.0, "elmo.dropout": 0.0})
    train_on(model, split.examples, inputs, steps=60)
    with torch.no_grad():
        found = model.predict(split.examples, inputs)
        alone = [model.predict([example], inputs)[0] for example in split.examples]
        variance = TASK.collect_labels(split)["deviation"] ** 2
        loss = model.loss(split.examples, inputs).item()
    assert found == pytest.approx(alone, abs=1e-4)
    assert found == pytest.approx([1, 5, 2], abs=0.3)
    mse = TASK.score(split.examples, found).values["mse"]
    assert loss * variance == pytest.approx(mse, abs=1e-5)


def test_the_gradient_reaches_all_parameters(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", 1, 5, 2)
    model, inputs = build(TASK, split)
    assert without_gradient(model, split.examples, inputs) == []


@pytest.mark.parametrize(
    "predictions", [[1.0, 2.0, 3.5, 3.0], [4.0, 3.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0], [9.0]]
)
def test_scores_are_pearson_and_squared_error(predictions: list[float]) -> None:
    gold = [1.0, 2.0, 3.0, 5.0][: len(predictions)]
    examples = [Example((0, 1), "", score) for score in gold]
    scores = TASK.score(examples, predictions)
    is_constant = len(set(predictions)) == 1
    r = 0.0 if is_constant else np.corrcoef(gold, predictions)[0, 1]
    assert scores.main_value == pytest.approx(100 * r)
    assert scores.values["mse"] == pytest.approx(np.mean(np.subtract(gold, predictions) ** 2))


def test_predictions_are_written_in_a_form_that_is_read(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", 1, 5)
    lines = list(TASK.format_lines(split, [1.23456, 4.0], "jsonl"))
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    again = TASK.read(str(tmp_path / "b.jsonl"))
    assert again.sentences == split.sentences
    assert [example.target for example in again.examples] == [1.2346, 4.0]
