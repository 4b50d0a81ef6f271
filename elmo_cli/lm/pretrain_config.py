"""PretrainConfig: all settings of a pretraining run, stored in a recipe, a JSON file whose keys are
the long names of the options.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from elmo_cli.errors import SettingError, UsageError
from elmo_cli.fields import at_least, bounded, check_fields, one_of
from elmo_cli.files import write_text
from elmo_cli.lm.settings import LIMITS, NOT_FIXED, TextSettings, TrainSettings
from elmo_cli.model_folder import RECIPE_FILE
from elmo_cli.pretrained.hub import is_model_name
from elmo_cli.regular_files import read_json
from elmo_cli.text.input_settings import InputSettings

CHAR_FILTERS = {
    512: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)),
    2048: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
}
_READING = ("format", "tokenize", "encoding", "column", "fasta_id", "fasta_raw", "on_error")
_LISTS = ("texts", "heldout")  # file names or patterns, such as "train/*.txt.xz"
_FILES = ("options_file", "vocabulary")
_SIZES = ("lstm_dim", "projection_dim", "char_filters")
_TYPES = ("vocabulary_size", "min_count")
_WITHOUT_EFFECT = {  # setting -> settings that it makes ineffective
    "init_from": ("options_file", *_SIZES, "vocabulary", *_TYPES),
    "options_file": _SIZES,
    "vocabulary": _TYPES,
}
_NESTED = ("text", "reading", "training", "data_dir")
_OF_THE_MACHINE = ("device", "threads")
_EXAMPLE = 'a recipe is {"texts": ["news.txt"], "batch-size": 32, …}'
_TREEBANK_HINT = (
    "leave it out; `python -m benchmarks.model_card.treebank_text DATA -o FOLDER --fraction 0.125` "
    "in a clone of the repository writes such texts"
)


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
            raise UsageError("not a JSON object", _EXAMPLE, where=path)
        folder = data_dir or path.parent
        settings: dict[str, Any] = {}
        try:
            for key, value in content.items():
                name = _name_of_key(key)
                if value is not None:
                    settings[name] = _read_value(name, value, folder)
            return cls(data_dir=data_dir).updated(settings)
        except UsageError as error:
            raise UsageError(error.message, error.hint, where=path) from None

    def write(self, folder: Path) -> None:
        """Write the settings as the recipe of the model in `folder`; raises OutputError."""
        file_names_from = self.data_dir or folder
        values = self._values()
        without_effect = {name for name, _ in _without_effect(values)}
        recipe: dict[str, Any] = {}
        for name, value in values.items():
            is_default = value is None or value is False or value == ()
            # The device is a setting of the machine, not of the run.
            if not is_default and name not in without_effect and name != "device":
                recipe[_key_of_name(name)] = _written_value(name, value, file_names_from)
        # In ASCII, because file names may not be valid UTF-8.
        write_text(folder / RECIPE_FILE, [json.dumps(recipe, indent=2), "\n"], durable=True)

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
            for name in LIMITS:
                values[name] = given.get(name)
        for name, cause in _without_effect(values):
            if name in given:
                problem = f"has no effect with `{cause}={values[cause]}`"
                raise SettingError(name, problem, "leave out one of them")
            values.pop(name, None)
        reading = InputSettings(**_values_of_fields(InputSettings, values))
        text = TextSettings(**_values_of_fields(TextSettings, values), reading=reading)
        training = TrainSettings(**_values_of_fields(TrainSettings, values))
        own = _values_of_fields(PretrainConfig, values)
        return PretrainConfig(**own, text=text, training=training, data_dir=self.data_dir)

    def check_same_run(self, saved: PretrainConfig) -> None:
        """Raise a SettingError if a setting differs that resuming `saved` must not change."""
        fixed = self._fixed()
        for name, before in saved._fixed().items():
            if fixed[name] != before:
                problem = f"the run started with {before}, now {fixed[name]}"
                if name in _LISTS:
                    problem = "the run started with other files"
                hint = f"leave out `{name}`, or start another run in a new folder"
                raise SettingError(name, problem, hint)

    def _values(self) -> dict[str, Any]:
        """All settings of a recipe by name."""
        owners = {**vars(self.text.reading), **vars(self.training), **vars(self.text), **vars(self)}
        return {name: owners[name] for name in _names()}

    def _fixed(self) -> dict[str, Any]:
        """The settings that a resumed run must not change, with the real paths of all files."""
        values = self._values()
        for name in (*NOT_FIXED, *_OF_THE_MACHINE):
            del values[name]
        for name in ("init_from", *_FILES):
            values[name] = values[name] and os.path.realpath(values[name])
        for name in _LISTS:
            values[name] = [os.path.realpath(path) for path in values[name]]
        return values


def _values_of_fields(owner: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields that a class of settings has, apart from nested settings."""
    names = [field.name for field in fields(owner) if field.name not in _NESTED]
    return {name: values[name] for name in names if name in values}


def _without_effect(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each ineffective setting with the setting that makes it so."""
    pairs = []
    for cause, names in _WITHOUT_EFFECT.items():
        if values.get(cause):
            pairs += [(name, cause) for name in names]
    return pairs


def _names() -> list[str]:
    """Return the names of the settings in a recipe."""
    names = list(_READING)
    for owner in (TextSettings, TrainSettings, PretrainConfig):
        names += [field.name for field in fields(owner) if field.name not in _NESTED]
    return names


def _key_of_name(name: str) -> str:
    return "input-format" if name == "format" else name.replace("_", "-")


def _name_of_key(key: str) -> str:
    """Return the name of the setting with this key; a UsageError for an unknown key."""
    names = {_key_of_name(name): name for name in _names()}
    if key in names:
        return names[key]
    if key == "treebank-fraction":
        problem = f'unknown key "{key}": treebank spelling is written into the text beforehand'
        raise UsageError(problem, _TREEBANK_HINT)
    similar = get_close_matches(key.lstrip("-").replace("_", "-"), names, 1)
    hint = f"did you mean `{similar[0]}`?" if similar else f"the keys are {', '.join(names)}"
    raise UsageError(f'unknown key "{key}"', hint)


def _read_value(name: str, value: Any, folder: Path) -> Any:
    """Check the type of a value of a recipe, and join file names to `folder`."""
    if name in _LISTS:
        return tuple(_read_list(name, value, folder))
    is_path = name in _FILES or (name == "init_from" and not is_model_name(str(value)))
    if is_path and isinstance(value, str):
        return os.path.join(folder, value)
    return value


def _read_list(name: str, value: Any, folder: Path) -> list[str]:
    """Return the files of a list of names and patterns, or of a single one."""
    patterns = value if isinstance(value, list) else [value]
    files: list[str] = []
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise SettingError(name, "not a list of file names", f'"{name}": ["news.txt.gz"]')
        files += _matching_files(pattern, folder)
    return files


def _matching_files(pattern: str, folder: Path) -> list[str]:
    """Return the files that a name or pattern of a recipe means; `-` is standard input."""
    if pattern == "-":
        return ["-"]
    path = os.path.join(folder, pattern)
    if os.path.exists(path):
        return [path]
    matches = glob.glob(os.path.join(glob.escape(str(folder)), pattern), recursive=True)
    return sorted(matches) or [path]  # whatever reads it reports that it is missing


def _written_value(name: str, value: Any, folder: Path) -> Any:
    """Return a setting as a recipe has it, with file names relative to `folder`."""
    if name in _LISTS:
        return [_relative(path, folder) for path in value]
    if name in _FILES:
        return _relative(value, folder)
    if name != "init_from" or is_model_name(value):
        return value
    path = _relative(value, folder)
    return os.path.join(os.curdir, path) if is_model_name(path) else path


def _relative(name: str, folder: Path) -> str:
    """Return a file name relative to a folder; `-` is standard input."""
    if name == "-":
        return name
    return os.path.relpath(os.path.realpath(name), os.path.realpath(folder))
