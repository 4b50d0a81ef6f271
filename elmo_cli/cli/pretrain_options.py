"""The options of `elmo pretrain`, but for those that all commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from elmo_cli.cli.options import FiniteRange, named, named_texts, on_disk, option, together
from elmo_cli.cli.training_options import (
    accumulate_option,
    dropout_option,
    rate_option,
    seed_option,
    training_speed_options,
)

_run_options = together(
    option(
        "Output",
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        callback=on_disk,
        help="Folder of the model: weights, options, softmax, vocabulary, recipe, log, checkpoint.",
    ),
    option(
        "Output",
        "--resume",
        is_flag=True,
        help="Go on with the run in DIR; what is not given is taken from its recipe.",
    ),
    option(
        "Output",
        "--prepare",
        is_flag=True,
        help="Stop before the first step; `--resume` trains, here or where DIR is copied to.",
    ),
    option("Output", "-f", "--overwrite", is_flag=True, help="Begin anew where DIR holds a run."),
    option(
        "Output",
        "--dtype",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="Of the weights that are written; float16 halves the files.",
    ),
    option(
        "Output",
        "--recipe",
        metavar="FILE",
        callback=named,
        help="JSON with the options that are not given here, by their long names, and `texts`.",
    ),
    option(
        "Output",
        "--data",
        metavar="DIR",
        callback=named,
        help="Folder of the texts that the recipe names.  [default: the recipe's own]",
    ),
)

_limit_options = together(
    option(
        "Length",
        "--max-seconds",
        type=FiniteRange(min=0, min_open=True),
        help="Time to train, of all parts of a run together, with the last look at held-out text "
        "and the export in it.",
    ),
    option("Length", "--max-steps", type=click.IntRange(min=1), help="Changes of the weights."),
    option(
        "Length",
        "--max-epochs",
        type=FiniteRange(min=0, min_open=True),
        help="Times to read the text; 0.5 is half of it.",
    ),
    option(
        "Length",
        "--patience",
        type=click.IntRange(min=1),
        help="Stop after so many looks without a better held-out perplexity.",
    ),
)

_look_options = together(
    option(
        "Looks",
        "--heldout",
        multiple=True,
        metavar="FILE",
        callback=named_texts,
        help="Text to measure the perplexity on; may be given several times. Where it is among the "
        "TEXTs it is left out of them: it is never trained on.",
    ),
    option(
        "Looks",
        "--heldout-tokens",
        type=click.IntRange(min=1),
        help="Read so many tokens of each held-out file at most: a look takes less time.",
    ),
    option(
        "Looks",
        "--look-seconds",
        "checkpoint_s",
        type=FiniteRange(min=0, min_open=True),
        default=600.0,
        show_default=True,
        help="Time between two looks: held-out perplexity, checkpoint, export.",
    ),
    option(
        "Looks",
        "--look-steps",
        type=click.IntRange(min=1),
        help="Look every so many steps instead, whatever time they take; --look-seconds is then "
        "the time between two checkpoints.",
    ),
    option("Looks", "--keep-best", is_flag=True, help="Export the weights of the best look."),
    option(
        "Looks",
        "--log-steps",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="Steps between two lines of the log.",
    ),
)

_training_options = together(
    option(
        "Training",
        "--optimizer",
        type=click.Choice(["adamw", "adagrad"]),
        default="adamw",
        show_default=True,
        help="adagrad is what the originals were trained with.",
    ),
    rate_option,
    option(
        "Training",
        "--warm-up-steps",
        type=click.IntRange(min=0),
        default=200,
        show_default=True,
        help="Steps in which the rate of adamw rises; then it falls to the end of the run.",
    ),
    option(
        "Training",
        "--rows",
        type=click.IntRange(min=1),
        default=32,
        show_default=True,
        help="Rows of text read side by side, by each process.",
    ),
    accumulate_option,
    option(
        "Training",
        "--steps",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="Tokens of a row that gradients flow back through.",
    ),
    option(
        "Training",
        "--shuffle",
        type=click.Choice(["sentences", "documents"]),
        default="sentences",
        show_default=True,
        help="What is read in a new order in each epoch; a document ends at a blank line.",
    ),
    dropout_option,
    option(
        "Training",
        "--clip",
        type=FiniteRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        help="Bound of the gradient's norm, as the originals count it (20 times the mean loss).",
    ),
    option(
        "Training",
        "--negatives",
        type=click.IntRange(min=1),
        default=2048,
        show_default=True,
        help="Types drawn for the sampled softmax.",
    ),
    option(
        "Training",
        "--full-softmax",
        type=click.IntRange(min=0),
        default=8192,
        show_default=True,
        help="Up to so many types in the vocabulary none are drawn: the softmax is full.",
    ),
    seed_option,
)

_model_options = together(
    option(
        "Model",
        "--from",
        "source",
        metavar="NAME|PATH",
        callback=named,
        help="Begin with the weights, the softmax and the vocabulary of this model.",
    ),
    option(
        "Model",
        "--options",
        metavar="FILE",
        callback=named,
        help="An options.json with all sizes, in place of the next three.",
    ),
    option(
        "Model",
        "--cell",
        type=click.IntRange(min=1),
        default=512,
        show_default=True,
        help="Inner size of an LSTM layer (lstm.dim of an options.json).",
    ),
    option(
        "Model",
        "--projection",
        type=click.IntRange(min=1),
        default=128,
        show_default=True,
        help="Output size of an LSTM layer; stored vectors have twice as much.",
    ),
    option(
        "Model",
        "--filters",
        type=click.Choice(["lean", "small"]),
        default="lean",
        show_default=True,
        help="Of the character CNN: 512, or the 2048 of the published models.",
    ),
)

_vocabulary_options = together(
    option(
        "Vocabulary",
        "--vocabulary-size",
        type=click.IntRange(min=4),
        default=25_000,
        show_default=True,
        help="Types that can be predicted, the commonest ones.",
    ),
    option(
        "Vocabulary",
        "--min-count",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Leave out types that are seen less often.",
    ),
    option(
        "Vocabulary",
        "--vocabulary",
        metavar="FILE",
        callback=named,
        help="Take this vocabulary instead.",
    ),
)

text_options: Callable[[Any], Any] = together(
    option(
        "Input",
        "--text-tokens",
        type=click.IntRange(min=1),
        help="Read so many tokens of each TEXT at most, so that a large one does not rule.",
    ),
    option(
        "Input",
        "--treebank",
        type=FiniteRange(min=0, max=1),
        default=0.0,
        show_default=True,
        metavar="SHARE",
        help="Spell quotes and brackets of so many documents as treebanks do: `` '' -LRB- -RRB-.",
    ),
)

pretrain_options: Callable[[Any], Any] = together(
    _run_options,
    _limit_options,
    _look_options,
    _training_options,
    _model_options,
    _vocabulary_options,
    training_speed_options,
)
