"""allennlp: one data set per line (`allennlp elmo`); and bilm, the same without a map."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError, InputError
from elmo_cli.store.layouts.base import (
    SENTENCE_MAP,
    Facts,
    Handle,
    Key,
    Layout,
    SampledDatasets,
    SentenceInfo,
    Stored,
    StoredSentence,
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.sentence_datasets import DatasetLayout, DatasetReader, NameLayout
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

_MAX_MAP_BYTES = (1 << 32) - 1  # HDF5 stores the length of a string in 32 bits


class MapLineReader(DatasetReader):
    """Sentences whose tokens are recovered from their lines; here the lines are their names."""

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self._are_tokens = not self.is_own or attributes.get("text_is_tokens") is True

    @cached_property
    def records(self) -> frozenset[str]:
        are_tokens = self._are_tokens
        # In files of other programs, a line may differ from the tokens of its vectors, and the map
        # has only the last of equal lines.
        if are_tokens and not self.is_own:
            are_tokens = all(self.info(handle).tokens is not None for handle in self.handles)
        return frozenset({"tokens"} if are_tokens else ())

    def line_of(self, name: str) -> str | None:
        """The line of a sentence; None where it is not recorded."""
        return name

    def info(self, handle: Handle) -> SentenceInfo:
        text, tokens = self.line_of(str(handle)), None
        if text is not None and self._are_tokens:
            tokens = tuple(text.split())
            # Otherwise the number of vectors decides; it is not free, as it opens the data set.
            if not self.is_own or (not self.pooled and " ".join(tokens) != text):
                shape = self.shape(handle)
                has_tokens = len(shape) >= 2 and not self.pooled
                tokens = split_line(text, shape[-2] if has_tokens else None)
        return SentenceInfo(tokens, text)


class MapReader(MapLineReader):
    """Numbered sentences with a map from lines."""

    def line_of(self, name: str) -> str | None:
        return self._texts.get(name)

    def names_for(self, key: Key) -> Iterator[str]:
        # A key that is both, such as the line "7", is the number.
        yield from super().names_for(key)
        line: Any = " ".join(map(str, key)) if isinstance(key, tuple) else key
        yield self.sentence_map.get(line, "")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        try:
            missing = set(self.sentence_map.values()).difference(self.handles)
        except EmbeddingsFileError as error:
            yield error.problem
            return
        if missing:
            yield f"{SENTENCE_MAP} names sentences that are missing: {min(missing, key=int)}"

    @cached_property
    def sentence_map(self) -> dict[str, str]:
        """Line -> name of its data set, in order of first occurrence."""
        expected = self._attributes.get("sentence_map_crc32")
        if not self.has_map and expected is None:
            return {}
        if not self.has_map:
            raise self.corrupt(f"{SENTENCE_MAP} is missing")
        with self._reading():
            content = hdf5.read_dataset(hdf5.open_dataset(self.file, SENTENCE_MAP))[0]
        content = content.encode() if isinstance(content, str) else bytes(content)
        if expected is not None and not np.array_equal(expected, zlib.crc32(content)):
            raise self.corrupt(f"{SENTENCE_MAP} is corrupt (checksum)")
        with suppress(AttributeError, ValueError, RecursionError):
            found = json.loads(content)
            if all(isinstance(name, str) and is_number(name) for name in found.values()):
                return dict(found)
        raise self.corrupt(f"{SENTENCE_MAP} is not a JSON object of lines and numbers")

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Name -> line; a file of ours records the lines that occur again, others do not."""
        texts = {name: text for text, name in self.sentence_map.items()}
        try:
            for key, last in self._attributes.get("repeated_lines") or ():
                texts[str(key)] = texts[str(last)]
        except (KeyError, TypeError, ValueError):
            raise self.corrupt("repeated_lines does not fit the sentence map") from None
        return texts


class Bilm(DatasetLayout):
    """Named by sentence number, nothing else (`dump_bilm_embeddings` of bilm-tf)."""

    name = "bilm"

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        is_numbered = all(is_number(name) and dataset.ndim == 3 for name, dataset in sample)
        return is_numbered and SENTENCE_MAP not in file


class AllenNlp(DatasetLayout):
    """Named by sentence number, with a map from lines to numbers."""

    name = "allennlp"
    reader = MapReader
    supports_sentence_keys = True

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        if spec.forget_sentences:
            return super().write(file, sentences, spec, sink)
        lines = _CollectedLines(pooled=spec.pooled)
        attributes = super().write(file, map(lines.add, sentences), spec, sink)
        content = lines.to_json()
        if len(content) > _MAX_MAP_BYTES:  # of a file of some ten terabytes: it gets no map
            return attributes
        kind = h5py.string_dtype("utf-8")
        file.create_dataset(SENTENCE_MAP, (1,), kind, track_times=False)[0] = content
        return attributes | {
            "text_is_tokens": lines.are_tokens,
            "sentence_map_crc32": zlib.crc32(content),
            "repeated_lines": lines.repeated(),
        }

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        return SENTENCE_MAP in file or all(is_number(name) for name, _ in sample)


class AllenNlpLines(NameLayout):
    """Named by the line itself, as AllenNLP can too; a `/` in it creates groups."""

    name = "allennlp"
    reader = MapLineReader
    needs = frozenset({"text order"})
    supports_sentence_keys = True
    hint = "number the lines instead"

    def dataset_name(self, sentence: Sentence) -> str:
        if not sentence.text:
            hint = "`blank=skip` leaves out blank lines; or number the lines instead"
            raise InputError(f"{sentence.where}: a blank line cannot be a key", hint)
        return sentence.text

    def names_for(self, key: Key) -> Iterator[str]:
        yield " ".join(map(str, key)) if isinstance(key, tuple) else str(key)

    def key_of(self, sentence: Sentence) -> Key:
        return sentence.text

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        lines = _CollectedLines(pooled=spec.pooled, keep=False)
        attributes = super().write(file, map(lines.add, sentences), spec, sink)
        return attributes | {"text_is_tokens": lines.are_tokens}

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        # Other programs use identifiers instead of lines; with a `/` they could be anything.
        return any(" " in name for name, _ in sample) or not any("/" in name for name, _ in sample)


def split_line(text: str, n_tokens: int | None) -> tuple[str, ...] | None:
    """The tokens of a line, by white space or else by single spaces, if there are `n_tokens`."""
    splits = (text.split(), text.split(" "))
    return next((tuple(s) for s in splits if n_tokens in (None, len(s))), None)


class _CollectedLines:
    """Collects lines; `are_tokens` if `split_line` recovers the tokens of all sentences."""

    def __init__(self, *, pooled: bool, keep: bool = True) -> None:
        self.are_tokens = True
        self._pooled = pooled
        self._keep = keep
        self._numbers: dict[str, int] = {}
        self._repeats: list[tuple[int, str]] = []

    def add(self, stored: StoredSentence) -> StoredSentence:
        """Add the line of a sentence, unless it is unknown."""
        text, tokens, key = stored.sentence.text, stored.sentence.tokens, stored.sentence.key
        if tokens and not text:
            return stored
        if self.are_tokens:
            self.are_tokens = split_line(text, None if self._pooled else len(tokens)) == tokens
        if self._keep:
            if text in self._numbers:
                self._repeats.append((self._numbers[text], text))
            self._numbers[text] = key
        return stored

    def to_json(self) -> bytes:
        """The map from lines to names."""
        return json.dumps({text: str(n) for text, n in self._numbers.items()}).encode("ascii")

    def repeated(self) -> list[list[int]]:
        """The key of each sentence whose line occurs again, and of its last occurrence."""
        return sorted([key, self._numbers[text]] for key, text in self._repeats)
