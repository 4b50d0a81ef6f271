"""Layouts of embeddings files: how sentences are named, arranged and found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.hdf5 import reading, sample_datasets
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layouts.allennlp import AllenNlp, AllenNlpLines, Bilm
from elmo_cli.store.layouts.base import (
    SENTENCE_MAP,
    Handle,
    Key,
    Layout,
    SentenceInfo,
    SentenceReader,
    StoredSentence,
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.documents import Dygie, E2eCoref, Lsgn, ManyLangs
from elmo_cli.store.layouts.rows import BilmTypes, Flat
from elmo_cli.store.layouts.unique_names import UniqueNames
from elmo_cli.store.spec import SCHEMA, FileSpec
from elmo_cli.weightfile.describe import kind_of_weights

__all__ = [
    "LAYOUTS",
    "Handle",
    "Key",
    "Layout",
    "SentenceInfo",
    "SentenceReader",
    "StoredSentence",
    "UniqueNames",
    "ValueSink",
    "is_number",
    "layout_of_file",
    "layout_of_spec",
]

_LAYOUT_OBJECTS: tuple[Layout, ...] = (
    AllenNlp(),
    Bilm(),
    BilmTypes(),
    E2eCoref(),
    Lsgn(),
    Dygie(),
    ManyLangs(),
    Flat(),
)
LAYOUTS = {layout.name: layout for layout in _LAYOUT_OBJECTS}
_LINES = AllenNlpLines()
# A file without our attributes has the first of these layouts that matches it.
_RECOGNITION_ORDER = (
    LAYOUTS["bilm-types"],
    LAYOUTS["bilm"],
    LAYOUTS["allennlp"],  # matches all numbers, so after the two above
    LAYOUTS["e2e-coref"],
    LAYOUTS["lsgn"],
    LAYOUTS["dygie"],
    LAYOUTS["manylangs"],
    LAYOUTS["flat"],
    _LINES,  # may be any identifiers, so last
)
_SAMPLE = 48


def layout_of_spec(spec: FileSpec) -> Layout:
    """The layout of a file to be written.

    Raises:
        UsageError: there is no such layout, or it cannot hold these keys or this dtype.
    """
    if spec.layout not in LAYOUTS:
        choices = f"one of {', '.join(LAYOUTS)}"
        raise UsageError(f"`layout={spec.layout}`: no such layout", choices)
    layout = LAYOUTS[spec.layout]
    if not layout.supports_sentence_keys:
        hint = "{}, or use layout allennlp"
        if spec.keys == "sentence":
            raise _contradiction(spec, "sentences as keys", hint.format("number the lines"))
        if spec.forget_sentences:
            hint = hint.format("leave out `forget_sentences`")
            raise _contradiction(spec, "`forget_sentences`", hint)
    if spec.dtype == "int8" and not layout.supports_int8:
        hint = "layout flat stores int8; others take float16"
        raise _contradiction(spec, "`dtype=int8`", hint)
    return _LINES if spec.keys == "sentence" else layout


def _contradiction(spec: FileSpec, what: str, hint: str) -> UsageError:
    return UsageError(f"{what} and `layout={spec.layout}` cannot be combined", hint)


def layout_of_file(file: h5py.File, attributes: Mapping[str, Any]) -> Layout:
    """The layout of an open file, by its attributes or by the names of a few data sets.

    Raises:
        EmbeddingsFileError: it does not hold embeddings; the message says what it holds.
    """
    if not attributes:
        return _recognized(file)
    path, name = file.filename, attributes.get("layout")
    if (schema := str(attributes["elmo_schema"])) != str(SCHEMA):
        what = f"has schema version {schema}, but this version of elmo reads {SCHEMA}"
        hint = "embed the text again, or install a newer version of elmo"
        raise EmbeddingsFileError(f"{path}: {what}", hint)
    if not isinstance(name, str) or name not in LAYOUTS:
        raise EmbeddingsFileError(f"{path}: unknown layout {name!r}", CORRUPT_HINT)
    return _LINES if str(attributes.get("keys")) == "sentence" else LAYOUTS[name]


def _recognized(file: h5py.File) -> Layout:
    with reading(file.filename, EmbeddingsFileError):
        sample = sample_datasets(file, _SAMPLE + 1)
        sample = [(name, dataset) for name, dataset in sample if name != SENTENCE_MAP]
        shown = [f"{name!r} with {data.dtype} in shape {data.shape}" for name, data in sample[:3]]
        what = f"no embeddings of a known layout; it has {', '.join(shown) or 'no data sets'}"
        if weights := kind_of_weights(file):
            what = (
                f"a weight file ({weights}), not embeddings; `elmo embed` takes its folder as model"
            )
        elif sample and all(d.dtype.kind == "f" and 1 <= d.ndim <= 3 for _, d in sample):
            for layout in _RECOGNITION_ORDER:
                if layout.matches(file, sample):
                    return layout
    hint = "embeddings are made by `elmo embed`; files of AllenNLP, bilm-tf and others are read too"
    raise EmbeddingsFileError(f"{file.filename}: {what}", hint)
