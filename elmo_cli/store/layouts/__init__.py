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
    SampledDatasets,
    SentenceInfo,
    SentenceReader,
    SentenceRun,
    SentenceWriter,
    ValueSink,
    has_layers,
    is_number,
    plain_key,
)
from elmo_cli.store.layouts.bilm_types import BilmTypes
from elmo_cli.store.layouts.bio_embeddings import BioEmbeddings
from elmo_cli.store.layouts.documents import Dygie, E2eCoref, Lsgn
from elmo_cli.store.layouts.flat import Flat
from elmo_cli.store.layouts.line_tokens import LineCheck
from elmo_cli.store.layouts.manylangs import ManyLangs
from elmo_cli.store.layouts.seqvec import SeqVec
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.layouts.unique_names import UniqueNames
from elmo_cli.store.spec import SCHEMA, FileSpec
from elmo_cli.weightfile.describe import kind_of_weights

__all__ = [
    "LAYOUTS",
    "Handle",
    "Key",
    "Layout",
    "LineCheck",
    "SentenceInfo",
    "SentenceReader",
    "SentenceRun",
    "SentenceWriter",
    "StoredSentence",
    "UniqueNames",
    "ValueSink",
    "has_layers",
    "is_number",
    "layout_of_attributes",
    "layout_of_file",
    "layout_of_spec",
    "plain_key",
]

_LAYOUT_OBJECTS: tuple[Layout, ...] = (
    AllenNlp(),
    Bilm(),
    BilmTypes(),
    E2eCoref(),
    Lsgn(),
    Dygie(),
    ManyLangs(),
    SeqVec(),
    BioEmbeddings(),
    Flat(),
)
LAYOUTS = {layout.name: layout for layout in _LAYOUT_OBJECTS}
_LINES = AllenNlpLines()
# A file without our attributes has the first of these layouts that matches it.
_RECOGNITION_ORDER = (
    LAYOUTS["bio-embeddings"],  # its names may be numbers or MD5, which others would match
    LAYOUTS["bilm-types"],
    LAYOUTS["bilm"],
    LAYOUTS["allennlp"],  # matches all numbers, so after the two above
    LAYOUTS["e2e-coref"],
    LAYOUTS["lsgn"],
    LAYOUTS["dygie"],
    LAYOUTS["manylangs"],
    LAYOUTS["flat"],
    LAYOUTS["seqvec"],  # may be any identifiers whose vectors are not those of their tokens
    _LINES,  # may be any identifiers, so last
)
_N_SAMPLED = 48  # data sets by which a file is recognized


def layout_of_spec(spec: FileSpec) -> Layout:
    """The layout of a file to be written.

    Raises:
        UsageError: there is no such layout, or it cannot hold these keys or this dtype.
    """
    if spec.layout not in LAYOUTS:
        choices = f"one of {', '.join(LAYOUTS)}"
        raise UsageError(f"`layout={spec.layout}`: no such layout", choices)
    layout = LAYOUTS[spec.layout]
    if spec.keys == "sentence" and not layout.supports_sentence_keys:
        hint = "number the lines, or use layout allennlp"
        raise _contradiction(spec, "sentences as keys", hint)
    if spec.forget_sentences and not layout.supports_sentence_keys:
        hint = "leave out `forget_sentences`, or use layout allennlp"
        raise _contradiction(spec, "`forget_sentences`", hint)
    if spec.sentence_map != "last":
        _check_has_map(spec, layout)
    if spec.dtype == "int8" and not layout.supports_int8:
        hint = "layout flat stores int8; others take float16"
        raise _contradiction(spec, "`dtype=int8`", hint)
    return _LINES if spec.keys == "sentence" else layout


def _check_has_map(spec: FileSpec, layout: Layout) -> None:
    """Refuse `sentence_map` for a file that has no map."""
    setting = f"`sentence_map={spec.sentence_map}`"
    if not layout.supports_sentence_keys:
        hint = "leave out `sentence_map`, or use layout allennlp"
        raise _contradiction(spec, setting, hint)
    other = ""
    if spec.forget_sentences:
        other = "`forget_sentences`"
    elif spec.keys == "sentence":
        other = "sentences as keys"
    if other:
        problem = f"{setting} and {other} cannot be combined: such a file has no map"
        raise UsageError(problem, "choose one of them")


def _contradiction(spec: FileSpec, setting: str, hint: str) -> UsageError:
    return UsageError(f"{setting} and `layout={spec.layout}` cannot be combined", hint)


def layout_of_file(file: h5py.File, attributes: Mapping[str, Any]) -> Layout:
    """The layout of an open file, by its attributes or by the names of a few data sets.

    Raises:
        EmbeddingsFileError: it does not hold embeddings; the message says what it holds.
    """
    return layout_of_attributes(attributes, file.filename) if attributes else _recognized(file)


def layout_of_attributes(attributes: Mapping[str, Any], path: str) -> Layout:
    """The layout that a file of elmo records.

    Raises:
        EmbeddingsFileError: another version of elmo wrote the file, or it is corrupt.
    """
    schema = str(attributes.get("elmo_schema"))
    if schema != str(SCHEMA):
        raise EmbeddingsFileError(
            f"has schema version {schema}, but this version of elmo reads {SCHEMA}",
            "embed the text again, or install a newer version of elmo",
            where=path,
        )
    name = attributes.get("layout")
    if not isinstance(name, str) or name not in LAYOUTS:
        raise EmbeddingsFileError(f"unknown layout {name!r}", CORRUPT_HINT, where=path)
    return _LINES if str(attributes.get("keys")) == "sentence" else LAYOUTS[name]


def _recognized(file: h5py.File) -> Layout:
    """The layout of a file of another program."""
    with reading(file.filename, EmbeddingsFileError):
        sample: SampledDatasets = []
        for name, dataset in sample_datasets(file, _N_SAMPLED + 1):
            if name != SENTENCE_MAP:
                sample.append((name, dataset))
        weights = kind_of_weights(file)
        if not weights and sample and all(_may_be_embeddings(dataset) for _, dataset in sample):
            for layout in _RECOGNITION_ORDER:
                if layout.matches(file, sample):
                    return layout
        problem = f"no embeddings of a known layout; it has {_shown(sample)}"
    if weights:
        problem = (
            f"a weight file ({weights}), not embeddings; `elmo embed` takes its folder as model"
        )
    hint = "embeddings are made by `elmo embed`; files of AllenNLP, bilm-tf and others are read too"
    raise EmbeddingsFileError(problem, hint, where=file.filename)


def _may_be_embeddings(dataset: h5py.Dataset) -> bool:
    kind: str = dataset.dtype.kind
    n_axes: int = dataset.ndim
    return kind == "f" and 1 <= n_axes <= 3


def _shown(sample: SampledDatasets) -> str:
    """The first data sets of a file, for a message."""
    if not sample:
        return "no data sets"
    shown = []
    for name, dataset in sample[:3]:
        shown.append(f"{name!r} with {dataset.dtype} in shape {dataset.shape}")
    return ", ".join(shown)
