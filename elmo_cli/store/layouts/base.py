"""What all layouts have in common: Layout, SentenceWriter and SentenceReader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import h5py
import numpy as np

from elmo_cli.arrays import AnyArray, Int64Array
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.messages import CORRUPT_HINT, plural
from elmo_cli.store.digests import checksum
from elmo_cli.store.layouts.line_tokens import LineCheck
from elmo_cli.store.layouts.sentence_columns import SentenceColumns
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.store.stored_values import to_dtype
from elmo_cli.text.sentence import Sentence

Key = int | str | tuple[str, int] | tuple[str, ...]
Handle = int | str  # position, or name of the data set
SampledDatasets = list[tuple[str, h5py.Dataset]]

SENTENCE_MAP = "sentence_to_index"
MAX_NAME_BYTES = 60_000  # a link is a message in an object header, which is below 64 KiB
_MAX_DIGITS = 18
_RUN_SENTENCES = 256  # read one by one


@dataclass(frozen=True, slots=True)
class SentenceInfo:
    """What a file records of a sentence besides its key; None where it does not."""

    tokens: tuple[str, ...] | None = None
    text: str | None = None
    document: str | None = None
    place: int = 0
    offset: int = 0

    def sentence(self, key: int, n_tokens: int = 0, source: str = "-") -> Sentence:
        """The sentence as it was written; tokens that are not recorded are empty ones."""
        tokens = ("",) * n_tokens if self.tokens is None else self.tokens
        return Sentence(
            tokens,
            key,
            text=self.text or "",
            source=source,
            document=self.document,
            place=self.place,
            offset=self.offset,
        )


@dataclass(frozen=True)
class ValueSink:
    """Receives the values of a file, for which HDF5 only reserves space."""

    n_rows: int  # sum of the first axis of all `StoredSentence.values`
    put: Callable[[int, AnyArray], None]  # takes the values that belong at an address of the file
    n_bytes: int = 0  # of all values, if they have to be consecutive; 0 if they may be anywhere


Facts = dict[str, Any]  # attributes for the root of the file


class SentenceWriter(ABC):
    """Writes the sentences of a new file, in the order of the text.

    The file is open; the values of the sentences go to `sink`.

    Attributes:
        line_check: after `finish`, the check whether readers can recover the tokens from the lines;
            None if the layout records tokens, or records no lines.
    """

    line_check: LineCheck | None = None

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        self.layout = layout
        self.file = file
        self.spec = spec
        self.sink = sink

    @abstractmethod
    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence, with a name that `UniqueNames` has accepted."""

    def add_collected(self, values: AnyArray, columns: SentenceColumns) -> None:
        """Add all sentences at once, in a layout with `new_columns`.

        Args:
            values: an array of the shape and dtype of all values; they go to the sink.
            columns: made by `new_columns`; the writer closes them.
        """
        raise NotImplementedError

    @abstractmethod
    def finish(self) -> Facts:
        """Write what follows the sentences; return the attributes of the layout."""

    def close(self) -> None:
        """Remove temporary files, also after an error."""
        return


class SentenceReader(ABC):
    """The sentences of an open file.

    A *handle* is what a layout finds a sentence by: the name of its data set, or its position where
    one data set holds all sentences. Arrays have no token axis if `pooled`.
    """

    has_map = False  # whether there is a `sentence_to_index`
    keeps_identity = False  # whether `identity` is `Layout.identity` of the result of `sentence`

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        self.layout = layout
        self.pooled = str(attributes.get("pool")) not in ("None", "none")
        self.file = file
        self._attributes = attributes
        self._path = str(file.filename)

    @property
    def path(self) -> str:
        """The name of the file."""
        return self._path

    @property
    def records(self) -> frozenset[str]:
        """The words of `Layout.needs` that this file provides, beyond order and layers."""
        return self.layout.records

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def find(self, key: Key) -> Handle:
        """The sentence of a key; a KeyError shows a key that exists."""

    @abstractmethod
    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape of the array, layers first, and stored dtype, without reading values."""

    @abstractmethod
    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        """Read values and scales, with the dtype and the axes of the file.

        They may be read-only views of the file in memory, to be copied before a user gets them.

        Args:
            layer: index of the only layer to read, whose axis is kept; None for all layers.
        """

    @property
    def handles(self) -> Sequence[Handle]:
        """All sentences, in the order of the text as far as that is known."""
        return range(len(self))

    def runs(self) -> Iterator[SentenceRun]:
        """All sentences in that order, in runs that are read together where the layout can."""
        handles = self.handles
        for begin in range(0, len(handles), _RUN_SENTENCES):
            yield SentenceRun(self, begin, handles[begin : begin + _RUN_SENTENCES])

    def some_handle(self) -> Handle | None:
        """Any sentence; None without sentences."""
        return 0 if len(self) else None

    def key(self, handle: Handle) -> int | str:
        """The key under which iteration gives a sentence."""
        return int(handle)

    def info(self, handle: Handle) -> SentenceInfo:
        """What the file records of a sentence."""
        return SentenceInfo()

    def sentence(self, handle: Handle, key: int, n_tokens: int) -> Sentence:
        """A sentence as it was written; `n_tokens` is its number of tokens as far as known."""
        return self.info(handle).sentence(key, n_tokens, self._path)

    def shape(self, handle: Handle) -> tuple[int, ...]:
        """The shape of the array, layers first."""
        return self.array_type(handle)[0]

    def identity(self, handle: Handle) -> bytes:
        """What `Layout.identity` gave for the sentence."""
        return self.layout.identity(self.info(handle).sentence(int(self.key(handle))))

    def problems(self) -> Iterator[str]:
        """What is wrong with the structure of the file, beyond values and checksums."""
        return iter(())

    def corrupt(self, what: str) -> EmbeddingsFileError:
        """The error for what cannot be in a file of this layout."""
        return EmbeddingsFileError(what, CORRUPT_HINT, where=self._path)

    def no_sentence(self, key: object) -> KeyError:
        """The error for a key without a sentence, with a key that exists."""
        problem = f"no {self.layout.noun} {key!r}"
        handle = self.some_handle()
        if handle is None:
            return KeyError(f"{self._path}: {problem}; it has none")
        example = self.key(handle)
        keys = f"its keys are {self.layout.keyed_by}s such as {example!r}"
        return KeyError(f"{self._path}: {problem}; {keys}")


class SentenceRun:
    """Consecutive sentences of an open file; a number counts them from the first one of the run.

    This is the plain way, which reads each sentence by itself. Layouts that keep many sentences in
    one array read them together, with the same results and errors.

    Attributes:
        begin: position of the first sentence in the file.
        handles: of the sentences.
    """

    def __init__(self, reader: SentenceReader, begin: int, handles: Sequence[Handle]) -> None:
        self.reader = reader
        self.begin = begin
        self.handles = handles

    def __len__(self) -> int:
        return len(self.handles)

    def key(self, number: int) -> int | str:
        """The key under which iteration gives a sentence."""
        return self.reader.key(self.handles[number])

    def read_infos(self) -> None:
        """Read what `info` gives for all sentences at once, if the layout can do this faster."""
        return

    def info(self, number: int) -> SentenceInfo:
        """What the file records of a sentence."""
        return self.reader.info(self.handles[number])

    def identity(self, number: int) -> bytes:
        """What `Layout.identity` gave for a sentence."""
        return self.reader.identity(self.handles[number])

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of the array of a sentence, layers first."""
        return self.reader.shape(self.handles[number])

    def stored(self, number: int, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        """Values and scales, as `SentenceReader.stored` reads them."""
        return self.reader.stored(self.handles[number], layer)

    def sentence(self, number: int, key: int, n_tokens: int) -> Sentence:
        """A sentence as it was written; `n_tokens` is its number of tokens as far as known."""
        return self.reader.sentence(self.handles[number], key, n_tokens)

    def has_only_finite_values(self) -> bool:
        """Whether all values, or scales, are finite; False if that is not known at once."""
        return False

    def rows(self, layer: int | None) -> tuple[AnyArray, Int64Array] | None:
        """The vectors of a layer of all sentences in one array, and where each sentence ends there.

        Args:
            layer: index of the layer; None if the file has no axis of layers.
        Returns:
            (row, dim) in the stored dtype and (sentence,); None where they are not in one array.
        """
        return None


class Layout(ABC):
    """One layout, without state; the other modules of the package never name one.

    A new file is written by its `writer`, an open file is read by its `reader`.
    """

    name: ClassVar[str]
    writer: ClassVar[type[SentenceWriter]]
    reader: ClassVar[type[SentenceReader]]
    # What sentences must have: "tokens", "document", "part offset", "text order", "one layer".
    needs: ClassVar[frozenset[str]] = frozenset({"text order"})
    # What its files record of each sentence, in the same words; flat and lines may record less.
    records: ClassVar[frozenset[str]] = frozenset()
    # Whether its files record the lines of the text, also blank ones, unless they are forgotten.
    records_lines: ClassVar[bool] = False
    keyed_by: ClassVar[str] = "number"  # or "name", which is made of what the sentence is
    keeps_first: ClassVar[bool] = False  # of sentences with one name, and leaves out the others
    pooled_layers: ClassVar[str] = "all"  # what `layers="all"` means for pooled vectors
    supports_int8: ClassVar[bool] = False
    supports_sentence_keys: ClassVar[bool] = False
    unit: ClassVar[str] = "sentences"  # what an array is for; or "types" of a vocabulary
    noun: ClassVar[str] = "sentence"  # one of them
    hint: ClassVar[str] = "number each sentence once, in rising order"  # for refused names
    alignment: ClassVar[int] = 1  # of the objects in its files, in bytes
    tokens_first: ClassVar[bool] = False  # whether the layers of a token are next to each other
    data_start: ClassVar[int]  # where HDF5 is expected to put the first value, in bytes
    metadata_bytes: ClassVar[tuple[int, int]] = (412, 0)  # about, per sentence and per token

    def new_columns(self, folder: StrPath) -> SentenceColumns | None:
        """Columns that hold all that a file records of its sentences, besides values and checksums;
        None if it records them in another way."""
        return None

    def dataset_name(self, sentence: Sentence) -> str:
        """The path of its data set; its number where it has none of its own."""
        return str(sentence.key)

    def identity(self, sentence: Sentence) -> bytes:
        """What the file itself records of a sentence, for its checksum."""
        return self.dataset_name(sentence).encode("utf-8", "surrogatepass")

    def key_of(self, sentence: Sentence) -> Key | None:
        """The key under which a reader finds a sentence; None where nothing names it."""
        return sentence.key

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        """The array with the axes of the file."""
        return array

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        """The array that `to_file` was given, C-contiguous; one layer may have lost its axis."""
        return values

    def holds(self, array: AnyArray, n_tokens: int, *, pooled: bool) -> bool:
        """Whether an array has the shape of a sentence."""
        if pooled:
            return array.ndim in (1, 2)
        return array.ndim in (2, 3) and array.shape[-2] == n_tokens

    def store(self, sentence: Sentence, array: AnyArray, spec: FileSpec) -> StoredSentence:
        """The sentence as the file holds it; see `EmbeddingsWriter.append_block`.

        Raises:
            UsageError: the layout does not hold such an array, or it has other tokens.
            OutputError: a value is beyond the range of the dtype.
        """
        n_tokens = len(sentence.tokens)
        if not self.holds(array, n_tokens, pooled=spec.pooled):
            of_tokens = f"of shape {array.shape} for {plural(n_tokens, 'token')}"
            raise UsageError(
                f"layout {self.name} holds no array {of_tokens}",
                "(layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,)",
                where=sentence.where,
            )
        in_file_axes = self.to_file(array, pooled=spec.pooled)
        values, scales = to_dtype(sentence, in_file_axes, DTYPES[spec.dtype])
        crc32 = checksum(self.identity(sentence), values, scales)
        return StoredSentence(sentence=sentence, values=values, scales=scales, crc32=crc32)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        """Whether a file of another program, of which some data sets are given, has this layout."""
        return False


def has_layers(array: AnyArray, *, pooled: bool) -> bool:
    """Whether an array has an axis of layers."""
    return array.ndim == (2 if pooled else 3)


def is_name(name: str) -> bool:
    """Whether HDF5 can store a data set under this path, which no other path leads to."""
    try:
        n_bytes = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    is_path = "" not in parts and "." not in parts and "\0" not in name
    return is_path and n_bytes <= MAX_NAME_BYTES and name != SENTENCE_MAP


def plain_key(key: object) -> Any:
    """A key with Python's integers in place of those of NumPy."""
    if isinstance(key, tuple):
        return tuple(map(plain_key, key))
    return int(key) if isinstance(key, np.integer) else key


def is_number(text: str) -> bool:
    """Whether a string is the number of a sentence; Python refuses to read thousands of digits."""
    is_plain = len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
    return is_plain and (text == "0" or not text.startswith("0"))
