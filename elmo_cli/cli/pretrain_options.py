"""The options of `elmo pretrain` that no other command has."""

from __future__ import annotations

import click

from elmo_cli.cli.options import FiniteRange, Option, flag, non_empty, together, value
from elmo_cli.cli.training_options import (
    AT_LEAST_1,
    POSITIVE,
    batch_options,
    dropout_option,
    heldout_option,
    learning_rate_option,
    max_steps_option,
    negative_samples_option,
    optimizer_option,
    output_folder,
    overwrite_run_option,
    patience_option,
    seed_option,
    training_compute_options,
    vocabulary_size_options,
    weights_dtype_option,
)

_run_options = together(
    output_folder("model, vocabulary, recipe, log and checkpoint"),
    flag(
        "Output",
        "--resume",
        "Continue the run in DIR; options that are not given come from its recipe.",
    ),
    flag(
        "Output",
        "--prepare",
        "Stop before the first step; `--resume` then trains, also in a copy of DIR.",
    ),
    overwrite_run_option,
    weights_dtype_option,
    value(
        "Output",
        "--recipe FILE",
        "JSON file with options by their long names, and `texts`; the command line takes "
        "precedence.",
        callback=non_empty,
    ),
    value(
        "Output",
        "--data-dir DIR",
        "Folder that the recipe's file names are relative to.  [default: the recipe's folder]",
        callback=non_empty,
    ),
)

_limit_options = together(
    value(
        "Length",
        "--max-seconds SECONDS",
        "Stop after this many seconds of training, over all parts of the run.",
        type=POSITIVE,
    ),
    max_steps_option,
    value(
        "Length",
        "--max-epochs FLOAT",
        "Stop after reading the text this many times; 0.5 is half of it.",
        type=POSITIVE,
    ),
    patience_option(),
)

_evaluation_options = together(
    heldout_option("Held-out text to evaluate on, never trained on; may be repeated."),
    value(
        "Evaluation",
        "--heldout-tokens-per-file N",
        "Read at most N tokens from each held-out file.",
        type=AT_LEAST_1,
    ),
    value(
        "Evaluation",
        "--eval-seconds SECONDS",
        "Time between two evaluations, each with a checkpoint and an export.",
        type=POSITIVE,
        default=600.0,
    ),
    value(
        "Evaluation",
        "--eval-steps N",
        "Evaluate every N steps instead; checkpoints are still saved every --eval-seconds.",
        type=AT_LEAST_1,
    ),
    flag(
        "Evaluation",
        "--keep-best",
        "Export the weights with the best held-out perplexity instead of the last.",
    ),
    value(
        "Evaluation",
        "--log-steps N",
        "Steps between two lines of the log.",
        type=AT_LEAST_1,
        default=100,
    ),
)

_training_options = together(
    optimizer_option,
    learning_rate_option(adamw=0.0025, adagrad=0.2),
    value(
        "Training",
        "--warmup-steps N",
        "Steps of linear learning-rate warmup for adamw; cosine decay follows.",
        type=click.IntRange(min=0),
        default=200,
    ),
    batch_options,
    value(
        "Training",
        "--bptt N",
        "Length of truncated backpropagation through time, in tokens.",
        type=AT_LEAST_1,
        default=20,
    ),
    value(
        "Training",
        "--shuffle UNIT",
        "What is shuffled in each epoch: sentences or documents (separated by blank lines).",
        type=click.Choice(["sentences", "documents"]),
        default="sentences",
    ),
    dropout_option,
    value(
        "Training",
        "--max-grad-norm FLOAT",
        "Maximum gradient norm, for the loss summed over 20 tokens as in bilm-tf.",
        type=POSITIVE,
        default=10.0,
    ),
    negative_samples_option,
    seed_option,
)

_model_options = together(
    value(
        "Model",
        "--init-from NAME|PATH",
        "Start from the weights, softmax and vocabulary of this model.",
        callback=non_empty,
    ),
    value(
        "Model",
        "--options-file FILE",
        "options.json with all sizes, instead of the next three options.",
        callback=non_empty,
    ),
    value("Model", "--lstm-dim N", "LSTM cell size.", type=AT_LEAST_1, default=512),
    value(
        "Model",
        "--projection-dim N",
        "LSTM output size; stored vectors have twice as many values.",
        type=AT_LEAST_1,
        default=128,
    ),
    value(
        "Model",
        "--char-filters N",
        "Filters of the character CNN: 512, or 2048 as in the published models.",
        type=click.Choice([512, 2048]),
        default=512,
    ),
)

_vocabulary_options = together(
    vocabulary_size_options("Vocabulary", 25_000, 2),
    value(
        "Vocabulary",
        "--vocabulary FILE",
        "Types to predict, one per line, instead of counting them.",
        callback=non_empty,
    ),
)

text_options: Option = together(
    value(
        "Input",
        "--train-tokens-per-file N",
        "Read at most N tokens from each TEXT, so that large files do not dominate.",
        type=AT_LEAST_1,
    ),
    value(
        "Input",
        "--treebank-fraction P",
        "Fraction of documents whose quotes and brackets are written as in treebanks "
        "(`` '' -LRB- -RRB-).",
        type=FiniteRange(min=0, max=1),
        default=0.0,
    ),
)

pretrain_options: Option = together(
    _run_options,
    _limit_options,
    _evaluation_options,
    _training_options,
    _model_options,
    _vocabulary_options,
    training_compute_options,
)
