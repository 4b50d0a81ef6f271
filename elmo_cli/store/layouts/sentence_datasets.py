"""Reading files with one data set per sentence, and the layouts that name these by content."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli import hdf5
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.base import (
    MAX_DIGITS,
    SENTENCE_MAP,
    Layout,
    SentenceReader,
    is_number,
    is_pooled,
    name_problem,
)
from elmo_cli.store.layouts.stored_sentence import Array, Handle, Key, SentenceInfo


class SentenceDatasets(Layout):
    """A layout with one data set per sentence, named by what the sentence is.

    Attributes:
        nests_by_chance: whether a `/` in a name is part of the text, not a group of the layout.
    """

    keyed_by = "name"
    nests_by_chance: ClassVar[bool] = False

    @abstractmethod
    def names_for(self, key: str | tuple[object, ...]) -> Iterator[str]:
        """The names that a key may mean, the likeliest first."""

    @abstractmethod
    def sentence_info(self, name: str, position: int) -> SentenceInfo:
        """What a name says of its sentence; a ValueError if it is not the name of one."""

    def key_of_name(self, name: str) -> str:
        """The key under which iteration gives the sentence of a name."""
        return name

    def records_of_name(self, name: str) -> frozenset[str]:
        """The words of `needs` that a name provides."""
        return frozenset()

    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        return NameReader(self, file, attributes)


class LayersLast(SentenceDatasets):
    """A layout whose arrays have the layer axis at the end, of size 1 where there is one layer."""

    file_axes = ("token", "dim", "layer")

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        has_layers = array.ndim == (2 if pooled else 3)
        return np.moveaxis(array, 0, -1) if has_layers else array[..., np.newaxis]

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        is_single = values.shape[-1] == 1
        return np.ascontiguousarray(values[..., 0] if is_single else np.moveaxis(values, -1, 0))

    def shape_from_file(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1] if shape[-1] == 1 else (shape[-1], *shape[:-1])


class DatasetReader(SentenceReader):
    """What files keyed by numbers and by names share; handles are names of data sets."""

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        self.layout, self._file, self._attributes = layout, file, attributes
        self._path = str(file.filename)
        self.pooled = is_pooled(attributes)
        self._is_own = "elmo_schema" in attributes
        self._last: tuple[str, h5py.Dataset] | None = None

    def shape(self, handle: Handle) -> tuple[int, ...]:
        return self.layout.shape_from_file(self._dataset(str(handle)).shape)

    def stored(self, handle: Handle) -> tuple[Array, None]:
        dataset = self._dataset(str(handle))
        with self._reading(f"sentence {handle!r}"):
            return hdf5.read_dataset(dataset), None

    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        name = self._some_name()
        return None if name is None else (self.shape(name), self._dataset(name).dtype)

    def exists(self, name: str) -> bool:
        """Whether a sentence has this name; an error if it has and cannot be read."""
        if name_problem(name):  # HDF5 would find "0" as "./0" and "0/" too
            return False
        return self._opened(name) is not None

    def corrupt(self, what: str) -> EmbeddingsFileError:
        """The error for what cannot be in a file of this layout."""
        return EmbeddingsFileError(f"{self._path}: {what}", CORRUPT_HINT)

    def no_sentence(self, key: object, why: str = "") -> KeyError:
        """The error for a key without a sentence, with a key that exists."""
        name = self._some_name()
        example = "it has none" if name is None else f"its keys are like {self.key(name)!r}"
        return KeyError(f"{self._path}: no sentence {key!r}{why}; {example}")

    def _dataset(self, name: str) -> h5py.Dataset:
        """The data set of a sentence that the file lists."""
        dataset = self._opened(name)
        if dataset is None:
            raise self.corrupt(f"sentence {name!r} is not a data set")
        return dataset

    def _opened(self, name: str) -> h5py.Dataset | None:
        """A data set of floats with 1 to 3 axes; None where no data set has this name."""
        last = self._last  # which another thread may replace
        if last is not None and last[0] == name:
            return last[1]
        try:
            with self._reading(f"sentence {name!r}"):
                dataset = hdf5.open_dataset(self._file, name)
                kind, n_axes = dataset.dtype.kind, len(dataset.shape or ())
        except hdf5.NoSuchNameError:
            return None
        if kind != "f" or not 1 <= n_axes <= 3:
            what = f"sentence {name!r} holds {dataset.dtype} in shape {dataset.shape}"
            raise self.corrupt(f"{what}, expected floats with 1 to 3 axes")
        self._last = name, dataset
        return dataset

    def _some_name(self) -> str | None:
        with self._reading():
            names = (name for name, _ in hdf5.sample_datasets(self._file, 2))
            return next((name for name in names if name != SENTENCE_MAP), None)

    def _reading(self, what: str = "") -> AbstractContextManager[None]:
        return hdf5.reading(f"{self._path}: {what}" if what else self._path, EmbeddingsFileError)


class NumberReader(DatasetReader):
    """A file that names its sentences by their numbers."""

    def __len__(self) -> int:
        if not self._is_own:
            return len(self._numbers)
        with self._reading():  # nothing else is in it, and listing a million names takes a second
            return len(self._file) - (SENTENCE_MAP in self._file)

    def handles(self) -> Iterator[Handle]:
        return map(str, self._numbers.tolist())

    def key(self, handle: Handle) -> int:
        return int(handle)

    def find(self, key: Key) -> str:
        if not is_number(str(key)) or not self.exists(str(key)):
            raise self.no_sentence(key)
        return str(key)

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        number = int(handle)
        at = int(np.searchsorted(self._numbers, number)) if position is None else position
        return SentenceInfo(at, number)

    def problems(self) -> Iterator[str]:
        for name in self._names:
            if not is_number(name) and name != SENTENCE_MAP:
                yield f"{name!r} is not the number of a sentence"

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """All numbers, sorted."""
        digits = [name for name in self._names if name.isascii() and name.isdigit()]
        if (longest := max(map(len, digits), default=0)) > MAX_DIGITS:
            raise self.corrupt(f"a name of {longest} digits is not the number of a sentence")
        return np.sort(np.array(digits or [], np.int64))

    @property
    def _names(self) -> list[str]:
        """All names in the root, in no order, which is faster by far than in order."""
        names: list[bytes] = []
        with self._reading():
            self._file.id.links.iterate(names.append, order=h5py.h5.ITER_NATIVE)
        return [name.decode("utf-8", "backslashreplace") for name in names]


class NameReader(DatasetReader):
    """A file that names its sentences by their line, their tokens, or their document."""

    layout: SentenceDatasets

    def __len__(self) -> int:
        return len(self._names)

    def handles(self) -> Iterator[Handle]:
        return iter(self._names)

    def key(self, handle: Handle) -> str:
        return self.layout.key_of_name(str(handle))

    def find(self, key: Key) -> str:
        if isinstance(key, int):
            return self._by_position(key)
        found = next((name for name in self.layout.names_for(key) if self.exists(name)), None)
        if found is None:
            raise self.no_sentence(key)
        return found

    def _by_position(self, number: int) -> str:
        if self._nests and not self._is_own:
            raise self.no_sentence(number, ": a `/` in its keys nests and loses the order")
        first = self._attributes.get("first_sentence", 0)
        position = number - (first if isinstance(first, int) else 0)
        if not 0 <= position < len(self._names):
            raise self.no_sentence(number, f": it has {len(self._names)}")
        return self._names[position]

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        name = str(handle)
        try:
            at = self._positions[name] if position is None else position
            return self.layout.sentence_info(name, at)
        except ValueError as error:
            raise self.corrupt(str(error)) from None

    @property
    def records(self) -> frozenset[str]:
        of_names = (self.layout.records_of_name(name) for name in self._names)
        try:
            return next(of_names, frozenset()).intersection(*of_names)
        except ValueError as error:
            raise self.corrupt(str(error)) from None

    @cached_property
    def order_is_known(self) -> bool:
        if self._is_own or len(self._names) < 2:
            return True
        with self._reading():
            if hdf5.tracks_creation_order(self._file):
                return not self._nests
        # Within one document the numbers in the names give the order.
        documents = {self.info(name, 0).document for name in self._names}
        return len(documents) == 1 and None not in documents

    @property
    def _nests(self) -> bool:
        """Whether a `/` in the keys creates groups, in which sentences of others may have come."""
        return self.layout.nests_by_chance and any("/" in name for name in self._names)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self._names)}

    @cached_property
    def _names(self) -> list[str]:
        """The names of all sentences, in the order of the text where that is known."""
        with self._reading():
            names = [name for name in hdf5.dataset_names(self._file) if name != SENTENCE_MAP]
        order = self._attributes.get("sentence_order")
        if order is None:
            return names
        if not np.array_equal(np.sort(np.ravel(order)), np.arange(len(names))):
            raise self.corrupt(f"sentence_order does not fit {len(names)} sentences")
        return [names[i] for i in np.argsort(order)]
