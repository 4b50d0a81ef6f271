"""The text of a domain: which files and sentences are trained on, and which are held out."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus, Int64Array, overlap, read_corpus, without
from elmo_cli.text.input import (
    SUFFIXES,
    InputReport,
    InputSettings,
    shorten_list,
    without_compression_suffix,
)

_SPACINGS = range(40, 3, -1)  # two of every 40 documents are held out: 5 %, or more of a small text
_MIN_HALF = 3_000  # tokens of a half, or an eighth of a smaller text
_LEAST, _MOST = 1 / 80, 1 / 3  # of the text, in a half that consists of documents
_MIN_SENTENCES = 20  # of a text that can be split
_BLOCK, _MIN_BLOCKS = 20, 40  # sentences of a block; blocks of a text
_VALIDATION, _TEST = 1, 2

_SUFFIXES = tuple(set(SUFFIXES) - {".json"})  # a .json file in a folder may be anything
_DEV = re.compile(r"(?<![a-z])(dev(el(opment)?)?|val(id(ation)?)?|held[-_ ]?out)(set|s)?(?![a-z])")
_TEST_NAME = re.compile(r"(?<![a-z])(dev)?test(set|s)?(?![a-z])")


@dataclass(frozen=True)
class DomainTexts:
    """The text files of a domain: to train on, to hold out (none if a part of `train` has to be),
    to measure on (none if half of the held-out text is), and other files of the folders."""

    train: tuple[str, ...]
    heldout: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()


@dataclass(frozen=True)
class Domain:
    """The text of a domain: to train on, to choose the weights to keep, and to measure them.

    Attributes:
        unit: what was held out as a whole: "documents", "sentences" or "files".
        sources: where "validation" and "test" come from, for people.
        overlap: fraction of the sentences of `test` that are in the training text too.
    """

    train: Corpus
    validation: Corpus
    test: Corpus
    unit: str
    sources: dict[str, str]
    overlap: float

    @property
    def fingerprint(self) -> str:
        """A checksum of all texts, which a resumed run compares."""
        heldout = f"validation {self.validation.fingerprint}; test {self.test.fingerprint}"
        return f"{self.train.fingerprint}; {heldout}"

    def describe(self) -> dict[str, Any]:
        """The held-out text as plain values: `unit`, and facts of `validation` and `test`."""
        facts: dict[str, Any] = {"unit": self.unit}
        for name, source in self.sources.items():
            corpus = getattr(self, name)
            counts = {"tokens": corpus.n_tokens, "sentences": corpus.n_sentences}
            facts[name] = {"source": source, **counts}
        facts["test"]["overlap"] = self.overlap
        return facts


def find_texts(domain: Sequence[str], heldout: Sequence[str] = ()) -> DomainTexts:
    """Find the text files of folders, sorted by name; subfolders are not searched.

    A file of a folder whose name contains the word dev, valid or heldout is held out if no held-out
    text is named, and never trained on. One whose name contains the word test is not read, or, if
    `heldout` names it, only measured on: a test set must not choose between models.

    Raises:
        UsageError: there is nothing to train on.
        InputError: a folder contains no text or cannot be read.
    """
    train, found, not_read = list[str](), list[str](), list[str]()
    for path in domain:
        if not Path(path).is_dir():
            train.append(path)
            continue
        for file in _files(path):
            is_unread = not _is_text(file) or _has(_TEST_NAME, file)
            (not_read if is_unread else found if _has(_DEV, file) else train).append(file)
    test = tuple(path for path in heldout if _has(_TEST_NAME, path))
    choosing = without(heldout, test) or tuple(found)
    held_out = (*choosing, *test)
    trained = without(train, held_out)
    if not trained:
        what = f"{', '.join(domain)}: contains no text to train on, only held-out text "
        hint = "name texts to train on with `domain`, or other ones with `heldout`"
        raise UsageError(f"{what}({', '.join((*held_out, *not_read))})", hint)
    return DomainTexts(trained, choosing, test, without([*not_read, *found], held_out))


def read_domain(
    texts: DomainTexts,
    reading: InputSettings | None = None,
    *,
    max_characters: int = 50,
    report: InputReport | None = None,
) -> Domain:
    """Read the texts of a domain; hold out a part of it if no held-out text is named.

    About 5 % of the documents are held out, or more, until each half has 3,000 tokens (an eighth of
    a smaller text); if documents are too few or too unequal, blocks of up to 20 sentences are. At
    least half of the text is used for training. The split depends only on content: equal documents
    are on the same side, and the same text is always split in the same way. Weights are chosen on
    one half and measured on the other, unless files are named for measuring.

    Raises:
        TrainingError: there are no sentences, or too few to hold some out.
        InputError, UsageError: as `read_sentences`.
    """
    report = report or InputReport()
    reading = replace(reading or InputSettings(), max_characters=max_characters)
    train = read_corpus(texts.train, reading, notes=report)
    heldout, source = train, "the domain"
    if texts.heldout:
        heldout = read_corpus(texts.heldout, reading, notes=report)
        source = shorten_list(texts.heldout)
    halves, unit = [heldout], "files"
    if not (texts.heldout and texts.test):
        sides, unit = _divide(heldout, source, as_a_whole=bool(texts.heldout))
        wanted = [sides > 0] if texts.test else [sides == _VALIDATION, sides == _TEST]
        halves = list(map(heldout.select, wanted))
        if not texts.heldout:
            train = train.select(sides == 0)
    names = [f"{_count(half, unit)} of {source}" for half in halves]
    if texts.test:
        halves.append(read_corpus(texts.test, reading, notes=report))
        names, unit = [*names, shorten_list(texts.test)], "files"
    sources = dict(zip(("validation", "test"), names, strict=True))
    validation, test = halves
    return Domain(train, validation, test, unit, sources, overlap(test, train, report))


def _count(corpus: Corpus, unit: str) -> str:
    n = corpus.n_sentences if unit == "sentences" else len(corpus.documents) - 1
    unit = unit.replace("files", "documents")
    return f"{n:,} {unit if n > 1 else unit[:-1]}"


def _files(folder: str) -> list[str]:
    """The files of a folder, at least one of which is a text."""
    try:
        files = sorted(str(path) for path in Path(folder).iterdir() if path.is_file())
    except OSError as error:
        what = f"{folder}: cannot be read ({error.strerror})"
        raise InputError(what, "check the permissions of the folder") from None
    if not any(map(_is_text, files)):
        hint = "a domain is a folder with .txt, .conll, .conllu or .jsonl files, or the files"
        raise InputError(f"{folder}: contains no text, only {len(files)} other files", hint)
    return files


def _has(pattern: re.Pattern[str], path: str) -> bool:
    return pattern.search(Path(path).name.lower()) is not None


def _is_text(path: str) -> bool:
    name = Path(path).name.lower()
    bare = without_compression_suffix(name)
    is_compressed_text = bare != name and not Path(bare).suffix
    return not name.startswith(".") and (is_compressed_text or bare.endswith(_SUFFIXES))


def _divide(corpus: Corpus, source: str, *, as_a_whole: bool) -> tuple[Int64Array, str]:
    """The side of each sentence, (sentence,): 0 for training or a half; and what is held out.

    Args:
        as_a_whole: divide the whole text into halves instead of holding out a part.
    """
    n_sentences, documents, total = corpus.n_sentences, corpus.documents, len(corpus.tokens)
    size = max(1, min(_BLOCK, n_sentences // _MIN_BLOCKS))
    blocks = [np.arange(*ends, size) for ends in pairwise(documents)]  # end with their document
    spacings = [2] if as_a_whole else _SPACINGS
    wanted = total // 2 if as_a_whole else min(_MIN_HALF, total // 8)
    most_of_documents = total if as_a_whole else total * _MOST
    candidates = [
        ("documents", documents, max(wanted / 2, total * _LEAST), most_of_documents),
        ("sentences", np.append(np.concatenate(blocks), n_sentences), 1, total),
    ]
    for unit, units, least, most in (
        candidates if n_sentences >= _MIN_SENTENCES or as_a_whole else ()
    ):
        starts = corpus.starts[units]
        hashes = [_hash(corpus, *ends) for ends in pairwise(starts)]
        lengths = Counter[bytes]()  # equal units are on the same side
        for content, length in zip(hashes, np.diff(starts).tolist(), strict=True):
            lengths[content] += length
        halves = choose_halves(lengths, spacings, wanted)
        sides = np.repeat([halves.get(content, 0) for content in hashes], np.diff(units))
        sizes = np.bincount(sides, np.diff(corpus.starts), minlength=3)[1:]
        if least <= sizes.min() and sizes.max() <= most:
            return sides, unit
    what = f"{source}: {n_sentences} sentence{'s' * (n_sentences > 1)}, too few or too similar to "
    what += "hold some out, half to choose the weights and half to measure them"
    hint = f"give at least {_MIN_SENTENCES} different sentences, or `heldout=FILE`"
    raise TrainingError(what, hint)


def choose_halves(
    lengths: Mapping[bytes, int], spacings: Iterable[int], wanted: int
) -> dict[bytes, int]:
    """Choose units to hold out, and the half of each.

    Long documents are often of another kind than short ones, and a few documents at random are
    mostly short, although most of the text may be in long ones. Therefore units are sorted by
    length, and two neighbours of every `spacing` units are held out, one for each half. Unless
    every unit is held out (a spacing of 2), the longest one and at least half of the tokens are
    not.

    Args:
        lengths: number of tokens of each unit, by hash.
        spacings: tried in order; the first with which each half has `wanted` tokens is used, or
            else the one that comes nearest.
    """
    units = sorted(lengths, key=lambda unit: (-lengths[unit], unit))
    tokens, ranks = [lengths[unit] for unit in units], np.arange(len(units))
    chosen, most = np.zeros(len(units), np.int64), 0
    for spacing in spacings:
        pair, position = np.divmod(ranks - (spacing // 2 - 1), spacing)
        # Each half has the longer unit of every other pair.
        sides = np.where(position < 2, 1 + (pair + position) % 2, 0)
        n_train, *n_halves = np.bincount(sides, tokens, minlength=3)
        is_enough_left = spacing == 2 or 2 * n_train >= sum(tokens)
        if is_enough_left and min(*n_halves, wanted) > most:
            chosen, most = sides, min(*n_halves, wanted)
    return {unit: half for unit, half in zip(units, chosen.tolist(), strict=True) if half}


def _hash(corpus: Corpus, begin: int, end: int) -> bytes:
    """A hash of the tokens themselves: type numbers depend on the text before them."""
    text = "\n".join(corpus.types[k] for k in corpus.tokens[begin:end])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
