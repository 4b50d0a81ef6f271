"""Training ends in the same weights however often it is interrupted; bad data change nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from command_line import Done, documented, elmo, made, only_tiny, refused

from elmo_cli.errors import (
    ElmoError,
    EmbeddingsFileError,
    ModelError,
    ResumeError,
    TrainingError,
)
from elmo_cli.tasks.chunks import read_chunks
from elmo_cli.tasks.data_files import read_data_file, read_rows
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import load_task
from elmo_cli.tasks.train import TaskData, sample_examples, train_task
from elmo_cli.tasks.trained_task import load_trained
from elmo_cli.training.reporter import SILENT, Reporter

SMALL = {"hidden": 5, "char_filters": 4, "elmo.projection": 6, "batch_size": 2, "patience": 9}
DATA = ("--train", "train.conll", "--dev", "dev.conll")


class Interrupting(Reporter):
    """A reporter that stops the run as Ctrl-C would after some batches."""

    def __init__(self, n_batches: int = 10**9) -> None:
        self.n_left = n_batches

    def progress(self, *args: object) -> None:
        self.n_left -= 1
        if not self.n_left:
            raise KeyboardInterrupt


def train(
    output: str,
    *,
    mode: str = "new",
    stop_after: int = 10**9,
    train: str = "train.conll",
    model: str | None = None,
    **settings: Any,
) -> Any:
    task = load_task("ner", {**SMALL, "epochs": 5, **settings})
    data = TaskData(train, "dev.conll", EmbeddingsFolder("vectors", model), "words.txt")
    return train_task(task, data, output, Interrupting(stop_after), mode=mode)


def weights(folder: str) -> dict[str, torch.Tensor]:
    return torch.load(Path(folder) / "model.pt", weights_only=True)


def log_of(folder: str) -> list[dict[str, Any]]:
    """The lines of the log, without times."""
    lines = Path(folder, "log.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": 0} for line in lines]


def content_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def assert_same_weights(first: str, second: str) -> None:
    assert weights(first).keys() == weights(second).keys()
    for name, tensor in weights(first).items():
        assert torch.equal(weights(second)[name], tensor), name


@pytest.fixture(scope="module")
def finished(embedded_data: Path, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with the usual settings that nothing has disturbed."""
    path = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        only_tiny(patch, tiny)
        patch.chdir(shutil.copytree(embedded_data, path, dirs_exist_ok=True))
        train("ner")
    return path / "ner"


@pytest.fixture
def trained(embedded: None, finished: Path) -> dict[str, Any]:
    """A copy of it in `ner`, next to its data and vectors; the content of scores.json."""
    copy = shutil.copytree(finished, Path("ner"))
    facts: dict[str, Any] = json.loads((copy / "scores.json").read_text())
    return facts


@pytest.mark.parametrize("interruptions", [[1], [3], [5, 1, 4]])
def test_a_resumed_run_has_the_weights_of_an_undisturbed_one(
    trained: dict[str, Any], interruptions: list[int]
) -> None:
    for number, stop_after in enumerate(interruptions):
        with pytest.raises(KeyboardInterrupt):
            train("parts", mode="resume" if number else "new", stop_after=stop_after)
        log = Path("parts/log.jsonl")
        if log.exists():  # killed between the log and the checkpoint
            log.write_text(log.read_text() + "{}\n")
    resumed = train("parts", mode="resume")
    assert {**resumed, "seconds": 0} == {**trained, "seconds": 0}
    assert_same_weights("parts", "ner")
    assert log_of("parts") == log_of("ner")
    before = content_of("parts")
    Path("moved").mkdir()
    Path("train.conll").rename("moved/train.conll")
    tiny = shutil.copytree(os.environ["ELMO_MODEL"], "moved/tiny")
    assert train("parts", mode="resume", train="moved/train.conll", model=tiny) == resumed
    assert content_of("parts") == before
    files = "log.jsonl model.pt parts.json scores.json task.json word_vectors.npz"
    assert " ".join(sorted(before)) == files


@pytest.mark.usefixtures("trained")
def test_random_numbers_depend_on_the_seed_and_the_epoch() -> None:
    train("again")
    train("other", seed=1)
    assert torch.equal(weights("again")["output.weight"], weights("ner")["output.weight"])
    assert not torch.equal(weights("other")["output.weight"], weights("ner")["output.weight"])
    train("constant", epochs=3, learning_rate=1e-12)
    assert len({line["loss"] for line in log_of("constant")}) == 3


def test_the_penalty_keeps_the_layer_weights_equal(embedded: None) -> None:
    options = {"epochs": 15, "learning_rate": 0.02}
    spread = {}
    for l2 in (0.0, 100.0):
        weights = train(f"l2-{l2}", **options, **{"elmo.l2": l2})["mix"]["input"]["weights"]
        spread[l2] = max(weights) - min(weights)
    assert spread[100.0] < 0.01 < spread[0.0]


def test_the_gradient_is_clipped(embedded: None) -> None:
    """A clipped gradient far below the epsilon of Adam hardly moves the weights."""
    for name, options in {"clipped": {"max_grad_norm": 1e-12}, "still": {}, "free": {}}.items():
        rate = 1e-12 if name == "still" else 0.02
        train(name, epochs=1, learning_rate=rate, **options)
    still = weights("still")["output.weight"]
    assert torch.allclose(weights("clipped")["output.weight"], still, atol=1e-4)
    assert not torch.allclose(weights("free")["output.weight"], still, atol=1e-2)


def test_a_fraction_is_a_random_sample_in_order() -> None:
    samples = [sample_examples(range(100), 0.2, seed) for seed in (0, 1)]
    assert [len(sample) for sample in samples] == [20, 20]
    assert all(sample == sorted(sample) for sample in samples)
    assert samples[0] != samples[1]
    assert max(samples[0]) > 50
    assert len(sample_examples(range(3), 0.1, 0)) == 1


def test_training_stops_by_patience_and_keeps_the_best_epoch(embedded: None) -> None:
    facts = train("ner", epochs=60, patience=3, learning_rate=0.2)
    lines = log_of("ner")
    scores = [line["dev"]["f1"] for line in lines]
    assert scores[-1] < max(scores)  # else the last epoch would pass for the best one
    best = scores.index(max(scores))
    assert (facts["best_epoch"], facts["epochs"]) == (best + 1, len(lines))
    assert len(lines) == min(60, best + 1 + 3)
    assert facts["dev"]["f1"] == max(scores)
    assert facts["mix"] == lines[best]["mix"]


def test_the_learning_rate_is_halved_once_per_lr_patience(embedded: None) -> None:
    train("ner", epochs=60, patience=7, lr_patience=3, learning_rate=0.02)
    rate = 0.02
    best = -1.0
    n_worse = 0
    n_halved = 0
    for line in log_of("ner"):
        score = line["dev"]["f1"]
        n_worse = 0 if score > best else n_worse + (best > 0)
        best = max(best, score)
        if n_worse and n_worse % 3 == 0:
            rate /= 2
            n_halved += 1
        assert line["learning_rate"] == pytest.approx(rate * 2 if n_worse in (3, 6) else rate)
    assert (n_worse, n_halved >= 2) == (7, True)


def test_a_run_whose_loss_is_not_finite_starts_over_with_a_lower_rate(embedded: None) -> None:
    with pytest.raises(TrainingError, match="epoch 1: the loss is nan") as raised:
        train("ner", learning_rate=1e38)
    assert raised.value.hint == "start over with `overwrite=True` and a lower `learning_rate`"
    with pytest.raises(ResumeError, match="learning_rate: "):
        train("ner", mode="resume", learning_rate=0.01)
    assert train("ner", mode="overwrite", learning_rate=0.01)["epochs"] == 5


@pytest.mark.parametrize(
    ("settings", "changed", "words"),
    [
        ({"hidden": 6}, "", "hidden: 5, now 6"),
        ({"elmo.layers": "last"}, "", "elmo.layers: all, now last"),
        ({}, "dev.conll", r"other settings or data \(dev: "),
        ({}, "train.conll", r"other settings or data \(train: "),
        ({}, "words.txt", r"other settings or data \(word_vectors: "),
    ],
)
def test_other_settings_and_data_are_not_resumed(
    embedded: None, settings: dict[str, Any], changed: str, words: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train("ner", stop_after=3)
    if changed:
        more = "rain 1 1 1\n" if changed == "words.txt" else "\nit O\nOslo B-LOC\n"
        Path(changed).write_text(Path(changed).read_text() + more)
    before = content_of("vectors")
    with pytest.raises(ResumeError, match=words):
        train("ner", mode="resume", **settings)
    assert content_of("vectors") == before


@pytest.mark.usefixtures("trained")
def test_a_loaded_model_knows_further_words_and_predicts_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = load_trained("ner")
    table = weights("ner")["representation.words.weight"]
    extended = trained.model.representation.words.weight
    assert len(table) == 2 + 3  # anna, oslo and rains
    assert torch.equal(extended[: len(table)], table)
    assert extended[trained.words.rows_of(["The"])].tolist() == [[1, 0, 0]]
    split = read_data_file(trained.task, "train.conll")
    folder = EmbeddingsFolder("", default_model=os.environ["ELMO_MODEL"])
    expected = trained.predict_unseen(split, folder)
    sizes = []
    monkeypatch.setattr(
        Reporter, "progress", lambda self, what, done, total: sizes.append((done, total))
    )
    again = Split("train.conll")
    chunks = read_chunks(again, read_rows(trained.task, again, labelled=False))
    predicted = [
        labels
        for _, of_chunk in trained.predict_chunks(chunks, folder, SILENT)
        for labels in of_chunk
    ]
    assert predicted == expected
    assert sizes == [(5, None), (13, None)]


def without_its_end(content: bytes) -> bytes:
    return content[:-100]


def of_other_sizes(content: bytes) -> bytes:
    return content.replace(b'"hidden": 5', b'"hidden": 6')


def of_another_version(content: bytes) -> bytes:
    return content.replace(b'"version": 3', b'"version": 2')


def without_fields(content: bytes) -> bytes:
    return b"[]"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model.pt", without_its_end),
        ("task.json", of_other_sizes),
        ("task.json", of_another_version),
        ("task.json", without_fields),
    ],
)
@pytest.mark.usefixtures("trained")
def test_a_corrupt_model_is_refused(file: str, change: Callable[[bytes], bytes]) -> None:
    path = Path("ner", file)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ModelError):
        load_trained("ner")
    if file == "task.json":
        with pytest.raises(ElmoError):
            train("ner", mode="resume")
    path.unlink()
    with pytest.raises(ModelError):
        load_trained("ner")


def command(*words: object) -> Done:
    known = (*DATA, "--embeddings", "vectors", "-o", "ner", "--set", "hidden=5", "--epochs", 1)
    return elmo("train", "ner", *known, *words)


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        ("Anna B-PER\nin O\n", (), "vectors/dev.hdf5: does not fit dev.conll: another text"),
        ("", (), "dev.conll: contains no example"),
        ("Anna B-ORG\n", (), "labels known to the model: none of 1, such as 'B-ORG'"),
        (None, ("--embeddings", "one"), "not all layers of each token"),
        (None, ("--embeddings", "one/x.hdf5"), "is a file, not a folder"),
        (None, ("--set", "hidden"), "`=` is missing"),
        (None, ("--train", "-"), "`--train`: standard input can be read only once"),
        (None, ("--dev", "/dev/null"), "`--dev`: /dev/null can be read only once"),
        (None, ("--preset", "huge"), "`--preset huge`: no such preset"),
        (None, ("--resume",), "contains no run to resume"),
        (None, ("--elmo", "none", "--set", "char_filters=0"), "the model has no input"),
    ],
)
def test_bad_data_and_settings_are_two_lines_and_change_nothing(
    embedded: None, text: str | None, words: tuple[str, ...], error: str
) -> None:
    if "--embeddings" in words:
        Path("one").mkdir()
        made("embed", "train.conll", "-o", "one/x.hdf5", "--layers", "top")
    if text is not None:
        Path("dev.conll").write_text(text)
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()}
    done = command(*words)
    assert done.code in (1, 2)
    assert error in done.err
    assert len(done.err.splitlines()) == 2, done.err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("trained")
def test_vectors_that_are_not_finite_leave_the_old_run() -> None:
    before = content_of("ner")
    with h5py.File("vectors/dev.hdf5", "r+") as file:
        file["vectors"][4 + 2, 0, 5] = np.nan  # the first sentence has four tokens
    with pytest.raises(EmbeddingsFileError, match="sentence 1: a value is not finite"):
        train("ner", mode="overwrite")
    assert content_of("ner") == before


def test_train_evaluate_and_predict(folder: None) -> None:
    words = ("--word-vectors", "words.txt", "--epochs", 30, "--learning-rate", 0.02)
    done = made("train", "ner", *DATA, "-o", "ner", *words, "--seed", 3, "--json")
    facts = json.loads(done.out)
    assert all(f"`{name}`" in documented("train") for name in facts)
    assert sorted(path.name for path in Path("ner/vectors").iterdir())[0].startswith("dev-")
    evaluated = json.loads(made("evaluate", "ner", "--test", "dev.conll", "--json").out)
    assert evaluated["f1"] == facts["dev"]["f1"]
    names = evaluated.keys() - {"f1", "precision", "recall"}
    assert all(f"`{name}`" in documented("evaluate") for name in names)
    Path("new.txt").write_text("Anna Berg likes Oslo\n\nit rains\n")
    predicted = made("predict", "ner", "new.txt").out.decode()
    tokens = [line.split("\t")[0] for line in predicted.splitlines()]
    assert " ".join(tokens) == "Anna Berg likes Oslo   it rains "
    Path("latin.txt").write_bytes(b"ok\nbad \xe9\n")
    done = elmo("predict", "ner", "latin.txt", "--on-error", "skip")
    assert (done.code, done.out.decode().count("ok\t")) == (3, 1)
    assert "latin.txt, line 2" in done.err
    for option in (("--on-error", "skip"), ("--tokenize",), ("--column", 1)):
        done = elmo("predict", "ner", "dev.conll", "--as-data", *option)
        refused(done, 2, f"{option[0]}: has no effect for a file in", "leave it out")
    done = elmo("evaluate", "ner", "--test", "dev.conll", "--output-format", "jsonl")
    refused(done, 2, "--output-format: has no effect without -o", "leave it out")
    made("predict", "ner", "dev.conll", "--as-data", "-o", "as-data.conll")
    made("predict", "ner", "dev.conll", "-o", "a.conll")
    assert Path("as-data.conll").read_text() == Path("a.conll").read_text()
    made("evaluate", "ner", "--test", "dev.conll", "-o", "b.conll")
    assert Path("a.conll").read_text() == Path("b.conll").read_text()


def test_a_bilm_that_is_not_found_by_name_must_be_given(folder: None, odd: Path) -> None:
    """Embeddings files record only the name of a biLM, here `odd`, not its folder."""
    words = (*DATA, "-o", "ner", "--epochs", 1, "-f")
    shown = made("train", "ner", *words).out.decode()
    mix = json.loads(Path("ner/scores.json").read_text())["mix"]["input"]
    rounded = ", ".join(f"{weight:.2f}" for weight in mix["weights"])
    assert f"layer weights at the input: {rounded}; gamma {mix['gamma']:.2f}\n" in shown
    numbers = ",".join(f"{number:.6g}" for number in (*mix["weights"], mix["gamma"]))
    assert f"\n  --layers mix:{numbers}\n" in shown
    done = made("train", "ner", *words, "-m", odd, "--set", "elmo.layer_norm=true")
    assert b"--layers mix:" not in done.out
    assert json.loads(Path("ner/task.json").read_text())["bilm"]["source"] == str(odd)
    made("embed", "train.conll", "dev.conll", "-o", "vectors/", "-m", odd)
    made("train", "ner", *words, "--embeddings", "vectors")
    Path("new.conll").write_text("Oslo B-LOC\nrains O\n")
    for use in (("evaluate", "ner", "--test", "new.conll"), ("predict", "ner", "new.conll")):
        refused(elmo(*use), 1, "no model named `odd`", "with `--model`, name the folder")
        refused(elmo(*use, "-m", os.environ["ELMO_MODEL"]), 1, "", "with `--model`")
        made(*use, "-m", odd)
