"""The text of a domain: which files and sentences are trained on, and which are held out."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import Int64Array
from elmo_cli.errors import InputError, TrainingError, UsageError
from elmo_cli.fit import FitPoint
from elmo_cli.lm.corpus import Corpus, overlap, read_corpus, warn_of_single_tokens, without
from elmo_cli.messages import plural, shorten_list
from elmo_cli.text.input import SUFFIXES, InputReport, InputSettings, without_compression_suffix

_HELD_OUT_FRACTION = 0.05  # of the tokens, unless a held-out text is named
_MIN_HALF = 3_000  # tokens of a half, unless it would be more than an eighth of the text
_LARGEST = 1 / 4  # fraction of the text in a document that may be held out
_MIN_FRACTION_OF_HALF = 1 / 2  # that whole documents must reach, else blocks are held out
_MIN_SENTENCES = 20  # of a text that can be split
_BLOCK_SENTENCES = 20
_MIN_BLOCKS = 40  # of a text
_TRAIN = 0  # the sides of a sentence
_VALIDATION = 1
_TEST = 2

_SUFFIXES = tuple(set(SUFFIXES) - {".json"})  # a .json file in a folder may be anything
_DEV_NAME = re.compile(
    r"(?<![a-z])(dev(el(opment)?)?|val(id(ation)?)?|held[-_ ]?out)(set|s)?(?![a-z])"
)
_TEST_NAME = re.compile(r"(?<![a-z])(dev)?test(set|s)?(?![a-z])")


@dataclass(frozen=True)
class DomainTexts:
    """The text files of a domain: to train on, to hold out (none if a part of `train` has to be),
    to measure on (none if half of the held-out text is), and other files of the folders."""

    train: tuple[str, ...]
    heldout: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()

    @property
    def to_read(self) -> tuple[str, ...]:
        """All files that are read."""
        return (*self.train, *self.heldout, *self.test)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The text of a domain: to train on, to choose the weights to keep, and to measure them.

    Attributes:
        unit: what was held out as a whole: "documents", "sentences" or "files".
        sources: where "validation" and "test" come from, for people.
        overlap: the sentences of `test` that are in the training text too.
    """

    train: Corpus
    validation: Corpus
    test: Corpus
    unit: str
    sources: dict[str, str]
    overlap: FitPoint

    @property
    def fingerprint(self) -> str:
        """A checksum of all texts, which a resumed run compares."""
        heldout = f"validation {self.validation.fingerprint}; test {self.test.fingerprint}"
        return f"{self.train.fingerprint}; {heldout}"

    def describe(self) -> dict[str, Any]:
        """The held-out text as plain values: `unit`, and facts of `validation` and `test`."""
        facts: dict[str, Any] = {"unit": self.unit}
        for name, source in self.sources.items():
            corpus: Corpus = getattr(self, name)
            facts[name] = {
                "source": source,
                "tokens": corpus.n_tokens,
                "sentences": corpus.n_sentences,
            }
        facts["test"]["overlap"] = self.overlap.fraction
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
    dev: list[str] = []
    not_read: list[str] = []
    for path in domain:
        if not Path(path).is_dir():
            train.append(path)
            continue
        for file in _files(path):
            if not _is_text(file) or _has(_TEST_NAME, file):
                not_read.append(file)
            elif _has(_DEV_NAME, file):
                dev.append(file)
            else:
                train.append(file)
    test = tuple(path for path in heldout if _has(_TEST_NAME, path))
    choosing = without(heldout, test) or tuple(dev)
    held_out = (*choosing, *test)
    to_train_on = without(train, held_out)
    if not to_train_on:
        others = ", ".join((*held_out, *not_read))
        raise UsageError(
            f"contains no text to train on, only held-out text ({others})",
            "name texts to train on with `domain`, or other ones with `heldout`",
            where=", ".join(domain),
        )
    return DomainTexts(
        train=to_train_on,
        heldout=choosing,
        test=test,
        not_read=without([*not_read, *dev], held_out),
    )


def _files(folder: str) -> list[str]:
    """The files of a folder, at least one of which is a text."""
    files = sorted(str(path) for path in Path(folder).iterdir() if path.is_file())
    if not any(_is_text(file) for file in files):
        hint = "a domain is a folder with .txt, .conll, .conllu or .jsonl files, or the files"
        problem = f"contains no text, only {plural(len(files), 'other file')}"
        raise InputError(problem, hint, where=folder)
    return files


def _has(pattern: re.Pattern[str], path: str) -> bool:
    return pattern.search(Path(path).name.lower()) is not None


def _is_text(path: str) -> bool:
    name = Path(path).name.lower()
    uncompressed = without_compression_suffix(name)
    is_compressed_text = uncompressed != name and not Path(uncompressed).suffix
    is_hidden = name.startswith(".")
    return not is_hidden and (is_compressed_text or uncompressed.endswith(_SUFFIXES))


def read_domain(
    texts: DomainTexts,
    reading: InputSettings | None = None,
    *,
    seed: int = 0,
    report: InputReport | None = None,
) -> Domain:
    """Read the texts of a domain; where no held-out text is named, hold out a part.

    About 5 % of the tokens are held out, or about 3,000 for each half if that is more (an eighth of
    a smaller text), as whole documents in random order (see `draw_halves`); blocks of up to 20
    sentences where documents are too few or too large. At least half of the text is trained on.
    Equal documents are on the same side, and the order of the text does not matter.
    One half chooses, the other measures, unless files are named for measuring.

    Args:
        reading: settings of the readers; its `max_characters` are those of the model.
        seed: of the random order.
    Raises:
        TrainingError: there are no sentences, or too few to hold some out.
        InputError, UsageError: as `read_sentences`.
    """
    report = report or InputReport()
    reading = reading or InputSettings()
    train = read_corpus(texts.train, reading, notes=report)
    warn_of_single_tokens(train, texts.train, report)
    heldout = train
    source = "the domain"
    fraction = _HELD_OUT_FRACTION
    if texts.heldout:
        heldout = read_corpus(texts.heldout, reading, notes=report)
        source = shorten_list(texts.heldout)
        fraction = 1.0

    if texts.heldout and texts.test:
        validation = heldout
        unit = "files"
        sources = {"validation": _source(validation, "documents", source)}
    else:
        sides, unit = _divide(heldout, source, fraction, seed)
        is_validation = sides != _TRAIN if texts.test else sides == _VALIDATION
        validation = heldout.select(is_validation)
        sources = {"validation": _source(validation, unit, source)}
        if not texts.heldout:
            train = heldout.select(sides == _TRAIN)

    if texts.test:
        test = read_corpus(texts.test, reading, notes=report)
        unit = "files"
        sources["test"] = shorten_list(texts.test)
    else:
        test = heldout.select(sides == _TEST)
        sources["test"] = _source(test, unit, source)

    return Domain(
        train=train,
        validation=validation,
        test=test,
        unit=unit,
        sources=sources,
        overlap=overlap(test, train),
    )


def _source(corpus: Corpus, unit: str, text: str) -> str:
    """Return where a selection of a text comes from, in words; messages count its sentences."""
    if unit == "sentences":
        return text
    return f"{plural(len(corpus.documents) - 1, 'document')} of {text}"


def _divide(corpus: Corpus, source: str, fraction: float, seed: int) -> tuple[Int64Array, str]:
    """Hold out documents or, if they are too few or too large, blocks of sentences.

    Args:
        source: name of the text.
        fraction: of the tokens to hold out; 1 divides the whole text into halves.
    Returns:
        The side of each sentence, (sentence,), and what was held out as a whole.
    Raises:
        TrainingError: the text is too short.
    """
    if corpus.n_sentences >= _MIN_SENTENCES or fraction == 1:
        sides = _hold_out(corpus, corpus.documents, fraction, seed)
        least = _MIN_FRACTION_OF_HALF * fraction / 2 * len(corpus.tokens)
        if _smaller_half(corpus, sides) > least:
            return sides, "documents"
        sides = _hold_out(corpus, _block_starts(corpus), fraction, seed)
        if _smaller_half(corpus, sides) > 0:
            return sides, "sentences"
    raise TrainingError(
        f"{plural(corpus.n_sentences, 'sentence')}, too few or too similar to "
        "hold some out, half to choose the weights and half to measure them",
        f"give at least {_MIN_SENTENCES} different sentences, or `heldout=FILE`",
        where=source,
    )


def _smaller_half(corpus: Corpus, sides: Int64Array) -> int:
    """The number of tokens of the smaller half."""
    lengths = np.diff(corpus.starts)
    n_validation = int(lengths[sides == _VALIDATION].sum())
    n_test = int(lengths[sides == _TEST].sum())
    return min(n_validation, n_test)


def _block_starts(corpus: Corpus) -> Int64Array:
    """The first sentence of each block, which ends with its document, and the number of all."""
    size = max(1, min(_BLOCK_SENTENCES, corpus.n_sentences // _MIN_BLOCKS))
    blocks = [np.arange(begin, end, size) for begin, end in pairwise(corpus.documents)]
    return np.append(np.concatenate(blocks), corpus.n_sentences)


def _hold_out(corpus: Corpus, units: Int64Array, fraction: float, seed: int) -> Int64Array:
    """Hold out some units; the side of each sentence. Equal units are on the same side.

    Args:
        units: the first sentence of each and the number of sentences.
        fraction: see `draw_halves`.
    """
    hashes: list[bytes] = []
    lengths: Counter[bytes] = Counter()
    for begin, end in pairwise(corpus.starts[units].tolist()):
        content = _hash(corpus, begin, end, seed)
        hashes.append(content)
        lengths[content] += end - begin
    halves = draw_halves(lengths, fraction)
    sides = np.full(corpus.n_sentences, _TRAIN, np.int64)
    for content, (begin, end) in zip(hashes, pairwise(units.tolist()), strict=True):
        sides[begin:end] = halves.get(content, _TRAIN)
    return sides


def draw_halves(lengths: Mapping[bytes, int], fraction: float) -> dict[bytes, int]:
    """Draw the units to hold out; return the half of each, 1 for validation or 2 for test.

    Units are drawn in the order of their hashes, which is random. Each goes to the half with fewer
    tokens, until both have enough. A unit is passed over if it is more than a quarter of the text,
    or if less than half of the text would be left to train on.

    Args:
        lengths: number of tokens of each unit, by hash.
        fraction: of the tokens to hold out; 1 divides the whole text.
    """
    total = sum(lengths.values())
    is_whole_text = fraction == 1
    enough = max(fraction * total / 2, min(_MIN_HALF, total / 8))
    halves: dict[bytes, int] = {}
    n_tokens = {_TEST: 0, _VALIDATION: 0}
    for unit in sorted(lengths):
        half = _TEST if n_tokens[_TEST] <= n_tokens[_VALIDATION] else _VALIDATION
        if not is_whole_text:
            if n_tokens[half] >= enough:
                break
            n_held_out = sum(n_tokens.values()) + lengths[unit]
            if lengths[unit] > _LARGEST * total or n_held_out > total / 2:
                continue
        halves[unit] = half
        n_tokens[half] += lengths[unit]
    return halves


def _hash(corpus: Corpus, begin: int, end: int, seed: int) -> bytes:
    """A hash of the tokens themselves: type numbers depend on the text before them."""
    text = "\n".join(corpus.types[k] for k in corpus.tokens[begin:end])
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=8, key=seed.to_bytes(8)).digest()
