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
from elmo_cli.fit import HELDOUT_IN_TRAIN, FitPoint, FitRule
from elmo_cli.messages import shorten_list
from elmo_cli.text.characters import BEGIN, END, CharacterIds
from elmo_cli.text.input import InputReport, InputSettings, check_inputs, read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary, vocabulary_fit

_MANY_SENTENCES = 20  # fewer may all have one token by chance


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
        keys: the key of each sentence, as in `text.Sentence`, if lines were asked for.
    """

    tokens: Int32Array
    starts: Int64Array
    types: tuple[str, ...]
    characters: Int16Array
    documents: Int64Array
    lines: Sequence[tuple[str, int]] = ()
    keys: Sequence[int] = ()

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
            begins: numbers of the first sentences of documents, not counting those without tokens.
            max_characters: ids that the model reads per token.
            name: of the text, for the TrainingError if there is no sentence.
        """
        builder = _CorpusBuilder()
        document_starts = set(begins)
        for tokens in sentences:
            if len(tokens):
                builder.add(tokens, starts_document=builder.n_sentences in document_starts)
        return builder.finish(max_characters=max_characters, name=name)

    def select(self, wanted: BoolArray) -> Corpus:
        """Return the wanted sentences, (sentence,) bool, as a corpus of their own."""
        lengths = np.diff(self.starts)
        tokens = self.tokens[np.repeat(wanted, lengths)]
        types, numbers = np.unique(tokens, return_inverse=True)  # <S> and </S> stay the first two
        n_documents = len(self.documents) - 1
        document_of_sentence = np.repeat(np.arange(n_documents), np.diff(self.documents))[wanted]
        document_starts = np.flatnonzero(np.diff(document_of_sentence, prepend=-1))
        return Corpus(
            tokens=numbers.astype(np.int32),
            starts=np.append(0, np.cumsum(lengths[wanted])),
            types=tuple(self.types[k] for k in types),
            characters=self.characters[types],
            documents=np.append(document_starts, len(document_of_sentence)),
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
        type_counts = TypeCounts(Counter(self._counts_by_type()), self.n_sentences)
        vocabulary = type_counts.vocabulary(min_count=min_count, max_types=max_types)
        if type_counts.warning:
            warn(f"warning: {type_counts.warning}")
        return vocabulary

    def fit(self, rule: FitRule, vocabulary: Vocabulary) -> FitPoint:
        """Count the tokens that are in a vocabulary."""
        return vocabulary_fit(rule, self._counts_by_type(), vocabulary)

    def _counts_by_type(self) -> dict[str, int]:
        return dict(zip(self.types, self.counts().tolist(), strict=True))

    def predicted_counts(self, vocabulary: Vocabulary) -> Float64Array:
        """Count how often each id is to be predicted, mean of both directions: (id,) float64."""
        counts = np.zeros(len(vocabulary))
        np.add.at(counts, self.ids(vocabulary), self.counts())
        counts[[vocabulary.begin, vocabulary.end]] += self.n_sentences / 2
        return counts

    def ids(self, vocabulary: Vocabulary) -> Int64Array:
        """Return the id of each distinct type in a vocabulary, (type,) int64."""
        return np.asarray([vocabulary.id(token) for token in self.types], np.int64)


class _CorpusBuilder:
    """Numbers the types of sentences that are added one by one."""

    def __init__(self) -> None:
        self.n_sentences = 0
        self._numbers: dict[str, int] = {BEGIN: 0, END: 1}  # of the types
        self._tokens = array("i")
        self._starts = array("q", [0])
        self._documents = array("q")

    def add(self, tokens: Sequence[str], *, starts_document: bool) -> None:
        """Add a sentence with at least one token."""
        numbers = self._numbers
        numbered = [numbers.setdefault(token, len(numbers)) for token in tokens]
        self._tokens.extend([0, *numbered, 1])
        self._starts.append(len(self._tokens))
        if starts_document:
            self._documents.append(self.n_sentences)
        self.n_sentences += 1

    def finish(self, *, max_characters: int, name: str) -> Corpus:
        """Return the corpus; a TrainingError with the name of the text if it has no sentences."""
        if self.n_sentences == 0:
            raise TrainingError(
                "contains no sentences", "give a text with tokens in it", where=name
            )
        return Corpus(
            tokens=np.asarray(self._tokens, np.int32),
            starts=np.asarray(self._starts, np.int64),
            types=tuple(self._numbers),
            characters=CharacterIds(max_characters).tokens(self._numbers).astype(np.int16),
            documents=np.asarray([*self._documents, self.n_sentences], np.int64),
        )


def read_corpus(
    paths: Sequence[str],
    reading: InputSettings | None = None,
    *,
    tokens_per_file: int | None = None,
    notes: InputReport | None = None,
    keep_lines: bool = False,
) -> Corpus:
    """Read the sentences of text files; a document ends at a blank line and with its file.

    Args:
        reading: settings of the readers; its `max_characters` are those of the model.
        tokens_per_file: see `TextSettings`.
        notes: of the readers.
        keep_lines: keep the file, line and key of each sentence.
    Raises:
        TrainingError: there is no sentence.
        InputError, UsageError: of `text.read_sentences`.
    """
    reading = reading or InputSettings()
    notes = notes or InputReport()
    builder = _CorpusBuilder()
    lines: list[tuple[str, int]] = []
    keys = array("q")
    starts_document = True
    for sentence in _read(paths, reading, tokens_per_file, notes):
        starts_document = starts_document or sentence.starts_document
        if not sentence.tokens:
            continue
        builder.add(sentence.tokens, starts_document=starts_document)
        starts_document = False
        if keep_lines:
            lines.append((sentence.source, sentence.line))
            keys.append(sentence.key)
    corpus = builder.finish(max_characters=reading.max_characters, name=shorten_list(paths))
    return replace(corpus, lines=lines, keys=keys)


def _read(
    paths: Sequence[str], reading: InputSettings, tokens_per_file: int | None, notes: InputReport
) -> Iterator[Sentence]:
    """Yield the sentences of all files, or of each up to the one with token `tokens_per_file`."""
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


def warn_of_single_tokens(train: Corpus, paths: Sequence[str], notes: InputReport) -> None:
    """Warn of a training text of sentences with one token, such as a column of words."""
    if train.n_sentences == train.n_tokens >= _MANY_SENTENCES:
        problem = "each sentence has one token, so that no token is predicted from others"
        notes.warn("single tokens", f"{shorten_list(paths)}: {problem}; write a sentence per line")


def without(paths: Sequence[str], excluded: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are not among the excluded ones, whatever paths name them."""
    identities = {_identity(path) for path in excluded}
    return tuple(path for path in paths if _identity(path) not in identities)


def _identity(path: str) -> tuple[int, int] | str:
    """The device and inode of a file, or its name if it cannot be found."""
    try:
        status = os.stat(0 if path == "-" else path)
    except OSError:
        return path
    return status.st_dev, status.st_ino


def overlap(heldout: Corpus, train: Corpus) -> FitPoint:
    """Count the held-out sentences that are in the training text too."""
    hashes = list(_sentence_hashes(heldout))
    in_both = set(hashes).intersection(_sentence_hashes(train))  # of the smaller text
    n_in_both = sum(content in in_both for content in hashes)
    return FitPoint(HELDOUT_IN_TRAIN, n_fitting=n_in_both, n_all=heldout.n_sentences)


def _sentence_hashes(corpus: Corpus) -> Iterator[int]:
    type_hashes = np.asarray([hash(token) for token in corpus.types], np.int64)
    content = type_hashes[corpus.tokens]
    for begin, end in pairwise(corpus.starts.tolist()):
        yield hash(content[begin:end].tobytes())
