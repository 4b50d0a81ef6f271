"""Options: the sizes of a biLM, as options.json of bilm-tf and AllenNLP states them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmo_cli.errors import OptionsError
from elmo_cli.regular_files import read_json

N_CHARACTERS = 261  # 256 bytes, begin and end of sentence, begin and end of word, padding
_MAX_SIZE = 1 << 24  # no published size comes near; a larger one is a corrupt or hostile file
_MAX_COUNT = 1000  # of layers, and of characters of a token
_HINT = "give the options.json that came with the weights"
_REQUIRED = object()


@dataclass(frozen=True)
class Options:
    """The sizes of a biLM.

    Source: bilm-tf `bilm/model.py`, AllenNLP `modules/elmo.py`; the paper's 3.4 has the sizes.
    """

    filters: tuple[tuple[int, int], ...]  # (width, count) of each convolution over the characters
    projection_dim: int  # output size of an LSTM layer and size of a token vector (512)
    lstm_dim: int  # inner size of an LSTM layer (4096), `dim` in the file
    n_layers: int = 2  # LSTM layers in each direction
    char_dim: int = 16  # size of a character embedding
    activation: str = "relu"  # or "tanh", after the maximum over positions
    n_highway: int = 1  # highway layers over the filters' outputs
    max_characters: int = 50  # positions of a token, including begin and end of word
    cell_clip: float | None = 3.0  # bound of the cell's values, None for none
    proj_clip: float | None = 3.0  # bound of the projected output, None for none
    residual: bool = True  # whether layers after the first add their input to their output
    has_cnn_projection: bool = True  # whether a matrix leads from the filters to `projection_dim`
    has_lstm_projection: bool = True  # whether one leads from `lstm_dim` to `projection_dim`

    @property
    def n_filters(self) -> int:
        """Size of the concatenated filters' outputs."""
        return sum(count for _, count in self.filters)

    @property
    def dim(self) -> int:
        """Size of a stored vector: both directions, concatenated."""
        return 2 * self.projection_dim

    @classmethod
    def from_file(cls, path: str | Path) -> Options:
        """Read an options.json; an OptionsError if it is missing, not JSON or not of a biLM."""
        try:
            content = read_json(path, OptionsError, _HINT)
        except FileNotFoundError:
            hint = "a model is an options.json and a weights.hdf5"
            raise OptionsError(f"{path}: no such options file", hint) from None
        return cls.from_dict(content, where=str(path))

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "options") -> Options:
        """Check the parsed JSON of an options.json, named `where`, without the keys of training; an
        OptionsError for a key that is missing or has a value that no biLM can have."""
        sections = _sections(content, where)
        values = {field.attribute: field.read(sections, where) for field in _FIELDS}
        filters, max_characters = values["filters"], values["max_characters"]
        if max(width for width, _ in filters) > max_characters:
            at_most = f"widths of at most max_characters_per_token ({max_characters})"
            raise _refused(where, "char_cnn.filters", [list(pair) for pair in filters], at_most)
        return cls(
            **{name: value for name, value in values.items() if name},
            has_cnn_projection=sum(count for _, count in filters) != values["projection_dim"],
            has_lstm_projection=values["lstm_dim"] != values["projection_dim"],
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of an options.json that bilm-tf and AllenNLP load for inference."""
        return {
            "lstm": {
                "use_skip_connections": self.residual,
                "projection_dim": self.projection_dim,
                "cell_clip": self.cell_clip,
                "proj_clip": self.proj_clip,
                "dim": self.lstm_dim,
                "n_layers": self.n_layers,
            },
            "char_cnn": {
                "activation": self.activation,
                "filters": [list(pair) for pair in self.filters],
                "n_highway": self.n_highway,
                "embedding": {"dim": self.char_dim},
                "n_characters": N_CHARACTERS + 1,
                "max_characters_per_token": self.max_characters,
            },
        }


class _Field(NamedTuple):
    """A value of options.json: its path, attribute of `Options` ("" for none), check, default."""

    path: str
    attribute: str
    check: Callable[[Any], Any]  # returns the value, or raises ValueError(what was expected)
    default: Any = _REQUIRED

    def read(self, sections: Mapping[str, Mapping[str, Any]], where: str) -> Any:
        section, _, key = self.path.rpartition(".")
        value = sections[section].get(key)
        if value is None and self.default is _REQUIRED:
            raise OptionsError(f"{where}: {self.path} is missing", _HINT)
        if value is None:  # bilm-tf treats null as a missing key
            return self.default
        try:
            return self.check(value)
        except ValueError as error:
            raise _refused(where, self.path, value, str(error)) from None


def _integer(low: int = 1, high: int = _MAX_SIZE) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return check


def _one_of(*choices: Any) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise ValueError(" or ".join(json.dumps(choice).strip('"') for choice in choices))
        return value

    return check


def _clip(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise ValueError("null or a positive number")
    return float(value) or None  # bilm-tf tests `if cell_clip`: a zero means no clipping


def _filters(value: Any) -> tuple[tuple[int, int], ...]:
    for pair in value if isinstance(value, list) and value else [None]:
        sizes = pair if isinstance(pair, list) else []
        if [type(n) for n in sizes] != [int, int] or not all(0 < n <= _MAX_SIZE for n in sizes):
            raise ValueError("a list of [width, count] pairs")
    return tuple((width, count) for width, count in value)


# All that bilm-tf and AllenNLP have in these objects; top-level keys besides are for training.
_FIELDS = (
    _Field("bidirectional", "", _one_of(True), True),
    _Field("char_cnn.n_characters", "", _integer(N_CHARACTERS, N_CHARACTERS + 1), 261),
    _Field("char_cnn.embedding.dim", "char_dim", _integer()),
    _Field("char_cnn.filters", "filters", _filters),
    _Field("char_cnn.activation", "activation", _one_of("relu", "tanh")),
    _Field("char_cnn.n_highway", "n_highway", _integer(0, _MAX_COUNT), 0),
    _Field("char_cnn.max_characters_per_token", "max_characters", _integer(3, _MAX_COUNT), 50),
    _Field("lstm.dim", "lstm_dim", _integer()),
    _Field("lstm.projection_dim", "projection_dim", _integer()),
    _Field("lstm.n_layers", "n_layers", _integer(1, _MAX_COUNT), 1),
    _Field("lstm.cell_clip", "cell_clip", _clip, None),
    _Field("lstm.proj_clip", "proj_clip", _clip, None),
    _Field("lstm.use_skip_connections", "residual", _one_of(True, False), False),
)
_SECTIONS = ("char_cnn", "char_cnn.embedding", "lstm")


def _sections(content: Any, where: str) -> dict[str, Mapping[str, Any]]:
    """The JSON objects of an options.json by their paths, "" for the file."""
    sections: dict[str, Mapping[str, Any]] = {}
    paths = (*_SECTIONS, *(field.path for field in _FIELDS))
    for path in ("", *_SECTIONS):
        parent, _, name = path.rpartition(".")
        section = sections[parent].get(name) if path else content
        if not isinstance(section, Mapping):
            what = f"{where}: {path or 'the content'} is missing or not a JSON object"
            raise OptionsError(what, _HINT)
        sections[path] = section
        # Keys that nothing reads are refused: a misspelled clip would be no clip.
        known = [one.rpartition(".")[2] for one in paths if one.rpartition(".")[0] == path]
        if path and (unknown := [key for key in section if key not in known]):
            what = f"{where}: unknown key {_shown(unknown[0])} in {path}"
            raise OptionsError(what, f"known are {', '.join(known)}")
    return sections


def _refused(where: str, path: str, value: Any, expected: str) -> OptionsError:
    return OptionsError(f"{where}: {path} is {_shown(value)}, not {expected}", _HINT)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
