"""Settings of a pretraining run, and the recipe file that stores them: no training here."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from elmo_cli.errors import SettingError, UsageError
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.lm.settings import NOT_FIXED, TrainSettings
from elmo_cli.model_folder import RECIPE_FILE

BUNDLED = Path(__file__).parents[2] / "weights/elmo-en" / RECIPE_FILE
NAN = math.nan
INF = math.inf


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        *((name, (0, -1, 2.5, True), 1) for name in ("batch_size", "bptt", "log_steps")),
        *((name, (0, -1), 1) for name in ("gradient_accumulation_steps", "eval_steps")),
        ("patience", (0, 1.0, "3"), 1),
        ("max_steps", (0, 1.0, "3", 10**15 + 1), 10**15),
        *((name, (0, -1.0, NAN, INF), 0.5) for name in ("learning_rate", "max_grad_norm")),
        ("eval_seconds", (0, -1, NAN, INF), 1),
        *((name, (0, -1, 5e-324, 1e308, NAN, INF), 1) for name in ("max_seconds", "max_epochs")),
        *((name, (-1, 0.5), 0) for name in ("warmup_steps", "negative_samples")),
        ("dropout", (-0.1, 1, NAN), 0),
        ("seed", (-1, 2**63), 2**63 - 1),
        ("optimizer", ("sgd", ""), "adagrad"),
        ("shuffle", ("words",), "documents"),
        ("precision", ("int8",), "bf16"),
        ("dtype", ("bf16",), "float16"),
        ("keep_best", (1, "yes"), True),
        *((name, (0, 1.5), 1) for name in ("lstm_dim", "projection_dim", "min_count")),
        ("char_filters", (1024, 0), 2048),
        ("vocabulary_size", (3,), 4),
        ("threads", (0, 1025), 1024),
        ("train_tokens_per_file", (0,), 1),
        ("tokenize", ("yes",), True),
    ],
)
def test_bounds_of_settings(name: str, wrong: tuple[Any, ...], right: Any) -> None:
    """A value that makes no sense is refused before a text is read."""
    assert PretrainConfig().updated({name: right})
    for value in wrong:
        with pytest.raises(SettingError) as caught:
            PretrainConfig().updated({name: value})
        assert caught.value.name == name
        assert caught.value.hint


def test_training_without_an_end_or_heldout_text_is_refused() -> None:
    with pytest.raises(UsageError, match="no limit"):
        TrainSettings().check(has_heldout=True)
    for setting in ({"patience": 1}, {"keep_best": True}):
        with pytest.raises(SettingError, match="there is no held-out text"):
            TrainSettings(max_steps=1, **setting).check(has_heldout=False)
        TrainSettings(max_epochs=1.0, **setting).check(has_heldout=True)
    with pytest.raises(SettingError, match="no held-out text"):
        PretrainConfig().updated({"heldout_tokens_per_file": 5})


def values_of(config: PretrainConfig) -> dict[str, Any]:
    """All settings by name."""
    return {
        **vars(config),
        **vars(config.text),
        **vars(config.text.reading),
        **vars(config.training),
    }


@pytest.mark.parametrize(
    ("base", "given", "expected"),
    [
        ({"batch_size": 4, "seed": 1}, {"batch_size": 3}, {"batch_size": 3, "seed": 1}),
        ({"max_steps": 4}, {"max_epochs": 0.5}, {"max_steps": None, "max_epochs": 0.5}),
        ({"max_steps": 4}, {"learning_rate": 0.5}, {"max_steps": 4, "learning_rate": 0.5}),
        ({"texts": ("a",)}, {"texts": ("b",), "column": 2}, {"texts": ("b",), "column": 2}),
        (
            {"lstm_dim": 8, "vocabulary": "v"},
            {"init_from": "a"},
            {"lstm_dim": 512, "vocabulary": None},
        ),
        ({"lstm_dim": 8}, {"options_file": "o"}, {"lstm_dim": 512, "options_file": "o"}),
        ({"min_count": 8}, {"vocabulary": "v"}, {"min_count": 2, "vocabulary": "v"}),
    ],
)
def test_given_settings_replace_those_of_a_recipe(
    base: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Also those that what is given makes ineffective."""
    config = PretrainConfig().updated(base).updated(given)
    values = values_of(config)
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("base", "given", "name"),
    [
        ({"init_from": "a"}, {"lstm_dim": 8}, "lstm_dim"),
        ({}, {"init_from": "a", "options_file": "o"}, "options_file"),
        ({"options_file": "o"}, {"char_filters": 2048}, "char_filters"),
        ({"vocabulary": "v"}, {"vocabulary_size": 9}, "vocabulary_size"),
        *(
            ({"init_from": "a"}, {name: value}, name)
            for name, value in {
                "options_file": "o",
                "projection_dim": 8,
                "char_filters": 2048,
                "vocabulary": "v",
                "vocabulary_size": 9,
                "min_count": 3,
            }.items()
        ),
        ({"options_file": "o"}, {"lstm_dim": 8}, "lstm_dim"),
        ({"options_file": "o"}, {"projection_dim": 8}, "projection_dim"),
        ({"vocabulary": "v"}, {"min_count": 3}, "min_count"),
    ],
)
def test_given_setting_without_effect_is_refused(
    base: dict[str, Any], given: dict[str, Any], name: str
) -> None:
    """The user would believe that the model has this size."""
    config = PretrainConfig().updated(base)
    with pytest.raises(SettingError, match="has no effect with") as caught:
        config.updated(given)
    assert caught.value.name == name


def test_what_a_resumed_run_may_change() -> None:
    """Limits, the learning rate, and how the same batch is divided."""
    saved = PretrainConfig()
    fixed = {
        "lstm_dim": 16,
        "options_file": "o.json",
        "vocabulary": "v.txt",
        "seed": 1,
        "init_from": "elmo-en",
        "dropout": 0.0,
        "keep_best": True,
        "dtype": "float16",
    }
    for name, value in fixed.items():
        with pytest.raises(SettingError, match="the run started with") as caught:
            saved.updated({name: value}).check_same_run(saved)
        assert caught.value.name == name
    free = {
        "max_steps": 1,
        "learning_rate": 0.1,
        "precision": "bf16",
        "batch_size": 8,
        "gradient_accumulation_steps": 4,
        "eval_steps": 3,
        "max_epochs": 2.0,
        "max_seconds": 9.0,
        "patience": 2,
        "log_steps": 7,
        "eval_seconds": 5.0,
        "device": "cuda",
        "threads": 3,
    }
    assert free.keys() == {*NOT_FIXED, "device", "threads"}
    saved.updated(free).check_same_run(saved)


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[" * 200_000, "not JSON"),
        ({"row": 3}, 'unknown key "row"'),
        ({"batch_size": 3}, 'unknown key "batch_size"'),
        ({"batch-sizes": 3}, 'unknown key "batch-sizes"'),
        ({"batch-size": 2.5}, "`batch_size`: 2.5 is not a whole number"),
        ({"eval-seconds": "x"}, "`eval_seconds`: 'x' is not a number"),
        ({"init-from": 3}, "`init_from`: 3 is not a string"),
        ({"optimizer": "sgd"}, "`optimizer`: unknown value 'sgd'"),
        ({"input-format": "x"}, "`format`: unknown value 'x'"),
        ({"texts": [3]}, "`texts`: not a list of file names"),
        ({"init-from": "elmo-en", "lstm-dim": 8}, "`lstm_dim`: has no effect with `init_from="),
        ([1], "not a JSON object"),
    ],
)
def test_recipe_with_a_wrong_setting_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    """A setting with a slip in its name must not be ignored: the run would be another one."""
    path = tmp_path / RECIPE_FILE
    write(path, content)
    with pytest.raises(UsageError, match=message) as caught:
        PretrainConfig.read(path)
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint


@pytest.mark.parametrize("key", ["batch_size", "batch-sizes", "--batch-size"])
def test_similar_key_is_suggested(key: str, tmp_path: Path) -> None:
    path = write(tmp_path / RECIPE_FILE, {key: 3})
    with pytest.raises(UsageError) as caught:
        PretrainConfig.read(path)
    assert caught.value.hint == "did you mean `batch-size`?"


def test_keys_are_listed_if_none_is_similar(tmp_path: Path) -> None:
    """By the names that a recipe has; one of them is not that of its setting."""
    with pytest.raises(UsageError) as caught:
        PretrainConfig.read(write(tmp_path / RECIPE_FILE, {"xyz": 3}))
    keys = caught.value.hint.removeprefix("the keys are ").split(", ")
    assert {"input-format", "texts", "batch-size", "init-from", "threads"} <= set(keys)
    assert {"format", "data-dir", "text", "training", "reading"}.isdisjoint(keys)


def test_default_learning_rates() -> None:
    """A rate that is given replaces that of the optimizer."""
    rates = {"adamw": 2.5e-3, "adagrad": 0.2}
    for optimizer, rate in rates.items():
        assert TrainSettings(optimizer=optimizer).peak_rate == rate
        assert TrainSettings(optimizer=optimizer, learning_rate=0.5).peak_rate == 0.5


def test_recipe_with_a_treebank_fraction_says_how_to_prepare_the_text(tmp_path: Path) -> None:
    """Ignoring it would train a model that has seen one spelling only."""
    path = write(tmp_path / RECIPE_FILE, {"texts": ["a.txt"], "treebank-fraction": 0.125})
    with pytest.raises(UsageError, match="written into the text beforehand") as caught:
        PretrainConfig.read(path)
    assert caught.value.message.startswith(f'{path}: unknown key "treebank-fraction"')
    assert "`python -m benchmarks.model_card.treebank_text DATA -o FOLDER" in caught.value.hint


def test_written_recipe_reads_back(tmp_path: Path) -> None:
    """The recipe next to a model is how others train it again."""
    config = PretrainConfig().updated(
        {
            "texts": (str(tmp_path / "a.txt"), "-"),
            "format": "plain",
            "keep_best": True,
            "dropout": 0.0,
            "max_steps": 3,
            "learning_rate": 0.01,
            "init_from": "elmo-en",
            "device": "cpu",
            "threads": 1,
            "tokenize": True,
            "encoding": "latin-1",
            "on_error": "skip",
            "shuffle": "documents",
            "heldout": (str(tmp_path / "b.txt"),),
            "heldout_tokens_per_file": 7,
        }
    )
    config.write(tmp_path)
    content = json.loads((tmp_path / RECIPE_FILE).read_text())
    expected = {"texts": ["a.txt", "-"], "dropout": 0.0, "keep-best": True}
    assert content.items() >= expected.items()
    assert {"device", "max-seconds", "column", "data-dir"}.isdisjoint(content)
    without_effect = {"lstm-dim", "projection-dim", "char-filters", "min-count"}
    assert without_effect.isdisjoint(content)
    read = PretrainConfig.read(tmp_path / RECIPE_FILE)
    assert read == config.updated({"device": "auto"})


def test_names_of_files_are_relative_to_the_recipe(tmp_path: Path) -> None:
    """So that a folder with the files and the model can be moved."""
    files = {"options_file": "in/o.json", "vocabulary": "v.txt"}
    given = {name: str(tmp_path / path) for name, path in files.items()}
    config = PretrainConfig().updated({**given, "init_from": None})
    (tmp_path / "model").mkdir()
    config.write(tmp_path / "model")
    content = json.loads((tmp_path / "model" / RECIPE_FILE).read_text())
    assert (content["options-file"], content["vocabulary"]) == ("../in/o.json", "../v.txt")
    read = PretrainConfig.read(tmp_path / "model" / RECIPE_FILE)
    for name, path in files.items():
        assert os.path.realpath(getattr(read, name)) == str(tmp_path.resolve() / path)


@pytest.mark.parametrize(
    ("name", "value"), [("column", 2), ("fasta_id", "uniprot"), ("fasta_raw", True)]
)
def test_settings_of_other_formats_are_written_too(name: str, value: Any, tmp_path: Path) -> None:
    config = PretrainConfig().updated({name: value})
    config.write(tmp_path)
    assert PretrainConfig.read(tmp_path / RECIPE_FILE) == config != PretrainConfig()


def test_bundled_recipe_is_readable() -> None:
    config = PretrainConfig.read(BUNDLED, data_dir=Path("data"))
    assert config.init_from == "elmo-en"
    assert config.text.texts == ("data/train/*-001.txt",)
    assert (config.training.batch_size, config.training.dtype) == (96, "float16")


def test_patterns_are_expanded_in_order_of_name(tmp_path: Path) -> None:
    """A file whose name contains such a character is taken as it is."""
    for name in ("train/b.txt", "train/a.txt", "c[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    path = write(tmp_path / "recipes" / RECIPE_FILE, {"texts": ["train/*.txt", "c[1].txt", "x*"]})
    names = [str(tmp_path / name) for name in ("train/a.txt", "train/b.txt", "c[1].txt", "x*")]
    assert PretrainConfig.read(path, data_dir=tmp_path).text.texts == tuple(names)
    PretrainConfig.read(path, data_dir=tmp_path).write(path.parent)
    content = json.loads(path.read_text())
    assert content["texts"] == ["train/a.txt", "train/b.txt", "c[1].txt", "x*"]


def test_names_lead_to_the_same_files_from_a_linked_folder(tmp_path: Path) -> None:
    """`..` leads out of the folder that a link points to, where another file may have the name."""
    for name in ("here", "there/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "here/model").symlink_to(tmp_path / "there/deep")
    text = tmp_path / "here" / os.fsdecode(b"caf\xe9.txt")
    text.touch()
    PretrainConfig().updated({"texts": (str(text),)}).write(tmp_path / "here/model")
    recorded = PretrainConfig.read(tmp_path / "here/model" / RECIPE_FILE).text.texts[0]
    assert os.path.samefile(recorded, text)


@pytest.mark.parametrize("home", ["out", "."])
@pytest.mark.parametrize("model", ["elmo-en", "./elmo-en", "mine", "gone/model"])
def test_a_model_is_recorded_as_it_is_looked_up(
    model: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated run would start from another model than the first."""
    monkeypatch.chdir(tmp_path)
    for name in ("elmo-en", "mine", "out"):
        (tmp_path / name).mkdir()
    PretrainConfig(init_from=model, data_dir=Path(home)).write(Path("out"))
    source = PretrainConfig.read(Path("out") / RECIPE_FILE, data_dir=Path(home)).init_from
    assert source is not None
    if model == "elmo-en":
        assert source == model
    else:
        assert os.sep in source
        assert os.path.realpath(source) == os.path.realpath(model)
