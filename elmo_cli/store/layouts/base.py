"""Layout: everything about one layout of embeddings files; and UniqueNames."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import h5py
import numpy as np

from elmo_cli.errors import InputError, OutputError, UsageError
from elmo_cli.store.int8 import INT8, quantize
from elmo_cli.store.layouts.dataset_writer import DatasetWriter, create_file
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Facts,
    Handle,
    Key,
    Scales,
    SentenceInfo,
    StoredSentence,
    Totals,
    checksum,
)
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.sentence import Sentence

SENTENCE_MAP = "sentence_to_index"
MAX_DIGITS = 18
_MAX_NAME_BYTES = 60_000  # a link is a message in an object header, which is below 64 KiB
Sample = list[tuple[str, h5py.Dataset]]


class SentenceReader(ABC):
    """The sentences of an open file.

    A *handle* is what a layout finds a sentence by: the name of its data set, or its position where
    one data set holds all sentences.

    Attributes:
        pooled: whether arrays have no token axis.
        order_is_known: whether handles are in the order of the text; not where a program listed
            names alphabetically, or a `/` in a name created groups.
        records: the words of `Layout.needs` that this file provides, beyond order and layers.
        has_map: whether there is a `sentence_to_index`.
    """

    pooled = False
    has_map = False

    @property
    def order_is_known(self) -> bool:
        return True

    @property
    def records(self) -> frozenset[str]:
        return frozenset()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def handles(self) -> Iterator[Handle]:
        """All sentences, in the order of the text as far as that is known."""

    @abstractmethod
    def find(self, key: Key) -> Handle:
        """The sentence of a key; a KeyError shows which keys exist."""

    @abstractmethod
    def key(self, handle: Handle) -> int | str:
        """The key under which iteration gives a sentence."""

    @abstractmethod
    def shape(self, handle: Handle) -> tuple[int, ...]:
        """The shape of the array, layers first, without reading values."""

    @abstractmethod
    def stored(self, handle: Handle) -> tuple[Array, Scales | None]:
        """Values and scales, with the dtype and the axes of the file."""

    @abstractmethod
    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        """What the file records of a sentence; `position` saves searching for it."""

    @abstractmethod
    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Shape and stored dtype of the array of some sentence; None without sentences."""

    def tokens(self, handle: Handle) -> tuple[str, ...] | None:
        """The tokens, None where the file does not record them."""
        return self.info(handle, 0).tokens

    def identity(self, handle: Handle) -> bytes:
        """What `Layout.identity` gave for the sentence."""
        return str(handle).encode("utf-8", "surrogatepass")

    def problems(self) -> Iterator[str]:
        """What is wrong with the structure of the file, beyond values and checksums."""
        return iter(())


class Layout(ABC):
    """One layout, without state; the other modules of the package never name one.

    Attributes:
        name: what `layout` is called in options and attributes.
        needs: what sentences must have to be written, of {"tokens", "document", "part offset",
            "text order", "one layer"}.
        keyed_by: "number", or "name" where data sets are named by what the sentence is.
        keeps_first: whether of sentences with one name the first is kept and the others left out.
        unit: what an array is for: "sentences", or "types" of a vocabulary.
        hint: what to do about a name that is impossible or exists already.
        alignment: of the objects in its files, in bytes.
        file_axes: names of the axes in its files.
        copies_values: whether the finished file is a copy of the values in OUT.part.
        metadata_bytes: about the bytes per sentence and per token besides the values.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    keyed_by: ClassVar[str] = "number"
    keeps_first: ClassVar[bool] = False
    supports_int8: ClassVar[bool] = False
    supports_sentence_keys: ClassVar[bool] = False
    unit: ClassVar[str] = "sentences"
    hint: ClassVar[str] = "number each sentence once, in rising order"
    alignment: ClassVar[int] = 1
    file_axes: ClassVar[tuple[str, ...]] = ("layer", "token", "dim")
    copies_values: ClassVar[bool] = True
    metadata_bytes: ClassVar[tuple[int, int]] = (412, 0)

    def dataset_name(self, sentence: Sentence) -> str:
        """The path of its data set; its number where it has none of its own."""
        return str(sentence.key)

    def identity(self, sentence: Sentence) -> bytes:
        """What the file itself records of a sentence, for its checksum."""
        return self.dataset_name(sentence).encode("utf-8", "surrogatepass")

    def key_of(self, sentence: Sentence) -> Key | None:
        """The key under which a reader finds a sentence; None where nothing names it."""
        return sentence.key

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        """The array with the axes of the file."""
        return array

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        """The array that `to_file` was given, C-contiguous; one layer may have lost its axis."""
        return values

    def shape_from_file(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of `from_file` of values of this shape."""
        return shape

    def store(self, sentence: Sentence, array: Array, spec: FileSpec) -> StoredSentence:
        """The sentence as the file holds it.

        Args:
            array: (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,).
        Raises:
            UsageError: the layout does not hold such an array, or it has other tokens.
            OutputError: a value is beyond the range of the dtype.
        """
        self._check_array(sentence, array, spec)
        values = self.to_file(array, pooled=spec.pooled)
        values, scales = _converted(sentence, values, DTYPES[spec.dtype])
        crc32 = checksum(self.identity(sentence), values, scales)
        return StoredSentence(sentence, values, scales, crc32)

    def _check_array(self, sentence: Sentence, array: Array, spec: FileSpec) -> None:
        n_tokens, n_axes = len(sentence.tokens), 1 if spec.pooled else 2
        wrong = array.ndim not in (n_axes, n_axes + 1)
        if wrong or (not spec.pooled and array.shape[-2] != n_tokens):
            raise UsageError(
                f"{sentence.where}: an array of shape {array.shape} for {n_tokens} tokens",
                "give (layer, token, dim) or (token, dim), pooled (layer, dim) or (dim,)",
            )

    def create(self, path: str | os.PathLike[str]) -> h5py.File:
        """Create an HDF5 file for `write`."""
        return create_file(path, self.alignment)

    def data_start(self, spec: FileSpec, row_shape: tuple[int, ...]) -> int | None:
        """The address of the one large data set, which is written first; None without one."""
        return None

    def write(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        """Write all sentences in one pass: one data set each, unless the layout does otherwise.

        Args:
            file: new, from `create`.
            sentences: in the order of the text, with names that `UniqueNames` has accepted.
        """
        writer = DatasetWriter(file, DTYPES[spec.dtype], with_values=totals.with_values)
        for stored in sentences:
            writer.add(self.dataset_name(stored.sentence), stored.values)
        return Facts(writer.order_attributes(), extents=writer.extents)

    @abstractmethod
    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        """The sentences of an open file of this layout."""

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        """Whether a file of another program, of which some data sets are given, has this layout."""
        return False

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        """Lines of Python that read `array` below `with h5py.File(…) as file:`."""
        name = reader.find(key)
        axes = [axis for axis in self.file_axes if not (reader.pooled and axis == "token")]
        axes = axes[-reader.stored(name)[0].ndim :]
        return [f"array = file[{name!r}][()]  # axes: {', '.join(axes)}"]


class UniqueNames:
    """Refuses duplicate and impossible names before anything is computed for them.

    Layouts keyed by names take about 120 bytes for each name, others nothing.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last = -1
        self._names: set[bytes] = set()
        self._groups: set[bytes] = set()

    def add(self, sentence: Sentence) -> bool:
        """Add the next sentence; False if the layout keeps only the first of equal sentences.

        Raises:
            InputError: its name exists already, or HDF5 cannot hold such a name.
            UsageError: it lacks what the layout makes names of.
        """
        name, problem = self._layout.dataset_name(sentence), ""
        if self._layout.keyed_by == "number":
            problem = "" if sentence.key > self._last else f"comes after {self._last}"
            self._last = sentence.key
        elif not (problem := name_problem(name)):
            digest = _digest(name)
            if digest in self._names and self._layout.keeps_first:
                return False
            groups = [_digest(name[:end]) for end, c in enumerate(name) if c == "/"]
            problem = self._conflict(digest, groups)
            self._names.add(digest)
            self._groups.update(groups)
        if problem:
            shown = repr(name if len(name) <= 80 else f"{name[:80]}…")
            raise InputError(f"{sentence.where}: the key {shown} {problem}", self._layout.hint)
        return True

    def _conflict(self, name: bytes, groups: list[bytes]) -> str:
        if name in self._names:
            return "exists already, from an earlier sentence"
        if name in self._groups:
            return "is the beginning of the key of an earlier sentence"
        if not self._names.isdisjoint(groups):
            return "begins with the whole key of an earlier sentence"
        return ""


def name_problem(name: str) -> str:
    """Why HDF5 cannot have a data set of this name; empty if it can."""
    if "\0" in name:
        return "contains a NUL"
    components = name.split("/")
    if "" in components:
        return "has an empty part next to a `/`" if name else "is empty"
    if "." in components:
        return "has a part that is only `.`"
    if name == SENTENCE_MAP:
        return "is the name of the sentence map"
    try:
        longest = max(len(component.encode("utf-8")) for component in components)
    except UnicodeEncodeError:
        return "contains half a surrogate pair"
    too_long = longest > _MAX_NAME_BYTES
    return f"has {longest} bytes, HDF5 takes at most {_MAX_NAME_BYTES}" if too_long else ""


def is_pooled(attributes: Mapping[str, Any]) -> bool:
    """Whether the arrays of a file have no token axis."""
    return str(attributes.get("pool")) not in ("None", "none")


def is_number(text: str) -> bool:
    """Whether a string is the number of a sentence; Python refuses to read thousands of digits."""
    is_plain = len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()
    return is_plain and (text == "0" or not text.startswith("0"))


def _converted(
    sentence: Sentence, array: Array, dtype: np.dtype[Any]
) -> tuple[Array, Scales | None]:
    """C-contiguous values of the dtype, with scales for int8."""
    if dtype == INT8 and not np.isfinite(array).all():
        what = "a value is NaN or infinite, which int8 cannot hold"
        raise OutputError(f"{sentence.where}: {what}", "`dtype=float32` can")
    wanted = np.dtype("<f4") if dtype == INT8 else dtype
    try:
        with np.errstate(over="raise"):
            values = np.ascontiguousarray(array, wanted)
    except FloatingPointError:
        what = f"a value is beyond the range of {wanted.name}"
        hint = "`dtype=float32` has a larger range" if wanted.itemsize < 4 else "check the model"
        raise OutputError(f"{sentence.where}: {what}", hint) from None
    return quantize(values) if dtype == INT8 else (values, None)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8"), digest_size=12).digest()
