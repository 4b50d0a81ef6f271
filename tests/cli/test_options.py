"""Options of all commands: what they refuse, and what a shell completes."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import ShellComplete
from click.types import FloatParamType
from command_line import commands

from elmo_cli.cli.main import COMMANDS, cli
from elmo_cli.errors import UsageError

REFUSED = (UsageError, click.BadParameter)


def parameters() -> list[tuple[click.Context, click.Parameter]]:
    """All parameters of all commands and sub-commands, flags left out."""
    found = commands().values()
    pairs = [(click.Context(command), one) for command in found for one in command.params]
    return [pair for pair in pairs if not getattr(pair[1], "is_flag", False)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    """NaN passes every comparison with a bound, and is no JSON in the recipe of a run."""
    floats = [pair for pair in parameters() if isinstance(pair[1].type, FloatParamType)]
    names = {parameter.opts[0] for _, parameter in floats}
    assert {"--dropout", "--learning-rate", "--gpus-per-worker"} <= names
    for context, parameter in floats:
        with pytest.raises(click.BadParameter, match=r"finite|in the range"):
            parameter.type_cast_value(context, value)


def test_no_value_is_empty() -> None:
    """An unset shell variable would be taken for an option that is not given."""
    for context, parameter in parameters():
        is_list = parameter.multiple or parameter.nargs == -1
        one = "" if parameter.nargs in (1, -1) else ("",) * parameter.nargs
        with pytest.raises(REFUSED):
            parameter.process_value(context, (one,) if is_list else one)


def offered(*words: str) -> list[tuple[str, str]]:
    *before, incomplete = words
    found = ShellComplete(cli, {}, "elmo", "_ELMO_COMPLETE").get_completions(before, incomplete)
    return [(item.type, item.value) for item in found]


NOT_FILES_FIRST = ("models", "probe", "finetune", "train", "evaluate", "predict", "plot")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NOT_FILES_FIRST])
def test_files_are_completed(command: str) -> None:
    """A shell that has a completion of ours asks nobody else: `elmo embed c<TAB>` did nothing."""
    assert ("file", "corp") in offered(command, "corp")


def test_files_folders_and_models_of_options() -> None:
    assert offered("embed", "-o", "x") == [("file", "x")]
    assert offered("pretrain", "--data-dir", "x") == [("dir", "x")]
    assert offered("finetune", "--domain", "x") == [("file", "x")]
    assert offered("train", "ner", "--train", "x") == [("file", "x")]
    assert offered("evaluate", "x") == [("dir", "x")]
    assert offered("predict", "ner", "x") == [("file", "x")]
    assert offered("plot", "senses", "x") == [("file", "x")]
    assert offered("probe", "--train", "x") == [("file", "x")]
    assert offered("probe", "--train", "a.hdf5", "x") == [("file", "x")]
    assert offered("embed", "-m", "orig") == [
        ("plain", "original"),
        ("plain", "original-5.5b"),
        ("file", "orig"),
    ]
    assert offered("models", "pull", "sm") == [("plain", "small")]
    assert ("plain", "float16") in offered("embed", "--dtype", "fl")
    assert offered("embed", "--batch-size", "1") == []
