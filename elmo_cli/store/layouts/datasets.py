"""Datasets: one contiguous dataset a sentence, at the path that its layout names."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from h5py import h5d, h5g, h5o, h5p, h5s, h5t

from elmo_cli.store.layouts.contract import Layout, OpenFile, refused
from elmo_cli.store.layouts.keys import problem
from elmo_cli.text.sentence import Sentence


class DatasetLayout(Layout):
    """A layout with one dataset a sentence; says at which path and in which axis order."""

    hint: ClassVar[str]
    """What to do when a path is impossible or taken."""

    def __init__(self, target: OpenFile) -> None:
        self.target = target
        self._datasets = Datasets(target)

    @abstractmethod
    def path(self, sentence: Sentence) -> str:
        """The path of the dataset."""

    def arrange(self, array: np.ndarray) -> np.ndarray:
        """The array with the axes of the file."""
        return array

    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        return self.put(sentence, array, is_new=False)

    def put(self, sentence: Sentence, array: np.ndarray, *, is_new: bool) -> bool:
        """As `append`; HDF5 is not asked whether the path of a new sentence is there."""
        path = self.path(sentence)
        group, leaf = self._datasets.place(path, sentence, self.hint)
        if not is_new and group.links.exists(leaf):
            return self.taken(path, sentence)
        self._datasets.add(group, leaf, self.arrange(array))
        return True

    def taken(self, path: str, sentence: Sentence) -> bool:
        """What to do with a sentence whose path is there: refuse it."""
        raise refused(
            sentence, f"the key {_shown(path)} is there already, from a sentence before", self.hint
        )


class Datasets:
    """Makes groups and contiguous datasets, with links in the order of creation and no times."""

    def __init__(self, target: OpenFile) -> None:
        self._raw = target.raw
        self._root = target.file.id
        self._type = h5t.py_create(target.dtype)
        self._properties = _dataset_properties()
        self._group_properties = _group_properties()
        self._ascii, self._utf8 = h5p.create(h5p.LINK_CREATE), h5p.create(h5p.LINK_CREATE)
        self._utf8.set_char_encoding(h5t.CSET_UTF8)
        self._last: tuple[str, h5g.GroupID] = ("", self._root)
        self._spaces: dict[tuple[int, ...], h5s.SpaceID] = {}

    def place(self, path: str, sentence: Sentence, hint: str) -> tuple[h5g.GroupID, bytes]:
        """The group that holds, or will hold, the dataset of a path, and the name in it.

        Raises:
            InputError: HDF5 can't have such a path, or a part of it is a dataset.
        """
        if why := problem(path):
            raise refused(sentence, f"the key {_shown(path)} {why}", hint)
        folder, _, leaf = path.rpartition("/")
        if folder != self._last[0]:
            self._last = (folder, self._group(path, sentence, hint))
        return self._last[1], leaf.encode("utf-8")

    def add(self, group: h5g.GroupID, leaf: bytes, array: np.ndarray) -> None:
        """Make a dataset of the shape of `array` and write its values."""
        dataset = h5d.create(
            group,
            leaf,
            self._type,
            self._space(array.shape),
            self._properties,
            self._link(leaf),
        )
        if not array.size:
            return
        # Space is allocated early, and nobody reads it while the file is open here. To write there
        # ourselves takes a tenth of the time of H5Dwrite for a short sentence.
        self._raw.write_at(dataset.get_offset(), *_contiguous(array))

    def _group(self, path: str, sentence: Sentence, hint: str) -> h5g.GroupID:
        group = self._root
        for component in path.split("/")[:-1]:
            group = self._subgroup(group, component.encode("utf-8"))
            if group is None:
                what = f"the key {_shown(path)} goes on from the whole key of a sentence before"
                raise refused(sentence, what, hint)
        return group

    def _subgroup(self, group: h5g.GroupID, name: bytes) -> h5g.GroupID | None:
        """The group of that name, made if need be; None where a dataset has the name."""
        if not group.links.exists(name):
            return h5g.create(group, name, self._link(name), self._group_properties)
        there = h5o.open(group, name)
        return there if isinstance(there, h5g.GroupID) else None

    def _space(self, shape: tuple[int, ...]) -> h5s.SpaceID:
        """The extent of a dataset, made once a shape: a block has many sentences of a length."""
        if shape not in self._spaces:
            self._spaces[shape] = h5s.create_simple(shape)
        return self._spaces[shape]

    def _link(self, name: bytes) -> h5p.PropLCID:
        return self._ascii if name.isascii() else self._utf8


def _contiguous(array: np.ndarray) -> list[memoryview]:
    """The bytes of an array: a piece for each layer where those lie apart, as in a batch's."""
    if not array.flags.c_contiguous and array[0].flags.c_contiguous:
        return [layer.data.cast("B") for layer in array]
    return [np.ascontiguousarray(array).data.cast("B")]


def _dataset_properties() -> h5p.PropDCID:
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return properties


def _group_properties() -> h5p.PropGCID:
    properties = h5p.create(h5p.GROUP_CREATE)
    properties.set_link_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    properties.set_obj_track_times(False)
    return properties


def _shown(path: str) -> str:
    return repr(path if len(path) <= 80 else f"{path[:80]}…")
