"""Settings of an embeddings file: what must agree for a run to go on, all kept as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.int8 import INT8
from elmo_cli.store.journal import settings_as_json
from elmo_cli.store.schema import LAYOUTS, SCHEMA

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": INT8,
}
KEYS = ("number", "sentence")
OWN_FACTS = frozenset({"elmo_schema", "sentences", "tokens", "duplicates", "complete"})


@dataclass(frozen=True)
class FileForm:
    """What an embeddings file is like, whatever it holds.

    Attributes:
        layout: a name of `schema.LAYOUTS`.
        keys: `number`, or `sentence` with allennlp.
        forget_sentences: leave out allennlp's `sentence_to_index`.
        dtype: of the stored values: `float32`, `float16`, or with `flat` `int8`.
    Raises:
        UsageError: a name that does not exist, or two options that contradict each other.
    """

    layout: str
    keys: str = "number"
    forget_sentences: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        _check_name("--layout", self.layout, LAYOUTS)
        _check_name("--keys", self.keys, KEYS)
        _check_name("--dtype", self.dtype, DTYPES)
        if self.layout != "allennlp" and (self.keys == "sentence" or self.forget_sentences):
            option = "--use-sentence-keys" if self.keys == "sentence" else "--forget-sentences"
            raise UsageError(
                f"`{option}` and `--layout {self.layout}` contradict each other",
                f"leave out `{option}`, or use `--layout allennlp`",
            )
        check_dtype_fits(self.dtype, self.layout)

    @property
    def has_map(self) -> bool:
        """Whether the file has a `sentence_to_index`."""
        return self.layout == "allennlp" and self.keys == "number" and not self.forget_sentences

    def settings(self) -> dict[str, Any]:
        """The settings that it stands for, by `FORM`."""
        return asdict(self)


FORM = tuple(field.name for field in fields(FileForm))


def checked_settings(
    form: FileForm, header: Mapping[str, object], first_sentence: int
) -> dict[str, Any]:
    """The settings of a file, as JSON holds them, the writer's own first.

    Raises:
        ValueError: the header has a name that the writer needs for itself.
    """
    if reserved := OWN_FACTS & header.keys():
        raise ValueError(f"the header has {sorted(reserved)}, which the writer writes")
    own = {**form.settings(), "first_sentence": first_sentence}
    return settings_as_json({**own, **header, **own})


def check_dtype_fits(dtype: str, layout: str) -> None:
    """Refuse a type that a layout has no place for.

    Raises:
        UsageError: int8, whose scales only `flat` can hold.
    """
    if dtype == INT8.name and layout != "flat":
        raise UsageError(
            f"`--dtype int8` and `--layout {layout}` contradict each other",
            "a file of `--layout flat` has a place for the scales; others take `--dtype float16`",
        )


def all_facts(
    settings: Mapping[str, Any],
    attributes: Mapping[str, object],
    *,
    sentences: int,
    tokens: int,
    duplicates: int,
) -> dict[str, object]:
    """The attributes of a file in their order, the end mark last.

    Args:
        settings: of the file.
        attributes: the caller's facts.
        sentences: handed over, with duplicates.
        tokens: stored.
        duplicates: sentences left out. The caller may say better: a merged file knows of more.
    Raises:
        ValueError: the caller's facts have names of the settings or the writer.
    """
    facts: dict[str, object] = {"elmo_schema": SCHEMA, **settings}
    facts |= {"sentences": sentences - duplicates, "tokens": tokens}
    if settings["layout"] == "manylangs":
        facts["duplicates"] = duplicates
    if taken := (facts.keys() | OWN_FACTS) & attributes.keys() - {"duplicates"}:
        raise ValueError(f"the attributes {sorted(taken)} are the writer's own")
    return {**facts, **attributes, "complete": True}


def settings_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the attributes of a file that `all_facts` gave."""
    names = list(facts)
    return {
        name: facts[name] for name in names[: names.index("sentences")] if name != "elmo_schema"
    }


def is_pooled(settings: Mapping[str, Any]) -> bool:
    """Whether arrays have no token axis."""
    return settings.get("pool") not in (None, "none")


def _check_name(option: str, name: str, names: Mapping[str, object] | tuple[str, ...]) -> None:
    if name not in names:
        raise UsageError(f"`{option} {name}`: no such name", f"one of {', '.join(names)}")
