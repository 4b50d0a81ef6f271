"""LabelledVectors: the vectors of an embeddings file, joined with the labels of another file.

A label file has either a column of labels next to the tokens or one line of labels per sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np

from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import BoolArray, Float32Array
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError
from elmo_cli.label_rules import is_no_label
from elmo_cli.messages import plural
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.column_format import Column, Columns
from elmo_cli.text.conll import DEFAULT_LABEL_COLUMNS, label_column
from elmo_cli.text.input import (
    InputSettings,
    format_of,
    read_columns,
    read_sentences,
    with_recorded_rows,
)
from elmo_cli.text.sentence import Sentence, Tokens

_SAME_TEXT = "embeddings and labels must be of the same text, sentence by sentence"
_COUNT_HINT = (
    "give one label per vector: a line per sentence with labels separated by whitespace or, with "
    "`format=conll`, a line per token"
)
_COUNT_OR_ONE_HINT = (
    "give a line per sentence, with one label for the whole sentence or one per token, separated "
    "by whitespace"
)

SentenceLabels = tuple[str, ...]


@dataclass(frozen=True)
class LabelSettings:
    """Settings for reading label files."""

    format: str = "auto"  # by suffix; "plain" (a line of labels per sentence), "conll" or "conllu"
    encoding: str = "utf-8"
    column: str | None = None  # a number from 1, -1 for the last, or in CoNLL-U a name: "upos"
    token_column: int | None = None  # by default that of the text, if it has the same format

    def format_of(self, path: str) -> str:
        """The format of a label file.

        Raises:
            UsageError: the format has no labels, or `column` is given for a format without columns.
        """
        label_format = format_of(path, InputSettings(format=self.format))
        if label_format in ("jsonl", "fasta"):
            format_name = "JSON lines" if label_format == "jsonl" else "FASTA"
            raise UsageError(
                f"labels are not read from {format_name}",
                "give CoNLL-U, columns, or a text with one line of labels per sentence",
                where=path,
            )
        if label_format == "plain" and self.column is not None:
            raise UsageError(
                f"{path} is plain text, which has no columns",
                "give `format=conll` or `format=conllu`, or leave out `column`",
                where=f"`column={self.column}`",
            )
        return label_format

    def column_of(self, path: str) -> str | None:
        """The name of the label column; None in plain text."""
        return self.column or DEFAULT_LABEL_COLUMNS.get(self.format_of(path))

    def conllu_column_of(self, path: str) -> str | None:
        """The name of the label column of CoNLL-U; None in other formats."""
        return self.column_of(path) if self.format_of(path) == "conllu" else None


class LabelFile(NamedTuple):
    """A file of labels, and how it is read."""

    path: str
    settings: LabelSettings


class JoinedSentence(NamedTuple):
    """A sentence of an embeddings file, with one label per vector, and its tokens if known."""

    key: Key
    labels: SentenceLabels
    words: Tokens | None
    line: int = 0  # of the label file, where the sentence begins


@dataclass(frozen=True)
class LabelledVectors:
    """The vectors of one embeddings file that have a label.

    Vectors whose label means that there is none (`is_no_label`) are left out.
    """

    vectors_file: str
    labels_file: str
    sentences: tuple[JoinedSentence, ...]  # those with labels, in the order of the label file
    n_missing: int = 0  # labeled sentences that the embeddings file does not contain
    conllu_column: str | None = None  # of the labels; None for labels of another format

    @cached_property
    def labels(self) -> list[str]:
        """The labels of the vectors."""
        all_labels = [label for sentence in self.sentences for label in sentence.labels]
        return list(compress(all_labels, self.is_labelled))

    @cached_property
    def is_labelled(self) -> BoolArray:
        """Whether each vector of `sentences` has a label, including those that are left out."""
        is_labelled = []
        for sentence in self.sentences:
            for label in sentence.labels:
                is_labelled.append(not is_no_label(label, column=self.conllu_column))
        return np.array(is_labelled, np.bool_)

    @cached_property
    def counts_by_sentence(self) -> list[int]:
        """The number of labels of each sentence."""
        counts = []
        start = 0
        for sentence in self.sentences:
            end = start + len(sentence.labels)
            n_labels = int(self.is_labelled[start:end].sum())
            counts.append(n_labels)
            start = end
        return counts

    @cached_property
    def words(self) -> list[str] | None:
        """The tokens of the vectors; None if some are not known."""
        words: list[str] = []
        for sentence in self.sentences:
            if sentence.words is None:
                return None
            words += sentence.words
        return list(compress(words, self.is_labelled))

    def select(self, picked: Iterable[int]) -> LabelledVectors:
        """Return only the sentences at these positions."""
        return replace(self, sentences=tuple(self.sentences[position] for position in picked))

    def vectors(self, layer: int | str) -> Float32Array:
        """Return a new array of the vectors of one layer, (vector, dim) float32.

        Raises:
            EmbeddingsFileError: the file cannot be read, or a value is not finite.
        """
        with open_embeddings(self.vectors_file) as embeddings:
            view = LayerView(embeddings, layer)
            vectors = np.empty((len(self.is_labelled), embeddings.dim), np.float32)
            start = 0
            for sentence in self.sentences:
                end = start + len(sentence.labels)
                vectors[start:end] = view.vectors(sentence.key)
                start = end
        if self.is_labelled.all():
            return vectors
        of_labels: Float32Array = vectors[self.is_labelled]
        return of_labels


def join_labels(
    embeddings: Embeddings,
    labels_file: str,
    settings: LabelSettings,
    layers: Sequence[int | str] = (),
    *,
    accepts_sentence_labels: bool = False,
) -> LabelledVectors:
    """Join the sentences of an embeddings file with those of a label file.

    If both files contain tokens, the tokens are compared, otherwise only their number. Sentences
    that the embeddings file does not contain, because they were skipped, are counted.

    Args:
        layers: the layers whose values are checked.
        accepts_sentence_labels: whether, in plain text, a single label in a line is that of all
            vectors of its sentence.
    Raises:
        EmbeddingsFileError: a sentence has no labels, or a value is not finite.
        InputError, UsageError: the labels cannot be read or belong to another text.
    """
    view = LayerView(embeddings)
    checked_layers = [LayerView(embeddings, layer) for layer in layers]
    token_column = _token_column(embeddings, labels_file, settings)
    labelled_sentences = read_labels(labels_file, settings, token_column, embeddings.attributes)
    has_tokens = settings.column_of(labels_file) is not None
    if embeddings.is_keyed_by_name and not has_tokens:
        raise UsageError(
            "its keys are names, so lines of labels cannot be matched",
            "give the labels in columns next to the tokens, or embed the text with layout flat",
            where=embeddings.path,
        )
    joined_sentences: list[JoinedSentence] = []
    found_keys: set[Key] = set()
    n_missing = 0
    n_after_last = 0  # of those, after the last sentence of the embeddings file
    for sentence, labels in labelled_sentences:
        key = embeddings.key_of(sentence)
        if key not in embeddings:
            if labels:
                n_missing += 1
                n_after_last += 1
            continue
        n_after_last = 0
        found_keys.add(key)
        one_is_enough = accepts_sentence_labels and not has_tokens
        joined = JoinedSentence(
            key=key,
            labels=_labels_of_vectors(view, key, sentence, labels, one_is_enough=one_is_enough),
            words=_matching_words(view, key, sentence, has_tokens),
            line=sentence.line,
        )
        if joined.labels:
            for layer_view in checked_layers:
                layer_view.vectors(key)
            joined_sentences.append(joined)
    if len(found_keys) != len(embeddings):
        raise EmbeddingsFileError(
            f"has {len(embeddings)} sentences, {labels_file} contains {len(found_keys)} of them",
            _SAME_TEXT,
            where=embeddings.path,
        )
    lacks_sentences = "shard" in embeddings.attributes or embeddings.count("skipped_sentences") > 0
    if n_after_last > 0 and not has_tokens and not lacks_sentences:
        raise InputError(
            f"{plural(n_after_last, 'line')} of labels more than {embeddings.path} has sentences",
            "give one line of labels per sentence; a line that names the columns is none",
            where=labels_file,
        )
    return LabelledVectors(
        vectors_file=view.path,
        labels_file=labels_file,
        sentences=tuple(joined_sentences),
        n_missing=n_missing,
        conllu_column=settings.conllu_column_of(labels_file),
    )


def _token_column(embeddings: Embeddings, path: str, settings: LabelSettings) -> int | None:
    """Return the token column that is given, or that of the text if it has the same format."""
    if settings.token_column is not None:
        return settings.token_column
    column = embeddings.attributes.get("column")
    try:
        source = str(embeddings.attributes["sources"][0][0])
        text = InputSettings(format=str(embeddings.attributes.get("format", "auto")))
    except (KeyError, IndexError, TypeError, UsageError):
        return None
    if format_of(source, text) != settings.format_of(path):
        return None
    has_column = isinstance(column, int) and column != 0
    return column if has_column else None


def _labels_of_vectors(
    view: LayerView,
    key: Key,
    sentence: Sentence,
    labels: SentenceLabels,
    *,
    one_is_enough: bool,
) -> SentenceLabels:
    """Return a label for each vector of a sentence.

    A blank line of a pooled text has a vector, but no label is returned if it has none.

    Args:
        one_is_enough: whether a single label is that of all vectors.
    Raises:
        InputError: there are more or fewer labels than vectors.
    """
    n_vectors = view.n_vectors(key)
    if one_is_enough and len(labels) == 1:
        return labels * n_vectors
    is_blank = not view.per_token and not labels
    if len(labels) != n_vectors and not is_blank:
        raise InputError(
            f"{plural(len(labels), 'label')} for sentence {sentence.key}, but {view.path} has "
            f"{plural(n_vectors, 'vector')} for it",
            _COUNT_OR_ONE_HINT if one_is_enough else _COUNT_HINT,
            where=sentence.where,
        )
    return labels


def _matching_words(
    view: LayerView, key: Key, sentence: Sentence, has_tokens: bool
) -> Tokens | None:
    """Return the tokens of a sentence that has a label for each vector; None if unknown.

    Args:
        sentence: from the label file; only with `has_tokens` are its tokens those of the text.
    Raises:
        InputError: the label file has other tokens.
        EmbeddingsFileError: there are more or fewer stored tokens than vectors.
    """
    if not view.per_token:
        return None
    n_vectors = view.n_vectors(key)
    stored = view.embeddings.tokens(key)
    if stored is not None and len(stored) != n_vectors:
        has = f"{plural(len(stored), 'token')} and {plural(n_vectors, 'vector')}"
        problem = f"sentence {sentence.key} has {has}"
        raise EmbeddingsFileError(problem, "embed the text again", where=view.path)
    if not has_tokens:
        return stored
    if stored is not None:
        _check_same_tokens(view, sentence, stored)
    elif _has_other_line(view.embeddings, key, sentence.tokens):
        problem = f"sentence {sentence.key} is not the line that {view.path} has for it"
        raise InputError(problem, _SAME_TEXT, where=sentence.where)
    return sentence.tokens


def _check_same_tokens(view: LayerView, sentence: Sentence, stored: Tokens) -> None:
    """Compare the stored tokens with those of the label file, which are equally many."""
    for number, (ours, theirs) in enumerate(zip(stored, sentence.tokens, strict=True), 1):
        if ours != theirs:
            raise InputError(
                f"token {number} of sentence {sentence.key} is {theirs!r}, in {view.path} it is "
                f"{ours!r}",
                _SAME_TEXT,
                where=sentence.where,
            )


def _has_other_line(embeddings: Embeddings, key: Key, tokens: Tokens) -> bool:
    """Whether the map of another program has a line that does not consist of these tokens.

    Lines of elmo's own files may be raw text.
    """
    if embeddings.is_keyed_by_name or embeddings.attributes:
        return False
    line = embeddings.info(key).text
    if line is None:
        return False
    return line.split() != " ".join(tokens).split()


def read_labels(
    path: str,
    settings: LabelSettings,
    token_column: int | None = None,
    attributes: Mapping[str, object] | None = None,
) -> Iterator[tuple[Sentence, SentenceLabels]]:
    """Read sentences and their labels; keys are counted as in `elmo embed`.

    In plain text, a line of labels takes the place of the tokens. Comments have no labels, nor has
    a blank line of plain text. Ranges of words (`1-2`) and empty nodes (`8.1`) are left out unless
    the embeddings file has vectors of them.

    Args:
        token_column: the column of the tokens; by default detected as in `elmo embed`.
        attributes: those of the embeddings file, which may record the rows of CoNLL-U that it has.
    Raises:
        UsageError: `settings` do not fit the file.
        InputError: the file or one of its lines cannot be read.
    """
    text_format = settings.format_of(path)
    column = settings.column_of(path)
    reading = InputSettings(text_format, encoding=settings.encoding)
    reading = with_recorded_rows(reading, [path], attributes or {})
    if column is None:
        return ((line, line.tokens) for line in read_sentences(path, reading))
    columns = Columns(
        tokens=Column(token_column, "token_column"),
        labels=label_column(path, text_format, column, "column"),
    )
    sentences = read_columns(path, reading, columns)
    return ((sentence, sentence.labels) for sentence in sentences)
