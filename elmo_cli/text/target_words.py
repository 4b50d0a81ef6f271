"""Target words: a list of words whose usages are looked for, one per line of a file."""

from __future__ import annotations

import re

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened
from elmo_cli.text.input import check_inputs
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_settings import InputSettings
from elmo_cli.text.lines import LineReader

MAX_TARGETS = 10_000  # as many arrays may be in a .npz file
_MAX_CHARACTERS = 1_000  # of a target; the name of an array is limited as well
_HINT = "give one word per line"


def read_targets(
    path: str, report: InputReport, *, encoding: str = "utf-8", are_patterns: bool = False
) -> list[str]:
    """Read the words of a file, in its order; blank lines and repeated words are left out.

    Args:
        report: receives a warning about each kind of line that is left out.
        are_patterns: whether a line is a regular expression.
    Raises:
        InputError: the file can't be read, has no words, too many, a line with several words, or
            one that is no regular expression.
    """
    settings = InputSettings(format="plain", encoding=encoding)
    check_inputs(path, settings)
    reader = LineReader(path, settings, report)
    line_of: dict[str, int] = {}
    for number, line in enumerate(reader.lines(), 1):
        words = line.split() if line is not None else []
        where = reader.where(number)
        if not words:
            report.warn("blank target", f"{where}: blank, left out")
            continue
        _check(words, where, is_pattern=are_patterns)
        [word] = words
        if word in line_of:
            message = f"{word!r} is already on line {line_of[word]}, left out"
            report.warn("repeated target", f"{where}: {message}")
            continue
        line_of[word] = number
        if len(line_of) > MAX_TARGETS:
            raise InputError(f"has more than {MAX_TARGETS:,} words", _HINT, where=path)
    if not line_of:
        raise InputError("contains no words", _HINT, where=path)
    return list(line_of)


def _check(words: list[str], where: str, *, is_pattern: bool) -> None:
    """Raise an InputError unless a line is one word that can be the name of an array."""
    if len(words) > 1:
        problem = f"{shortened(' '.join(words))!r} has several words"
        hint = f"{_HINT}; `cut -f1 FILE > NEW_FILE` keeps the first column"
        raise InputError(problem, hint, where=where)
    if len(words[0]) > _MAX_CHARACTERS:
        problem = f"a word of more than {_MAX_CHARACTERS:,} characters"
        raise InputError(problem, _HINT, where=where)
    if is_pattern:
        try:
            re.compile(words[0])
        except (re.error, OverflowError, RecursionError) as error:
            problem = f"{shortened(words[0])!r} is no regular expression ({error})"
            hint = "write a backslash before a sign that stands for itself"
            raise InputError(problem, hint, where=where) from None
