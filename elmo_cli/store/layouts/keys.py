"""Keys: from a sentence to the path of its dataset, as each consumer looks it up."""

from __future__ import annotations

import re
from collections.abc import Iterable

from elmo_cli.errors import UsageError
from elmo_cli.store.schema import MAP
from elmo_cli.text.sentence import Sentence

_ONTONOTES = re.compile(r".*/.*_[0-9]+", re.DOTALL)


def colon_group(sentence: Sentence, layout: str) -> str:
    """Group of the document with `:` for `/`, in it the place."""
    return f"{document(sentence, layout).replace('/', ':')}/{sentence.place}"


def ontonotes(sentence: Sentence, layout: str) -> str:
    """A flat name: document without its part number, number of the sentence over all its parts."""
    stem = document(sentence, layout).rpartition("_")[0]
    return f"{stem}/{sentence.offset + sentence.place}".replace("/", ":")


def is_ontonotes(document: str) -> bool:
    """Whether a document key looks like `bc/cctv/00/cctv_0000_12`."""
    return _ONTONOTES.fullmatch(document) is not None


def underscore(sentence: Sentence, layout: str) -> str:
    """Document and place joined by `_`; a `/` in the document nests."""
    return f"{document(sentence, layout)}_{sentence.place}"


def joined_tokens(tokens: Iterable[str]) -> str:
    """Tokens joined by TAB, without the two characters that ELMoForManyLangs takes out."""
    return "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")


def tokens_of_joined(path: str) -> tuple[str, ...]:
    """The tokens that a path of `joined_tokens` is read as."""
    return tuple(path.replace("$backslash$", "/").replace("$period$", ".").split("\t"))


def document(sentence: Sentence, layout: str) -> str:
    """The document key of the sentence.

    Raises:
        UsageError: it has none.
    """
    if sentence.document is None:
        raise UsageError(
            f"{sentence.where}: `--layout {layout}` needs documents, this sentence has none",
            "`--input-format jsonl` with `doc_key` and `sentences` in each line",
        )
    return sentence.document


def problem(path: str) -> str:
    """Why HDF5 can't have a dataset of this path; empty if it can."""
    if path.isalnum() and path.isascii() and len(path) <= MAX_BYTES:
        return ""  # nearly all paths, so it has to be quick
    components = path.split("/")
    if "\0" in path:
        return "has a NUL in it"
    if "" in components:
        return "is empty" if path == "" else "has an empty part beside a `/`"
    if "." in components:
        return "has a part that is only `.`"
    if path == MAP:
        return "is the name of the sentence map"
    try:
        longest = max(len(component.encode("utf-8")) for component in components)
    except UnicodeEncodeError:
        return "has half a surrogate pair in it"
    return f"has {longest} bytes, HDF5 takes {MAX_BYTES}" if longest > MAX_BYTES else ""


MAX_BYTES = 60_000  # of one component; a link is a message in an object header, below 64 KiB
