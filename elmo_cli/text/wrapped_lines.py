"""Signs that the lines of raw text are wrapped: cut at a width, not at the end of a paragraph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from elmo_cli.text.lines import LineReader

_N_CHECKED = 500  # lines, so that a title page and a table of contents are only a part of them
_MIN_LINES = 20  # which are not blank
_MIN_WIDTH = 40  # characters; shorter lines are those of lists and verse
_SIMILAR = 0.75  # of the usual width: the word that did not fit is hardly longer than the rest
_ENDS_OF_SENTENCES = (".", "?", "!", "…")
_CLOSING = "\"'”’»)]}*_"  # after the end of a sentence; the last two mark emphasis
# awk with an empty RS reads paragraphs, which only lines without any character separate.
_JOIN = r"`sed 's/[[:space:]]*$//' FILE | awk -v RS= '{$1=$1; print}'`"


def warn_of_wrapped_lines(reader: LineReader, lines: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the same lines of raw text; after the first ones, warn if they are wrapped."""
    first = _FirstLines()
    for number, line in enumerate(islice(lines, _N_CHECKED), 1):
        yield line
        first.add(number, line)
    wrapped = first.wrapped_line()
    if wrapped is not None:
        problem = (
            "the sentence seems to continue on the next line, but each line is read as a paragraph"
        )
        hint = f"{_JOIN} joins the lines between two blank lines"
        reader.report.warn("wrapped", f"{reader.where(wrapped)}: {problem}; {hint}")
    yield from lines


@dataclass(frozen=True)
class _Continuation:
    """A line that ends within a sentence, before a line that begins in lower case."""

    number: int  # from 1
    width: int  # characters


@dataclass
class _FirstLines:
    """What the first lines show, of which only the last one is kept: a line may be 64 MiB long."""

    _widths: list[int] = field(default_factory=list)  # of the lines that are not blank
    _continuations: list[_Continuation] = field(default_factory=list)
    _n_pairs: int = 0  # of lines without a blank line between them
    _last: str = ""

    def add(self, number: int, line: str | None) -> None:
        """Add the line with this number; None for one that was refused."""
        text = line.strip() if line is not None else ""
        if text:
            self._widths.append(len(text))
        if text and self._last:
            self._n_pairs += 1
            is_complete = self._last.rstrip(_CLOSING).endswith(_ENDS_OF_SENTENCES)
            if text[0].islower() and not is_complete:
                continuation = _Continuation(number=number - 1, width=len(self._last))
                self._continuations.append(continuation)
        self._last = text

    def wrapped_line(self) -> int | None:
        """The number of the first line that is wrapped; None if most lines are not.

        Lines of untidy text, such as chat, may also begin in lower case and lack a full stop, but
        their widths differ.
        """
        if len(self._widths) < _MIN_LINES:
            return None
        usual_width = sorted(self._widths)[int(0.9 * len(self._widths))]
        if usual_width < _MIN_WIDTH:
            return None
        wrapped = []
        for line in self._continuations:
            if line.width >= _SIMILAR * usual_width:
                wrapped.append(line.number)
        return wrapped[0] if 2 * len(wrapped) > self._n_pairs else None
