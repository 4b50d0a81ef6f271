"""The rows of a tree of CoNLL-U: words, ranges of words (`3-4`) and empty nodes (`5.1`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened
from elmo_cli.text.column_format import Columns, SentenceLines
from elmo_cli.text.lines import LineError, LineReader
from elmo_cli.text.row_groups import SentenceRows

_OTHER_COLUMNS = re.compile(r"#\s*global\.columns\s*=(?!\s*\S+\s+FORM(?!\S))")  # CoNLL-U Plus
_ID = re.compile(r"(?P<word>\d+)(?:-(?P<end>\d+)|\.(?P<empty_node>\d+))?")
_WORD_IDS = [str(number) for number in range(1, 1001)]  # of a sentence that is read fast
_RANGE_HINT = "a range such as `3-4` is above the rows of its words; correct it"


def max_splits(columns: Columns) -> int:
    """Return at how many tabs a row of CoNLL-U is split; -1 for all.

    The columns after the last one that is read need not be split.
    """
    numbers = [columns.tokens.number or 2]
    if columns.labels is not None:
        numbers.append(columns.labels.number or 1)
    counts_from_end = min(numbers) < 0
    are_equal = len(set(numbers)) < len(numbers)  # the message about it has the number of columns
    if counts_from_end or are_equal:
        return -1
    return max(numbers)


def read_conllu_rows(
    reader: LineReader, columns: Columns, n_splits: int, sentence_lines: SentenceLines
) -> SentenceRows:
    """The rows of a tree that `reader.settings.rows` chooses.

    Args:
        n_splits: from `max_splits`.
    Raises:
        InputError: the second column of CoNLL-U Plus is not FORM, and no column is given.
        LineError: a line is no row, or its ID is not the next one.
    """
    words = _read_words(reader, sentence_lines, n_splits)
    if words is not None:
        return words
    tree = _Tree(reader.settings.rows, columns.tokens.parameter)
    for number, line in sentence_lines.readable():
        if line[0] == "#":
            if columns.tokens.number is None and _OTHER_COLUMNS.match(line):
                raise _other_columns(reader.where(number), line, columns.tokens.parameter)
        else:
            tree.add(number, line, n_splits)
    tree.check_end()
    if reader.settings.rows == "words":
        reader.report.rows_left_out += tree.n_others
    return SentenceRows(tree.lines, tree.cells)


def _other_columns(where: str, line: str, parameter: str) -> InputError:
    problem = f"{shortened(line)!r}: FORM is not column 2"
    hint = f"give its number, such as `{parameter}=3`"
    return InputError(problem, hint, where=where, parameters=(parameter,))


@dataclass
class _Tree:
    """The rows of a tree, which are added one by one.

    Attributes:
        chosen: which rows are kept: "words", "tokens" or "all", as in `InputSettings`.
        parameter: what messages call the column of the tokens.
        n_words: how many words there are, whose IDs are 1, 2, ….
        n_others: how many ranges of words and empty nodes there are.
        range_end: with "tokens", the last word of the last range, which stands for its words.
        first_line, last_line: numbers of the lines of the first and the last row.
        lines, cells: the rows that are kept, as in `SentenceRows`.
    """

    chosen: str
    parameter: str
    n_words: int = 0
    n_others: int = 0
    range_end: int = 0
    first_line: int = 0
    last_line: int = 0
    lines: list[int] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)

    def add(self, number: int, line: str, n_splits: int) -> None:
        """Add the row on a line; a LineError if it is none, or not the next one."""
        self.first_line = self.first_line or number
        self.last_line = number
        cells = line.split("\t", n_splits)
        row_id = _ID.fullmatch(cells[0])
        if len(cells) == 1 or row_id is None:
            problem = (
                f"{shortened(line)!r} is not a row of CoNLL-U, which begins with a number and a tab"
            )
            hint = "for other columns `format='conll'`, for one sentence per line `format='plain'`"
            raise LineError(problem, hint, line=number, parameters=("format",))
        if row_id["end"]:
            is_kept = self._is_range_kept(row_id, number)
        elif row_id["empty_node"]:
            self.n_others += 1
            is_kept = self.chosen == "all"
        else:
            is_kept = self._is_word_kept(cells[0], number)
        if is_kept:
            self.lines.append(number)
            self.cells.append(cells)

    def _is_range_kept(self, row_id: re.Match[str], number: int) -> bool:
        self.n_others += 1
        if self.chosen == "tokens":
            first_word = max(self.n_words, self.range_end) + 1
            self.range_end = _range_end(row_id, number, first_word=first_word)
        return self.chosen != "words"

    def _is_word_kept(self, word_id: str, number: int) -> bool:
        self.n_words += 1
        if word_id != str(self.n_words):
            problem = (
                f"ID {shortened(word_id)!r} instead of {self.n_words}; is a blank line missing?"
            )
            hint = (
                f"`format='conll'` with `{self.parameter}=2` reads the words and ignores their IDs"
            )
            raise LineError(problem, hint, line=number, parameters=("format", self.parameter))
        return self.n_words > self.range_end

    def check_end(self) -> None:
        """Raise a LineError if words are missing."""
        if self.n_others and not self.n_words:
            problem = "a sentence of ranges or empty nodes, no words"
            raise LineError(problem, "add its words", line=self.first_line)
        if self.range_end > self.n_words:
            problem = f"a range ends at word {self.range_end}, the sentence at word {self.n_words}"
            raise LineError(problem, _RANGE_HINT, line=self.last_line)


def _range_end(row_id: re.Match[str], line: int, *, first_word: int) -> int:
    """The last word of a range; a LineError unless it begins at the next word."""
    begin = int(row_id["word"])
    end = int(row_id["end"])
    if begin != first_word or end < begin:
        problem = f"the range {row_id[0]!r} does not begin at the next word, {first_word}"
        raise LineError(problem, _RANGE_HINT, line=line)
    return end


def _read_words(reader: LineReader, lines: SentenceLines, n_splits: int) -> SentenceRows | None:
    """The rows of the words of a tree; None if it may be invalid, or other rows are to be read."""
    texts = [text for text in lines.texts if text is not None]
    n_comments = 0
    while n_comments < len(texts) and texts[n_comments][0] == "#":
        n_comments += 1
    may_have_other_columns = "global.columns" in "\n".join(texts[:n_comments])
    cells_of_rows = [line.split("\t", n_splits) for line in texts[n_comments:]]
    if may_have_other_columns or not cells_of_rows or min(map(len, cells_of_rows)) == 1:
        return None
    first_line = lines.first + n_comments
    ids = [cells[0] for cells in cells_of_rows]
    if ids == _WORD_IDS[: len(ids)]:  # most trees
        return SentenceRows(range(first_line, first_line + len(ids)), cells_of_rows)
    word_rows = [row for row, row_id in enumerate(ids) if row_id.isdigit()]
    word_ids = [ids[row] for row in word_rows]
    other_ids = [row_id for row_id in ids if not row_id.isdigit()]  # ranges and empty nodes
    if reader.settings.rows != "words" or not all(map(_ID.fullmatch, other_ids)):
        return None
    if not word_ids or word_ids != _WORD_IDS[: len(word_ids)]:
        return None
    reader.report.rows_left_out += len(other_ids)
    numbers = [first_line + row for row in word_rows]
    return SentenceRows(numbers, [cells_of_rows[row] for row in word_rows])
