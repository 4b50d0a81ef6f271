"""New HDF5 files, equal bytes for equal calls: the file, and the data sets in it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5f, h5g, h5p, h5s, h5t

from elmo_cli.store.layouts.stored_sentence import Array, ValueSink

_IN_ORDER = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED


def create_file(path: str | os.PathLike[str], alignment: int) -> h5py.File:
    """Create a file that HDF5 1.8 can read, with tracked creation order and without timestamps."""
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    with suppress(AttributeError):  # h5py before 3.9; whoever writes holds a lock of its own
        access.set_file_locking(False, True)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)
    access.set_alignment(1, alignment)
    creation.set_link_creation_order(_IN_ORDER)
    creation.set_attr_creation_order(_IN_ORDER)
    creation.set_obj_track_times(False)
    return h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access))


def create_dataset(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> h5py.Dataset:
    """Create a contiguous data set in the root, with space for its values and no values yet."""
    space, kind = h5s.create_simple(shape), h5t.py_create(dtype)
    return h5py.Dataset(h5d.create(file.id, name.encode("ascii"), kind, space, _contiguous()))


class DatasetWriter:
    """Creates groups and contiguous data sets, one per sentence.

    It reuses property lists, types and extents, which is half as fast again as h5py's functions.
    """

    def __init__(self, file: h5py.File, dtype: np.dtype[Any], sink: ValueSink) -> None:
        self._sink = sink
        self._type = h5t.py_create(dtype)
        self._properties = _contiguous()
        self._utf8 = h5p.create(h5p.LINK_CREATE)
        self._utf8.set_char_encoding(h5t.CSET_UTF8)
        self._group_properties = h5p.create(h5p.GROUP_CREATE)
        self._group_properties.set_link_creation_order(_IN_ORDER)
        self._group_properties.set_obj_track_times(False)
        self._spaces: dict[tuple[int, ...], h5s.SpaceID] = {}
        self._root = file.id
        self._last: tuple[str, h5g.GroupID] = ("", self._root)
        # Path of a group -> number of the sentence that created it and each group above it.
        self._starts: dict[str, tuple[int, ...]] = {"": ()}
        self._groups: list[tuple[int, ...]] = []  # of each sentence

    def add(self, name: str, values: Array) -> None:
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


def _contiguous() -> h5p.PropDCID:
    """Properties of a data set: contiguous, allocated at once, never filled, without times."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return properties
