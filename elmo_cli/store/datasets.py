"""Sentences that have a dataset each: every layout but `flat` and `bilm-types`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.damage import DAMAGED, check_bytes, hdf5_errors
from elmo_cli.store.members import keeps_creation, kind, numbers, others, unreadable, walk
from elmo_cli.store.naming import NAMINGS, Facts, Key, is_number
from elmo_cli.store.recognise import some_datasets
from elmo_cli.store.schema import MAP

Array = NDArray[np.floating[Any]]
Form = tuple[tuple[int, ...], np.dtype[np.floating[Any]]]
_LAYERS_LAST = ("e2e-coref", "dygie")
_NESTS_BY_CHANCE = ("allennlp", "dygie", "named")


class _Datasets(ABC):
    """What both ways of keying share: finding and reading one dataset."""

    def __init__(self, file: h5py.File, layout: str) -> None:
        self._file = file
        self._name = str(file.filename)
        self._layout = layout

    @abstractmethod
    def path(self, key: Key) -> str:
        """Name of the dataset of a sentence."""

    def shape(self, key: Key) -> tuple[int, ...]:
        """The shape that `array` gives, without reading values."""
        return self._shape(self._dataset(key))

    def stored_shape(self, key: Key) -> tuple[int, ...]:
        """The shape in the file, with its order of axes."""
        return tuple(self._dataset(key).shape)

    def example(self) -> Form | None:
        """Shape and type of the array of some sentence, without a look at all names."""
        path, dataset = next(some_datasets(self._file, 2), ("", None))
        if dataset is None:
            return None
        self._check(f"dataset {path!r}", dataset)
        return self._shape(dataset), dataset.dtype

    def _dataset(self, key: Key) -> h5py.Dataset:
        """The dataset of a sentence.

        Raises:
            KeyError: no such sentence.
            EmbeddingsFileError: it can't be opened, or holds no embeddings.
        """
        path = self.path(key)
        with hdf5_errors(partial(unreadable, self._name, f"sentence {key!r}")):
            dataset = self._file[path]
        self._check(f"sentence {key!r}", dataset)
        return dataset

    def _check(self, what: str, dataset: h5py.Dataset) -> None:
        """Refuse what is no array of embeddings, whatever the file says of itself."""
        if dataset.dtype.kind != "f" or not 1 <= len(dataset.shape or ()) <= 3:
            held = f"{dataset.dtype} in shape {dataset.shape}"
            raise EmbeddingsFileError(
                f"{self._name}: {what} holds {held}, not floats in 1 to 3 axes", DAMAGED
            )

    def _shape(self, dataset: h5py.Dataset) -> tuple[int, ...]:
        shape = tuple(dataset.shape)
        if self._layout not in _LAYERS_LAST:
            return shape
        return shape[:-1] if shape[-1] == 1 else (shape[-1], *shape[:-1])

    def array(self, key: Key) -> Array:
        """A sentence's array: (layer, token, dim), or (token, dim) where it has one layer."""
        dataset = self._dataset(key)
        check_bytes(self._file, f"sentence {key!r}", dataset.nbytes)
        with hdf5_errors(partial(unreadable, self._name, f"sentence {key!r}")):
            values: Array = dataset[()]
        if self._layout not in _LAYERS_LAST:
            return values
        return np.ascontiguousarray(self._layers_first(values))

    @staticmethod
    def _layers_first(values: Array) -> Array:
        """(token, dim, layer) or (dim, layer) with layers first; a single layer loses its axis."""
        if values.shape[-1] == 1:
            return values[..., 0]
        return np.moveaxis(values, -1, 0)

    def _is_sentence(self, path: str) -> bool:
        if path == MAP or not {"", "."}.isdisjoint(path.split("/")):
            return False  # HDF5 would find "0" under "./0" and "0/" as well
        return bool(kind(self._file, path) == h5py.h5o.TYPE_DATASET)

    def _no_sentence(self, key: object, why: str = "") -> KeyError:
        path = next((path for path, _ in some_datasets(self._file, 2)), None)
        example = "it has none" if path is None else f"its keys are like {self._shown(path)}"
        return KeyError(f"{self._name}: no sentence {key!r}{why}; {example}")

    def _shown(self, path: str) -> str:
        return repr(path)


class NumberedSentences(_Datasets):
    """Sentences named by their number: `allennlp` with number keys, and `bilm`."""

    def __init__(self, file: h5py.File, layout: str, *, is_own: bool) -> None:
        super().__init__(file, layout)
        self._is_own = is_own

    def __len__(self) -> int:
        return self._n

    @cached_property
    def _n(self) -> int:
        if self._is_own:  # has nothing else in it, and listing a million names takes a second
            return len(self._file) - self.has_map
        return len(numbers(self._file))

    @property
    def others(self) -> list[str]:
        """Names of what is neither a sentence nor the sentence map."""
        return others(self._file)

    def keys(self) -> Iterator[int]:
        """All numbers, the lowest first."""
        yield from numbers(self._file)

    def path(self, key: Key) -> str:
        """The dataset of a sentence: its number, or its text where there is a sentence map.

        A key that is both, such as the line "7", is taken for the number.

        Raises:
            KeyError: no such sentence; the message shows what keys look like.
        """
        if isinstance(key, int) or (
            isinstance(key, str) and key.isdigit() and self._is_sentence(key)
        ):
            path = str(key)
        else:
            path = self._map.get(key if isinstance(key, str) else " ".join(map(str, key)), "")
        if not self._is_sentence(path):
            raise self._no_sentence(key, "" if self._map else " (and no sentence map)")
        return path

    def facts(self, key: Key) -> Facts:
        """What the sentence map tells of a sentence: nothing of a line that occurs again later."""
        path = self.path(key)
        text = self._texts.get(path)
        return Facts(int(path), text=text, tokens=None if text is None else tuple(text.split()))

    @property
    def has_map(self) -> bool:
        """Whether there is a `sentence_to_index`."""
        return MAP in self._file

    @property
    def sentence_map(self) -> dict[str, str] | None:
        """Line -> name of its dataset, in order of first occurrence; None where there is no map."""
        return self._map if self.has_map else None

    def forget_map(self) -> None:
        """Tell of no line from now on: for a caller that needs none, whatever the map is like."""
        self._map = {}

    @cached_property
    def _map(self) -> dict[str, str]:
        if not self.has_map:
            return {}
        try:
            with hdf5_errors(partial(unreadable, self._name, MAP)):
                found = json.loads(self._file[MAP][0])
        except (ValueError, TypeError, RecursionError):  # EmbeddingsFileError is a ValueError
            found = None
        if not isinstance(found, dict) or not all(map(_is_number, found.values())):
            raise EmbeddingsFileError(
                f"{self._name}: {MAP} is not a JSON object of lines and numbers",
                "`elmo convert --layout bilm` makes a file without it",
            )
        return found

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {name: text for text, name in self._map.items()}

    def _shown(self, path: str) -> str:
        return path if path.isdigit() else repr(path)


class NamedSentences(_Datasets):
    """Sentences named by their line, their tokens, or their document and place in it."""

    def __init__(
        self, file: h5py.File, layout: str, first_sentence: int, *, order_lost: bool
    ) -> None:
        super().__init__(file, layout)
        self._naming = NAMINGS[layout]
        self._first = first_sentence
        self._order_lost = order_lost

    def __len__(self) -> int:
        return len(self._paths)

    def keys(self) -> Iterator[str]:
        """All names, in the order of the file."""
        yield from map(self._naming.key, walk(self._file))

    def path(self, key: Key) -> str:
        """The dataset of a sentence: its name, or its number in the order of the file.

        Raises:
            KeyError: no such sentence; the message shows what keys look like.
        """
        if isinstance(key, int):
            return self._numbered(key)
        for path in self._naming.paths(key):
            if self._is_sentence(path):
                return path
        raise self._no_sentence(key)

    @cached_property
    def nests(self) -> bool:
        """Whether a `/` in the keys makes groups, in which sentences of others may have come."""
        has_groups = any("/" in path for path in self._paths)
        return self._layout in _NESTS_BY_CHANCE and has_groups and len(self._paths) > 1

    @cached_property
    def is_by_name(self) -> bool:
        """Whether names alone order the sentences: the program that wrote them kept no order.

        Within a document the numbers in the names tell it.
        """
        if self._order_lost:
            return True
        if keeps_creation(self._file) or len(self._paths) < 2:
            return False
        documents = {self._told(path, -1).document for path in self._paths}
        return len(documents) > 1 or None in documents

    @property
    def keeps_order(self) -> bool:
        """Whether the order of the file is that in which its sentences were written."""
        return not self.nests and not self.is_by_name

    def _numbered(self, number: int) -> str:
        if self.nests:
            raise self._no_sentence(number, ": a `/` in its keys nests and loses the order")
        if not 0 <= number - self._first < len(self._paths):
            raise self._no_sentence(number, f": it has {len(self._paths)}")
        return self._paths[number - self._first]

    def facts(self, key: Key) -> Facts:
        """What the name of a sentence tells of it; its number only if `key` is that number."""
        return self._told(self.path(key), key if isinstance(key, int) else -1)

    def _told(self, path: str, number: int) -> Facts:
        try:
            return self._naming.facts(path, number)
        except ValueError as error:
            raise EmbeddingsFileError(f"{self._name}: {error}", DAMAGED) from None

    @cached_property
    def _paths(self) -> list[str]:
        return list(walk(self._file))

    def _shown(self, path: str) -> str:
        return repr(self._naming.key(path))


def has_number_keys(file: h5py.File, layout: str, attributes: dict[str, Any]) -> bool:
    """Whether a file names its sentences "0", "1", …"""
    if layout != "allennlp" or "elmo_schema" in attributes:
        return layout == "bilm" or (layout == "allennlp" and attributes.get("keys") != "sentence")
    return MAP in file or all(path.isdigit() for path, _ in some_datasets(file))


def _is_number(name: object) -> bool:
    return isinstance(name, str) and is_number(name)
