"""What `elmo train`, `evaluate` and `predict` print, change and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Done, elmo, made, refused

from elmo_cli.cli.task_options import print_scores
from elmo_cli.cli.train import _warn_of_lowest_score
from elmo_cli.tasks.settings import as_flat
from elmo_cli.tasks.task import load_task

SMALL = ("--elmo", "none", "--epochs", 2, "--set", "hidden=4", "--set", "char_filters=4")
TRAIN = "Anna B-PER\nslept O\n# O\n\nBen _\nslept O\n\nOslo B-LOC\nslept O\n"
DEV = "Anna B-PER\nslept O\n# O\n\nBen _\n"
HASH = "'# O' is read as a row, not as a comment; delete it if it is one"
SCORES = ("f1", "precision", "recall")


@pytest.fixture(autouse=True)
def data() -> None:
    """Word vectors, and training and dev data with a suspicious row and one that lacks a label."""
    Path("train.conll").write_text(TRAIN)
    Path("dev.conll").write_text(DEV)
    Path("words.txt").write_text("anna 1 0\nslept 0 1\n")


def shown_of(done: Done, expected: list[str]) -> list[str]:
    """The expected lines as they are shown; a slow run has further ones about its progress."""
    return [line for line in done.err.splitlines() if line in expected]


def scores_line(title: str, scores: dict[str, Any]) -> str:
    return f"{title}: " + ", ".join(f"{name} {scores[name]:.2f}" for name in SCORES)


def table_of(scores: dict[str, Any]) -> list[str]:
    """The rows of the scores by type."""
    rows = ["\t".join(["type", *SCORES, "predicted", "gold"])]
    for name, score in scores["by_type"].items():
        cells = [f"{score[figure]:.2f}" for figure in SCORES]
        rows.append("\t".join([name, *cells, str(score["predicted"]), str(score["gold"])]))
    return rows


def test_a_run_and_an_evaluation_report_their_data_and_scores() -> None:
    files = ("--train", "train.conll", "--dev", "dev.conll", "--word-vectors", "words.txt")
    done = made("train", "ner", *files, *SMALL, "-o", "ner")
    facts = json.loads(Path("ner/scores.json").read_text())
    weights = torch.load("ner/model.pt", weights_only=True)
    n_parameters = sum(tensor.numel() for tensor in weights.values())
    log = [json.loads(line) for line in Path("ner/log.jsonl").read_text().splitlines()]
    lacks_label = "left out 1 example without a label, the first:"
    expected = [
        f"ner: 2 examples, dev 1; {n_parameters:,} parameters",
        f"warning: train.conll, line 3: {HASH}",
        f"warning: train.conll: {lacks_label} train.conll, line 5",
        f"warning: dev.conll, line 3: {HASH}",
        f"warning: dev.conll: {lacks_label} dev.conll, line 5",
        "tokens with a word vector: 6 of 10 (60.0%)",
        "examples with something to score: 1 of 1 (100.0%)",
        "labels known to the model: 1 of 1 (100.0%)",
        "warning: examples of dev that are also in train: 1 of 1 (100.0%); scores on them say "
        "little about new text",
    ]
    for line in log:
        dev = ", ".join(f"{name} {line['dev'][name]:.2f}" for name in SCORES)
        losses = f"loss {line['loss']:.3f}, dev {dev}"
        expected.append(f"epoch {line['epoch']}: {losses}, {line['seconds']:.1f} s")
    assert shown_of(done, expected) == expected
    assert facts["seconds"] == pytest.approx(sum(line["seconds"] for line in log))
    title = f"dev, epoch {facts['best_epoch']} of 2"
    *shown, end = done.out.decode().splitlines()
    assert shown == [scores_line(title, facts["dev"]), *table_of(facts["dev"])]
    assert re.fullmatch(r"ner: trained in \d.*", end)

    evaluated = json.loads(made("evaluate", "ner", "--test", "dev.conll", "--json").out)
    done = made("evaluate", "ner", "--test", "dev.conll")
    assert (evaluated["test"], evaluated["examples"]) == ("dev.conll", 1)
    title = "dev.conll, 1 example"
    assert done.out.decode().splitlines() == [scores_line(title, evaluated), *table_of(evaluated)]
    of_test = [
        f"warning: dev.conll, line 3: {HASH}",
        "tokens with a word vector: 2 of 3 (66.7%)",
        *expected[6:8],
        "warning: dev.conll: 1 example without a label, not scored; the first: dev.conll, line 5",
    ]
    assert shown_of(done, of_test) == of_test
    assert evaluated["fit"].keys() == {
        "tokens_with_word_vector",
        "examples_to_score",
        "known_labels",
    }


def test_each_option_changes_its_setting() -> None:
    changes: dict[str, tuple[str, object]] = {
        "--elmo": ("elmo.layers", "last"),
        "--elmo-at": ("elmo.where", "both"),
        "--epochs": ("epochs", 3),
        "--patience": ("patience", 2),
        "--batch-size": ("batch_size", 5),
        "--learning-rate": ("learning_rate", 0.02),
        "--fraction": ("fraction", 0.5),
        "--seed": ("seed", 7),
    }
    words: list[object] = []
    for option, (_, value) in changes.items():
        words += [option, value]
    several = ("--set", "hidden = 9", "--set", "label_column = a=b")
    done = made("train", "ner", "--settings", "--preset", "paper", *words, *several)
    settings = as_flat(load_task("ner", preset="paper").settings)
    settings |= dict(changes.values()) | {"hidden": 9, "label_column": "a=b"}
    shown = [f"{name}\t{value}" for name, value in settings.items()]
    assert done.out.decode().splitlines() == shown


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (("ner", "--label-column", "upos"), "label_column"),
        (("--label-column=upos", "ner"), "label_column"),
        (("coref", "--elmo-dropout", "0"), "elmo.dropout"),
    ],
)
def test_an_unknown_option_with_the_name_of_a_setting_leads_to_set(
    words: tuple[str, ...], setting: str
) -> None:
    done = elmo("train", *words)
    refused(done, 2, "no such option '--", f"`--set {setting}=…` changes this setting")


@pytest.mark.parametrize("words", [("coref", "--label-column", "2"), ("--hidden", "200")])
def test_a_setting_of_no_task_on_the_line_is_an_unknown_option(words: tuple[str, ...]) -> None:
    refused(elmo("train", *words), 2, "no such option '--", "see `elmo train --help`")


@pytest.mark.parametrize(
    ("score", "finding"),
    [(-3.0, "-3.00, which is below 0;"), (0.0, "0.00, the lowest possible, "), (0.01, "")],
)
def test_a_score_that_is_not_above_zero_is_warned_of(
    score: float, finding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A correlation may be negative."""
    _warn_of_lowest_score({"main": "pearson", "pearson": score, "mse": -1.0})
    shown = capsys.readouterr().err
    assert shown.startswith(f"warning: the best pearson on dev is {finding}") == bool(finding)
    assert bool(shown) == bool(finding)


def test_scores_have_their_note_and_large_counts_their_commas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores = {"test": "a.jsonl", "examples": 1200, "pearson": 12.5, "mse": 0.0, "note": "a note"}
    print_scores("a.jsonl", {**scores, "by_type": {"X": {"f1": 2.0, "gold": 1200}}})
    lines = ["a.jsonl: pearson 12.50, mse 0.00", "a note", "type\tf1\tgold", "X\t2.00\t1,200"]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of `ner`."""
    folder = tmp_path_factory.mktemp("commands")
    data = folder / "train.conll"
    data.write_text(TRAIN)
    made("train", "ner", "--train", data, "--dev", data, *SMALL, "-q", "-o", folder / "ner")
    return folder / "ner"


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"),
    [
        ("predict NER dev.conll train.conll --as-data", 2, "train.conll: more than one", "one"),
        ("predict NER a.txt --output-format json", 2, "`--output-format json`: no output format of "
         "ner", "choose one of conll, jsonl"),
        ("evaluate NER --test dev.conll -o b --output-format json", 2, "`--output-format json`: no",
         "conll, jsonl"),
        ("predict NER a.txt -o a.txt -f", 2, "a.txt: is also one of the inputs", "another"),
        ("evaluate NER --test dev.conll -o dev.conll -f", 2, "dev.conll: is also", "another"),
        ("predict NER a.txt -o NER/task.json -f", 2, "NER/task.json: is also a file of", "another"),
        ("evaluate NER --test dev.conll -o NER/model.pt -f", 2, "NER/model.pt: is also", "another"),
        ("evaluate NER --test dev.conll --embeddings v -o v/a -f", 2, "v/a: is also", "another"),
        ("evaluate NER --test dev.conll -o -", 2, "--output -: standard output has", "name a file"),
        ("predict a.txt NER", 2, "NER: a task model, not a text",
         "it comes first: `elmo predict NER TEXT`"),
        ("predict NER v", 1, "v: a folder, not a file", "name the files in it"),
        ("embed a.txt -m NER -o a.hdf5", 1, "NER: a task model, not an ELMo model",
         "`elmo predict` and `elmo evaluate` take it; "),
        ("predict NER a.txt -o old.conll", 1, "old.conll: exists", "`--overwrite`"),
        ("evaluate NER --test dev.conll -o old.conll", 1, "old.conll: exists", "`--overwrite`"),
        ("evaluate NER --test dev.conll -f", 2, "--overwrite: has no effect without -o", "leave"),
        ("train ner --train train.conll -o m", 2, "missing option '--dev'",
         "`elmo train ner --train train.conll -o m --dev FILE`; see `elmo train --help`"),
        ("train ner --dev train.conll -o m", 2, "missing option '--train'", "-o m --train FILE`"),
        ("train ner --train train.conll --dev dev.conll", 2, "missing option '-o' / '--output'",
         "--dev dev.conll -o DIR`"),
        ("evaluate NER dev.conll", 2, "missing option '--test'", "NER --test dev.conll`; see"),
        ("evaluate NER", 2, "missing option '--test'", "NER --test FILE`; see"),
        ("predict NER", 2, "missing argument 'TEXT…'", "NER TEXT…`; see"),
        ("evaluate NER --test nosuch.conll", 1, "nosuch.conll: no such file", "check the name"),
        ("predict NER nosuch.txt", 1, "nosuch.txt: no such file", "check the name"),
        ("train pos", 2, "'pos': no such task", "the task `ner` predicts any labels of tokens"),
        ("train Question_Answering", 2, "'Question_Answering': no such task", "the task `qa`"),
        ("train corefs", 2, "'corefs': no such task", "did you mean `coref`?"),
        ("train nosuch", 2, "'nosuch': no such task", "choose one of classification, coref"),
    ],
)  # fmt: skip
def test_what_is_refused(line: str, code: int, message: str, hint: str, model: Path) -> None:
    Path("a.txt").write_text("Anna slept\n")
    Path("old.conll").write_text("mine")
    Path("v").mkdir()
    Path("v/a").write_text("vectors")
    before = contents(Path(), model)
    done = elmo(*line.replace("NER", str(model)).split())
    refused(done, code, message.replace("NER", str(model)), hint.replace("NER", str(model)))
    assert done.out == b""
    assert contents(Path(), model) == before


def contents(*folders: Path) -> dict[Path, bytes]:
    """The files in some folders."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("command", [("predict", "a.conll"), ("evaluate", "--test", "a.conll")])
def test_an_old_output_is_replaced_if_asked_for(command: tuple[str, ...], model: Path) -> None:
    Path("a.conll").write_text("Anna B-PER\n")
    Path("old.jsonl").write_text("mine")
    name, *words = command
    made(name, model, *words, "-o", "old.jsonl", "-f", "--output-format", "jsonl", "-q")
    assert json.loads(Path("old.jsonl").read_text())["tokens"] == ["Anna"]


def test_raw_text_is_read_as_the_options_say(model: Path) -> None:
    Path("a.txt").write_bytes("Anné isn't here.\n".encode("latin-1"))
    words = ("--tokenize", "--encoding", "latin-1", "--output-format", "jsonl", "-q")
    line = json.loads(made("predict", model, "a.txt", *words).out)
    assert line["tokens"] == ["Anné", "is", "n't", "here", "."]


@pytest.mark.parametrize(("words", "n_threads"), [((), 1), (("--threads", 2), 2)])
def test_a_small_model_computes_in_one_thread(
    words: tuple[object, ...], n_threads: int, model: Path
) -> None:
    """Unless the user wants more: the matrices are too small to be divided."""
    Path("a.txt").write_text("Anna slept\n")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        made("predict", model, "a.txt", "-q", *words)
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("words", "text", "warning"),
    [
        (("a.txt",), "[CLS] Anna slept [SEP]\n" * 30, "warning: a.txt, line 1: "),
        (("a.conll", "--as-data"), f"{DEV}\n" * 30, f"warning: a.conll, line 3: {HASH}"),
    ],
)
def test_warnings_of_the_readers_are_printed_once(
    words: tuple[str, ...], text: str, warning: str, model: Path
) -> None:
    """The text is read in several chunks."""
    Path(words[0]).write_text(text)
    assert made("predict", model, *words).err.count(warning) == 1


def test_the_hint_after_an_interrupt_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the folder contains a run the same command, afterwards only `--resume`."""
    command = ["train", "ner", "--train", "train.conll", "--dev", "dev.conll", *SMALL, "-o", "ner"]

    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.tasks.trained_task.TrainedTask.write_start", stop)
        refused(elmo(*command), 130, "interrupted", "hint: run the command again")
    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.tasks.trainer.TaskTrainer.run", stop)
        refused(elmo(*command), 130, "interrupted", "the same command with `--resume`")
    refused(elmo(*command), 1, "ner: contains an unfinished train run", "--resume")
    made(*command, "--resume")
