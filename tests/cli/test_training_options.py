"""The options of commands that train or measure reach the library, as do their defaults."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import elmo

from elmo_cli.analysis.labelled_vectors import LabelSettings
from elmo_cli.cli.lm_training import _total_size
from elmo_cli.errors import InputError
from elmo_cli.lm.finetune.job import FinetuneJob
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.text.input_settings import InputSettings

pytestmark = pytest.mark.usefixtures("folder")

Captured = Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
SHARED = {
    "batch_size": 3,
    "gradient_accumulation_steps": 2,
    "optimizer": "adagrad",
    "learning_rate": 0.5,
    "dropout": 0.25,
    "negative_samples": 7,
    "max_seconds": 9.0,
    "max_steps": 8,
    "max_epochs": 2.5,
    "patience": 6,
    "precision": "bf16",
    "dtype": "float16",
    "seed": 11,
}
READING = ("--encoding", "latin-1", "--tokenize", "--on-error", "skip")
READ = {"encoding": "latin-1", "tokenize": True, "on_error": "skip"}
PRETRAINED = {
    "heldout_tokens_per_file": 21,
    "train_tokens_per_file": 22,
    "eval_seconds": 23.0,
    "eval_steps": 24,
    "log_steps": 25,
    "warmup_steps": 26,
    "bptt": 27,
    "shuffle": "documents",
    "max_grad_norm": 2.5,
    "lstm_dim": 28,
    "projection_dim": 29,
    "char_filters": 2048,
    "vocabulary_size": 30,
    "min_count": 31,
}


def words_of(values: dict[str, Any]) -> list[object]:
    """The options with these values."""
    words: list[object] = []
    for name, value in values.items():
        words += [f"--{name.replace('_', '-')}", value]
    return words


def touch(*names: str) -> None:
    """Make empty files, which options name."""
    for name in names:
        Path(name).touch()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Captured:
    """Run a command up to the call of a function; return the arguments of the call."""

    def run(function: str, *words: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        calls = []

        def stop(*args: Any, **named: Any) -> None:
            calls.append((args, named))
            raise InputError("stopped", "here")

        with monkeypatch.context() as patch:
            patch.setattr(function, stop)
            done = elmo(*words)
        assert "error: stopped" in done.err
        [call] = calls
        return call

    return run


def test_options_of_finetune(captured: Captured) -> None:
    function = "elmo_cli.lm.finetune.run.finetune"
    touch("s", "v")
    model = ("-m", "m", "--softmax", "s", "--vocabulary", "v", "--fit-softmax")
    fit = words_of({"softmax_tokens": 5, "vocabulary_size": 6, "min_count": 4})
    texts = ("--domain", "a", "--domain", "b", "--heldout", "c")
    more = (*model, *fit, *READING, *words_of(SHARED), "--overwrite")
    (job,), _ = captured(function, "finetune", *texts, "-o", "out", *more)
    assert job == FinetuneJob(
        domain=("a", "b"),
        heldout=("c",),
        output=Path("out"),
        settings=TrainSettings(**SHARED),
        model=ModelSource("m"),
        softmax="s",
        vocabulary="v",
        fit_softmax=True,
        softmax_tokens=5,
        vocabulary_size=6,
        min_count=4,
        reading=InputSettings(**READ),
        device=torch.device("cpu"),
        mode="overwrite",
    )
    (job,), _ = captured(function, "finetune", "--domain", "a", "-o", "out")
    assert job == FinetuneJob(
        domain=("a",),
        output=Path("out"),
        settings=TrainSettings(max_epochs=3.0, patience=3),
        model=ModelSource(os.environ["ELMO_MODEL"]),
    )


def test_options_of_pretrain(captured: Captured) -> None:
    function = "elmo_cli.lm.pretrain.pretrain"
    texts = ("a", "b", "--heldout", "c", "--keep-best")
    settings = words_of({**SHARED, **PRETRAINED, "threads": 1})
    more = (*settings, *READING, "--prepare", "--overwrite")
    (config, folder, mode), named = captured(function, "pretrain", *texts, "-o", "out", *more)
    given = {**SHARED, **PRETRAINED, **READ, "keep_best": True, "threads": 1, "device": "cpu"}
    expected = PretrainConfig().updated({**given, "texts": ("a", "b"), "heldout": ("c",)})
    assert config == expected
    assert (folder, mode, named["prepare_only"]) == (Path("out"), "overwrite", True)
    words = ("pretrain", "a", "-o", "out", "--init-from", "m")
    (config, _, mode), named = captured(function, *words)
    given = {"texts": ("a",), "init_from": "m", "device": os.environ["ELMO_DEVICE"]}
    assert config == PretrainConfig().updated(given)
    assert (mode, named["prepare_only"]) == ("new", False)


def test_a_recipe_is_completed_by_the_command_line(captured: Captured) -> None:
    """Its file names are relative to its folder, or to `--data-dir`."""
    function = "elmo_cli.lm.pretrain.pretrain"
    for name in ("recipes/a.txt", "data/a.txt"):
        Path(name).parent.mkdir()
        Path(name).touch()
    Path("recipes/r.json").write_text('{"texts": ["a.txt"], "seed": 3, "max-steps": 4}')
    words = ("pretrain", "--recipe", "recipes/r.json", "-o", "out")
    (config, *_), _ = captured(function, *words, "--max-epochs", 2, "--dropout", 0.5)
    assert config.text.texts == ("recipes/a.txt",)
    assert config.training == TrainSettings(seed=3, max_epochs=2.0, dropout=0.5)
    (config, *_), _ = captured(function, *words, "--data-dir", "data")
    assert config.text.texts == ("data/a.txt",)
    assert config.training == TrainSettings(seed=3, max_steps=4)


def test_options_of_train(captured: Captured) -> None:
    function = "elmo_cli.tasks.train.train_task"
    files = ("--train", "a.conll", "--dev", "b.conll")
    touch("a.conll", "b.conll", "w")
    (task, data, output, _), named = captured(function, "train", "ner", *files, "-o", "out")
    assert (task.name, data.train, data.dev, output) == ("ner", "a.conll", "b.conll", "out")
    assert (data.word_vectors, data.on_error) == (None, "stop")
    assert data.embeddings.path == Path("out/vectors")
    assert named == {"mode": "new", "device": "cpu"}
    more = ("--embeddings", "v", "--word-vectors", "w", "--on-error", "skip", "--resume")
    (_, data, *_), named = captured(function, "train", "ner", *files, "-o", "out", *more)
    assert (data.word_vectors, data.on_error) == ("w", "skip")
    assert data.embeddings.path == Path("v")
    assert named["mode"] == "resume"


def test_options_of_perplexity(captured: Captured) -> None:
    touch("a", "b", "s", "v")
    args, _ = captured("elmo_cli.text.input.check_inputs", "perplexity", "a", "b", *READING)
    assert args == (("a", "b"), InputSettings(**READ))
    function = "elmo_cli.lm.language_model.load_language_model"
    words = ("-m", "m", "--softmax", "s", "--vocabulary", "v")
    args, named = captured(function, "perplexity", "a", *words)
    assert (args, named) == ((ModelSource("m"),), {"softmax": "s", "vocabulary": "v"})


def test_options_of_probe(captured: Captured) -> None:
    for name in ("train", "dev", "test"):
        Path(f"{name}.tags").touch()
    pairs = {name: (f"{name}.hdf5", f"{name}.tags") for name in ("train", "dev", "test")}
    words = [word for name, pair in pairs.items() for word in (f"--{name}", *pair)]
    labels = ("--label-format", "conll", "--label-column", "2", "--column", 3)
    more = (*labels, "--encoding", "latin-1", "--layer", 2, "--layer", 0)
    (read, files, _), _ = captured("elmo_cli.isolate.run_isolated", "probe", *words, *more)
    settings = LabelSettings(format="conll", column="2", token_column=3, encoding="latin-1")
    assert read.keywords == {**pairs, "labels": settings, "layers": (2, 0)}
    assert files == [name for pair in pairs.values() for name in pair]


@pytest.mark.parametrize(
    "line",
    [
        "pretrain a -o m --max-steps 1",
        "finetune --domain a -o m",
        "perplexity a",
        "train ner --train a --dev b -o m",
        "predict m a",
        "evaluate m --test a",
    ],
)
def test_the_number_of_threads_reaches_torch(line: str, captured: Captured) -> None:
    touch("a", "b")
    is_of_task = line.split()[0] in ("train", "predict", "evaluate")
    module = "task_options" if is_of_task else "options"
    for words, n_threads in (((), 1 if is_of_task else None), (("--threads", 3), 3)):
        (given,), _ = captured(f"elmo_cli.cli.{module}.use_threads", *line.split(), *words)
        assert given == n_threads


def test_the_size_of_texts_is_known_unless_one_is_a_pipe() -> None:
    """A bar that counts to the size of some of them would pass its end."""
    Path("a").write_bytes(b"12345")
    Path("b").write_bytes(b"1234567")
    sizes = [_total_size(paths) for paths in (["a", "b"], ["b"], ["a", "-"], ["-"], [])]
    assert sizes == [12, 7, None, None, None]


@pytest.mark.parametrize("line", ["pretrain a -o m --max-steps 1", "finetune --domain a -o m"])
def test_slow_products_are_warned_of(line: str, captured: Captured) -> None:
    """Most processors compute slowly in bfloat16."""
    words = ("--precision", "bf16", "--device", "cpu")
    function = "elmo_cli.cli.options.warn_of_slow_bf16"
    args, _ = captured(function, *line.split(), *words)
    assert args == ("bf16", torch.device("cpu"))
