"""Options that the commands which train share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from elmo_cli.cli.options import FiniteRange, option, precision_option, processor_options, together

_MOST_SEED = 2**63 - 1  # numpy takes none below zero, torch none beyond 64 bits

rate_option: Callable[[Any], Any] = option(
    "Training",
    "--rate",
    type=FiniteRange(min=0, min_open=True),
    help="Learning rate.  [default: of the optimizer]",
)
accumulate_option: Callable[[Any], Any] = option(
    "Training",
    "--accumulate",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many times --rows in a step, one after the other: less memory, the same step.",
)

dropout_option: Callable[[Any], Any] = option(
    "Training",
    "--dropout",
    type=FiniteRange(min=0, max=1, max_open=True),
    default=0.1,
    show_default=True,
    help="Share.",
)
seed_option: Callable[[Any], Any] = option(
    "Training",
    "--seed",
    type=click.IntRange(0, _MOST_SEED),
    default=0,
    show_default=True,
    help="Of all random numbers.",
)
training_speed_options: Callable[[Any], Any] = together(
    processor_options,
    precision_option(
        "float32",
        "bf16",
        what="bf16 computes products in bfloat16, which GPUs do several times as fast.",
    ),
)
