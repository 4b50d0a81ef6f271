"""From text files to a corpus, with the quotes and brackets of some documents as in treebanks.

Source of that spelling: the Penn Treebank, https://catalog.ldc.upenn.edu/docs/LDC99T42.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from elmo_cli.lm.corpus import Corpus
from elmo_cli.text.input import (
    InputReport,
    InputSettings,
    check_inputs,
    read_sentences,
    shorten_list,
)
from elmo_cli.text.sentence import Sentence

OPENING, CLOSING = "``", "''"
_BRACKETS = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_AFTER_A_QUOTE = frozenset(".,;:!?)]}")
_GOLDEN_RATIO = 0.6180339887498949


def read_corpus(
    paths: Sequence[str],
    reading: InputSettings | None = None,
    *,
    tokens_per_file: int | None = None,
    treebank_fraction: float = 0.0,
    notes: InputReport | None = None,
    keep_lines: bool = False,
) -> Corpus:
    """Read the sentences of text files; a document ends at a blank line and with its file.

    Args:
        reading: how the files are read; its `max_characters` are those of the model.
        tokens_per_file: tokens to read of each file, and the sentence to its end.
        treebank_fraction: fraction of the documents with quotes and brackets as in treebanks.
        notes: of the readers; warns if there are too few documents for that fraction.
        keep_lines: note file and line of each sentence.
    Raises:
        TrainingError: there is no sentence.
        InputError, UsageError: of `text.read_sentences`.
    """
    reading = reading or InputSettings()
    begins: list[int] = []
    lines: list[tuple[str, int]] = []

    def tokens() -> Iterator[tuple[str, ...]]:
        number, starts, is_treebank = 0, True, False
        for sentence in _read(paths, reading, tokens_per_file, notes):
            starts = starts or sentence.starts_document
            if not sentence.tokens:
                continue
            if starts:
                is_treebank = is_in_treebank_spelling(len(begins), treebank_fraction)
                begins.append(number)
            if keep_lines:
                lines.append((sentence.source, sentence.line))
            yield treebank_spelling(sentence.tokens) if is_treebank else sentence.tokens
            number, starts = number + 1, False

    corpus = Corpus.read(
        tokens(),
        begins=begins,
        max_characters=reading.max_characters,
        name=shorten_list(paths),
    )
    if notes is not None:
        _warn_of_few_documents(shorten_list(paths), len(begins), treebank_fraction, notes)
    return replace(corpus, lines=lines)


def _read(
    paths: Sequence[str],
    reading: InputSettings,
    tokens_per_file: int | None,
    notes: InputReport | None,
) -> Iterator[Sentence]:
    if tokens_per_file is None:
        yield from read_sentences(paths, reading, notes)
        return
    for path in check_inputs(paths, reading):
        n_tokens = 0
        for sentence in read_sentences(path, reading, notes):
            yield sentence
            n_tokens += len(sentence.tokens)
            if n_tokens >= tokens_per_file:
                break


def _warn_of_few_documents(
    name: str, n_documents: int, fraction: float, notes: InputReport
) -> None:
    n_rarer = n_documents * min(fraction, 1 - fraction)
    if 0 < fraction < 1 and n_rarer < 1 - 1e-9:
        n_treebank = sum(is_in_treebank_spelling(n, fraction) for n in range(n_documents))
        notes.warn(
            "treebank",
            f"{name}: too few documents for a treebank fraction of {fraction:g}: {n_treebank} of "
            f"{n_documents} have treebank spelling; a blank line ends a document",
        )


def is_in_treebank_spelling(document: int, fraction: float) -> bool:
    """Whether the document of this number, from 0, is in the fraction with treebank spelling.

    They are spread evenly, by the fractional parts of multiples of the golden ratio. The first
    document, which may be all of a text without blank lines, is in no fraction up to a half.
    """
    return (document + 1) * _GOLDEN_RATIO % 1 < fraction


def treebank_spelling(tokens: Sequence[str]) -> tuple[str, ...]:
    """A sentence with its plain quotes and brackets as in treebanks.

    A quote opens and the next one closes; one at the end of the sentence, before its punctuation,
    closes what an earlier sentence has opened.
    """
    spelled, is_open = [], False
    last = len(tokens) - 1
    while last > 0 and tokens[last] in _AFTER_A_QUOTE:
        last -= 1
    for position, token in enumerate(tokens):
        if token == '"':
            closes = is_open or (position == last and position > 0)
            spelled.append(CLOSING if closes else OPENING)
            is_open = not closes
        else:
            spelled.append(_BRACKETS.get(token, token))
    return tuple(spelled)


def without(paths: Sequence[str], excluded: Sequence[str]) -> tuple[str, ...]:
    """The files that are not among others, under whatever names."""
    identities = set(map(_identity, excluded))
    return tuple(path for path in paths if _identity(path) not in identities)


def _identity(path: str) -> tuple[int, int] | str:
    try:
        found = os.stat(0 if path == "-" else path)
    except OSError:
        return path
    return found.st_dev, found.st_ino
