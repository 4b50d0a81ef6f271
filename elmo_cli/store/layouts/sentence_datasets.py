"""Layouts with one data set per sentence, named by its number or by what the sentence is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

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
    SentenceWriter,
    ValueSink,
    has_layers,
    is_name,
    is_number,
)
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import DTYPES, FileSpec


class DatasetWriter(SentenceWriter):
    """Creates groups and contiguous data sets, one per sentence.

    It reuses property lists, types and extents, and is 1.5 times as fast as h5py's functions.

    If the sink states its bytes, the values of all sentences are consecutive in the file. HDF5 does
    not promise this, so the sink compares each address.
    """

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._type = h5t.py_create(DTYPES[spec.dtype])
        self._properties = hdf5.contiguous()
        self._utf8 = h5p.create(h5p.LINK_CREATE)
        self._utf8.set_char_encoding(h5t.CSET_UTF8)
        self._group_properties = h5p.create(h5p.GROUP_CREATE)
        self._group_properties.set_link_creation_order(hdf5.TRACKED)
        self._group_properties.set_obj_track_times(False)
        self._spaces: dict[tuple[int, ...], h5s.SpaceID] = {}
        self._root = file.id
        self._last_path = ""
        self._last_group: h5g.GroupID = self._root
        self._n_sentences = 0
        # Path of a group -> number of the sentence that created it and each group above it.
        self._starts: dict[str, tuple[int, ...]] = {"": ()}
        # The value in `_starts` for each sentence since the first group was created.
        self._groups: list[tuple[int, ...]] = []
        self._end_mark = self._reserve(sink.n_bytes) if sink.n_bytes else None

    def add(self, stored: StoredSentence) -> None:
        """Create the data set of a sentence; its values go to the sink."""
        parent, _, leaf = self.layout.dataset_name(stored.sentence).rpartition("/")
        if parent != self._last_path:
            self._last_group = self._group(parent)
            self._last_path = parent
        if len(self._starts) > 1:
            self._groups.append(self._starts[parent])
        self._n_sentences += 1
        values = stored.values
        dataset = h5d.create(
            self._last_group,
            leaf.encode("utf-8"),
            self._type,
            self._space(self.dataset_shape(values)),
            self._properties,
            self._utf8,
        )
        if values.size:
            self.sink.put(dataset.get_offset(), values)

    def dataset_shape(self, values: AnyArray) -> tuple[int, ...]:
        """The shape of the data set of some values."""
        shape: tuple[int, ...] = values.shape
        return shape

    def finish(self) -> Facts:
        """Return `sentence_order`: the position in the text of each data set, in file order.

        It is left out unless groups make the two orders differ.
        """
        self._end_mark = None  # closing the last handle removes the data set
        n_before_groups = self._n_sentences - len(self._groups)  # all in the root
        numbers = range(n_before_groups, self._n_sentences)
        order = sorted(numbers, key=lambda i: (*self._groups[i - n_before_groups], i))
        if order == list(numbers):
            return {}
        return {"sentence_order": np.array([*range(n_before_groups), *order], "<u4")}

    def _reserve(self, n_bytes: int) -> h5d.DatasetID:
        """Let HDF5 put the next data sets one after the other into this many bytes.

        They fill the space of a data set without a name, which is removed when it is closed. What
        is removed at the end of a file only makes the file shorter; so one more data set, of one
        byte, is at the end until all sentences are added.
        """
        kind = h5t.py_create(np.dtype("u1"))
        values = h5d.create(self._root, None, kind, self._space((n_bytes,)), self._properties)
        end_mark = h5d.create(self._root, None, kind, self._space((1,)), self._properties)
        values.close()
        return end_mark

    def _space(self, shape: tuple[int, ...]) -> h5s.SpaceID:
        """The extent of a data set."""
        if shape not in self._spaces:
            self._spaces[shape] = h5s.create_simple(shape)
        return self._spaces[shape]

    def _group(self, path: str) -> h5g.GroupID:
        """The group of that path, created where it does not exist."""
        group = self._root
        path_so_far = ""
        for name in path.split("/") if path else ():
            starts_above = self._starts[path_so_far]
            path_so_far = f"{path_so_far}/{name}" if path_so_far else name
            encoded = name.encode("utf-8")
            if path_so_far in self._starts:
                group = h5g.open(group, encoded)
            else:
                self._starts[path_so_far] = (*starts_above, self._n_sentences)
                group = h5g.create(group, encoded, self._utf8, self._group_properties)
        return group


class _OpenedSentence(NamedTuple):
    values: hdf5.StoredValues
    dtype: np.dtype[Any]


class DatasetReader(SentenceReader):
    """The sentences of such a file; handles are names of data sets."""

    layout: DatasetLayout

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self.is_own = bool(attributes)  # written by elmo
        self.has_map = SENTENCE_MAP in file
        self._by_number = layout.keyed_by == "number"
        self.keeps_identity = self._by_number  # names are made of what a sentence is
        self._last: tuple[str, _OpenedSentence] | None = None  # with its name
        self._last_type: tuple[Any, np.dtype[Any]] | None = None  # as HDF5 and NumPy describe it

    def __len__(self) -> int:
        if not self.is_own or not self._by_number:
            return len(self.handles)
        with self._reading():  # nothing else is in it, and listing a million names takes a second
            return len(self.file) - self.has_map

    def find(self, key: Key) -> str:
        if isinstance(key, int) and not self._by_number:
            name = self._name_at(key)
        else:
            name = self._name_of(key)
        if name is None:
            raise self.no_sentence(key)
        return name

    def names_for(self, key: Key) -> Iterator[str]:
        """The names that a key may mean, the likeliest first."""
        return self.layout.names_for(key)

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        opened = self._dataset(str(handle))
        shape = opened.values.shape
        if self.layout.layers_last:
            n_layers = shape[-1]
            shape = shape[:-1] if n_layers == 1 else (n_layers, *shape[:-1])
        return shape, opened.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, None]:
        opened = self._dataset(str(handle))
        selection: Any = ()
        if layer is not None:
            selected = slice(layer, layer + 1)
            selection = (..., selected) if self.layout.layers_last else selected
        mapped = self._mapped(opened)
        if mapped is not None:
            return mapped[selection], None
        with self._reading(f"sentence {handle!r}"):
            return hdf5.read_dataset(opened.values.dataset, selection), None

    def _mapped(self, opened: _OpenedSentence) -> AnyArray | None:
        """The values as a view of the file in memory; None where they cannot be mapped."""
        offset = opened.values.offset
        content = self._content
        if offset is None or content is None:
            return None
        with suppress(TypeError):  # they would end after the file
            return np.ndarray(opened.values.shape, opened.dtype, content.data, offset)
        return None

    @cached_property
    def _content(self) -> AnyArray | None:
        return hdf5.mapped_file(self.file)

    @cached_property
    def handles(self) -> list[str]:
        """The names of all sentences, in the order of the text where that is known."""
        if self._by_number:
            numbers = sorted(int(name) for name in self._all_names if is_number(name))
            return [str(number) for number in numbers]
        with self._reading():
            names = [name for name in hdf5.dataset_names(self.file) if name != SENTENCE_MAP]
        order = self._attributes.get("sentence_order")
        if order is None:
            return names
        if not np.array_equal(np.sort(np.ravel(order)), np.arange(len(names))):
            raise self.corrupt(f"sentence_order does not fit {plural(len(names), 'sentence')}")
        return [names[i] for i in np.argsort(order)]

    def some_handle(self) -> str | None:
        with self._reading():
            for name, _ in hdf5.sample_datasets(self.file, 2):
                if name != SENTENCE_MAP:
                    return name
        return None

    def key(self, handle: Handle) -> int | str:
        return self.layout.key_of_name(str(handle))

    def info(self, handle: Handle) -> SentenceInfo:
        try:
            return self.layout.sentence_info(str(handle))
        except ValueError as error:
            raise self.corrupt(str(error)) from None

    def identity(self, handle: Handle) -> bytes:
        return str(handle).encode("utf-8", "surrogatepass")

    def problems(self) -> Iterator[str]:
        if not self._by_number:
            return
        for name in self._all_names:
            if not is_number(name) and name != SENTENCE_MAP:
                yield f"{name[:80]!r} is not the number of a sentence"

    @property
    def _all_names(self) -> list[str]:
        """All names in the root, in no order, which is faster by far than in order."""
        names: list[bytes] = []
        with self._reading():
            self.file.id.links.iterate(names.append, order=h5py.h5.ITER_NATIVE)
        return [name.decode("utf-8", "backslashreplace") for name in names]

    def _name_of(self, key: Key) -> str | None:
        """The first name that a key may mean and that exists."""
        for name in self.names_for(key):
            # HDF5 would find "0" as "./0" and "0/" too.
            if is_name(name) and self._opened(name) is not None:
                return name
        return None

    def _name_at(self, number: int) -> str | None:
        """The name of a sentence by its position, counted from the first sentence of a shard."""
        first = self._attributes.get("first_sentence", 0)
        position = number - first if isinstance(first, int) else number
        return self.handles[position] if 0 <= position < len(self) else None

    def _dataset(self, name: str) -> _OpenedSentence:
        """The data set of a sentence that the file lists."""
        opened = self._opened(name)
        if opened is None:
            raise self.corrupt(f"sentence {name!r} is not a data set")
        return opened

    def _opened(self, name: str) -> _OpenedSentence | None:
        """A data set of floats with 1 to 3 axes; None where no data set has this name."""
        last = self._last  # which another thread may replace
        if last is not None and last[0] == name:
            return last[1]
        try:
            with self._reading(f"sentence {name!r}"):
                values = hdf5.open_values(self.file, name)
                dtype = self._dtype(values.dtype_id)
        except hdf5.NoSuchNameError:
            return None
        if dtype.kind != "f" or not 1 <= len(values.shape) <= 3:
            content = f"{dtype} in shape {values.dataset.shape}"
            raise self.corrupt(
                f"sentence {name!r} holds {content}, expected floats with 1 to 3 axes"
            )
        opened = _OpenedSentence(values, dtype)
        self._last = (name, opened)
        return opened

    def _dtype(self, dtype_id: Any) -> np.dtype[Any]:
        """The dtype that HDF5 describes, which is nearly always that of the sentence before."""
        last = self._last_type
        if last is not None and last[0] == dtype_id:
            return last[1]
        dtype: np.dtype[Any] = dtype_id.dtype
        self._last_type = (dtype_id, dtype)
        return dtype

    def _reading(self, part: str = "") -> AbstractContextManager[None]:
        return hdf5.reading(self._path, EmbeddingsFileError, part)


class DatasetLayout(Layout):
    """A layout with one data set per sentence, named by its number."""

    writer = DatasetWriter
    reader = DatasetReader
    data_start = hdf5.METADATA_BLOCK_BYTES  # the root group is in the first block of metadata
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
        if not has_layers(array, pooled=pooled):
            return array[..., np.newaxis]
        return np.moveaxis(array, 0, -1)

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if not self.layers_last:
            return values
        has_one_layer = values.shape[-1] == 1
        array = values[..., 0] if has_one_layer else np.moveaxis(values, -1, 0)
        return np.ascontiguousarray(array)


class NameLayout(DatasetLayout):
    """A layout that names each data set by what the sentence is."""

    needs = frozenset()
    keyed_by = "name"

    def key_of_name(self, name: str) -> str:
        return name
