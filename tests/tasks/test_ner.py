"""Task `ner`: its files, its labels, its scores and its predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_models import assert_refused, read

from elmo_cli.errors import InputError
from elmo_cli.tasks.ner import NerTask
from elmo_cli.tasks.task import check_labels
from elmo_cli.text.input import InputSettings

CONLL = "Ada X B-PER\nLovelace X I-PER\nslept X O\n\nParis X B-LOC\n"
TABS = CONLL.replace(" ", "\t")
IN_BIOUL = "Ada B-PER\nLovelace L-PER\nslept O\n\nParis U-LOC\n"
CONLLU = (
    "# newdoc\n1\tcats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n"
    "2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t_\t_\n\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n"
)


@pytest.mark.parametrize(
    ("name", "text", "settings", "labels"),
    [
        ("a.conll", CONLL, {}, ["B-PER I-PER O", "B-LOC"]),
        ("a.txt", TABS, {"label_column": "-1"}, ["B-PER I-PER O", "B-LOC"]),
        ("a.tsv", TABS, {"label_column": "2"}, ["X X X", "X"]),
        ("a.conllu", CONLLU, {}, ["NNS VBP", "UH"]),
        ("a.conllu", CONLLU, {"label_column": "upos"}, ["NOUN VERB", "INTJ"]),
        ("a.conllu", CONLLU, {"label_column": "-3"}, ["nsubj root", "root"]),
    ],
)
def test_files_are_read(name: str, text: str, settings: dict, labels: list[str]) -> None:
    split = read("ner", name, text, **settings)
    assert [" ".join(example.target) for example in split.examples] == labels
    assert [len(tokens) for tokens in split.sentences] == [
        len(labels_of_sentence.split()) for labels_of_sentence in labels
    ]
    assert [example.sentences for example in split.examples] == [(0,), (1,)]
    unlabelled = read("ner", name, text, labelled=False)
    assert unlabelled.sentences == split.sentences
    assert {example.target for example in unlabelled.examples} == {None}


@pytest.mark.parametrize(
    ("name", "text", "settings", "words"),
    [
        ("a.conll", "Ada\nslept\n", {}, "line 1: `label_column=2` is missing: .* is 1"),
        ("a.conll", CONLL + "\nin\n", {}, "a.conll, line 7: `label_column"),
        ("a.conll", CONLL + "in\n", {}, "line 6: 'in': the number of columns is 1"),
        ("a.conll", CONLL, {"label_column": "4"}, "line 1: `label_column=4` is missing"),
        ("a.conll", CONLL, {"label_column": "0"}, "`label_column=0`: columns are counted from 1"),
        ("a.conll", CONLL, {"label_column": "upos"}, "no column of"),
        ("a.conllu", CONLL, {}, "line 1: .* is not a row of CoNLL-U"),
        ("a.conllu", CONLLU[9:].replace("2\ts", "3\ts"), {}, "line 2: ID '3' instead of 2"),
        ("a.conll", "1 Ada B-PER\n2 slept O\n", {}, "column 1 .* may not hold tokens"),
        ("a.jsonl", '{"tokens":["It"],"labels":["O"]}', {}, "expected columns, found JSON lines"),
    ],
)
def test_bad_files_are_refused(name: str, text: str, settings: dict, words: str) -> None:
    assert_refused("ner", name, text, words, **settings)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (CONLL, {"scheme": "BIO", "names": ["LOC", "PER"]}),
        (IN_BIOUL, {"scheme": "BIOUL", "names": ["LOC", "PER"]}),
        ("a I\nb O\n", {"scheme": "BIO", "names": [""]}),
        ("a NN\nb VB\nc I\n", {"scheme": None, "names": ["I", "NN", "VB"]}),
        ("a O\n", "a.conll: fewer than two labels"),
        ("a B-X\nb Person\n", "a.conll, line 1: label `Person` is neither O nor"),
    ],
)
def test_labels_of_the_training_data(text: str, labels: dict | str) -> None:
    train = read("ner", "a.conll", text)
    if isinstance(labels, dict):
        assert NerTask().collect_labels(train) == labels
    else:
        with pytest.raises(InputError, match=labels):
            NerTask().collect_labels(train)


@pytest.mark.parametrize(
    ("train", "dev", "is_known"),
    [
        ("a B-X\nb O\n", "b U-X\nc I-X\n", True),
        ("a B-X\nb O\n", "b B-Y\n", False),
        ("a B-X\nb O\n", "b X\n", False),
        ("a NN\n", "b VB\n", False),
    ],
)
def test_unknown_labels_are_refused(train: str, dev: str, is_known: bool) -> None:
    splits = [read("ner", "a.conll", text) for text in (train, dev)]
    if is_known:
        check_labels(NerTask(), *splits)
    else:
        with pytest.raises(InputError, match=r"line 1: label `.*` does not occur"):
            check_labels(NerTask(), *splits)


def test_the_training_data_determine_the_scheme_of_scores() -> None:
    """The labels of word segmentation (B, M, E and S) may all look like span labels."""
    task = NerTask()
    examples = read("ner", "a.conll", "a S\nb B\nc E\n").examples
    task.labels = {"scheme": None, "names": ["B", "E", "M", "S"]}
    assert task.score(examples, [("B", "B", "E")]).values == pytest.approx({"accuracy": 200 / 3})
    task.labels = {"scheme": "BIO", "names": ["X"]}
    assert task.score(examples, [("O", "B", "I")]).main == "f1"
    with pytest.raises(InputError, match=r"a\.conll, line 1: label `NNP` is neither O nor"):
        task.score(read("ner", "a.conll", "a NNP\nb O\n").examples, [("O", "O")])


def test_predictions_are_written() -> None:
    Path("new.txt").write_text("Ada slept\n\nin Parísê\n", encoding="utf-8")
    split = NerTask().read_text(["new.txt"], InputSettings())
    predictions = [("B-PER", "O"), ("O", "B-LOC")]
    columns = ["Ada\tB-PER\nslept\tO\n\n", "in\tO\nParísê\tB-LOC\n\n"]
    assert list(NerTask().format_lines(split, predictions, "conll")) == columns
    records = [json.loads(line) for line in NerTask().format_lines(split, predictions, "jsonl")]
    assert records[1] == {"tokens": ["in", "Parísê"], "labels": ["O", "B-LOC"]}
