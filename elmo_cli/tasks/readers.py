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

BEGIN, END = "#begin document", "#end document"
_OBJECT = re.compile(r"\s*\{\s*\"")  # the start of a JSON object
_tokenizer = cache(EnglishTokenizer)


class ColumnsRow(NamedTuple):
    """A line of columns: "FILE, line N", and cells, split at tabs if it has any, else at spaces."""

    where: str
    cells: list[str]


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
        return format_of(self.path, InputSettings()) == "jsonl" or bool(_OBJECT.match(first))

    def add(self, *sentences: Sequence[str]) -> tuple[int, ...]:
        """Append sentences, and return their indices; ValueError for an invalid sentence."""
        for tokens in sentences:
            if not tokens:
                raise ValueError("a sentence has no tokens")
            for problem in filter(None, map(token_problem, tokens)):
                raise ValueError(f"a token {problem}")
        first = len(self.sentences)
        self.sentences += map(tuple, sentences)
        return tuple(range(first, len(self.sentences)))

    def lines(self) -> Iterator[str]:
        """Return an iterator over the lines of the file, which may be compressed; it works once."""
        return self._lines

    def _read_lines(self) -> Iterator[str]:
        settings = InputSettings(format="plain")  # whatever the file suffix
        check_inputs(self.path, settings)
        for number, line in enumerate(LineReader(self.path, settings, InputReport()).lines(), 1):
            self.where = f"{self.path}, line {number}"
            yield line or ""

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of a file of JSON lines; ValueError if a line is not an object."""
        for line in self.lines():
            if line.strip():
                found = parse_json(line)
                if not isinstance(found, dict):
                    raise ValueError("JSON, but not an object")
                yield found

    def documents(self) -> Iterator[tuple[str, list[list[ColumnsRow]]]]:
        """Yield the documents of a file of columns, as in CoNLL-2012.

        A document is the text after its `#begin document`, by default the path, and the rows of
        each sentence. Blank lines separate sentences.
        """
        heading = self.path
        sentences: list[list[ColumnsRow]] = [[]]
        for line in chain(self.lines(), [BEGIN]):
            if line.strip() and not line.startswith((BEGIN, END)):
                cells = line.split("\t") if "\t" in line else line.split()
                sentences[-1].append(ColumnsRow(self.where, [cell.strip() for cell in cells]))
            elif sentences[-1]:
                sentences.append([])
            if line.startswith(BEGIN):
                if found := [rows for rows in sentences if rows]:
                    yield heading, found
                heading, sentences = line.removeprefix(BEGIN).strip(), [[]]


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
    given = (members.get(name) for name in names)
    value = next((one for one in given if one not in (None, "")), None)
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
