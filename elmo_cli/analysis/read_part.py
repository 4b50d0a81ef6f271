"""read_part: an embeddings file and a label file, joined sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from elmo_cli.analysis.form import Form, unlike
from elmo_cli.analysis.labels import LabelledSentence, LabelSettings, read_labels
from elmo_cli.analysis.part import Part
from elmo_cli.errors import ElmoError, EmbeddingsFileError, InputError, UsageError
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.input import InputSettings, format_of

_ONE_TEXT = "embeddings and labels have to be of one text, sentence by sentence"


def read_part(vectors_file: str, labels_file: str, settings: LabelSettings | None = None) -> Part:
    """Join the sentences of an embeddings file and of a label file, and compare them.

    Where both know the tokens these are compared, elsewhere their numbers. A sentence without
    labels needs no place in the embeddings file. One with labels that is missing between others was
    left out when the text was embedded: it is counted in `Part.lacking`.

    Raises:
        EmbeddingsFileError: the file can't be read, or has sentences that the labels lack.
        InputError: the labels can't be read, or are not those of the file.
        UsageError: labels in a form that has none, or that can't be joined with the file.
    """
    settings = settings or LabelSettings()
    with open_embeddings(vectors_file) as embeddings:
        form = _form_of(embeddings)
        column = _token_column(embeddings, labels_file, settings)
        sentences = read_labels(labels_file, settings, column)
        joined = _Joined(embeddings, form, labels_file)
        for given, key in _with_keys(embeddings, sentences):
            joined.add(given, key)
        return joined.part(settings.column_of(labels_file))


def _form_of(embeddings: Embeddings) -> Form:
    """The form of a file of sentences.

    Raises:
        EmbeddingsFileError: it has vectors of types, or none at all.
    """
    if embeddings.unit == "types":
        raise EmbeddingsFileError(
            f"{embeddings.path}: holds types, not sentences",
            "a probe needs the vectors of a text: `elmo embed` without `--layout bilm-types`",
        )
    form = Form.of(embeddings)
    if not form.dim:
        raise EmbeddingsFileError(
            f"{embeddings.path}: has no sentences", "`elmo inspect` shows what a file holds"
        )
    return form


class _Joined:
    """A part that grows by one sentence after the other."""

    def __init__(self, embeddings: Embeddings, form: Form, labels_file: str) -> None:
        self._embeddings, self._form, self._labels_file = embeddings, form, labels_file
        self._keys: list[Key] = []
        self._counts: list[int] = []
        self._labels: list[str] = []
        self._words: list[str] = []
        self._knows_words = not form.by_sentence
        self._found: set[Key] = set()
        self._lacking = 0
        self._strings: dict[str, str] = {}

    def add(self, given: LabelledSentence, key: Key) -> None:
        """Join a sentence with what the embeddings file has under a key.

        Raises:
            EmbeddingsFileError, InputError: as `read_part`.
        """
        try:
            shape = self._embeddings.shape(key)
        except KeyError:
            self._lack(given, key)
            return
        self._found.add(key)
        count = self._form.n_vectors(shape)
        if count is None:
            raise unlike(self._embeddings.path, key, shape, self._form)
        if self._form.by_sentence and not given.labels:
            return
        if count != len(given.labels):
            raise self._miscounted(given, count)
        if not self._form.by_sentence:
            self._add_words(given, key)
        if count:
            self._keys.append(key)
            self._counts.append(count)
            self._labels += self._once(given.labels)

    def part(self, column: str | None) -> Part:
        """All that was joined.

        Raises:
            EmbeddingsFileError: the file has sentences that the labels lack.
        """
        embeddings, n_found = self._embeddings, len(self._found)
        if n_found != len(embeddings):
            raise EmbeddingsFileError(
                f"{embeddings.path}: has {len(embeddings)} sentences, {self._labels_file} has "
                f"{n_found} of them",
                _ONE_TEXT,
            )
        return Part(
            vectors_file=str(embeddings.path),
            labels_file=self._labels_file,
            form=self._form,
            keys=tuple(self._keys),
            counts=tuple(self._counts),
            labels=self._labels,
            words=self._words if self._knows_words else None,
            column=column,
            lacking=self._lacking,
        )

    def _lack(self, given: LabelledSentence, key: Key) -> None:
        if not given.labels:
            return
        if isinstance(key, int) and key in self._span:
            self._lacking += 1
            return
        raise InputError(
            f"{given.place}: sentence {given.sentence.key} has labels, "
            f"{self._embeddings.path} has no such sentence",
            _ONE_TEXT,
        )

    @cached_property
    def _span(self) -> range:
        """The numbers from the first sentence of the file to its last; none if it has names."""
        if self._embeddings.is_keyed_by_name:
            return range(0)
        keys = [int(key) for key in self._embeddings]
        return range(min(keys), max(keys) + 1)

    def _miscounted(self, given: LabelledSentence, count: int) -> ElmoError:
        n_labels, path = len(given.labels), self._embeddings.path
        has = "1 label" if n_labels == 1 else f"{n_labels} labels"
        where = f"{given.place}: {has} for sentence {given.sentence.key}"
        if self._form.by_sentence:
            return InputError(
                f"{where}, {path} has one vector for it",
                "give one label a line, or make the embeddings anew without `--pool`",
            )
        tokens = "1 token" if count == 1 else f"{count} tokens"
        if not n_labels:
            return InputError(
                f"{where}, {path} has {tokens} of it",
                "a blank line of labels is a sentence without tokens: take the line out",
            )
        return InputError(
            f"{where}, {path} has {tokens} of it",
            f"`elmo inspect {path} --text {self._labels_file}` lists the differences"
            if given.has_tokens
            else "a line has a label for each token, parted by white space; a file with a token "
            "a line is read with `--label-format conll`",
        )

    def _add_words(self, given: LabelledSentence, key: Key) -> None:
        told = self._embeddings.tokens(key)
        words = given.sentence.tokens if given.has_tokens else told
        if words is None:
            self._knows_words = False
            return
        if told is not None and len(told) != len(words):
            raise self._miscounted(given, len(told))
        if told is not None and told != words:
            pairs = zip(told, words, strict=True)
            number, (held, given_word) = next(
                (k, pair) for k, pair in enumerate(pairs, 1) if pair[0] != pair[1]
            )
            raise InputError(
                f"{given.place}: token {number} of sentence {given.sentence.key} is "
                f"`{given_word}`, in {self._embeddings.path} it is `{held}`",
                _ONE_TEXT,
            )
        self._words += self._once(words)

    def _once(self, words: tuple[str, ...]) -> list[str]:
        """The same words, each of them one object for all its occurrences."""
        return [self._strings.setdefault(word, word) for word in words]


def _with_keys(
    embeddings: Embeddings, sentences: Iterator[LabelledSentence]
) -> Iterator[tuple[LabelledSentence, Key]]:
    """The sentences, each with the key that it should have in the embeddings file."""
    first = next(sentences, None)
    if first is None:
        return
    sentences = chain([first], sentences)
    if not embeddings.is_keyed_by_name:
        yield from ((given, given.sentence.key) for given in sentences)
    elif first.has_tokens:
        yield from ((given, embeddings.key_of(given.sentence)) for given in sentences)
    else:
        yield from _in_order(embeddings, list(sentences))


def _in_order(
    embeddings: Embeddings, given: list[LabelledSentence]
) -> Iterator[tuple[LabelledSentence, Key]]:
    """Lines of labels with the sentences of a file that names them, one after the other.

    Raises:
        UsageError: the file does not tell their order, or lacks some.
    """
    if not embeddings.order_is_known or embeddings.count("duplicate_sentences"):
        why = "holds equal sentences once" if embeddings.order_is_known else "loses their order"
        raise UsageError(
            f"{embeddings.path}: names its sentences and {why}, so lines of labels have no place "
            "in it",
            "give the labels in columns beside the tokens, with the names of documents where the "
            "file has such, or embed with `--layout flat`",
        )
    if len(given) != len(embeddings):  # a blank line has no name
        given = [one for one in given if one.labels]
    for number, one in enumerate(given, embeddings.first_sentence):
        yield one, number


def _token_column(embeddings: Embeddings, path: str, settings: LabelSettings) -> int | None:
    """The column that the tokens were read from, if the text had the format of the labels."""
    column = embeddings.attributes.get("column")
    try:
        source = str(embeddings.attributes["sources"][0][0])
        text = InputSettings(format=str(embeddings.attributes.get("format", "auto")))
    except (KeyError, IndexError, TypeError, UsageError):
        return None
    same = format_of(source, text) == settings.format_of(path)
    return column if same and isinstance(column, int) and column != 0 else None
