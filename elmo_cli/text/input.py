"""From the names of text files to sentences: check the names, and choose a reader for each."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from elmo_cli.errors import InputError, UsageError
from elmo_cli.filetypes import FASTA
from elmo_cli.regular_files import is_regular
from elmo_cli.text.chunks import STDIN, check_input_file
from elmo_cli.text.column_format import DOCSTART, Columns, is_row
from elmo_cli.text.column_signs import CSV_HINT, MOST, csv_sign
from elmo_cli.text.conll import read_conll, read_conllu
from elmo_cli.text.fasta import read_fasta
from elmo_cli.text.input_report import InputReport as InputReport
from elmo_cli.text.input_report import SourceStart
from elmo_cli.text.input_settings import InputSettings as InputSettings
from elmo_cli.text.input_signs import N_CHECKED, TextSample, signs_of_text, warn_of_signs
from elmo_cli.text.jsonl import read_jsonl
from elmo_cli.text.lines import LineReader
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.tokenizer import SplitSentence, sentence_splitter
from elmo_cli.text.white_space import warn_of_hidden_separator
from elmo_cli.text.wrapped_lines import warn_of_wrapped_lines

Name = str | os.PathLike[str]

SUFFIXES = {  # suffix -> format
    ".jsonl": "jsonl",
    ".jsonlines": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "plain",
    ".conllu": "conllu",
    ".conll": "conll",
    "_conll": "conll",
    ".fasta": "fasta",
    ".faa": "fasta",
    ".fa": "fasta",
}
_MAX_CHARACTERS = 100_000  # of a line, that are examined
_MAX_LABELLED = 99  # tokens of a line, that are examined
_COLUMNS_HINT = (
    "`format='conll'` reads one token per line, `format='plain'` one sentence per line with all "
    "columns as its tokens; `cut -f` takes one column out"
)
_COLUMN_MARKS = (DOCSTART, "#begin document (")
_LABEL = re.compile(r"O|[BIESLU]-[\w-]+")


def read_sentences(
    paths: Name | Sequence[Name],
    settings: InputSettings | None = None,
    report: InputReport | None = None,
    *,
    columns: Columns | None = None,
    checks_text: bool = True,
) -> Iterator[Sentence]:
    """Yield the sentences of text files in order; memory does not grow with their number.

    Args:
        paths: names of files or pipes, compressed or not, "-" for standard input; or one name.
        report: receives warnings and counts; complete after the last sentence.
        columns: the columns of the tokens and the labels; all files must be CoNLL-U then.
        checks_text: report signs that the text is not what it is read as, and truncated tokens;
            False for sentences that were checked in another file.
    Raises:
        UsageError: settings that contradict the format of a file, or no name at all.
        InputError: a file that can't be read, or a line in it; it names the file and the line.
    """
    settings = settings or InputSettings()
    report = report if report is not None else InputReport()
    checked_paths = check_inputs(paths, settings)
    sentences = _numbered(checked_paths, settings, report, columns)
    return _checked(sentences, settings, report) if checks_text else sentences


def read_columns(
    path: str, settings: InputSettings, columns: Columns, report: InputReport | None = None
) -> Iterator[Sentence]:
    """Yield the sentences of a file of columns, with their labels if `columns` has a label column.

    Args:
        report: receives warnings.
    Raises:
        UsageError, InputError: those of `read_sentences`, which reads the same tokens.
    """
    check_inputs(path, settings)
    report = report if report is not None else InputReport()
    reader = LineReader(path, settings, report)
    if format_of(path, settings) == "conllu":
        return read_conllu(reader, 0, columns)
    return read_conll(reader, 0, columns)


def check_inputs(paths: Name | Sequence[Name], settings: InputSettings | None = None) -> list[str]:
    """The names of inputs; an error for one that `read_sentences` would refuse without reading."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    names = [os.fspath(path) for path in paths]
    if not names:
        raise UsageError("no input: no file is named", "name text files, or `-` for standard input")
    if names.count(STDIN) > 1:
        problem = "standard input is named twice and can be read only once"
        hint = "name `-` once; save the text to a file to read it twice"
        raise UsageError(problem, hint, where=STDIN)
    settings = settings or InputSettings()
    for name in names:
        if name != STDIN:
            check_input_file(name)
        if settings.format == "auto":
            _check_suffix(name)
        settings.check_fits(format_of(name, settings))
    return names


def with_recorded_rows(
    settings: InputSettings, paths: Sequence[str], attributes: Mapping[str, object]
) -> InputSettings:
    """The settings with the rows of CoNLL-U that an embeddings file records for its text.

    Args:
        paths: the texts to be read; those in other formats have no such rows.
        attributes: those of the file, which has none if another program wrote it.
    """
    rows = attributes.get("rows")
    is_conllu = all(format_of(path, settings) == "conllu" for path in paths)
    return replace(settings, rows=rows) if isinstance(rows, str) and is_conllu else settings


def require_files(what: str, paths: Sequence[str]) -> None:
    """Raise a UsageError for standard input and pipes, where `what` reads a text repeatedly."""
    for path in paths:
        if is_stream(path):
            name = "standard input" if path == STDIN else path
            problem = f"{name} can be read only once, and its length is not known"
            raise UsageError(problem, "write the text to a file first", where=what)


def is_stream(path: str) -> bool:
    """Whether a name stands for what can be read only once: standard input or a pipe."""
    return path == STDIN or not is_regular(path)


def format_of(name: str, settings: InputSettings) -> str:
    """The format of a file: that of the settings, or by the suffix of its name.

    A file that is plain text by its suffix is read as FASTA if it begins like FASTA.
    """
    if settings.format != "auto":
        return settings.format
    bare_name = without_compression_suffix(name)
    for suffix, text_format in SUFFIXES.items():
        if bare_name.endswith(suffix):
            return text_format
    return "plain"


def without_compression_suffix(name: str) -> str:
    """The name of a file in lower case, without .gz or .xz."""
    return name.lower().removesuffix(".gz").removesuffix(".xz")


def stem(name: str) -> str:
    """The name of a file without the suffixes of compression and format."""
    for suffix in (".gz", ".xz", *SUFFIXES):
        if suffix.startswith(".") and name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name


def _check_suffix(name: str) -> None:
    """Raise a UsageError for the suffix of a table, which does not say what a row is."""
    bare_name = without_compression_suffix(name)
    if bare_name.endswith(".tsv"):
        problem = "the suffix .tsv does not tell whether a line holds a token or a sentence"
        raise UsageError(problem, _COLUMNS_HINT, where=name)
    if bare_name.endswith(".csv"):
        raise UsageError("a table by its suffix .csv", CSV_HINT, where=name)


def _numbered(
    paths: list[str],
    settings: InputSettings,
    report: InputReport,
    columns: Columns | None,
) -> Generator[Sentence, None, None]:
    key = 0
    for path in paths:
        report.sources.append(SourceStart(path, first_key=key))
        reader = LineReader(path, settings, report)
        text_format = _format_of_content(reader)
        if text_format == "fasta":
            reader.expected = FASTA
        if columns is not None:
            key = yield from read_conllu(reader, key, columns)
        else:
            read = _READERS[text_format]
            key = yield from read(reader, key)
    report.n_keys = key
    for kind, warning in report.residues.warnings():
        report.warn(kind, warning)


def _format_of_content(reader: LineReader) -> str:
    """The format of a file that is about to be read; its first lines may show that it is FASTA.

    Raises:
        UsageError: settings that have no meaning for FASTA, which the file turns out to be.
    """
    text_format = format_of(reader.path, reader.settings)
    is_unknown = reader.settings.format == "auto" and text_format == "plain"
    if is_unknown and reader.is_fasta():
        reader.settings.check_fits("fasta")
        return "fasta"
    return text_format


def _checked(
    sentences: Iterable[Sentence], settings: InputSettings, report: InputReport
) -> Iterator[Sentence]:
    """The same sentences; what is noticed about each goes to the report."""
    max_length = settings.max_characters - 2  # two characters mark the ends of a token
    is_unicode = settings.is_unicode
    signs = signs_of_text(any_script=is_unicode)
    sample = TextSample()
    is_checked = False
    for sentence in sentences:
        if sentence.tokens:
            report.count_truncated(sentence, max_length, is_unicode=is_unicode)
            if not is_checked:
                sample.add(sentence.text, sentence.tokens, sentence.where)
                if sample.is_full:
                    warn_of_signs(sample, report, signs)
                    is_checked = True
        yield sentence
    if not is_checked:
        warn_of_signs(sample, report, signs)


def _read_plain(reader: LineReader, key: int) -> Generator[Sentence, None, int]:
    """Yield the sentences of a plain text.

    Without `tokenize` every line is a sentence and line i (from 0) of the file has the key
    `key` + i. With it every line is a paragraph, whose sentences have consecutive keys. A blank
    line is a sentence without tokens in both cases, and a document starts after it. A line that is
    refused, or blank with `blank` "skip", leaves a gap of one key.

    Source: `strip().split()` in bilm-tf `bilm/elmo.py` and AllenNLP `commands/elmo.py`.
    """
    lines = reader.lines()
    if reader.settings.format == "auto":
        lines = _refuse_columns(reader, lines)
    split = sentence_splitter(reader.settings)
    is_raw = reader.settings.tokenize
    if is_raw:
        lines = warn_of_wrapped_lines(reader, lines)
    starts_document = True
    for number, line in enumerate(lines, 1):
        if line is None:
            key += 1
            continue
        if not is_raw and not line.isprintable():  # it may have whitespace other than spaces
            warn_of_hidden_separator(line, reader.where(number), reader.report)
        sentences = split(line)
        if not sentences:
            sentences = [SplitSentence([], "")]  # of a blank line
        for tokens, text in sentences:
            if reader.admit(len(tokens), number):
                yield Sentence(
                    tokens=tuple(tokens),
                    key=key,
                    text=text,
                    source=reader.path,
                    line=number,
                    starts_document=starts_document,
                )
                starts_document = False
            if not tokens:
                starts_document = True
            key += 1
    return key


def _refuse_columns(reader: LineReader, lines: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the same lines; an InputError after the first ones if they look like columns or CSV."""
    first: list[str | None] = []
    for line in islice(lines, N_CHECKED):
        yield line
        first.append(line)
    number = _first_line_of_columns(first)
    if number is not None:
        problem = "looks like columns, such as a token and its label"
        raise InputError(problem, _COLUMNS_HINT, where=reader.where(number))
    rows = [(number, line) for number, line in enumerate(first, 1) if line and line.strip()]
    sign = csv_sign([line for _, line in rows])
    if sign is not None:
        first_row_number, _ = rows[0]
        raise InputError(sign.problem, sign.hint, where=reader.where(first_row_number))
    yield from lines


def _first_line_of_columns(lines: Sequence[str | None]) -> int | None:
    """The number, from 1, of the first line that looks like columns; None if none does.

    Signs are a mark of such files, or, in nearly all lines, the same number of tabs, or of tokens
    with a label at the end.
    """
    rows: list[tuple[int, str]] = []
    marked_lines: list[int] = []
    for number, line in enumerate(lines, 1):
        if line is None:
            continue
        if is_row(line):
            rows.append((number, line.rstrip()))
        elif line.startswith(_COLUMN_MARKS):
            marked_lines.append(number)
    texts = [text for _, text in rows]
    if _have_equal_tabs(texts) or _have_labels(texts):
        first_row_number, _ = rows[0]
        marked_lines.append(first_row_number)
    return min(marked_lines, default=None)


def _have_equal_tabs(rows: Sequence[str]) -> bool:
    """Whether at least two, and nearly all, rows have the same number of tabs, which is not 0."""
    n_rows_by_tabs = Counter(row.count("\t", 0, _MAX_CHARACTERS) for row in rows)
    del n_rows_by_tabs[0]
    n_equal = max(n_rows_by_tabs.values(), default=0)
    return n_equal >= 2 and n_equal >= MOST * len(rows)


def _have_labels(rows: Sequence[str]) -> bool:
    """Whether at least three, and nearly all, rows have as many tokens, the last one a label."""
    n_rows_by_tokens = Counter[int]()
    for row in rows:
        tokens = row.split(None, _MAX_LABELLED)
        if len(tokens) > 1 and _LABEL.fullmatch(tokens[-1]):
            n_rows_by_tokens[len(tokens)] += 1
    n_equal = max(n_rows_by_tokens.values(), default=0)
    return n_equal >= 3 and n_equal >= MOST * len(rows)


# They take the key of the first sentence, and return that of the first one of the next file.
_READERS: dict[str, Callable[[LineReader, int], Generator[Sentence, None, int]]] = {
    "plain": _read_plain,
    "conll": read_conll,
    "conllu": read_conllu,
    "jsonl": read_jsonl,
    "fasta": read_fasta,
}
