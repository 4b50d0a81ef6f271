"""UniqueNames: the check that the names of sentences are possible and occur once."""

from __future__ import annotations

import hashlib

from elmo_cli.errors import InputError
from elmo_cli.store.layouts.base import MAX_NAME_BYTES, SENTENCE_MAP, Layout, is_name
from elmo_cli.text.sentence import Sentence


class UniqueNames:
    """Refuses duplicate and impossible names before anything is computed for them.

    Layouts keyed by names take about 120 bytes for each name, others nothing.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last = -1
        self._names: set[bytes] = set()
        self._groups: set[bytes] = set()

    def add(self, sentence: Sentence) -> bool:
        """Add the next sentence; False if the layout keeps only the first of equal sentences.

        Raises:
            InputError, UsageError: its name exists already or is impossible, or it has none.
        """
        name, problem = self._layout.dataset_name(sentence), ""
        if self._layout.keyed_by == "number":
            problem = "" if sentence.key > self._last else f"comes after {self._last}"
            self._last = sentence.key
        elif not name:
            problem = "is empty"
        elif not is_name(name):
            problem = (
                "is not a valid HDF5 name: a part of it is empty or `.`, it contains a NUL or half "
                f"a character, has over {MAX_NAME_BYTES} bytes, or is `{SENTENCE_MAP}`"
            )
        else:
            digest = _digest(name)
            if digest in self._names and self._layout.keeps_first:
                return False
            groups = [_digest(name[:end]) for end, c in enumerate(name) if c == "/"]
            if digest in self._names:
                problem = "exists already, from an earlier sentence"
            elif digest in self._groups or not self._names.isdisjoint(groups):
                problem = "conflicts with an earlier one: one begins with the other and a `/`"
            self._names.add(digest)
            self._groups.update(groups)
        if problem:
            shown = repr(name if len(name) <= 80 else f"{name[:80]}…")
            raise InputError(f"{sentence.where}: the key {shown} {problem}", self._layout.hint)
        return True


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8"), digest_size=12).digest()
