"""A learned sum of layers, equation (1) of the paper, as the option `--layers` takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence


def layer_mix(weights: Sequence[float], gamma: float) -> str:
    """Format a sum as `mix:W0,W1,W2,GAMMA`.

    Args:
        weights: of the layers, before the softmax.
    """
    largest = max(weights)
    exponentials = [math.exp(weight - largest) for weight in weights]
    total = sum(exponentials)
    numbers = [*(exponential / total for exponential in exponentials), gamma]
    return "mix:" + ",".join(f"{number:.8g}" for number in numbers)
