"""From the names of text files to sentences: which reader reads which file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from elmo_cli.text.decode import Source
from elmo_cli.text.notes import Notes
from elmo_cli.text.opening import check_paths
from elmo_cli.text.read_conll import read_conll, read_conllu
from elmo_cli.text.read_jsonl import read_jsonl
from elmo_cli.text.read_plain import count_plain, read_plain
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.settings import InputSettings
from elmo_cli.text.suspicions import Suspicions

__all__ = [
    "InputSettings",
    "Notes",
    "check_texts",
    "format_of",
    "listed",
    "measure",
    "read_sentences",
]

Name = str | os.PathLike[str]
Reader = Callable[[Source, int], Generator[Sentence, None, int]]

READERS: dict[str, Reader] = {
    "plain": read_plain,
    "conll": read_conll,
    "conllu": read_conllu,
    "jsonl": read_jsonl,
}

_COMPRESSED = (".gz", ".xz")
SUFFIXES = {
    ".txt": "plain",
    ".jsonl": "jsonl",
    ".jsonlines": "jsonl",
    ".conllu": "conllu",
    ".conll": "conll",
    "_conll": "conll",  # CoNLL-2012 has .v4_gold_conll
}


def read_sentences(
    paths: Name | Sequence[Name],
    settings: InputSettings | None = None,
    notes: Notes | None = None,
) -> Iterator[Sentence]:
    """The sentences of text files, one after the other; memory does not grow with their number.

    Keys number the sentences from 0 on, over all files; in plain text that is not tokenised the key
    is the number of the line. `settings` says what becomes of blank lines and unreadable lines.
    All names are looked at before the first is read.

    Args:
        paths: names of files or FIFOs, compressed or not, "-" for standard input; or one name.
        settings: how they are to be read; plain text in UTF-8 if not given.
        notes: filled with what is noticed on the way; complete when the last sentence is out.
    Raises:
        UsageError: settings that contradict the format of a file, or no name at all.
        InputError: a file that can't be read, or a line in it; it names the file and the line.
    """
    settings = settings or InputSettings()
    notes = notes if notes is not None else Notes()
    names = check_texts(paths, settings)
    return _noticed(_numbered(names, settings, notes), settings, notes)


def check_texts(paths: Name | Sequence[Name], settings: InputSettings | None = None) -> list[str]:
    """Refuse, before any work, texts that `read_sentences` would refuse before it reads them.

    Returns:
        Their names.
    Raises:
        UsageError: settings that contradict the format of a file, or no name at all.
        InputError: a name that is missing, a folder, or closed to this user.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names = [os.fspath(path) for path in paths]
    check_paths(names)
    settings = settings or InputSettings()
    for name in names:
        settings.check_fits(format_of(name, settings))
    return names


def measure(paths: Name | Sequence[Name], settings: InputSettings | None = None) -> tuple[int, int]:
    """(sentences, tokens) that `read_sentences` gives for the same files, which it reads once.

    Plain text is counted without making sentences, about three times as fast.

    Raises:
        UsageError, InputError: as `read_sentences`.
    """
    settings = settings or InputSettings()
    counts = [_measure_file(name, settings) for name in check_texts(paths, settings)]
    return sum(n_sentences for n_sentences, _ in counts), sum(n_tokens for _, n_tokens in counts)


def format_of(name: str, settings: InputSettings) -> str:
    """The format that a file is read as: that of the settings, or by the suffix of its name."""
    if settings.format != "auto":
        return settings.format
    stem = unpacked(name)
    return next((text for suffix, text in SUFFIXES.items() if stem.endswith(suffix)), "plain")


def unpacked(name: str) -> str:
    """The name of a file in small letters, without what it says about how the file is packed."""
    name = name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return name


def listed(names: Sequence[str]) -> str:
    """The names of texts as a message says them, of many the first."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1:,} more"


def stem_of(name: str) -> str:
    """The name of a file without what it says about how the file is read, in any case."""
    for suffix in (*_COMPRESSED, *SUFFIXES):
        if suffix.startswith(".") and name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name


def _numbered(
    names: list[str], settings: InputSettings, notes: Notes
) -> Generator[Sentence, None, None]:
    key = 0
    for name in names:
        notes.sources.append((name, key))
        reader = READERS[format_of(name, settings)]
        key = yield from reader(Source(name, settings, notes), key)
    notes.n_keys = key


def _noticed(
    sentences: Iterable[Sentence], settings: InputSettings, notes: Notes
) -> Iterator[Sentence]:
    """The same sentences, after a look at each."""
    max_bytes = settings.max_characters - 2
    suspicions = Suspicions(notes)
    for sentence in sentences:
        notes.place_skipped(sentence.key)
        if sentence.tokens:
            notes.count_truncated(sentence, max_bytes)
            suspicions.look_at(sentence)
        yield sentence
    notes.place_skipped(sys.maxsize)
    suspicions.report()


def _measure_file(name: str, settings: InputSettings) -> tuple[int, int]:
    text_format = format_of(name, settings)
    source = Source(name, settings, Notes())
    if text_format == "plain" and not settings.tokenize:
        return count_plain(source)
    n_sentences = n_tokens = 0
    for sentence in READERS[text_format](source, 0):
        n_sentences += 1
        n_tokens += len(sentence.tokens)
    return n_sentences, n_tokens
