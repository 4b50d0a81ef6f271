"""No option of any command takes an empty value, or NaN or infinity for a number."""

from __future__ import annotations

import click
import pytest
from click.types import FloatParamType

from elmo_cli.cli.main import COMMANDS, cli
from elmo_cli.errors import UsageError

REFUSED = (UsageError, click.BadParameter)


def parameters() -> list[tuple[click.Context, click.Parameter]]:
    """All parameters of all commands and sub-commands, flags left out."""
    found = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    found += [sub for one in found for sub in getattr(one, "commands", {}).values()]
    pairs = [(click.Context(command), one) for command in found for one in command.params]
    return [pair for pair in pairs if not getattr(pair[1], "is_flag", False)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    """NaN passes every comparison with a bound, and is no JSON in the recipe of a run."""
    floats = [pair for pair in parameters() if isinstance(pair[1].type, FloatParamType)]
    names = {parameter.opts[0] for _, parameter in floats}
    assert {"--treebank-fraction", "--learning-rate", "--gpus-per-worker"} <= names
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
