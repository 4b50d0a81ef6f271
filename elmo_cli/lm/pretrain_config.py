"""PretrainConfig: all settings of a pretraining run, stored in a recipe, a JSON file whose keys are
the long names of the options.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from elmo_cli.errors import SettingError, UsageError
from elmo_cli.fields import at_least, bounded, check_fields, one_of
from elmo_cli.files import write_text
from elmo_cli.lm.settings import LIMITS, NOT_FIXED, TextSettings, TrainSettings
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.regular_files import read_json
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.training.run_folder import RECIPE_FILE

CHAR_FILTERS = {
    512: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)),
    2048: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
}
_READING = ("format", "tokenize", "encoding", "column", "on_error")
_LISTS = ("texts", "heldout")  # file names or patterns, such as "train/*.txt.xz"
_FILES = ("options_file", "vocabulary")
_SIZES, _TYPES = ("lstm_dim", "projection_dim", "char_filters"), ("vocabulary_size", "min_count")
_WITHOUT_EFFECT = {  # setting -> settings that it makes ineffective
    "init_from": ("options_file", *_SIZES, "vocabulary", *_TYPES),
    "options_file": _SIZES,
    "vocabulary": _TYPES,
}
_NESTED = ("text", "reading", "training", "data_dir")
_EXAMPLE = 'a recipe is {"texts": ["news.txt"], "batch-size": 32, …}'


@dataclass(frozen=True)
class PretrainConfig:
    """All settings of a pretraining run.

    Attributes:
        init_from: model that provides the initial weights, softmax and vocabulary.
        options_file: options.json with all sizes of a new biLM, instead of the next three fields.
        vocabulary: file with the types to predict; None to count them in the text.
        vocabulary_size, min_count: limits of a vocabulary that is counted in the text.
        device, threads: settings of the machine; see `engine.runtime`.
        data_dir: folder that file names in a recipe are relative to; None for the recipe's folder.
    """

    text: TextSettings = field(default_factory=TextSettings)
    training: TrainSettings = field(default_factory=TrainSettings)
    init_from: str | None = None
    options_file: str | None = None
    lstm_dim: int = at_least(1, 512)
    projection_dim: int = at_least(1, 128)
    char_filters: int = one_of(*CHAR_FILTERS)
    vocabulary: str | None = None
    vocabulary_size: int = at_least(4, 25_000)
    min_count: int = at_least(1, 2)
    device: str = "auto"
    threads: int | None = bounded(None, "a number from 1 to 1024", lambda value: 1 <= value <= 1024)
    data_dir: Path | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def read(cls, path: Path, *, data_dir: Path | None = None) -> PretrainConfig:
        """Read a recipe and expand patterns in the names of texts.

        Raises:
            FileNotFoundError: there is no such file.
            UsageError: it is not JSON, a key is unknown, or a value is invalid.
        """
        content = read_json(path, UsageError, _EXAMPLE)
        if not isinstance(content, dict):
            raise UsageError(f"{path}: not a JSON object", _EXAMPLE)
        home = data_dir or path.parent
        try:
            values = {_known(key): value for key, value in content.items() if value is not None}
            given = {name: _read_value(name, value, home) for name, value in values.items()}
            return cls(data_dir=data_dir).updated(given)
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}", error.hint) from None

    def write(self, folder: Path) -> None:
        """Write the settings as the recipe of the model in `folder`; raises OutputError."""
        home = self.data_dir or folder
        values = self._values()
        for other, _ in _without_effect(values):
            values.pop(other, None)
        recipe = {
            _key(name): _written_value(name, value, home)
            for name, value in values.items()
            if name != "device"  # a setting of the machine, not of the run
            if value is not None and value is not False and value != ()
        }
        # In ASCII, because file names may not be valid UTF-8.
        write_text(folder / RECIPE_FILE, [json.dumps(recipe, indent=2), "\n"])

    def updated(self, given: Mapping[str, Any]) -> PretrainConfig:
        """Return a copy with some settings replaced; a given limit replaces all limits.

        Args:
            given: values by name, including those of `text`, its `reading` and `training`; unknown
                names are ignored.
        Raises:
            SettingError: a setting is out of bounds, or has no effect in combination with another.
        """
        values = {**self._values(), **given}
        if not given.keys().isdisjoint(LIMITS):
            values |= {name: given.get(name) for name in LIMITS}
        for other, name in _without_effect(values):
            if other in given:
                what = f"has no effect with `{name}={values[name]}`"
                raise SettingError(other, what, "leave out one of them")
            values.pop(other, None)

        def made(owner: type, **more: Any) -> Any:
            mine = {one.name: values[one.name] for one in fields(owner) if one.name in values}
            return owner(**mine, **more)

        text = made(TextSettings, reading=made(InputSettings))
        parts = {"text": text, "training": made(TrainSettings), "data_dir": self.data_dir}
        return PretrainConfig(**vars(made(PretrainConfig)) | parts)

    def check_same_run(self, saved: PretrainConfig) -> None:
        """Raise a SettingError if a setting differs that resuming `saved` must not change."""
        mine = self._fixed()
        for name, before in saved._fixed().items():
            if mine[name] != before:
                what = f"the run started with {before}, now {mine[name]}"
                if name in _LISTS:
                    what = "the run started with other files"
                hint = f"leave out `{name}`, or start another run in a new folder"
                raise SettingError(name, what, hint)

    def _values(self) -> dict[str, Any]:
        reading = {name: getattr(self.text.reading, name) for name in _READING}
        values = {**vars(self), **vars(self.text), **vars(self.training), **reading}
        return {name: values[name] for name in _names()}

    def _fixed(self) -> dict[str, Any]:
        free = (*NOT_FIXED, "device", "threads")
        fixed = {name: value for name, value in self._values().items() if name not in free}
        for name in ("init_from", *_FILES):  # whatever paths name the files
            fixed[name] = fixed[name] and os.path.realpath(fixed[name])
        return fixed | {name: [os.path.realpath(one) for one in fixed[name]] for name in _LISTS}


def _without_effect(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each ineffective setting with the setting that makes it so."""
    for name, others in _WITHOUT_EFFECT.items():
        if values.get(name):
            yield from ((other, name) for other in others)


def _names() -> list[str]:
    """Return the names of the settings in a recipe."""
    owners = (TextSettings, TrainSettings, PretrainConfig)
    found = [one.name for owner in owners for one in fields(owner)]
    return [*_READING, *(name for name in found if name not in _NESTED)]


def _key(name: str) -> str:
    return "input-format" if name == "format" else name.replace("_", "-")


def _known(key: str) -> str:
    """Return the name of the setting with this key."""
    keys = {_key(name): name for name in _names()}
    if key not in keys:
        near = get_close_matches(key.lstrip("-").replace("_", "-"), keys, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"the keys are {', '.join(keys)}"
        raise UsageError(f'unknown key "{key}"', hint)
    return keys[key]


def _read_value(name: str, value: Any, home: Path) -> Any:
    """Check the type of a value of a recipe, and join file names to `home`."""
    if name in _LISTS:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(one and isinstance(one, str) for one in names):
            raise SettingError(name, "not a list of file names", f'"{name}": ["news.txt.gz"]')
        return tuple(found for one in names for found in _expanded(one, home))
    is_path = name in _FILES or (name == "init_from" and not find_model(str(value)))
    if is_path and isinstance(value, str):
        return os.path.join(home, value)
    return value


def _expanded(name: str, home: Path) -> Iterator[str]:
    """Yield the files that match a name or pattern of a recipe; `-` is standard input."""
    path = "-" if name == "-" else os.path.join(home, name)
    pattern = os.path.join(glob.escape(str(home)), name)
    found = [] if os.path.exists(path) else sorted(glob.glob(pattern, recursive=True))
    yield from found or [path]


def _written_value(name: str, value: Any, home: Path) -> Any:
    if name in _LISTS:
        return [_relative(one, home) for one in value]
    if name in _FILES:
        return _relative(value, home)
    if name != "init_from" or find_model(value):
        return value
    path = _relative(value, home)
    return os.path.join(os.curdir, path) if find_model(path) else path


def _relative(name: str, home: Path) -> str:
    """Return a file name relative to a folder; `-` is standard input."""
    return name if name == "-" else os.path.relpath(os.path.realpath(name), os.path.realpath(home))
