"""elmo vocab."""

from __future__ import annotations

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
    from elmo_cli.cli.counting import vocab_command

    vocab_command(given)
