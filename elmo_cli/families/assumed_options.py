"""Options that the file of a model does not state, and which its reader assumes."""

from __future__ import annotations

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
    content = read_json(path, OptionsError, "give an options.json")
    return options.not_stated_in(content)
