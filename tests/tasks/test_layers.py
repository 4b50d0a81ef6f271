"""Layers of task models: dropout of sequences, LSTMs in both directions, and targets."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from elmo_cli.tasks.layers import BiLSTM, SequenceDropout, pad_targets


def test_dropout_drops_the_same_values_of_all_tokens() -> None:
    torch.manual_seed(0)
    dropout = SequenceDropout(0.2)
    ones = torch.ones(50, 3, 40)
    dropped = dropout(ones)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert dropped.unique().tolist() == pytest.approx([0, 1.25])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert not torch.equal(dropped[0], dropped[1])
    assert torch.equal(dropout.eval()(ones), ones)


def test_both_directions_are_those_of_torch() -> None:
    """For each row alone, that is, without padding; and dropout is between layers only."""
    torch.manual_seed(0)
    layer = BiLSTM(3, 4, 2, dropout=0.5).eval()
    expected = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
    x = torch.randn(2, 5, 3)
    lengths = [5, 3]
    with torch.no_grad():
        for number, (ahead, back) in enumerate(zip(layer.ahead, layer.back, strict=True)):
            for name, weight in ahead.named_parameters():
                name_there = name.replace("_l0", f"_l{number}")
                expected.get_parameter(name_there).copy_(weight)
                backward_weight = back.get_parameter(name)
                expected.get_parameter(f"{name_there}_reverse").copy_(backward_weight)
        states = layer(x, torch.tensor(lengths))
        for row, n_tokens in enumerate(lengths):
            alone, _ = expected(x[row : row + 1, :n_tokens])
            torch.testing.assert_close(states[row, :n_tokens], alone[0])
        assert not torch.equal(layer.train()(x, torch.tensor(lengths)), states)
        single = BiLSTM(3, 4, 1, dropout=0.5)
        in_training = single.train()(x, torch.tensor(lengths))
        assert torch.equal(in_training, single.eval()(x, torch.tensor(lengths)))


def test_targets_are_padded_where_there_is_no_token_or_no_label() -> None:
    targets = pad_targets([("a", None, "b"), ("b",)], ["b", "a"])
    assert targets.tolist() == [[1, -100, 0], [0, -100, -100]]
