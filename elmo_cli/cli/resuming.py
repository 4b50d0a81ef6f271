"""What a run that goes on has done already, and what its recipe goes on to say of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli.recipes import is_given, recipe_parameters
from elmo_cli.errors import UsageError
from elmo_cli.lm.recipe import FILE_NAME, FILES, read_recipe
from elmo_cli.lm.run import CHAR_FILTERS
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE
from elmo_cli.pretrained.model_files import VOCABULARY_FILE
from elmo_cli.text.vocabulary import Vocabulary

SIZES = frozenset(("options_file", "lstm_dim", "projection_dim", "char_filters"))
TYPES = frozenset(("vocabulary", "vocabulary_size", "min_count"))
_BEGINNING = frozenset(("init_from", *SIZES, *TYPES))


def as_begun(ctx: click.Context, named: set[str]) -> None:
    """Refuse, for a run that goes on, another beginning than it had, and put into `ctx.params` the
    one that it had: whatever recipe is given now, its own says what its weights are made of.

    Args:
        named: the parameters that the command line or a recipe gives.
    Raises:
        UsageError: other sizes, another vocabulary or model; its own recipe can't be read.
    """
    folder = Path(ctx.params["output"])
    begun = _own_recipe(ctx, folder)
    parameters = {
        str(parameter.name): (name, parameter) for name, parameter in recipe_parameters(ctx).items()
    }
    for key in sorted(named & _BEGINNING):
        now, (name, _) = ctx.params[key], parameters[key]
        if name in FILES and not (is_given(ctx, key) or ctx.params["recipe"]):
            continue  # a file of the beginning, which may be gone: its copy is in the folder
        began_with = None if now is None else _otherwise(key, name, now, folder, begun)
        if began_with is not None:
            raise UsageError(
                f"{where_given(ctx, key, name)} {now}: the run began with {began_with}",
                f"{_mended(ctx, key, name)}, or begin another run: `-o` names a new folder",
            )
    for key in _BEGINNING:
        if begun:
            ctx.params[key] = _there([recipe.get(parameters[key][0]) for recipe in begun])
        elif key != "init_from":
            ctx.params[key] = None
    if not (begun or ctx.params["init_from"]):
        ctx.params["options_file"] = str(folder / OPTIONS_FILE)
        ctx.params["vocabulary"] = str(folder / VOCABULARY_FILE)


def where_given(ctx: click.Context, key: str, name: str) -> str:
    """Where a setting stands: on the command line, in `--recipe`, or in the run's own recipe.

    Args:
        key: its name in `ctx.params`.
        name: its long option without dashes.
    """
    if is_given(ctx, key):
        return f"--{name}"
    return f"{ctx.params['recipe'] or Path(ctx.params['output']) / FILE_NAME}: `{name}`"


def _mended(ctx: click.Context, key: str, name: str) -> str:
    """What to do about a setting that the run did not begin with."""
    if is_given(ctx, key):
        return f"leave out `--{name}`"
    return "leave out `--recipe`" if ctx.params["recipe"] else f"put `{name}` back as it was"


def _own_recipe(ctx: click.Context, folder: Path) -> list[dict[str, Any]]:
    """The run's recipe, with names relative to `--data-dir` first and to its folder next, as it may
    have been written either way; empty if it has none."""
    path, data = folder / FILE_NAME, ctx.params["data_dir"]
    if not path.exists():
        return []
    known = list(recipe_parameters(ctx))
    try:
        return [
            read_recipe(path, known, data=home, texts_needed=False)
            for home in ([Path(data), None] if data else [None])
        ]
    except UsageError as error:
        if not ctx.params["recipe"]:
            raise
        hint = f"remove {path}: `--recipe` takes its place"
        raise UsageError(error.message, hint) from None


def _otherwise(
    key: str, name: str, now: Any, folder: Path, begun: list[dict[str, Any]]
) -> str | None:
    """What the run began with in place of a setting, None if it is the same or not known."""
    if key in SIZES and (path := folder / OPTIONS_FILE).exists():
        return _other_size(key, now, Options.from_file(path))
    if key == "vocabulary" and (path := folder / VOCABULARY_FILE).exists():
        same = Vocabulary.read(Path(now)).types == Vocabulary.read(path).types
        return None if same else "other types"
    if not begun:
        return None
    then = [recipe.get(name) for recipe in begun]
    if now in then or (
        key == "init_from"
        and any(one and os.path.realpath(one) == os.path.realpath(now) for one in then)
    ):
        return None
    if then[0] is not None:
        return str(then[0])
    made_of = next((other for other in ("init-from", "vocabulary") if other in begun[0]), None)
    return f"`--{made_of} {begun[0][made_of]}`" if made_of else "weights of its own"


def _there(values: list[Any]) -> Any:
    """The first that is the name of a file, if one is."""
    return next((one for one in values if isinstance(one, str) and os.path.exists(one)), values[0])


def _other_size(key: str, now: Any, own: Options) -> str | None:
    if key == "options_file":
        return None if Options.from_file(now) == own else "other sizes"
    if key == "char_filters":
        return None if CHAR_FILTERS[now] == own.filters else "other filters"
    then = own.lstm_dim if key == "lstm_dim" else own.projection_dim
    return None if now == then else str(then)
