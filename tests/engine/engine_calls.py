"""Calls of an engine with sentences, and comparisons of the layers and states that it returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tolerance import ATOL_ORDER

from elmo_cli.engine.engines import Engine
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.text.batching import Batch, TypeNumbers
from elmo_cli.text.characters import CharacterIds

CPU = torch.device("cpu")
SENTENCES = ["the cat", "", "Zoë saw the cat that saw Zoë", "a", "", "saw the cat on the mat ."]
SHARED_PREFIXES = [
    "the cat saw",
    "the cat saw Zoë .",
    "the cat",
    "saw the cat on the mat .",
    "on the mat .",
]


def batch_of(sentences: Sequence[str]) -> tuple[Batch, list[str]]:
    """The rows of sentences in the order given, and their types."""
    types = TypeNumbers(CharacterIds())
    rows = tuple(types.numbers_of(sentence.split()) for sentence in sentences)
    return Batch(rows, np.arange(len(rows))), types.types


def random_state(bilm: BiLM, batch: int) -> State:
    zeros = State.zeros(bilm.options, batch)
    return State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))


def forward(
    engine: Engine,
    sentences: Sequence[str],
    start: State | None = None,
    *,
    shared: bool = False,
    with_boundaries: bool = False,
) -> tuple[list[np.ndarray], State | None]:
    """Layers (layer, token, dim) of each sentence, and the final state."""
    batch, types = batch_of(sentences)
    layers, final = engine.forward(
        batch,
        engine.embed_types(types),
        start,
        shared_start=shared,
        keep_boundaries=with_boundaries,
    )
    assert (final is None) == shared
    n_tokens = batch.lengths if with_boundaries else batch.lengths - 2
    pieces = torch.split(layers.cpu(), n_tokens.tolist(), 1)
    return [sentence.numpy() for sentence in pieces], final


def close(actual: object, expected: object, atol: float = ATOL_ORDER) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def all_close(
    found: tuple[list[np.ndarray], State | None], expected: tuple[list[np.ndarray], State | None]
) -> None:
    """Compare what `forward` returns, and the final states unless the first one has none."""
    found_layers, found_state = found
    expected_layers, expected_state = expected
    for found_sentence, expected_sentence in zip(found_layers, expected_layers, strict=True):
        close(found_sentence, expected_sentence)
    if found_state is not None:
        assert expected_state is not None
        close(found_state.h, expected_state.h)
        close(found_state.c, expected_state.c)


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for found_array, expected_array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(found_array, expected_array)
