"""The files of a domain: which of a folder's are read, and which of them are held out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.input import SUFFIXES, without_compression_suffix

_SUFFIXES = tuple(set(SUFFIXES) - {".json"})  # a .json file of a folder may be anything

# What people call the part of a text that is not trained on, as the first word of the name of its
# file, such as dev-1.txt, or as the last one, such as en_ewt-ud-dev.conllu.
_PARTS = r"(?:held[-_ ]?out|val(?:id(?:ation)?)?|dev(?:el(?:opment)?)?|tests?)(?:[-_ ]?set)?"
_HELD_OUT = re.compile(rf"{_PARTS}(?![a-z])|.*(?<![a-z]){_PARTS}[^a-z]*$", re.IGNORECASE)


@dataclass(frozen=True)
class DomainFiles:
    """What is read of a domain.

    Attributes:
        train: texts to train on, in the order in which they are read.
        heldout: texts that are only measured; empty where nobody named one.
        left_out: files of the folders that are no texts by their names.
    """

    train: tuple[str, ...]
    heldout: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def domain_files(domain: Sequence[str], heldout: Sequence[str] = ()) -> DomainFiles:
    """The texts of folders and files.

    A folder gives the files whose suffix the readers know (see `text.formats`), packed as .gz or
    .xz or not, in order of name; folders in it are not looked into. A file of a folder that is
    called like a held-out text (heldout, dev, valid, test or the like is the first or the last word
    of its name) is never trained on; it is the held-out text if no other is named.

    Args:
        domain: folders and files, "-" for standard input.
        heldout: files to measure on; taken out of the domain where they are among its files.
    Raises:
        UsageError: nothing is left to train on, or a folder is named as held-out text.
        InputError: a folder without texts, or one that can't be read.
    """
    train: list[str] = []
    found: list[str] = []
    left_out: list[str] = []
    for place in domain:
        if not os.path.isdir(place):
            train.append(place)
            continue
        texts, others = _in_folder(Path(place))
        for path in texts:
            (found if _HELD_OUT.match(_stem(path)) else train).append(path)
        left_out += others
    for path in heldout:
        if os.path.isdir(path):
            raise UsageError(
                f"--heldout {path}: a folder, not a file", "name the files, `--heldout` before each"
            )
    measured = list(heldout) or found
    unused = without(found, measured)
    learned = without(train, measured)
    if not learned:
        raise UsageError(
            f"{', '.join(domain)}: nothing is left to train on but held-out text "
            f"({', '.join(measured)})",
            "name texts to train on with `--domain`, other ones with `--heldout`",
        )
    return DomainFiles(learned, tuple(measured), (*left_out, *unused))


def without(texts: Sequence[str], heldout: Sequence[str]) -> tuple[str, ...]:
    """Texts but for those that are held out too, under whatever names."""
    measured = {_file(path) for path in heldout}
    return tuple(path for path in texts if _file(path) not in measured)


def _in_folder(folder: Path) -> tuple[list[str], list[str]]:
    """Its texts, and its other files."""
    try:
        files = sorted(str(path) for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(
            f"{folder}: can't be read ({error.strerror or error})", "check the folder's rights"
        ) from None
    texts: list[str] = []
    others: list[str] = []
    for path in files:
        (texts if _is_text(path) else others).append(path)
    if not texts:
        there = "the folder is empty"
        if files:
            kind = "files of other kinds" if len(files) > 1 else "file of another kind"
            there = f"{len(files)} {kind}"
        raise InputError(
            f"{folder}: no text in it ({there})",
            "a domain is a folder of .txt, .conllu or .jsonl files, .gz and .xz too, or the files",
        )
    return texts, others


def _is_text(path: str) -> bool:
    name = Path(path).name.lower()
    stem = without_compression_suffix(name)
    is_bare = stem != name and not Path(stem).suffix  # nothing else is packed alone
    return not name.startswith(".") and (is_bare or stem.endswith(_SUFFIXES))


def _stem(path: str) -> str:
    """The name of a text without what tells its kind."""
    return Path(without_compression_suffix(Path(path).name)).stem


def _file(path: str) -> tuple[int, int] | str:
    """What a file is known by under all its names; the name itself where there is none."""
    try:
        found = os.fstat(0) if path == "-" else os.stat(path)
    except OSError:
        return path
    return found.st_dev, found.st_ino
