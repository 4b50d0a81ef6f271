"""bio-embeddings: data sets named by the MD5 of sequences, as bio_embeddings writes them.

The id of a sequence is the attribute `original_id` of its data set. Equal sequences have the same
name; the first of them is kept. A pooled file records the lengths of the sequences, so that copies
and merged shards have the right number of tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import h5py
import numpy as np

from elmo_cli.store.layouts.base import (
    Facts,
    Handle,
    Key,
    Layout,
    SampledDatasets,
    SentenceInfo,
    ValueSink,
)
from elmo_cli.store.layouts.sentence_datasets import DatasetReader, DatasetWriter, NameLayout
from elmo_cli.store.layouts.seqvec import ids_of_key, no_id
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input_settings import MAX_TOKENS
from elmo_cli.text.sentence import Sentence

_ORIGINAL_ID = "original_id"
_MAX_PENDING = 1 << 20  # bytes of ids in memory


class SequenceWriter(DatasetWriter):
    """Creates data sets, and at the end their attributes, which would lie between the values."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._lengths = array("I")
        self._ids = Spool(os.path.dirname(file.filename), "u1")  # lines of JSON: name, id

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        sentence = stored.sentence
        line = json.dumps([self.layout.dataset_name(sentence), sentence.document])
        self._ids.pending.frombytes(f"{line}\n".encode("ascii"))
        if len(self._ids.pending) > _MAX_PENDING:
            self._ids.move_to_disk()
        self._lengths.append(len(sentence.tokens))

    def finish(self) -> Facts:
        attributes = super().finish()
        for line in self._ids.lines():
            name, original_id = json.loads(line)
            self.file[name].attrs[_ORIGINAL_ID] = original_id
        if self.spec.pooled:
            attributes["sequence_lengths"] = np.array(self._lengths, "<u4")
        return attributes

    def close(self) -> None:
        self._ids.close()


class SequenceReader(DatasetReader):
    """The sequences of such a file; a key is the MD5 of a sequence, its residues, or its id."""

    def names_for(self, key: Key) -> Iterator[str]:
        yield from self.layout.names_for(key)
        for original_id in ids_of_key(key):
            if original_id in self._name_of_id:
                yield self._name_of_id[original_id]

    def info(self, handle: Handle) -> SentenceInfo:
        return SentenceInfo(document=self._original_id(str(handle)))

    def sentence(self, handle: Handle, key: int, n_tokens: int) -> Sentence:
        name = str(handle)
        sentence = super().sentence(handle, key, self._lengths.get(name, n_tokens))
        # The name stands in for the sequence, which is not recorded; see `dataset_name`.
        return replace(sentence, text=name)

    def identity(self, handle: Handle) -> bytes:
        name = str(handle)
        return _identity(name, self._original_id(name))

    def _original_id(self, name: str) -> str:
        """The id of the sequence of a data set."""
        dataset = self._dataset(name).values.dataset
        with self._reading(f"sentence {name!r}"):
            original_id: Any = dataset.attrs.get(_ORIGINAL_ID)
        if not isinstance(original_id, str):
            raise self.corrupt(f"sentence {name!r} has no attribute {_ORIGINAL_ID}")
        return original_id

    @cached_property
    def _lengths(self) -> dict[str, int]:
        """The recorded lengths of sequences, by name; none unless vectors are pooled."""
        lengths = self._attributes.get("sequence_lengths")
        if lengths is None:
            return {}
        numbers = np.ravel(lengths).tolist()
        are_lengths = all(type(number) is int and 0 < number <= MAX_TOKENS for number in numbers)
        if len(numbers) != len(self.handles) or not are_lengths:
            raise self.corrupt(f"sequence_lengths does not fit {len(self.handles):,} sequences")
        return dict(zip(self.handles, numbers, strict=True))

    @cached_property
    def _name_of_id(self) -> dict[str, str]:
        """The names of all sequences by their ids."""
        return {self._original_id(name): name for name in self.handles}


class BioEmbeddings(NameLayout):
    """One data set per sequence, named by the MD5 of the sequence."""

    name = "bio-embeddings"
    writer = SequenceWriter
    reader = SequenceReader
    needs = frozenset({"tokens", "document"})
    records = frozenset({"document"})
    keeps_first = True
    hint = "leave out sequences without residues; layout seqvec takes them"
    pooled_layers = "sum"
    metadata_bytes = (540, 0)

    def dataset_name(self, sentence: Sentence) -> str:
        """The MD5 of the sequence, which is the text of a sentence from a file of this layout."""
        if sentence.document is None:
            raise no_id(self, sentence)
        sequence = "".join(sentence.tokens)
        if not sequence:
            return sentence.text
        return hashlib.md5(sequence.encode("utf-8"), usedforsecurity=False).hexdigest()

    def identity(self, sentence: Sentence) -> bytes:
        return _identity(self.dataset_name(sentence), sentence.document or "")

    def key_of(self, sentence: Sentence) -> Key | None:
        return None if sentence.document is None else self.dataset_name(sentence)

    def names_for(self, key: Key) -> Iterator[str]:
        if isinstance(key, str):
            yield key
        elif isinstance(key, tuple):
            residues = tuple(map(str, key))
            yield self.dataset_name(Sentence(residues, 0, document=""))

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        return all(_ORIGINAL_ID in dataset.attrs for _, dataset in sample)


def _identity(name: str, original_id: str) -> bytes:
    return f"{name}/{original_id}".encode("utf-8", "surrogatepass")
