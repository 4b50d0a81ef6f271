"""Task `classification`: its files, its two models, and their subtrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import TREES
from tiny_models import assert_refused, build, read, read_text

from elmo_cli.errors import InputError
from elmo_cli.tasks.classification import ClassificationTask, parse_tree
from elmo_cli.tasks.classification_model import BatchSpans, Classifier
from elmo_cli.tasks.labels import Span
from elmo_cli.tasks.settings import with_settings

SST = (
    "(3 (2 A) (4 (4 bright) (2 day)))\n\n(1 (2 -LRB-) (1 (0 gr\\/e\\*y) (2 2\u00a01/2)))\n(2 So)\n"
)
NINE_FIELDS = '{"label": "x", "1": 0, "2": 0, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0}'
SENTENCES = [("A", "bright", "day"), ("(", "gr/e*y", "2\u00a01/2"), ("So",)]


@pytest.mark.parametrize(
    ("name", "text", "labels", "sentences"),
    [
        ("a.txt", SST, ["3", "1", "2"], SENTENCES),
        ("a.tsv", "good\tA  day .\nbad\t(so grey)\n", ["good", "bad"], ["A day .", "(so grey)"]),
        ("a.jsonl", '{"label": 1, "tokens": ["a b"]}\n', ["1"], [("a b",)]),
        ("a.jsonl", '{"label": "x", "text": "It\'s so."}\n', ["x"], ["It 's so ."]),
        ("a.tsv", " good \tA day\n", ["good"], ["A day"]),
        ("a.jsonl", '{"label": "x", "text": "b", "tokens": ["a"]}\n', ["x"], ["a"]),
        ("a.jsonl", '{"label": "x", "text": "a b", "tokens": null}\n', ["x"], ["a b"]),
        ("a.jsonl", '{"label": "x", "sentence": "It\'s so."}\n', ["x"], ["It 's so ."]),
        ("a.txt", "x\n(so it is)\n", [None, None], ["x", "(so it is)"]),  # to predict on
        ("a.txt", "( It drags .)\nx\n", [None, None], ["( It drags .)", "x"]),
        ("a.tsv", "bad\t(so grey)\n", ["bad"], ["(so grey)"]),
        ("a.txt", '{ "text": "a b"}\n', [None], ["a b"]),
        ("a.jsonl", '{"text": "A day."}\n', [None], ["A day ."]),
    ],
)
def test_files_are_read(name: str, text: str, labels: list, sentences: list) -> None:
    split = read("classification", name, text, labelled=None not in labels)
    assert [example.target for example in split.examples] == labels
    expected = [tuple(text.split()) if isinstance(text, str) else text for text in sentences]
    assert split.sentences == expected
    assert [example.sentences for example in split.examples] == [(i,) for i in range(len(labels))]


def test_brackets_in_trees_are_those_of_text() -> None:
    names = ("LRB", "RRB", "LSB", "RSB", "LCB", "RCB")
    tokens, _ = parse_tree(f"(1 {' '.join(f'(2 -{name}-)' for name in names)})")
    assert tokens == list("()[]{}")


def test_subtrees_are_the_inner_nodes_of_trees() -> None:
    examples = read("classification", "a.txt", SST).examples
    spans = [Span(0, 1, "2"), Span(1, 2, "4"), Span(2, 3, "2"), Span(1, 3, "4")]
    assert list(examples[0].subtrees) == spans
    assert examples[2].subtrees == ()
    assert examples[1].where.endswith("a.txt, line 3")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "good\tday\nday\n", "a.txt, line 2: expected a label, a tab and a sentence"),
        ("a.txt", "1\tgood\tday\n", "line 1: expected a label, a tab"),
        ("a.txt", "\n \tday\n", "line 2: expected a label, a tab"),
        ("a.txt", "good\t \n", "line 1: a sentence has no tokens"),
        ("a.txt", "(3 (2 A) (4 day))\nA day\n", "line 2: not a tree"),
        ("a.txt", "(3 (2 A) ())", "line 1: not a tree"),
        ("a.txt", "(3 (2 A) (4 ))", "line 1: not a tree"),
        ("a.txt", "(3 (2 A)\n", "line 1: not a tree"),
        ("a.txt", "(3 A) (4 day)\n", "line 1: not a tree"),
        ("a.txt", "(3 A)\n(3 A) day\n", "line 2: not a tree"),
        ("a.txt", "( (3 A))", "line 1: expected a label, a tab"),
        ("a.jsonl", "not JSON", "line 1: not JSON"),
        ("a.jsonl", "[1]", "not an object"),
        ("a.jsonl", '{"label": "x", "label": "y", "text": "a"}', "'label' occurs twice"),
        ("a.jsonl", '{"label": null, "text": "a"}', "no example has a label"),
        ("a.jsonl", '{"label": 0.5, "text": "a"}', "no valid label"),
        ("a.jsonl", '{"label": "x", "words": "a"}', "no valid tokens or text"),
        ("a.jsonl", NINE_FIELDS, "fields are label, 1, 2, 3, 4, 5, 6, 7, …\n"),
        ("a.jsonl", NINE_FIELDS.replace(', "8": 0', ""), "fields are label, 1, 2, 3, 4, 5, 6, 7\n"),
        ("a.jsonl", '{"label": "x", "tokens": ["a", 5]}', "a sentence is neither a list of"),
        ("a.jsonl", '{"label": "x", "tokens": ["a", ""]}', "a token is empty"),
        ("a.jsonl", '{"label": "x", "tokens": []}', "a sentence has no tokens"),
    ],
)
def test_bad_files_are_refused(name: str, text: str, words: str) -> None:
    assert_refused("classification", name, text, words)


def test_labels_are_those_of_sentences_and_subtrees() -> None:
    task = ClassificationTask()
    train = read("classification", "a.txt", SST)
    assert task.collect_labels(train) == ["0", "1", "2", "3", "4"]
    first = train.examples[0]
    assert list(task.labels_of(first)) == ["3", "2", "4", "2", "4"]
    assert list(task.scored_labels_of(first)) == ["3"]


def test_sentences_and_subtrees_may_lack_labels() -> None:
    trees = read("classification", "a.txt", "(3 (_ A) (4 day))\n(-1 (2 A) (0 bore))\n")
    [tree] = trees.examples
    assert (tree.target, tree.subtrees) == ("3", (Span(1, 2, "4"),))
    assert trees.unlabelled == ["a.txt, line 2"]
    lines = read("classification", "a.tsv", "-\tA bore\ngood\tA day\n")
    assert [example.target for example in lines.examples] == ["good"]
    assert lines.unlabelled == ["a.tsv, line 1"]


@pytest.mark.parametrize("model_name", ["bilstm", "bcn"])
def test_the_loss_is_that_of_sentences_and_subtrees(model_name: str) -> None:
    """A mean over sentences, plus a mean over all subtrees; scores do not depend on padding."""
    split = read("classification", "a.txt", TREES)
    model, inputs = build(ClassificationTask(), split, model=model_name, subtrees=1.0)
    model.eval()
    with torch.no_grad():
        of_all = model.loss(split.examples, inputs).item()
        of_both = [model.loss([example], inputs).item() for example in split.examples]
        model.settings = with_settings(model.settings, {"subtrees": 0})
        of_sentences = [model.loss([example], inputs).item() for example in split.examples]
    n_subtrees = [len(example.subtrees) for example in split.examples]
    of_subtrees = np.average(np.subtract(of_both, of_sentences), weights=n_subtrees)
    assert of_all == pytest.approx(np.mean(of_sentences) + of_subtrees, abs=1e-5)


@pytest.mark.parametrize("model_name", ["bilstm", "bcn"])
def test_subtrees_are_cut_from_the_states_of_the_sentence(model_name: str) -> None:
    """Their scores are those of the pooled states, which depend on the rest of the sentence."""
    split = read("classification", "a.txt", TREES)
    model, inputs = build(ClassificationTask(), split, model=model_name)
    assert isinstance(model.eval(), Classifier)
    with torch.no_grad():
        states, sentences = model._encode_sentences([split.examples[2], split.examples[0]], inputs)
        spans = BatchSpans(
            rows=torch.tensor([0, 1, *sentences.rows]),
            starts=torch.tensor([3, 0, *sentences.starts]),
            ends=torch.tensor([5, 1, *sentences.ends]),
        )
        scores = model._scores(states, spans)
        for score, row, start, end in zip(scores, *spans, strict=True):
            x = states[row, start:end]
            weights = torch.softmax(model.pooling.attention(x)[:, 0], 0)
            pooled = [x.amax(0), x.mean(0), weights @ x, x.amin(0)]
            if model_name == "bilstm":
                pooled.pop()
            assert torch.allclose(score, model.output(torch.cat(pooled)), atol=1e-5)
    assert sentences.rows.tolist() == [0, 1]
    assert sentences.starts.tolist() == [0, 0]
    assert sentences.ends.tolist() == [10, 3]


def test_biattention_is_that_of_the_paper() -> None:
    """Written out for one sentence, without padding."""
    split = read("classification", "a.txt", TREES)
    model, inputs = build(ClassificationTask(), split, model="bcn")
    assert isinstance(model.eval(), Classifier)
    encoder = model.encoder
    batch = inputs.batch([0])
    with torch.no_grad():
        x = model.representation(batch)
        states = encoder.encoder(torch.relu(encoder.reading(x)), batch.lengths)[0]
        context = torch.softmax(states @ states.T, 1) @ states
        integrated = torch.cat([states, states - context, states * context], 1)[None]
        expected = encoder.integrator(integrated, batch.lengths)
        assert torch.allclose(encoder(x, batch.lengths), expected, atol=1e-5)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_a_fraction_of_the_subtrees_is_sampled(fraction: float) -> None:
    split = read("classification", "a.txt", TREES * 30)
    model, _ = build(ClassificationTask(), split, subtrees=fraction)
    assert isinstance(model, Classifier)
    n = sum(len(example.subtrees) for example in split.examples)
    sample = model._sample_subtrees(split.examples, torch.device("cpu"))
    assert len(sample.labels) == len(sample.spans.rows)
    assert len(sample.labels) == pytest.approx(fraction * n, abs=0.06 * n if fraction == 0.3 else 0)


def test_trees_are_not_read_as_text() -> None:
    Path("new.txt").write_text("(so it is)\n" + SST, encoding="utf-8")
    read_text(ClassificationTask(), "new.txt")
    Path("new.txt").write_text(SST, encoding="utf-8")
    with pytest.raises(InputError, match=r"new\.txt, line 1: expected text, found") as refused:
        read_text(ClassificationTask(), "new.txt")
    assert "`as_data=True`" in refused.value.hint


def test_predictions_are_written_in_a_form_that_is_read() -> None:
    Path("new.txt").write_text("A day\n\nso (it is)\n", encoding="utf-8")
    split = read_text(ClassificationTask(), "new.txt")
    lines = list(ClassificationTask().format_lines(split, ["x", None, "y"], "jsonl"))
    again = read("classification", "a.jsonl", "".join(lines))
    assert again.sentences == split.sentences
    assert [example.target for example in again.examples] == ["x", "y"]
