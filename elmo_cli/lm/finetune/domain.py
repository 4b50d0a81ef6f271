"""The text of a domain: which files and sentences are trained on, and which are held out."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import Int64Array
from elmo_cli.errors import InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus, overlap, read_corpus, without
from elmo_cli.messages import shorten_list
from elmo_cli.text.input import SUFFIXES, InputReport, InputSettings, without_compression_suffix

_HELD_OUT_FRACTION = 0.05  # of the tokens, unless a held-out text is named
_MIN_HALF = 3_000  # tokens of a half, unless it would be more than an eighth of the text
_LARGEST, _LARGEST_VALIDATION = 1 / 3, 1 / 16  # fraction of the text in a document of a half
_UNITS_PER_CLASS, _MIN_UNITS, _MAX_CLASSES = 50, 16, 6  # two classes from `_MIN_UNITS` on
_MIN_SENTENCES = 20  # of a text that can be split
_BLOCK, _MIN_BLOCKS = 20, 40  # sentences of a block; blocks of a text
_VALIDATION, _TEST, _NOT_READ = 1, 2, 3  # the last one is held out, but not measured

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
        InputError: a folder contains no text.
        OSError: a folder cannot be read.
    """
    train: list[str] = []
    found: list[str] = []
    not_read: list[str] = []
    for path in domain:
        if not Path(path).is_dir():
            train.append(path)
            continue
        for file in _files(path):
            if not _is_text(file) or _has(_TEST_NAME, file):
                not_read.append(file)
            elif _has(_DEV, file):
                found.append(file)
            else:
                train.append(file)
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
    """Read the texts of a domain; where no held-out text is named, hold out a part.

    About 5 % of the tokens are held out, or about 3,000 for each half if that is more (an eighth of
    a smaller text), as whole documents; blocks of up to 20 sentences where documents are too few or
    too large. At least half of the text is trained on. Long and short documents are read in
    proportion to their tokens (see `choose_halves`); what is not read of a document is not trained
    on either. Which ones depends on content alone, so that equal ones are on the same side, and the
    same text is always split alike.
    One half chooses, the other measures, unless files are named for measuring.

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
        sides, unit = _divide(heldout, source, 1.0 if texts.heldout else _HELD_OUT_FRACTION)
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
    files = sorted(str(path) for path in Path(folder).iterdir() if path.is_file())
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


def _divide(corpus: Corpus, source: str, fraction: float) -> tuple[Int64Array, str]:
    """The side of each sentence, (sentence,): 0 for training or a half; and what is held out.

    Args:
        fraction: of the tokens to hold out; 1 divides the whole text into halves.
    """
    n_sentences, documents = corpus.n_sentences, corpus.documents
    size = max(1, min(_BLOCK, n_sentences // _MIN_BLOCKS))
    blocks = [np.arange(*ends, size) for ends in pairwise(documents)]  # end with their document
    candidates = [
        ("documents", documents, fraction / 4),
        ("sentences", np.append(np.concatenate(blocks), n_sentences), 0),
    ]
    for unit, units, least in candidates if n_sentences >= _MIN_SENTENCES or fraction == 1 else ():
        sides = _hold_out(corpus, units, fraction)
        lengths = np.bincount(sides, np.diff(corpus.starts), minlength=_NOT_READ + 1)
        is_enough_left = fraction == 1 or 2 * lengths[0] >= len(corpus.tokens)
        is_measured = lengths[_VALIDATION:_NOT_READ].min() > least * len(corpus.tokens)
        if is_measured and is_enough_left:
            return sides, unit
    what = f"{source}: {n_sentences} sentence{'s' * (n_sentences > 1)}, too few or too similar to "
    what += "hold some out, half to choose the weights and half to measure them"
    hint = f"give at least {_MIN_SENTENCES} different sentences, or `heldout=FILE`"
    raise TrainingError(what, hint)


def _hold_out(corpus: Corpus, units: Int64Array, fraction: float) -> Int64Array:
    """Hold out some units; the side of each sentence. Equal units are on the same side.

    Args:
        units: the first sentence of each and the number of sentences.
        fraction: see `choose_halves`.
    """
    starts = corpus.starts[units]
    hashes = [_hash(corpus, *ends) for ends in pairwise(starts)]
    lengths: Counter[bytes] = Counter()
    for content, length in zip(hashes, np.diff(starts).tolist(), strict=True):
        lengths[content] += length
    chosen, sides = choose_halves(lengths, fraction), np.zeros(corpus.n_sentences, np.int64)
    for content, (begin, end) in zip(hashes, pairwise(units.tolist()), strict=True):
        if content in chosen:
            half, n_tokens = chosen[content]
            n_read = np.ceil(np.arange(end - begin + 1) * n_tokens / lengths[content])
            sides[begin:end] = np.where(np.diff(n_read) > 0, half, _NOT_READ)
    return sides


def choose_halves(lengths: Mapping[bytes, int], fraction: float) -> dict[bytes, tuple[int, int]]:
    """Choose units to hold out: the half of each, and how many of its tokens are to be read.

    Long documents are often of another kind than short ones, and a few documents at random are
    mostly short, although most of the text may be in long ones. Therefore units are divided by
    length into classes of equally many tokens, and each half reads as many tokens of each class, of
    the units with the smallest hashes. The validation half has no units of more than a sixteenth of
    all tokens (or 1.5 times the mean, if that is more), so it may read fewer.

    Args:
        lengths: number of tokens of each unit, by hash.
        fraction: of the tokens that are read, if units allow it; 1 divides the whole text.
    """
    total, n = sum(lengths.values()), len(lengths)
    quota = largest = largest_validation = float(total)
    n_classes = 1
    if fraction < 1:
        if n >= _MIN_UNITS:
            n_classes = min(max(2, n // _UNITS_PER_CLASS), _MAX_CLASSES)
        quota = max(fraction * total / 2, min(_MIN_HALF, total / 8)) / n_classes
        largest = _LARGEST * total
        largest_validation = min(1 / 4, max(_LARGEST_VALIDATION, 1.5 / n)) * total
    chosen = dict[bytes, tuple[int, int]]()
    for units in _classes({k: v for k, v in lengths.items() if v <= largest}, n_classes):
        n_tokens = {_TEST: 0, _VALIDATION: 0}
        most = {_TEST: largest, _VALIDATION: largest_validation}
        for unit in sorted(units):
            for half in sorted(n_tokens, key=n_tokens.__getitem__):  # the one with fewer so far
                before, after = n_tokens[half], n_tokens[half] + lengths[unit]
                if before < quota and after <= most[half]:
                    chosen[unit] = half, min(lengths[unit], math.ceil(quota - before))
                    n_tokens[half] = after
                    break
    return chosen


def _classes(lengths: dict[bytes, int], n_classes: int) -> list[list[bytes]]:
    """Divide units by length into classes of equally many tokens."""
    units = sorted(lengths, key=lambda unit: (lengths[unit], unit))
    classes = [list[bytes]() for _ in range(n_classes)]
    n_before, total = 0, sum(lengths.values())
    for unit in units:
        middle = n_before + lengths[unit] / 2
        classes[int(middle * n_classes / total)].append(unit)
        n_before += lengths[unit]
    return classes


def _hash(corpus: Corpus, begin: int, end: int) -> bytes:
    """A hash of the tokens themselves: type numbers depend on the text before them."""
    text = "\n".join(corpus.types[k] for k in corpus.tokens[begin:end])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
