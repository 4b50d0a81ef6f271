"""Predictions line up with the input, come in chunks, and cannot control a terminal."""

from __future__ import annotations

import json
import os
import pty
import shutil
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import elmo, made, refused
from disks import disk_of
from forked_command import ForkedElmo, run_and_exit

from elmo_cli.tasks.chunks import read_chunks
from elmo_cli.tasks.data_files import read_data_file, read_rows
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import load_task
from elmo_cli.text.input import InputSettings, read_sentences

PutModel = Callable[[str], object]
SMALL = ("--elmo", "none", "--epochs", 1, "--set", "hidden=4", "-q")
TRAIN = "Anna\tB-PER\nslept\tO\n\nOslo\tB-LOC\nslept\tO\n"
PAIRS = (
    '{"premise": "It rains.", "hypothesis": "It pours.", "label": "yes", "score": 1}\n'
    '{"premise": "It snows.", "hypothesis": "It pours.", "label": "no", "score": 2}\n'
)
FRAME = '{"tokens": ["She", "sold", "it"], "frames": [{"predicate": 1, "tags": "B-A0 B-V B-A1"}]}\n'
DOCUMENT = (
    '{"doc_key": "a", "sentences": [["Anna", "saw", "her"]], "clusters": [[[0, 0], [2, 2]]]}\n'
)
QUESTION = (
    '{"id": "1", "context": "The Rhine rises.", "question": "What rises?", '
    '"answers": {"text": ["Rhine"], "answer_start": [4]}}\n'
)
TRAINING_DATA = {
    "ner": ("train.conll", TRAIN),
    "classification": ("train.tsv", "1\tA gem\n0\tA bore\n"),
    "entailment": ("train.jsonl", PAIRS),
    "similarity": ("train.jsonl", PAIRS),
    "srl": ("train.jsonl", FRAME + FRAME.replace("B-A0", "O")),
    "coref": ("train.jsonl", DOCUMENT),
    "qa": ("train.jsonl", QUESTION),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """From the name of a task to a folder with a model of it in `model`, trained once."""

    @cache
    def trained_once(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        path, text = TRAINING_DATA[name]
        data = folder / path
        data.write_text(text)
        made("train", name, "--train", data, "--dev", data, *SMALL, "-o", folder / "model")
        return folder

    return trained_once


@pytest.fixture
def put_model(trained: Callable[[str], Path]) -> PutModel:
    """Puts a model of a task into the folder `model`."""

    def copied(name: str) -> object:
        return shutil.copytree(trained(name) / "model", "model")

    return copied


def objects(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.decode().split("\n") if line]


def test_each_line_of_text_has_an_entry_with_the_key_of_its_embeddings(put_model: PutModel) -> None:
    put_model("ner")
    Path("a.txt").write_text("\nAnna slept\n\n\nOslo\n")
    Path("b.jsonl").write_text('{"text": ""}\n\n{"tokens": ["It", "rains"]}\n')
    lines = objects(made("predict", "model", "a.txt", "b.jsonl", "--output-format", "jsonl").out)
    tokens = ["", "Anna slept", "", "", "Oslo", "", "It rains"]
    assert [" ".join(line["tokens"]) for line in lines] == tokens
    assert [line["key"] for line in lines] == list(range(7))
    assert [len(line["labels"]) for line in lines] == [len(text.split()) for text in tokens]
    conll = made("predict", "model", "a.txt").out.decode()
    assert [line.split("\t")[0] for line in conll.split("\n")] == [
        *("", "Anna", "slept", "", "", "", "Oslo", "", "")
    ]


COLUMNS = {
    "a.conll": "-DOCSTART-\tO\n\nAnna\tB-PER\nslept\tO\n\n\n-DOCSTART-\tO\n\nOslo\tB-LOC\n",
    "b.conll": "\n#begin document (a); part 000\nAnna B-PER\n\nOslo B-LOC\n\n\nslept O\n",
    "c.conllu": "# newdoc\n# text = Anna's\n1-2\tAnna's\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tAnna\t_\t_\tB-PER\t_\t_\t_\t_\t_\n2\t's\t_\t_\tO\t_\t_\t_\t_\t_\n\n"
    "# text = slept\n1\tslept\t_\t_\tO\t_\t_\t_\t_\t_\n",
    # Lines between the tokens of a sentence.
    "d.conllu": "1\tIt\t_\t_\tO\t_\t_\t_\t_\t_\n2-3\tisn't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tis\t_\t_\tO\t_\t_\t_\t_\t_\n3\tn't\t_\t_\tO\t_\t_\t_\t_\t_\n"
    "# a comment\n4\tAnna\t_\t_\tB-PER\t_\t_\t_\t_\t_\n4.1\tran\t_\t_\t_\t_\t_\t_\t_\t_\n",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_lines_of_columns_can_be_pasted(name: str, put_model: PutModel) -> None:
    put_model("ner")
    Path(name).write_text(COLUMNS[name])
    made("evaluate", "model", "--test", name, "-o", "predicted.conll")
    rows = COLUMNS[name].splitlines()
    found = Path("predicted.conll").read_text().splitlines()
    assert found[len(rows) :] == [""]
    n_tokens = 0
    for row, predicted in zip(rows, found, strict=False):
        cells = row.split()
        token = cells[1 if name.endswith("u") else 0] if cells else ""
        if predicted.startswith("#") or not predicted:
            assert predicted == row or predicted == f"# {row}"
        else:
            assert predicted.split("\t")[0] == token
            n_tokens += token != "-DOCSTART-"
    split = read_data_file(load_task("ner"), name)
    assert n_tokens == sum(map(len, split.sentences))
    again = read_data_file(load_task("ner"), "predicted.conll")
    assert again.sentences == split.sentences
    assert made("predict", "model", name).out == Path("predicted.conll").read_bytes()
    made("predict", "model", name, "--as-data", "-o", "as-data.conll")
    assert Path("as-data.conll").read_text() == Path("predicted.conll").read_text()


# Task -> rows without labels or tokens, and the fields of their predictions.
ROWS = {
    "classification": ('{"text": "A day."}\n{"text": ""}\n{"tokens": [], "label": -1}\n', "label"),
    "entailment": (PAIRS + PAIRS.replace("It rains.", "").splitlines()[0], "label"),
    "similarity": (PAIRS + PAIRS.replace("It rains.", "").splitlines()[0], "relatedness"),
    "srl": (FRAME + '{"tokens": ["No"], "frames": []}\n{"tokens": [], "frames": []}\n', "frames"),
    "coref": (DOCUMENT + '{"sentences": []}\n{"sentences": [[]]}\n', "predicted_clusters"),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_row_of_data_has_an_entry(name: str, put_model: PutModel) -> None:
    put_model(name)
    text, field = ROWS[name]
    Path("new.jsonl").write_text(text)
    lines = objects(made("predict", "model", "new.jsonl", "--as-data").out)
    assert [line["key"] for line in lines] == [0, 1, 2]
    assert all(field in line for line in lines)
    assert not lines[2][field]


def test_evaluate_writes_rows_that_it_does_not_score(put_model: PutModel) -> None:
    put_model("entailment")
    Path("test.jsonl").write_text(PAIRS + PAIRS.replace('"yes"', '"-"'))
    done = made("evaluate", "model", "--test", "test.jsonl", "-o", "out.jsonl", "--json")
    assert json.loads(done.out)["examples"] == 3
    assert "warning: test.jsonl: 1 example without a label, not scored; the first: te" in done.err
    lines = objects(Path("out.jsonl").read_bytes())
    assert [line["key"] for line in lines] == [0, 1, 2, 3]
    assert lines[2]["label"] in ("yes", "no")


def test_scores_are_printed_if_predictions_cannot_be_written(put_model: PutModel) -> None:
    """They may have taken minutes."""
    put_model("entailment")
    Path("test.jsonl").write_text(PAIRS)
    words = ("evaluate", "model", "--test", "test.jsonl", "--json")
    with disk_of(10):
        done = elmo(*words, "-o", "out.jsonl")
    assert done.code == 1
    assert "error: out.jsonl: no space left" in done.err
    assert done.out == made(*words).out


def test_blank_lines_between_labelled_lines_have_entries(put_model: PutModel) -> None:
    put_model("classification")
    Path("test.tsv").write_text("1\tA day\n\n0\tA bore\n")
    made("evaluate", "model", "--test", "test.tsv", "-o", "out.jsonl")
    lines = objects(Path("out.jsonl").read_bytes())
    assert [(line["key"], bool(line["label"])) for line in lines] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_documents_name_the_keys_of_their_sentences(put_model: PutModel) -> None:
    put_model("coref")
    Path("a.txt").write_text("Anna slept\nShe slept\n\nIt rained\n")
    lines = objects(made("predict", "model", "a.txt").out)
    assert [(line["key"], line["keys"]) for line in lines] == [(0, [0, 1]), (3, [3])]


def test_questions_keep_an_empty_context(put_model: PutModel) -> None:
    put_model("qa")
    Path("new.jsonl").write_text(QUESTION + '{"id": "2", "context": "", "question": "Why?"}\n')
    answers = json.loads(made("predict", "model", "new.jsonl", "--as-data").out)
    assert answers.keys() == {"1", "2"}
    assert answers["2"] == ""


def test_a_pipe_gets_the_first_predictions_before_the_text_ends(put_model: PutModel) -> None:
    put_model("ner")
    read_text, write_text = os.pipe()
    read_rows, write_rows = os.pipe()
    process = ForkedElmo("predict", "model", "-", "-q", stdin=read_text, stdout=write_rows)
    os.close(read_text)
    os.close(write_rows)
    with open(write_text, "wb", buffering=0) as text, open(read_rows, "rb") as predictions:
        for number in range(40):  # far more lines than rows of the first chunks
            text.write(f"Anna slept in Oslo {number}\n".encode())
            rows = [predictions.readline() for _ in range(6)]
            assert rows[4].startswith(f"{number}\t".encode())
    assert process.wait() == 0


@pytest.mark.parametrize("name", ["text", "data"])
def test_memory_does_not_grow_with_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of chunks: if they stayed, ten times the rows would take ten times the memory.

    Between the two runs the peak varies by a third, with the moment of garbage collection.
    """
    monkeypatch.setattr("elmo_cli.tasks.chunks._MOST_TOKENS", 250)
    task = load_task("classification")
    peaks = []
    for n_rows in (1_000, 10_000):
        Path("a.txt").write_text("Anna slept in Oslo\n\n" * (n_rows // 2))
        split = Split("a.txt")
        rows = read_rows(task, split, labelled=False)
        if name == "text":
            rows = task.fill_text(split, read_sentences("a.txt", InputSettings()))
        tracemalloc.start()
        n_read = sum(len(chunk.examples) for chunk in read_chunks(split, rows))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert n_read == n_rows
    assert peaks[1] < 2 * peaks[0]


def test_chunks_begin_small_and_end_where_reading_would_wait() -> None:
    split = Split("a")
    Path("a.txt").write_text("a b c\n" * 3_000)
    task = load_task("ner")
    rows = task.fill_text(split, read_sentences("a.txt", InputSettings()))
    sizes = [len(chunk.sentences) for chunk in read_chunks(split, rows)]
    assert sizes == [1, 3, 22, 171, 1366, 1437]
    rows = task.fill_text(split, read_sentences("a.txt", InputSettings()))
    chunks = read_chunks(split, rows, is_waiting=lambda: True)
    assert {len(chunk.sentences) for chunk in chunks} == {1}


def test_chunks_of_blank_rows_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.tasks.chunks._MOST_ROWS", 7)
    Path("a.txt").write_text("\n" * 17)
    split = Split("a")
    rows = load_task("ner").fill_text(split, read_sentences("a.txt", InputSettings()))
    assert [len(chunk.examples) for chunk in read_chunks(split, rows)] == [7, 7, 3]


def test_an_error_leaves_no_file_and_no_half_row(put_model: PutModel) -> None:
    put_model("ner")
    Path("bad.jsonl").write_text('{"text": "Anna slept"}\n{"text": 5}\n')
    done = elmo("predict", "model", "bad.jsonl", "-o", "out.conll")
    refused(done, 1, "bad.jsonl, line 2: ", "")
    assert not list(Path().glob("out*"))


HOSTILE = ["\x1b]0;pwned\x07", "a\nb", "c\td", "\x9b2J", "e\u2028f", "g\r"]


def assert_clean(text: bytes, n_rows: int) -> None:
    """No control character but tabs and line ends, and two columns in each row."""
    rows = [row for row in text.decode().replace("\r\n", "\n").splitlines() if row]
    assert len(rows) == n_rows
    assert all(row.count("\t") == 1 and row.replace("\t", "").isprintable() for row in rows)


def test_tokens_and_labels_cannot_control_a_terminal_or_break_a_column(put_model: PutModel) -> None:
    put_model("ner")
    Path("h.jsonl").write_text(json.dumps({"tokens": HOSTILE}) + "\n")
    for output_format, n_rows in (("conll", len(HOSTILE)), ("jsonl", 1)):
        shown = b""
        words = ["predict", "model", "h.jsonl", "-q", "--output-format", output_format]
        pid, terminal = pty.fork()
        if pid == 0:
            run_and_exit(*words)
        with suppress(OSError):  # at the end of the child
            while data := os.read(terminal, 4096):
                shown += data
        os.close(terminal)
        assert os.waitpid(pid, 0)[1] == 0
        if output_format == "conll":
            assert_clean(shown, n_rows)
        assert b"\x1b" not in shown
        assert "\x9b" not in shown.decode()
    made("predict", "model", "h.jsonl", "-o", "out.conll")
    assert_clean(Path("out.conll").read_bytes(), len(HOSTILE))
    again = objects(made("predict", "model", "h.jsonl", "--output-format", "jsonl").out)
    assert again[0]["tokens"] == HOSTILE


def test_a_token_that_is_printable_stays_as_it_is(put_model: PutModel) -> None:
    put_model("ner")
    tokens = ["1\\/2", "ä", "\u00a0", "#", "\\n"]
    Path("new.jsonl").write_text(json.dumps({"tokens": tokens}) + "\n")
    rows = made("predict", "model", "new.jsonl").out.decode().splitlines()
    assert [row.split("\t")[0] for row in rows if row] == tokens
