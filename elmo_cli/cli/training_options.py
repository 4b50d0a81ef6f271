"""Options that `pretrain` and `finetune` share."""

from __future__ import annotations

import click

from elmo_cli.cli.click_options import (
    Option,
    flag,
    local_path,
    setting,
    text_names,
    together,
    value,
)
from elmo_cli.cli.options import processor_options
from elmo_cli.lm.settings import TrainSettings

AT_LEAST_1 = click.IntRange(min=1)

_OPTIONS = {  # of a field of TrainSettings: heading, declaration, help
    "max_seconds": (
        "Length",
        "--max-seconds SECONDS",
        "Stop after this many seconds of training, over all parts of the run.",
    ),
    "max_steps": ("Length", "--max-steps N", "Stop after N weight updates."),
    "max_epochs": (
        "Length",
        "--max-epochs FLOAT",
        "Stop after reading the text this many times; 0.5 is half of it.",
    ),
    "eval_seconds": (
        "Evaluation",
        "--eval-seconds SECONDS",
        "Time between two evaluations, each with a checkpoint and an export.",
    ),
    "eval_steps": (
        "Evaluation",
        "--eval-steps N",
        "Evaluate every N steps instead; checkpoints are still saved every --eval-seconds.",
    ),
    "keep_best": (
        "Evaluation",
        "--keep-best",
        "Export the weights with the best held-out perplexity instead of the last.",
    ),
    "log_steps": ("Evaluation", "--log-steps N", "Steps between two lines of the log."),
    "optimizer": ("Training", "--optimizer NAME", "Optimizer: adamw, or adagrad as in bilm-tf."),
    "warmup_steps": (
        "Training",
        "--warmup-steps N",
        "Steps of linear learning-rate warmup for adamw; cosine decay follows.",
    ),
    "batch_size": (
        "Training",
        "--batch-size N",
        "Streams of text read in parallel, per process.",
    ),
    "gradient_accumulation_steps": (
        "Training",
        "--gradient-accumulation-steps N",
        "Batches per weight update; less memory for the same effective batch size.",
    ),
    "bptt": (
        "Training",
        "--bptt N",
        "Length of truncated backpropagation through time, in tokens.",
    ),
    "shuffle": (
        "Training",
        "--shuffle UNIT",
        "What is shuffled in each epoch: sentences or documents (separated by blank lines).",
    ),
    "dropout": ("Training", "--dropout P", "Dropout probability."),
    "max_grad_norm": (
        "Training",
        "--max-grad-norm FLOAT",
        "Maximum gradient norm, for the loss summed over 20 tokens as in bilm-tf.",
    ),
    "negative_samples": (
        "Training",
        "--negative-samples N",
        "Types sampled for the softmax; 0 computes the full softmax.  [default: 2048, or 0 up to "
        "8192 types]",
    ),
    "seed": ("Training", "--seed N", "Random seed."),
    "precision": (
        "Compute",
        "--precision NAME",
        "Precision of matrix products: float32 or bf16.",
    ),
    "dtype": ("Output", "--dtype TYPE", "Type of the exported weights: float32 or float16."),
}


def train_options(*names: str) -> Option:
    """Options for fields of TrainSettings."""
    return together(*(setting(TrainSettings, *_OPTIONS[name]) for name in names))


overwrite_run_option: Option = flag(
    "Output", "-f, --overwrite", "Start over where DIR holds a run."
)
training_compute_options: Option = together(processor_options, train_options("precision"))


def output_folder(contents: str) -> Option:
    """The option for the output folder of training."""
    return value(
        "Output",
        "-o, --output DIR",
        f"Output folder: {contents}.",
        required=True,
        callback=local_path,
    )


def learning_rate_option(*, adamw: float, adagrad: float) -> Option:
    """The option for the peak learning rate, with the default of each optimizer."""
    return setting(
        TrainSettings,
        "Training",
        "--learning-rate FLOAT",
        f"Peak learning rate.  [default: {adamw:g} for adamw, {adagrad:g} for adagrad]",
    )


def heldout_option(description: str) -> Option:
    """The option for held-out texts."""
    return value("Evaluation", "--heldout FILE", description, multiple=True, callback=text_names)


def patience_option(default: int | None = None) -> Option:
    """The option to stop when the held-out perplexity no longer improves."""
    return setting(
        TrainSettings,
        "Length" if default is None else "Evaluation",
        "--patience N",
        "Stop after N evaluations without a better held-out perplexity.",
        default=default,
    )


def vocabulary_size_options(group: str, size: int | None, min_count: int) -> Option:
    """Options for the bounds of a vocabulary that is counted in the text."""
    unlimited = "" if size else "  [default: unlimited]"
    return together(
        value(
            group,
            "--vocabulary-size N",
            f"Maximum number of types, including <S>, </S> and <UNK>.{unlimited}",
            type=click.IntRange(min=4),
            default=size,
        ),
        value(
            group,
            "--min-count N",
            "Leave out types that occur less than N times.",
            type=AT_LEAST_1,
            default=min_count,
        ),
    )
