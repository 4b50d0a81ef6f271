"""From the name of an engine to the engine."""

from __future__ import annotations

import torch

from elmo_cli.engine.contract import Engine
from elmo_cli.engine.fast import FastEngine
from elmo_cli.engine.plain import PlainEngine
from elmo_cli.engine.products import check_precision
from elmo_cli.errors import UsageError
from elmo_cli.model.bilm import BiLM

ENGINES = ("fast", "plain")


def choose_engine(
    name: str, bilm: BiLM, device: torch.device, precision: str = "float32"
) -> Engine:
    """The engine of a name, with the biLM's weights on the device.

    Raises:
        UsageError: no such engine, or it has no such precision.
        DeviceError: the device has no such precision.
    """
    check_precision(precision, device, engine=name)
    if name == "fast":
        return FastEngine(bilm, device, precision)
    if name == "plain":
        return PlainEngine(bilm, device)
    raise UsageError(
        f"--engine {name}: not {' or '.join(ENGINES)}", "`--engine fast` is the default"
    )
