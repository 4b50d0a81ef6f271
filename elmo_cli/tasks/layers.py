"""Layers of the task models: dropout, LSTMs, functions of masked tokens, and a CRF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

IGNORED = -100  # label of padding, the default `ignore_index` of torch's losses
MASKED = -1e4  # score of a masked position, whose softmax is 0
_TINY = 1e-30


class SequenceDropout(nn.Module):
    """Dropout of (batch, token, dim) with one mask per sequence (Gal and Ghahramani 2016)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        n_rows, _, dim = x.shape
        is_kept = torch.rand(n_rows, 1, dim, device=x.device) >= self.p
        scale = is_kept.to(x.dtype) / (1 - self.p)
        return x * scale


def reverse_within(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row of (batch, token, dim) within its length; padding stays in its place."""
    positions = torch.arange(x.shape[1], device=x.device)[None]  # (1, token)
    mirrored = lengths[:, None] - 1 - positions  # (batch, token), negative in the padding
    sources = torch.where(mirrored >= 0, mirrored, positions)
    return x.take_along_dim(sources[..., None], 1)


class BiLSTM(nn.Module):
    """A stack of bidirectional LSTMs over padded rows; (batch, token, dim) -> (…, 2 * hidden).

    The backward direction reads each row reversed within its length, which on a CPU takes half the
    time of packed sequences.
    """

    def __init__(self, dim: int, hidden: int, n_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * hidden
        sizes = [dim] + [self.dim] * (n_layers - 1)
        self.ahead = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes)
        self.back = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes)
        self.dropout = SequenceDropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        for number, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            if number > 0:
                x = self.dropout(x)
            forward, _ = ahead(x)
            reversed_backward, _ = back(reverse_within(x, lengths))
            backward = reverse_within(reversed_backward, lengths)
            x = torch.cat([forward, backward], -1)  # (batch, token, 2 * hidden)
        return x


class AlternatingLSTM(nn.Module):
    """LSTM layers that alternate in direction; (batch, token, dim) -> (…, hidden).

    A highway gate combines the output of each layer with its input. It is applied to the output,
    not within the recurrence as in the paper, so that torch computes a layer in one call.

    Source: He et al. 2017, section 2.
    """

    def __init__(self, dim: int, hidden: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.dim = hidden
        sizes = [dim] + [hidden] * (n_layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes)
        self.gates = nn.ModuleList(nn.Linear(size + hidden, hidden) for size in sizes)
        self.carries = nn.ModuleList(nn.Linear(size, hidden, bias=False) for size in sizes)
        self.dropout = SequenceDropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        layers = zip(self.layers, self.gates, self.carries, strict=True)
        for number, (lstm, gate, carry) in enumerate(layers):
            is_backward = number % 2 == 1
            if is_backward:
                reversed_states, _ = lstm(reverse_within(x, lengths))
                states = reverse_within(reversed_states, lengths)
            else:
                states, _ = lstm(x)
            kept = torch.sigmoid(gate(torch.cat([states, x], -1)))  # (batch, token, hidden)
            x = self.dropout(kept * states + (1 - kept) * carry(x))
        return x


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum of (batch, token, dim) over the tokens of a mask (batch, token)."""
    return x.masked_fill(~mask[..., None], MASKED).amax(1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of (batch, token, dim) over the tokens of a mask (batch, token)."""
    kept = mask[..., None].to(x.dtype)  # (batch, token, 1)
    n_tokens = kept.sum(1)  # (batch, 1)
    return (x * kept).sum(1) / n_tokens.clamp(min=1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last axis of `scores`, 0 outside a mask of the same shape."""
    return torch.softmax(scores.masked_fill(~mask, MASKED), -1)


def align(scores: Tensor, mask: Tensor, states: Tensor) -> Tensor:
    """Attend from each token to the states of another sentence; return (batch, token, dim).

    `scores` are (batch, token, other token), `mask` and `states` (batch, other token, …).
    """
    weights = masked_softmax(scores, mask[:, None].expand_as(scores))
    return weights @ states


def pad_targets(rows: Iterable[Sequence[str | None]], names: Iterable[str]) -> Tensor:
    """Return the indices of labels in `names` as (batch, token), with `IGNORED` as padding.

    `IGNORED` also stands for None, which is no label.
    """
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    numbers[None] = IGNORED
    targets = [torch.tensor([numbers[label] for label in row]) for row in rows]
    return nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=IGNORED)


class CRF(nn.Module):
    """A linear-chain CRF with one learned score per pair of labels (Lafferty et al. 2001).

    Args:
        allowed: which labels may follow each other, as from `labels.allowed_transitions`; other
            transitions score -10,000, in training too.
    Attributes:
        weights: (label + 1, label + 1) transition scores, in the order of `allowed`.
    """

    allowed: Tensor

    def __init__(self, allowed: Sequence[Sequence[bool]]) -> None:
        super().__init__()
        self.register_buffer("allowed", torch.tensor(allowed), persistent=False)
        self.weights = nn.Parameter(torch.zeros(self.allowed.shape))

    @property
    def transitions(self) -> Tensor:
        """The transition scores, with those that are not allowed far below the others."""
        return self.weights.masked_fill(~self.allowed, MASKED)

    def log_likelihood(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the log-likelihood of the labels of each sentence, (batch,).

        Args:
            scores: (batch, token, label).
            labels: (batch, token) indices of labels, any label outside the mask (batch, token).
        """
        transitions = self.transitions
        n_labels = scores.shape[2]
        boundary = labels.new_full((len(labels), 1), n_labels)
        tokens = torch.where(mask, labels, n_labels)
        path = torch.cat([boundary, tokens, boundary], 1)  # (batch, token + 2)
        is_step = torch.cat([mask[:, :1], mask], 1)  # with the one from the last token
        steps = transitions[path[:, :-1], path[:, 1:]] * is_step  # (batch, token + 1)
        chosen = scores.gather(2, labels[..., None])[..., 0] * mask  # (batch, token)
        log_partition = self._log_partition(scores, mask, transitions)
        return chosen.sum(1) + steps.sum(1) - log_partition

    def _log_partition(self, scores: Tensor, mask: Tensor, transitions: Tensor) -> Tensor:
        """Return the log of the partition function by the forward algorithm, (batch,).

        The sums over previous labels are matrix products of probabilities, several times faster
        than `logsumexp`; `_TINY` keeps the logarithm finite where no label may precede.
        """
        factors = transitions[:-1, :-1].exp()  # (label, label)
        total = transitions[-1, :-1] + scores[:, 0]  # (batch, label)
        for i in range(1, scores.shape[1]):
            largest = total.detach().amax(1, keepdim=True)
            sums = (total - largest).exp() @ factors
            extended = sums.clamp(min=_TINY).log() + largest + scores[:, i]
            total = torch.where(mask[:, i, None], extended, total)
        return torch.logsumexp(total + transitions[:-1, -1], 1)


def viterbi(scores: Tensor, mask: Tensor, transitions: Tensor) -> list[list[int]]:
    """Return the best label sequence of each sentence.

    Arguments as in `CRF.log_likelihood`; `transitions` are (label + 1, label + 1) as in `CRF`.
    """
    n_steps = scores.shape[1]
    between = transitions[:-1, :-1]  # (label, label)
    from_start = transitions[-1, :-1]
    to_end = transitions[:-1, -1]

    best = from_start + scores[:, 0]  # (batch, label), of sequences that end in each label
    best_at = [best]
    for i in range(1, n_steps):
        extended = (best[:, None] + between.T).amax(2) + scores[:, i]
        best = torch.where(mask[:, i, None], extended, best)
        best_at.append(best)

    chosen = (best + to_end).argmax(1)  # (batch,), the last label
    path = [chosen]
    for i in range(n_steps - 1, 0, -1):
        predecessor = (best_at[i - 1] + between[:, chosen].T).argmax(1)
        chosen = torch.where(mask[:, i], predecessor, chosen)
        path.append(chosen)

    rows = torch.stack(path[::-1], 1).tolist()  # (batch, token)
    lengths = mask.sum(1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
