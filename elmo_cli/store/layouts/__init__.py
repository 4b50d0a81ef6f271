"""Layouts of embeddings files: how sentences are named, arranged and found."""

# mypy: implicit-reexport
# ruff: noqa: F401

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.hdf5 import reading, sample_datasets
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.allennlp import AllenNlp, AllenNlpLines, Bilm, Named
from elmo_cli.store.layouts.base import (
    SENTENCE_MAP,
    Layout,
    Sample,
    SentenceReader,
    UniqueNames,
    is_number,
    name_problem,
)
from elmo_cli.store.layouts.bilm_types import BilmTypes
from elmo_cli.store.layouts.documents import Dygie, E2eCoref, Lsgn
from elmo_cli.store.layouts.flat import Flat
from elmo_cli.store.layouts.manylangs import ManyLangs
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Facts,
    Handle,
    Key,
    SentenceInfo,
    StoredSentence,
    Totals,
    checksum,
    tokens_digest,
    tokens_sha256,
)
from elmo_cli.store.spec import SCHEMA, FileSpec
from elmo_cli.weightfile.describe import kind_of_weights

_ALL = (AllenNlp(), Bilm(), BilmTypes(), E2eCoref(), Lsgn(), Dygie(), ManyLangs(), Flat())
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}
_LINES = AllenNlpLines()
# Of files without our attributes, the first that matches: those of types and of `bilm` before
# `allennlp`, which takes all numbers; lines and identifiers last.
_RECOGNISED = (*_ALL[2:0:-1], _ALL[0], *_ALL[3:], _LINES, Named())
_SAMPLE = 48
_HINT = "embeddings are made by `elmo embed`; files of AllenNLP, bilm-tf and others are read too"


def layout_of_spec(spec: FileSpec) -> Layout:
    """The layout of a file to be written.

    Raises:
        UsageError: there is no such layout, or it cannot hold these keys or this dtype.
    """
    if spec.layout not in LAYOUTS:
        choices = f"one of {', '.join(LAYOUTS)}"
        raise UsageError(f"`layout={spec.layout}`: no such layout", choices)
    layout = LAYOUTS[spec.layout]
    for setting, is_used, is_supported in (
        ("keys=sentence", spec.keys == "sentence", layout.supports_sentence_keys),
        ("forget_sentences=True", spec.forget_sentences, layout.supports_sentence_keys),
        ("dtype=int8", spec.dtype == "int8", layout.supports_int8),
    ):
        if is_used and not is_supported:
            hint = "layout flat stores int8; others take float16" if "int8" in setting else ""
            raise UsageError(
                f"`{setting}` and `layout={spec.layout}` cannot be combined",
                hint or f"leave out `{setting.partition('=')[0]}`, or use layout allennlp",
            )
    return _LINES if spec.keys == "sentence" else layout


def layout_of_file(file: h5py.File, attributes: Mapping[str, Any]) -> Layout:
    """The layout of an open file, by its attributes or by the names of a few data sets.

    Raises:
        EmbeddingsFileError: it does not hold embeddings; the message says what it holds.
    """
    if "elmo_schema" in attributes:
        return _own(str(file.filename), attributes)
    with reading(file.filename, EmbeddingsFileError):
        sample = sample_datasets(file, _SAMPLE + 1)
        sample = [(name, dataset) for name, dataset in sample if name != SENTENCE_MAP]
        if problem := _problem(file, attributes, sample):
            raise EmbeddingsFileError(f"{file.filename}: {problem}", _HINT)
        return next(layout for layout in _RECOGNISED if layout.matches(file, sample))


def _problem(file: h5py.File, attributes: Mapping[str, Any], sample: Sample) -> str:
    """Why a file does not hold embeddings, empty if it does."""
    if weights := kind_of_weights(file):
        return f"a weight file ({weights}), not embeddings; `elmo embed` takes its folder as model"
    if {"keras_version", "layer_names"} & attributes.keys() or "model_weights" in file:
        return "a Keras model, not embeddings"
    if not sample:
        return "an HDF5 file without data sets of sentences"
    for name, dataset in sample:
        if dataset.dtype.kind != "f":
            kind = "text" if h5py.check_string_dtype(dataset.dtype) else str(dataset.dtype)
            return f"data set {name!r} holds {kind}, embeddings are floats"
        if not 1 <= len(dataset.shape or ()) <= 3:
            if set(file) == {"c", "h"}:
                return "the warm state of a model (h, c), not embeddings"
            return f"data set {name!r} has shape {dataset.shape}, embeddings have 1 to 3 axes"
    if not any(layout.matches(file, sample) for layout in _RECOGNISED):
        names = ", ".join(repr(name) for name, _ in sample[:3])
        return f"an HDF5 file of no known layout (it holds {names}{', …' * (len(sample) > 3)})"
    return ""


def _own(path: str, attributes: Mapping[str, Any]) -> Layout:
    schema, name = attributes["elmo_schema"], attributes.get("layout")
    if not isinstance(schema, int):
        raise EmbeddingsFileError(f"{path}: elmo_schema is {schema!r}", CORRUPT_HINT)
    if schema != SCHEMA:
        raise EmbeddingsFileError(
            f"{path}: its schema is {schema}, this version of elmo reads {SCHEMA}",
            "`pip install --upgrade elmo-cli`" if schema > SCHEMA else "embed the text again",
        )
    if not isinstance(name, str) or name not in LAYOUTS:
        raise EmbeddingsFileError(f"{path}: unknown layout {name!r}", CORRUPT_HINT)
    return _LINES if str(attributes.get("keys")) == "sentence" else LAYOUTS[name]
