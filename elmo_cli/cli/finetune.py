"""elmo finetune."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    FiniteRange,
    GroupedCommand,
    argument,
    figures_json_option,
    input_options,
    model_options,
    named,
    named_texts,
    on_disk,
    option,
    quiet_option,
    together,
)
from elmo_cli.cli.training_options import (
    accumulate_option,
    dropout_option,
    rate_option,
    seed_option,
    training_speed_options,
)

_text_options = together(
    option(
        "Text",
        "--domain",
        multiple=True,
        metavar="DIR|FILE",
        callback=named_texts,
        help="Text to train on; may be given several times. A folder stands for its .txt, .conllu "
        "and .jsonl files, .gz and .xz too, in order of name.",
    ),
    option(
        "Text",
        "--heldout",
        multiple=True,
        metavar="FILE",
        callback=named_texts,
        help="Text that is only measured.  [default: what is called heldout, dev, valid, test or "
        "the like in DIR, else a twentieth of the domain, which is set apart]",
    ),
)

_more_model_options = together(
    option(
        "Model",
        "--softmax",
        metavar="FILE",
        callback=named,
        help="The softmax weights.  [default: those beside the weights, or inside them]",
    ),
    option(
        "Model",
        "--vocabulary",
        metavar="FILE",
        callback=named,
        help="The types to predict, one a line.  [default: those beside the weights, else counted "
        "in the domain]",
    ),
    option(
        "Model",
        "--fit-head",
        is_flag=True,
        help="Fit a new softmax to the frozen biLM before anything else, as is done for a model "
        "without one.",
    ),
    option(
        "Model",
        "--head-tokens",
        type=click.IntRange(min=1),
        default=300_000,
        show_default=True,
        help="Tokens of the domain that a softmax is fitted on, at most.",
    ),
    option(
        "Model",
        "--vocabulary-size",
        "max_types",
        type=click.IntRange(min=4),
        default=25_000,
        show_default=True,
        help="Types of a vocabulary that is counted, the commonest ones.",
    ),
    option(
        "Model",
        "--min-count",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Leave out of it what is seen less often.",
    ),
)

_run_options = together(
    option(
        "Output",
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        callback=on_disk,
        help="Folder of the fine-tuned model: weights, options, softmax, vocabulary, card, log.",
    ),
    option("Output", "--resume", is_flag=True, help="Go on with the run in DIR."),
    option("Output", "-f", "--overwrite", is_flag=True, help="Begin anew where DIR holds a run."),
    option(
        "Output",
        "--dtype",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="Of the weights that are written; float16 halves the files.",
    ),
)

_limit_options = together(
    option(
        "Length",
        "--max-epochs",
        type=FiniteRange(min=0, min_open=True),
        default=3.0,
        show_default=True,
        help="Times to read the text; 0.5 is half of it.",
    ),
    option(
        "Length",
        "--max-seconds",
        type=FiniteRange(min=0, min_open=True),
        help="Time to fit, train and measure; reading texts and models is not counted.",
    ),
    option("Length", "--max-steps", type=click.IntRange(min=1), help="Changes of the weights."),
    option(
        "Length",
        "--patience",
        type=click.IntRange(min=1),
        default=3,
        show_default=True,
        help="Stop after so many looks without a better held-out perplexity. An epoch has ten of "
        "them; one of fewer than 250 steps has fewer, and at least one.",
    ),
)

_training_options = together(
    option(
        "Training",
        "--optimizer",
        type=click.Choice(["adamw", "adagrad"]),
        default="adamw",
        show_default=True,
        help="adamw warms up and decays; adagrad is what the originals were trained with, here at "
        "a lower rate, since weight files do not hold its sums.",
    ),
    rate_option,
    option(
        "Training",
        "--rows",
        type=click.IntRange(min=1),
        default=32,
        show_default=True,
        help="Rows of text read side by side, 20 tokens at a time.",
    ),
    accumulate_option,
    dropout_option,
    option(
        "Training",
        "--negatives",
        type=click.IntRange(min=1),
        default=2048,
        show_default=True,
        help="Types drawn for the sampled softmax; up to 8192 types the softmax is full.",
    ),
    seed_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Go on training a biLM on your own text.",
    no_args_is_help=True,
)
@argument("more", nargs=-1, metavar="[FILE…]", callback=named_texts)
@_text_options
@model_options
@_more_model_options
@_run_options
@_limit_options
@_training_options
@training_speed_options
@input_options
@quiet_option
@figures_json_option
def finetune(**given: Any) -> None:
    """Go on training a biLM on your own text, and write it as a new model folder.

    The model itself stays as it is. A model without a softmax gets one first, fitted to the frozen
    biLM. Then all of it is trained at a low rate until the held-out perplexity stops falling, and
    the best weights are kept. The table at the end compares the frozen biLM with the fine-tuned
    one, with the same vocabulary on the same text.

    FILEs are more of the domain, so that `--domain *.txt` means what it looks like.

    \b
    Examples:
      elmo finetune --domain data/ -o tuned/
      elmo finetune --domain raw/*.txt --tokenize -m original -o tuned/ --max-seconds 3600
      elmo finetune --domain data/ -o tuned/ --max-seconds 7200 --resume
      elmo embed corpus.txt -o corpus.hdf5 -m tuned/
    """
    from elmo_cli.cli.finetuning import finetune_command

    finetune_command(given)
