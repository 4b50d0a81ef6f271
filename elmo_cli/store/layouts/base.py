"""Layout: everything about one layout of embeddings files, and what most layouts share.

A layout is a stateless object. It names the data sets of sentences, arranges the axes of their
arrays, writes a file in one pass, opens it for reading and recognises files of other programs.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import OutputError, UsageError
from elmo_cli.store.int8 import INT8, quantize
from elmo_cli.store.layouts.dataset_writer import DatasetWriter, create_file
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Facts,
    Handle,
    Key,
    SentenceInfo,
    StoredSentence,
    Totals,
    checksum,
)
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.sentence import Sentence

SENTENCE_MAP = "sentence_to_index"
MAX_DIGITS = 18


class SentenceReader(ABC):
    """The sentences of an open file.

    A *handle* is what a layout finds a sentence by: the name of its data set, or its position where
    one data set holds all sentences.

    Attributes:
        pooled: whether arrays have no token axis.
    """

    pooled: bool = False

    @property
    def order_is_known(self) -> bool:
        """Whether the handles are in the order of the text.

        They are not where a program listed names alphabetically or a `/` in a name created groups.
        """
        return True

    @property
    def records(self) -> frozenset[str]:
        """The words of `Layout.needs` that this file provides, beyond the order and the layers."""
        return frozenset()

    @property
    def has_map(self) -> bool:
        """Whether there is a `sentence_to_index`."""
        return False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def handles(self) -> Iterator[Handle]:
        """All sentences in the order of the text, as far as that is known."""

    @abstractmethod
    def find(self, key: Key) -> Handle:
        """The sentence of a key.

        Raises:
            KeyError: no such sentence; the message shows which keys exist.
        """

    @abstractmethod
    def key(self, handle: Handle) -> int | str:
        """The key under which iteration gives a sentence."""

    @abstractmethod
    def shape(self, handle: Handle) -> tuple[int, ...]:
        """The shape of `array`, without reading values."""

    @abstractmethod
    def stored(self, handle: Handle) -> tuple[Array, NDArray[np.float32] | None]:
        """Values and scales, with the dtype and the axes of the file."""

    @abstractmethod
    def array(self, handle: Handle) -> Array:
        """The array, (layer, token, dim), or (token, dim) where it has one layer."""

    @abstractmethod
    def tokens(self, handle: Handle) -> tuple[str, ...] | None:
        """The tokens, None where the file does not record them."""

    @abstractmethod
    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        """What the file records of a sentence; `position` saves searching for it."""

    @abstractmethod
    def identity(self, handle: Handle) -> bytes:
        """What `Layout.identity` gave for the sentence."""

    def problems(self) -> Iterator[str]:
        """What is wrong with the structure of the file, beyond values and checksums."""
        return iter(())

    @abstractmethod
    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Shape and stored dtype of the array of some sentence; None without sentences."""


class Layout(ABC):
    """One layout; the other modules of the package never name one.

    Attributes:
        name: what `layout` is called in options and attributes.
        needs: what sentences must have to be written, of {"tokens", "document", "part offset",
            "text order", "one layer"}.
        keyed_by: "number", or "name" where data sets are named by what the sentence is.
        keeps_first: whether of sentences with one name the first is kept; otherwise they are an
            error.
        unit: what an array is for: "sentences", or "types" of a vocabulary.
        hint: what to do about a name that is impossible or exists already.
        alignment: of the objects of its files, in bytes.
        file_axes: names of the axes in the file.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    keyed_by: ClassVar[str] = "number"
    keeps_first: ClassVar[bool] = False
    supports_int8: ClassVar[bool] = False
    supports_sentence_keys: ClassVar[bool] = False
    is_writable: ClassVar[bool] = True
    unit: ClassVar[str] = "sentences"
    hint: ClassVar[str] = "number each sentence once, in rising order"
    alignment: ClassVar[int] = 1
    file_axes: ClassVar[tuple[str, ...]] = ("layer", "token", "dim")

    # -- names ------------------------------------------------------------------------------------

    def dataset_name(self, sentence: Sentence) -> str:
        """The path of its data set; the number of the sentence where it has none of its own."""
        return str(sentence.key)

    def identity(self, sentence: Sentence) -> bytes:
        """What the file itself records of a sentence, as bytes for its checksum."""
        return self.dataset_name(sentence).encode("utf-8", "surrogatepass")

    def key_of(self, sentence: Sentence) -> Key | None:
        """The key under which `open_embeddings` finds a sentence; None where nothing names it."""
        return sentence.key

    # -- arrays -----------------------------------------------------------------------------------

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        """The array with the axes of the file."""
        return array

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        """The array that was given to `to_file`; a single layer may have lost its axis."""
        return values

    def shape_from_file(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of `from_file` of values of this shape."""
        return shape

    def store(self, sentence: Sentence, array: Array, spec: FileSpec) -> StoredSentence:
        """The sentence as the file holds it.

        Args:
            sentence: its number of tokens must be that of the array.
            array: (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,).
            spec: of the file.
        Raises:
            UsageError: the layout does not hold such arrays.
            OutputError: a value is beyond the range of the dtype.
        """
        self._check_array(sentence, array, spec)
        values = self.to_file(array, pooled=spec.pooled)
        values, scales = _converted(sentence, values, DTYPES[spec.dtype])
        crc32 = checksum(self.identity(sentence), values, scales)
        return StoredSentence(sentence, values, scales, crc32)

    def _check_array(self, sentence: Sentence, array: Array, spec: FileSpec) -> None:
        n_axes = 1 if spec.pooled else 2
        wrong = array.ndim not in (n_axes, n_axes + 1)
        if wrong or (not spec.pooled and array.shape[-2] != len(sentence.tokens)):
            raise UsageError(
                f"{sentence.where}: an array of shape {array.shape} for "
                f"{len(sentence.tokens)} tokens",
                "give (layer, token, dim) or (token, dim), pooled (layer, dim) or (dim,)",
            )

    # -- files ------------------------------------------------------------------------------------

    def create(self, path: str | os.PathLike[str]) -> h5py.File:
        """Create an HDF5 file for `write`."""
        return create_file(path, self.alignment)

    def data_start(self, spec: FileSpec, row_shape: tuple[int, ...]) -> int | None:
        """The address of the one large data set, which is written first; None without one.

        Args:
            row_shape: `StoredSentence.values.shape[1:]`.
        """
        return None

    def write(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        """Write all sentences, each as one data set, in one pass.

        Args:
            file: new, from `create`.
            sentences: in the order of the text, with names that `UniqueNames` has accepted.
        Raises:
            OSError: of the disk or of HDF5.
        """
        writer = DatasetWriter(file, DTYPES[spec.dtype])
        for stored in sentences:
            writer.add(self.dataset_name(stored.sentence), stored.values)
        return Facts(writer.order_attributes())

    def write_around(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        """Write the same file without the values of the large data set.

        Args:
            sentences: with values of the right shape and any content (`np.broadcast_to` is enough).
        """
        raise NotImplementedError

    @abstractmethod
    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        """The sentences of an open file of this layout."""

    def matches(self, file: h5py.File, sample: list[tuple[str, h5py.Dataset]]) -> bool:
        """Whether a file of another program is of this layout.

        Args:
            file: without attributes of ours.
            sample: path and data set of some sentences.
        """
        return False

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        """Lines of Python that read `array` of one sentence below `with h5py.File(…) as file:`."""
        handle = reader.find(key)
        shape = axes_comment(reader.stored(handle)[0].shape, self.file_axes, pooled=reader.pooled)
        return [f"array = file[{handle!r}][()]  # {shape}"]


def _converted(
    sentence: Sentence, array: Array, dtype: np.dtype[Any]
) -> tuple[Array, NDArray[np.float32] | None]:
    """C-contiguous values of the dtype, with scales for int8."""
    if dtype == INT8 and not np.isfinite(array).all():
        raise OutputError(
            f"{sentence.where}: a value is NaN or infinite, which int8 cannot hold",
            "`dtype='float32'` can",
        )
    wanted = np.dtype("<f4") if dtype == INT8 else dtype
    try:
        with np.errstate(over="raise"):
            values = np.ascontiguousarray(array, wanted)
    except FloatingPointError:
        raise OutputError(
            f"{sentence.where}: a value is beyond the range of {wanted.name}",
            "`dtype='float32'` has a larger range" if wanted.itemsize < 4 else "check the model",
        ) from None
    return quantize(values) if dtype == INT8 else (values, None)


def is_pooled(attributes: Mapping[str, Any]) -> bool:
    """Whether the arrays of a file have no token axis."""
    return str(attributes.get("pool")) not in ("None", "none")


def is_number(text: str) -> bool:
    """Whether a string is the number of a sentence; Python refuses to read thousands of digits."""
    is_plain = len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()
    return is_plain and (text == "0" or not text.startswith("0"))


def axes_comment(shape: tuple[int, ...], names: tuple[str, ...], *, pooled: bool) -> str:
    """A shape in words: "layers 3, tokens 7, dim 1024"."""
    names = tuple(name for name in names if not (pooled and name == "token"))
    if len(names) == len(shape) + 1:  # a single layer without its axis
        names = tuple(name for name in names if name != "layer")
    if len(names) != len(shape):
        return f"shape {shape}"
    plural = (f"{name}s" if name in ("layer", "token") else name for name in names)
    return ", ".join(f"{name} {size}" for name, size in zip(plural, shape, strict=True))
