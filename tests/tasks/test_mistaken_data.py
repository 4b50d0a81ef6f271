"""Data files that cannot mean what a person thinks: column names, exchanged columns, lists."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import elmo, made, refused
from tiny_models import read

from elmo_cli.errors import InputError
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.task import load_task

SMALL = ("--elmo", "none", "--epochs", 1, "--set", "hidden=4", "--set", "char_filters=4")
QUIET = (*SMALL, "-q")


def lines_of(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(fields) + "\n" for fields in objects)


@pytest.mark.parametrize("header", ["label\ttext", "sentence\tlabel", "Gold Label\tSentence"])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("n_rows", [2, 500])
def test_a_row_of_column_names_is_no_example(header: str, labelled: bool, n_rows: int) -> None:
    """It is refused in every data file, also in one that `elmo predict` reads."""
    task = load_task("classification")
    rows = ["pos\tgood day\n", "neg\tbad day\n"] * (n_rows // 2)
    Path("a.tsv").write_text(f"\n{header}\n{''.join(rows)}")
    with pytest.raises(InputError, match=r"a\.tsv, line 2: the row names the columns") as caught:
        read_data_file(task, "a.tsv", labelled=labelled)
    assert "`sed '2d' FILE > NEW_FILE`" in caught.value.hint
    Path("a.tsv").write_text(f"pos\ttext\n{''.join(rows)}")
    assert task.collect_labels(read_data_file(task, "a.tsv")) == ["neg", "pos"]


def test_a_row_of_column_names_is_refused_in_each_command() -> None:
    Path("train.tsv").write_text("1\tA gem\n0\tA bore\n")
    train = "train.tsv"
    Path("names.tsv").write_text("label\ttext\n1\tA gem\n0\tA bore\n")
    Path("names.jsonl").write_text(
        lines_of(*({"label": label, "text": text} for label, text in [("label", "text"), (1, "A")]))
    )
    words = ("train", "classification", *QUIET, "-o", "model")
    made(*words, "--train", train, "--dev", train)
    for names in ("names.tsv", "names.jsonl"):
        for command in (
            (*words, "-f", "--train", names, "--dev", train),
            (*words, "-f", "--train", train, "--dev", names),
            ("evaluate", "model", "--test", names),
            ("predict", "model", "--as-data", names, "-o", "predicted.jsonl"),
        ):
            message = f"{names}, line 1: the row names the columns ('label', 'text')"
            refused(elmo(*command), 1, message, "delete it: `sed '1d'")
    assert not Path("predicted.jsonl").exists()


def test_exchanged_labels_and_texts_are_refused() -> None:
    Path("a.tsv").write_text("A gem of a day\tpos\nNo day\tneg\nIt drags\tneg\n")
    Path("a.jsonl").write_text(
        lines_of(
            {"label": "A gem of a day", "text": "pos"},
            {"label": "No day", "text": "neg"},
            {"label": "It drags", "text": "neg"},
        )
    )
    problem = "labels and texts seem to be exchanged: a label is 'A gem of a day'"
    for name, hint in (("a.tsv", "`awk -F '\\t'"), ("a.jsonl", "the label is the field")):
        done = elmo("train", "classification", "--train", name, "--dev", name, *QUIET, "-o", "m")
        refused(done, 1, f"{name}: {problem}", hint)


def test_exchanged_tokens_and_labels_are_warned_of() -> None:
    """Not refused: a letter, for example, may stand for one of several sounds."""
    Path("a.conll").write_text("DT the\nNN dog\nVB sleeps\n\nDT a\nNN cat\nVB stays\n")
    data = ("--train", "a.conll", "--dev", "a.conll")
    done = made("train", "ner", *data, *SMALL, "-o", "model")
    problem = "tokens and labels seem to be exchanged, a label is 'a'"
    hint = "choose the columns, such as `--set token_column=2` and `--set label_column=1`"
    assert f"warning: a.conll: {problem}; {hint}" in done.err


POS_LAST = "Anna B-PER NNP\nslept O VBD\n\nHe O PRP\nleft O VBD\n"


@pytest.mark.parametrize(
    ("rows", "settings", "is_warned"),
    [
        (POS_LAST, [], True),
        (POS_LAST, ["--set", "label_column=3"], False),
        (POS_LAST, ["--set", "label_column=-1"], False),
        ("Anna B-NP B-PER\nslept B-VP O\n", [], False),  # CoNLL-2003
        ("Anna X NNP\nslept O VBD\n", [], False),
        ("Anna O NNP\nslept O VBD\n", [], False),
    ],
)
def test_labels_of_spans_in_another_column_are_warned_of(
    rows: str, settings: list[str], is_warned: bool
) -> None:
    """The last column is read by default, which here has parts of speech."""
    Path("a.conll").write_text(rows)
    data = ("--train", "a.conll", "--dev", "a.conll")
    done = made("train", "ner", *data, *SMALL, *settings, "-o", "model")
    problem = "a.conll: column 2 has labels of spans such as 'B-PER', the last has not"
    assert (f"{problem}; `--set label_column=2` reads them" in done.err) == is_warned


@pytest.mark.parametrize(
    ("rows", "is_warned"),
    [
        ("Anna PER\nslept O\nin O\n", True),
        ("Anna PER\nBerg PER\nslept O\n", False),  # O may be any label
        ("Anna B-PER\nslept O\nin O\n", False),
        ("Anna NNP\nslept VBD\nin IN\n", False),
    ],
)
def test_types_of_spans_without_letters_are_warned_of(rows: str, is_warned: bool) -> None:
    """Their accuracy is high for a model that finds nothing."""
    Path("a.conll").write_text(rows)
    data = ("--train", "a.conll", "--dev", "a.conll")
    done = made("train", "ner", *data, *SMALL, "-o", "model")
    warning = "warning: a.conll: the most frequent label is O, but none begins with B- or I-"
    assert (warning in done.err) == is_warned


@pytest.mark.parametrize(("n_equal", "is_warned"), [(2, False), (3, True)])
@pytest.mark.parametrize("task", ["entailment", "similarity"])
def test_pairs_of_equal_sentences_are_warned_of(task: str, n_equal: int, is_warned: bool) -> None:
    """As if both fields had been filled from one column."""
    pairs = []
    for number in range(4):
        second = "A cat" if number < n_equal else "A dog"
        pairs.append({"sentence1": "A cat", "sentence2": second, "label": number % 2})
    Path("a.jsonl").write_text(lines_of(*pairs))
    done = made("train", task, "--train", "a.jsonl", "--dev", "a.jsonl", *SMALL, "-o", "model")
    warning = f"warning: a.jsonl: both sentences are equal in {n_equal} of 4 pairs; are both fields"
    assert (warning in done.err) == is_warned


def squad(*answers: dict[str, Any] | None) -> str:
    """SQuAD with a question for each answer; None for a question that has none."""
    questions = []
    for number, answer in enumerate(answers):
        answers_of_question = [] if answer is None else [answer]
        question = {"id": str(number), "question": "Who ?", "answers": answers_of_question}
        questions.append({**question, "is_impossible": answer is None})
    context = "Anna met Ben in Oslo , and they went home ."
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]})


def test_questions_without_an_answer_are_refused_with_a_way_out() -> None:
    """Of SQuAD 2.0; the page that the hint names has the command."""
    Path("FILE").write_text(squad({"text": "Anna", "answer_start": 0}, None))
    files = ("--train", "FILE", "--dev", "FILE")
    done = elmo("train", "qa", *files, *QUIET, "-o", "model")
    refused(done, 1, "FILE, question 1: the question has no answer, as many of SQuAD 2.0", "data-")
    page = (Path(__file__).parents[2] / "docs/reference/data-formats.md").read_text()
    [command] = re.findall("`(jq [^`]*)`", page)
    subprocess.run(command, shell=True, check=True)
    task = load_task("qa")
    [question] = read_data_file(task, "NEW_FILE").examples
    assert question.target == ("Anna",)


def test_an_answer_without_its_position_is_named() -> None:
    Path("a.json").write_text(squad({"text": "Anna"}))
    done = elmo("train", "qa", "--train", "a.json", "--dev", "a.json", *QUIET, "-o", "model")
    refused(done, 1, "a.json, question 0: the answer 'Anna' has no answer_start", "--on-error")


@pytest.mark.parametrize(("n_long", "n_all", "is_warned"), [(1, 20, False), (1, 19, True)])
def test_answers_that_are_never_predicted_are_warned_of(
    n_long: int, n_all: int, is_warned: bool
) -> None:
    short = {"text": "Anna", "answer_start": 0}
    long = {"text": "Anna met Ben", "answer_start": 0}
    Path("a.json").write_text(squad(*[long] * n_long, *[short] * (n_all - n_long)))
    data = ("--train", "a.json", "--dev", "a.json", "--set", "max_answer=2")
    done = made("train", "qa", *data, *SMALL, "-o", "model")
    warning = f"a.json: 1 of {n_all} answers have more than 2 tokens (`--set max_answer=…`), so"
    assert (warning in done.err) == is_warned


@pytest.mark.parametrize(("n_labels", "is_warned"), [(19, False), (20, True)])
def test_labels_that_occur_once_are_warned_of(n_labels: int, is_warned: bool) -> None:
    """Such as the numbers of rows, which dev has too."""
    rows = [f"{number}\tday {number} and\n" for number in range(n_labels)]
    Path("a.tsv").write_text("".join(rows))
    data = ("--train", "a.tsv", "--dev", "a.tsv")
    done = made("train", "classification", *data, *SMALL, "-o", "model", "--json")
    line = f"labels of train that occur more than once: 0 of {n_labels} (0.0%)"
    assert line in done.err
    assert (f"warning: {line}, not '0'; are the labels in another column" in done.err) == is_warned
    expected = {"fitting": 0, "of": n_labels, "example": "0"}
    assert json.loads(done.out)["fit"]["repeated_labels"] == expected


def test_a_label_of_dev_that_is_none_of_a_span_is_refused_before_training() -> None:
    Path("train.conll").write_text("Anna B-PER\nslept O\n")
    train = "train.conll"
    Path("dev.conll").write_text("Anna B-PER\nBerg PER\n")
    done = elmo("train", "ner", "--train", train, "--dev", "dev.conll", *QUIET, "-o", "model")
    refused(done, 1, "dev.conll, line 1: label 'PER' is neither O nor", "label all spans in BIO")
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("task", "fields", "problem"),
    [
        ("classification", {"label": 1.0, "text": "A"}, "1.0 is not a string or a whole number"),
        ("classification", {"label": True, "text": "A"}, "true is not a string or a whole number"),
        ("classification", {"label": 1, "text": 5}, "5 is not a string or a list"),
        ("classification", {"label": 1, "text": "A" * 99, "tokens": 5}, "5 is not a string or a l"),
        ("ner", {"tokens": "A day", "labels": ["X", "X"]}, '"A day" is not a list'),
        ("ner", {"tokens": ["A", 5], "labels": ["X", "X"]}, "neither a list of strings nor a str"),
        (
            "similarity",
            {"premise": "A", "hypothesis": "B", "score": "high"},
            '"high" is not a number',
        ),
    ],
)
def test_a_field_of_the_wrong_type_is_shown(
    task: str, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        read(task, "a.jsonl", lines_of(fields))


@pytest.mark.parametrize("task", ["ner", "classification", "entailment", "srl", "coref", "qa"])
@pytest.mark.parametrize("content", ["[\n {}\n]\n", "[{}]\n"])
def test_a_list_of_json_is_not_read_as_lines(task: str, content: str) -> None:
    Path("a.json").write_text(content)
    with pytest.raises(InputError, match=r"a\.json: a JSON list, not an object") as caught:
        read_data_file(load_task(task), "a.json", on_error="skip")
    assert "`jq -c '.[]' FILE > NEW_FILE`" in caught.value.hint
