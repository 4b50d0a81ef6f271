"""NextTokenSoftmax: log-likelihoods over the vocabulary, shared by both directions."""

from __future__ import annotations

import numpy as np
import torch

from elmo_cli.model.bilm import NextTokenSoftmax


def test_log_likelihoods_are_those_of_the_formula(seed: int) -> None:
    """Without it perplexities could be in another base, or over another axis."""
    head = NextTokenSoftmax(7, 3)
    torch.nn.init.normal_(head.bias)
    h, targets = torch.randn(5, 3), torch.tensor([0, 6, 3, 3, 1])
    scores = h.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    expected = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    found = head(h, targets).detach().numpy()
    np.testing.assert_allclose(found, expected[np.arange(5), targets], rtol=0, atol=1e-5)
    assert (found < 0).all()
