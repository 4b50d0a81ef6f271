"""CRF: a linear-chain conditional random field, and Viterbi decoding under constraints."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_cli.tasks.labels import OUTSIDE, may_follow
from elmo_cli.tasks.layers import MASKED

_TINY = 1e-30


def allowed_transitions(labels: Sequence[str], scheme: str) -> Tensor:
    """Return which labels may follow each other in a scheme such as "BIO".

    Returns:
        (label + 1, label + 1) bool, from row to column; the last of each is the sentence boundary.
    """
    names = [*labels, OUTSIDE]
    return torch.tensor([[may_follow(a, b, scheme) for b in names] for a in names])


class CRF(nn.Module):
    """A linear-chain CRF with one learned score per pair of labels (Lafferty et al. 2001).

    Args:
        allowed: from `allowed_transitions`; other transitions score -10,000, in training too.
    Attributes:
        weights: (label + 1, label + 1) transition scores, in the order of `allowed`.
    """

    allowed: Tensor

    def __init__(self, allowed: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(allowed.shape))
        self.register_buffer("allowed", allowed, persistent=False)

    @property
    def transitions(self) -> Tensor:
        """The transition scores, with those that are not allowed far below the others."""
        return self.weights.masked_fill(~self.allowed, MASKED)

    def log_likelihood(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the log-likelihood of the labels of each sentence, (batch,).

        Args:
            scores: (batch, token, label).
            labels: (batch, token) indices of labels, any label where there is no token.
            mask: (batch, token), true where there is a token.
        """
        transitions = self.transitions
        n_labels = scores.shape[2]
        boundary = labels.new_full((len(labels), 1), n_labels)
        path = torch.cat([boundary, torch.where(mask, labels, n_labels), boundary], 1)
        is_step = torch.cat([mask[:, :1], mask], 1)  # with the one from the last token
        steps = (transitions[path[:, :-1], path[:, 1:]] * is_step).sum(1)
        chosen = scores.gather(2, labels[..., None])[..., 0] * mask
        return chosen.sum(1) + steps - self._log_partition(scores, mask, transitions)

    def _log_partition(self, scores: Tensor, mask: Tensor, transitions: Tensor) -> Tensor:
        """Return the log of the partition function by the forward algorithm, (batch,).

        The sums over previous labels are matrix products of probabilities, several times faster
        than `logsumexp`; `_TINY` keeps the logarithm finite where no label may precede.
        """
        factors = transitions[:-1, :-1].exp()
        total = transitions[-1, :-1] + scores[:, 0]
        for i in range(1, scores.shape[1]):
            largest = total.detach().amax(1, keepdim=True)
            sums = (total - largest).exp() @ factors
            further = sums.clamp(min=_TINY).log() + largest + scores[:, i]
            total = torch.where(mask[:, i, None], further, total)
        return torch.logsumexp(total + transitions[:-1, -1], 1)


def viterbi(scores: Tensor, mask: Tensor, transitions: Tensor) -> list[list[int]]:
    """Return the best label sequence of each sentence.

    Args:
        scores: (batch, token, label).
        mask: (batch, token), true where there is a token.
        transitions: (label + 1, label + 1) transition scores, as in `CRF`.
    """
    between = transitions[:-1, :-1]
    best = transitions[-1, :-1] + scores[:, 0]
    steps = [best]
    for i in range(1, scores.shape[1]):
        further = (best[:, None] + between.T).amax(2) + scores[:, i]
        best = torch.where(mask[:, i, None], further, best)
        steps.append(best)
    path = [(best + transitions[:-1, -1]).argmax(1)]
    for i in range(scores.shape[1] - 1, 0, -1):  # the best predecessor of the chosen label
        before = (steps[i - 1] + between[:, path[-1]].T).argmax(1)
        path.append(torch.where(mask[:, i], before, path[-1]))
    rows = torch.stack(path[::-1], 1).tolist()
    return [row[:n] for row, n in zip(rows, mask.sum(1).tolist(), strict=True)]
