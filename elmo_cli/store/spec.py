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

from elmo_cli.fields import at_least, check_fields, one_of
from elmo_cli.messages import shortened

SCHEMA = 2
DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
}
# Attributes that the writer or a layout writes.
_WRITER_ATTRIBUTES = frozenset(
    {
        "complete",
        "duplicate_sentences",
        "elmo_schema",
        "layers_side_by_side",
        "repeated_lines",
        "sentence_crc32",
        "sentence_map_crc32",
        "sentence_order",
        "sentences",
        "sequence_lengths",
        "text_is_tokens",
        "token_digests",
        "tokens",
        "tokens_sha256",
    }
)
# The fields of FileSpec that are attributes of the same name, in the order of the file.
_OWN_SETTINGS = (
    "layout",
    "keys",
    "forget_sentences",
    "sentence_map",
    "dtype",
    "first_sentence",
)
# Settings that are no attributes if they have this value.
_NOT_RECORDED = {"sentence_map": "last", "rows": "words"}
_MOST_SHOWN = 60  # characters of a setting in a message


@dataclass(frozen=True)
class FileSpec:
    """The settings of one embeddings file.

    Attributes:
        layout: name of a layout; `layout_of_spec` refuses unknown ones and those that cannot hold
            these keys or this dtype.
        keys: "number", or "sentence": the lines of the text are the keys.
        forget_sentences: leave out the map from lines to keys.
        sentence_map: the entries of that map for equal lines: one with the "last" of them, or one
            for each, with the number of its occurrence ("occurrences").
        dtype: of the stored values, a name of `DTYPES`.
        first_sentence: key with which the input of this file begins: 0, or the start of a shard.
        run_settings: layers, pool, state, model_sha256, …: they become attributes of the file.
    Raises:
        SettingError: a value that does not exist or has a wrong type.
    """

    layout: str = "allennlp"
    keys: str = one_of("number", "sentence")
    forget_sentences: bool = False
    sentence_map: str = one_of("last", "occurrences")
    dtype: str = one_of(*DTYPES)
    first_sentence: int = at_least(0, 0)
    run_settings: Mapping[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def pooled(self) -> bool:
        """Whether a sentence has one vector for each layer, so that arrays have no token axis."""
        return self.run_settings.get("pool") not in (None, "none")

    def to_attributes(self) -> dict[str, Any]:
        """The settings as JSON and attributes hold them; tuples are lists."""
        own = {name: getattr(self, name) for name in _OWN_SETTINGS}
        for name, usual_value in _NOT_RECORDED.items():
            if own.get(name) == usual_value:
                del own[name]
        as_json = json.dumps({**own, **self.run_settings})
        attributes: dict[str, Any] = json.loads(as_json)
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> FileSpec:
        """The settings in the attributes of a file, which are before `sentences`.

        In a copy that another program has made, attributes may be in any order, so those of the
        writer are left out.

        Raises:
            SettingError, KeyError: these are not attributes of such a file.
        """
        run_settings = {}
        for name, value in attributes.items():
            if name == "sentences":
                break
            is_setting = name not in _WRITER_ATTRIBUTES and not isinstance(value, np.ndarray)
            if is_setting and name not in _OWN_SETTINGS:
                run_settings[name] = value
        return cls(
            layout=attributes["layout"],
            keys=attributes["keys"],
            forget_sentences=attributes["forget_sentences"],
            sentence_map=attributes.get("sentence_map", _NOT_RECORDED["sentence_map"]),
            dtype=attributes["dtype"],
            first_sentence=attributes["first_sentence"],
            run_settings=run_settings,
        )


def difference(old: FileSpec, new: FileSpec) -> str:
    """The first setting that differs, with both values; "" if all are equal."""
    before = old.to_attributes()
    now = new.to_attributes()
    for name in (*now, *before):
        usual_value = _NOT_RECORDED.get(name)
        old_value = before.get(name, usual_value)
        new_value = now.get(name, usual_value)
        if old_value != new_value:
            values = f"{_shown(old_value)}, now {_shown(new_value)}"
            return f"made with other settings ({_label(name)}: {values})"
    return ""


def _label(name: str) -> str:
    """What messages call a setting: "weights", "char vocabulary"."""
    if name == "model_sha256":
        return "weights"
    return name.removesuffix("_sha256").replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"sha256 {text[:4]}…"
    return shortened(text, _MOST_SHOWN)


def other_attributes(attributes: Mapping[str, Any], spec: FileSpec) -> dict[str, Any]:
    """The attributes of a file of ours that are no settings and not the writer's."""
    own = _WRITER_ATTRIBUTES.union(_OWN_SETTINGS, spec.run_settings)
    return {name: value for name, value in attributes.items() if name not in own}


def write_attributes(file: h5py.File, facts: Mapping[str, object]) -> None:
    """Write facts in their order: numbers, strings, None, numeric arrays, and what JSON holds.

    A subclass of `str`, such as `SpooledText`, is written as its `encode` returns it.
    """
    for name, value in facts.items():
        encoded = _encoded(value)
        dtype = h5py.string_dtype() if isinstance(encoded, str) else None
        file.attrs.create(name, encoded, dtype=dtype)


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
