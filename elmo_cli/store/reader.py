"""open_embeddings: an embeddings file of any layout as a mapping from keys to arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import CORRUPT_HINT, plural, shortened
from elmo_cli.store.digests import tokens_sha256
from elmo_cli.store.finished_file import open_finished, unfinished
from elmo_cli.store.intact_sentence import IntactSentence, is_intact, own_array
from elmo_cli.store.layouts import (
    Handle,
    Key,
    SentenceInfo,
    SentenceReader,
    SentenceRun,
    StoredSentence,
    is_number,
    plain_key,
)
from elmo_cli.store.open_file import OpenFile
from elmo_cli.store.quantization import INT8, dequantize
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

_MAX_COUNT = 1 << 40  # so that the bytes of as many vectors are a number of HDF5


@dataclass(frozen=True)
class _OpenedFile:
    process_id: int  # a process that was forked cannot use the handle of its parent
    file: OpenFile
    reader: SentenceReader


class Embeddings(Mapping[Key, AnyArray]):
    """The arrays of an embeddings file, read when asked for; made by `open_embeddings`.

    `embeddings[key]` is a new array in the stored dtype, int8 as float32: (layer, token, dim), or
    (token, dim) where the file holds one layer; of pooled files (layer, dim) or (dim,); of types
    (projection,). Iteration gives numbers or names in the order of the sentences. Each process
    opens the file itself when it first reads, so worker processes can share this. A key is

    - the number of a sentence; in a file keyed by names it counts in the order of the file, which
      is that of the text unless sentences were left out or `order_is_known` is false;
    - its name in the file, or "DOCUMENT:3" or ("DOCUMENT", 3) where the file records documents;
    - its line, where there is a `sentence_to_index` or lines are keys;
    - its tokens, as a tuple or joined by spaces, in the layout of ELMoForManyLangs;
    - a negative number: its position, counted from the last sentence of the file, which is -1.

    `embeddings[2:5]` is a list of arrays by position: of the third to the fifth sentence of the
    file, whatever their keys.

    Attributes:
        attributes: what elmo recorded about the run; empty for files of other programs.
        layout: the name of the layout.
        is_keyed_by_name: whether iteration gives names and not numbers.
        unit: what one vector is for: "tokens", "sentences" (pooled) or "types" (of a vocabulary).
        n_layers: size of the layer axis, None without it.
        layers: their numbers (0 is the token layer), or one word: "top", "sum", "unknown", ….
        dim, stored_dtype: of a vector in the file; 0 and None without sentences.
        dtype: of the arrays; None without sentences.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._closed = False
        self._opened: _OpenedFile | None = None
        file = open_finished(self.path)
        try:
            self.attributes: dict[str, Any] = file.attributes
            self._layout = file.layout
            if self.attributes and self.attributes.get("complete") is not True:
                raise unfinished(self.path)
            self._describe(self._read_from(file))
        except BaseException:
            with suppress(RuntimeError, EmbeddingsFileError):  # a corrupt file may not even close
                file.close()
            raise

    def _read_from(self, file: OpenFile) -> SentenceReader:
        reader = file.reader()
        self._opened = _OpenedFile(os.getpid(), file, reader)
        return reader

    def _describe(self, reader: SentenceReader) -> None:
        """Set the attributes that depend on the layout and on one of the arrays."""
        handle = reader.some_handle()
        shape: tuple[int, ...] = ()
        stored_dtype: np.dtype[Any] | None = None
        if handle is not None:
            shape, stored_dtype = reader.array_type(handle)
        if reader.pooled and len(shape) > 2:
            raise reader.corrupt(f"an array has the shape {shape}, but its vectors are pooled")
        self.layout = self._layout.name
        self.is_keyed_by_name = self._layout.keyed_by == "name"
        self.unit = self._layout.unit
        # One vector is a pooled one, also in other programs' files.
        if self.unit == "sentences" and not reader.pooled and len(shape) != 1:
            self.unit = "tokens"
        self.stored_dtype = stored_dtype
        self.dtype = np.dtype("f4") if stored_dtype == INT8 else stored_dtype
        self.dim = shape[-1] if shape else 0
        has_layer_axis = len(shape) == (2 if reader.pooled else 3)
        self.n_layers = shape[0] if has_layer_axis else None
        self.layers = self._layers()

    def _layers(self) -> tuple[int | str, ...]:
        """The layers that the attribute `layers` names, as far as they fit the layer axis."""
        setting = "".join(str(self.attributes.get("layers", "all")).split())
        numbers = setting.split(",")
        if len(numbers) == (self.n_layers or 1) and all(map(is_number, numbers)):
            return tuple(map(int, numbers))
        if self.n_layers and (self.n_layers > 1 or setting == "all"):
            return tuple(range(self.n_layers))
        return ("unknown" if setting == "all" else setting,)

    def __repr__(self) -> str:
        name = f"Embeddings {str(self.path)!r}"
        if self._closed:
            return f"<{name}: closed>"
        layers = ", ".join(map(str, self.layers))
        return (
            f"<{name}: {plural(len(self), self._layout.noun)}, vectors of {self.unit}, "
            f"layers {layers}, dim {self.dim}, {self.stored_dtype}, layout {self.layout}>"
        )

    @property
    def reader(self) -> SentenceReader:
        """The open file of this process; for the other modules of the package."""
        if self._closed:
            hint = "open it again: `open_embeddings`"
            raise EmbeddingsFileError("closed", hint, where=self.path)
        opened = self._opened  # which another thread may close
        if opened is not None and opened.process_id == os.getpid():
            return opened.reader
        # Not closed before: after a fork the handle is still the parent's.
        return self._read_from(open_finished(self.path))

    def _find(self, key: object) -> Handle:
        checked = plain_key(key)
        if isinstance(key, bool) or not isinstance(checked, (str, int, tuple)):
            raise TypeError(f"a key is a number, a name or a tuple, not {type(key).__name__}")
        # The length is looked up only for a negative number: in HDF5 it is not free.
        if isinstance(checked, int) and checked < 0 and -len(self) <= checked:
            return self.reader.handles[checked]
        return self.reader.find(checked)

    @overload
    def __getitem__(self, key: slice) -> list[AnyArray]: ...
    @overload
    def __getitem__(self, key: Key) -> AnyArray: ...
    def __getitem__(self, key: Key | slice) -> AnyArray | list[AnyArray]:
        reader = self.reader
        if isinstance(key, slice):
            return [self.array_of(*reader.stored(handle)) for handle in reader.handles[key]]
        return self.array_of(*reader.stored(self._find(key)))

    def __contains__(self, key: object) -> bool:
        with suppress(KeyError, TypeError):
            self._find(key)
            return True
        return False

    def __iter__(self) -> Iterator[int | str]:
        return map(self.reader.key, self.reader.handles)

    def __len__(self) -> int:
        return len(self.reader)

    def layer(self, key: Key, index: int) -> AnyArray:
        """One layer of `self[key]` by its index in `layers`: (token, dim), or (dim,) if pooled."""
        array = self.array_of(*self.reader.stored(self._find(key), self._layer_index(index)))
        return array.reshape(array.shape[-2 if self.unit == "tokens" else -1 :])

    def _layer_index(self, index: int) -> int | None:
        """An index of `layers`, which may be negative, as one of the layer axis if there is one."""
        n_layers = len(self.layers)
        if not -n_layers <= index < n_layers:
            raise IndexError(f"{self.path}: no layer {index}, it has {plural(n_layers, 'layer')}")
        return None if self.n_layers is None else index % n_layers

    def shape(self, key: Key) -> tuple[int, ...]:
        """The shape of `self[key]`, without reading its values."""
        return self.reader.shape(self._find(key))

    def tokens(self, key: Key) -> tuple[str, ...] | None:
        """The tokens of a sentence; None where the file does not record them."""
        return self.info(key).tokens

    def info(self, key: Key) -> SentenceInfo:
        """What the file records of a sentence."""
        return self.reader.info(self._find(key))

    def runs(self) -> Iterator[SentenceRun]:
        """All sentences in file order, in runs; for other modules that read a whole file."""
        return self.reader.runs()

    def infos(self) -> Iterator[SentenceInfo]:
        """What the file records of each sentence, in file order."""
        for run in self.runs():
            run.read_infos()
            yield from map(run.info, range(len(run)))

    def infos_and_layer(self, index: int) -> Iterator[tuple[SentenceInfo, AnyArray]]:
        """What the file records of each sentence, with `self.layer` of it, in file order."""
        layer = self._layer_index(index)
        n_axes = 2 if self.unit == "tokens" else 1
        for run in self.runs():
            run.read_infos()
            for number in range(len(run)):
                array = self.array_of(*run.stored(number, layer))
                yield run.info(number), array.reshape(array.shape[-n_axes:])

    def sentences(self) -> Iterator[tuple[Sentence, AnyArray]]:
        """All sentences and their arrays, as the writer of the file got them, in its order.

        Tokens that are not recorded are empty ones, as many as there are vectors. A sentence that
        does not match its checksum is an EmbeddingsFileError.
        """
        for read in self.intact_sentences():
            yield read.sentence, own_array(read.array)

    def intact_sentences(self) -> Iterator[IntactSentence]:
        """What `sentences` yields, without a copy of the arrays, and as the file holds it."""
        is_numbered = self.unit != "types" and not self.is_keyed_by_name
        for run in self.runs():
            run.read_infos()
            checksums = self.checksums_of(run)
            for number in range(len(run)):
                values, scales = run.stored(number)
                if not is_intact(run, number, values, scales, checksums):
                    name = self.name_of(run.handles[number])
                    raise self.reader.corrupt(f"{name} is corrupt (checksum)")
                array = self._view(values, scales)
                position = run.begin + number
                key = int(run.key(number)) if is_numbered else self.first_sentence + position
                sentence = run.sentence(number, key, self._n_tokens(array))
                stored = None
                if checksums is not None and scales is None and run.reader.keeps_identity:
                    stored = StoredSentence(
                        sentence=sentence, values=values, scales=None, crc32=checksums[number]
                    )
                yield IntactSentence(sentence, array, stored)

    def _n_tokens(self, array: AnyArray) -> int:
        """The number of tokens as far as an array shows it."""
        if self.unit == "tokens":
            return array.shape[-2] if array.ndim > 1 else 0
        return 1 if self.unit == "types" else 0

    def checksums_of(self, run: SentenceRun) -> list[Any] | None:
        """What the file records as checksums of the sentences of a run, for `is_intact`."""
        checksums = self.numbers("sentence_crc32")
        if checksums is None:
            return None
        recorded: list[Any] = checksums[run.begin : run.begin + len(run)].tolist()
        return recorded

    def problems(self) -> Iterator[str]:
        """What is wrong with counts, digests and structure of the file, beyond its sentences."""
        yield from self.reader.problems()
        attributes = self.attributes
        n_sentences = len(self)
        n_read = n_sentences + self.count("duplicate_sentences")

        if "sentences" in attributes and n_sentences != self.count("sentences"):
            expected = self.count("sentences")
            yield f"it has {plural(n_sentences, 'sentence')}, expected {expected}"

        checksums = self.numbers("sentence_crc32")
        n_checksums = 0 if checksums is None else len(checksums)
        if attributes and n_checksums != n_sentences:
            yield f"it has {plural(n_checksums, 'checksum')}, expected {n_sentences}"

        digests = self.numbers("token_digests")
        if digests is not None and len(digests) != n_read:
            yield f"it has {plural(len(digests), 'token digest')}, expected {n_read}"

        dtype = attributes.get("dtype")
        if n_sentences and dtype is not None and str(self.stored_dtype) != str(dtype):
            yield f"it has {self.stored_dtype} values, expected {dtype}"

        sha256 = str(attributes.get("tokens_sha256"))
        if digests is not None and tokens_sha256(digests.tobytes()) != sha256:
            yield "its attributes token_digests and tokens_sha256 contradict each other"

    def name_of(self, handle: Handle) -> str:
        """What messages call a sentence: "sentence 3", "type 3"."""
        return f"{self._layout.noun} {self.reader.key(handle)!r}"

    def array_of(self, values: AnyArray, scales: AnyArray | None) -> AnyArray:
        """The array of a sentence from its stored values; a copy of what refers to the file."""
        return own_array(self._view(values, scales))

    def _view(self, values: AnyArray, scales: AnyArray | None) -> AnyArray:
        """The array of a sentence, which may refer to the file."""
        floats = values if scales is None else dequantize(values, scales)
        return self._layout.from_file(floats, pooled=self.reader.pooled)

    @property
    def order_is_known(self) -> bool:
        """Whether sentences are in the order of the text; unknown if another program named them."""
        is_listed = bool(self.attributes) or not self.is_keyed_by_name
        return is_listed and self.attributes.get("order_unknown") is not True

    def key_of(self, sentence: Sentence) -> Key:
        """The key of a sentence of the text, even one that the file lacks, or a UsageError."""
        key = self._layout.key_of(sentence)
        if key is not None or self.order_is_known:
            return sentence.key if key is None else key
        order = f"{self.path} lists its sentences by name, not in the order of the text"
        raise UsageError(
            f"the sentence has no name, and {order}",
            "give a text that names documents, or embed with layout flat",
            where=sentence.where,
        )

    @property
    def records(self) -> frozenset[str]:
        """What this file records, in the words of `Layout.needs`; "one layer" is not among them."""
        return self.reader.records | ({"text order"} if self.order_is_known else set())

    @property
    def spec(self) -> FileSpec:
        """The settings with which elmo wrote this file."""
        try:
            return FileSpec.from_attributes(self.attributes)
        except (KeyError, TypeError, ValueError):
            problem = "its attributes are not those that elmo writes"
            raise EmbeddingsFileError(problem, CORRUPT_HINT, where=self.path) from None

    @property
    def first_sentence(self) -> int:
        """The key with which the input of this file begins."""
        return self.count("first_sentence")

    def count(self, name: str) -> int:
        """A number among the attributes, 0 where it is missing."""
        number = self.attributes.get(name, 0)
        if not isinstance(number, int) or not 0 <= number <= _MAX_COUNT:
            raise self._wrong_attribute(name)
        return number

    def numbers(self, name: str) -> AnyArray | None:
        """An array of numbers among the attributes, (number,); None where it is missing."""
        numbers = self.attributes.get(name)
        if numbers is not None and (not isinstance(numbers, np.ndarray) or numbers.ndim != 1):
            raise self._wrong_attribute(name)
        return numbers

    def _wrong_attribute(self, name: str) -> EmbeddingsFileError:
        value = shortened(repr(self.attributes[name]))
        return EmbeddingsFileError(f"{name} is {value}", CORRUPT_HINT, where=self.path)

    def close(self) -> None:
        """Close the file; reading from it afterwards is an error."""
        self._closed = True
        opened = self._opened
        self._opened = None
        if opened is not None and opened.process_id == os.getpid():
            opened.file.close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    # Compared as open files are, not by all their values.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def open_embeddings(path: str | os.PathLike[str]) -> Embeddings:
    """Open an embeddings file of elmo, AllenNLP, bilm-tf, e2e-coref, LSGN, DyGIE and others.

    Returns:
        a mapping from the key of a sentence to its array; use it in a `with`, or call `close`.
    Raises:
        EmbeddingsFileError: the file is missing, corrupt or unfinished, or holds something else.
    """
    return Embeddings(path)
