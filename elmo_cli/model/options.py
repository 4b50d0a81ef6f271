"""Options: the sizes of a biLM, as options.json of bilm-tf and AllenNLP states them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_cli.errors import OptionsError
from elmo_cli.regular_files import read_json

N_CHARACTERS = 261  # 256 bytes, begin and end of sentence, begin and end of word, padding
# The dictionaries of a model that reads Unicode characters, in the folder of its options.json.
CHARACTERS_FILE = "characters.txt"
WORDS_FILE = "words.txt"
_MAX_SIZE = 1 << 24  # no published size comes near; a larger one is a corrupt or hostile file
_MAX_COUNT = 1000  # of layers, and of characters of a token
_HINT = "give the options.json that came with the weights"
_REQUIRED = object()


@dataclass(frozen=True)
class Options:
    """The sizes of a biLM.

    Only the weights state how many entries the dictionaries of a model with `is_unicode` have: an
    options.json leaves `n_characters` and `n_words` at their defaults.

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
    forget_bias: float = 1.0  # added to the bias of the forget gate; 0 if the stored one has it
    n_characters: int = N_CHARACTERS  # rows of the character embedding
    is_unicode: bool = False  # whether characters are Unicode characters of a dictionary, not bytes
    word_dim: int = 0  # size of a word embedding, next to the filters; 0 without words
    n_words: int = 0  # rows of the word embedding
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
            raise OptionsError("no such options file", hint, where=path) from None
        return cls.from_dict(content, where=str(path))

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "options") -> Options:
        """Check the parsed JSON of an options.json, named `where`, without the keys of training; an
        OptionsError for a key that is missing or has a value that no biLM can have."""
        sections = _sections(content, where)
        values = {field.attribute: field.read(sections, where) for field in _FIELDS}
        filters = values["filters"]
        max_characters = values["max_characters"]
        if max(width for width, _ in filters) > max_characters:
            expected = f"widths of at most max_characters_per_token ({max_characters})"
            pairs = [list(pair) for pair in filters]
            raise _refused(where, "char_cnn.filters", pairs, expected)
        is_unicode = values["is_unicode"]
        if values["word_dim"] and not is_unicode:
            expected = f"next to char_cnn.characters ({CHARACTERS_FILE})"
            raise _refused(where, "words", sections["words"], expected)
        n_filters = sum(count for _, count in filters)
        return cls(
            **{name: value for name, value in values.items() if name},
            has_cnn_projection=is_unicode or n_filters != values["projection_dim"],
            has_lstm_projection=values["lstm_dim"] != values["projection_dim"],
        )

    def not_stated_in(self, content: Any) -> dict[str, Any]:
        """Return the options that a file does not state, by their paths, such as "lstm.n_layers".

        Args:
            content: the parsed JSON of the options.json from which these options were read.
        Raises:
            OptionsError: a required object is missing, or a key is unknown.
        """
        all_options = self.to_dict()
        all_options["lstm"]["forget_bias"] = self.forget_bias  # `to_dict` leaves out 1
        sections = _sections(all_options, "options")
        stated_sections = _sections(content, "options")
        not_stated: dict[str, Any] = {}
        for field in _FIELDS:
            section = sections[field.section]
            if field.key in section and not field.is_stated(stated_sections):
                not_stated[field.path] = section[field.key]
        return not_stated

    def to_dict(self) -> dict[str, Any]:
        """The content of an options.json.

        bilm-tf and AllenNLP load it for inference. They know neither `forget_bias`, which is
        written only if it is not the 1 that they add, nor dictionaries: `n_characters`, which they
        require, is left out of a model that has those.
        """
        lstm: dict[str, Any] = {
            "use_skip_connections": self.residual,
            "projection_dim": self.projection_dim,
            "cell_clip": self.cell_clip,
            "proj_clip": self.proj_clip,
            "dim": self.lstm_dim,
            "n_layers": self.n_layers,
        }
        if self.forget_bias != 1:
            lstm["forget_bias"] = self.forget_bias
        char_cnn: dict[str, Any] = {
            "activation": self.activation,
            "filters": [list(pair) for pair in self.filters],
            "n_highway": self.n_highway,
            "embedding": {"dim": self.char_dim},
        }
        content: dict[str, Any] = {"lstm": lstm, "char_cnn": char_cnn}
        if self.is_unicode:
            content["family"] = "elmoformanylangs"
            char_cnn["characters"] = CHARACTERS_FILE
        else:
            char_cnn["n_characters"] = N_CHARACTERS + 1
        if self.word_dim:
            content["words"] = {"dim": self.word_dim, "file": WORDS_FILE}
        char_cnn["max_characters_per_token"] = self.max_characters
        return content


@dataclass(frozen=True)
class _Field:
    """A value of options.json."""

    section: str  # path of the object that contains it, "" for the file
    key: str
    attribute: str  # of `Options`, "" for a value that is only checked
    check: Callable[[Any], Any]  # returns the value, or raises ValueError(what was expected)
    default: Any = _REQUIRED

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key

    def is_stated(self, sections: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether a file states the value; null does so only if it means "none", as for a clip."""
        section = sections[self.section]
        is_none_a_value = self.default is None
        return self.key in section and (section[self.key] is not None or is_none_a_value)

    def read(self, sections: Mapping[str, Mapping[str, Any]], where: str) -> Any:
        value = sections[self.section].get(self.key)
        if value is None and self.default is _REQUIRED:
            raise OptionsError(f"{self.path} is missing", _HINT, where=where)
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
    if value == 0:  # bilm-tf tests `if cell_clip`: a zero means no clipping
        return None
    return float(value)


def _is_characters_file(value: Any) -> bool:
    if value != CHARACTERS_FILE:
        raise ValueError(CHARACTERS_FILE)
    return True


def _forget_bias(value: Any) -> float:
    if type(value) not in (int, float) or value not in (0, 1):
        raise ValueError("0 or 1")
    return float(value)


def _filters(value: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not value or not all(map(_is_filter, value)):
        raise ValueError("a list of [width, count] pairs")
    return tuple((width, count) for width, count in value)


def _is_filter(pair: Any) -> bool:
    if not isinstance(pair, list) or [type(size) for size in pair] != [int, int]:
        return False
    return all(0 < size <= _MAX_SIZE for size in pair)


# All that bilm-tf and AllenNLP have in these objects, and what we write for models that they do not
# know; top-level keys besides are for training.
_FIELDS = (
    _Field("", "bidirectional", attribute="", check=_one_of(True), default=True),
    _Field(
        "char_cnn",
        "n_characters",
        attribute="",
        check=_integer(N_CHARACTERS, N_CHARACTERS + 1),
        default=261,
    ),
    _Field(
        "char_cnn", "characters", attribute="is_unicode", check=_is_characters_file, default=False
    ),
    _Field("words", "dim", attribute="word_dim", check=_integer(), default=0),
    _Field("words", "file", attribute="", check=_one_of(WORDS_FILE), default=WORDS_FILE),
    _Field("char_cnn.embedding", "dim", attribute="char_dim", check=_integer()),
    _Field("char_cnn", "filters", attribute="filters", check=_filters),
    _Field("char_cnn", "activation", attribute="activation", check=_one_of("relu", "tanh")),
    _Field(
        "char_cnn", "n_highway", attribute="n_highway", check=_integer(0, _MAX_COUNT), default=0
    ),
    _Field(
        "char_cnn",
        "max_characters_per_token",
        attribute="max_characters",
        check=_integer(3, _MAX_COUNT),
        default=50,
    ),
    _Field("lstm", "dim", attribute="lstm_dim", check=_integer()),
    _Field("lstm", "projection_dim", attribute="projection_dim", check=_integer()),
    _Field("lstm", "n_layers", attribute="n_layers", check=_integer(1, _MAX_COUNT), default=1),
    _Field("lstm", "cell_clip", attribute="cell_clip", check=_clip, default=None),
    _Field("lstm", "proj_clip", attribute="proj_clip", check=_clip, default=None),
    _Field("lstm", "forget_bias", attribute="forget_bias", check=_forget_bias, default=1.0),
    _Field(
        "lstm",
        "use_skip_connections",
        attribute="residual",
        check=_one_of(True, False),
        default=False,
    ),
)


@dataclass(frozen=True)
class _Section:
    """A JSON object of options.json."""

    path: str
    parent: str
    name: str  # in the parent
    is_required: bool = True


_SECTIONS = (
    _Section("char_cnn", parent="", name="char_cnn"),
    _Section("char_cnn.embedding", parent="char_cnn", name="embedding"),
    _Section("lstm", parent="", name="lstm"),
    _Section("words", parent="", name="words", is_required=False),
)


def _sections(content: Any, where: str) -> dict[str, Mapping[str, Any]]:
    """The JSON objects of an options.json by their paths, "" for the file."""
    sections = {"": _checked_object(content, "the content", where)}
    for section in _SECTIONS:
        value = sections[section.parent].get(section.name)
        if value is None and not section.is_required:
            value = {}
        sections[section.path] = _checked_object(value, section.path, where)
        _refuse_unknown_keys(sections[section.path], section.path, where)
    return sections


def _refuse_unknown_keys(section: Mapping[str, Any], path: str, where: str) -> None:
    """Raise an OptionsError for a key that nothing reads: a misspelled clip would be no clip."""
    known = [inner.name for inner in _SECTIONS if inner.parent == path]
    known += [field.key for field in _FIELDS if field.section == path]
    for key in section:
        if key not in known:
            problem = f"unknown key {_shown(key)} in {path}"
            raise OptionsError(problem, f"known are {', '.join(known)}", where=where)


def _checked_object(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionsError(f"{name} is missing or not a JSON object", _HINT, where=where)
    return value


def _refused(where: str, path: str, value: Any, expected: str) -> OptionsError:
    return OptionsError(f"{path} is {_shown(value)}, not {expected}", _HINT, where=where)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
