"""UniqueNames: the check that the names of sentences are possible and occur once."""

from __future__ import annotations

import hashlib

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened
from elmo_cli.store.layouts.base import MAX_NAME_BYTES, SENTENCE_MAP, Layout, is_name
from elmo_cli.text.sentence import Sentence

_DIGEST_BYTES = 12  # so that two of a billion names hardly ever have the same digest
_MOST_SHOWN = 80  # characters of a name in a message
_INVALID_NAME = (
    "is not a valid HDF5 name: a part of it is empty or `.`, it contains a NUL or half "
    f"a character, has over {MAX_NAME_BYTES} bytes, or is `{SENTENCE_MAP}`"
)


class UniqueNames:
    """Refuses duplicate and impossible names before anything is computed for them.

    Layouts keyed by names take about 120 bytes for each name, others nothing.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last_key = -1
        self._names: set[bytes] = set()  # digests of names
        self._groups: set[bytes] = set()  # digests of what is before a `/` in names

    def add(self, sentence: Sentence) -> bool:
        """Add the next sentence; False if the layout keeps only the first of equal sentences.

        Raises:
            InputError, UsageError: its name exists already or is impossible, or it has none.
        """
        name = self._layout.dataset_name(sentence)
        if self._layout.keyed_by == "number":
            problem = self._add_key(sentence.key)
        elif not name:
            problem = "is empty"
        elif not is_name(name):
            problem = _INVALID_NAME
        elif self._layout.keeps_first:
            return self._add_first(name)
        else:
            problem = self._add_name(name)
        if problem:
            shown = shortened(name, _MOST_SHOWN)
            raise InputError(
                f"the key {shown!r} {problem}", self._layout.hint, where=sentence.where
            )
        return True

    def _add_key(self, key: int) -> str:
        """Add a number; what is wrong with it, or ""."""
        problem = "" if key > self._last_key else f"comes after {self._last_key}"
        self._last_key = key
        return problem

    def _add_first(self, name: str) -> bool:
        """Add a name without `/`; whether it is new."""
        digest = _digest(name)
        is_new = digest not in self._names
        self._names.add(digest)
        return is_new

    def _add_name(self, name: str) -> str:
        """Add a name and its groups; what is wrong with it, or ""."""
        digest = _digest(name)
        groups = [_digest(name[:end]) for end, character in enumerate(name) if character == "/"]
        problem = ""
        if digest in self._names:
            problem = "exists already, from an earlier sentence"
        elif digest in self._groups or not self._names.isdisjoint(groups):
            problem = "conflicts with an earlier one: one begins with the other and a `/`"
        self._names.add(digest)
        self._groups.update(groups)
        return problem


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8"), digest_size=_DIGEST_BYTES).digest()
