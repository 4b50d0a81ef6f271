"""What `--layers` asks for: numbers of layers, or the weights of a mix."""

from __future__ import annotations

import numpy as np

from elmo_cli.errors import UsageError

MIX = "mix:"
FORMS = "`--layers` takes all, top, average, layer numbers such as 0,2, or mix:w0,w1,w2[,gamma]"

MOST_DIGITS = 9  # of a layer's number


def layer_numbers(name: str, where: str = "") -> tuple[int, ...]:
    """The numbers of "0,2", in the order in which they are given.

    Args:
        where: what the message begins with.
    Raises:
        UsageError: not such a choice, or a layer that is named twice.
    """
    parts = name.split(",")
    if not all(part.isdecimal() and len(part) <= MOST_DIGITS for part in parts):
        raise UsageError(f"{where}--layers {name}: not a choice of layers", FORMS)
    numbers = tuple(int(part) for part in parts)
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{where}--layers {name}: a layer is named twice", FORMS)
    return numbers


def mix_weights(name: str, n_layers: int, holder: str, where: str = "") -> tuple[float, ...]:
    """The weights of "mix:0.2,0.3,0.5" or "mix:0.2,0.3,0.5,1.1", times gamma where it is given.

    Args:
        n_layers: how many there are to mix.
        holder: what has them, for the message: "the model".
        where: what the message begins with.
    Raises:
        UsageError: no such weights, as many as there are not layers, or such as no sum comes of.
    """
    try:
        values = [float(part) for part in name[len(MIX) :].split(",")]
    except ValueError:
        values = [float("nan")]
    if not np.isfinite(values).all():
        raise UsageError(f"{where}--layers {name}: not finite numbers", FORMS)
    if len(values) not in (n_layers, n_layers + 1):
        raise UsageError(
            f"{where}--layers {name}: {len(values)} numbers, {holder} needs {n_layers} weights, "
            "and gamma if you like",
            FORMS,
        )
    gamma = values[n_layers] if len(values) > n_layers else 1.0
    weights = tuple(gamma * value for value in values[:n_layers])
    most = float(np.finfo(np.float32).max)
    for layer, weight in enumerate(weights):
        if abs(weight) > most:
            # It would be infinite in the sum, which then looks like damage of the model.
            raise UsageError(
                f"{where}--layers {name}: the weight {weight:g} of layer {layer} is beyond float32 "
                f"(at most {most:.5g})",
                "give smaller weights, or a smaller gamma",
            )
    if not any(map(np.float32, weights)):  # those that it has no number for are 0 too
        raise UsageError(
            f"{where}--layers {name}: all weights are 0, so every vector would be",
            "they are taken as they stand; an ElmoMix has them in torch.softmax(mix.weights, 0)",
        )
    return weights
