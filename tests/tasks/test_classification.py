"""Task `classification`: its files, its two models, their subtrees, and labels of examples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import build, train_on, without_gradient

from elmo_cli.errors import InputError
from elmo_cli.tasks.classification import ClassificationTask, Classifier
from elmo_cli.tasks.labels import score_labels
from elmo_cli.tasks.spans import Span
from elmo_cli.tasks.task import Split, check_labels, load_task
from elmo_cli.text.input import InputSettings

TASK = ClassificationTask()
TREES = "(3 (2 A) (4 (4 bright) (2 day)))\n\n(1 (2 -LRB-) (1 (0 gr\\/ey) (2 2\u00a01/2)))\n(2 So)\n"
SENTENCES = [("A", "bright", "day"), ("(", "gr/ey", "2\u00a01/2"), ("So",)]


def read(path: Path, text: str, *, labelled: bool = True) -> Split:
    path.write_text(text, encoding="utf-8")
    return TASK.read(str(path), labelled=labelled)


@pytest.mark.parametrize(
    ("name", "text", "labels", "sentences"),
    [
        ("a.txt", TREES, ["3", "1", "2"], SENTENCES),
        ("a.tsv", "good\tA  day .\nbad\t(so grey)\n", ["good", "bad"], ["A day .", "(so grey)"]),
        ("a.jsonl", '{"label": 1, "tokens": ["a b"]}\n', ["1"], [("a b",)]),
        ("a.jsonl", '{"label": "x", "text": "It\'s so."}\n', ["x"], ["It 's so ."]),
        ("a.jsonl", '{"label": "x", "sentence": "Yes. No."}\n', ["x"], ["Yes . No ."]),
        ("a.jsonl", '{"label": "x", "text": "b", "tokens": ["a"]}\n', ["x"], ["a"]),
    ],
)
def test_files_are_read(
    tmp_path: Path, name: str, text: str, labels: list, sentences: list
) -> None:
    split = read(tmp_path / name, text)
    assert [example.target for example in split.examples] == labels
    expected = [tuple(one.split()) if isinstance(one, str) else one for one in sentences]
    assert split.sentences == expected
    assert [example.sentences for example in split.examples] == [(i,) for i in range(len(labels))]


def test_subtrees_are_the_inner_nodes_of_trees(tmp_path: Path) -> None:
    examples = read(tmp_path / "a.txt", TREES).examples
    spans = [Span(0, 1, "2"), Span(1, 2, "4"), Span(2, 3, "2"), Span(1, 3, "4")]
    assert list(examples[0].subtrees) == spans
    assert examples[2].subtrees == ()
    assert examples[1].where.endswith("a.txt, line 3")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "x\n(so it is)\n", "(so it is)"),
        ("a.txt", "A day .\n", "A day ."),
        ("a.jsonl", '{"text": "A day."}\n', "A day ."),
    ],
)
def test_labels_may_lack_in_data_to_predict(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    split = read(tmp_path / name, text, labelled=False)
    assert (split.sentences[-1], split.examples[-1].target) == (tuple(sentence.split()), None)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "good\tday\nday\n", "a.txt, line 2: 0 tabs instead of one"),
        ("a.txt", "1\tgood\tday\n", "line 1: 2 tabs"),
        ("a.txt", "\n \tday\n", "line 2: no label before the tab"),
        ("a.txt", "good\t \n", "line 1 has no tokens"),
        ("a.jsonl", '{"label": "x", "text": "a\\u0000"}', 'line 1: "text": a token holds a NUL'),
        ("a.txt", "(3 (2 A) (4 day))\nA day\n", "line 2: not a complete tree, at character 1"),
        ("a.txt", "(3 (2 A) (4 day)) (2 x)", "line 1: not a complete tree, at character 18"),
        ("a.txt", "(3 (2 A) (4 day))(2 x)", "line 1: not a complete tree, at character 18"),
        ("a.txt", "(3 (2 A) (4 (2 day))", "line 1: not a complete tree, at character 21"),
        ("a.txt", "(3 (2 A) ())", "line 1: not a complete tree, at character 10"),
        ("a.txt", "(3 (2 A) (4 ))", "line 1: not a complete tree, at character 13"),
        ("a.txt", "(3 (2 A)))", "line 1: not a complete tree, at character 10"),
        ("a.jsonl", '{"text": "a"}', 'a.jsonl, line 1: no "label"'),
        ("a.jsonl", '{"label": null, "text": "a"}', 'line 1: no "label"'),
        ("a.jsonl", '{"label": "", "text": "a"}', '"label" is ""'),
        ("a.jsonl", '{"label": true, "text": "a"}', '"label" is true'),
        ("a.jsonl", '{"label": ["x"], "text": "a"}', r'"label" is \["x"\]'),
        ("a.jsonl", '{"label": "x", "words": "a"}', 'no "tokens" or "text" or "sentence"'),
        ("a.jsonl", '{"label": "x", "text": 5}', '"text" is neither a list of strings'),
        ("a.jsonl", '{"label": "x", "tokens": ["a", 5]}', '"tokens" is neither a list of'),
        ("a.jsonl", '{"label": "x", "tokens": []}', '"tokens" has no tokens'),
        ("a.jsonl", '{"label": "x", "label": "y", "text": "a"}', "'label' occurs twice"),
        ("a.jsonl", "[1]", "not an object"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / name, text)
    assert caught.value.hint


def test_labels_are_those_of_sentences_and_subtrees(tmp_path: Path) -> None:
    train = read(tmp_path / "a.txt", TREES)
    assert TASK.collect_labels(train) == ["0", "1", "2", "3", "4"]
    with pytest.raises(InputError, match=r"b\.tsv: fewer than two labels \(x"):
        TASK.collect_labels(read(tmp_path / "b.tsv", "x\ta\nx\tb\n"))
    with pytest.raises(InputError, match=r"c\.tsv, line 2: label `7` does not occur"):
        check_labels(TASK, train, read(tmp_path / "c.tsv", "3\ta\n7\tb\n"))


TRAIN = "\n".join(
    [
        "(+ (0 a) (+ (+ fine) (0 day)))",
        "(- (0 a) (- (- grey) (0 day)))",
        "(- (0 it) (- (0 is) (- (- (0 not) (+ fine)) (0 (0 to) (0 (0 go) (0 (0 out)"
        " (0 (0 in) (0 (0 the) (0 (0 rain) (0 .))))))))))",
        "(+ fine)",
        "(0 .)",
    ]
)
SETTINGS = [
    {"model": "bilstm", "elmo.where": "input"},
    {"model": "bilstm", "elmo.where": "both", "layers": 2},
    {"model": "bcn", "elmo.where": "input"},
    {"model": "bcn", "elmo.where": "output"},
]
WITHOUT_DROPOUT = {"dropout": 0.0, "elmo.dropout": 0.0, "state_dropout": 0.0}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_model_learns_its_examples(tmp_path: Path, settings: dict) -> None:
    split = read(tmp_path / "a.txt", TRAIN)
    model, inputs = build(TASK, split, **settings, **WITHOUT_DROPOUT, subtrees=1.0)
    train_on(model, split.examples, inputs, steps=40)
    with torch.no_grad():
        together = model.predict(split.examples, inputs)
        alone = [model.predict([example], inputs)[0] for example in split.examples]
    assert together == alone == [example.target for example in split.examples]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_scores_depend_on_the_sentence_alone(tmp_path: Path, settings: dict) -> None:
    """Not on the padding of the batch, and those of a subtree not on the other subtrees."""
    split = read(tmp_path / "a.txt", TRAIN)
    model, inputs = build(TASK, split, **settings, **WITHOUT_DROPOUT, subtrees=1.0)
    with torch.no_grad():
        whole = model.loss(split.examples, inputs).item()
        model.subtrees = 0.0
        sentences = [model.loss([example], inputs).item() for example in split.examples]
        model.subtrees = 1.0
        n_subtrees = [len(example.subtrees) for example in split.examples]
        both = [model.loss([example], inputs).item() for example in split.examples]
    of_subtrees = np.average(np.subtract(both, sentences), weights=n_subtrees)
    assert whole == pytest.approx(np.mean(sentences) + of_subtrees, abs=1e-5)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("subtrees", [0.0, 1.0])
def test_the_gradient_reaches_all_parameters(
    tmp_path: Path, settings: dict, subtrees: float
) -> None:
    split = read(tmp_path / "a.txt", TRAIN)
    model, inputs = build(TASK, split, **settings, subtrees=subtrees)
    assert without_gradient(model, split.examples, inputs) == []


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_subtrees_are_cut_from_the_states_of_the_sentence(tmp_path: Path, settings: dict) -> None:
    """Their scores are those of the pooled states, which depend on the rest of the sentence."""
    split = read(tmp_path / "a.txt", TRAIN)
    model, inputs = build(TASK, split, **settings)
    assert isinstance(model.eval(), Classifier)
    with torch.no_grad():
        states = model._states(inputs.batch([2, 0]))
        spans, rows = torch.tensor([[3, 5], [0, 1]]), torch.tensor([0, 1])
        found = model._scores(states, rows, spans)
        for score, row, (start, end) in zip(found, rows, spans.tolist(), strict=True):
            x = states[row, start:end]
            weights = torch.softmax(model.pooling.attention(x)[:, 0], 0)
            pooled = [x.amax(0), x.mean(0), weights @ x, x.amin(0)]
            if settings["model"] == "bilstm":
                pooled.pop()
            assert torch.allclose(score, model.output(torch.cat(pooled)), atol=1e-5)


def test_biattention_is_that_of_the_paper(tmp_path: Path) -> None:
    """Written out for one sentence, without padding."""
    split = read(tmp_path / "a.txt", TRAIN)
    model, inputs = build(TASK, split, model="bcn")
    assert isinstance(model.eval(), Classifier)
    encoder, batch = model.encoder, inputs.batch([0])
    with torch.no_grad():
        x = model.representation(batch)
        states = encoder.encoder(torch.relu(encoder.reading(x)), batch.lengths)[0]
        context = torch.softmax(states @ states.T, 1) @ states
        integrated = torch.cat([states, states - context, states * context], 1)[None]
        expected = encoder.integrator(integrated, batch.lengths)
        assert torch.allclose(encoder(x, batch.lengths), expected, atol=1e-5)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_a_fraction_of_the_subtrees_is_sampled(tmp_path: Path, fraction: float) -> None:
    split = read(tmp_path / "a.txt", "\n".join([TRAIN] * 30))
    model, _ = build(TASK, split, subtrees=fraction)
    assert isinstance(model, Classifier)
    n = sum(len(example.subtrees) for example in split.examples)
    sample = model._sample_subtrees(split.examples)
    assert len(sample) == pytest.approx(fraction * n, abs=0.06 * n if fraction == 0.3 else 0)
    for row, start, end, label in sample.tolist():
        assert Span(start, end, model.names[label]) in split.examples[row].subtrees


def test_scores_of_labels() -> None:
    scores = score_labels(["a", "a", "b", "d"], ["a", "b", "b", "c"])
    assert scores.values == {"accuracy": 50}
    assert scores.by_type["a"] == {
        "f1": pytest.approx(200 / 3), "precision": 100, "recall": 50, "predicted": 1, "gold": 2
    }  # fmt: skip
    assert [scores.by_type[label]["gold"] for label in "abcd"] == [2, 1, 0, 1]
    assert scores.by_type["c"]["f1"] == 0


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_predictions_are_written_in_a_form_that_is_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "new.txt").write_text("A day\n\nso (it is)\n", encoding="utf-8")
    split = TASK.read_text([str(tmp_path / "new.txt")], InputSettings())
    lines = list(TASK.format_lines(split, ["x", "y"], form))
    again = read(tmp_path / f"a.{form}", "\n".join(lines))
    assert again.sentences == split.sentences
    assert [example.target for example in again.examples] == ["x", "y"]
    if form == "jsonl":
        assert json.loads(lines[0]) == {"tokens": ["A", "day"], "label": "x"}


def test_the_preset_has_the_published_sizes(tmp_path: Path) -> None:
    split = read(tmp_path / "a.txt", TRAIN)
    settings = load_task("classification", preset="paper").settings
    assert (settings.model, settings.hidden, settings.elmo.projection) == ("bcn", 300, 0)
    model, _ = build(TASK, split, model="bcn", hidden=300)
    assert isinstance(model, Classifier)
    maxout = [one.maps.weight.shape for one in model.output if hasattr(one, "maps")]
    assert maxout == [(4 * 1200, 4 * 600), (4 * 600, 1200)]
