"""Split: the content of a data file, with readers for lines, columns and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import Any, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.label_rules import is_no_label
from elmo_cli.messages import shortened
from elmo_cli.regular_files import INVALID_JSON, unique_keys
from elmo_cli.text.input import check_inputs, format_of
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.input_signs import TextSample
from elmo_cli.text.lines import LineReader
from elmo_cli.text.row_groups import read_row_groups
from elmo_cli.text.sentence import Tokens, token_problem
from elmo_cli.text.tokenizer import EnglishTokenizer
from elmo_cli.text.white_space import BLANK, is_blank
from elmo_cli.training.reporter import SkippedRow

BEGIN = "#begin document"
END = "#end document"
NO_TOKENS = -1  # instead of the index of a sentence without tokens, which a split does not contain
_MOST_NAMES = 8  # fields of an object that a message names
_KINDS = {  # of values in JSON, for messages
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
_OBJECT = re.compile(r"\s*\{\s*\"")  # the start of a JSON object
_tokenizer = cache(EnglishTokenizer)


class ColumnsRow(NamedTuple):
    """A line of columns: "FILE, line N", and its cells without white space at their ends."""

    where: str
    cells: list[str]


class ColumnsDocument(NamedTuple):
    """A document of a file of columns, as in CoNLL-2012.

    Attributes:
        heading: the text after its `#begin document`, by default the path of the file.
        sentences: the rows of each sentence.
        is_complete: whether no sentence is missing because one of its lines was refused.
    """

    heading: str
    sentences: list[list[ColumnsRow]]
    is_complete: bool


@dataclass
class Split:
    """The content of a data file, or of the part of it that has been read.

    Attributes:
        where: the file and the line that is being read, for messages.
        report: of the readers of lines and columns, with their warnings.
        sample: the first sentences, which show what the text is.
        on_error: "stop" at an invalid row, or "skip" it.
        key: the zero-based number of the row that is being read; those of `sentences` are `keys`.
        unlabelled: where there are examples without a label, which are left out.
        skipped: invalid rows and lines, which are left out.
    """

    path: str
    sentences: list[Tokens] = field(default_factory=list)
    examples: list[Any] = field(default_factory=list)
    where: str = ""
    report: InputReport = field(default_factory=InputReport)
    sample: TextSample = field(default_factory=TextSample)
    on_error: str = "stop"
    key: int = 0
    keys: list[int] = field(default_factory=list)
    unlabelled: list[str] = field(default_factory=list)
    skipped: list[SkippedRow] = field(default_factory=list)
    _n_refused_lines: int = field(default=0, init=False, repr=False)  # that `skipped` contains

    @cached_property
    def _reader(self) -> LineReader:
        # Tasks parse the lines themselves, so these are plain whatever the suffix of the file.
        settings = InputSettings(format="plain", on_error=self.on_error)
        check_inputs(self.path, settings)
        return LineReader(self.path, settings, self.report)

    @cached_property
    def is_jsonl(self) -> bool:
        """Whether the file contains JSON lines, according to its suffix or its first line."""
        has_suffix = format_of(self.path, InputSettings()) == "jsonl"
        return has_suffix or _OBJECT.match(self.first_line()) is not None

    def first_line(self) -> str:
        """Return the first line of the file; `lines` yields it again."""
        return self._reader.peek()

    def add(self, *sentences: Sequence[str], allow_blank: bool = False) -> tuple[int, ...]:
        """Append sentences, and return their indices; ValueError for an invalid sentence.

        With `allow_blank`, a sentence may have no tokens; its index is then `NO_TOKENS`.
        """
        numbers = []
        for tokens in sentences:
            if not tokens and allow_blank:
                numbers.append(NO_TOKENS)
                continue
            _check_tokens(tokens)
            numbers.append(len(self.sentences))
            self.sentences.append(tuple(tokens))
            self.keys.append(self.key)
            if not self.sample.is_full:
                self.sample.add(" ".join(tokens), tuple(tokens), self.where)
        return tuple(numbers)

    @contextmanager
    def row(self) -> Iterator[None]:
        """Read a row, which adds nothing if it is invalid and `on_error` is "skip"."""
        n_examples = len(self.examples)
        n_sentences = len(self.sentences)
        try:
            yield
        except INVALID_JSON as error:
            if self.on_error == "stop":
                raise
            self.cut(n_examples, n_sentences)
            self.skipped.append(SkippedRow(self.where, str(error)))

    def add_refused_lines(self) -> None:
        """Add to `skipped` the lines that the readers have refused since the last call."""
        for refused in self.report.skipped[self._n_refused_lines :]:
            where = f"{refused.source}, line {refused.line}"
            self.skipped.append(SkippedRow(where, refused.reason))
        self._n_refused_lines = len(self.report.skipped)

    def sentences_of_examples(self) -> dict[int, Tokens]:
        """Return the sentences of the examples by their index in `sentences`, which ascends."""
        numbers = {number for example in self.examples for number in example.sentences}
        return {number: self.sentences[number] for number in sorted(numbers - {NO_TOKENS})}

    def cut(self, n_examples: int, n_sentences: int) -> None:
        """Keep only the first examples and sentences."""
        del self.examples[n_examples:]
        del self.sentences[n_sentences:]
        del self.keys[n_sentences:]

    def take(self) -> Split:
        """Return the rows that have been read as a split of their own, and remove them."""
        taken = Split(self.path, self.sentences, self.examples, keys=self.keys)
        self.sentences = []
        self.examples = []
        self.keys = []
        return taken

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file, which may be compressed; this works once."""
        for number, line in enumerate(self._reader.lines(), 1):
            self.where = self._reader.where(number)
            yield line or ""

    def refuse_json_list(self) -> None:
        """Raise an InputError for a list of objects, as `json.dump` and pandas write it."""
        if self.first_line().lstrip().startswith("["):
            problem = "a JSON list, not an object per line"
            hint = "`jq -c '.[]' FILE > NEW_FILE` writes each element of the list on a line"
            raise InputError(problem, hint, where=self.path)

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of a file of JSON lines; ValueError if a line is not an object."""
        self.refuse_json_list()
        next_key = 0
        for line in self.lines():
            if is_blank(line):
                continue
            self.key = next_key
            next_key += 1
            value = None
            with self.row():
                value = parse_json(line)
                if not isinstance(value, dict):
                    raise ValueError("JSON, but not an object")
            if isinstance(value, dict):
                yield value

    def documents(self) -> Iterator[ColumnsDocument]:
        """Yield the documents of a file of columns; blank lines separate sentences."""
        heading = self.path
        sentences: list[list[ColumnsRow]] = []
        is_complete = True
        for group in read_row_groups(self._reader):
            for line in group.headings:
                if line.startswith(END):
                    continue
                if sentences:
                    yield ColumnsDocument(heading, sentences, is_complete)
                    sentences = []
                    heading = self.path
                is_complete = True
                if line.startswith(BEGIN):
                    heading = line.removeprefix(BEGIN).strip()
            if group.is_refused:
                is_complete = False
            rows = []
            for number, cells in zip(group.rows.lines, group.rows.cells, strict=True):
                rows.append(self._columns_row(number, cells))
            if rows:
                sentences.append(rows)
        if sentences:
            yield ColumnsDocument(heading, sentences, is_complete)

    def _columns_row(self, line: int, cells: list[str]) -> ColumnsRow:
        self.where = self._reader.where(line)
        return ColumnsRow(self.where, [cell.strip(BLANK) for cell in cells])


def _check_tokens(tokens: Sequence[str]) -> None:
    """Raise a ValueError if a sentence has no tokens or one that a sentence cannot have."""
    if not tokens:
        raise ValueError("a sentence has no tokens")
    for token in tokens:
        problem = token_problem(token)
        if problem:
            raise ValueError(f"a token {problem}")


def parse_json(text: str) -> Any:
    """Parse JSON; ValueError if it is invalid, or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_parse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None


def _parse_constant(name: str) -> None:
    """Return None for NaN, which stands for a value that is missing; others are refused."""
    if name != "NaN":
        raise ValueError(f"{name} is not a value")


def member(
    members: Mapping[str, Any],
    *names: str,
    kinds: tuple[type, ...] = (str, int),
    required: bool = True,
) -> Any:
    """Return the first of these members of a JSON object that is not null.

    Returns None if there is none. ValueError if a value is `required`, but is missing or not of one
    of the kinds.
    """
    value = None
    for name in names:
        if members.get(name) is not None:
            value = members[name]
            break
    if required and type(value) not in kinds:
        raise _invalid_member(members, names, value, kinds)
    return value


def label_member(
    members: Mapping[str, Any],
    *names: str,
    kinds: tuple[type, ...] = (str, int),
    required: bool = True,
) -> Any:
    """Return the first of these members that is a label; None if they say that there is none.

    ValueError if a label is `required`, but no member exists, or one is not of these kinds.
    """
    existing = [members[name] for name in names if name in members]
    labels = [value for value in existing if not is_no_label(value)]
    if labels and type(labels[0]) in kinds:
        return labels[0]
    if required and (labels or not existing):
        raise _invalid_member(members, names, labels[0] if labels else None, kinds)
    return None


def _invalid_member(
    members: Mapping[str, Any], names: Sequence[str], value: Any, kinds: Sequence[type]
) -> ValueError:
    """Return the error for a member that is missing, where `value` is None, or of another kind."""
    problem = f"no valid {' or '.join(names)}"
    if value is None:
        return ValueError(f"{problem}; {_fields_of(members)}")
    found = shortened(json.dumps(value, ensure_ascii=False))
    expected = [name for kind, name in _KINDS.items() if kind in kinds]
    if float in kinds:  # of which whole numbers are some
        expected.remove(_KINDS[int])
    return ValueError(f"{problem}: {found} is not {' or '.join(expected)}")


def _fields_of(members: Mapping[str, Any]) -> str:
    """Return which fields an object has, for messages."""
    names = [shortened(name) for name in members]
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"its fields are {', '.join(names[:_MOST_NAMES]) or 'none'}{more}"


def tokens_of(value: Any) -> Sequence[str]:
    """Return the tokens of a sentence in JSON: a list of tokens, or raw text, which is tokenized.

    ValueError if it is neither.
    """
    if isinstance(value, str):
        return list(chain.from_iterable(_tokenizer().sentences(value)))
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise ValueError("a sentence is neither a list of strings nor a string")
    return value
