"""What `elmo vocab` does between its options and the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from elmo_cli.cli import console
from elmo_cli.cli.console import (
    check_output,
    exit_if_skipped,
    plural,
    print_input_warnings,
    write_lines,
)
from elmo_cli.cli.options import input_settings
from elmo_cli.errors import UsageError
from elmo_cli.text.input import InputReport, read_sentences, shorten_list
from elmo_cli.text.vocabulary import TypeCounts, Vocabulary


def vocab_command(given: dict[str, Any]) -> None:
    """Run `elmo vocab` with the values of its options."""
    output, texts, notes = given["output"], given["texts"], InputReport()
    if output == "-" and given["as_json"]:
        raise UsageError("--json: standard output takes the vocabulary", "`-o FILE` writes a file")
    sentences = read_sentences(texts, input_settings(given), notes)
    check_output(output, texts, overwrite=given["overwrite"])
    counts = TypeCounts.of((s.tokens for s in sentences), name=shorten_list(texts))
    vocabulary = counts.vocabulary(min_count=given["min_count"], max_types=given["vocabulary_size"])
    lines = (f"{token}\n" for token in vocabulary.types)
    write_lines(output, lines, overwrite=given["overwrite"])
    print_input_warnings(notes, quiet=given["quiet"], is_cut=False)
    for line in _told(output, counts, vocabulary):
        console.note(line, quiet=given["quiet"])
    if given["as_json"]:
        console.print_json(_as_object(output, counts, vocabulary, notes))
    exit_if_skipped(notes)


def _told(output: str, counts: TypeCounts, vocabulary: Vocabulary) -> Iterator[str]:
    if counts.warning:
        yield f"warning: {counts.warning}"
    yield (
        f"{'standard output' if output == '-' else output}: {len(vocabulary):,} entries for the "
        f"{plural(len(counts.counts), 'type')} of the text; they have "
        f"{counts.coverage(vocabulary):.2%} of its {plural(counts.n_tokens, 'token')}"
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
