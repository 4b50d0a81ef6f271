"""Words of messages: counts, sizes, durations, shortened lists and tokens, rows of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

INTERRUPTED_HINT = "run the command again; if it reports an unfinished output, add `--resume`"
CORRUPT_HINT = "the file is corrupt or was not written by a known program: get it again"
OTHER_PATH_HINT = "choose another output path"
_URL_START = r"[A-Za-z][\w+.-]+://?"  # one slash where it was taken for a path
_START_OF_URL = re.compile(rf"(?:--[\w-]+=)?{_URL_START}")  # also that of `--output=URL`
# A name alone, or with a `:` everything up to the last `@`, since a key may contain `/` and `@`. In
# a text, it has spaces only if what follows `NAME:` is neither one nor a port.
_SPACED_KEY = r"[^\s:/?#@]*:(?!\s|\d+(?:[^\w@]|$)).*"
_USER_OF_URL = re.compile(rf"({_URL_START})(?:\S*:\S*|[^\s/?#@]*|{_SPACED_KEY})(?=@)")
# What follows a `?`, without the quote or the punctuation after the URL.
_QUERY_OF_URL = re.compile(rf"({_URL_START}[^\s?]*\?)\S+?(?=[`'\",;:.)]*(?:\s|$))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # with tabs and all line ends
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 sentence", "1,200 sentences"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def format_bytes(n_bytes: int) -> str:
    """Bytes as a person reads them: "12.3 GiB", "4.0 MiB", "17 bytes"."""
    if n_bytes < 1024:
        return f"{n_bytes} bytes"
    size = float(n_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def duration(seconds: float) -> str:
    """Format seconds for people: "12 s", "3 min 20 s", "2 h 5 min"."""
    n_seconds = max(0, round(seconds))
    if n_seconds < 60:
        return f"{n_seconds} s"
    minutes, rest_s = divmod(n_seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s"
    hours, rest_min = divmod(minutes, 60)
    return f"{hours:,} h {rest_min} min"


def shortened(text: str, most: int = 40) -> str:
    """The beginning of a line or a token for a message; either can be megabytes long."""
    return text if len(text) <= most else f"{text[:most]}…"


def shorten_list(names: Sequence[str]) -> str:
    """Names of texts for a message, of many only the first."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]} and {len(names) - 1:,} more"


def without_secrets(text: str) -> str:
    """Return a text with `***` for the user name, the password and the query of each URL.

    It guesses where a URL with spaces ends; `url_without_secrets` does not.
    """
    if ":/" not in text:  # nearly always
        return text
    return _QUERY_OF_URL.sub(r"\1***", _USER_OF_URL.sub(r"\1***", text))


def url_without_secrets(name: str) -> str:
    """Return a URL, whatever characters its password has, or another name, as `without_secrets`.

    A URL may be the value of an option: `--output=URL`.
    """
    start = _START_OF_URL.match(name)
    if start is None:
        return without_secrets(name)
    rest = name[start.end() :]
    user, at_sign, address = rest.rpartition("@")
    if ":" not in user:  # a name alone, not a `@` of the path
        user, at_sign, address = rest.partition("@")
        if any(mark in user for mark in "/?#"):
            at_sign = ""
    if at_sign:
        rest = f"***@{address}"
    address, _, query = rest.partition("?")
    if query:
        rest = f"{address}?***"
    return f"{start[0]}{rest}"


def tsv_line(*cells: object) -> str:
    r"""Cells as one tab-separated line; tab, line end and backslash become \t, \n, \r and \\."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"


def columns_line(*cells: str) -> str:
    r"""Cells as one tab-separated line; only control characters and line ends become escapes.

    Unlike those of `tsv_line`, the cells without them, such as tokens, stay as they are.
    """
    return "\t".join(_CONTROL.sub(_escaped, cell) for cell in cells) + "\n"


def quoted_line(*cells: str) -> str:
    """Cells as a line of `columns_line`; those with a `"` are quoted as in CSV.

    pandas, R and the module csv read a `"` at the beginning of a cell as an opening quote.
    """
    quoted = []
    for cell in cells:
        if '"' in cell:
            cell = '"' + cell.replace('"', '""') + '"'
        quoted.append(cell)
    return columns_line(*quoted)


def _escaped(control: re.Match[str]) -> str:
    return ascii(control[0])[1:-1]  # without quotes
