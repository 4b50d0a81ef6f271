"""Embeddings are found by the text of the data, and refused where they do not fit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import made

from elmo_cli.errors import ElmoError, EmbeddingsFileError, OutputError
from elmo_cli.file_locks import FileLock
from elmo_cli.store.reader import open_embeddings
from elmo_cli.tasks.embeddings_folder import BiLMRecord, EmbeddingsFolder
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import Example
from elmo_cli.training.reporter import SILENT, Reporter

SENTENCES = [("Anna", "lives"), ("it", "rains"), ("Anna", "lives"), ("Oslo",)]


def split_of(sentences: Sequence[tuple[str, ...]]) -> Split:
    """A split with an example for each sentence."""
    examples = []
    for number in range(len(sentences)):
        examples.append(Example(sentences=(number,), where="data.conll", target=None))
    return Split("data.conll", list(sentences), examples)


SPLIT = split_of(SENTENCES)


def vector_folder(path: str) -> EmbeddingsFolder:
    return EmbeddingsFolder(path, default_model=os.environ["ELMO_MODEL"])


def record() -> BiLMRecord:
    """What a task model records of the tiny biLM."""
    vectors = vector_folder("of-tiny")
    vectors.find(SPLIT, "all", SILENT)
    assert vectors.bilm is not None
    return vectors.bilm


def write(name: str, sentences: list[tuple[str, ...]]) -> None:
    Path(name).write_text("".join(" ".join(tokens) + "\n" for tokens in sentences))


@pytest.mark.parametrize("layout", ["allennlp", "flat", "bilm"])
@pytest.mark.parametrize("is_distinct", [False, True])
def test_a_file_of_any_name_and_layout_is_found(
    folder: None, layout: str, is_distinct: bool
) -> None:
    sentences = list(dict.fromkeys(SENTENCES)) if is_distinct else SENTENCES
    write("text.txt", sentences)
    name = "some-name.h5" if is_distinct else "some-name.hdf5"
    made("embed", "text.txt", "-o", name, "--layout", layout)
    expected = open_embeddings(name)
    vectors = EmbeddingsFolder(".").find(SPLIT, "all", SILENT)
    for number, tokens in enumerate(SENTENCES):
        assert np.array_equal(vectors(number), expected[sentences.index(tokens)])


def test_runs_that_share_a_folder_compute_embeddings_once(folder: None) -> None:
    lock = FileLock("new/.elmo-lock")
    messages: list[str] = []
    Path("new").mkdir()
    lock.acquire()

    class Releasing(Reporter):
        def message(self, text: str) -> None:
            messages.append(text)
            if text.startswith("waiting for another process"):
                vector_folder("other").find(SPLIT, "all", SILENT)
                (written,) = Path("other").iterdir()
                written.rename(f"new/{written.name}")
                lock.release()

    assert vector_folder("new").find(SPLIT, "all", Releasing())(0).shape == (3, 2, 16)
    assert len(messages) == 1
    assert [path.suffix for path in Path("new").iterdir()] == [".hdf5"]


class Collecting(Reporter):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_a_text_in_another_script_is_warned_of_with_its_line(folder: None) -> None:
    split = Split("data.conll")
    for line in (3, 3, 7):
        split.where = f"data.conll, line {line}"
        split.add(("猫", "坐"))
    split.examples = split_of(split.sentences).examples
    reporter = Collecting()
    vector_folder("new").find(split, "all", reporter)
    assert reporter.messages[0] == "computing the embeddings of data.conll"
    shown = [message for message in reporter.messages if "Latin" in message]
    assert [message.split(": ")[:2] for message in shown] == [["warning", "data.conll, line 3"]]


def test_the_script_is_free_if_the_model_has_a_dictionary(folder: None) -> None:
    split = split_of([("猫", "坐")])
    reporter = Collecting()
    vectors = vector_folder("new")
    bilm = vectors._make_embedder().bilm
    bilm.options = replace(bilm.options, is_unicode=True)
    vectors.find(split, "all", reporter)
    assert not any("Latin" in message for message in reporter.messages)


def test_signs_of_the_text_are_left_to_the_reader_of_the_data(folder: None) -> None:
    """Lines of the file of distinct sentences would say nothing."""
    split = split_of([("[CLS]", "it", "rains", "[SEP]")] * 2)
    reporter = Collecting()
    vector_folder("new").find(split, "all", reporter)
    assert not any("boundary" in message for message in reporter.messages)


@pytest.mark.parametrize(("layers", "rows"), [("all", [0, 1, 2]), ("last", [2]), ("type", [0])])
def test_missing_embeddings_are_computed_once(folder: None, layers: str, rows: list[int]) -> None:
    vectors = vector_folder("new").find(SPLIT, layers, SILENT)
    (written,) = Path("new").iterdir()
    stored = open_embeddings(written)
    assert (stored.layout, stored.dtype, len(stored)) == ("flat", np.float16, 3)
    assert np.array_equal(vectors(2), stored[0][rows])
    assert np.array_equal(vectors(3), stored[2][rows])
    time = written.stat().st_mtime_ns
    vector_folder("new").find(SPLIT, layers, SILENT)
    assert [path.stat().st_mtime_ns for path in Path("new").iterdir()] == [time]


def test_only_sentences_of_examples_are_computed(folder: None) -> None:
    """A larger sample has a file of its own, and a file of all sentences serves every sample."""
    for examples in (SPLIT.examples[2:], SPLIT.examples[1:]):
        vector_folder("new").find(replace(SPLIT, examples=examples), "all", SILENT)
    lengths = {len(open_embeddings(path)) for path in Path("new").iterdir()}
    assert lengths == {2, 3}
    write("text.txt", SENTENCES)
    Path("all").mkdir()
    made("embed", "text.txt", "-o", "all/text.hdf5", "--state", "document", "--layout", "flat")
    expected = open_embeddings("all/text.hdf5")
    last_two = replace(SPLIT, examples=SPLIT.examples[2:])
    vectors = EmbeddingsFolder("all").find(last_two, "all", SILENT)
    assert not np.array_equal(expected[0], expected[2])  # equal sentences, in another state
    for number in (2, 3):
        assert np.array_equal(vectors(number), expected[number])
    assert len(list(Path("all").iterdir())) == 1


def test_vectors_that_are_not_stored_are_those_of_stored_files(folder: None) -> None:
    """By the number of their sentence, in any order."""
    vectors = vector_folder("new")
    sentences = {12: SENTENCES[3], 2: SENTENCES[1]}
    for layers in ("last", "type"):
        stored = vectors.find(SPLIT, layers, SILENT)
        computed = vectors.compute(sentences, layers)
        for number, stored_number in ((2, 1), (12, 3)):
            assert computed(number).shape == stored(stored_number).shape
            np.testing.assert_allclose(computed(number), stored(stored_number), atol=1e-2)
    assert vectors.compute(sentences, "none") is None


def test_a_folder_that_cannot_be_written_to_is_replaced_by_an_option(folder: None) -> None:
    Path("file").touch()
    with pytest.raises(OutputError, match=r"file/new: .* \(Not a directory\)") as caught:
        vector_folder("file/new").find(SPLIT, "all", SILENT)
    assert "another folder with `embeddings`" in caught.value.hint


def test_a_data_file_may_have_a_name_as_long_as_any(folder: None) -> None:
    split = split_of(SENTENCES)
    split.path = "ü" * 127  # of 254 bytes
    vector_folder("new").find(split, "all", SILENT)
    [stored] = Path("new").iterdir()
    assert stored.name.startswith("ü" * 50 + "-zero-")


def test_embeddings_of_a_corrected_text_are_computed(folder: None) -> None:
    folder_of_vectors = vector_folder("new")
    folder_of_vectors.find(SPLIT, "all", SILENT)
    corrected = [("Anne", "lives"), *SENTENCES[1:2], ("Anne", "lives"), *SENTENCES[3:]]
    folder_of_vectors.find(split_of(corrected), "all", SILENT)
    assert len(list(Path("new").iterdir())) == 2


@pytest.mark.parametrize("change", ["model", "state", "layers"])
def test_stored_files_that_do_not_fit_are_not_used(folder: None, odd: Path, change: str) -> None:
    bilm = record()
    n_files = 1 if change == "layers" else 2
    (stored,) = Path("of-tiny").iterdir()
    if change == "layers":
        made("convert", stored, "-o", "top.hdf5", "--layers", "top")
        Path("top.hdf5").replace(stored)
    model = str(odd) if change == "model" else None
    state = "warm" if change == "state" else "zero"
    wanted = EmbeddingsFolder("of-tiny", model, bilm=None if model else replace(bilm, state=state))
    expected = wanted.find(SPLIT, "all", SILENT)(0)
    assert expected.shape == ((4, 2, 24) if model else (3, 2, 16))
    newest = EmbeddingsFolder("of-tiny")
    assert np.array_equal(newest.find(SPLIT, "all", SILENT)(0), expected)
    assert newest.bilm == wanted.bilm
    EmbeddingsFolder("of-tiny", bilm=bilm).find(SPLIT, "all", SILENT)
    assert len(list(Path("of-tiny").iterdir())) == n_files


@pytest.mark.parametrize(
    ("text", "name", "options", "words"),
    [
        (SENTENCES[:3], "data", (), "data.hdf5: does not fit data.conll: another text"),
        ([("a", "b"), ("c", "d"), ("e",)], "x", (), "x.hdf5: does not fit data.conll"),
        (SENTENCES, "x", ("--layers", "top"), "not all layers of each token (unit tokens, "),
        (SENTENCES, "x", ("--pool", "mean"), "not all layers"),
        (SENTENCES, "x", ("--state", "document"), "state document, not"),
    ],
)
def test_embeddings_that_do_not_fit_are_refused(
    folder: None, text: list[tuple[str, ...]], name: str, options: tuple[str, ...], words: str
) -> None:
    write("text.txt", text)
    made("embed", "text.txt", "-o", f"{name}.hdf5", *options)
    bilm = record()
    before = sorted(Path().iterdir())
    with pytest.raises(EmbeddingsFileError) as error:
        EmbeddingsFolder(".", bilm=bilm).find(SPLIT, "all", SILENT)
    assert words in str(error.value)
    assert sorted(Path().iterdir()) == before


def test_embeddings_of_another_model_are_refused(folder: None, odd: Path) -> None:
    write("text.txt", SENTENCES)
    made("embed", "text.txt", "-o", "x.hdf5", "-m", odd)
    with pytest.raises(EmbeddingsFileError, match="its model is odd, state zero, not"):
        EmbeddingsFolder(".", bilm=record()).find(SPLIT, "all", SILENT)
    assert EmbeddingsFolder(".").find(SPLIT, "all", SILENT)(0).shape == (4, 2, 24)
    with pytest.raises(ElmoError, match="not the biLM of the task model"):
        EmbeddingsFolder(".", str(odd), bilm=record())


def test_foreign_files_of_a_folder_are_no_hindrance(folder: None) -> None:
    """Nor those of other texts with as many sentences, or with as many tokens."""
    with h5py.File("y.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 16), np.float32)
    write("four.txt", [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")])
    write("seven.txt", [("a", "b", "c"), ("d", "e", "f", "g")])
    made("embed", "four.txt", "seven.txt", "-o", "./")
    assert vector_folder(".").find(SPLIT, "all", SILENT)(0).shape == (3, 2, 16)


def test_what_a_killed_run_left_is_removed_and_nothing_else(folder: None) -> None:
    """A person may keep data beside embeddings of the same name."""
    write("text.txt", SENTENCES)
    Path("kept").mkdir()
    made("embed", "text.txt", "-o", "kept/text.hdf5", "--layout", "flat")
    complete = [f"text-{state}-01234567-89abcdef" for state in ("zero", "warm")]
    unfinished = "text-zero-76543210-89abcdef"  # a resumed run completes it
    for name in complete:
        shutil.copy("kept/text.hdf5", f"kept/{name}.hdf5")
        Path(f"kept/{name}.hdf5.part.log").touch()
    for name in (*complete, unfinished, "text"):
        Path(f"kept/{name}.jsonl").touch()
    Path(f"kept/{unfinished}.hdf5.part.log").touch()
    before = {path.name for path in Path("kept").iterdir()}
    lock = FileLock("kept/.elmo-lock")
    lock.acquire()  # as an active run
    EmbeddingsFolder("kept").find(SPLIT, "all", SILENT)
    assert before <= {path.name for path in Path("kept").iterdir()}
    lock.release()
    Path("kept/.elmo-lock").touch()  # of a run that was killed
    EmbeddingsFolder("kept").find(SPLIT, "all", SILENT)
    removed = {f"{name}{suffix}" for name in complete for suffix in (".jsonl", ".hdf5.part.log")}
    assert before - {path.name for path in Path("kept").iterdir()} == removed


@pytest.mark.parametrize("words", [(), ("-m", "odd")])
def test_the_bilm_is_that_of_the_option_or_of_the_environment(
    folder: None, odd: Path, words: tuple[str, ...]
) -> None:
    shutil.copytree(odd, "odd")
    data = ("--train", "dev.conll", "--dev", "dev.conll", "--epochs", 1, "--set", "hidden=4")
    made("train", "ner", *data, "-o", "ner", *words)
    source = json.loads(Path("ner/task.json").read_text())["bilm"]["source"]
    assert source == str(Path("odd").resolve() if words else os.environ["ELMO_MODEL"])


def test_training_embeds_only_the_fraction_of_its_examples(folder: None) -> None:
    data = ("--train", "train.conll", "--dev", "dev.conll", "--epochs", 1, "--set", "hidden=4")
    made("train", "ner", *data, "-o", "ner", "--fraction", 0.5)  # of four sentences
    (vectors,) = Path("ner/vectors").glob("train-*.hdf5")
    assert len(open_embeddings(vectors)) == 2
