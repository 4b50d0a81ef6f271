"""Layouts with one data set per sentence, named by its number or by what the sentence is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

import h5py
import numpy as np
from h5py import h5d, h5g, h5p, h5s, h5t

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural
from elmo_cli.store.layouts.base import (
    SENTENCE_MAP,
    Facts,
    Handle,
    Key,
    Layout,
    SentenceInfo,
    SentenceReader,
    Stored,
    ValueSink,
    is_name,
    is_number,
)
from elmo_cli.store.spec import DTYPES, FileSpec


class DatasetReader(SentenceReader):
    """The sentences of such a file; handles are names of data sets."""

    layout: DatasetLayout

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self.is_own = bool(attributes)
        self.has_map = SENTENCE_MAP in file
        self._by_number = layout.keyed_by == "number"
        self._last: tuple[str, h5py.Dataset] | None = None

    def __len__(self) -> int:
        if not self.is_own or not self._by_number:
            return len(self.handles)
        with self._reading():  # nothing else is in it, and listing a million names takes a second
            return len(self.file) - self.has_map

    def key(self, handle: Handle) -> int | str:
        return self.layout.key_of_name(str(handle))

    def find(self, key: Key) -> str:
        if not isinstance(key, int) or self._by_number:
            for name in self.names_for(key):
                # HDF5 would find "0" as "./0" and "0/" too.
                if is_name(name) and self._opened(name) is not None:
                    return name
            raise self.no_sentence(key)
        # The position, counted from the first sentence of a shard.
        first = self._attributes.get("first_sentence", 0)
        position = key - (first if isinstance(first, int) else 0)
        if not 0 <= position < len(self):
            raise self.no_sentence(key)
        return self.handles[position]

    def names_for(self, key: Key) -> Iterator[str]:
        """The names that a key may mean, the likeliest first."""
        return self.layout.names_for(key)

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        dataset = self._dataset(str(handle))
        shape: tuple[int, ...] = dataset.shape
        if self.layout.layers_last:
            shape = shape[:-1] if shape[-1] == 1 else (shape[-1], *shape[:-1])
        return shape, dataset.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, None]:
        dataset = self._dataset(str(handle))
        selection: Any = ()
        if layer is not None:
            one = slice(layer, layer + 1)
            selection = (..., one) if self.layout.layers_last else one
        with self._reading(f"sentence {handle!r}"):
            return hdf5.read_dataset(dataset, selection), None

    def info(self, handle: Handle) -> SentenceInfo:
        try:
            return self.layout.sentence_info(str(handle))
        except ValueError as error:
            raise self.corrupt(str(error)) from None

    def identity(self, handle: Handle) -> bytes:
        return str(handle).encode("utf-8", "surrogatepass")

    def some_handle(self) -> str | None:
        with self._reading():
            names = (name for name, _ in hdf5.sample_datasets(self.file, 2))
            return next((name for name in names if name != SENTENCE_MAP), None)

    def problems(self) -> Iterator[str]:
        for name in self._all_names if self._by_number else ():
            if not is_number(name) and name != SENTENCE_MAP:
                yield f"{name[:80]!r} is not the number of a sentence"

    @cached_property
    def handles(self) -> list[str]:
        """The names of all sentences, in the order of the text where that is known."""
        if self._by_number:
            return list(map(str, sorted(map(int, filter(is_number, self._all_names)))))
        with self._reading():
            names = [name for name in hdf5.dataset_names(self.file) if name != SENTENCE_MAP]
        order = self._attributes.get("sentence_order")
        if order is None:
            return names
        if not np.array_equal(np.sort(np.ravel(order)), np.arange(len(names))):
            raise self.corrupt(f"sentence_order does not fit {plural(len(names), 'sentence')}")
        return [names[i] for i in np.argsort(order)]

    @property
    def _all_names(self) -> list[str]:
        """All names in the root, in no order, which is faster by far than in order."""
        names: list[bytes] = []
        with self._reading():
            self.file.id.links.iterate(names.append, order=h5py.h5.ITER_NATIVE)
        return [name.decode("utf-8", "backslashreplace") for name in names]

    def _dataset(self, name: str) -> h5py.Dataset:
        """The data set of a sentence that the file lists."""
        if (dataset := self._opened(name)) is None:
            raise self.corrupt(f"sentence {name!r} is not a data set")
        return dataset

    def _opened(self, name: str) -> h5py.Dataset | None:
        """A data set of floats with 1 to 3 axes; None where no data set has this name."""
        last = self._last  # which another thread may replace
        if last is not None and last[0] == name:
            return last[1]
        try:
            with self._reading(f"sentence {name!r}"):
                dataset = hdf5.open_dataset(self.file, name)
                kind, n_axes = dataset.dtype.kind, len(dataset.shape or ())
        except hdf5.NoSuchNameError:
            return None
        if kind != "f" or not 1 <= n_axes <= 3:
            what = f"sentence {name!r} holds {dataset.dtype} in shape {dataset.shape}"
            raise self.corrupt(f"{what}, expected floats with 1 to 3 axes")
        self._last = name, dataset
        return dataset

    def _reading(self, what: str = "") -> AbstractContextManager[None]:
        return hdf5.reading(self._path, EmbeddingsFileError, what)


class DatasetWriter:
    """Creates groups and contiguous data sets, one per sentence.

    It reuses property lists, types and extents, and is 1.5 times as fast as h5py's functions.
    """

    def __init__(self, file: h5py.File, dtype: np.dtype[Any], sink: ValueSink) -> None:
        self._sink = sink
        self._type = h5t.py_create(dtype)
        self._properties = hdf5.contiguous()
        self._utf8 = h5p.create(h5p.LINK_CREATE)
        self._utf8.set_char_encoding(h5t.CSET_UTF8)
        self._group_properties = h5p.create(h5p.GROUP_CREATE)
        self._group_properties.set_link_creation_order(hdf5.TRACKED)
        self._group_properties.set_obj_track_times(False)
        self._spaces: dict[tuple[int, ...], h5s.SpaceID] = {}
        self._root = file.id
        self._last: tuple[str, h5g.GroupID] = ("", self._root)
        # Path of a group -> number of the sentence that created it and each group above it.
        self._starts: dict[str, tuple[int, ...]] = {"": ()}
        self._groups: list[tuple[int, ...]] = []  # of each sentence

    def add(self, name: str, values: AnyArray) -> None:
        """Create a data set of the shape of `values`, which go to the sink."""
        parent, _, leaf = name.rpartition("/")
        if parent != self._last[0]:
            self._last = parent, self._group(parent)
        self._groups.append(self._starts[parent])
        if values.shape not in self._spaces:
            self._spaces[values.shape] = h5s.create_simple(values.shape)
        space = self._spaces[values.shape]
        at = self._last[1], leaf.encode("utf-8")
        dataset = h5d.create(*at, self._type, space, self._properties, self._utf8)
        if values.size:
            self._sink.put(dataset.get_offset(), values)

    def order_attributes(self) -> dict[str, Any]:
        """Return `sentence_order`: the position in the text of each data set, in file order.

        Empty unless groups make the two orders differ.
        """
        order = sorted(range(len(self._groups)), key=lambda i: (*self._groups[i], i))
        is_text_order = all(i == position for position, i in enumerate(order))
        return {} if is_text_order else {"sentence_order": np.array(order, "<u4")}

    def _group(self, path: str) -> h5g.GroupID:
        """The group of that path, created where it does not exist."""
        group, above = self._root, ""
        for name in path.split("/") if path else ():
            start, encoded = self._starts[above], name.encode("utf-8")
            above = f"{above}/{name}" if above else name
            if above in self._starts:
                group = h5g.open(group, encoded)
            else:
                self._starts[above] = (*start, len(self._groups))
                group = h5g.create(group, encoded, self._utf8, self._group_properties)
        return group


class DatasetLayout(Layout):
    """A layout with one data set per sentence, named by its number."""

    reader = DatasetReader
    layers_last: ClassVar[bool] = False  # and of size 1 where there is one layer

    def names_for(self, key: Key) -> Iterator[str]:
        """The names that a key may mean, the likeliest first."""
        if is_number(str(key)):
            yield str(key)

    def key_of_name(self, name: str) -> int | str:
        """The key under which iteration gives the sentence of a name."""
        return int(name)

    def sentence_info(self, name: str) -> SentenceInfo:
        """What a name says of its sentence; a ValueError if it is not the name of one."""
        return SentenceInfo()

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        if not self.layers_last:
            return array
        has_layers = array.ndim == (2 if pooled else 3)
        return np.moveaxis(array, 0, -1) if has_layers else array[..., np.newaxis]

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if not self.layers_last:
            return values
        values = values[..., 0] if values.shape[-1] == 1 else np.moveaxis(values, -1, 0)
        return np.ascontiguousarray(values)

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        writer = DatasetWriter(file, DTYPES[spec.dtype], sink)
        for stored in sentences:
            writer.add(self.dataset_name(stored.sentence), stored.values)
        return writer.order_attributes()


class NameLayout(DatasetLayout):
    """A layout that names each data set by what the sentence is."""

    needs = frozenset()
    keyed_by = "name"

    def key_of_name(self, name: str) -> str:
        return name
