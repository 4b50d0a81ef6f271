"""A word about processors that only imitate bfloat16."""

from __future__ import annotations

import torch

from elmo_cli.cli import console
from elmo_cli.engine.runtime import has_fast_bf16


def warn_of_slow_bf16(device: torch.device, *, quiet: bool) -> None:
    """Say so where products in bfloat16 take longer than in float32."""
    if device.type == "cpu" and not has_fast_bf16(device):
        console.note(
            "warning: this processor computes in bfloat16 far slower than in float32", quiet=quiet
        )
