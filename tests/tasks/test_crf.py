"""Probabilities and best paths of a CRF, against pytorch-crf."""

from __future__ import annotations

import pytest
import torch
import torchcrf

from elmo_cli.tasks.labels import allowed_transitions, labels_of_types
from elmo_cli.tasks.layers import CRF, viterbi

LENGTHS = [4, 1, 3]
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def random_crf(scheme: str | None) -> tuple[CRF, torch.Tensor]:
    """A CRF for two types of spans, or for five plain labels, and scores of labels."""
    torch.manual_seed(1)
    if scheme is None:
        allowed = [[True] * 6] * 6
    else:
        allowed = allowed_transitions(labels_of_types("XY", scheme), scheme)
    crf = CRF(allowed).double()
    torch.nn.init.normal_(crf.weights)
    return crf, torch.randn(len(LENGTHS), max(LENGTHS), len(allowed) - 1, dtype=torch.double)


@pytest.mark.parametrize("scheme", ["BIO", "BIOUL", None])
def test_equals_pytorch_crf(scheme: str | None) -> None:
    crf, scores = random_crf(scheme)
    theirs = torchcrf.CRF(scores.shape[2], batch_first=True).double()
    with torch.no_grad():
        theirs.transitions.copy_(crf.transitions[:-1, :-1])
        theirs.start_transitions.copy_(crf.transitions[-1, :-1])
        theirs.end_transitions.copy_(crf.transitions[:-1, -1])
    assert viterbi(scores, MASK, crf.transitions) == theirs.decode(scores, MASK)
    labels = torch.randint(scores.shape[2], MASK.shape)
    expected = theirs(scores, labels, MASK, reduction="none")
    assert torch.allclose(crf.log_likelihood(scores, labels, MASK), expected)


def test_forbidden_transitions_get_no_weight_by_training() -> None:
    crf, scores = random_crf("BIO")
    labels = torch.tensor([viterbi(scores, MASK, crf.transitions)[0]])
    crf.log_likelihood(scores[:1], labels, MASK[:1]).sum().backward()
    assert crf.weights.grad is not None
    assert not crf.weights.grad[~crf.allowed].any()
    assert crf.weights.grad[crf.allowed].any()
