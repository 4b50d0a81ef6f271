"""How each layout with a dataset a sentence names its datasets, read backwards.

A *path* is the name of a dataset in the file, a *key* what `open_embeddings` takes and yields. A
naming goes from a key to the paths it may mean, from a path to its key, and tells what a path says
of its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from elmo_cli.store.layouts.keys import is_ontonotes, joined_tokens, tokens_of_joined
from elmo_cli.text.sentence import Sentence

MOST_DIGITS = 18
Key = int | str | tuple[str, int] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file tells of a sentence beside its array; None where it doesn't tell.

    Attributes:
        number: the sentence's number; in a file keyed by names, its place in the file's order.
        tokens: its tokens.
        text: its line.
        document: key of its document.
        place: its number within the document.
        offset: LSGN's number of the document's first sentence.
        part_lost: the key names a document without its part, as LSGN's keys for OntoNotes do.
    """

    number: int
    tokens: tuple[str, ...] | None = None
    text: str | None = None
    document: str | None = None
    place: int = 0
    offset: int | None = None
    part_lost: bool = False

    def sentence(self, *, tokens: tuple[str, ...], text: str) -> Sentence:
        """The sentence that these are facts of, with tokens and text as they are to be written."""
        return Sentence(
            tokens=tokens,
            key=self.number,
            text=text,
            document=self.document,
            place=self.place,
            offset=self.offset or 0,
        )


class Naming(Protocol):
    """Keys to paths and back."""

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        """The paths that `key` may mean, the likeliest first."""
        ...

    def key(self, path: str) -> str:
        """The key of the sentence at `path`."""
        ...

    def facts(self, path: str, number: int) -> Facts:
        """What `path` tells of its sentence.

        Raises:
            ValueError: it is no name of a sentence.
        """
        ...


def document_and_place(key: str | tuple[object, ...]) -> tuple[str, int] | None:
    """What ("doc", 3) or "doc:3" names, None for another key."""
    if isinstance(key, str):
        document, colon, place = key.rpartition(":")
        return (document, int(place)) if colon and is_number(place) else None
    match key:
        case (str(document), int(number)) if number >= 0:
            return document, number
    return None


def is_number(text: str) -> bool:
    """Whether a string is the number of a sentence; Python refuses to read thousands of digits."""
    is_plain = len(text) <= MOST_DIGITS and text.isascii() and text.isdigit()
    return is_plain and (text == "0" or not text.startswith("0"))


def _number(path: str, text: str) -> int:
    """The number at the end of a path.

    Raises:
        ValueError: there is none.
    """
    if not is_number(text):
        raise ValueError(f"{path!r} is no name of a sentence, it ends in {text!r}")
    return int(text)


def _words(key: tuple[object, ...]) -> tuple[str, ...] | None:
    words = tuple(word for word in key if isinstance(word, str))
    return words if len(words) == len(key) else None


class Lines:
    """The line itself (AllenNLP with sentence keys); a `/` in it nests groups."""

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        words = key if isinstance(key, str) else _words(key)
        if words is not None:
            yield words if isinstance(words, str) else " ".join(words)

    def key(self, path: str) -> str:
        return path

    def facts(self, path: str, number: int) -> Facts:
        return Facts(number, tokens=tuple(path.split()), text=path)


class Identifiers(Lines):
    """Names that say nothing of the tokens (SeqVec's and bio_embeddings' proteins)."""

    def facts(self, path: str, number: int) -> Facts:
        return Facts(number, text=path)


class TabJoined:
    """Tokens joined by TAB, `.` and `/` spelled out (ELMoForManyLangs)."""

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        if isinstance(key, str):
            yield key
            yield joined_tokens(key.split("\t"))
            yield joined_tokens(key.split())
        elif (words := _words(key)) is not None:
            yield joined_tokens(words)

    def key(self, path: str) -> str:
        return path

    def facts(self, path: str, number: int) -> Facts:
        tokens = tokens_of_joined(path)
        return Facts(number, tokens=tokens, text=" ".join(tokens))


class ColonDocuments:
    """A group a document, `/` in its key turned into `:` (e2e-coref, LSGN).

    A `:` may have been one before; it is turned back where the whole is a key of OntoNotes.
    """

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        named = document_and_place(key)
        if named is not None:
            yield f"{named[0].replace('/', ':')}/{named[1]}"
        elif isinstance(key, str):
            yield key  # as HDF5 has it: document, `/`, place

    def key(self, path: str) -> str:
        return path.replace("/", ":")

    def facts(self, path: str, number: int) -> Facts:
        document, _, place = path.rpartition("/")
        with_slashes = document.replace(":", "/")
        if is_ontonotes(with_slashes):
            document = with_slashes
        return Facts(number, document=document, place=_number(path, place))


class LsgnDocuments(ColonDocuments):
    """The same, and beside it one flat name a sentence for documents of OntoNotes."""

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        for path in super().paths(key):
            yield path.replace("/", ":")
            yield path

    def facts(self, path: str, number: int) -> Facts:
        if "/" in path:
            return super().facts(path, number)
        document, _, sentence = path.rpartition(":")
        # Some part of the document; part 0 from sentence `sentence` on has this very path.
        part = f"{document.replace(':', '/')}_0"
        return Facts(number, document=part, offset=_number(path, sentence), part_lost=True)


class UnderscoreDocuments:
    """Document key, `_`, number of the sentence (DyGIE); a `/` nests groups."""

    def paths(self, key: str | tuple[object, ...]) -> Iterator[str]:
        if isinstance(key, str):
            yield key
        if (named := document_and_place(key)) is not None:
            yield f"{named[0]}_{named[1]}"

    def key(self, path: str) -> str:
        return path

    def facts(self, path: str, number: int) -> Facts:
        document, _, place = path.rpartition("_")
        return Facts(number, document=document, place=_number(path, place))


NAMINGS: dict[str, Naming] = {
    "allennlp": Lines(),
    "named": Identifiers(),
    "manylangs": TabJoined(),
    "e2e-coref": ColonDocuments(),
    "lsgn": LsgnDocuments(),
    "dygie": UnderscoreDocuments(),
}


def in_order(names: list[str]) -> list[str]:
    """`names` sorted so that numbers at their ends count as numbers: 2 before 10."""

    def parts(name: str) -> tuple[str, int, str]:
        number = re.search(r"[0-9]{1,18}$", name)
        return (name[: number.start()], int(number[0]), name) if number else (name, -1, name)

    return sorted(names, key=parts)
