"""What `elmo vocab` does between its options and the library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.console import counted
from elmo_cli.cli.texts import (
    check_output,
    reading_of,
    refuse_skipped,
    say_noticed,
    write_lines,
)
from elmo_cli.errors import UsageError
from elmo_cli.text.input import InputReport, read_sentences, shorten_list
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary


def vocab_command(given: dict[str, Any]) -> None:
    """Run `elmo vocab` with the values of its options."""
    output, texts, notes = given["output"], given["texts"], InputReport()
    if output == "-" and given["as_json"]:
        raise UsageError("--json: standard output takes the vocabulary", "`-o FILE` writes a file")
    sentences = read_sentences(texts, reading_of(given), notes)
    check_output(output, texts, overwrite=given["overwrite"])
    counts = TypeCounts.of((s.tokens for s in sentences), name=shorten_list(texts))
    vocabulary = counts.vocabulary(min_count=given["min_count"], max_types=given["vocabulary_size"])
    lines = (f"{token}\n" for token in vocabulary.types)
    write_lines(output, lines, overwrite=given["overwrite"])
    say_noticed(notes, quiet=given["quiet"], is_cut=False)
    for line in _told(output, counts, vocabulary):
        console.note(line, quiet=given["quiet"])
    if given["as_json"]:
        click.echo(json.dumps(_as_object(output, counts, vocabulary, notes)))
    refuse_skipped(notes)


def _told(output: str, counts: TypeCounts, vocabulary: Vocabulary) -> Iterator[str]:
    if counts.warning:
        yield f"warning: {counts.warning}"
    yield (
        f"{'standard output' if output == '-' else output}: {len(vocabulary):,} entries for the "
        f"{counted(len(counts.counts), 'type')} of the text; they have "
        f"{counts.coverage(vocabulary):.2%} of its {counted(counts.n_tokens, 'token')}"
    )


def _as_object(
    output: str, counts: TypeCounts, vocabulary: Vocabulary, notes: InputReport
) -> dict[str, Any]:
    return {
        "vocabulary": output,
        "size": len(vocabulary),
        "types": len(counts.counts),
        "tokens": counts.n_tokens,
        "sentences": counts.n_sentences,
        "coverage": counts.coverage(vocabulary),
        "skipped": notes.skipped,
        "warnings": notes.warnings,
    }
