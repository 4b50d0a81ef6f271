"""`elmo vocab`: count the types of a text and write a vocabulary file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, command, output_option
from elmo_cli.messages import plural


@dataclass(frozen=True)
class VocabOptions(options.InputOptions, options.VocabularySizeOptions):
    """The values of all options of `elmo vocab`."""

    texts: tuple[str, ...]
    output: str
    overwrite: bool


@command
@options.texts_argument("texts", required=True, metavar="TEXT…")
@output_option(
    "FILE",
    "Vocabulary file to write, one type per line; - for standard output.",
    required=True,
    type=FILE,
)
@options.overwrite_option
@options.vocabulary_size_options("Vocabulary", size=None, min_count=1)
@options.input_options
@options.general_options
def vocab(**values: Any) -> None:
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

    chosen = VocabOptions(**values)
    if chosen.output == "-":
        options.refuse_options(["as_json"], "for standard output")
    report = InputReport()
    sentences = read_sentences(chosen.texts, chosen.input_settings(), report)
    console.check_output(chosen.output, chosen.texts, overwrite=chosen.overwrite)
    tokens = (sentence.tokens for sentence in sentences)
    counts = TypeCounts.of(tokens, name=shorten_list(chosen.texts))
    vocabulary = counts.vocabulary(min_count=chosen.min_count, max_types=chosen.vocabulary_size)
    lines = (f"{token}\n" for token in vocabulary.types)
    written = console.write_lines(chosen.output, lines, overwrite=chosen.overwrite)
    warnings = [*report.warnings]
    if counts.warning:
        warnings.append(counts.warning)
    console.warn(*warnings)
    n_types = len(counts.counts)
    coverage = counts.coverage(vocabulary)
    console.note(
        f"{written}: {len(vocabulary):,} entries for the {plural(n_types, 'type')} of the text; "
        f"they cover {coverage:.2%} of its {plural(counts.n_tokens, 'token')}"
    )
    console.print_result(
        {
            "vocabulary": chosen.output,
            "size": len(vocabulary),
            "types": n_types,
            "tokens": counts.n_tokens,
            "sentences": counts.n_sentences,
            "coverage": coverage,
            "skipped": report.skipped,
            "warnings": warnings,
        }
    )
    console.exit_if_skipped(report)
