"""FileSpec: the settings of one embeddings file; and attributes of its root, which hold all facts.

Readers of most layouts take every data set and group for a sentence, so facts can only be
attributes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from elmo_cli.errors import UsageError

SCHEMA = 2
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
}
KEYS = ("number", "sentence")
# Attributes that the writer or a layout writes.
WRITER_ATTRIBUTES = frozenset(
    {
        *("elmo_schema", "sentences", "tokens", "duplicate_sentences", "complete"),
        *("sentence_crc32", "token_digests", "tokens_sha256", "sentence_order"),
        *("repeated_lines", "text_is_tokens", "sentence_map_crc32"),
    }
)
_OWN = {"layout": str, "keys": str, "forget_sentences": bool, "dtype": str, "first_sentence": int}


@dataclass(frozen=True)
class FileSpec:
    """The settings of one embeddings file.

    Attributes:
        layout: name of a layout; `layout_of_spec` refuses unknown ones and those that cannot hold
            these keys or this dtype.
        keys: "number", or "sentence": the lines of the text are the keys.
        forget_sentences: leave out the map from lines to keys.
        dtype: of the stored values, a name of `DTYPES`.
        first_sentence: key with which the input of this file begins: 0, or the start of a shard.
        run_settings: layers, pool, state, model_sha256, …: they become attributes of the file.
    Raises:
        UsageError: keys or a dtype that do not exist.
    """

    layout: str = "allennlp"
    keys: str = "number"
    forget_sentences: bool = False
    dtype: str = "float32"
    first_sentence: int = 0
    run_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for parameter, names in (("keys", KEYS), ("dtype", tuple(DTYPES))):
            if (name := getattr(self, parameter)) not in names:
                known = f"one of {', '.join(names)}"
                raise UsageError(f"`{parameter}={name}`: no such name", known)

    @property
    def pooled(self) -> bool:
        """Whether a sentence has one vector for each layer, so that arrays have no token axis."""
        return self.run_settings.get("pool") not in (None, "none")

    def to_attributes(self) -> dict[str, Any]:
        """The settings as JSON and attributes hold them; tuples are lists."""
        own = {name: getattr(self, name) for name in _OWN}
        plain: dict[str, Any] = json.loads(json.dumps({**own, **self.run_settings}))
        return plain

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> FileSpec:
        """The settings in the attributes of a file: the names before `sentences`.

        Raises:
            UsageError, KeyError, TypeError, ValueError: these are not attributes of such a file.
        """
        for name, kind in _OWN.items():
            if type(attributes[name]) is not kind:
                raise TypeError(f"{name} is {attributes[name]!r}")
        names = list(attributes)
        if "sentences" in names:
            names = names[: names.index("sentences")]
        run = {name: attributes[name] for name in names if name not in (*_OWN, "elmo_schema")}
        return cls(**{name: attributes[name] for name in _OWN}, run_settings=run)


def difference(old: FileSpec, new: FileSpec) -> str:
    """The first setting that differs, with both values; "" if all are equal."""
    before, now = old.to_attributes(), new.to_attributes()
    for name in (*now, *before):
        if before.get(name) != now.get(name):
            what = name.removesuffix("_sha256").replace("_", " ")
            what = "weights" if name == "model_sha256" else what
            values = f"{_shown(before.get(name))}, now {_shown(now.get(name))}"
            return f"made with other settings ({what}: {values})"
    return ""


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"sha256 {text[:4]}…"
    return text if len(text) <= 60 else f"{text[:60]}…"


def write_attributes(file: h5py.File, facts: Mapping[str, object]) -> None:
    """Write facts in their order: numbers, strings, None, numeric arrays, and what JSON holds."""
    for name, value in facts.items():
        file.attrs[name] = _encoded(value)


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """Return what `write_attributes` wrote, in order; {} for files of other programs."""
    if "elmo_schema" not in file.attrs:
        return {}
    return {name: _decoded(value) for name, value in file.attrs.items()}


def _encoded(value: object) -> object:
    # NUL would end a string of HDF5, half a surrogate pair is not UTF-8; neither is printable.
    if isinstance(value, str) and value.isprintable() and not _is_json(value):
        return value
    return value if isinstance(value, (bool, int, float, np.ndarray)) else json.dumps(value)


def _decoded(value: Any) -> Any:
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):  # a text that somebody added
            return json.loads(value) if _is_json(value) else value
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    return str(value)  # somebody added it: elmo writes no such type


def _is_json(text: str) -> bool:
    return text.startswith(("[", "{", '"')) or text == "null"
