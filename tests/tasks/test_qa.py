"""Task `qa`: its file, its model, the choice of a span, its scores and its predictions."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from data_files import CONTEXT, QUESTIONS
from tiny_models import assert_refused, build, read

from elmo_cli.tasks.data_fit import fit_of_training_data
from elmo_cli.tasks.qa import QaTask, _EncodedSentences, _matches, best_spans
from elmo_cli.tasks.readers import Split

TASK = QaTask()


@pytest.fixture
def split() -> Split:
    return read("qa", "a.json", QUESTIONS)


def test_questions_are_read(split: Split) -> None:
    assert [len(tokens) for tokens in split.sentences] == [20, 6, 5, 5, 3, 3, 3]
    assert " ".join(split.sentences[0][-9:]) == "rain ; it reached Åsgård on the 20th ."
    assert [question.sentences for question in split.examples] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (5, 6),
    ]
    assert [question.id for question in split.examples] == ["q1", "q2", "q3", "q4", "q5"]
    assert split.examples[1].target == ("9.30", "at 9.30")
    covered = [question.text_of(question.span) for question in split.examples]
    assert covered == ["Bergen", "9.30", "Åsgård", "20th", "Rain"]
    start = CONTEXT.index("30")
    changed = QUESTIONS.replace('"Bergen", "answer_start": 15', f'"30", "answer_start": {start}')
    assert read("qa", "c.json", changed).examples[0].span == (7, 7)  # of the tokens 9 . 30
    again = read("qa", "b.json", QUESTIONS.replace('"answers"', '"other"'), labelled=False)
    assert again.sentences == split.sentences
    assert {(question.target, question.span) for question in again.examples} == {((), None)}


def test_answers_at_tokens_are_counted_where_they_are_known(split: Split) -> None:
    """An answer without its position can be scored, but neither learned nor counted."""
    answers = [("Bergen", True), ("9.30", True), ("at 9.30", True), ("Åsgård", True)]
    assert list(TASK.answers_at_tokens(split)) == [*answers, ("20", False), ("Rain", True)]
    line = {"id": "1", "context": "Rain fell.", "question": "What fell?"}
    for given in ({"text": ["Rain"]}, {"text": ["Rain"], "answer_start": []}, [{"text": "Rain"}]):
        unplaced = read("qa", "a.jsonl", json.dumps({**line, "answers": given}))
        [question] = unplaced.examples
        assert (question.target, question.span) == (("Rain",), None)
        assert [TASK.is_labelled(question), TASK.is_learnable(question)] == [True, False]
        assert list(TASK.answers_at_tokens(unplaced)) == []
    blank = {"text": [" "], "answer_start": [4]}
    [question] = read("qa", "a.jsonl", json.dumps({**line, "answers": blank})).examples
    assert question.span is None
    placed = json.dumps({**line, "answers": {"text": ["fell"], "answer_start": [5]}})
    dev = read("qa", "a.jsonl", placed)
    points = {point.rule.key: point for point in fit_of_training_data(TASK, split, dev, None)}
    answers_of_both = points["answers_at_tokens"]
    assert (answers_of_both.n_fitting, answers_of_both.n_all) == (6, 7)
    assert answers_of_both.example == "20"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("}]}]}", "", ": not JSON"),
        ('"data"', '"Data"', ": no valid data; its fields are Data"),
        (f'"{CONTEXT}"', "1", ", paragraph 1: no valid context"),
        ('"id": "q3"', '"id": "q1"', ": 2 questions have the id q1"),
        ('"id": "q5"', '"id": "q1"', ": 2 questions have the id q1"),
        (', {"context": "Rain fell."', ', {"context": 1', ", paragraph 2: no valid context"),
        # A second article, whose paragraph is the second of the file.
        (
            ', {"context": "Rain fell."',
            ']}, {"paragraphs": [{"context": 1',
            ", paragraph 2: no val",
        ),
        ('"id": "q3"', '"name": "q3"', ", paragraph 1, question 3: no valid id; its fields are n"),
        ('"Which day?"', r'"\u0000?"', ", question q4: a token holds a NUL"),
        ('{"text": "Bergen", "answer_start": 15}', "", ", question q1: the question has no answer"),
    ],
)
def test_bad_files_are_refused(old: str, new: str, where: str) -> None:
    path = "a.json"
    assert_refused("qa", path, QUESTIONS.replace(old, new), re.escape(f"{path}{where}"))


@pytest.mark.parametrize(
    ("predicted", "answer", "is_exact", "f1"),
    [
        ("the red  House", "Red house!", True, 1),
        ("an apple, a day", "apple day", True, 1),
        ("U.S.", "us", True, 1),
        ("theatre", "atre", False, 0),
        ("«Åsgård»", "«åsgård»", True, 1),
        ("red house", "house", False, 2 / 3),
        ("rain rain", "rain", False, 2 / 3),
        ("the", "an", True, 0),  # without tokens, as in the official script
    ],
)
def test_answers_are_compared_as_in_squad(
    split: Split, predicted: str, answer: str, is_exact: bool, f1: float
) -> None:
    question = replace(split.examples[0], target=("something else", answer))
    scores = TASK.score([question, question], [predicted, "no"])
    assert scores.values["exact_match"] == 50 * is_exact
    assert scores.values["f1"] == pytest.approx(50 * f1)


@pytest.mark.parametrize("max_length", [1, 3, 99])
def test_best_spans_are_those_of_an_exhaustive_search(max_length: int) -> None:
    random = np.random.default_rng(max_length)
    start, end = random.normal(-5, size=(2, 20, 7)).astype("f4")
    predicted = best_spans(torch.from_numpy(start), torch.from_numpy(end), max_length)
    for row in range(20):
        pairs = itertools.product(range(7), repeat=2)
        spans = [(i, j) for i, j in pairs if i <= j < i + max_length]
        best = max(spans, key=lambda span: start[row, span[0]] + end[row, span[1]])
        assert predicted[row] == best


@pytest.mark.parametrize(
    ("max_answer", "answer"), [(2, "ferry left"), (3, "ferry left"), (4, "ferry left Bergen at")]
)
def test_answers_are_no_longer_than_the_setting(
    max_answer: int, answer: str, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = build(TASK, split, max_answer=max_answer)
    start = torch.tensor([[0, 2, 0, 0, 0, 0]])
    end = torch.tensor([[0, 0, 1.5, 0, 3, 0]])
    monkeypatch.setattr(model, "scores", lambda examples, inputs: (start, end))
    assert model.predict(split.examples[:1], inputs) == [answer]


def test_attention_is_that_of_the_paper(split: Split) -> None:
    """Written out for each pair, without padding."""
    model, _ = build(TASK, split)
    encoded = []
    for n_tokens, lengths in ((5, torch.tensor([5, 3])), (4, torch.tensor([2, 4]))):
        states = torch.randn(2, n_tokens, model.state_dim)
        encoded.append(
            _EncodedSentences(states, lengths, torch.arange(n_tokens) < lengths[:, None])
        )
    with torch.no_grad():
        torch.nn.init.normal_(model.of_both)
        features = model._attend(*encoded)
        for row in (0, 1):
            x, y = (sentences.states[row][sentences.mask[row]] for sentences in encoded)
            similarity = model.of_context(x) + model.of_question(y).T + (x * model.of_both) @ y.T
            attended = torch.softmax(similarity, 1) @ y
            summary = torch.softmax(similarity.amax(1), 0) @ x
            expected = [x, attended, x * attended, x * summary]
            for feature, values in zip(features, expected, strict=True):
                torch.testing.assert_close(feature[row, : len(x)], values, rtol=1e-4, atol=1e-5)


def test_words_that_are_in_the_question_are_marked(split: Split) -> None:
    _, inputs = build(TASK, split)
    first, *_, last = split.examples
    matches = _matches([first, last], inputs)
    # "The ferry left Bergen …" for "Where did the ferry leave?", "Rain fell." for "What fell?"
    assert matches[0].nonzero()[:, 0].tolist() == [0, 1, 17]
    assert matches[1].tolist() == [0, 1, *[0] * 18]


def test_predictions_are_written(split: Split) -> None:
    answers = {f"q{i}": f"Å {i}" for i in range(1, 6)}
    n_first = 2
    first = Split("a.json", split.sentences, split.examples[:n_first])
    rest = Split("a.json", split.sentences, split.examples[n_first:])
    predictions = list(answers.values())
    parts = [(first, predictions[:n_first]), (rest, predictions[n_first:])]
    text = "".join(line for lines in TASK.format_file(parts, "json") for line in lines)
    assert text == json.dumps(answers, ensure_ascii=False, indent=1) + "\n"
    assert "".join(*TASK.format_file([], "json")) == "{}\n"
