"""allennlp: one data set per sentence and a map from lines, as `allennlp elmo` writes; and bilm.

A file of `AllenNlp` has a data set "0", "1", … for each sentence, and `sentence_to_index`: a JSON
object from each line of the text to the name of its data set. The map is collected while sentences
are added, and written after the last one. Of equal lines it has the last sentence, or with
`sentence_map="occurrences"` each, the later ones under numbered names. The attribute
`repeated_lines` has those that are not under their line. A reader takes a number for the name, and
any other key for a line.

With `keys="sentence"` (`AllenNlpLines`) the lines themselves are the names. Blank lines, equal
lines and lines that HDF5 cannot store are then errors: before anything is computed, or in a text
from a pipe, which is read only once, before their block is.

Neither form records tokens. They are recovered by splitting the line; `text_is_tokens` says whether
that gives the tokens of every sentence. If not, the digest of its tokens decides for each sentence
whether they were recovered.
"""

from __future__ import annotations

import json
import os
import zlib
from abc import abstractmethod
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
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.line_tokens import LineCheck, split_line, split_line_by_digest
from elmo_cli.store.layouts.sentence_datasets import (
    DatasetLayout,
    DatasetReader,
    DatasetWriter,
    NameLayout,
)
from elmo_cli.store.layouts.sentence_map import SentenceMap
from elmo_cli.store.layouts.spool import Spool, SpooledText
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence, Tokens

_MAX_MAP_BYTES = (1 << 32) - 1  # HDF5 stores the length of a string in 32 bits


class SentenceMapWriter(DatasetWriter):
    """Writes numbered data sets, then the map from lines to them unless `forget_sentences`."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._check = LineCheck(pooled=spec.pooled)  # of the sentences whose lines are recorded
        self._map = SentenceMap(
            os.path.dirname(file.filename),
            numbers_occurrences=spec.sentence_map == "occurrences",
        )

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        sentence = stored.sentence
        is_line_unknown = bool(sentence.tokens) and not sentence.text
        if not self.spec.forget_sentences and not is_line_unknown:
            self._check.add(sentence)
            self._map.add(sentence.text, sentence.key)

    def finish(self) -> Facts:
        attributes = super().finish()
        if self.spec.forget_sentences:
            return attributes
        if not self._map.make_json(_MAX_MAP_BYTES):  # a file of some ten terabytes gets no map
            return attributes
        kind = h5py.string_dtype("utf-8")
        dataset = self.file.create_dataset(SENTENCE_MAP, (1,), kind, track_times=False)
        takes_spools = _write_text(dataset, self._map.json)
        repeated = self._map.repeated_lines
        has_others = len(repeated) > len(b"[]")
        self._check.lacks_equal_lines = has_others and self.spec.sentence_map == "last"
        attributes["text_is_tokens"] = self._check.are_tokens
        attributes["sentence_map_crc32"] = self._map.json_crc32()
        if takes_spools:
            attributes["repeated_lines"] = SpooledText.of(repeated)
        else:
            attributes["repeated_lines"] = json.loads(repeated.content())
        self.line_check = self._check
        return attributes

    def close(self) -> None:
        self._map.close()


def _write_text(dataset: h5py.Dataset, text: Spool) -> bool:
    """Write a text as the only string of a new data set.

    Returns:
        Whether this h5py reads a `SpooledText` from its spool. One that does not gets a copy.
    """
    dataset[0] = SpooledText.of(text)
    takes_spools = _stored_length(dataset) == len(text)
    if not takes_spools:
        dataset[0] = text.content()
    return takes_spools


def _stored_length(dataset: h5py.Dataset) -> int:
    """The number of bytes of the only string of a data set, without reading it.

    The data set contains a reference to the string, which begins with its length.
    """
    dataset.file.flush()
    with open(dataset.file.filename, "rb") as file:
        file.seek(dataset.id.get_offset())
        return int.from_bytes(file.read(4), "little")


class LineNameWriter(DatasetWriter):
    """Writes data sets that are named by their lines."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._check = LineCheck(pooled=spec.pooled)

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        self._check.add(stored.sentence)

    def finish(self) -> Facts:
        self.line_check = self._check
        return super().finish() | {"text_is_tokens": self._check.are_tokens}


class RecordedLineReader(DatasetReader):
    """Sentences whose tokens are recovered from their lines."""

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        # False for a file of another program, which does not record it.
        self._all_lines_are_tokens = attributes.get("text_is_tokens") is True

    @cached_property
    def records(self) -> frozenset[str]:
        has_tokens = self._all_lines_are_tokens
        # In files of other programs, a line may differ from the tokens of its vectors, and the map
        # has only the last of equal lines.
        if not self.is_own:
            has_tokens = all(self.info(handle).tokens is not None for handle in self.handles)
        return frozenset({"tokens"} if has_tokens else ())

    @abstractmethod
    def line_of(self, name: str) -> str | None:
        """The line of a sentence; None where it is not recorded."""

    def info(self, handle: Handle) -> SentenceInfo:
        line = self.line_of(str(handle))
        if line is None:
            return SentenceInfo()
        return SentenceInfo(tokens=self._tokens_of(handle, line), text=line)

    def _tokens_of(self, handle: Handle, line: str) -> Tokens | None:
        """The tokens of a line; None if it is not certain how to split it."""
        if self.is_own and not self._all_lines_are_tokens:
            digest = self._token_digest(handle)
            return None if digest is None else split_line_by_digest(line, digest)
        if self.is_own:
            tokens = tuple(line.split())
            # If the file is pooled, it has no numbers of vectors, so its writer compared the tokens
            # with the first way to split the line (`split_line`). Otherwise both ways must agree.
            if self.pooled or " ".join(tokens) == line:
                return tokens
        # The number of vectors decides; it is not free, as it opens the data set.
        shape = self.shape(handle)
        has_token_axis = len(shape) >= 2 and not self.pooled
        return split_line(line, shape[-2] if has_token_axis else None)

    def _token_digest(self, handle: Handle) -> bytes | None:
        """The `tokens_digest` of a sentence; None if the file records none that fit it."""
        digests = self._attributes.get("token_digests")
        if not isinstance(digests, np.ndarray) or digests.shape != (len(self._positions),):
            return None
        digest: bytes = digests[self._positions[str(handle)]].tobytes()
        return digest

    @cached_property
    def _positions(self) -> dict[str, int]:
        """The position of each sentence in the text, by its name."""
        return {name: position for position, name in enumerate(self.handles)}


class SentenceMapReader(RecordedLineReader):
    """Numbered sentences, which a map finds by their lines."""

    def line_of(self, name: str) -> str | None:
        return self._lines.get(name)

    def names_for(self, key: Key) -> Iterator[str]:
        # A key that is both, such as the line "7", is the number.
        yield from super().names_for(key)
        if isinstance(key, str | tuple):
            name = self.sentence_map.get(_line_of_key(key))
            if name is not None:
                yield name

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
        """Line or numbered line -> name of its data set, in order of first occurrence."""
        expected_crc32 = self._attributes.get("sentence_map_crc32")
        if not self.has_map:
            if expected_crc32 is not None:
                raise self.corrupt(f"{SENTENCE_MAP} is missing")
            return {}
        with self._reading():
            content = hdf5.read_dataset(hdf5.open_dataset(self.file, SENTENCE_MAP))[0]
        content = content.encode() if isinstance(content, str) else bytes(content)
        if expected_crc32 is not None and not np.array_equal(expected_crc32, zlib.crc32(content)):
            raise self.corrupt(f"{SENTENCE_MAP} is corrupt (checksum)")
        with suppress(ValueError, RecursionError):  # not JSON, or nested too deeply
            names = json.loads(content)
            if isinstance(names, dict) and all(map(_is_number_string, names.values())):
                return names
        raise self.corrupt(f"{SENTENCE_MAP} is not a JSON object of lines and numbers")

    @cached_property
    def _lines(self) -> dict[str, str]:
        """Name -> line; a file of ours records the lines that occur again, others do not."""
        lines = {name: line for line, name in self.sentence_map.items()}
        try:
            for key, named_key in self._attributes.get("repeated_lines") or ():
                lines[str(key)] = lines[str(named_key)]
        except (KeyError, TypeError, ValueError):
            raise self.corrupt("repeated_lines does not fit the sentence map") from None
        return lines


class LineNameReader(RecordedLineReader):
    """Sentences whose names are their lines."""

    def line_of(self, name: str) -> str:
        return name


class AllenNlp(DatasetLayout):
    """Named by sentence number, with a map from lines to numbers."""

    name = "allennlp"
    writer = SentenceMapWriter
    reader = SentenceMapReader
    records_lines = True
    supports_sentence_keys = True

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        # Numbers alone are also what `Bilm` has, which `_RECOGNITION_ORDER` asks before.
        return SENTENCE_MAP in file or all(is_number(name) for name, _ in sample)


class AllenNlpLines(NameLayout):
    """Named by the line itself, as AllenNLP can too; a `/` in it creates groups."""

    name = "allennlp"
    writer = LineNameWriter
    reader = LineNameReader
    supports_sentence_keys = True
    hint = "number the lines instead"

    def dataset_name(self, sentence: Sentence) -> str:
        if not sentence.text:
            hint = "`blank=skip` leaves out blank lines; or number the lines instead"
            raise InputError("a blank line cannot be a key", hint, where=sentence.where)
        return sentence.text

    def key_of(self, sentence: Sentence) -> Key:
        return sentence.text

    def names_for(self, key: Key) -> Iterator[str]:
        yield _line_of_key(key)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        # The last of `_RECOGNITION_ORDER`. Other programs use identifiers instead of lines; with a
        # `/` they could be anything.
        has_spaces = any(" " in name for name, _ in sample)
        has_slashes = any("/" in name for name, _ in sample)
        return has_spaces or not has_slashes


class Bilm(DatasetLayout):
    """Named by sentence number, nothing else (`dump_bilm_embeddings` of bilm-tf)."""

    name = "bilm"

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        # `_RECOGNITION_ORDER` asks this before `AllenNlp`, which would take such files too.
        is_numbered = all(is_number(name) and dataset.ndim == 3 for name, dataset in sample)
        return is_numbered and SENTENCE_MAP not in file


def _line_of_key(key: Key) -> str:
    """The line that a key means: itself, or its tokens."""
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _is_number_string(name: Any) -> bool:
    return isinstance(name, str) and is_number(name)
