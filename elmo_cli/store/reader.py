"""open_embeddings: an embeddings file of any layout as a mapping from keys to arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError, UsageError
from elmo_cli.filetypes import HDF5, HEAD_BYTES, identify
from elmo_cli.hdf5 import open_hdf5, reading, reason_of
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.attributes import read_attributes
from elmo_cli.store.int8 import INT8, dequantize
from elmo_cli.store.layouts import (
    Array,
    Handle,
    Key,
    SentenceInfo,
    SentenceReader,
    checksum,
    is_number,
    layout_of_file,
)
from elmo_cli.text.sentence import Sentence

_RESUME = "run the same `elmo embed` command with `resume=True`"
_WRITTEN_BY = "embeddings are made by `elmo embed`; files of AllenNLP, bilm-tf and others are read"


class Embeddings(Mapping[Key, Array]):
    """The arrays of an embeddings file, read when asked for; made by `open_embeddings`.

    `embeddings[key]` is a new array in the stored dtype, int8 as float32: (layer, token, dim), or
    (token, dim) where the file holds one layer; of pooled files (layer, dim) or (dim,); of types
    (projection,). A key that does not exist is a KeyError. A key is

    - the number of a sentence. In a file keyed by names it counts in the order of the file, which
      is that of the text unless sentences were left out, or unless a program that keeps no order
      wrote it (e2e-coref, LSGN, ELMoForManyLangs): then it is the natural order of the names;
    - its name in the file;
    - "DOCUMENT:3" or ("DOCUMENT", 3) where the file records documents;
    - its line, where there is a `sentence_to_index` or lines are keys;
    - its tokens, as a tuple or joined by spaces, in the layout of ELMoForManyLangs.

    Iteration gives numbers or names in the order of the sentences. Each process opens the file
    itself when it first reads, so this is safe as a data set of worker processes.

    Attributes:
        layout: name of the layout, or "named" for arrays under identifiers.
        attributes: what the file records of its run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._closed = False
        self._opened: tuple[int, h5py.File, SentenceReader] | None = None  # by which process
        file = _open_file(self.path)
        try:
            with reading(path, EmbeddingsFileError):
                self.attributes: dict[str, Any] = read_attributes(file)
            self._layout = layout_of_file(file, self.attributes)
            self.layout = self._layout.name
            if "elmo_schema" in self.attributes and self.attributes.get("complete") is not True:
                raise UnfinishedError(f"{path}: the run that writes it has not finished", _RESUME)
            self._opened = self._open(file)
        except BaseException:
            with suppress(RuntimeError):  # HDF5 may not even close a corrupt file
                file.close()
            raise

    def _open(self, file: h5py.File) -> tuple[int, h5py.File, SentenceReader]:
        with reading(self.path, EmbeddingsFileError):
            return os.getpid(), file, self._layout.open(file, self.attributes)

    @property
    def reader(self) -> SentenceReader:
        """The open file of this process; for the other parts of the store."""
        if self._closed:
            raise EmbeddingsFileError(f"{self.path}: closed", "open it again: `open_embeddings`")
        opened = self._opened  # which another thread may close
        if opened is None or opened[0] != os.getpid():
            # Dropped, not closed: after a fork the handle is still the parent's.
            self._opened = opened = self._open(_open_file(self.path))
        return opened[2]

    def __getitem__(self, key: Key) -> Array:
        return self._array(*self.reader.stored(self._find(key)))

    def shape(self, key: Key) -> tuple[int, ...]:
        """The shape of `self[key]`, without reading its values."""
        return self.reader.shape(self._find(key))

    def tokens(self, key: Key) -> tuple[str, ...] | None:
        """The tokens of a sentence; None where the file does not record them."""
        return self.reader.tokens(self._find(key))

    def info(self, key: Key) -> SentenceInfo:
        """What the file records of a sentence."""
        return self.reader.info(self._find(key))

    def _find(self, key: object) -> Handle:
        return self.reader.find(_checked(key))

    def __contains__(self, key: object) -> bool:
        try:
            self._find(key)
        except (KeyError, TypeError):
            return False
        return True

    def __iter__(self) -> Iterator[int | str]:
        reader = self.reader
        return map(reader.key, reader.handles())

    def __len__(self) -> int:
        return len(self.reader)

    def sentences(self, *, verify: bool = False) -> Iterator[tuple[SentenceInfo, Array]]:
        """All sentences in the order of the file, which is that of the text where it is known.

        Args:
            verify: check the checksums, where the file has them.
        Raises:
            EmbeddingsFileError: a sentence is corrupt; the message names it.
        """
        for position, handle in enumerate(self.reader.handles()):
            values, scales = self.reader.stored(handle)
            if verify and self.has_checksums:
                self._verify(position, handle, values, scales)
            yield self.reader.info(handle, position), self._array(values, scales)

    def _verify(self, position: int, handle: Handle, values: Array, scales: Any) -> None:
        expected = np.ravel(self.attributes["sentence_crc32"])
        crc32 = checksum(self.reader.identity(handle), values, scales)
        if position >= len(expected) or crc32 != expected[position]:
            what = f"{self._layout.unit[:-1]} {self.reader.key(handle)!r} is corrupt (checksum)"
            raise EmbeddingsFileError(f"{self.path}: {what}", CORRUPT_HINT)

    def _array(self, values: Array, scales: Any) -> Array:
        values = values if scales is None else dequantize(values, scales)
        return self._layout.from_file(values, pooled=self.reader.pooled)

    @property
    def is_keyed_by_name(self) -> bool:
        """Whether iteration gives names and not numbers."""
        return self._layout.keyed_by == "name"

    @property
    def order_is_known(self) -> bool:
        """Whether the order of the file is that of the text."""
        return self.attributes.get("order_unknown") is not True and self.reader.order_is_known

    def key_of(self, sentence: Sentence) -> Key:
        """The key of a sentence of the text, whether the file holds it or not.

        A file that names its sentences is asked by name, as its own readers do.

        Raises:
            UsageError: the sentence has no name, and the file has no order by which to count.
        """
        key = self._layout.key_of(sentence)
        if key is not None:
            return key
        if self.order_is_known:
            return sentence.key
        if sentence.text in self:  # the text is a list of the names
            return sentence.text
        what = f"the sentence has no name, and {self.path} does not have the order of the text"
        hint = "give a text that names documents or lists these names, or embed with layout flat"
        raise UsageError(f"{sentence.where}: {what}", hint)

    @property
    def records(self) -> frozenset[str]:
        """What this file records, in the words of `Layout.needs`; all of them without sentences."""
        if not len(self):
            return frozenset({"tokens", "document", "part offset", "text order", "one layer"})
        order = {"text order"} if self.order_is_known else set()
        layer = {"one layer"} if self.n_layers in (None, 1) else set()
        return self.reader.records | order | layer

    @property
    def has_tokens(self) -> bool:
        """Whether the file records the tokens of its sentences."""
        return "tokens" in self.reader.records

    @property
    def has_sentence_map(self) -> bool:
        """Whether there is a `sentence_to_index`."""
        return self.reader.has_map

    @property
    def has_checksums(self) -> bool:
        """Whether the file has a checksum for each sentence."""
        return "sentence_crc32" in self.attributes

    @property
    def first_sentence(self) -> int:
        """The key with which the input of this file begins."""
        return self.count("first_sentence")

    def count(self, name: str) -> int:
        """A count among the attributes, 0 where it is missing; an error if it is not a number."""
        found = self.attributes.get(name, 0)
        if not isinstance(found, int):
            raise EmbeddingsFileError(f"{self.path}: {name} is {found!r}", CORRUPT_HINT)
        return found

    @property
    def unit(self) -> str:
        """What one vector is for: "tokens", "sentences" (pooled) or "types" (of a vocabulary)."""
        is_types = self._layout.unit == "types"
        return "types" if is_types else "sentences" if self.is_pooled else "tokens"

    @property
    def is_pooled(self) -> bool:
        """Whether arrays have no token axis because tokens were pooled."""
        return self.reader.pooled

    @property
    def layers(self) -> tuple[int | str, ...]:
        """The layers of each array: numbers, or one word: that of the run, or "unknown"."""
        setting, n_layers = str(self.attributes.get("layers", "all")).strip(), self.n_layers
        parts = list(map(str.strip, setting.split(",")))
        if len(parts) == (n_layers or 1) and all(map(is_number, parts)):
            return tuple(map(int, parts))
        if n_layers is not None and (n_layers > 1 or setting == "all"):
            return tuple(range(n_layers))
        is_known = "elmo_schema" in self.attributes and setting != "all"
        return (setting if is_known else "unknown",)

    @property
    def n_layers(self) -> int | None:
        """Layers of each array; None where arrays have no layer axis, or there is no array."""
        shape, _ = self.reader.example() or ((), None)
        return shape[0] if len(shape) == (2 if self.is_pooled else 3) else None

    @property
    def dim(self) -> int:
        """Size of the last axis of each array; 0 in a file without sentences."""
        shape, _ = self.reader.example() or ((0,), None)
        return shape[-1]

    @property
    def stored_dtype(self) -> np.dtype[Any] | None:
        """Type of the values in the file; None without sentences."""
        return (self.reader.example() or ((), None))[1]

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the arrays, float32 where int8 is stored; None without sentences."""
        return np.dtype(np.float32) if self.stored_dtype == INT8 else self.stored_dtype

    def python_example(self, key: Key) -> list[str]:
        """Lines of Python that read `array` with h5py below `with h5py.File(…) as file:`."""
        return self._layout.python_example(key, self.reader)

    def close(self) -> None:
        """Close the file; reading from it afterwards is an error."""
        self._closed, opened, self._opened = True, self._opened, None
        if opened is not None and opened[0] == os.getpid():
            with reading(self.path, EmbeddingsFileError):
                opened[1].close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    __eq__, __hash__ = object.__eq__, object.__hash__  # as a file is open, not by all its values

    def __repr__(self) -> str:
        return f"Embeddings({str(self.path)!r}, layout={self.layout!r})"


def open_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Open an embeddings file of any layout, of ours or of another program.

    Returns:
        a mapping from the key of a sentence to its array; use it in a `with`, or call `close`.
    Raises:
        EmbeddingsFileError: the file is missing, corrupt, unfinished or holds no embeddings.
    """
    return Embeddings(path)


def _checked(key: Any) -> Key:
    """A key of Python's own types."""
    if isinstance(key, tuple):
        return cast(Key, tuple(int(x) if isinstance(x, np.integer) else x for x in key))
    key = int(key) if isinstance(key, np.integer) else key
    if isinstance(key, (int, str)) and not isinstance(key, bool):
        return key
    raise TypeError(f"a key is a number, a name or a tuple, not {type(key).__name__}")


def _open_file(path: Path) -> h5py.File:
    """Open an HDF5 file; the error says what a file is that is none."""
    part, log = (path.with_name(path.name + suffix) for suffix in (".part", ".log"))
    if (path.suffix == ".part" and log.exists()) or (part.exists() and not path.exists()):
        raise UnfinishedError(f"{path}: the run that writes it has not finished", _RESUME)
    try:
        return open_hdf5(path)
    except OSError as error:
        raise EmbeddingsFileError(f"{path}: {reason_of(error)}", _hint(path)) from None


def _hint(path: Path) -> str:
    """What to do about a file that HDF5 cannot open."""
    if not path.exists():
        return "check the name"
    try:
        if not path.is_file():  # a pipe would wait for its writer
            return "give an HDF5 file" + (" in it" if path.is_dir() else "")
        with path.open("rb") as file:
            kind = identify(file.read(HEAD_BYTES))
    except OSError:
        return f"`ls -l {path}`"
    if kind is HDF5:
        return CORRUPT_HINT
    return f"it is {kind.name}: {kind.hint}" if kind else _WRITTEN_BY
