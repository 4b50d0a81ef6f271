"""Split: the content of a data file, with readers for lines, columns and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import Any, NamedTuple

from elmo_cli.regular_files import unique_keys
from elmo_cli.text.input import check_inputs, format_of
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import Tokens, token_problem
from elmo_cli.text.tokenizer import EnglishTokenizer

BEGIN = "#begin document"
END = "#end document"
_OBJECT = re.compile(r"\s*\{\s*\"")  # the start of a JSON object
_tokenizer = cache(EnglishTokenizer)


class ColumnsRow(NamedTuple):
    """A line of columns: "FILE, line N", and cells, split at tabs if it has any, else at spaces."""

    where: str
    cells: list[str]


class ColumnsDocument(NamedTuple):
    """A document of a file of columns, as in CoNLL-2012.

    Attributes:
        heading: the text after its `#begin document`, by default the path of the file.
        sentences: the rows of each sentence.
    """

    heading: str
    sentences: list[list[ColumnsRow]]


@dataclass
class Split:
    """The content of a data file.

    Attributes:
        where: the file and the line that is being read, for messages.
    """

    path: str
    sentences: list[Tokens] = field(default_factory=list)
    examples: list[Any] = field(default_factory=list)
    where: str = ""

    def __post_init__(self) -> None:
        self._lines = self._read_lines()

    @cached_property
    def is_jsonl(self) -> bool:
        """Whether the file contains JSON lines, according to its suffix or its first line."""
        first = next(self._lines, "")
        self._lines = chain([first], self._lines)
        has_suffix = format_of(self.path, InputSettings()) == "jsonl"
        return has_suffix or _OBJECT.match(first) is not None

    def add(self, *sentences: Sequence[str]) -> tuple[int, ...]:
        """Append sentences, and return their indices; ValueError for an invalid sentence."""
        for tokens in sentences:
            _check_tokens(tokens)
        first = len(self.sentences)
        self.sentences += map(tuple, sentences)
        return tuple(range(first, len(self.sentences)))

    def lines(self) -> Iterator[str]:
        """Return an iterator over the lines of the file, which may be compressed; it works once."""
        return self._lines

    def _read_lines(self) -> Iterator[str]:
        settings = InputSettings(format="plain")  # whatever the file suffix
        check_inputs(self.path, settings)
        reader = LineReader(self.path, settings, InputReport())
        for number, line in enumerate(reader.lines(), 1):
            self.where = f"{self.path}, line {number}"
            yield line or ""

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of a file of JSON lines; ValueError if a line is not an object."""
        for line in self.lines():
            if line.strip():
                value = parse_json(line)
                if not isinstance(value, dict):
                    raise ValueError("JSON, but not an object")
                yield value

    def documents(self) -> Iterator[ColumnsDocument]:
        """Yield the documents of a file of columns; blank lines separate sentences."""
        heading = self.path
        sentences: list[list[ColumnsRow]] = []
        rows: list[ColumnsRow] = []  # of the sentence that is being read
        for line in self.lines():
            is_row = line.strip() and not line.startswith((BEGIN, END))
            if is_row:
                rows.append(ColumnsRow(self.where, _split_cells(line)))
                continue
            if rows:
                sentences.append(rows)
                rows = []
            if line.startswith(BEGIN):
                if sentences:
                    yield ColumnsDocument(heading, sentences)
                heading = line.removeprefix(BEGIN).strip()
                sentences = []
        if rows:
            sentences.append(rows)
        if sentences:
            yield ColumnsDocument(heading, sentences)


def _check_tokens(tokens: Sequence[str]) -> None:
    """Raise a ValueError if a sentence has no tokens or one that a sentence cannot have."""
    if not tokens:
        raise ValueError("a sentence has no tokens")
    for token in tokens:
        problem = token_problem(token)
        if problem:
            raise ValueError(f"a token {problem}")


def _split_cells(line: str) -> list[str]:
    cells = line.split("\t") if "\t" in line else line.split()
    return [cell.strip() for cell in cells]


def parse_json(text: str) -> Any:
    """Parse JSON; ValueError if it is invalid, or an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value")


def member(
    members: Mapping[str, Any],
    *names: str,
    kinds: tuple[type, ...] = (str, int),
    required: bool = True,
) -> Any:
    """Return the first of these members of a JSON object that is neither null nor "".

    Returns None if there is none. ValueError if a value is `required`, but is missing or not of one
    of the kinds.
    """
    value = None
    for name in names:
        if members.get(name) not in (None, ""):
            value = members[name]
            break
    if required and type(value) not in kinds:
        raise ValueError(f"no valid {' or '.join(names)}")
    return value


def tokens_of(value: Any) -> Sequence[str]:
    """Return the tokens of a sentence in JSON: a list of tokens, or raw text, which is tokenized.

    ValueError if it is neither.
    """
    if isinstance(value, str):
        return list(chain.from_iterable(_tokenizer().sentences(value)))
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise ValueError("a sentence is neither a list of strings nor a string")
    return value
