"""From text files to a corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.treebank import is_in_treebank_spelling, treebank_spelling
from elmo_cli.text.input import (
    InputReport,
    InputSettings,
    check_inputs,
    read_sentences,
    shorten_list,
)
from elmo_cli.text.sentence import Sentence


def read_corpus(
    paths: Sequence[str],
    reading: InputSettings | None = None,
    *,
    max_characters: int = 50,
    most_tokens: int | None = None,
    treebank: float = 0.0,
    notes: InputReport | None = None,
) -> Corpus:
    """The sentences of text files, and where their documents begin.

    Args:
        reading: how the files are read.
        most_tokens: of each file; the sentence that reaches it is the last one read.
        treebank: share of the documents whose quotes and brackets are spelled as in a treebank.
        notes: of the readers; warns where the documents are too few for that share.
    Raises:
        TrainingError: there is no sentence.
        InputError, UsageError: as `text.read_sentences`.
    """
    begins: list[int] = []
    settings = replace(reading or InputSettings(), max_characters=max_characters)

    def tokens() -> Iterator[tuple[str, ...]]:
        number, starts, spelled_so = 0, True, False
        for sentence in _read(paths, settings, most_tokens, notes):
            starts = starts or sentence.starts_document
            if not sentence.tokens:
                continue
            if starts:
                spelled_so = is_in_treebank_spelling(len(begins), treebank)
                begins.append(number)
            yield treebank_spelling(sentence.tokens) if spelled_so else sentence.tokens
            number, starts = number + 1, False

    name = shorten_list(paths)
    corpus = Corpus.read(
        tokens(), begins=begins, max_characters=max_characters, name=name, notes=notes
    )
    n_rarer = len(begins) * min(treebank, 1 - treebank)
    if notes is not None and 0 < treebank < 1 and n_rarer < 1 - 1e-9:
        n_spelled = sum(is_in_treebank_spelling(k, treebank) for k in range(len(begins)))
        notes.warn(
            "treebank",
            f"--treebank-fraction {treebank:g}: {name}: too few documents for this fraction, "
            f"spelled so: {n_spelled} of {len(begins)}; a blank line ends a document",
        )
    return corpus


def _read(
    paths: Sequence[str],
    reading: InputSettings,
    most_tokens: int | None,
    notes: InputReport | None,
) -> Iterator[Sentence]:
    if most_tokens is None:
        yield from read_sentences(paths, reading, notes)
        return
    for path in check_inputs(paths, reading):
        n_tokens = 0
        for sentence in read_sentences(path, reading, notes):
            yield sentence
            n_tokens += len(sentence.tokens)
            if n_tokens >= most_tokens:
                break


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
