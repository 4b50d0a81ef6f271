"""NextToken: the softmax over the vocabulary, shared by both directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class NextToken(nn.Module):
    """Log-likelihood of the token that comes next.

    Source: Peters et al. 2018, 3.1 (the softmax parameters are tied over the directions);
    bilm-tf `bilm/training.py`.
    """

    def __init__(self, n_types: int, projection: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_types, projection))
        self.bias = nn.Parameter(torch.zeros(n_types))
        nn.init.normal_(self.weight, std=projection**-0.5)

    def forward(self, h: Tensor, targets: Tensor) -> Tensor:
        """Log-likelihoods over the full vocabulary.

        Args:
            h: top layer's output in one direction, (prediction, projection).
            targets: ids of the tokens that came, (prediction,) int64.
        Returns:
            (prediction,), natural logarithm.
        """
        scores = functional.linear(h, self.weight, self.bias)  # (prediction, type)
        return -functional.cross_entropy(scores, targets, reduction="none")
