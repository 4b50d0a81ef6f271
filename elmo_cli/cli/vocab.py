"""`elmo vocab`: count the types of a text and write a vocabulary file."""

from __future__ import annotations

from typing import Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import command, output_option
from elmo_cli.messages import plural


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option(
    "FILE", "Vocabulary file to write, one type per line; - for standard output.", required=True
)
@options.overwrite_option
@options.vocabulary_size_options("Vocabulary", None, 1)
@options.input_options
@options.general_options
def vocab(*, texts: tuple[str, ...], output: str, **given: Any) -> None:
    """Count the types of a text and write a vocabulary file.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. The vocabulary starts
    with <S>, </S> and <UNK>, followed by the types in order of descending frequency, ties in
    alphabetical order. Memory grows only with the number of types.

    \b
    Examples:
      elmo vocab news.txt -o vocab.txt --min-count 3
      elmo vocab raw/*.txt.xz --tokenize -o vocab.txt --vocabulary-size 50000
      elmo pretrain news.txt --vocabulary vocab.txt -o model/ --max-seconds 3600
    """
    from elmo_cli.messages import shorten_list
    from elmo_cli.text.input import InputReport, read_sentences
    from elmo_cli.text.vocabulary import TypeCounts

    if output == "-":
        options.refuse_options(["as_json"], "for standard output")
    report = InputReport()
    sentences = read_sentences(texts, options.input_settings(given), report)
    console.check_output(output, texts, overwrite=given["overwrite"])
    counts = TypeCounts.of((s.tokens for s in sentences), name=shorten_list(texts))
    vocabulary = counts.vocabulary(min_count=given["min_count"], max_types=given["vocabulary_size"])
    lines = (f"{token}\n" for token in vocabulary.types)
    where = console.write_lines(output, lines, overwrite=given["overwrite"])
    console.warn(*report.warnings, *filter(None, [counts.warning]))
    coverage, n_types = counts.coverage(vocabulary), len(counts.counts)
    console.note(
        f"{where}: {len(vocabulary):,} entries for the {plural(n_types, 'type')} of the text; they "
        f"cover {coverage:.2%} of its {plural(counts.n_tokens, 'token')}"
    )
    facts = {"vocabulary": output, "size": len(vocabulary), "types": n_types}
    facts |= {"tokens": counts.n_tokens, "sentences": counts.n_sentences, "coverage": coverage}
    console.print_result({**facts, "skipped": report.skipped, "warnings": report.warnings})
    console.exit_if_skipped(report)
