"""open_embeddings: an embeddings file of any layout as a mapping from keys to arrays."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import h5py
import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError
from elmo_cli.store.attributes import read_attributes
from elmo_cli.store.damage import DAMAGED, damage_as_error
from elmo_cli.store.datasets import Array, Form, NamedSentences, NumberedSentences, has_number_keys
from elmo_cli.store.flat_sentences import FlatSentences, TypeRows
from elmo_cli.store.journal import journal_path
from elmo_cli.store.naming import Facts, Key
from elmo_cli.store.recognise import is_complete, open_hdf5, recognise
from elmo_cli.store.told import KNOWS_TOKENS, split_at_white_space, told_tokens


class Sentences(Protocol):
    """What the layouts have in common once their file is open."""

    def __len__(self) -> int: ...
    def keys(self) -> Iterator[int | str]: ...
    def shape(self, key: Key) -> tuple[int, ...]: ...
    def example(self) -> Form | None: ...
    def array(self, key: Key) -> Array: ...
    def facts(self, key: Key) -> Facts: ...


@dataclass
class _Opened:
    """An open file and the process that opened it."""

    process: int
    file: h5py.File
    mapped: mmap.mmap | None
    sentences: Sentences

    def close(self) -> None:
        self.file.close()
        if self.mapped is not None:
            with suppress(BufferError):  # another thread is reading; the map goes when it is done
                self.mapped.close()


class Embeddings(Mapping[Key, Array]):
    """The arrays of an embeddings file, read when asked for; made by `open_embeddings`.

    `embeddings[key]` is a new array in the stored dtype: (layer, token, dim), or (token, dim) where
    the file holds one layer a sentence; of pooled files (layer, dim) or (dim,); of `bilm-types`
    (projection,). A key is

    - the number of a sentence, in any layout. In a file keyed by names it counts in the order of
      the file, which is the order of the input unless sentences were left out, or unless a program
      that keeps no order wrote it, as e2e-coref, LSGN and ELMoForManyLangs do: then it is the order
      of the names, numbers at their ends as numbers. Where a `/` in them nests there is none;
    - its name in the file;
    - "DOCUMENT:3" or ("DOCUMENT", 3) where the file knows documents;
    - its line, where there is a `sentence_to_index` or lines are keys;
    - its tokens, as a tuple or joined by spaces, in the layout of ELMoForManyLangs.

    Iteration gives numbers or names in the order of the sentences. No handle is kept over a fork or
    a pickle: each process opens the file for itself when it first reads, so this is safe as a data
    set of workers.

    Attributes:
        path: the file.
        layout: one of `schema.LAYOUTS`, or "named" for arrays under identifiers.
        attributes: the facts that the file holds of its run.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a file.

        Args:
            path: an embeddings file of any layout.
        Raises:
            EmbeddingsFileError: the file is missing, damaged, unfinished or holds no embeddings.
        """
        self.path = Path(path)
        self._closed = False
        self._opened: _Opened | None = None
        if journal_path(self.path).exists():
            raise UnfinishedError(
                f"{path}: its run did not finish",
                "run the same `elmo embed` command with `--resume`",
            )
        file = open_hdf5(self.path)
        try:
            with damage_as_error(path):
                self.layout = recognise(file)
                self.attributes: dict[str, Any] = read_attributes(file)
                if not is_complete(file):
                    raise UnfinishedError(
                        f"{path}: no end mark, its run did not finish",
                        "run the same command again with `--resume`",
                    )
                self._opened = self._open(file)
        except BaseException:
            with suppress(RuntimeError):  # HDF5 may not even close what is damaged
                file.close()
            raise

    def _open(self, file: h5py.File) -> _Opened:
        mapped = None
        if self.layout in ("flat", "bilm-types"):
            with suppress(OSError, ValueError), self.path.open("rb") as raw:
                # A file system that can't map is no reason to fail: HDF5 reads the same values.
                mapped = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
        return _Opened(os.getpid(), file, mapped, self._sentences_of(file, mapped))

    def _sentences_of(self, file: h5py.File, mapped: mmap.mmap | None) -> Sentences:
        if self.layout == "flat":
            return FlatSentences(file, mapped, self.is_pooled)
        if self.layout == "bilm-types":
            return TypeRows(file, mapped)
        if has_number_keys(file, self.layout, self.attributes):
            is_own = "elmo_schema" in self.attributes
            return NumberedSentences(file, self.layout, is_own=is_own)
        order_lost = bool(self.attributes.get("order_lost"))
        return NamedSentences(file, self.layout, self.first_sentence, order_lost=order_lost)

    @property
    def first_sentence(self) -> int:
        """The key with which the input of this file begins.

        Raises:
            EmbeddingsFileError: the file says something else than a number.
        """
        return self.count("first_sentence")

    def count(self, name: str) -> int:
        """A count among the attributes, 0 where there is none.

        Raises:
            EmbeddingsFileError: the file says something else than a number.
        """
        found = self.attributes.get(name, 0)
        if not isinstance(found, int):
            raise EmbeddingsFileError(f"{self.path}: {name} is {found!r}", DAMAGED)
        return found

    @property
    def sentences(self) -> Sentences:
        """The open file of this process; for the other parts of the store."""
        if self._closed:
            raise EmbeddingsFileError(f"{self.path}: closed", "open it again: `open_embeddings`")
        opened = self._opened  # which another thread may close
        if opened is None or opened.process != os.getpid():
            # Dropped, not closed: after a fork the handle is still the parent's.
            self._opened = None
            with damage_as_error(self.path):
                opened = self._opened = self._open(open_hdf5(self.path))
        return opened.sentences

    @property
    def is_pooled(self) -> bool:
        """Whether arrays have no token axis because tokens were pooled."""
        return str(self.attributes.get("pool")) not in ("None", "none")

    @property
    def n_layers(self) -> int | None:
        """Layers of each array; None where arrays have no layer axis, or there is no array."""
        shape = self._some_shape()
        return shape[0] if len(shape) == (2 if self.is_pooled else 3) else None

    @property
    def dim(self) -> int:
        """Size of the last axis of each array; 0 in a file without sentences."""
        return (0, *self._some_shape())[-1]

    @property
    def dtype(self) -> np.dtype[np.floating[Any]] | None:
        """Type of the arrays; None in a file without sentences."""
        example = self._example()
        return None if example is None else example[1]

    @property
    def stored_dtype(self) -> np.dtype[Any] | None:
        """Type of the values in the file, of which int8 is read as float32."""
        sentences = self.sentences
        if isinstance(sentences, FlatSentences) and len(sentences):
            return sentences.stored_dtype
        return self.dtype

    def _some_shape(self) -> tuple[int, ...]:
        example = self._example()
        return () if example is None else example[0]

    def _example(self) -> Form | None:
        with damage_as_error(self.path, keys_of_file=True):
            return self.sentences.example()

    def __getitem__(self, key: Key) -> Array:
        with damage_as_error(self.path):
            return self.sentences.array(_checked(key))

    def shape(self, key: Key) -> tuple[int, ...]:
        """The shape of `self[key]`, without reading its values.

        Raises:
            KeyError: no such sentence.
        """
        with damage_as_error(self.path):
            return self.sentences.shape(_checked(key))

    def tokens(self, key: Key) -> tuple[str, ...] | None:
        """The tokens of a sentence; None where the file doesn't tell.

        A `sentence_to_index` tells of each line only its last occurrence, and nothing of a line
        that may have been tokenised in another way than at white space.

        Raises:
            KeyError: no such sentence.
        """
        key = _checked(key)
        with damage_as_error(self.path):
            facts = self.sentences.facts(key)
        return self.told(facts, self.shape(key))

    def told(self, facts: Facts, shape: tuple[int, ...]) -> tuple[str, ...] | None:
        """The tokens of a sentence with these facts and an array of this shape, as `tokens`."""
        if self.layout in KNOWS_TOKENS:
            return facts.tokens
        n_tokens = shape[-2] if len(shape) >= 2 and not self.is_pooled else None
        return told_tokens(facts, n_tokens, is_split=self._is_split)

    @cached_property
    def _is_split(self) -> bool:
        return split_at_white_space(self.attributes)

    def __contains__(self, key: object) -> bool:
        try:
            self.shape(_checked(key))
        except (KeyError, TypeError):
            return False
        return True

    def __iter__(self) -> Iterator[int | str]:
        with damage_as_error(self.path):
            yield from self.sentences.keys()

    def __len__(self) -> int:
        with damage_as_error(self.path):
            return len(self.sentences)

    def close(self) -> None:
        """Close the file; reading from it afterwards is an error."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is not None and opened.process == os.getpid():
            with damage_as_error(self.path):
                opened.close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    __eq__, __hash__ = object.__eq__, object.__hash__  # as a file is open, not by all its values

    def __repr__(self) -> str:
        return f"Embeddings({str(self.path)!r}, layout={self.layout!r})"


def _checked(key: object) -> Key:
    """A key of Python's own types."""
    if isinstance(key, np.integer):
        return int(key)
    if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
        return key
    if isinstance(key, tuple):
        parts: Any = tuple(int(part) if isinstance(part, np.integer) else part for part in key)
        checked: Key = parts
        return checked
    raise TypeError(f"a key is a number, a name or a tuple, not {type(key).__name__}")


def open_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Open an embeddings file for reading, whatever its layout and whoever made it.

    Args:
        path: an HDF5 file of `elmo embed`, AllenNLP, bilm-tf, e2e-coref, LSGN, DyGIE,
            ELMoForManyLangs or SeqVec.
    Returns:
        a mapping from the key of a sentence to its array; use it in a `with`, or call `close`.
    Raises:
        EmbeddingsFileError: the file is missing, damaged, unfinished or holds no embeddings.
    """
    return Embeddings(path)
