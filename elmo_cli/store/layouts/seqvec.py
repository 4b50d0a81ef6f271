"""seqvec: data sets named by the ids of sequences, layers side by side, as SeqVec writes them.

The arrays of a sentence go to the writer as (token, layer, dim), whose bytes are those of the data
set (token, layer * dim). The number of layers is an attribute of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import h5py
import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.base import (
    Facts,
    Handle,
    Key,
    Layout,
    SampledDatasets,
    SentenceInfo,
    ValueSink,
    has_layers,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.line_tokens import split_line
from elmo_cli.store.layouts.sentence_datasets import (
    DatasetReader,
    DatasetWriter,
    NameLayout,
)
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class SideBySideWriter(DatasetWriter):
    """Creates data sets in which the layers of a token are side by side."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._n_layers = 1

    def add(self, stored: StoredSentence) -> None:
        if has_layers(stored.values, pooled=self.spec.pooled):
            self._n_layers = stored.values.shape[-2]
        super().add(stored)

    def dataset_shape(self, values: AnyArray) -> tuple[int, ...]:
        if not has_layers(values, pooled=self.spec.pooled):
            return super().dataset_shape(values)
        *tokens, n_layers, dim = values.shape
        return (*tokens, n_layers * dim)

    def finish(self) -> Facts:
        return super().finish() | {"layers_side_by_side": self._n_layers}


class SideBySideReader(DatasetReader):
    """The sentences of such a file, with an axis of layers if there are several.

    A file of another program does not state how many layers are side by side, and is read as one.
    """

    @cached_property
    def n_layers(self) -> int:
        """The number of layers side by side."""
        recorded = self._attributes.get("layers_side_by_side", 1)
        if type(recorded) is not int or recorded < 1:
            raise self.corrupt(f"layers_side_by_side is {recorded!r}")
        return recorded

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        shape, dtype = super().array_type(handle)
        if self.n_layers == 1:
            return shape, dtype
        *tokens, width = shape
        n_axes = 0 if self.pooled else 1
        if len(tokens) != n_axes or width % self.n_layers:
            raise self.corrupt(f"sentence {handle!r} has no {self.n_layers} layers: {shape}")
        return (self.n_layers, *tokens, width // self.n_layers), dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, None]:
        values, _ = super().stored(handle)
        if self.n_layers == 1:
            return values, None
        _, *tokens, dim = self.shape(handle)
        by_layer = values.reshape(*tokens, self.n_layers, dim)
        if layer is not None:
            by_layer = np.ascontiguousarray(by_layer[..., layer : layer + 1, :])
        return by_layer, None


class SeqVec(NameLayout):
    """One data set per sequence, named by its id; a `/` in the id creates groups."""

    name = "seqvec"
    writer = SideBySideWriter
    reader = SideBySideReader
    needs = frozenset({"document"})
    records = frozenset({"document"})
    tokens_first = True
    hint = "give each sequence an id of its own; `elmo embed --fasta-id` chooses what is the id"

    def dataset_name(self, sentence: Sentence) -> str:
        if sentence.document is None:
            raise no_id(self, sentence)
        return sentence.document

    def key_of(self, sentence: Sentence) -> Key | None:
        return sentence.document

    def names_for(self, key: Key) -> Iterator[str]:
        yield from ids_of_key(key)

    def sentence_info(self, name: str) -> SentenceInfo:
        return SentenceInfo(document=name)

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        return np.moveaxis(array, 0, -2) if has_layers(array, pooled=pooled) else array

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if not has_layers(values, pooled=pooled):
            return values
        is_single = values.shape[-2] == 1
        array = values[..., 0, :] if is_single else np.moveaxis(values, -2, 0)
        return np.ascontiguousarray(array)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        """Whether names are ids: a name in AllenNLP is a line with as many tokens as vectors."""
        if all(dataset.ndim == 1 for _, dataset in sample):
            return not any(" " in name for name, _ in sample)
        if not all(dataset.ndim == 2 for _, dataset in sample):
            return False
        return any(split_line(name, dataset.shape[0]) is None for name, dataset in sample)


def ids_of_key(key: Key) -> Iterator[str]:
    """The ids of sequences that a key may mean: the key itself, or `doc` of ("doc", 0)."""
    if isinstance(key, str):
        yield key
    position = document_and_place(key)
    if position is None:
        return
    document, number = position
    if number == 0:
        yield document


def no_id(layout: Layout, sentence: Sentence) -> UsageError:
    """The error for a sentence without an id, which a layout needs."""
    return UsageError(
        f"layout {layout.name} needs the id of each sequence, this sentence has none",
        "give FASTA, or JSON lines with `doc_key` and one list in `sentences`",
        where=sentence.where,
    )
