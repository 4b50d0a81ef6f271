"""e2e-coref, lsgn, dygie: layouts that name data sets by document and number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import h5py

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.base import Key, SampledDatasets, SentenceInfo, is_number
from elmo_cli.store.layouts.sentence_datasets import NameLayout
from elmo_cli.text.sentence import Sentence


class E2eCoref(NameLayout):
    """What e2e-coref's `cache_elmo.py` writes: a group per document, in it a number per sentence.

    The group is named by the document key with `:` for `/`. Reading restores the `/` in keys of
    OntoNotes only, since other keys may contain a `:`.
    """

    name = "e2e-coref"
    needs = frozenset({"document"})
    records = frozenset({"document"})
    hint = "give each document its own `doc_key`"
    layers_last = True
    separator: ClassVar[str] = "/"  # between document and number in a name

    def dataset_name(self, sentence: Sentence) -> str:
        if sentence.document is None:
            raise UsageError(
                f"layout {self.name} needs documents, this sentence has none",
                "give JSON lines with `doc_key` and `sentences` in each line",
                where=sentence.where,
            )
        return self.name_of(sentence.document, sentence.place)

    def name_of(self, document: str, place: int) -> str:
        """The path of the data set of sentence `place` of a document."""
        return f"{document.replace('/', ':')}/{place}"

    def key_of(self, sentence: Sentence) -> Key | None:
        return None if sentence.document is None else (sentence.document, sentence.place)

    def names_for(self, key: Key) -> Iterator[str]:
        if isinstance(key, str):
            yield key
        position = document_and_place(key)
        if position is not None:
            yield self.name_of(*position)

    def key_of_name(self, name: str) -> str:
        return name.replace("/", ":")

    def sentence_info(self, name: str) -> SentenceInfo:
        document, place = _split_name(name, self.separator)
        with_slashes = document.replace(":", "/")
        if is_ontonotes(with_slashes):
            document = with_slashes
        return SentenceInfo(document=document, place=place)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        return _all_match(sample, r"[^/]/\d+$") and layers_are_last(sample)


class Lsgn(E2eCoref):
    """As LSGN looks up its caches; it moves the axes itself.

    Sentences of OntoNotes have a flat name: the document without its part, and the number of the
    sentence in all parts of the document.
    """

    name = "lsgn"
    needs = frozenset({"document", "part offset"})
    records = frozenset()  # OntoNotes names do not contain the part of the document
    hint = "give each document its own `doc_key`, and parts of one document their `sent_offset`"
    layers_last = False

    def dataset_name(self, sentence: Sentence) -> str:
        name = super().dataset_name(sentence)
        document = sentence.document or ""
        if not is_ontonotes(document):
            return name
        without_part, _, _ = document.rpartition("_")
        return f"{without_part}/{sentence.offset + sentence.place}".replace("/", ":")

    def key_of(self, sentence: Sentence) -> Key | None:
        if is_ontonotes(sentence.document or ""):
            return self.dataset_name(sentence)
        return super().key_of(sentence)

    def names_for(self, key: Key) -> Iterator[str]:
        for name in super().names_for(key):
            yield name.replace("/", ":")
            yield name

    def sentence_info(self, name: str) -> SentenceInfo:
        if "/" in name:
            return super().sentence_info(name)
        document, number = _split_name(name, ":")
        # Some part of the document; sentence 0 of part 0 with this offset has the same name.
        part = f"{document.replace(':', '/')}_0"
        return SentenceInfo(document=part if is_ontonotes(part) else None, offset=number)

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        if _all_match(sample, r"[^/]/\d+$"):
            return all(dataset.ndim > 1 for _, dataset in sample)
        return _all_match(sample, r":\d+$") and all(dataset.ndim == 3 for _, dataset in sample)


class Dygie(E2eCoref):
    """What DyGIE's `generate_elmo.py` writes: document, `_` and number; a `/` creates groups."""

    name = "dygie"
    separator = "_"

    def name_of(self, document: str, place: int) -> str:
        return f"{document}_{place}"

    def key_of_name(self, name: str) -> str:
        return name

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        return _all_match(sample, r"_\d+$") and layers_are_last(sample)


def is_ontonotes(document: str) -> bool:
    """Whether a document key is like those of OntoNotes, such as `bc/cctv/00/cctv_0000_12`."""
    return re.fullmatch(r".*/.*_[0-9]+", document, re.DOTALL) is not None


def document_and_place(key: object) -> tuple[str, int] | None:
    """What ("doc", 3) or "doc:3" names, None for another key."""
    if isinstance(key, str):
        document, colon, number = key.rpartition(":")
        return (document, int(number)) if colon and is_number(number) else None
    match key:
        case (str(document), int(place)) if place >= 0:
            return document, place
    return None


def layers_are_last(sample: SampledDatasets) -> bool:
    """Whether arrays are (token, dim, layer) rather than (layer, token, dim)."""
    return all(dataset.ndim == 3 and dataset.shape[2] < dataset.shape[1] for _, dataset in sample)


def _all_match(sample: SampledDatasets, pattern: str) -> bool:
    return all(re.search(pattern, name) for name, _ in sample)


def _split_name(name: str, separator: str) -> tuple[str, int]:
    """Document and number in a name; a ValueError if it does not end with a number."""
    document, _, number = name.rpartition(separator)
    if not is_number(number):
        raise ValueError(f"{name!r} is not the name of a sentence, it ends with {number!r}")
    return document, int(number)
