"""Highway: one gated layer over the filters' outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """One gated layer: part of the input is carried through, the rest transformed.

    Source: Srivastava et al. 2015; bilm-tf `bilm/model.py` (its `carry` gate is the share of the
    transformed input, and relu stands here whatever the activation of the convolutions is).
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(token, filter) -> (token, filter)."""
        gate = torch.sigmoid(self.carry(x))  # (token, filter)
        transformed = torch.relu(self.transform(x))  # (token, filter)
        mixed: Tensor = gate * transformed + (1 - gate) * x  # (token, filter)
        return mixed
