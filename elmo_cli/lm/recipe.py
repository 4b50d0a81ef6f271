"""Recipe: all settings of a run in a JSON file, by the names of the command's long options."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from elmo_cli.errors import UsageError
from elmo_cli.files import write_text
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.regular_files import read_json

FILE_NAME = "recipe.json"
LISTS = ("texts", "heldout")  # names of files or patterns, such as "train/*.txt.xz"
FILES = ("options-file", "vocabulary")
MODEL = "init-from"  # a name of the catalogue, or a path


@dataclass(frozen=True)
class Recipe:
    """The settings that a run was made with.

    Attributes:
        settings: by the names of the long options, and `texts`; names of files as the run had them.
        data: the folder that the names of texts are written relative to; None for the folder of the
            model, where the recipe itself stands.
    """

    settings: Mapping[str, Any]
    data: Path | None = None

    def write(self, folder: Path) -> None:
        """Write the recipe into the folder of a model.

        Raises:
            OutputError: it can't be written.
        """
        home = self.data or folder
        written: dict[str, Any] = {}
        for name, value in self.settings.items():
            if name in LISTS:
                written[name] = [_relative(one, home) for one in value]
            elif name in FILES:
                written[name] = _relative(value, home)
            elif name == MODEL:
                written[name] = _written_model(value, home)
            else:
                written[name] = value
        text = json.dumps(written, indent=2)  # in ASCII, as names of files need not be UTF-8
        write_text(folder / FILE_NAME, [text, "\n"])


def read_recipe(
    path: Path, known: list[str], *, data: Path | None = None, texts_needed: bool = True
) -> dict[str, Any]:
    """The settings of a recipe, names of files made complete and patterns resolved.

    Args:
        known: the names that there are.
        data: the folder that names of files are relative to; None for the recipe's own.
        texts_needed: whether a pattern that nothing fits is an error.
    Raises:
        UsageError: no such file, not JSON, a setting that does not exist, a list that holds
            something else than names, a pattern that nothing fits.
    """
    try:
        content = read_json(path, UsageError, 'a recipe is {"batch-size": 32, …}')
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: can't be read ({error.strerror})", "`--recipe FILE` names a recipe"
        ) from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: not a JSON object", 'a recipe is {"batch-size": 32, …}')
    home = data or path.parent
    found: dict[str, Any] = {}
    for name, value in content.items():
        if name not in known:
            near = get_close_matches(name.lstrip("-").replace("_", "-"), known, 1)
            raise UsageError(
                f"{path}: no setting `{name}`",
                f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}",
            )
        if value is None:
            continue
        if name in LISTS:
            found[name] = _names(path, name, value, home, needed=texts_needed)
        elif name in FILES:
            found[name] = str(home / str(value))
        elif name == MODEL and isinstance(value, str):
            found[name] = _read_model(value, home)
        else:
            found[name] = value
    return found


def _names(path: Path, name: str, value: Any, home: Path, *, needed: bool) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) and one for one in listed):
        raise UsageError(f"{path}: `{name}` is not a list of names", f'"{name}": ["news.txt.gz"]')
    found = []
    for one in listed:
        if one == "-" or (home / one).exists() or not set(one) & set("*?["):
            found.append(one if one == "-" else str(home / one))
            continue
        fitting = sorted(glob.glob(os.path.join(glob.escape(str(home)), one), recursive=True))
        if not fitting and needed:
            raise UsageError(
                f"{path}: `{name}`: no file is called {home / one}",
                "names are relative to the recipe, or to the folder of `--data-dir`",
            )
        found += fitting or [str(home / one)]
    return found


def _relative(name: str, home: Path) -> str:
    """A name as it is found from a folder; `-` is standard input."""
    if name == "-":
        return name
    found = os.path.relpath(name, home)
    folder, own = os.path.split(name)
    folder = os.path.realpath(folder)
    # `..` behind a link leads elsewhere than the spelling of the name says.
    if os.path.realpath(os.path.join(home, os.path.dirname(found))) == folder:
        return found
    return os.path.relpath(os.path.join(folder, own), os.path.realpath(home))


def _written_model(model: str, home: Path) -> str:
    """A model as a recipe has it: a name that is looked up stays, a path never looks like one."""
    if find_model(model):
        return model
    path = _relative(model if os.path.exists(model) else os.path.expanduser(model), home)
    return os.path.join(os.curdir, path) if find_model(path) else path


def _read_model(model: str, home: Path) -> str:
    """The model that a recipe names, as `pretrained.locate` takes it."""
    path = os.path.join(home, model)
    is_path = os.path.exists(path) or not model.startswith("~")
    return path if is_path and not find_model(model) else model
