"""elmo perplexity."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    input_options,
    json_option,
    language_model_options,
    model_options,
    named,
    named_texts,
    overwrite_option,
    processor_options,
    quiet_option,
    value,
)


@click.command(
    cls=GroupedCommand,
    short_help="Measure the perplexity of a text, forward and backward.",
    no_args_is_help=True,
)
@argument("texts", nargs=-1, required=True, metavar="TEXT…", callback=named_texts)
@model_options
@language_model_options()
@value(
    "State",
    "--state NAME",
    "Initial LSTM state of a sentence: zero, warm (stored with the model) or carry (from the "
    "previous sentence).",
    type=click.Choice(["zero", "warm", "carry"]),
    default="zero",
)
@value(
    "State",
    "--batch-size N",
    "With --state carry: number of streams that the text is read in, as in bilm-tf.  [default: 1]",
    type=click.IntRange(min=1),
)
@value(
    "Output",
    "-o, --output FILE",
    "Also write a tab-separated table with one row per sentence; - for standard output.",
    callback=named,
)
@overwrite_option
@processor_options
@input_options
@quiet_option
@json_option
def perplexity(**given: Any) -> None:
    """Measure the perplexity of a text, forward and backward.

    TEXT is a text file, plain or compressed (.gz, .xz); - is standard input. The end of a sentence
    (backward: its start) is predicted too. The full softmax is computed; <UNK> stands for tokens
    that are not in the vocabulary.

    Perplexities with different vocabularies can't be compared. Bits per byte can: they are the bits
    of all predictions, plus for each <UNK> those of its spelling, divided by the bytes of all
    tokens, each with one byte for the following space. The spelling is predicted by a byte model
    that is estimated from the vocabulary alone (each byte from the three before it, Witten-Bell
    smoothing).

    \b
    Examples:
      elmo perplexity heldout.txt
      elmo perplexity raw.txt.xz --tokenize -m model/ --json
      elmo perplexity heldout.txt -m model/ --state carry --batch-size 256
      elmo perplexity heldout.txt -m model/ -o sentences.tsv
    """
    from elmo_cli.cli.measuring import perplexity_command

    perplexity_command(given)
