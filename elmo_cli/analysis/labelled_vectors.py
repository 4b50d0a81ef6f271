"""LabelledVectors: the vectors of an embeddings file, joined with the labels of another file.

A label file has either a column of labels next to the tokens or one line of labels per sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from elmo_cli.analysis.vectors import Vectors, n_vectors, read_vectors
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.conll import label_column
from elmo_cli.text.input import InputSettings, format_of, read_columns, read_sentences
from elmo_cli.text.sentence import Sentence

_DEFAULT_COLUMNS = {"conllu": "xpos", "conll": "-1"}
_MAX_TOKENS = 1 << 22  # per sentence, so that a line without end is refused
_SAME_TEXT = "embeddings and labels must be of the same text, sentence by sentence"


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence and its labels.

    Attributes:
        sentence: the sentence with its tokens; in plain text, the line of labels instead of them.
        labels: one label per token.
        has_tokens: whether the file contains the tokens.
    """

    sentence: Sentence
    labels: tuple[str, ...]
    has_tokens: bool


@dataclass(frozen=True)
class LabelSettings:
    """Settings for reading label files.

    Attributes:
        format: "plain" (a line of labels per sentence), "conll", "conllu", or "auto" (by suffix).
        encoding: name of a Python text encoding.
        column: the label column: a number from 1, -1 for the last, or in CoNLL-U a name such as
            "upos"; by default "xpos" in CoNLL-U, else the last.
    """

    format: str = "auto"
    encoding: str = "utf-8"
    column: str | None = None

    def format_of(self, path: str) -> str:
        """The format of a label file.

        Raises:
            UsageError: the format has no labels, or `column` is given for a format without columns.
        """
        found = format_of(path, InputSettings(format=self.format))
        if found == "jsonl":
            raise UsageError(
                f"{path}: labels are not read from JSON lines",
                "give CoNLL-U, columns, or a text with one line of labels per sentence",
            )
        if found == "plain" and self.column is not None:
            raise UsageError(
                f"`column={self.column}`: {path} is plain text, which has no columns",
                "give `format=conll` or `format=conllu`, or leave out `column`",
            )
        return found

    def column_of(self, path: str) -> str | None:
        """The name of the label column; None in plain text."""
        return self.column or _DEFAULT_COLUMNS.get(self.format_of(path))

    def column_number(self, path: str) -> int | None:
        """The number of the label column; None in plain text.

        Raises:
            UsageError: there is no such column.
        """
        column = self.column_of(path)
        if column is None:
            return None
        return label_column(path, self.format_of(path), column, "column")


class JoinedSentence(NamedTuple):
    """A sentence of an embeddings file, with one label per vector, and its tokens if known."""

    key: Key
    labels: tuple[str, ...]
    words: tuple[str, ...] | None


@dataclass(frozen=True)
class LabelledVectors:
    """The vectors of one embeddings file that have a label.

    Attributes:
        vectors_file, labels_file: names of the two files.
        sentences: the sentences with labels, in the order of the label file.
        n_missing: number of labelled sentences that the embeddings file does not contain.
    """

    vectors_file: str
    labels_file: str
    sentences: tuple[JoinedSentence, ...]
    n_missing: int = 0

    @cached_property
    def labels(self) -> list[str]:
        """The labels of all vectors."""
        return list(chain.from_iterable(sentence.labels for sentence in self.sentences))

    @cached_property
    def words(self) -> list[str] | None:
        """The tokens of all vectors; None if some are not known."""
        words = [sentence.words for sentence in self.sentences]
        known = [tokens for tokens in words if tokens is not None]
        return list(chain.from_iterable(known)) if len(known) == len(words) else None

    def select(self, picked: Iterable[int]) -> LabelledVectors:
        """Return only the sentences at these positions."""
        return replace(self, sentences=tuple(self.sentences[position] for position in picked))

    def vectors(self, layer: int | str) -> Vectors:
        """Return a new array of all vectors of one layer, (vector, dim) float32.

        Raises:
            EmbeddingsFileError: the file cannot be read, or a value is not finite.
        """
        with open_embeddings(self.vectors_file) as embeddings:
            index = embeddings.layers.index(layer)
            vectors = np.empty((len(self.labels), embeddings.dim), np.float32)
            end = 0
            for key, labels, _ in self.sentences:
                start, end = end, end + len(labels)
                vectors[start:end] = read_vectors(embeddings, key, index)
        return vectors


def join_labels(
    embeddings: Embeddings,
    labels_file: str,
    settings: LabelSettings,
    layers: Sequence[int | str] = (),
) -> LabelledVectors:
    """Join the sentences of an embeddings file with those of a label file.

    If both files contain tokens, the tokens are compared, otherwise only their number. Sentences
    that the embeddings file does not contain, because they were skipped, are counted.

    Args:
        layers: the layers whose values are checked.
    Raises:
        EmbeddingsFileError: a sentence has no labels, or a value is not finite.
        InputError, UsageError: the labels cannot be read or belong to another text.
    """
    indices = [embeddings.layers.index(layer) for layer in layers]
    sentences = read_labels(labels_file, settings, _token_column(embeddings, labels_file, settings))
    joined: list[JoinedSentence] = []
    found: set[Key] = set()
    n_missing = 0
    for sentence, key in _with_keys(embeddings, sentences):
        if key not in embeddings:
            n_missing += bool(sentence.labels)
            continue
        found.add(key)
        words = _matching_words(embeddings, sentence, key)
        if sentence.labels:
            for index in indices:
                read_vectors(embeddings, key, index)
            joined.append(JoinedSentence(key, _interned(sentence.labels), words))
    if len(found) != len(embeddings):
        raise EmbeddingsFileError(
            f"{embeddings.path}: has {len(embeddings)} sentences, {labels_file} has "
            f"{len(found)} of them",
            _SAME_TEXT,
        )
    return LabelledVectors(str(embeddings.path), labels_file, tuple(joined), n_missing)


def _interned(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words with equal strings sharing memory."""
    return tuple(map(sys.intern, words))


def _with_keys(
    embeddings: Embeddings, sentences: Iterator[LabelledSentence]
) -> Iterator[tuple[LabelledSentence, Key]]:
    """Pair each sentence with its key in the embeddings file."""
    first = next(sentences, None)
    given = chain([] if first is None else [first], sentences)
    if first is None or not embeddings.is_keyed_by_name:
        yield from ((one, one.sentence.key) for one in given)
    elif first.has_tokens:
        yield from ((one, embeddings.key_of(one.sentence)) for one in given)
    else:
        yield from _in_file_order(embeddings, list(given))


def _in_file_order(
    embeddings: Embeddings, given: list[LabelledSentence]
) -> Iterator[tuple[LabelledSentence, Key]]:
    """Match lines of labels with a file whose keys are the sentences themselves."""
    if not embeddings.order_is_known or embeddings.count("duplicate_sentences"):
        why = "equal sentences once" if embeddings.order_is_known else "them in unknown order"
        raise UsageError(
            f"{embeddings.path}: is keyed by sentences and contains {why}, so lines of labels "
            "cannot be matched",
            "give the labels in columns next to the tokens, with document names if the file has "
            "such, or embed with layout flat",
        )
    if len(given) != len(embeddings):  # such a file has no blank sentences
        given = [one for one in given if one.labels]
    for number, one in enumerate(given, embeddings.first_sentence):
        yield one, number


def _token_column(embeddings: Embeddings, path: str, settings: LabelSettings) -> int | None:
    """Return the token column, if the text was read in the format of the labels."""
    column = embeddings.attributes.get("column")
    try:
        source = str(embeddings.attributes["sources"][0][0])
        text = InputSettings(format=str(embeddings.attributes.get("format", "auto")))
    except (KeyError, IndexError, TypeError, UsageError):
        return None
    is_same = format_of(source, text) == settings.format_of(path)
    return column if is_same and isinstance(column, int) and column != 0 else None


def _matching_words(
    embeddings: Embeddings, given: LabelledSentence, key: Key
) -> tuple[str, ...] | None:
    """Return the tokens of a sentence whose labels match its vectors; None if unknown."""
    count = n_vectors(embeddings, key)
    if embeddings.unit != "tokens":
        if len(given.labels) > 1:
            raise _mismatch(embeddings, given, "one vector for it")
        return None
    stored = embeddings.tokens(key)
    for n in (count, len(stored or given.labels)):
        if n != len(given.labels):
            raise _mismatch(embeddings, given, f"{n} tokens of it")
    words = given.sentence.tokens if given.has_tokens else stored
    for number, (ours, theirs) in enumerate(zip(stored or (), words or (), strict=False), 1):
        if ours != theirs:
            raise InputError(
                f"{given.sentence.where}: token {number} of sentence {given.sentence.key} is "
                f"`{theirs}`, in {embeddings.path} it is `{ours}`",
                _SAME_TEXT,
            )
    return None if words is None else _interned(words)


def _mismatch(embeddings: Embeddings, given: LabelledSentence, has: str) -> InputError:
    if embeddings.unit != "tokens":
        hint = "give one label per line, or embed the text without pooling"
    elif given.has_tokens:
        hint = f"`elmo inspect {embeddings.path} --text {given.sentence.source}` lists differences"
    else:
        hint = (
            "a line has one label per token, separated by whitespace; `format=conll` reads one "
            "token per line"
        )
    n, key = len(given.labels), given.sentence.key
    return InputError(
        f"{given.sentence.where}: {n} label{'s' * (n != 1)} for sentence {key}, "
        f"{embeddings.path} has {has}",
        hint,
    )


def read_labels(
    path: str, settings: LabelSettings, token_column: int | None = None
) -> Iterator[LabelledSentence]:
    """Read the sentences of a label file; their keys are counted as in `elmo embed`.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) have no labels. In plain text a blank
    line is a sentence without labels.

    Args:
        token_column: the column of the tokens; by default detected as in `elmo embed`.
    Raises:
        UsageError: `settings` do not fit the file.
        InputError: the file or one of its lines cannot be read.
    """
    number = settings.column_number(path)
    reading = InputSettings(
        format=settings.format_of(path),
        encoding=settings.encoding,
        column=number,
        max_tokens=_MAX_TOKENS,
    )
    if number is None:
        for line in read_sentences(path, reading):
            yield LabelledSentence(line, line.tokens, has_tokens=False)
        return
    for sentence, labels in read_columns(path, reading, (token_column, number)):
        yield LabelledSentence(sentence, labels.tokens, has_tokens=True)
