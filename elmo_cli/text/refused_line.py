"""LineError: a line of a text that is not what its format has."""

from __future__ import annotations

_SHOWN_CHARACTERS = 40


class LineError(ValueError):
    """A line that can't be read: what is wrong, and what to do where it is known here."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def shortened(text: str) -> str:
    """The beginning of what a line holds, for a message; a line may be megabytes long."""
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return text[:_SHOWN_CHARACTERS] + "…"
