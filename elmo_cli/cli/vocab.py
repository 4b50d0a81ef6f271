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
    overwrite_option,
    quiet_option,
    value,
)
from elmo_cli.cli.training_options import vocabulary_size_options


@click.command(
    cls=GroupedCommand,
    short_help="Count the types of a text and write a vocabulary file.",
    no_args_is_help=True,
)
@argument("texts", nargs=-1, required=True, metavar="TEXT…", callback=named_texts)
@value(
    "Output",
    "-o, --output FILE",
    "Vocabulary file to write, one type per line; - for standard output.",
    required=True,
    callback=on_disk,
)
@overwrite_option
@vocabulary_size_options("Vocabulary", None, 1)
@input_options
@quiet_option
@json_option
def vocab(**given: Any) -> None:
    """Count the types of a text and write a vocabulary file.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. The vocabulary starts
    with <S>, </S> and <UNK>, followed by the types, most frequent first and equally frequent ones
    in alphabetical order. Memory grows with the number of types only.

    \b
    Examples:
      elmo vocab news.txt -o vocab.txt --min-count 3
      elmo vocab raw/*.txt.xz --tokenize -o vocab.txt --vocabulary-size 50000
      elmo pretrain news.txt --vocabulary vocab.txt -o model/ --max-seconds 3600
    """
    from elmo_cli.cli.counting import vocab_command

    vocab_command(given)
