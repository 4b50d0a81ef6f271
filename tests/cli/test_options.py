"""Options of all commands: what they refuse, and what a shell completes."""

from __future__ import annotations

import sys
from dataclasses import fields

import click
import pytest
import torch
from click.shell_completion import ShellComplete
from click.types import FloatParamType
from command_line import commands

from elmo_cli.cli import console
from elmo_cli.cli.command_groups import COMMAND_NAMES
from elmo_cli.cli.main import cli
from elmo_cli.cli.options import warn_of_slow_bf16
from elmo_cli.errors import UsageError

REFUSED = (UsageError, click.BadParameter)


def parameters() -> list[tuple[click.Context, click.Parameter]]:
    """All parameters of all commands and sub-commands, flags left out."""
    pairs = []
    for command in commands().values():
        for parameter in command.params:
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            if not is_flag:
                pairs.append((click.Context(command), parameter))
    return pairs


def options_class(command: click.Command) -> type:
    """The class of the values of a command: `EmbedOptions`, in the module of `embed`."""
    function = command.callback
    assert function is not None
    words = function.__name__.split("_")
    name = "".join(word.capitalize() for word in words) + "Options"
    options_class: type = getattr(sys.modules[function.__module__], name)
    return options_class


def test_each_option_is_a_field_of_the_options_of_its_command() -> None:
    """And each field an option; a value that has no field could only be looked up by its name."""
    checked = set()
    for words, command in commands().items():
        name = " ".join(words)
        values = {parameter.name for parameter in command.params if parameter.expose_value}
        if isinstance(command, click.Group) or not values:
            continue
        field_names = {field.name for field in fields(options_class(command))}
        assert field_names == values, name
        checked.add(name)
    assert {"embed", "models pull", "plot senses"} <= checked


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    """NaN passes every comparison with a bound, and is no JSON in the recipe of a run."""
    checked = set()
    for context, parameter in parameters():
        if isinstance(parameter.type, FloatParamType):
            with pytest.raises(click.BadParameter, match=r"finite|in the range"):
                parameter.type_cast_value(context, value)
            checked.add(parameter.opts[0])
    assert {"--dropout", "--learning-rate", "--gpus-per-worker"} <= checked


def test_no_value_is_empty() -> None:
    """An unset shell variable would be taken for an option that is not given."""
    for context, parameter in parameters():
        is_list = parameter.multiple or parameter.nargs == -1
        value = "" if parameter.nargs in (1, -1) else ("",) * parameter.nargs
        with pytest.raises(REFUSED):
            parameter.process_value(context, (value,) if is_list else value)


def test_the_help_ends_with_the_general_options_and_shows_defaults() -> None:
    embed = commands()["embed",]
    text = embed.get_help(click.Context(embed, **cli.context_settings))
    headings = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Output:", "Model:", "Compute:", "Input:", "Cluster:", "General:"]
    words = " ".join(text.split())
    for option in ("--workers N", "--gpus-per-worker FLOAT", "--dtype TYPE"):
        _, _, rest = words.partition(f" {option} ")
        described, _, _ = rest.partition("]")
        default = {"--w": "1", "--g": "0", "--d": "float32"}[option[:3]]
        assert described.endswith(f" [default: {default}"), option


def offered(*words: str) -> list[tuple[str, str]]:
    """The completions of the last word: what kind each is, and its text."""
    *before, incomplete = words
    complete = ShellComplete(cli, {}, "elmo", "_ELMO_COMPLETE")
    completions = complete.get_completions(before, incomplete)
    return [(completion.type, completion.value) for completion in completions]


NOT_FILES_FIRST = ("models", "info", "probe", "finetune", "train", "evaluate", "predict", "plot")


@pytest.mark.parametrize("command", [name for name in COMMAND_NAMES if name not in NOT_FILES_FIRST])
def test_files_are_completed(command: str) -> None:
    """A shell that has a completion of ours asks nobody else: `elmo embed c<TAB>` did nothing."""
    assert ("file", "corp") in offered(command, "corp")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("embed -o x", "file"),
        ("pretrain --data-dir x", "dir"),
        ("finetune --domain x", "file"),
        ("train ner --train x", "file"),
        ("evaluate x", "dir"),
        ("predict ner x", "file"),
        ("plot senses x", "file"),
        ("probe --train x", "file"),
        ("probe --train a.hdf5 x", "file"),
    ],
)
def test_files_and_folders_are_completed_where_a_value_is_one(line: str, kind: str) -> None:
    assert offered(*line.split()) == [(kind, "x")]


PATH_METAVARS = {
    "FILE": ("file", "x"),
    "FILE…": ("file", "x"),
    "FILE LABELS": ("file", "x"),
    "DIR|FILE": ("file", "x"),
    "NAME|PATH": ("file", "x"),
    "TEXT…": ("file", "x"),
    "DIR": ("dir", "x"),
    "DIR|MIX…": ("dir", "x"),
}


def test_every_value_that_is_called_a_path_is_completed() -> None:
    """An option that is declared without `type=FILE` would have no completion, unseen."""
    checked = set()
    for context, parameter in parameters():
        if parameter.metavar in PATH_METAVARS:
            completions = parameter.shell_complete(context, "x")
            offers = [(completion.type, completion.value) for completion in completions]
            assert offers == [PATH_METAVARS[parameter.metavar]], parameter.opts
            checked.add(parameter.metavar)
    assert checked == PATH_METAVARS.keys()


@pytest.mark.parametrize(
    ("precision", "is_fast", "n_warnings"),
    [("bf16", False, 1), ("bf16", True, 0), ("int8", False, 0), ("float32", False, 0)],
)
def test_a_processor_that_emulates_bfloat16_is_warned_of(
    precision: str,
    is_fast: bool,
    n_warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(console, "running", console.RunningCommand())
    monkeypatch.setattr("elmo_cli.engine.runtime.has_fast_bf16", lambda device: is_fast)
    warn_of_slow_bf16(precision, torch.device("cpu"))
    warning = "warning: this processor computes much more slowly in bfloat16 than in float32\n"
    assert capsys.readouterr().err == warning * n_warnings


def test_models_and_choices_are_completed() -> None:
    assert offered("embed", "-m", "orig") == [
        ("file", "orig"),
        ("plain", "original"),
        ("plain", "original-5.5b"),
    ]
    assert offered("models", "pull", "sm") == [("plain", "small")]
    assert ("plain", "float16") in offered("embed", "--dtype", "fl")
    assert offered("embed", "--batch-size", "1") == []
