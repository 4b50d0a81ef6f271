"""A recipe file as the source of options that the command line does not give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from elmo_cli.cli.main import reword_click
from elmo_cli.cli.options import non_empty, text_names
from elmo_cli.errors import UsageError
from elmo_cli.lm.recipe import LISTS, read_recipe
from elmo_cli.lm.settings import LIMITS

# What belongs to one call of the command and not to a run.
_APART = frozenset(
    (
        "output",
        "prepare",
        "resume",
        "overwrite",
        "recipe",
        "data_dir",
        "quiet",
        "as_json",
        "help",
    )
)


def long_name(parameter: click.Parameter) -> str:
    """The name of a parameter in a recipe: its long option without dashes, or `texts`."""
    if isinstance(parameter, click.Argument):
        return str(parameter.name)
    return max(parameter.opts, key=len).lstrip("-")


def recipe_parameters(ctx: click.Context) -> dict[str, click.Parameter]:
    """What a recipe can hold, by the names that it has there."""
    parameters = (p for p in ctx.command.params if p.name not in _APART)
    return {long_name(parameter): parameter for parameter in parameters}


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether the command line or the environment gives a parameter."""
    if name in LISTS and not ctx.params[name]:
        return False
    return ctx.get_parameter_source(name) in (
        ParameterSource.COMMANDLINE,
        ParameterSource.ENVIRONMENT,
    )


def take_recipe(
    ctx: click.Context, path: Path, data: Path | None, *, texts_needed: bool = True
) -> set[str]:
    """Put the settings of a recipe into `ctx.params` where the command line gives none.

    A limit on the command line takes the place of all limits in the recipe.

    Args:
        texts_needed: as `read_recipe` has it.
    Returns:
        The names of the parameters that were taken.
    Raises:
        UsageError: the recipe can't be read, or one of its values does not fit.
    """
    parameters = recipe_parameters(ctx)
    taken = set()
    other_limit = any(is_given(ctx, name) for name in LIMITS)
    found = read_recipe(path, list(parameters), data=data, texts_needed=texts_needed)
    for name, value in found.items():
        parameter = parameters[name]
        key = str(parameter.name)
        if is_given(ctx, key) or (other_limit and key in LIMITS):
            continue
        if name in LISTS:
            check = text_names if texts_needed else non_empty
            ctx.params[key] = check(ctx, parameter, tuple(value))
        else:
            ctx.params[key] = _converted(ctx, parameter, value, f"{path}: `{name}`")
        taken.add(key)
    return taken


def effective_settings(ctx: click.Context, *, without: set[str]) -> dict[str, Any]:
    """All settings that are not empty, by the names that they have in a recipe."""
    values = {
        name: ctx.params[str(parameter.name)]
        for name, parameter in recipe_parameters(ctx).items()
        if parameter.name not in without
    }
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }


def _converted(ctx: click.Context, parameter: click.Parameter, value: Any, where: str) -> Any:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: {value!r}, not true or false", "write it without quotes")
        return value
    if isinstance(value, (list, dict)):
        raise UsageError(f"{where}: {value!r}, not one value", "give a number or a name")
    try:
        # As a text, so that 1.5 is refused where a whole number is wanted.
        return parameter.type_cast_value(ctx, str(value))
    except click.BadParameter as error:
        said = reword_click(error.message)
        raise UsageError(f"{where}: {said}", "`elmo pretrain --help` shows what it takes") from None
