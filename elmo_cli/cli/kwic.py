"""`elmo kwic`: list the occurrences of a word in context; and printing of tokens in context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import argument, command, value
from elmo_cli.errors import EmbeddingsFileError

if TYPE_CHECKING:
    from elmo_cli.analysis.query import Occurrence

_COUNT = "Maximum number of occurrences to list.  [default: all]"
_CONTEXT = 6  # tokens shown on either side


@command
@argument("file", metavar="FILE")
@argument("word", metavar="WORD")
@value("Search", "-k, --count N", _COUNT, type=options.AT_LEAST_1)
@options.general_options
def kwic(*, file: str, word: str, count: int | None) -> None:
    """List the occurrences of a word in context (keyword in context).

    FILE is an embeddings file that stores its tokens: one of layout flat, or one that stores the
    sentences. The search is case-insensitive. The position of an occurrence can be used as a QUERY
    of `elmo neighbors`.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo kwic corpus.hdf5 play -k 20 --json
    """
    from elmo_cli.analysis.query import occurrences
    from elmo_cli.analysis.vectors import LayerView
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.reader import open_embeddings

    def find() -> list[Occurrence]:
        with open_embeddings(file) as embeddings:
            return list(islice(occurrences(LayerView(embeddings), word), count))

    found = run_isolated(find, [file], EmbeddingsFileError)
    facts = {"file": file, "word": word, "occurrences": list(map(as_facts, found))}
    rows = map(in_context, found)
    console.print_result(facts, lambda: print_in_context(("position",), rows))
    if not found:
        console.note(f"{file}: {word} does not occur")


def as_facts(occurrence: Occurrence) -> dict[str, Any]:
    """Return the JSON fields of an occurrence."""
    return {name: getattr(occurrence, name) for name in ("key", "position", "token", "tokens")}


def in_context(occurrence: Occurrence) -> tuple[str, ...]:
    """Return the cells of an occurrence: position, left context, token and right context."""
    return str(occurrence), *occurrence.context(_CONTEXT)


def print_in_context(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print the table of rows with these columns, followed by those of a context."""
    console.table((*columns, "before", "token", "after"), rows, right="before")
