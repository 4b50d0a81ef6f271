"""The text of a domain: which files and sentences are trained on, and which are held out."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus, Int64Array, overlap
from elmo_cli.lm.read_corpus import read_corpus, without
from elmo_cli.text.input import (
    SUFFIXES,
    InputReport,
    InputSettings,
    without_compression_suffix,
)

_HELD_OUT_FRACTION = 0.05  # of the tokens, unless a held-out text is named
_LARGEST_FRACTION = 2 * _HELD_OUT_FRACTION  # unless a text has fewer documents than 10
_LARGEST_DOCUMENT = 1 / 3  # of the text, that may be held out as a whole
_SMALLEST_FRACTION = _HELD_OUT_FRACTION / 2  # that whole documents must reach
_MIN_SENTENCES = 20  # of a text that can be split
_BLOCK = 20  # sentences

_SUFFIXES = tuple(set(SUFFIXES) - {".json"})  # a .json file in a folder may be anything
_DEV = re.compile(r"(?<![a-z])(dev(el(opment)?)?|val(id(ation)?)?|held[-_ ]?out)(set|s)?(?![a-z])")
_TEST = re.compile(r"(?<![a-z])(dev)?test(set|s)?(?![a-z])")


@dataclass(frozen=True)
class DomainTexts:
    """The text files of a domain.

    Attributes:
        train: files to train on, in reading order.
        heldout: files to measure on; empty if a part of `train` has to be held out.
        not_read: other files of the folders.
    """

    train: tuple[str, ...]
    heldout: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()


@dataclass(frozen=True)
class Domain:
    """The text of a domain.

    Attributes:
        train: the text to train on.
        heldout: never trained on.
        source: where the held-out text comes from, for people.
        overlap: fraction of the held-out sentences that are in the training text too.
    """

    train: Corpus
    heldout: Corpus
    source: str
    overlap: float

    @property
    def fingerprint(self) -> str:
        """A checksum of both texts, which a resumed run compares."""
        return f"{self.train.fingerprint}; held-out {self.heldout.fingerprint}"


def find_texts(domain: Sequence[str], heldout: Sequence[str] = ()) -> DomainTexts:
    """Find the text files of folders, sorted by name; subfolders are not searched.

    A file of a folder whose name contains the word dev, valid or heldout is held out if no held-out
    text is named, and never trained on. One whose name contains the word test is not read: a test
    set must not choose between models.

    Args:
        domain: folders and files, "-" for standard input.
        heldout: files to measure on, which are not trained on.
    Raises:
        UsageError: there is nothing to train on.
        InputError: a folder contains no text or cannot be read.
    """
    train: list[str] = []
    found: list[str] = []
    not_read: list[str] = []
    for path in domain:
        if not Path(path).is_dir():
            train.append(path)
            continue
        for file in _files(path):
            name = Path(file).name.lower()
            is_unread = not _is_text(file) or _TEST.search(name)
            (not_read if is_unread else found if _DEV.search(name) else train).append(file)
    held_out = tuple(heldout) or tuple(found)
    trained = without(train, held_out)
    if not trained:
        raise UsageError(
            f"{', '.join(domain)}: contains no text to train on, only held-out text "
            f"({', '.join((*held_out, *not_read))})",
            "name texts to train on with `domain`, or other ones with `heldout`",
        )
    return DomainTexts(trained, held_out, without([*not_read, *found], held_out))


def read_domain(
    texts: DomainTexts,
    reading: InputSettings | None = None,
    *,
    max_characters: int = 50,
    report: InputReport | None = None,
) -> Domain:
    """Read the texts of a domain; where no held-out text is named, hold out a part.

    At least 5 % of the tokens are held out: whole documents, or blocks of 20 sentences if the text
    is one document, or its documents are too large or too small. Which ones depends on their
    content alone, so that equal ones are on the same side, and the same text is always split alike.

    Args:
        reading: settings of the readers.
        max_characters: of a token that the model reads.
        report: receives warnings and counts.
    Raises:
        TrainingError: there are no sentences, or too few to hold some out.
        InputError, UsageError: as `read_sentences`.
    """
    report = report if report is not None else InputReport()
    reading = replace(reading or InputSettings(), max_characters=max_characters)
    train = read_corpus(texts.train, reading, notes=report)
    if texts.heldout:
        heldout = read_corpus(texts.heldout, reading, notes=report)
        source = ", ".join(texts.heldout)
    else:
        is_held_out, units = _split(train)
        heldout = train.select(is_held_out)
        source = f"{heldout.n_tokens / train.n_tokens:.1%} of the domain, {units}"
        train = train.select(~is_held_out)
    return Domain(train, heldout, source, overlap(heldout, train, report))


def _files(folder: str) -> list[str]:
    """The files of a folder, at least one of which is a text."""
    try:
        files = sorted(str(path) for path in Path(folder).iterdir() if path.is_file())
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be read ({error.strerror})", "check the permissions of the folder"
        ) from None
    if not any(map(_is_text, files)):
        raise InputError(
            f"{folder}: contains no text, only {len(files)} other files"
            if files
            else f"{folder}: contains no files",
            "a domain is a folder with .txt, .conll, .conllu or .jsonl files, or the files",
        )
    return files


def _is_text(path: str) -> bool:
    name = Path(path).name.lower()
    bare = without_compression_suffix(name)
    is_compressed_text = bare != name and not Path(bare).suffix
    return not name.startswith(".") and (is_compressed_text or bare.endswith(_SUFFIXES))


def _split(corpus: Corpus) -> tuple[npt.NDArray[np.bool_], str]:
    """Which sentences are held out, (sentence,), and the units they form."""
    n_sentences = corpus.n_sentences
    documents = corpus.documents
    size = max(1, min(_BLOCK, n_sentences // _MIN_SENTENCES))
    # A block ends with its document: blocks with the end of one and the start of the next are rare.
    blocks = np.concatenate([np.arange(*ends, size) for ends in pairwise(documents)])
    largest = max(_LARGEST_FRACTION, min(_LARGEST_DOCUMENT, 1 / (len(documents) - 1)))
    if n_sentences >= _MIN_SENTENCES:
        for units, what, limit, least in (
            (documents, "whole documents", largest, _SMALLEST_FRACTION),
            (np.append(blocks, n_sentences), f"blocks of {size} sentences", _LARGEST_FRACTION, 0),
        ):
            is_held_out = _smallest_hashes(corpus, units, limit)
            if np.diff(corpus.starts)[is_held_out].sum() > least * len(corpus.tokens):
                return is_held_out, what
    raise TrainingError(
        f"the domain: {n_sentences} sentence{'s' * (n_sentences > 1)}, too few or too similar to "
        "hold some out",
        f"give at least {_MIN_SENTENCES} different sentences, or `heldout=FILE`",
    )


def _smallest_hashes(corpus: Corpus, units: Int64Array, largest: float) -> npt.NDArray[np.bool_]:
    """Hold out the units with the smallest hashes until they are 5 % of the tokens.

    Args:
        units: the first sentence of each and the number of sentences.
        largest: skip units with which the held-out text would exceed this fraction.
    """
    starts = corpus.starts[units]
    hashes = [_hash(corpus, *ends) for ends in pairwise(starts)]
    lengths: Counter[bytes] = Counter()
    for content, length in zip(hashes, np.diff(starts).tolist(), strict=True):
        lengths[content] += length
    n_held_out, held_out = 0, set[bytes]()
    for content in sorted(lengths):
        if n_held_out >= _HELD_OUT_FRACTION * starts[-1]:
            break
        if n_held_out + lengths[content] <= largest * starts[-1]:
            held_out.add(content)
            n_held_out += lengths[content]
    return np.repeat([content in held_out for content in hashes], np.diff(units))


def _hash(corpus: Corpus, begin: int, end: int) -> bytes:
    """A hash of the tokens themselves: type numbers depend on the text before them."""
    text = "\n".join(corpus.types[k] for k in corpus.tokens[begin:end])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
