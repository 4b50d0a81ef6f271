"""elmo vocab."""

from __future__ import annotations

import json
from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    input_options,
    json_option,
    named_texts,
    on_disk,
    option,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Count the types of a text and write a vocabulary file.",
    no_args_is_help=True,
)
@argument("texts", nargs=-1, required=True, metavar="TEXT…", callback=named_texts)
@option(
    "Output",
    "-o",
    "--output",
    required=True,
    callback=on_disk,
    metavar="FILE",
    help="The vocabulary, one type a line; - for standard output.",
)
@option("Output", "-f", "--overwrite", is_flag=True, help="Replace FILE if it is there.")
@option(
    "Vocabulary",
    "--min-count",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Leave out types that are seen less often; pretrain and finetune count with 2.",
)
@option(
    "Vocabulary",
    "--vocabulary-size",
    type=click.IntRange(min=4),
    help="Types at most, the commonest ones, <S>, </S> and <UNK> counted.  [default: all]",
)
@input_options
@quiet_option
@json_option
def vocab(**given: Any) -> None:
    """Count the types of a text and write a vocabulary file.

    TEXT is a text file, plain or .gz or .xz, - for standard input. The file begins with <S>, </S>
    and <UNK>; then come the types, the commonest first, those that are seen equally often in the
    order of the alphabet. Memory grows with the types alone.

    \b
    Examples:
      elmo vocab news.txt -o vocab.txt --min-count 3
      elmo vocab raw/*.txt.xz --tokenize -o vocab.txt --vocabulary-size 50000
      elmo pretrain news.txt --vocabulary vocab.txt -o model/ --max-seconds 3600
    """
    from elmo_cli.cli import console
    from elmo_cli.cli.texts import reading_of, refuse_skipped, say_noticed
    from elmo_cli.errors import UsageError
    from elmo_cli.store.apart import check_apart
    from elmo_cli.text.count_types import TypeCounts
    from elmo_cli.text.formats import Notes, listed, read_sentences
    from elmo_cli.text.new_text import check_new, write_text

    output, quiet, notes = given["output"], given["quiet"], Notes()
    if output == "-" and given["as_json"]:
        raise UsageError("--json: standard output takes the vocabulary", "`-o FILE` writes a file")
    sentences = read_sentences(given["texts"], reading_of(given), notes)
    check_apart(output, given["texts"])
    if output != "-":
        check_new(output, overwrite=given["overwrite"])
    counts = TypeCounts.of((s.tokens for s in sentences), name=listed(given["texts"]))
    vocabulary = counts.vocabulary(min_count=given["min_count"], max_types=given["vocabulary_size"])
    lines = (f"{token}\n" for token in vocabulary.types)
    if output == "-":
        with console.binary_stdout() as out:
            out.writelines(line.encode() for line in lines)
    else:
        write_text(output, lines, overwrite=given["overwrite"])
    say_noticed(notes, quiet=quiet, is_cut=False)
    if misfits := counts.misfits:
        console.note(
            f"warning: left out, since no vocabulary can hold them: {len(misfits):,} types with a "
            f"line end or white space at their edges, or a reserved name; the first is "
            f"{misfits[0]!r}",
            quiet=quiet,
        )
    coverage = counts.coverage(vocabulary)
    console.note(
        f"{'standard output' if output == '-' else output}: {len(vocabulary):,} entries for the "
        f"{len(counts.counts):,} types of the text; they have {coverage:.2%} of its "
        f"{counts.n_tokens:,} tokens",
        quiet=quiet,
    )
    if given["as_json"]:
        facts = {
            "vocabulary": output,
            "size": len(vocabulary),
            "types": len(counts.counts),
            "tokens": counts.n_tokens,
            "sentences": counts.n_sentences,
            "coverage": coverage,
            "skipped": notes.skipped,
            "warnings": notes.warnings,
        }
        click.echo(json.dumps(facts))
    refuse_skipped(notes)
