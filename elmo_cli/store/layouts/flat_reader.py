"""FlatReader: the sentences of an open `flat` file, read one by one or in runs of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any

import h5py
import numpy as np

from elmo_cli.arrays import AnyArray, Int64Array
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.half_precision import all_finite
from elmo_cli.store.layouts.base import (
    Handle,
    Key,
    Layout,
    SentenceInfo,
    SentenceReader,
    SentenceRun,
    is_number,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.rows import Rows
from elmo_cli.store.quantization import INT8
from elmo_cli.text.sentence import Sentence, Tokens

RUN_ROWS = 2048  # of vectors that are read together
_PLAIN_SENTENCES = 256  # read one by one where something is corrupt


class FlatReader(SentenceReader):
    """The sentences of a `flat` file; handles are positions."""

    keeps_identity = True

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self._opened: dict[str, Rows] = {}
        self._has_texts = "text_ends" in file
        self._has_documents = "document_ends" in file

    @property
    def records(self) -> frozenset[str]:
        of_documents = {"document", "part offset"} if self._has_documents else set()
        return frozenset({"tokens"} | of_documents)

    def __len__(self) -> int:
        return max(0, self._rows("offsets").shape[0] - 1)

    def find(self, key: Key) -> int:
        if is_number(str(key)):
            position = self._position_of_key(int(str(key)))
        else:
            position = self._positions.get(document_and_place(key))
        if position is None:
            raise self.no_sentence(key)
        return position

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        begin, end = self._span(int(handle))
        vectors = self._rows("vectors")
        *layers, dim = vectors.shape[1:]
        tokens = [] if self.pooled else [end - begin]
        return (*layers, *tokens, dim), vectors.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        begin, end = self._span(int(handle))
        values = self._rows("vectors").read(begin, end, layer)
        if values.dtype != INT8:
            return values, None
        return values, self._rows("scales").read(begin, end, layer)

    def runs(self) -> Iterator[SentenceRun]:
        n_sentences = len(self)
        begin = 0
        while begin < n_sentences:
            run = self._run(begin, min(n_sentences, begin + RUN_ROWS))
            yield run
            begin += len(run)

    def _run(self, begin: int, end: int) -> SentenceRun:
        """Sentences from `begin`, at most to `end`; the plain ones if something is corrupt."""
        try:
            offsets = self._rows("offsets").read(begin, end + 1).astype(np.int64)
            if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
                raise self.corrupt("data set 'offsets' is not in rising order")
            first_too_far = np.searchsorted(offsets - offsets[0], RUN_ROWS, side="right")
            n = max(1, int(first_too_far) - 1)
            offsets = offsets[: n + 1]
            keys = self._rows("keys").read(begin, begin + n)
            first_row = begin if self.pooled else int(offsets[0])
            end_row = begin + n if self.pooled else int(offsets[-1])
            vectors = self._rows("vectors")
            values = vectors.read(first_row, end_row)
            scales = None
            if vectors.dtype == INT8:
                scales = self._rows("scales").read(first_row, end_row)
        except EmbeddingsFileError:  # which reading the sentences one by one reports in its place
            return SentenceRun(self, begin, range(begin, min(end, begin + _PLAIN_SENTENCES)))
        return FlatRun(self, begin, keys=keys, offsets=offsets, values=values, scales=scales)

    def infos(self, begin: int, offsets: Sequence[int]) -> list[SentenceInfo]:
        """What the file records of consecutive sentences.

        Args:
            begin: position of the first one.
            offsets: where the tokens of each sentence begin among all tokens of the file, and where
                those of the last sentence end.
        Raises:
            EmbeddingsFileError: something is corrupt, in whichever of the sentences.
        """
        n_sentences = len(offsets) - 1
        end = begin + n_sentences
        first_token = offsets[0]
        tokens = self._strings("token", first_token, offsets[-1])
        texts = self._strings("text", begin, end) if self._has_texts else [""] * n_sentences
        documents = [""] * n_sentences
        places = [0] * n_sentences
        part_offsets = [0] * n_sentences
        if self._has_documents:
            documents = self._strings("document", begin, end)
            places = self._rows("places").read(begin, end).tolist()
            part_offsets = self._rows("part_offsets").read(begin, end).tolist()
        infos = []
        for number, (token_start, token_end) in enumerate(pairwise(offsets)):
            own_tokens = tuple(tokens[token_start - first_token : token_end - first_token])
            text = texts[number] or " ".join(own_tokens)
            info = SentenceInfo(tokens=own_tokens, text=text)
            if documents[number]:
                info = SentenceInfo(
                    tokens=own_tokens,
                    text=text,
                    document=documents[number],
                    place=int(places[number]),
                    offset=int(part_offsets[number]),
                )
            infos.append(info)
        return infos

    def key(self, handle: Handle) -> int:
        return self._integer("keys", int(handle))

    def info(self, handle: Handle) -> SentenceInfo:
        position = int(handle)
        tokens = self.tokens_of(position)
        text: str | None = self._string("text", position) if self._has_texts else ""
        if not text:
            text = None if tokens is None else " ".join(tokens)
        document = self._string("document", position) if self._has_documents else ""
        if not document:
            return SentenceInfo(tokens=tokens, text=text)
        return SentenceInfo(
            tokens=tokens,
            text=text,
            document=document,
            place=self._integer("places", position),
            offset=self._integer("part_offsets", position),
        )

    def tokens_of(self, position: int) -> Tokens | None:
        """The tokens of a sentence; None if they are not recorded."""
        return tuple(self._strings("token", *self._offsets(position)))

    @cached_property
    def _keys(self) -> AnyArray:
        return self._rows("keys").read(0, len(self))

    @cached_property
    def _positions(self) -> dict[tuple[str, int] | None, int]:
        """Document and number within it -> position."""
        if not self._has_documents:
            return {}
        documents = self._strings("document", 0, len(self))
        places = self._rows("places").read(0, len(self)).tolist()
        positions: dict[tuple[str, int] | None, int] = {}
        for position, (document, place) in enumerate(zip(documents, places, strict=True)):
            if document:
                positions[document, place] = position
        return positions

    def _position_of_key(self, number: int) -> int | None:
        position = int(np.searchsorted(self._keys, number))
        is_listed = position < len(self._keys) and int(self._keys[position]) == number
        return position if is_listed else None

    def _span(self, position: int) -> tuple[int, int]:
        """The rows of a sentence in `vectors`."""
        return (position, position + 1) if self.pooled else self._offsets(position)

    def _offsets(self, position: int) -> tuple[int, int]:
        """The tokens of a sentence among those of all sentences."""
        begin, end = self._rows("offsets").read(position, position + 2).tolist()
        if not 0 <= begin <= end:
            raise self.corrupt(f"data set 'offsets' goes from {begin} to {end}")
        return begin, end

    def _integer(self, name: str, position: int) -> int:
        return int(self._rows(name).read(position, position + 1)[0])

    def _string(self, name: str, position: int) -> str:
        return self._strings(name, position, position + 1)[0]

    def _strings(self, name: str, begin: int, end: int) -> list[str]:
        """Strings `begin` to `end` of the pair NAME_bytes, NAME_ends."""
        if begin == end:
            return []
        # Each string begins where the one before it ends, the first at 0.
        cuts = self._rows(f"{name}_ends").read(max(0, begin - 1), end).tolist()
        if begin == 0:
            cuts = [0, *cuts]
        start = cuts[0]
        content = self._rows(f"{name}_bytes").read(start, max(cuts)).tobytes()
        spans = [slice(first - start, last - start) for first, last in pairwise(cuts)]
        if content.isascii():  # then a byte is a character
            text = content.decode("ascii")
            return [text[span] for span in spans]
        try:
            strings = [content[span].decode("utf-8", "surrogatepass") for span in spans]
        except UnicodeDecodeError as error:
            raise self.corrupt(f"data set '{name}_bytes': {error}") from None
        return strings

    def _rows(self, name: str) -> Rows:
        if name not in self._opened:
            self._opened[name] = Rows(self.file, name)
        return self._opened[name]


class FlatRun(SentenceRun):
    """Consecutive sentences of a `flat` file, whose rows are one slice of its vectors."""

    reader: FlatReader

    def __init__(
        self,
        reader: FlatReader,
        begin: int,
        *,
        keys: AnyArray,
        offsets: Int64Array,
        values: AnyArray,
        scales: AnyArray | None,
    ) -> None:
        super().__init__(reader, begin, range(begin, begin + len(keys)))
        self._keys: list[int] = keys.tolist()
        self._offsets: list[int] = offsets.tolist()  # of tokens, in the whole file
        self._values = values  # (row, layer, dim) or (row, dim)
        self._scales = scales
        self._infos: list[SentenceInfo] = []  # after `read_infos`
        first = self._offsets[0]
        n_sentences = len(keys)
        self._ends = np.arange(1, n_sentences + 1) if reader.pooled else offsets[1:] - first

    def key(self, number: int) -> int:
        return self._keys[number]

    def read_infos(self) -> None:
        with suppress(EmbeddingsFileError):  # which reading the corrupt sentence by itself reports
            self._infos = self.reader.infos(self.begin, self._offsets)

    def info(self, number: int) -> SentenceInfo:
        return self._infos[number] if self._infos else self.reader.info(self.handles[number])

    def identity(self, number: int) -> bytes:
        return self.reader.layout.identity(self.info(number).sentence(self._keys[number]))

    def shape(self, number: int) -> tuple[int, ...]:
        begin, end = self._span(number)
        *layers, dim = self._values.shape[1:]
        tokens = [] if self.reader.pooled else [end - begin]
        return (*layers, *tokens, dim)

    def stored(self, number: int, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        begin, end = self._span(number)
        rows = slice(begin, end)
        selection = rows if layer is None else (rows, slice(layer, layer + 1))
        scales = None if self._scales is None else self._scales[selection]
        return self._values[selection], scales

    def sentence(self, number: int, key: int, n_tokens: int) -> Sentence:
        return self.info(number).sentence(key, n_tokens, self.reader.path)

    def has_only_finite_values(self) -> bool:
        return all_finite(self._values if self._scales is None else self._scales)

    def rows(self, layer: int | None) -> tuple[AnyArray, Int64Array] | None:
        if self._scales is not None:
            return None
        return self._values if layer is None else self._values[:, layer], self._ends

    def _span(self, number: int) -> tuple[int, int]:
        """The rows of a sentence among those of the run."""
        if self.reader.pooled:
            return number, number + 1
        first = self._offsets[0]
        return self._offsets[number] - first, self._offsets[number + 1] - first
