"""The names of engines, precisions and devices, checked without torch."""

from __future__ import annotations

import re

from elmo_cli.errors import UsageError

ENGINES = ("fast", "plain")
PRECISIONS = ("float32", "bf16", "int8")
DEVICES = ("auto", "cpu", "cuda", "mps")  # and cuda:N
DEVICE_HINT = "`device='cpu'` works on every machine; `device='auto'` uses a GPU if there is one"


def check_device_name(name: str) -> None:
    """Raise a UsageError unless a device is auto, cpu, cuda, cuda:N or mps."""
    # Python refuses to read numbers of thousands of digits.
    is_numbered = re.fullmatch("cuda:[0-9]{1,4}", name)
    if name not in DEVICES and not is_numbered:
        problem = "not auto, cpu, cuda, cuda:N or mps"
        raise UsageError(problem, DEVICE_HINT, where=f"`device={name}`", parameters=("device",))
