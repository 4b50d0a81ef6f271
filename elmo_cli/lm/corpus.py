"""Corpus: the sentences of text files as type numbers."""

from __future__ import annotations

import os
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from elmo_cli.arrays import BoolArray, Float64Array, Int16Array, Int32Array, Int64Array
from elmo_cli.errors import TrainingError
from elmo_cli.messages import shorten_list
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport, InputSettings, check_inputs, read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.treebank import is_in_treebank_spelling, treebank_spelling
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary

_LARGE_OVERLAP = 0.1


@dataclass(frozen=True)
class Corpus:
    """Sentences as numbers of their types.

    Attributes:
        tokens: all sentences, each with `<S>` and `</S>`, (token,) int32: numbers of `types`, not
            ids of a vocabulary.
        starts: where each sentence begins, and at last where the text ends, (sentence + 1,) int64.
        types: every distinct type; `<S>` and `</S>` are the first two.
        characters: their character ids, (type, char) int16.
        documents: the first sentence of each document, and the number of sentences,
            (document + 1,) int64.
        lines: file and line of each sentence, if they were asked for.
    """

    tokens: Int32Array
    starts: Int64Array
    types: tuple[str, ...]
    characters: Int16Array
    documents: Int64Array
    lines: Sequence[tuple[str, int]] = ()

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens, without sentence boundaries."""
        return len(self.tokens) - 2 * self.n_sentences

    @property
    def n_predictions(self) -> int:
        """Number of predictions in each direction: of the tokens and of one boundary a sentence."""
        return len(self.tokens) - self.n_sentences

    @property
    def prediction_starts(self) -> Int64Array:
        """The first prediction of each sentence, and the number of all, (sentence + 1,)."""
        return np.asarray(self.starts - np.arange(len(self.starts)))

    @property
    def fingerprint(self) -> str:
        """Identify the text: its length and a CRC-32 over types, tokens and document starts."""
        types = "\n".join(self.types).encode("utf-8", "surrogatepass")
        checksum = 0
        for content in (self.tokens.data, types, self.documents.data):
            checksum = zlib.crc32(content, checksum)
        n_documents = len(self.documents) - 1
        return f"{self.n_tokens} tokens, {n_documents} documents, crc {checksum:08x}"

    @classmethod
    def read(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        begins: Sequence[int] = (0,),
        max_characters: int = 50,
        name: str = "the text",
    ) -> Corpus:
        """Number the types of sentences, leaving out those without tokens.

        Args:
            begins: numbers of the first sentences of documents, not counting those without tokens;
                may be filled while `sentences` is read.
            max_characters: ids that the model reads per token.
            name: of the text, for the TrainingError if there is no sentence.
        """
        numbers: dict[str, int] = {BEGIN: 0, END: 1}
        tokens, starts = array("i"), array("q", [0])
        for sentence in sentences:
            if len(sentence):
                numbered = [numbers.setdefault(token, len(numbers)) for token in sentence]
                tokens.extend([0, *numbered, 1])
                starts.append(len(tokens))
        if len(starts) == 1:
            raise TrainingError(f"{name}: contains no sentences", "give a text with tokens in it")
        return cls(
            np.asarray(tokens, np.int32),
            np.asarray(starts, np.int64),
            tuple(numbers),
            CharacterIds(max_characters).tokens(numbers).astype(np.int16),
            np.asarray([*begins, len(starts) - 1], np.int64),
        )

    def select(self, wanted: BoolArray) -> Corpus:
        """Return the wanted sentences, (sentence,) bool, as a corpus of their own."""
        lengths = np.diff(self.starts)
        tokens = self.tokens[np.repeat(wanted, lengths)]
        document = np.repeat(np.arange(len(self.documents) - 1), np.diff(self.documents))[wanted]
        types, numbers = np.unique(tokens, return_inverse=True)  # <S> and </S> stay the first two
        return Corpus(
            numbers.astype(np.int32),
            np.append(0, np.cumsum(lengths[wanted])),
            tuple(self.types[k] for k in types),
            self.characters[types],
            np.append(np.flatnonzero(np.diff(document, prepend=-1)), len(document)),
        )

    def sample_evenly(self, n_tokens: int) -> Corpus:
        """Return sentences from the whole text, of about `n_tokens` tokens or all if fewer."""
        every = max(1, round(self.n_tokens / n_tokens))
        return self.select(np.arange(self.n_sentences) % every == 0)

    def counts(self) -> Int64Array:
        """Count each type in the text, sentence boundaries not counted, (type,)."""
        counts = np.bincount(self.tokens, minlength=len(self.types))
        counts[:2] -= self.n_sentences
        return counts

    def vocabulary(
        self,
        *,
        min_count: int = 1,
        max_types: int | None = None,
        warn: Callable[[str], None] = lambda warning: None,
    ) -> Vocabulary:
        """Return the vocabulary of the text; arguments and errors as of `TypeCounts.vocabulary`.

        Args:
            warn: receives a warning if types are left out that no vocabulary file can hold.
        """
        counts = Counter(dict(zip(self.types, self.counts().tolist(), strict=True)))
        found = TypeCounts(counts, self.n_sentences)
        vocabulary = found.vocabulary(min_count=min_count, max_types=max_types)
        if found.warning:
            warn(f"warning: {found.warning}")
        return vocabulary

    def predicted_counts(self, vocabulary: Vocabulary) -> Float64Array:
        """Count how often each id is to be predicted, mean of both directions: (id,) float64."""
        counts = np.zeros(len(vocabulary))
        np.add.at(counts, self.ids(vocabulary), self.counts())
        counts[[vocabulary.begin, vocabulary.end]] += self.n_sentences / 2
        return counts

    def ids(self, vocabulary: Vocabulary) -> Int64Array:
        """Return the id of each distinct type in a vocabulary, (type,) int64."""
        return np.asarray([vocabulary.id(token) for token in self.types], np.int64)


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
        reading: settings of the readers; its `max_characters` are those of the model.
        tokens_per_file, treebank_fraction: see `TextSettings`.
        notes: of the readers; warns if there are too few documents for that fraction.
        keep_lines: note file and line of each sentence.
    Raises:
        TrainingError: there is no sentence.
        InputError, UsageError: of `text.read_sentences`.
    """
    reading, notes = reading or InputSettings(), notes or InputReport()
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

    name, width = shorten_list(paths), reading.max_characters
    corpus = Corpus.read(tokens(), begins=begins, max_characters=width, name=name)
    n, fraction = len(begins), treebank_fraction
    if 0 < fraction < 1 and n * min(fraction, 1 - fraction) < 1 - 1e-9:
        n_treebank = sum(is_in_treebank_spelling(k, fraction) for k in range(n))
        notes.warn(
            "treebank",
            f"{name}: too few documents for a treebank fraction of {fraction:g}: {n_treebank} of "
            f"{n} have treebank spelling; a blank line ends a document",
        )
    return replace(corpus, lines=lines)


def _read(
    paths: Sequence[str], reading: InputSettings, tokens_per_file: int | None, notes: InputReport
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


def without(paths: Sequence[str], excluded: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are not among the excluded ones, whatever paths name them."""
    identities = set(map(_identity, excluded))
    return tuple(path for path in paths if _identity(path) not in identities)


def _identity(path: str) -> tuple[int, int] | str:
    try:
        found = os.stat(0 if path == "-" else path)
    except OSError:
        return path
    return found.st_dev, found.st_ino


def overlap(heldout: Corpus, train: Corpus, report: InputReport) -> float:
    """Return the fraction of held-out sentences in the training text; warn if it is large."""
    hashes = list(_sentence_hashes(heldout))
    in_both = set(hashes).intersection(_sentence_hashes(train))  # of the smaller text
    fraction = sum(content in in_both for content in hashes) / heldout.n_sentences
    if fraction > _LARGE_OVERLAP:
        what = f"{fraction:.0%} of the held-out sentences are in the training text too; "
        report.warn("shared", what + "figures on them say little about new text")
    return fraction


def _sentence_hashes(corpus: Corpus) -> Iterator[int]:
    type_hashes = np.asarray([hash(token) for token in corpus.types], np.int64)
    content = type_hashes[corpus.tokens]
    return (hash(content[a:b].tobytes()) for a, b in pairwise(corpus.starts.tolist()))
