"""Settings of task models by name, and the word vectors and characters that a model reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elmo_cli.errors import SettingError, UsageError
from elmo_cli.tasks.ner import NerSettings
from elmo_cli.tasks.settings import TASKS, TaskSettings, as_flat, with_settings
from elmo_cli.tasks.task import load_task


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden", "64", 64),
        ("learning_rate", "3e-4", 3e-4),
        ("optimizer", "adadelta", "adadelta"),
        ("train_word_vectors", "False", False),
        ("label_column", "-1", "-1"),
        ("elmo.layer_norm", "true", True),
    ],
)
def test_a_setting_is_changed_by_its_text(name: str, text: str, value: object) -> None:
    settings = with_settings(NerSettings(), {name: text})
    changed = as_flat(settings)
    assert changed == {**as_flat(NerSettings()), name: value}
    assert type(changed[name]) is type(value)
    assert with_settings(NerSettings(), changed) == settings


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("hiden", "64", "did you mean `hidden`"),
        ("xyz", "1", "choose one of elmo.layers"),
        ("hidden", "many", "'many' is not a whole number"),
        ("elmo.dropout", "1", "`elmo.dropout`: 1 is not a number from 0 to below 1"),
        ("elmo_l2", "1", "did you mean `elmo.l2`"),
        ("fraction", "0", "above 0 and at most 1"),
        ("learning_rate", "-1", "is not a positive number"),
        ("elmo.layers", "top", "unknown value 'top'"),
        ("train_word_vectors", "maybe", "is not true or false"),
        ("hidden", "{[]}", "'{[]}' is not a whole number"),  # a TypeError of `literal_eval`
        ("hidden", "(" * 999, "is not a whole number"),
    ],
)
def test_a_bad_setting_is_refused(name: str, text: str, words: str) -> None:
    with pytest.raises(SettingError) as error:
        with_settings(TaskSettings(), {name: text})
    assert words in f"{error.value} {error.value.hint}"


LIMITS: dict[str, dict[str, tuple[list[object], list[object]]]] = {  # accepted and refused
    "ner": {
        "elmo.where": (["input", "output", "both"], ["top"]),
        "elmo.l2": ([0.0], [-0.1, float("inf"), float("nan")]),
        "elmo.dropout": ([0.0, 0.99], [-0.1, 1.0]),
        "elmo.projection": ([0, 16_384], [-1, 16_385]),
        "char_filters": ([0, 16_384], [-1, 16_385]),
        "char_dim": ([1, 1_024], [0, 1_025]),
        "char_width": ([1, 20], [0, 21]),
        "hidden": ([1, 16_384], [0, 16_385]),
        "layers": ([1, 100], [0, 101]),
        "dropout": ([0.0, 0.99], [-0.1, 1.0]),
        "optimizer": (["adam", "adadelta"], ["sgd"]),
        "lr_patience": ([0], [-1]),
        "max_grad_norm": ([0.1], [0.0]),
        "batch_size": ([1, 16_384], [0, 16_385]),
        "epochs": ([1], [0]),
        "patience": ([1], [0]),
        "fraction": ([0.01, 1.0], [0.0, 1.01]),
        "seed": ([0, 2**63 - 1], [-1, 2**63]),
        "crf_scheme": (["BIO", "BIOUL"], ["BIOES"]),
    },
    "classification": {
        "model": (["bilstm", "bcn"], ["cnn"]),
        "subtrees": ([0.0, 1.0], [-0.1, 1.1]),
        "epochs": ([1], [0]),
    },
    "coref": {
        "max_width": ([1, 100], [0, 101]),
        "spans_per_token": ([0.1], [0.0]),
        "max_antecedents": ([1], [0]),
        "scorer_layers": ([1, 100], [0, 101]),
        "window_tokens": ([1], [0]),
    },
    "qa": {"highways": ([0, 100], [-1, 101]), "max_answer": ([1, 1_000], [0, 1_001])},
    "srl": {
        "encoder": (["bilstm", "alternating"], ["lstm"]),
        "encoder_dropout": ([0.0], [1.0]),
        "layers": ([1, 100], [0, 101]),
    },
}


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, limits in LIMITS.items() for name in limits]
)
def test_the_limits_of_each_setting(task: str, name: str) -> None:
    accepted, refused = LIMITS[task][name]
    for value in accepted:
        assert as_flat(load_task(task, {name: value}).settings)[name] == value
    for value in refused:
        with pytest.raises(SettingError, match=f"^`{name}`"):
            load_task(task, {name: value})


@pytest.mark.parametrize(
    ("name", "preset", "hint"), [("nerr", None, "ner"), ("ner", "papers", "paper")]
)
def test_unknown_tasks_and_presets_are_refused(name: str, preset: str | None, hint: str) -> None:
    with pytest.raises(UsageError, match="no such") as error:
        load_task(name, {}, preset)
    assert f"did you mean `{hint}`?" in error.value.hint


def test_changes_override_a_preset() -> None:
    settings = load_task("ner", {"hidden": "7"}, "paper").settings
    assert (settings.hidden, settings.layers, settings.elmo_l2) == (7, 2, 0.1)


def test_every_task_and_setting_is_documented() -> None:
    """With its default, in docs/guides/train.md."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "train.md").read_text("utf-8")
    shared = as_flat(TaskSettings())
    rows = re.findall(r"^\| `([\w.]+)` \| (\S+) \| (?:`(\w+)`: )?", page, re.M)
    others = " ".join(re.search(r"Other defaults: (.*?)\.\n\n", page, re.DOTALL)[1].split())
    expected = [(name, shown(value), "") for name, value in shared.items()]
    for name in TASKS:
        assert re.search(rf"^\| `{name}` \|", page, re.M)
        settings = as_flat(load_task(name).settings)
        own = {key: value for key, value in settings.items() if key not in shared}
        expected += [(key, shown(value), name) for key, value in own.items()]
        changed = {key: value for key, value in shared.items() if settings[key] != value}
        text = ", ".join(f"`{key}` {shown(settings[key])}" for key in changed)
        assert not text or f"`{name}`: {text}" in others
    assert rows == expected


def shown(value: object) -> str:
    """A default as the page shows it."""
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value).lower() if value in (True, False) else str(value)
