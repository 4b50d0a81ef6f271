"""FLOPs of the fast engine: no product is computed twice."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from operations import counter
from test_engines import batch_of

from elmo_cli.engine.engines import make_engine
from elmo_cli.engine.gemm import padded_rows
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options

LINES = ["the cat saw the cat .", "the cat saw it .", "the", "a dog saw the dog"]
LINES += LINES[1:2]


def flops(bilm: BiLM, lines: list[str], top_layer: int | None = None) -> int:
    """FLOPs of the LSTMs' products, which the counter sees in its own thread alone."""
    assert torch.get_num_threads() == 1
    engine = make_engine("fast", bilm, torch.device("cpu"))
    batch, types = batch_of(lines)
    vectors = engine.embed_types(types)
    with counter() as counted:
        engine.forward(batch, vectors, None, shared_start=True, top_layer=top_layer)
    return int(counted.get_total_flops())


def expected(options: Options, lines: list[str], n_lstms: int) -> int:
    """The same by counting: each distinct prefix and each type once, in padded rows."""
    gates = 2 * options.projection_dim * 4 * options.lstm_dim
    projection = 2 * options.lstm_dim * options.projection_dim if options.has_lstm_projection else 0
    total = 0
    for step in (1, -1):
        read = [("<boundary>", *line.split()[::step]) for line in lines]
        prefixes = {row[: n + 1] for row in read for n in range(len(row))}
        n_positions = sum(padded_rows(n) for n in Counter(map(len, prefixes)).values())
        n_types = padded_rows(len({token for row in read for token in row}))
        total += n_types * gates + n_positions * (gates + projection)
        total += (n_lstms - 1) * n_positions * (2 * gates + projection)
    return total


@pytest.mark.parametrize("top_layer", [1, 2, None])
def test_prefixes_and_types_are_computed_once(top_layer: int | None, odd_bilm: BiLM) -> None:
    n_lstms = odd_bilm.options.n_layers if top_layer is None else top_layer
    counted = expected(odd_bilm.options, LINES, n_lstms)
    assert flops(odd_bilm, LINES, top_layer) == counted
    plain = sum(expected(odd_bilm.options, [line], n_lstms) for line in LINES)
    assert counted < 0.8 * plain


def test_equal_lines_cost_as_much_as_one_and_layer_0_nothing(odd_bilm: BiLM) -> None:
    assert flops(odd_bilm, LINES[:1] * 20) == flops(odd_bilm, LINES[:1])
    assert flops(odd_bilm, LINES, 0) == 0
