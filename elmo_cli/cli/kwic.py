"""`elmo kwic`: list the occurrences of a word in context; and printing of tokens in context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, argument, command, value
from elmo_cli.errors import EmbeddingsFileError

if TYPE_CHECKING:
    from elmo_cli.analysis.query import Occurrence

_CONTEXT = 6  # tokens shown on either side


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
    """List the occurrences of a word in context (keyword in context).

    FILE is an embeddings file that stores its tokens: one of layout flat, or one that stores the
    sentences. The search is case-insensitive. The position of an occurrence can be used as a QUERY
    of `elmo neighbors`.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo kwic corpus.hdf5 play -k 20 --json
    """
    from elmo_cli.isolate import run_isolated

    chosen = KwicOptions(**values)
    occurrences = run_isolated(partial(_find, chosen), [chosen.file], EmbeddingsFileError)
    facts = {
        "file": chosen.file,
        "word": chosen.word,
        "occurrences": [as_facts(occurrence) for occurrence in occurrences],
    }
    rows = [in_context(occurrence) for occurrence in occurrences]
    console.print_result(facts, partial(print_in_context, ("position",), rows))
    if not occurrences:
        console.note(f"{chosen.file}: {chosen.word} does not occur")


def _find(chosen: KwicOptions) -> list[Occurrence]:
    """Return the first occurrences of the word in the file."""
    from elmo_cli.analysis.query import occurrences
    from elmo_cli.analysis.vectors import LayerView
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(chosen.file) as embeddings:
        return list(islice(occurrences(LayerView(embeddings), chosen.word), chosen.count))


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
    """Print the table of rows with these columns, followed by those of a context."""
    console.table((*columns, "before", "token", "after"), rows, right="before")
