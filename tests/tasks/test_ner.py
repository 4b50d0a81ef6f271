"""Task `ner`: its files, its labels, its scores and its predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_models import assert_refused, read, read_text

from elmo_cli.errors import InputError
from elmo_cli.tasks.ner import NerTask
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import Example

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
        ("a.conll", "Ada\nslept\n", {}, "line 1: `label_column=-1` is the column of the tokens"),
        ("a.conll", CONLL + "\nin\n", {}, "a.conll, line 7: `label_column"),
        ("a.conll", CONLL + "in\n", {}, "line 6: 'in': the number of columns is 1"),
        ("a.conll", CONLL, {"label_column": "4"}, "line 1: `label_column=4` is missing"),
        ("a.conll", CONLL, {"label_column": "0"}, "`label_column=0`: columns are counted from 1"),
        ("a.conll", CONLL, {"label_column": "upos"}, "no column of"),
        ("a.conllu", CONLL, {}, "line 1: .* is not a row of CoNLL-U"),
        ("a.conllu", CONLLU[9:].replace("2\ts", "3\ts"), {}, "line 2: ID '3' instead of 2"),
        ("a.conll", "1 Ada B-PER\n2 slept O\n", {}, "column 1 .* may not hold tokens"),
        ("a.jsonl", '{"tokens":["It"],"labels":["O", "O"]}', {}, "line 1: 1 token, but 2 labels"),
        ("a.jsonl", '{"tokens":["It"],"labels":[0.5]}', {}, "the label 0.5 is neither"),
    ],
)
def test_bad_files_are_refused(name: str, text: str, settings: dict, words: str) -> None:
    assert_refused("ner", name, text, words, **settings)


@pytest.mark.parametrize(
    "name", ["ner_tags", "labels", "tags", "pos_tags", "chunk_tags", "upos", "xpos"]
)
@pytest.mark.parametrize("words", ["tokens", "words"])
def test_labels_of_json_lines_have_any_of_the_usual_names(words: str, name: str) -> None:
    """`label_column` names another one."""
    line = {"mine": ["B-X", "O"], words: ["Ada", "slept"], name: ["B-PER", "O"]}
    assert read("ner", "a.jsonl", json.dumps(line)).examples[0].target == ("B-PER", "O")
    chosen = read("ner", "a.jsonl", json.dumps(line), label_column="mine")
    assert chosen.examples[0].target == ("B-X", "O")
    both = {"xpos": ["NNP", "VBD"], "chunk_tags": ["B-NP", "O"], **line, "ner_tags": ["B-LOC", "O"]}
    assert read("ner", "a.jsonl", json.dumps(both)).examples[0].target == ("B-LOC", "O")


NUMBERED = "# a comment\n1\tIn\tO\tX\n2\tUlm\tB-LOC\tX\n\n1\tAda\tB-PER\tX\n"


def test_tokens_may_be_in_another_column() -> None:
    """GermEval 2014, CoNLL-X and HIPE number the tokens; the hint names the setting."""
    assert_refused("ner", "a.tsv", NUMBERED, "line 2: column 1 .* may not hold tokens")
    with pytest.raises(InputError) as caught:
        read("ner", "a.tsv", NUMBERED)
    assert "`token_column=2` reads the second column" in caught.value.hint
    settings = {"token_column": "2", "label_column": "3"}
    split = read("ner", "a.tsv", NUMBERED, **settings)
    assert split.sentences == [("In", "Ulm"), ("Ada",)]
    assert [example.target for example in split.examples] == [("O", "B-LOC"), ("B-PER",)]
    unlabelled = read("ner", "a.tsv", "1\tIn\n2\tUlm\n", labelled=False, **settings)
    assert unlabelled.sentences == [("In", "Ulm")]
    lemmas = read("ner", "a.conllu", CONLLU, token_column="lemma")
    assert lemmas.sentences == [("cat", "sleep"), ("yes",)]
    words = "line 2: `label_column=2` is the column of the tokens"
    assert_refused("ner", "a.tsv", NUMBERED, words, token_column="2", label_column="2")
    assert_refused("ner", "a.tsv", NUMBERED, "`token_column=0`: columns", token_column="0")


def heading_lines(split: Split) -> dict[int, str]:
    """The last line before each sentence that is not blank, by the index of the sentence."""
    headings = {}
    for index, example in enumerate(split.examples):
        for other_line in example.other_lines:
            if other_line.text:
                headings[index] = other_line.text
    return headings


def test_a_document_start_is_no_sentence() -> None:
    """As in `elmo embed`; it is kept for what writes predictions next to the rows."""
    starts = "-DOCSTART- -X- O\n\n"
    split = read("ner", "a.conll", f"{starts}{CONLL}\n{starts}It X O\n")
    assert split.sentences == read("ner", "a.conll", f"{CONLL}\nIt X O\n").sentences
    assert heading_lines(split) == {0: "-DOCSTART- -X- O", 2: "-DOCSTART- -X- O"}
    numbered = "1\t-DOCSTART-\tO\n\n1\tIn\tO\n2\tUlm\tB-LOC\n"
    split = read("ner", "a.tsv", numbered, token_column="2")
    assert split.sentences == [("In", "Ulm")]
    assert heading_lines(split) == {0: "1\t-DOCSTART-\tO"}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (CONLL, {"scheme": "BIO", "names": ["LOC", "PER"]}),
        (IN_BIOUL, {"scheme": "BIOUL", "names": ["LOC", "PER"]}),
        ("a I\nb O\n", {"scheme": "BIO", "names": [""]}),
        ("a NN\nb VB\nc I\n", {"scheme": None, "names": ["I", "NN", "VB"]}),
        ("a O\n", "a.conll: fewer than two labels"),
        ("a B-X\nb Person\n", "a.conll, line 1: label 'Person' is neither O nor"),
    ],
)
def test_labels_of_the_training_data(text: str, labels: dict | str) -> None:
    train = read("ner", "a.conll", text)
    if isinstance(labels, dict):
        assert NerTask().collect_labels(train) == labels
    else:
        with pytest.raises(InputError, match=labels):
            NerTask().collect_labels(train)


def test_the_training_data_determine_the_scheme_of_scores() -> None:
    """The labels of word segmentation (B, M, E and S) may all look like span labels."""
    task = NerTask()
    examples = read("ner", "a.conll", "a S\nb B\nc E\n").examples
    task.labels = {"scheme": None, "names": ["B", "E", "M", "S"]}
    assert task.score(examples, [("B", "B", "E")]).values == pytest.approx({"accuracy": 200 / 3})
    task.labels = {"scheme": "BIO", "names": ["X"]}
    assert task.score(examples, [("O", "B", "I")]).main == "f1"
    with pytest.raises(InputError, match=r"a\.conll, line 1: label 'NNP' is neither O nor"):
        task.n_to_score(read("ner", "a.conll", "a NNP\nb O\n").examples)


def test_sentences_that_lack_a_label_have_no_spans_to_score() -> None:
    task = NerTask()
    task.labels = {"scheme": "BIO", "names": ["X"]}
    examples = read("ner", "a.conll", "a B-X\nb _\n\nc O\nd B-X\n").examples
    scores = task.score(examples, [("B-X", "O"), ("B-X", "O")])
    expected = {"f1": 0, "precision": 0, "recall": 0, "predicted": 1, "gold": 1}
    assert scores.by_type == {"X": expected}
    assert task.n_to_score(examples) == 1
    assert [task.is_learnable(example) for example in examples] == [False, True]


@pytest.mark.parametrize(
    ("scheme", "names", "n_warnings"),
    [(None, ["0", "12"], 1), (None, ["0", "NN"], 0), ("BIO", ["0", "12"], 0)],
)
def test_only_plain_labels_that_are_all_numbers_are_warned_of(
    scheme: str | None, names: list[str], n_warnings: int
) -> None:
    task = NerTask()
    task.labels = {"scheme": scheme, "names": names}
    example = Example((0,), "a.conll, line 1", (*names, "0"), key=0)
    split = Split("a.conll", sentences=[("a", "b", "c")], examples=[example])
    assert len(list(task.warnings(split))) == n_warnings


def test_predictions_are_written() -> None:
    Path("new.txt").write_text("Ada slept\n\nin Parísê\n", encoding="utf-8")
    split = read_text(NerTask(), "new.txt")
    predictions = [("B-PER", "O"), None, ("O", "B-LOC")]
    columns = ["Ada\tB-PER\nslept\tO\n\n", "\n", "in\tO\nParísê\tB-LOC\n\n"]
    assert list(NerTask().format_lines(split, predictions, "conll")) == columns
    records = [json.loads(line) for line in NerTask().format_lines(split, predictions, "jsonl")]
    assert records[1] == {"key": 1, "tokens": [], "labels": []}
    assert records[2] == {"key": 2, "tokens": ["in", "Parísê"], "labels": ["O", "B-LOC"]}
