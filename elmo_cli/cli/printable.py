"""Text without the characters that control a terminal."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
# C0 and C1 controls, which also start escape sequences; invalid UTF-8; bidi overrides.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def printable(text: object) -> str:
    r"""Return text on one line, without characters that control a terminal.

    File names, tokens, keys and attributes may contain any character. A line end is replaced by a
    space, and another control character by its Python escape, such as `\x1b`.
    """
    on_one_line = _LINE_END.sub(" ", str(text))
    return _UNSAFE.sub(_escaped, on_one_line)


def _escaped(control: re.Match[str]) -> str:
    return ascii(control[0])[1:-1]  # without quotes


def printable_rows(text: str) -> str:
    """Return text whose line ends and tabs stay, without other control characters."""
    rows = []
    for row in text.split("\n"):
        rows.append("\t".join(map(printable, row.split("\t"))))
    return "\n".join(rows)
