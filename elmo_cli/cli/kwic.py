"""`elmo kwic`: list the occurrences of a word in context; and printing of tokens in context."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, argument, command, value
from elmo_cli.cli.table import COLUMN_GAP, print_table
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from elmo_cli.analysis.query import Occurrence

_CONTEXT = 6  # tokens shown on either side
# Widths in cells of a terminal.
_MAX_FIRST_COLUMN = 24  # of a column before those of the context
_MIN_COLUMN = 6  # of a column of the context, so that its name fits


@dataclass(frozen=True)
class KwicOptions:
    """The values of all options of `elmo kwic`."""

    file: str
    word: str
    count: int | None


@command
@argument("file", metavar="FILE", type=FILE)
@argument("word", metavar="WORD")
@value("Search", "-k, --count N", "Maximum number of occurrences to list.  [default: all]",
       type=options.AT_LEAST_1)  # fmt: skip
@options.general_options
def kwic(**values: Any) -> None:
    """List the occurrences of a word or phrase in context (keyword in context).

    FILE is an embeddings file that stores its tokens: one of layout flat, or one that stores the
    sentences. The search is case-insensitive. A phrase is a sequence of tokens. The position of an
    occurrence, which is that of its first token, can be used as a QUERY of `elmo neighbors`.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo kwic corpus.hdf5 "the play"
      elmo kwic corpus.hdf5 play -k 20 --json
    """
    from elmo_cli.isolate import run_isolated

    chosen = KwicOptions(**values)
    found = run_isolated(partial(_find, chosen), [chosen.file], EmbeddingsFileError)
    facts = {
        "file": chosen.file,
        "word": chosen.word,
        "occurrences": [as_facts(occurrence) for occurrence in found.occurrences],
        "sentences_without_tokens": found.n_without_tokens,
    }
    if found.n_without_tokens:
        skipped = plural(found.n_without_tokens, "sentence")
        console.warn(f"{chosen.file}: skipped {skipped} whose tokens are not stored")
    rows = [in_context(occurrence) for occurrence in found.occurrences]
    console.print_result(facts, partial(print_in_context, ("position",), rows))
    if not found.occurrences:
        console.note(f"{chosen.file}: {chosen.word} does not occur")


@dataclass(frozen=True)
class _Found:
    """The result of a search."""

    occurrences: list[Occurrence]
    n_without_tokens: int  # sentences that could not be searched


def _find(chosen: KwicOptions) -> _Found:
    """Return the first occurrences of the word or phrase in the file."""
    from elmo_cli.analysis.query import phrase_occurrences
    from elmo_cli.analysis.vectors import LayerView
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(chosen.file) as embeddings:
        occurrences = phrase_occurrences(LayerView(embeddings), chosen.word)
        listed = list(islice(occurrences, chosen.count))
        n_without_tokens = 0
        if "tokens" not in embeddings.records:
            n_without_tokens = sum(info.tokens is None for info in embeddings.infos())
        return _Found(listed, n_without_tokens)


def as_facts(occurrence: Occurrence) -> dict[str, Any]:
    """Return the JSON fields of an occurrence."""
    return {
        "key": occurrence.key,
        "position": occurrence.position,
        "token": occurrence.token,
        "tokens": occurrence.tokens,
    }


def in_context(occurrence: Occurrence) -> tuple[str, ...]:
    """Return the cells of an occurrence: position, left context, token and right context."""
    return str(occurrence), *occurrence.context(_CONTEXT)


def print_in_context(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print the table of rows with these columns, followed by those of a context.

    On a terminal, contexts are cut so that each row is one line.
    """
    header = (*columns, "before", "token", "after")
    if console.is_terminal(sys.stdout):
        from rich.console import Console

        rows = fit_rows(header, list(rows), Console().width)
    print_table(header, rows, right="before")


def fit_rows(
    header: Sequence[str], rows: Sequence[tuple[str, ...]], width: int
) -> list[tuple[str, ...]]:
    """Shorten cells so that each row fits a terminal.

    The last three columns are those of a context. Text before the token is cut from the left.

    Args:
        width: of the terminal in cells; rows may be longer if it is below 60.
    """
    from rich.cells import cell_len

    table = [[console.printable(cell) for cell in row] for row in (header, *rows)]
    longest = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    n_first = len(header) - 3
    first_widths = [min(n, _MAX_FIRST_COLUMN) for n in longest[:n_first]]
    longest_before, longest_token, longest_after = longest[n_first:]
    context_width = width - sum(first_widths) - COLUMN_GAP * (len(header) - 1)
    token_width = min(longest_token, max(_MIN_COLUMN, context_width // 3))
    sides_width = max(2 * _MIN_COLUMN, context_width - token_width)
    before_width = min(longest_before, max(sides_width // 2, sides_width - longest_after))
    after_width = min(longest_after, sides_width - before_width)
    fitted = []
    for cells in table[1:]:
        before, token, after = cells[n_first:]
        row = [_without_start(cell, n) for cell, n in zip(cells, first_widths, strict=False)]
        row.append(_without_start(before, before_width))
        row.append(_without_end(token, token_width))
        row.append(_without_end(after, after_width))
        fitted.append(tuple(row))
    return fitted


def _without_end(text: str, width: int) -> str:
    """Return a text, or its beginning and `…`, in at most `width` cells of a terminal."""
    from rich.cells import cell_len, chop_cells

    if cell_len(text) <= width:
        return text
    return chop_cells(text, width - 1)[0] + "…"


def _without_start(text: str, width: int) -> str:
    """Return a text, or `…` and its end, in at most `width` cells of a terminal."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    # Characters without a width, such as accents, make the result shorter than it could be.
    end = text[-width:]
    while end and cell_len(end) > width - 1:
        end = end[1:]
    return f"…{end}"
