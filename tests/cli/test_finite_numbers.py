"""Options that are numbers take no NaN and no infinity."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.types import FloatParamType

from elmo_cli.cli.main import COMMANDS, cli


def number_options() -> Iterator[tuple[click.Command, click.Parameter]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter.type, FloatParamType):
                yield command, parameter


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_no_option_takes_what_is_no_number(value: str) -> None:
    """NaN passes every comparison with a bound, and is no JSON in the recipe of a run."""
    options = list(number_options())
    assert {"--treebank-fraction", "--learning-rate", "--gpus-per-worker"} <= {
        p.opts[0] for _, p in options
    }
    for command, parameter in options:
        with pytest.raises(click.BadParameter, match=r"finite|in the range"):
            parameter.type_cast_value(click.Context(command), value)
