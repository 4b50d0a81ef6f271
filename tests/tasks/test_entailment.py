"""Task `entailment`: its files and its model."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_models import assert_refused, build, read

from elmo_cli.tasks.entailment import EntailmentTask, Esim

SNLI = (
    '{"gold_label": "neutral", "sentence1": "It rains.", "sentence2": "It is wet."}\n'
    '{"gold_label": "-", "sentence1": "It rains.", "sentence2": "It snows."}\n'
    '{"gold_label": "yes", "sentence1": "It rains.", "sentence2": ["It", "rains"]}\n'
)
SICK = '{"premise": "It rains", "hypothesis": "It snows", "label": "no"}\n'
SICK_2014 = (
    '{"pair_ID": 6, "sentence_A": "It rains", "sentence_B": "It pours", '
    '"entailment_judgment": "NEUTRAL"}\n'
    '{"sentence_A": "It rains", "sentence_B": "It pours", "entailment_label": "yes"}\n'
)


def test_pairs_are_read_with_the_fields_of_snli_and_of_sick() -> None:
    split = read("entailment", "a.jsonl", SNLI + SICK + SICK_2014)
    targets = [example.target for example in split.examples]
    assert targets == ["neutral", "yes", "no", "NEUTRAL", "yes"]
    numbers = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [example.sentences for example in split.examples] == numbers
    texts = ["It rains .", "It is wet .", "It rains .", "It rains", "It rains", "It snows"]
    texts += ["It rains", "It pours"] * 2
    assert split.sentences == [tuple(text.split()) for text in texts]
    assert split.examples[2].where.endswith("a.jsonl, line 4")
    assert EntailmentTask().collect_labels(split) == ["NEUTRAL", "neutral", "no", "yes"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"premise": "a", "label": "x"}', "line 1: no valid sentence2 or hypothesis"),
        ('{"hypothesis": "a", "label": "x"}', "line 1: no valid sentence1 or premise"),
        ('{"premise": "a", "hypothesis": "b"}', "line 1: no valid gold_label or label"),
        ('{"premise": "", "hypothesis": "b", "label": "x"}', "line 1: a sentence has no tokens"),
    ],
)
def test_bad_files_are_refused(text: str, words: str) -> None:
    assert_refused("entailment", "a.jsonl", text, words)


@pytest.mark.parametrize(
    ("fields", "label", "premise"),
    [
        ({"label": "no", "gold_label": "yes"}, "yes", "a"),
        ({"label": "no", "gold_label": "-"}, "no", "a"),  # the first that is a label
        ({"label": "no", "sentence1": "x"}, "no", "x"),
        ({"label": "no", "sentence1": None}, "no", "a"),
    ],
)
def test_of_several_fields_the_first_with_a_value_is_read(
    fields: dict[str, object], label: str, premise: str
) -> None:
    text = json.dumps({"premise": "a", "hypothesis": "b", **fields})
    split = read("entailment", "a.jsonl", text)
    assert [example.target for example in split.examples] == [label]
    assert split.sentences == [(premise,), ("b",)]


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
        scores = model.scores(split.examples, inputs)
        assert scores.shape == (3, 3)
        for score, example in zip(scores, split.examples, strict=True):
            encoded = []
            for number in example.sentences:
                batch = inputs.batch([number])
                [states] = model.encoder(model.representation(batch), batch.lengths)
                encoded.append(states)
            a, b = encoded
            pooled = []
            for x, y in ((a, b), (b, a)):
                aligned = torch.softmax(x @ y.T, 1) @ y
                compared = torch.cat([x, aligned, x - aligned, x * aligned], 1)
                compared = torch.relu(model.comparison(compared))
                composed = model.composition(compared[None], torch.tensor([len(x)]))[0]
                pooled += [composed.mean(0), composed.amax(0)]
            assert torch.allclose(score, model.output(torch.cat(pooled)), atol=1e-5)
