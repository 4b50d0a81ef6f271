"""elmo perplexity."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    figures_json_option,
    input_options,
    model_options,
    named,
    named_texts,
    option,
    processor_options,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Measure how well a biLM predicts a text, in each direction.",
    no_args_is_help=True,
)
@argument("texts", nargs=-1, required=True, metavar="TEXT…", callback=named_texts)
@model_options
@option(
    "Model",
    "--softmax",
    metavar="FILE",
    callback=named,
    help="The softmax weights.  [default: those beside the weights, or inside them]",
)
@option(
    "Model",
    "--vocabulary",
    metavar="FILE",
    callback=named,
    help="The types that the softmax predicts, one a line.  [default: those beside the weights]",
)
@option(
    "State",
    "--state",
    type=click.Choice(["zero", "warm", "carry"]),
    default="zero",
    show_default=True,
    help="Each sentence starts from zeros, from the one warm state of the model, or from where the "
    "sentence before has stopped.",
)
@option(
    "State",
    "--rows",
    type=click.IntRange(min=1),
    help="With carry: rows that the text is read in, each getting the next sentence when it runs "
    "dry. What they hold when there is none left for one of them is not counted.  [default: 1]",
)
@option(
    "State",
    "--warm-up",
    type=click.IntRange(min=0),
    metavar="N",
    help="With carry: the first N sentences are read and not counted.  [default: 0]",
)
@option(
    "Output",
    "--sentences",
    metavar="FILE",
    callback=named,
    help="A table of all sentences, tab-separated; - for standard output.",
)
@option("Output", "-f", "--overwrite", is_flag=True, help="Replace that FILE if it is there.")
@processor_options
@input_options
@quiet_option
@figures_json_option
def perplexity(**given: Any) -> None:
    """Measure how well a biLM predicts a text, in each direction.

    TEXT is a text file, plain or .gz or .xz, - for standard input. The end of a sentence is
    predicted too (its begin, backward), always from the whole vocabulary; <UNK> stands for what it
    lacks.

    Perplexities of two vocabularies can't be compared: a small one has little to choose from. Bits
    per byte can: they are the bits of all predictions, and for each <UNK> those of the token's
    spelling, by a model of bytes that is counted in the vocabulary alone (each byte from the three
    before it, Witten-Bell), over the bytes of the tokens with one more for each.

    \b
    Examples:
      elmo perplexity heldout.txt
      elmo perplexity raw.txt.xz --tokenize -m model/ --json
      elmo perplexity heldout.txt -m model/ --state carry --rows 256
      elmo perplexity heldout.txt -m model/ --sentences sentences.tsv
    """
    from elmo_cli.cli.measuring import perplexity_command

    perplexity_command(given)
