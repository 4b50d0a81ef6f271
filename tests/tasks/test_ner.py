"""Task `ner`: its files, its model, its scores and its predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_models import build, train_on, without_gradient

from elmo_cli.errors import ElmoError, InputError, UsageError
from elmo_cli.tasks.ner import NerTask
from elmo_cli.tasks.spans import find_scheme, labels_of, spans_of
from elmo_cli.tasks.task import Example, Split, check_labels, load_task
from elmo_cli.text.input import InputSettings

TASK = NerTask()
CONLL = "Ada X B-PER\nLovelace X I-PER\nslept X O\n\nParis X B-LOC\n"
IN_BIOUL = "Ada B-PER\nLovelace L-PER\nslept O\n\nParis U-LOC\n"
CONLLU = (
    "# newdoc\n1\tcats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n"
    "2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t_\t_\n\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n"
)


def read(path: Path, text: str, *, labelled: bool = True, **settings: str) -> Split:
    path.write_text(text, encoding="utf-8")
    return load_task("ner", settings).read(str(path), labelled=labelled)


def labels_in(split: Split) -> list[str]:
    return [" ".join(example.target) for example in split.examples]


@pytest.mark.parametrize(
    ("name", "text", "column", "labels"),
    [
        ("a.conll", CONLL, None, ["B-PER I-PER O", "B-LOC"]),
        ("a.txt", CONLL.replace(" ", "\t"), "-1", ["B-PER I-PER O", "B-LOC"]),
        ("a.tsv", CONLL.replace(" ", "\t"), "2", ["X X X", "X"]),
        ("a.conllu", CONLLU, None, ["NNS VBP", "UH"]),
        ("a.conllu", CONLLU, "upos", ["NOUN VERB", "INTJ"]),
        ("a.conllu", CONLLU, "-3", ["nsubj root", "root"]),
    ],
)
def test_labels_are_read(
    tmp_path: Path, name: str, text: str, column: str | None, labels: list[str]
) -> None:
    settings = {} if column is None else {"label_column": column}
    split = read(tmp_path / name, text, **settings)
    assert labels_in(split) == labels
    assert [len(tokens) for tokens in split.sentences] == [len(one.split()) for one in labels]
    assert [example.sentences for example in split.examples] == [(0,), (1,)]
    unlabelled = read(tmp_path / name, text, labelled=False)
    assert unlabelled.sentences == split.sentences
    assert {example.target for example in unlabelled.examples} == {None}


@pytest.mark.parametrize(
    ("name", "text", "settings", "error", "words"),
    [
        (
            "a.conll",
            "Ada\nslept\n",
            {},
            InputError,
            "a.conll, line 1: 1 columns, `label_column=2` is",
        ),
        ("a.conll", CONLL + "\nin\n", {}, InputError, "a.conll, line 7: 1 columns"),
        ("a.conll", CONLL + "in\n", {}, InputError, "a.conll, line 6: 'in' is one column"),
        (
            "a.conll",
            CONLL,
            {"label_column": "4"},
            InputError,
            "line 1: 3 columns, `label_column=4`",
        ),
        ("a.conll", CONLL, {"label_column": "upos"}, UsageError, "no column of"),
        ("a.conllu", CONLL, {}, InputError, "line 1: .* is not a row of CoNLL-U"),
        ("a.jsonl", "{}", {}, UsageError, "not from JSON lines"),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, name: str, text: str, settings: dict, error: type[ElmoError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        read(tmp_path / name, text, **settings)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (CONLL, {"scheme": "BIO", "names": ["LOC", "PER"]}),
        (IN_BIOUL, {"scheme": "BIOUL", "names": ["LOC", "PER"]}),
        ("a I\nb O\n", {"scheme": "BIO", "names": [""]}),
        ("a NN\nb VB\nc NN\n", {"scheme": None, "names": ["NN", "VB"]}),
    ],
)
def test_labels_of_the_training_data(tmp_path: Path, text: str, labels: dict) -> None:
    assert TASK.collect_labels(read(tmp_path / "a.conll", text)) == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a O\n", "all labels are O"),
        ("a B-X\nb Person\n", "line 1: label `Person` is neither O nor"),
    ],
)
def test_unsuitable_training_data_are_refused(tmp_path: Path, text: str, words: str) -> None:
    split = read(tmp_path / "a.conll", text)
    with pytest.raises(InputError, match=words):
        TASK.collect_labels(split)


@pytest.mark.parametrize(
    ("train", "dev", "words"),
    [
        ("a B-X\n", "b I-X\nc B-Y\n", "line 1: label `Y` does not occur"),
        ("a B-X\n", "c O\n\nb FOO\n", "line 3: label `FOO` does not occur"),
        ("a NN\n", "b VB\n", "line 1: label `VB` does not occur"),
    ],
)
def test_labels_missing_from_train_are_refused(
    tmp_path: Path, train: str, dev: str, words: str
) -> None:
    splits = [read(tmp_path / f"{i}.conll", text) for i, text in enumerate((train, dev))]
    with pytest.raises(InputError, match=words):
        check_labels(TASK, *splits)


def made_of(*labels: str) -> Split:
    """Sentences whose tokens are w0, w1 and so on, with these labels."""
    sentences = [
        tuple(f"w{i + j}" for i in range(len(one.split()))) for j, one in enumerate(labels)
    ]
    examples = [
        Example((number,), f"line {number}", tuple(one.split()))
        for number, one in enumerate(labels)
    ]
    return Split("made", sentences, examples)


IN_BIO = ("B-X I-X O", "O", "O O B-Y I-Y I-Y B-Y O", "B-Y", "I-X O")
LABELLINGS = {
    "BIO": IN_BIO,
    "BIOES": tuple(
        " ".join(labels_of(spans_of(s.split()), len(s.split()), "BIOES")) for s in IN_BIO
    ),
    "plain": ("DT NN VB", "UH", "IN DT JJ NN NN VB .", "UH", "IN NN"),
}


@pytest.mark.parametrize("crf_scheme", ["BIO", "BIOUL"])
@pytest.mark.parametrize("labelling", LABELLINGS)
def test_a_model_learns_its_examples(labelling: str, crf_scheme: str) -> None:
    split = made_of(*LABELLINGS[labelling])
    options = {"crf_scheme": crf_scheme, "dropout": 0.0, "elmo.dropout": 0.0}
    model, inputs = build(TASK, split, **options)
    train_on(model, split.examples, inputs, steps=40)
    with torch.no_grad():
        together = model.predict(split.examples, inputs)
        alone = [model.predict([example], inputs)[0] for example in split.examples]
        losses = [model.loss([example], inputs).item() for example in split.examples]
        # The loss is a mean over tokens for plain labels, otherwise over sentences.
        sizes = [len(one.target) if labelling == "plain" else 1 for one in split.examples]
        mean = sum(n * loss for n, loss in zip(sizes, losses, strict=True)) / sum(sizes)
        assert model.loss(split.examples, inputs).item() == pytest.approx(mean, abs=1e-5)
    assert together == alone
    assert TASK.score(split.examples, together).main_value == 100
    assert find_scheme({label for row in together for label in row}) == {"plain": None}.get(
        labelling, labelling
    )


@pytest.mark.parametrize("labelling", LABELLINGS)
@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_the_gradient_reaches_all_parameters(labelling: str, where: str) -> None:
    split = made_of(*LABELLINGS[labelling])
    model, inputs = build(TASK, split, **{"layers": 2, "elmo.where": where})
    assert without_gradient(model, split.examples, inputs) == []


@pytest.mark.parametrize("crf_scheme", ["BIO", "BIOUL"])
def test_untrained_predictions_are_valid(crf_scheme: str) -> None:
    split = made_of(*LABELLINGS["BIO"], "O " * 30)
    model, inputs = build(TASK, split, crf_scheme=crf_scheme)
    torch.nn.init.normal_(model.output.weight, std=3.0)
    for labels in model.eval().predict(split.examples, inputs):
        assert labels_of(spans_of(labels), len(labels), "BIO") == list(labels)


def test_plain_labels_are_scored_by_accuracy() -> None:
    examples = made_of("NN VB", "O").examples
    scores = TASK.score(examples, [("NN", "NN"), ("O",)])
    assert scores.values == {"accuracy": pytest.approx(200 / 3)}
    assert scores.by_type["VB"] == {"accuracy": 0, "gold": 1}
    with pytest.raises(InputError, match="line 1: label `Person`"):
        TASK.score(made_of("O", "Person").examples, [("O",), ("B-X",)])


def test_predictions_are_written(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("Ada slept\n\nin Parísê\n", encoding="utf-8")
    split = TASK.read_text([str(tmp_path / "new.txt")], InputSettings())
    predictions = [("B-PER", "O"), ("O", "B-LOC")]
    columns = ["Ada\tB-PER\nslept\tO\n", "in\tO\nParísê\tB-LOC\n"]
    assert list(TASK.format_lines(split, predictions, "conll")) == columns
    found = [json.loads(line) for line in TASK.format_lines(split, predictions, "jsonl")]
    assert found[1] == {"tokens": ["in", "Parísê"], "labels": ["O", "B-LOC"]}


def test_the_preset_has_the_published_sizes() -> None:
    settings = load_task("ner", preset="paper").settings
    assert (settings.hidden, settings.layers, settings.char_filters) == (200, 2, 128)
    assert (settings.elmo.projection, settings.elmo.l2, settings.crf_scheme) == (0, 0.1, "BIOUL")
