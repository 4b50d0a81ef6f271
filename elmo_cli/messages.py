"""Words of messages: counts, sizes, durations, shortened lists and tokens, rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

INTERRUPTED_HINT = "continue with `--resume` if the command has it; otherwise run the command again"
CORRUPT_HINT = "the file is corrupt or was not written by a known program: get it again"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 sentence", "1,200 sentences"."""
    return f"{n:,} {noun}" + "s" * (n != 1)


def format_bytes(n_bytes: int) -> str:
    """Bytes as a person reads them: "12.3 GiB", "4.0 MiB", "17 bytes"."""
    power = min(4, max(0, n_bytes.bit_length() - 1) // 10)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{n_bytes / 1024**power:.{min(power, 1)}f} {unit}"


def duration(seconds: float) -> str:
    """Format seconds for people: "12 s", "3 min 20 s", "2 h 5 min"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60:,} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def shortened(text: str, most: int = 40) -> str:
    """The beginning of a line or a token for a message; either can be megabytes long."""
    return text if len(text) <= most else f"{text[:most]}…"


def shorten_list(names: Sequence[str]) -> str:
    """Names of texts for a message, of many only the first."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1:,} more"


def tsv_line(*cells: object) -> str:
    r"""Cells as one tab-separated line; tab, line end and backslash become \t, \n, \r and \\."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"
