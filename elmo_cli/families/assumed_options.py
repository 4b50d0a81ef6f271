"""Options that the file of a model does not state, and which its reader assumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo_cli.errors import OptionsError
from elmo_cli.model.options import Options
from elmo_cli.regular_files import read_json

FORGET_BIAS = "lstm.forget_bias"  # TensorFlow's LSTM adds it when it runs; no file states it


def options_and_assumed(path: Path) -> tuple[Options, dict[str, Any]]:
    """Read an options.json; return its options, and `assumed_options`."""
    options = Options.from_file(path)
    return options, assumed_options(path, options)


def assumed_options(path: Path, options: Options) -> dict[str, Any]:
    """The options that an options.json does not state, as bilm-tf assumes them, by their paths.

    Args:
        options: as they were read from the file.
    """
    stated = read_json(path, OptionsError, "give an options.json")
    assumed: dict[str, Any] = {}
    if "forget_bias" not in stated["lstm"]:
        assumed[FORGET_BIAS] = 1.0
    _add_assumed(assumed, stated, options.to_dict(), "")
    return assumed


def _add_assumed(
    assumed: dict[str, Any], stated: Mapping[str, Any], full: Mapping[str, Any], parent: str
) -> None:
    """Add what an object of an options.json lacks, with the objects in it."""
    for key, value in full.items():
        if isinstance(value, Mapping):
            _add_assumed(assumed, stated[key], value, f"{parent}{key}.")
        elif key not in stated:
            assumed[f"{parent}{key}"] = value
