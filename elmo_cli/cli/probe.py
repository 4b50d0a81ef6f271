"""elmo probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    encoding_option,
    json_option,
    named,
    named_texts,
    option,
    quiet_option,
    threads_option,
)
from elmo_cli.errors import UsageError

_MOST_SEED = 2**63 - 1


def _pair(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an option in the place of a name, which click takes for one; a callback of click."""
    for name in value or ():
        if name.startswith("--"):
            option_name = max(parameter.opts, key=len)
            raise UsageError(
                f"{option_name}: `{name}` stands where it takes a name",
                f"`{option_name}` takes two, {parameter.metavar}",
            )
    return named_texts(ctx, parameter, value)


def _files(name: str, what: str, *, required: bool = True) -> Callable[[Any], Any]:
    return option(
        "Input",
        name,
        nargs=2,
        required=required,
        metavar="FILE LABELS",
        callback=_pair,
        help=what,
    )


@click.command(
    cls=GroupedCommand,
    short_help="Ask what each layer knows, with a linear probe.",
    no_args_is_help=True,
)
@_files("--train", "Embeddings to learn from, and the labels of their tokens.")
@_files(
    "--dev",
    "Those that choose the decay.  [default: every tenth sentence of train, held back]",
    required=False,
)
@_files("--test", "Those that the figures are of.")
@option(
    "Input",
    "--input-format",
    "format",
    type=click.Choice(["auto", "plain", "conll", "conllu"]),
    default="auto",
    show_default=True,
    help="How LABELS are read; auto goes by the suffix, and plain is a line of labels a sentence.",
)
@option(
    "Input",
    "--column",
    metavar="COLUMN",
    callback=named,
    help="Column of the labels in conll and conllu: a number from 1, -1 the last, or in conllu a "
    "name such as upos.  [default: xpos in conllu, else -1]",
)
@encoding_option
@option(
    "Probe",
    "--layer",
    "layers",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Layer of the model, 0 the token layer; may be given several times.  [default: all that "
    "the files hold]",
)
@option(
    "Probe",
    "--seed",
    type=click.IntRange(0, _MOST_SEED),
    default=1,
    show_default=True,
    help="Of the order of the tokens in training.",
)
@threads_option
@quiet_option
@json_option
def probe(**given: Any) -> None:
    """Ask what each layer knows, with a linear probe.

    A softmax regression learns the label of a token (its part of speech, say) from its vector
    alone, for each layer anew. Weight decay is chosen on dev; accuracy is told for test, for dev,
    and for those tokens of test whose form train lacks. Beside it stands what needs no vectors: the
    label that each form has most often in train.

    FILE is an embeddings file of any layout. LABELS are CoNLL-U, columns, or plain text with a
    label for each token, parted by white space, and a line for each sentence; .gz and .xz are read
    too. Where both files hold the tokens, these are compared. A file with one vector a sentence
    (`elmo embed --pool`) takes one label a line. Labels that train lacks count as wrong.

    \b
    Examples:
      elmo embed train.conllu dev.conllu test.conllu -o vectors/
      elmo probe --train vectors/train.hdf5 train.conllu --dev vectors/dev.hdf5 dev.conllu \\
          --test vectors/test.hdf5 test.conllu
      elmo probe --train a.hdf5 a.conllu --test b.hdf5 b.conllu --column upos --layer 1
      elmo probe --train a.hdf5 a.tags --test b.hdf5 b.tags

    Memory holds the vectors of one layer: tokens of all parts x dimensions x 4 bytes. 200,000
    tokens of 1,024 dimensions take 0.8 GB, and some minutes a layer. The same command gives the
    same figures; another number of --threads changes them by rounding alone.

    --json prints one object: model, state, by (token or sentence), column, n_labels; train, dev,
    test, each with files, sentences, labels, unknown (labels that train lacks); n_unseen (tokens of
    test whose form train lacks), held_back, seed; most_frequent and most_frequent_of_form (null
    where tokens are not known), with dev, test, unseen in percent; layers, each with name, the
    same, and decay; warnings.
    """
    from elmo_cli.cli.probing import probe_command

    probe_command(given)
