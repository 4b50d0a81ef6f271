"""From the names of text files to sentences: check the names, and choose a reader for each."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice, tee

from elmo_cli.errors import InputError, UsageError
from elmo_cli.regular_files import is_regular
from elmo_cli.text.conll import MOST, is_row, read_conll, read_conllu
from elmo_cli.text.input_report import InputReport as InputReport
from elmo_cli.text.input_settings import InputSettings as InputSettings
from elmo_cli.text.input_signs import N_CHECKED, warn_of_signs
from elmo_cli.text.jsonl import read_jsonl
from elmo_cli.text.lines import STDIN, LineReader, unreadable
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.tokenizer import sentence_splitter

Name = str | os.PathLike[str]

SUFFIXES = dict.fromkeys((".jsonl", ".jsonlines", ".ndjson", ".json"), "jsonl")
SUFFIXES |= {".txt": "plain", ".conllu": "conllu", ".conll": "conll", "_conll": "conll"}
_MAX_CHARACTERS, _MAX_LABELLED = 100_000, 99  # of a line, and tokens, that are examined
_TOKENS_CHECKED = 10_000  # of the first sentences, which a run checks before it computes any
_COLUMNS_HINT = (
    "`format='conll'` reads one token per line, `format='plain'` one sentence per line with all "
    "columns as its tokens; `cut -f` takes one column out"
)
_COLUMN_MARKS = ("-DOCSTART-", "#begin document (")
_LABEL = re.compile(r"O|[BIESLU]-[\w-]+")


def read_sentences(
    paths: Name | Sequence[Name],
    settings: InputSettings | None = None,
    report: InputReport | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences of text files in order; memory does not grow with their number.

    Args:
        paths: names of files or pipes, compressed or not, "-" for standard input; or one name.
        report: receives warnings and counts; complete after the last sentence.
    Raises:
        UsageError: settings that contradict the format of a file, or no name at all.
        InputError: a file that can't be read, or a line in it; it names the file and the line.
    """
    settings = settings or InputSettings()
    report = report if report is not None else InputReport()
    names = check_inputs(paths, settings)
    return _checked(_numbered(names, settings, report), settings, report)


def read_columns(
    path: str, settings: InputSettings, columns: Sequence[int | None]
) -> Iterator[tuple[Sentence, ...]]:
    """Yield each sentence of a file with each of some columns as its tokens; read it once."""
    check_inputs(path, settings)
    read = _READERS[format_of(path, settings)]
    reader = LineReader(path, settings, InputReport())
    copies = zip(columns, tee(reader.lines(), len(columns)), strict=True)
    readers = (reader.sharing(lines, column=column) for column, lines in copies)
    return zip(*(read(each, 0) for each in readers), strict=True)


def check_inputs(paths: Name | Sequence[Name], settings: InputSettings | None = None) -> list[str]:
    """The names of inputs; an error for one that `read_sentences` would refuse without reading."""
    names = [os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not names:
        raise UsageError("no input: no file is named", "name text files, or `-` for standard input")
    if names.count(STDIN) > 1:
        what = "-: standard input is named twice and can be read only once"
        raise UsageError(what, "name `-` once; save the text to a file to read it twice")
    settings = settings or InputSettings()
    for name in names:
        if name != STDIN:
            _check_path(name)
        if settings.format == "auto" and without_compression_suffix(name).endswith(".tsv"):
            what = "the suffix .tsv does not tell whether a line holds a token or a sentence"
            raise UsageError(f"{name}: {what}", _COLUMNS_HINT)
        settings.check_fits(format_of(name, settings))
    return names


def require_files(what: str, paths: Sequence[str]) -> None:
    """Raise a UsageError for standard input and pipes, where `what` reads a text repeatedly."""
    for path in filter(is_stream, paths):
        name = "standard input" if path == STDIN else path
        what = f"{what}: {name} can be read only once, and its length is not known"
        raise UsageError(what, "write the text to a file first")


def is_stream(path: str) -> bool:
    """Whether a name stands for what can be read only once: standard input or a pipe."""
    return path == STDIN or not is_regular(path)


def format_of(name: str, settings: InputSettings) -> str:
    """The format of a file: that of the settings, or by the suffix of its name."""
    if settings.format != "auto":
        return settings.format
    bare = without_compression_suffix(name)
    return next((text for suffix, text in SUFFIXES.items() if bare.endswith(suffix)), "plain")


def without_compression_suffix(name: str) -> str:
    """The name of a file in lower case, without .gz or .xz."""
    return name.lower().removesuffix(".gz").removesuffix(".xz")


def stem(name: str) -> str:
    """The name of a file without the suffixes of compression and format."""
    for suffix in (".gz", ".xz", *SUFFIXES):
        if suffix.startswith(".") and name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name


def _check_path(path: str) -> None:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        hint = f"name the files in it: `{os.path.join(path, '*')}`"
        raise InputError(f"{path}: a folder, not a file", hint)
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it", f"`ls -l {path}` shows who may")


def _numbered(
    names: list[str], settings: InputSettings, report: InputReport
) -> Generator[Sentence, None, None]:
    key = 0
    for name in names:
        report.sources.append((name, key))
        read = _READERS[format_of(name, settings)]
        key = yield from read(LineReader(name, settings, report), key)
    report.n_keys = key


def _checked(
    sentences: Iterable[Sentence], settings: InputSettings, report: InputReport
) -> Iterator[Sentence]:
    """The same sentences; what is noticed about each goes to the report."""
    first: list[Sentence] = []
    n_tokens, is_enough = 0, False
    for sentence in sentences:
        if sentence.tokens:
            report.count_truncated(sentence, settings.max_characters - 2)
            if not is_enough:
                first.append(sentence)
                n_tokens += len(sentence.tokens)
                is_enough = len(first) == N_CHECKED or n_tokens >= _TOKENS_CHECKED
                if is_enough:
                    warn_of_signs(first, report)
        yield sentence
    if not is_enough:
        warn_of_signs(first, report)


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
        lines = _refuse_columns(reader.name, lines)
    split, name, starts = sentence_splitter(reader.settings), reader.name, True
    for number, line in enumerate(lines, 1):
        sentences = () if line is None else split(line) or [([], "")]
        for tokens, text in sentences:
            if reader.admit(len(tokens), number):
                yield Sentence(tuple(tokens), key, text, name, number, starts_document=starts)
                starts = False
            starts = starts or not tokens
            key += 1
        key += line is None
    return key


def _refuse_columns(name: str, lines: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the same lines; raise an InputError after the first ones if they look like columns.

    Signs are a mark of such files, or, in nearly all lines, the same number of tabs, or of tokens
    with a label at the end.
    """
    rows: list[tuple[int, str]] = []
    marks: list[int] = []
    for number, line in enumerate(islice(lines, N_CHECKED), 1):
        yield line
        if line is not None and is_row(line):
            rows.append((number, line.rstrip()))
        elif line is not None and line.startswith(_COLUMN_MARKS):
            marks.append(number)
    tabs = Counter(n for _, row in rows if (n := row.count("\t", 0, _MAX_CHARACTERS)))
    tokens = [row.split(None, _MAX_LABELLED) for _, row in rows]
    labels = Counter(len(row) for row in tokens if len(row) > 1 and _LABEL.fullmatch(row[-1]))
    for counts, least in ((tabs, 2), (labels, 3)):
        if least <= max(counts.values(), default=0) >= MOST * len(rows):
            marks.append(rows[0][0])
    if marks:
        what = "looks like columns, such as a token and its label"
        raise InputError(f"{name}, line {min(marks)}: {what}", _COLUMNS_HINT)
    yield from lines


# They take the key of the first sentence, and return that of the first one of the next file.
_READERS: dict[str, Callable[[LineReader, int], Generator[Sentence, None, int]]] = {
    "plain": _read_plain,
    "conll": read_conll,
    "conllu": read_conllu,
    "jsonl": read_jsonl,
}
