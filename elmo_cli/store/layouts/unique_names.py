"""UniqueNames: refuse duplicate and impossible names before anything is computed for them."""

from __future__ import annotations

import hashlib

from elmo_cli.errors import InputError
from elmo_cli.store.layouts.base import SENTENCE_MAP, Layout
from elmo_cli.text.sentence import Sentence

_MAX_NAME_BYTES = 60_000  # a link is a message in an object header, which is below 64 KiB


class UniqueNames:
    """Checks the names of sentences before anything is computed for them.

    Layouts keyed by names take about 120 bytes for each name, others nothing.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last = -1
        self._names: set[bytes] = set()
        self._groups: set[bytes] = set()

    def add(self, sentence: Sentence) -> bool:
        """Add the next sentence.

        Returns:
            False if the layout leaves it out, since it keeps only the first of equal sentences.
        Raises:
            InputError: its name exists already, or HDF5 cannot hold such a name.
            UsageError: it lacks what the layout makes names of.
        """
        if self._layout.keyed_by == "number":
            return self._add_number(sentence)
        name = self._layout.dataset_name(sentence)
        if why := name_problem(name):
            raise name_error(sentence, f"the key {_shown(name)} {why}", self._layout.hint)
        digest = _digest(name)
        if digest in self._names and self._layout.keeps_first:
            return False
        groups = _parents(name)
        if digest in self._names:
            self._refuse(sentence, name, "exists already, from an earlier sentence")
        if digest in self._groups:
            self._refuse(sentence, name, "is the beginning of the key of an earlier sentence")
        if not self._names.isdisjoint(groups):
            self._refuse(sentence, name, "begins with the whole key of an earlier sentence")
        self._names.add(digest)
        self._groups.update(groups)
        return True

    def _add_number(self, sentence: Sentence) -> bool:
        if sentence.key <= self._last:
            self._refuse(sentence, str(sentence.key), f"comes after {self._last}")
        self._last = sentence.key
        return True

    def _refuse(self, sentence: Sentence, name: str, why: str) -> None:
        raise name_error(sentence, f"the key {_shown(name)} {why}", self._layout.hint)


def name_problem(name: str) -> str:
    """Why HDF5 cannot have a data set of this name; empty if it can."""
    if name.isalnum() and name.isascii() and len(name) <= _MAX_NAME_BYTES:
        return ""  # nearly all names
    components = name.split("/")
    if "\0" in name:
        return "contains a NUL"
    if "" in components:
        return "is empty" if name == "" else "has an empty part next to a `/`"
    if "." in components:
        return "has a part that is only `.`"
    if name == SENTENCE_MAP:
        return "is the name of the sentence map"
    try:
        longest = max(len(component.encode("utf-8")) for component in components)
    except UnicodeEncodeError:
        return "contains half a surrogate pair"
    if longest > _MAX_NAME_BYTES:
        return f"has {longest} bytes, HDF5 takes at most {_MAX_NAME_BYTES}"
    return ""


def name_error(sentence: Sentence, what: str, hint: str) -> InputError:
    """The error for a sentence whose name the file cannot hold."""
    return InputError(f"{sentence.where}: {what}", hint)


def _parents(name: str) -> list[bytes]:
    """Digests of the groups above a data set."""
    ends = [i for i, character in enumerate(name) if character == "/"]
    return [_digest(name[:end]) for end in ends]


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8"), digest_size=16).digest()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
