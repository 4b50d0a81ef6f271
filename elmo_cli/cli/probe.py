"""elmo probe."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    encoding_option,
    json_option,
    non_empty,
    quiet_option,
    text_names,
    threads_option,
    value,
)
from elmo_cli.cli.training_options import MOST_SEED
from elmo_cli.errors import UsageError


def _pair(ctx: click.Context, parameter: click.Parameter, names: Any) -> Any:
    """Refuse an option in the place of a name, which click takes for one; a callback of click."""
    for name in names or ():
        if name.startswith("--"):
            option_name = max(parameter.opts, key=len)
            raise UsageError(
                f"{option_name}: `{name}` stands where it takes a name",
                f"`{option_name}` takes two, {parameter.metavar}",
            )
    return text_names(ctx, parameter, names)


@click.command(
    cls=GroupedCommand,
    short_help="Train a linear probe on each layer and report its accuracy.",
    no_args_is_help=True,
)
@value(
    "Input",
    "--train FILE LABELS",
    "Embeddings and labels to train on.",
    nargs=2,
    required=True,
    callback=_pair,
)
@value(
    "Input",
    "--dev FILE LABELS",
    "Embeddings and labels that select the weight decay.  [default: every tenth sentence of "
    "--train]",
    nargs=2,
    callback=_pair,
)
@value(
    "Input",
    "--test FILE LABELS",
    "Embeddings and labels that the accuracy is reported for.",
    nargs=2,
    required=True,
    callback=_pair,
)
@value(
    "Input",
    "--label-format FORMAT",
    "Format of LABELS: auto (by suffix), plain (one line of labels per sentence), conll or conllu.",
    type=click.Choice(["auto", "plain", "conll", "conllu"]),
    default="auto",
)
@value(
    "Input",
    "--label-column COLUMN",
    "Label column of conll and conllu: a number from 1, -1 for the last, or in conllu a name such "
    "as upos.  [default: xpos in conllu, else -1]",
    callback=non_empty,
)
@encoding_option
@value(
    "Probe",
    "--layer N",
    "Layer to probe, 0 is the token layer; may be repeated.  [default: all stored]",
    "layers",
    type=click.IntRange(min=0),
    multiple=True,
)
@value("Probe", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0)
@threads_option
@quiet_option
@json_option
def probe(**given: Any) -> None:
    """Train a linear probe on each layer and report its accuracy.

    For each layer, a softmax regression is trained to predict the label of a token (its part of
    speech, say) from its vector alone. The weight decay is selected on dev; the accuracy is
    reported for test, for dev, and for the tokens of test whose word form is not in train. The
    baseline needs no vectors: it predicts the most frequent label of each word form in train.

    FILE is an embeddings file of any layout. LABELS are CoNLL-U, other columns, or plain text with
    one label per token, separated by whitespace, and one line per sentence; .gz and .xz are read
    too. Where both files contain the tokens, these are compared. A file with one vector per
    sentence (`elmo embed --pool`) takes one label per line. Labels that are not in train count as
    errors.

    \b
    Examples:
      elmo embed train.conllu dev.conllu test.conllu -o vectors/
      elmo probe --train vectors/train.hdf5 train.conllu --dev vectors/dev.hdf5 dev.conllu \\
          --test vectors/test.hdf5 test.conllu
      elmo probe --train a.hdf5 a.conllu --test b.hdf5 b.conllu --label-column upos --layer 1
      elmo probe --train a.hdf5 a.tags --test b.hdf5 b.tags

    The vectors of one layer are kept in memory: tokens of all files x dimensions x 4 bytes. 200,000
    tokens of 1,024 dimensions take 0.8 GB, and some minutes per layer. The same command gives the
    same result; another number of --threads changes it only by rounding.
    """
    from elmo_cli.cli.probing import probe_command

    probe_command(given)
