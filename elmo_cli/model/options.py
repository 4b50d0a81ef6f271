"""Options: the sizes of a biLM, as options.json of bilm-tf and AllenNLP tells them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from elmo_cli.errors import OptionsError
from elmo_cli.regular_files import read_json

ACTIVATIONS = ("relu", "tanh")
N_CHARACTERS = 261  # 256 bytes, begin and end of sentence, begin and end of word, padding
# No published size comes near these; a larger one is a damaged or hostile file.
_LARGEST = 1 << 24
# All that files of bilm-tf and AllenNLP have in these two; keys beside them are for training.
_LSTM_KEYS = (
    *("dim", "projection_dim", "n_layers"),
    *("cell_clip", "proj_clip", "use_skip_connections"),
)
_CHAR_CNN_KEYS = (
    *("activation", "embedding", "filters", "n_highway"),
    *("n_characters", "max_characters_per_token"),
)
_HINT = "give the options.json that came with the weights"
_DEEPEST = 1000  # layers
_LONGEST = 1000  # characters of a token


@dataclass(frozen=True)
class Options:
    """The sizes of a biLM.

    Attributes:
        char_dim: size of a character embedding (16 in the published models).
        filters: (width, count) of each convolution over the characters.
        activation: "relu" or "tanh", after the maximum over positions.
        n_highway: highway layers over the filters' outputs; 0 for none.
        max_characters: places of a token, begin and end of word among them (50).
        n_layers: LSTM layers in each direction (2 in the published models).
        cell: inner size of an LSTM layer (4096), `dim` in the file.
        projection: output size of an LSTM layer and size of a token vector (512).
        cell_clip: bound of the cell's values, None for none (3).
        proj_clip: bound of the projected output, None for none (3).
        skip: whether layers after the first add their input to their output.
        cnn_projection: whether a matrix leads from the filters to `projection`.
        lstm_projection: whether a matrix leads from `cell` to `projection`.

    Source: bilm-tf `bilm/model.py`, AllenNLP `modules/elmo.py`; the paper's 3.4 has the sizes.
    """

    filters: tuple[tuple[int, int], ...]
    projection: int
    cell: int
    n_layers: int = 2
    char_dim: int = 16
    activation: str = "relu"
    n_highway: int = 1
    max_characters: int = 50
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    skip: bool = True
    cnn_projection: bool = True
    lstm_projection: bool = True

    @property
    def n_filters(self) -> int:
        """Size of the concatenated filters' outputs."""
        return sum(count for _, count in self.filters)

    @property
    def dim(self) -> int:
        """Size of a stored vector: both directions side by side."""
        return 2 * self.projection

    @classmethod
    def from_file(cls, path: str | Path) -> Options:
        """Read an options.json.

        Raises:
            OptionsError: not there, not JSON, or sizes that no biLM can have.
        """
        try:
            content = read_json(path, OptionsError, _HINT)
        except FileNotFoundError:
            raise OptionsError(
                f"{path}: no such options file", "a model is an options.json and a weights.hdf5"
            ) from None
        return cls.from_dict(content, where=str(path))

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "options") -> Options:
        """Check the content of an options.json.

        Args:
            content: the parsed JSON; keys that only training uses are left unread.
            where: name for messages.
        Raises:
            OptionsError: a key is missing or has a value that no biLM can have.
        """
        read = _Checked(content, where)
        cnn, lstm = read.part("char_cnn", _CHAR_CNN_KEYS), read.part("lstm", _LSTM_KEYS)
        characters = cnn.number("n_characters", N_CHARACTERS)
        if characters not in (N_CHARACTERS, N_CHARACTERS + 1):
            raise OptionsError(
                f"{where}: char_cnn.n_characters is {characters}, a biLM over bytes has 261 or 262",
                "this model reads other characters than UTF-8 bytes and can't be used here",
            )
        if not read.flag("bidirectional", default=True):
            raise OptionsError(
                f"{where}: bidirectional is false, a biLM has both directions",
                "give the options.json of a biLM",
            )
        filters = cnn.filters("filters")
        cell, projection = lstm.number("dim"), lstm.number("projection_dim")
        return cls(
            filters=filters,
            projection=projection,
            cell=cell,
            n_layers=lstm.number("n_layers", 1, most=_DEEPEST),
            char_dim=cnn.part("embedding", ("dim",)).number("dim"),
            activation=cnn.choice("activation", ACTIVATIONS),
            n_highway=cnn.number("n_highway", 0, least=0, most=_DEEPEST),
            max_characters=cnn.places(),
            cell_clip=lstm.clip("cell_clip"),
            proj_clip=lstm.clip("proj_clip"),
            skip=lstm.flag("use_skip_connections"),
            cnn_projection=sum(count for _, count in filters) != projection,
            lstm_projection=cell != projection,
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of an options.json that bilm-tf and AllenNLP load for inference."""
        return {
            "lstm": {
                "use_skip_connections": self.skip,
                "projection_dim": self.projection,
                "cell_clip": self.cell_clip,
                "proj_clip": self.proj_clip,
                "dim": self.cell,
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


class _Checked:
    """A JSON object whose values are read with their checks."""

    def __init__(self, content: Any, where: str, path: str = "") -> None:
        if not isinstance(content, Mapping):
            named = path.rstrip(".") or "the whole"
            raise OptionsError(
                f"{where}: {named} is {_shown(content)}, not a JSON object",
                _HINT,
            )
        self._content, self._where, self._path = content, where, path

    def part(self, name: str, keys: tuple[str, ...]) -> _Checked:
        found = _Checked(self._value(name), self._where, f"{self._path}{name}.")
        for key in found._content:
            if key not in keys:  # a misspelled clip would be none
                near = get_close_matches(str(key), keys, 1)
                raise OptionsError(
                    f"{self._where}: unknown key {_shown(key)} in {self._path}{name}",
                    f"did you mean `{near[0]}`?" if near else f"known are {', '.join(keys)}",
                )
        return found

    def number(
        self, name: str, default: int | None = None, *, least: int = 1, most: int = _LARGEST
    ) -> int:
        value = self._value(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self._refuse(name, value, f"a whole number from {least} to {most}")
        return int(value)

    def places(self) -> int:
        return self.number("max_characters_per_token", 50, least=3, most=_LONGEST)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            self._refuse(name, value, "true or false")
        return bool(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self._value(name)
        if value not in choices:
            self._refuse(name, value, " or ".join(choices))
        return str(value)

    def clip(self, name: str) -> float | None:
        value = self._content.get(name)
        if value is None:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value <= sys.float_info.max:
            self._refuse(name, value, "null or a positive number")
        # bilm-tf tests `if cell_clip`: a zero there means no clipping.
        return float(value) or None

    def filters(self, name: str) -> tuple[tuple[int, int], ...]:
        value = self._value(name)
        pairs = []
        for pair in value if isinstance(value, list) else []:
            whole = isinstance(pair, list) and all(type(n) is int for n in pair)
            if not whole or len(pair) != 2 or not all(0 < n <= _LARGEST for n in pair):
                self._refuse(name, value, "a list of [width, count] pairs")
            pairs.append((pair[0], pair[1]))
        if not pairs:
            self._refuse(name, value, "a list of [width, count] pairs")
        widest = max(width for width, _ in pairs)
        places = self.places()
        if widest > places:
            self._refuse(name, value, f"widths of at most max_characters_per_token ({places})")
        return tuple(pairs)

    def _value(self, name: str, default: Any = None) -> Any:
        # bilm-tf reads null as it reads a key that is not there.
        value = self._content.get(name)
        if value is None:
            value = default
        if value is None:
            raise OptionsError(
                f"{self._where}: {self._path}{name} is missing",
                _HINT,
            )
        return value

    def _refuse(self, name: str, value: Any, wanted: str) -> None:
        raise OptionsError(
            f"{self._where}: {self._path}{name} is {_shown(value)}, not {wanted}",
            _HINT,
        )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
