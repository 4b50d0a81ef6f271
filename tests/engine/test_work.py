"""What the fast engine computes, counted in operations of products: nothing known is done again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from operations import counter

from elmo_cli.engine.choose import choose_engine
from elmo_cli.engine.packed import height
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.text.batching import Batch, TypeNumbers

LINES = [
    "the cat saw the cat .",
    "the cat saw it .",
    "the",
    "a dog saw the dog",
    "the cat saw it .",
]


def operations(bilm: BiLM, lines: list[str], highest: int | None = None) -> int:
    """Operations of the LSTMs' products for lines that begin alike."""
    engine = choose_engine("fast", bilm, torch.device("cpu"))
    types = TypeNumbers()
    rows = tuple(types.numbers_of(line.split()) for line in lines)
    vectors = engine.token_vectors(types.types)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the counter sees its own thread alone
    try:
        with counter() as counted:
            engine.run_alike(Batch(rows, np.arange(len(rows))), vectors, None, highest=highest)
    finally:
        torch.set_num_threads(before)
    found: int = counted.get_total_flops()
    return found


def expected(options: Options, lines: list[str], n_lstms: int) -> int:
    """The same by counting: beginnings of lines, and types, each once, in heights of products."""
    gates = 2 * options.projection * 4 * options.cell
    projection = 2 * options.cell * options.projection if options.lstm_projection else 0
    total = 0
    for step in (1, -1):
        read = [("<border>", *line.split()[::step]) for line in lines]
        beginnings = {row[: n + 1] for row in read for n in range(len(row))}
        n_places = sum(height(n) for n in Counter(map(len, beginnings)).values())
        n_types = height(len({token for row in read for token in row}))
        total += n_types * gates + n_places * (gates + projection)
        total += (n_lstms - 1) * n_places * (2 * gates + projection)
    return total


@pytest.mark.parametrize("highest", [1, 2, None])
def test_beginnings_and_types_are_computed_once(highest: int | None, odd_bilm: BiLM) -> None:
    """Without it sharing could be lost, and all numbers be right, but later."""
    n_lstms = odd_bilm.options.n_layers if highest is None else highest
    counted = expected(odd_bilm.options, LINES, n_lstms)
    assert operations(odd_bilm, LINES, highest) == counted
    plain = sum(expected(odd_bilm.options, [line], n_lstms) for line in LINES)
    assert counted < 0.8 * plain


def test_equal_lines_cost_as_much_as_one(odd_bilm: BiLM) -> None:
    """Without it a text of a thousand equal lines would take a thousand times as long."""
    assert operations(odd_bilm, LINES[:1] * 20) == operations(odd_bilm, LINES[:1])


def test_layer_0_takes_no_lstm(odd_bilm: BiLM) -> None:
    """Without it `--layers 0` would take as long as all layers."""
    assert operations(odd_bilm, LINES, 0) == 0
