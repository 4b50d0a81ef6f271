"""FLOPs of the fast engine: no product is computed twice."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from engine_calls import batch_of
from operations import counter

from elmo_cli.engine.engines import make_engine
from elmo_cli.engine.gemm import padded_rows
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options

LINES = [
    "the cat saw the cat .",
    "the cat saw it .",
    "the",
    "a dog saw the dog",
    "the cat saw it .",
]


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
    gates = 2 * options.projection_dim * 4 * options.lstm_dim  # of the input, or of h
    projection = 2 * options.lstm_dim * options.projection_dim if options.has_lstm_projection else 0
    total = 0
    for direction in (1, -1):
        rows = [("<boundary>", *line.split()[::direction]) for line in lines]
        prefixes = {row[: n + 1] for row in rows for n in range(len(row))}
        prefixes_by_step = Counter(len(prefix) for prefix in prefixes)
        n_positions = sum(padded_rows(n) for n in prefixes_by_step.values())
        types = {token for row in rows for token in row}
        total += padded_rows(len(types)) * gates + n_positions * (gates + projection)
        total += (n_lstms - 1) * n_positions * (2 * gates + projection)
    return total


@pytest.mark.parametrize("top_layer", [1, 2, None])
def test_prefixes_and_types_are_computed_once(top_layer: int | None, odd_bilm: BiLM) -> None:
    n_lstms = odd_bilm.options.n_layers if top_layer is None else top_layer
    counted = expected(odd_bilm.options, LINES, n_lstms)
    assert flops(odd_bilm, LINES, top_layer) == counted
    one_by_one = sum(expected(odd_bilm.options, [line], n_lstms) for line in LINES)
    assert counted < 0.8 * one_by_one


def test_equal_lines_cost_as_much_as_one_and_layer_0_nothing(odd_bilm: BiLM) -> None:
    assert flops(odd_bilm, LINES[:1] * 20) == flops(odd_bilm, LINES[:1])
    assert flops(odd_bilm, LINES, 0) == 0
