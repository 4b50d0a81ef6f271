"""Options that `pretrain` and `finetune` share."""

from __future__ import annotations

import click

from elmo_cli.cli.options import (
    FiniteRange,
    Option,
    flag,
    local_path,
    precision_option,
    processor_options,
    text_names,
    together,
    value,
)

MOST_SEED = 2**63 - 1  # numpy takes none below zero, torch none beyond 64 bits
POSITIVE = FiniteRange(min=0, min_open=True)
AT_LEAST_1 = click.IntRange(min=1)

overwrite_run_option: Option = flag(
    "Output", "-f, --overwrite", "Start over where DIR holds a run."
)
weights_dtype_option: Option = value(
    "Output",
    "--dtype TYPE",
    "Type of the exported weights: float32 or float16.",
    type=click.Choice(["float32", "float16"]),
    default="float32",
)
max_steps_option: Option = value(
    "Length", "--max-steps N", "Stop after N weight updates.", type=AT_LEAST_1
)
optimizer_option: Option = value(
    "Training",
    "--optimizer NAME",
    "Optimizer: adamw, or adagrad as in bilm-tf.",
    type=click.Choice(["adamw", "adagrad"]),
    default="adamw",
)
batch_options: Option = together(
    value(
        "Training",
        "--batch-size N",
        "Streams of text read in parallel, per process.",
        type=AT_LEAST_1,
        default=32,
    ),
    value(
        "Training",
        "--gradient-accumulation-steps N",
        "Batches per weight update; less memory for the same effective batch size.",
        type=AT_LEAST_1,
        default=1,
    ),
)
dropout_option: Option = value(
    "Training",
    "--dropout P",
    "Dropout probability.",
    type=FiniteRange(min=0, max=1, max_open=True),
    default=0.1,
)
negative_samples_option: Option = value(
    "Training",
    "--negative-samples N",
    "Types sampled for the softmax; 0 computes the full softmax.  [default: 2048, or 0 up to 8192 "
    "types]",
    type=click.IntRange(min=0),
)
seed_option: Option = value(
    "Training", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0
)
training_compute_options: Option = together(
    processor_options,
    precision_option(
        "float32", "bf16", description="Precision of matrix products: float32 or bf16."
    ),
)


def output_folder(contents: str) -> Option:
    """The folder that training writes its model to."""
    return value(
        "Output",
        "-o, --output DIR",
        f"Output folder: {contents}.",
        required=True,
        callback=local_path,
    )


def learning_rate_option(*, adamw: float, adagrad: float) -> Option:
    """The peak learning rate, with the default of each optimizer."""
    return value(
        "Training",
        "--learning-rate FLOAT",
        f"Peak learning rate.  [default: {adamw:g} for adamw, {adagrad:g} for adagrad]",
        type=POSITIVE,
    )


def heldout_option(description: str) -> Option:
    """Held-out texts, in any number."""
    return value("Evaluation", "--heldout FILE", description, multiple=True, callback=text_names)


def patience_option(default: int | None = None) -> Option:
    """When to stop for lack of progress."""
    return value(
        "Length" if default is None else "Evaluation",
        "--patience N",
        "Stop after N evaluations without a better held-out perplexity.",
        type=AT_LEAST_1,
        default=default,
    )


def vocabulary_size_options(group: str, size: int | None, min_count: int) -> Option:
    """Bounds of a vocabulary that is plural in the text, under the heading `group`."""
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
