"""Layouts keyed by document: e2e-coref, LSGN and DyGIE."""

from __future__ import annotations

import re
from collections.abc import Iterator

import h5py

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.base import Sample, is_number
from elmo_cli.store.layouts.sentence_datasets import LayersLast, SentenceDatasets
from elmo_cli.store.layouts.stored_sentence import Key, SentenceInfo
from elmo_cli.text.sentence import Sentence

_ONTONOTES = re.compile(r".*/.*_[0-9]+", re.DOTALL)  # bc/cctv/00/cctv_0000_12


class DocumentDatasets(SentenceDatasets):
    """One group per document, named by its key with `:` for `/`; in it one number per sentence.

    Reading restores the `/` in keys of OntoNotes only, since other keys may contain a `:`.
    """

    needs = frozenset({"document"})
    hint = "give each document its own `doc_key`"

    def dataset_name(self, sentence: Sentence) -> str:
        return f"{document_of(sentence, self.name).replace('/', ':')}/{sentence.place}"

    def names_for(self, key: str | tuple[object, ...]) -> Iterator[str]:
        if (found := document_and_place(key)) is not None:
            yield f"{found[0].replace('/', ':')}/{found[1]}"
        elif isinstance(key, str):
            yield key

    def key_of_name(self, name: str) -> str:
        return name.replace("/", ":")

    def sentence_info(self, name: str, position: int) -> SentenceInfo:
        document, _, place = name.rpartition("/")
        with_slashes = document.replace(":", "/")
        if is_ontonotes(with_slashes):
            document = with_slashes
        key = self.key_of_name(name)
        return SentenceInfo(position, key, document=document, place=_number(name, place))

    def key_of(self, sentence: Sentence) -> Key | None:
        return None if sentence.document is None else (sentence.document, sentence.place)

    def records_of_name(self, name: str) -> frozenset[str]:
        """Only LSGN's names for OntoNotes need the offset of a part."""
        document = self.sentence_info(name, 0).document or ""
        return frozenset({"document", *(() if is_ontonotes(document) else ("part offset",))})


class E2eCoref(LayersLast, DocumentDatasets):
    """What e2e-coref's `cache_elmo.py` writes."""

    name = "e2e-coref"

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        return _are_numbers_in_groups(sample) and layers_are_last(sample)


class Lsgn(DocumentDatasets):
    """As LSGN looks up its caches; it moves the axes itself.

    Sentences of OntoNotes have a flat name: the document without its part, and the number of the
    sentence in all parts of the document.
    """

    name = "lsgn"
    needs = frozenset({"document", "part offset"})
    hint = "give each document its own `doc_key`, and parts of one document their `sent_offset`"

    def dataset_name(self, sentence: Sentence) -> str:
        document = document_of(sentence, self.name)
        if not is_ontonotes(document):
            return super().dataset_name(sentence)
        whole = document.rpartition("_")[0]
        return f"{whole}/{sentence.offset + sentence.place}".replace("/", ":")

    def names_for(self, key: str | tuple[object, ...]) -> Iterator[str]:
        for name in super().names_for(key):
            yield name.replace("/", ":")
            yield name

    def sentence_info(self, name: str, position: int) -> SentenceInfo:
        if "/" in name:
            return super().sentence_info(name, position)
        document, _, number = name.rpartition(":")
        # Some part of the document; sentence 0 of part 0 with this offset has the same name.
        part = f"{document.replace(':', '/')}_0"
        return SentenceInfo(position, name, document=part, offset=_number(name, number))

    def key_of(self, sentence: Sentence) -> Key | None:
        if is_ontonotes(sentence.document or ""):
            return self.dataset_name(sentence)
        return super().key_of(sentence)

    def records_of_name(self, name: str) -> frozenset[str]:
        return super().records_of_name(name) if "/" in name else frozenset()

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        if _are_numbers_in_groups(sample):
            return not layers_are_last(sample)
        are_flat = all(re.search(r":\d+$", name) for name, _ in sample)
        return are_flat and all(dataset.ndim == 3 for _, dataset in sample)


class Dygie(LayersLast, DocumentDatasets):
    """What DyGIE's `generate_elmo.py` writes: document, `_` and number; a `/` creates groups."""

    name = "dygie"
    nests_by_chance = True

    def dataset_name(self, sentence: Sentence) -> str:
        return f"{document_of(sentence, self.name)}_{sentence.place}"

    def names_for(self, key: str | tuple[object, ...]) -> Iterator[str]:
        if isinstance(key, str):
            yield key
        if (found := document_and_place(key)) is not None:
            yield f"{found[0]}_{found[1]}"

    def key_of_name(self, name: str) -> str:
        return name

    def sentence_info(self, name: str, position: int) -> SentenceInfo:
        document, _, place = name.rpartition("_")
        return SentenceInfo(position, name, document=document, place=_number(name, place))

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        are_joined = all(re.search(r"_\d+$", name) for name, _ in sample)
        return are_joined and layers_are_last(sample)


def is_ontonotes(document: str) -> bool:
    """Whether a document key is like those of OntoNotes, with a part number at the end."""
    return _ONTONOTES.fullmatch(document) is not None


def document_of(sentence: Sentence, layout: str) -> str:
    """The document key of the sentence; a UsageError if it has none."""
    if sentence.document is None:
        raise UsageError(
            f"{sentence.where}: layout {layout} needs documents, this sentence has none",
            "give JSON lines with `doc_key` and `sentences` in each line",
        )
    return sentence.document


def document_and_place(key: object) -> tuple[str, int] | None:
    """What ("doc", 3) or "doc:3" names, None for another key."""
    if isinstance(key, str):
        document, colon, place = key.rpartition(":")
        return (document, int(place)) if colon and is_number(place) else None
    match key:
        case (str(document), int(number)) if number >= 0:
            return document, number
    return None


def layers_are_last(sample: Sample) -> bool:
    """Whether arrays are (token, dim, layer) rather than (layer, token, dim).

    The dim is the same in all, and greater than the number of layers; where one sentence fits both
    readings, the greater dim is taken.
    """
    shapes = [dataset.shape for _, dataset in sample]
    if any(len(shape) != 3 for shape in shapes):
        return False
    tokens, dims, layers = ({shape[axis] for shape in shapes} for axis in range(3))
    is_last = len(dims) == len(layers) == 1 and max(layers) < max(dims)
    is_first = len(tokens) == len(layers) == 1 and max(tokens) < max(layers)
    return is_last and not (is_first and max(layers) > max(dims))


def _are_numbers_in_groups(sample: Sample) -> bool:
    n_axes = {dataset.ndim for _, dataset in sample}
    are_numbers = all(re.search(r"[^/]/\d+$", name) for name, _ in sample)
    return are_numbers and len(n_axes) == 1 and min(n_axes) > 1


def _number(name: str, text: str) -> int:
    """The number at the end of a name; a ValueError if there is none."""
    if not is_number(text):
        raise ValueError(f"{name!r} is not the name of a sentence, it ends with {text!r}")
    return int(text)
