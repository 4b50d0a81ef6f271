"""Labels that are missing or unknown, and data without anything to score, in every task."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, elmo, made, refused

from elmo_cli.errors import InputError
from elmo_cli.messages import plural
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.data_fit import fit_of_test_data, fit_of_training_data
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import Task, load_task

SMALL = ("--elmo", "none", "--epochs", 1, "--set", "hidden=4", "--set", "char_filters=4")
QUIET = (*SMALL, "-q")


def lines_of(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(fields) + "\n" for fields in objects)


def pair(label: object, **more: object) -> dict[str, Any]:
    return {"premise": "It rains.", "hypothesis": "It is wet.", "label": label, **more}


def frame(tags: object) -> dict[str, Any]:
    frames = [{"predicate": 1, "tags": tags}]
    return {"tokens": ["She", "sold", "it"], "frames": frames}


def document(clusters: object) -> dict[str, Any]:
    return {"doc_key": "a", "sentences": [["Anna", "saw", "her"]], "clusters": clusters}


# Task -> labeled training data, and a test example with the labels that are given.
DATA = {
    "ner": ("Anna B-PER\nBerg I-PER\nslept O\n\nOslo B-LOC\nslept O\n", "Anna {}\n"),
    "classification": ("1\tA gem\n0\tA bore\n", "{}\tA day\n"),
    "entailment": (lines_of(pair("yes"), pair("no")), None),
    "similarity": (lines_of(pair(1.5), pair(4)), None),
    "srl": (lines_of(frame("B-ARG0 B-V B-ARG1"), frame("O B-V B-ARG1")), None),
    "coref": (lines_of(document([[[0, 0], [2, 2]]])), None),
}


def train_data(name: str) -> str:
    path = "train.conll" if name == "ner" else "train.tsv"
    if DATA[name][0].startswith("{"):
        path = "train.jsonl"
    Path(path).write_text(DATA[name][0])
    return path


def trained(name: str) -> Task:
    task = load_task(name)
    task.labels = task.collect_labels(read_data_file(task, train_data(name)))
    return task


def read(task: Task, text: str) -> Split:
    suffix = ".jsonl" if text.startswith("{") else ".conll"
    Path(f"test{suffix}").write_text(text)
    return read_data_file(task, f"test{suffix}")


@pytest.mark.parametrize("label", ["-", "-1", "_", "", None, -1, float("nan")])
@pytest.mark.parametrize("name", DATA)
def test_examples_without_a_label_are_left_out(name: str, label: object) -> None:
    task = trained(name)
    if name == "ner":
        rows = [{"tokens": ["a"], "ner_tags": ["O"]}, {"tokens": ["a"], "ner_tags": [label]}]
    elif name == "classification":
        rows = [{"text": "A day.", "label": 1}, {"text": "A day.", "label": label}]
    elif name == "srl":
        rows = [frame("O B-V O"), frame([label, "B-V", "O"])]
    elif name == "coref":
        rows = [document([[[0, 0], [2, 2]]]), document(label)]
    else:
        known = "yes" if name == "entailment" else 2
        rows = [pair(known), pair(label)]
    split = read(task, lines_of(*rows))
    [example] = split.examples
    assert len(split.sentences) == len(example.sentences)
    assert split.keys == [0] * len(split.sentences)
    assert split.unlabelled == ["test.jsonl, line 2"]
    Path("all.jsonl").write_text(lines_of(*rows))
    whole = read_data_file(task, "all.jsonl", every_row=True)
    assert [task.is_labelled(example) for example in whole.examples] == [True, False]
    assert [example.key for example in whole.examples] == [0, 1]


def test_a_sentence_stays_if_one_of_its_frames_has_labels() -> None:
    def frames(*tags: object) -> dict[str, Any]:
        fields = [{"predicate": 1, "tags": of_frame} for of_frame in tags]
        return {"tokens": ["She", "sold", "it"], "frames": fields}

    labels = "O B-V O"
    split = read(trained("srl"), lines_of(frames(labels, None), frames("-"), frames(None, labels)))
    assert [(frame.sentences, frame.key) for frame in split.examples] == [((0,), 0), ((1,), 2)]
    assert split.keys == [0, 2]
    assert split.unlabelled == [f"test.jsonl, line {number}" for number in (1, 2, 3)]


def test_data_without_a_valid_example_say_what_is_wrong_with_the_first() -> None:
    Path("a.tsv").write_text("no tab\nnone\n")
    problem = "a.tsv: contains no valid example; the first is invalid: a.tsv, line 1: expected a la"
    with pytest.raises(InputError, match=re.escape(problem)):
        read_data_file(load_task("classification"), "a.tsv", on_error="skip")
    Path("a.tsv").write_bytes("1\tA caf\u00e9\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: ") as caught:
        read_data_file(load_task("classification"), "a.tsv")
    assert "`iconv -f CP1252 -t UTF-8 FILE > NEW_FILE`" in caught.value.hint
    Path("a.tsv").write_bytes("1\tA cafe\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"a\.tsv, line 1: 0xFF") as caught:
        read_data_file(load_task("classification"), "a.tsv")
    assert "`-f UTF-16`" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ner", "Anna O\n\nslept O\n"),
        ("similarity", lines_of(pair(3), pair(3.0))),
        ("srl", lines_of(frame("O B-V O"))),
        ("coref", lines_of(document([]))),
        ("coref", "#begin document (a); part 000\na 0 0 Anna -\n#end document\n"),
    ],
)
def test_data_without_anything_to_score_are_refused(name: str, text: str) -> None:
    train = train_data(name)
    suffix = ".jsonl" if text.startswith("{") else ".conll"
    Path(f"dev{suffix}").write_text(text)
    words = ("--dev", f"dev{suffix}", *QUIET, "-o", "model")
    done = elmo("train", name, "--train", train, *words)
    refused(done, 1, f"dev{suffix}: examples with something to score: none of ", "give data")
    assert not Path("model").exists()
    made("train", name, "--train", train, "--dev", train, *QUIET, "-o", "model")
    done = elmo("evaluate", "model", "--test", f"dev{suffix}")
    refused(done, 1, f"dev{suffix}: examples with something to score: none of ", "give data")


UNKNOWN = {
    "ner": ("Anna B-PER\nB B-ORG\nslept O\n", "Anna I-ORG\nslept O\n"),  # O is not scored
    "classification": ("1\tA\n7\tB\n", "7\tB\n"),
    "entailment": (lines_of(pair("yes"), pair(0)), lines_of(pair(0), pair("Yes"))),
    "srl": (lines_of(frame("B-ARG1 B-V B-ARG9")), lines_of(frame("B-ARG9 B-V O"))),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_labels_count_as_errors_unless_all_are_unknown(name: str) -> None:
    some, none = UNKNOWN[name]
    train = train_data(name)
    suffix = ".jsonl" if some.startswith("{") else ".conll"
    Path(f"some{suffix}").write_text(some)
    Path(f"none{suffix}").write_text(none)
    warning = "warning: labels known to the model: 1 of 2 (50.0%), not '"
    words = ("train", name, "--train", train, *SMALL, "-o", "model")
    done = made(*words, "--dev", f"some{suffix}", "--json")
    assert warning in done.err
    fit = json.loads(done.out)["fit"]
    assert fit["known_labels"] == {"fitting": 1, "of": 2, "example": fit["known_labels"]["example"]}
    assert warning in made("evaluate", "model", "--test", f"some{suffix}").err
    message = f"none{suffix}: labels known to the model: none of "
    refused(elmo("evaluate", "model", "--test", f"none{suffix}"), 1, message, "count as errors")
    refused(elmo(*words, "--dev", f"none{suffix}", "-f"), 1, message, "count as errors")


def test_examples_of_dev_that_are_in_train_are_warned_of() -> None:
    task = trained("entailment")
    train = read_data_file(task, "train.jsonl")
    dev = read(task, lines_of(pair("yes"), pair("no", premise="It snows.")))
    [*_, repeated] = fit_of_training_data(task, train, dev, None)
    assert (repeated.n_fitting, repeated.n_all) == (1, 2)
    assert repeated.warning
    assert "dev_in_train" not in {point.rule.key for point in fit_of_test_data(task, dev, None)}


def test_tokens_of_plain_labels_without_a_label_are_not_scored() -> None:
    """In CoNLL-U, `_` is no part of speech, but a value of FEATS."""
    row = "{}\tcat\tcat\tNOUN\t{}\t_\t0\troot\t_\t_\n"
    Path("a.conllu").write_text(row.format(1, "NN") + row.format(2, "_") + row.format(3, "VB"))
    task = load_task("ner")
    split = read_data_file(task, "a.conllu")
    task.labels = task.collect_labels(split)
    assert task.labels["names"] == ["NN", "VB"]
    scores = task.score(split.examples, [("NN", "VB", "NN")])
    assert scores.values == {"accuracy": 50}
    feats = read_data_file(load_task("ner", {"label_column": "feats"}), "a.conllu")
    assert feats.examples[0].target == ("_", "_", "_")
    Path("a.conll").write_text("a 1 1 1 1 X\nb 1 1 1 1 _\n")
    columns = read_data_file(load_task("ner", {"label_column": "6"}), "a.conll")
    assert columns.examples[0].target == ("X", None)


def test_numbers_as_labels_of_tokens_are_warned_of() -> None:
    text = lines_of({"tokens": ["Anna", "slept"], "ner_tags": [1, 0]})
    Path("a.jsonl").write_text(text)
    done = made("train", "ner", "--train", "a.jsonl", "--dev", "a.jsonl", *SMALL, "-o", "ner")
    assert "warning: a.jsonl: all labels are numbers" in done.err


@pytest.mark.parametrize(
    ("name", "text", "pair"),
    [
        (
            "ner",
            lines_of({"tokens": ["Anna", "it"], "tags": ["B-PER", "B-per"]}),
            "'B-PER' and 'B-per'",
        ),
        (
            "classification",
            lines_of({"label": "Pos", "text": "a"}, {"label": "pos", "text": "b"}),
            "'Pos' and 'pos'",
        ),
        (
            "classification",
            lines_of({"label": " pos", "text": "a"}, {"label": "pos", "text": "b"}),
            "' pos' and 'pos'",
        ),
    ],
)
def test_labels_that_differ_only_in_case_are_warned_of(name: str, text: str, pair: str) -> None:
    Path("a.jsonl").write_text(text)
    done = made("train", name, "--train", "a.jsonl", "--dev", "a.jsonl", *SMALL, "-o", "model")
    assert f"warning: a.jsonl: the labels {pair} differ only in case or white space" in done.err


def test_spans_may_have_no_type() -> None:
    """As in data sets of one kind of entity."""
    Path("a.conll").write_text("the O\nheat B\nshock I\nprotein I\n\nit O\n")
    data = ("--train", "a.conll", "--dev", "a.conll")
    facts = json.loads(made("train", "ner", *data, *QUIET, "-o", "ner", "--json").out)
    assert facts["dev"]["by_type"]["_"]["gold"] == 1
    made("evaluate", "ner", "--test", "a.conll")


@pytest.mark.parametrize(
    "labels",
    ["B_PER I_PER o", "B\u2013PER I\u2013PER O", "PER-B PER-I O", "b-PER i-PER o", "(PER* *) *"],
)
def test_labels_of_spans_in_another_spelling_are_refused(labels: str) -> None:
    rows = zip(["Anna", "Berg", "slept"], labels.split(), strict=True)
    Path("a.conll").write_text("".join(f"{token}\t{label}\n" for token, label in rows))
    done = elmo("train", "ner", "--train", "a.conll", "--dev", "a.conll", *QUIET, "-o", "ner")
    refused(done, 1, "a.conll: labels such as '", "write B-PER and I-PER")


def test_the_lowest_score_is_the_last_thing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    train = train_data("ner")
    words = ("train", "ner", "--train", train, "--dev", train, *SMALL, "-o", "model")

    def last_line(done: Done) -> str:
        return done.err.splitlines()[-1]

    assert last_line(made(*words)).startswith("warning: the best f1 on dev is 0.00, the lowest")
    more = (*words[:-2], "-o", "more", "--epochs", 60, "--learning-rate", 0.05)
    assert "the lowest" not in made(*more).err


def qa_line(start: object = 4, **more: object) -> dict[str, Any]:
    answers = {"text": ["Rhine"], "answer_start": [start]}
    fields = {"context": "The Rhine rises.", "question": "What rises?", "answers": answers}
    return {"id": str(start), **fields, **more}


# Task -> valid data, an invalid line, and what is wrong with it.
INVALID = {
    "classification": (DATA["classification"][0], "no tab\n", "expected a label, a tab"),
    "entailment": (DATA["entailment"][0], "{\n", "not JSON"),
    "similarity": (DATA["similarity"][0], lines_of(pair("high")), "no valid relatedness"),
    "srl": (DATA["srl"][0], lines_of(frame("B-V")), "3 tokens, but 1 tag"),
    "coref": (DATA["coref"][0], lines_of(document([[[0, 9]]])), "the mention [0, 9]"),
    "qa": (
        lines_of(qa_line()),
        lines_of(qa_line(5), qa_line(None)),
        "'Rhine' is not at character 5 of",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_examples_may_be_left_out_of_training(name: str) -> None:
    valid, line, problem = INVALID[name]
    suffix = "jsonl" if valid.startswith("{") else "tsv"
    Path(f"valid.{suffix}").write_text(valid)
    Path(f"train.{suffix}").write_text(valid + line)
    words = ("train", name, "--train", f"train.{suffix}", "--dev", f"valid.{suffix}", *QUIET)
    done = elmo(*words, "-o", "model")
    refused(done, 1, f"train.{suffix}, ", "`--on-error skip`")
    assert problem in done.err
    if name == "qa":
        assert "(2 of 3 examples are invalid)" in done.err
    done = elmo(*words, "-o", "model", "--on-error", "skip")
    count = "2 examples were" if name == "qa" else "1 example was"
    refused(done, 3, f"{count} left out, the first train.{suffix}, ", "trained on all others")
    made(*words[:3], f"valid.{suffix}", *words[4:], "-o", "same")
    assert (
        json.loads(Path("model/task.json").read_text())["labels"]
        == json.loads(Path("same/task.json").read_text())["labels"]
    )


@pytest.mark.parametrize("name", ["classification", "srl"])
def test_invalid_examples_of_dev_are_reported_too(name: str) -> None:
    valid, line, problem = INVALID[name]
    suffix = "jsonl" if valid.startswith("{") else "tsv"
    Path(f"train.{suffix}").write_text(valid)
    Path(f"dev.{suffix}").write_text(valid + line)
    words = ("train", name, "--train", f"train.{suffix}", "--dev", f"dev.{suffix}", *QUIET)
    done = elmo(*words, "-o", "model", "--on-error", "skip")
    refused(done, 3, f"1 example was left out, the first dev.{suffix}, ", "trained on all others")
    assert problem in done.err


def _conll_2012(*sentences: str) -> str:
    """A document of sentences of a word and "slept": two arguments, and an entity of both words."""
    text = ""
    for number, word in enumerate(sentences):
        text += f"a 0 0 {word} NNP * - - - - * (ARG0*) ({number}\n"
        text += f"a 0 1 slept VBD * sleep 1 - - * (V*) {number})\n"
        text += "a 0 2 late RB * - - - - * (ARG1*) -\n\n"
    return f"#begin document (a); part 000\n{text}#end document\n"


# Valid columns, others with one invalid line, and where it is in a file of both: a row has too few
# cells, an invalid character, or a wrong number.
INVALID_COLUMNS = {
    "ner.conll": ("Ada B-P\nslept O\n\nCy B-Q\n", "Ben B-P\nslept O O\n", "line 6"),
    "ner.txt": ("Ada B-P\nslept O\n\nCy B-Q\n", "B\x01n B-P\nslept O\n", "line 6"),
    "ner.conllu": (
        "1\tAda\t_\t_\tN\n2\tslept\t_\t_\tV\n",
        "1\tBen\t_\t_\tN\n3\tslept\t_\t_\tV\n",
        "line 5",
    ),
    "srl.conll": (_conll_2012("Ada"), _conll_2012("Ben").replace("Ben", "Ben B"), "line 10"),
    "coref.conll": (
        _conll_2012("Ada"),
        _conll_2012("Eve", "Ben").replace("Ben", "Ben B"),
        "line 14",
    ),
}


@pytest.mark.parametrize("file", INVALID_COLUMNS)
def test_invalid_sentences_of_columns_may_be_left_out_too(file: str) -> None:
    valid, invalid, where = INVALID_COLUMNS[file]
    name = file.partition(".")[0]
    train = f"train-{file}"
    Path(f"valid-{file}").write_text(valid)
    Path(train).write_text(f"{valid}\n{invalid}")
    words = ("train", name, "--train", train, "--dev", f"valid-{file}", *SMALL, "--json")
    refused(elmo(*words, "-o", "model"), 1, f"{train}, {where}: ", "")
    assert not Path("model").exists()
    done = elmo(*words, "-o", "model", "--on-error", "skip")
    assert done.code == 3, done.err
    assert f"1 example was left out, the first {train}, {where}: " in done.err
    n_valid = len(read_data_file(load_task(name), f"valid-{file}").examples)
    assert f"{name}: {plural(n_valid, 'example')}, dev {n_valid}; " in done.err
