"""Label files: a column of labels beside the tokens, or a line of labels for each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elmo_cli.errors import UsageError
from elmo_cli.text.input import InputSettings, format_of, read_columns, read_sentences
from elmo_cli.text.sentence import Sentence

CONLLU_COLUMNS = (
    *("id", "form", "lemma", "upos", "xpos"),
    *("feats", "head", "deprel", "deps", "misc"),
)
_DEFAULTS = {"conllu": "xpos", "conll": "-1"}
_NO_LABEL = "_"
_MAX_TOKENS = 1 << 22  # of a sentence; more were hardly embedded, and an endless one must end


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence and its labels.

    Attributes:
        sentence: with its tokens; of plain text the line of labels as if it was the sentence.
        labels: one for each token, in order.
        has_tokens: whether the file holds the tokens too.
    """

    sentence: Sentence
    labels: tuple[str, ...]
    has_tokens: bool

    @property
    def place(self) -> str:
        """The file and the line in which it begins."""
        return f"{self.sentence.source}, line {self.sentence.line}"


@dataclass(frozen=True)
class LabelSettings:
    """How label files are to be read.

    Attributes:
        format: "plain" (a line of labels for each sentence), "conll", "conllu", or "auto", which
            goes by the suffix as `elmo embed` does.
        encoding: a text encoding that Python knows.
        column: the column of the labels: a number, counted from 1, or from the end with -1 the
            last; in CoNLL-U also a name such as "upos". None: "xpos" in CoNLL-U, elsewhere the
            last.
    """

    format: str = "auto"
    encoding: str = "utf-8"
    column: str | None = None

    def format_of(self, path: str) -> str:
        """The format that a label file is read as.

        Raises:
            UsageError: a format without labels, or a column where there are none.
        """
        found = format_of(path, InputSettings(format=self.format))
        if found == "jsonl":
            raise UsageError(
                f"{path}: labels are not read from JSON lines",
                "give CoNLL-U, columns, or a text with a line of labels for each sentence",
            )
        if found == "plain" and self.column is not None:
            raise UsageError(
                f"--label-column {self.column}: {path} is plain text, which has no columns",
                "add `--label-format conll` or `conllu`, or leave out `--label-column`",
            )
        return found

    def column_of(self, path: str) -> str | None:
        """The column of the labels as a message calls it; None in plain text."""
        return self.column or _DEFAULTS.get(self.format_of(path))

    def reading(self, path: str, column: int | None = None) -> InputSettings:
        """How the readers of text read a column of a label file."""
        return InputSettings(
            format=self.format_of(path),
            encoding=self.encoding,
            column=column,
            max_tokens=_MAX_TOKENS,
        )

    def column_number(self, path: str) -> int | None:
        """The number of the column of the labels; None in plain text.

        Raises:
            UsageError: no such column.
        """
        column, text_format = self.column_of(path), self.format_of(path)
        if column is None:
            return None
        if text_format == "conllu" and column.lower() in CONLLU_COLUMNS:
            return CONLLU_COLUMNS.index(column.lower()) + 1
        try:
            return int(column)
        except ValueError:
            names = f", or one of {', '.join(CONLLU_COLUMNS)}" if text_format == "conllu" else ""
            raise UsageError(
                f"--label-column {column}: no column of {path}, which is {text_format}",
                f"`--label-column` takes a number from 1, -1 for the last{names}",
            ) from None


def read_labels(
    path: str, settings: LabelSettings, token_column: int | None = None
) -> Iterator[LabelledSentence]:
    """The sentences of a label file with their labels; keys as `elmo embed` counts them.

    Comments, ranges of words (`1-2`) and empty nodes (`8.1`) have no labels, and in plain text a
    blank line is a sentence without labels.

    Args:
        token_column: of columns, that of the tokens; None: as `elmo embed` finds it.
    Raises:
        UsageError: as the methods of `settings`.
        InputError: a file that can't be read, or a line in it.
    """
    number = settings.column_number(path)
    if number is None:
        for line in read_sentences(path, settings.reading(path)):
            yield LabelledSentence(line, line.tokens, has_tokens=False)
        return
    columns = token_column, number
    for sentence, labels in read_columns(path, settings.reading(path, number), columns):
        yield LabelledSentence(sentence, labels.tokens, has_tokens=True)


def without_label(labels: list[str]) -> int:
    """How many of the labels of a column are `_`, which says that there is none."""
    return labels.count(_NO_LABEL)
