"""Both engines against the oracle and against each other: the layers and the state they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from make_weights import SHAPES
from oracle import Oracle
from tolerance import ATOL, ATOL_ORDER

from elmo_cli.engine import gates, products
from elmo_cli.engine.choose import ENGINES, choose_engine
from elmo_cli.engine.contract import Engine
from elmo_cli.engine.products import PRECISIONS
from elmo_cli.errors import UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch, TypeNumbers

Paired = Callable[..., tuple[BiLM, Oracle]]

CPU = torch.device("cpu")
ALIKE = ["the cat saw", "the cat saw Zoë .", "the cat", "saw the cat on the mat .", "on the mat ."]
SENTENCES = ["the cat", "", "Zoë saw the cat that saw Zoë", "a", "", "saw the cat on the mat ."]


def batch_of(sentences: Sequence[str]) -> tuple[Batch, list[str]]:
    """The rows of sentences in the order given, and their types."""
    types = TypeNumbers()
    rows = tuple(types.numbers_of(sentence.split()) for sentence in sentences)
    return Batch(rows, np.arange(len(rows))), types.types


def random_state(bilm: BiLM, batch: int) -> State:
    zeros = State.zeros(bilm.options, batch)
    return State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))


def run(
    engine: Engine, sentences: Sequence[str], state: State | None = None
) -> tuple[list[np.ndarray], State]:
    """Layers (layer, token, dim) of each sentence, and the state that is left."""
    batch, types = batch_of(sentences)
    if state is None:
        state = State.zeros(engine.options, len(sentences))
    layers, left = engine.run(batch, engine.token_vectors(types), state)
    return split(layers, batch), left


def run_alike(
    engine: Engine, sentences: Sequence[str], start: State | None = None
) -> list[np.ndarray]:
    """Layers (layer, token, dim) of each sentence, all from one state."""
    batch, types = batch_of(sentences)
    return split(engine.run_alike(batch, engine.token_vectors(types), start), batch)


def split(layers: torch.Tensor, batch: Batch) -> list[np.ndarray]:
    pieces = torch.split(layers.cpu(), (batch.lengths - 2).tolist(), 1)
    return [piece.numpy() for piece in pieces]


def close(found: object, expected: object, atol: float = ATOL_ORDER) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_layers_and_state_are_those_of_the_oracle(shape: str, engine: str, paired: Paired) -> None:
    """Without it some shape of model would be computed otherwise by one of the engines."""
    bilm, oracle = paired(SHAPES[shape])
    state = random_state(bilm, len(SENTENCES))
    layers, left = run(choose_engine(engine, bilm, CPU), SENTENCES, state)
    for r, sentence in enumerate(SENTENCES):
        start = (state.h[:, :, r].double().numpy(), state.c[:, :, r].double().numpy())
        expected, (h, c) = oracle.read(sentence.split(), start)
        assert layers[r].shape == expected.shape
        close(layers[r], expected, ATOL[engine, "float32"])
        close(left.h[:, :, r], h, ATOL[engine, "float32"])
        close(left.c[:, :, r], c, ATOL[engine, "float32"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_layers_from_one_state_are_those_of_the_oracle(
    shape: str, engine: str, paired: Paired
) -> None:
    """Without it rows that share their first steps could end up with each other's layers."""
    bilm, oracle = paired(SHAPES[shape])
    sentences = [*SENTENCES, *ALIKE]
    start = random_state(bilm, 1)
    chosen = choose_engine(engine, bilm, CPU)
    for begun, of_oracle in (
        (None, None),
        (start, (start.h[:, :, 0].double().numpy(), start.c[:, :, 0].double().numpy())),
    ):
        layers = run_alike(chosen, sentences, begun)
        for found, sentence in zip(layers, sentences, strict=True):
            expected, _ = oracle.read(sentence.split(), of_oracle)
            assert found.shape == expected.shape
            close(found, expected, ATOL[engine, "float32"])


def test_state_goes_from_batch_to_batch_of_other_sizes(engine: str, odd_bilm: BiLM) -> None:
    """Without it a row that a smaller batch lacks would lose its state, or a new one inherit it."""
    chosen, plain = (choose_engine(name, odd_bilm, CPU) for name in (engine, "plain"))
    state = expected_state = State.zeros(odd_bilm.options, 1)
    for batch in (SENTENCES[:2], SENTENCES[2:6], SENTENCES[5:], SENTENCES[:3]):
        n_rows = len(batch)
        state, expected_state = state.grown(n_rows), expected_state.grown(n_rows)
        layers, left = run(chosen, batch, state.rows(slice(0, n_rows)))
        expected = []
        for r, sentence in enumerate(batch):  # each row by itself
            row = slice(r, r + 1)
            alone, left_alone = run(plain, [sentence], expected_state.rows(row))
            expected_state = expected_state.replace(row, left_alone)
            expected += alone
        state = state.replace(slice(0, n_rows), left)
        for found, wanted in zip(layers, expected, strict=True):
            close(found, wanted)
        close(state.h, expected_state.h)
        close(state.c, expected_state.c)


WORDS = st.sampled_from(["the", "cat", "sat", "Zoë", ".", "on"])
BATCHES = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def both(odd_bilm: BiLM) -> tuple[Engine, Engine]:
    return choose_engine("fast", odd_bilm, CPU), choose_engine("plain", odd_bilm, CPU)


@given(BATCHES, st.booleans(), st.integers(0, 99))
def test_fast_is_plain(
    both: tuple[Engine, Engine], odd_bilm: BiLM, sentences: list[str], from_zero: bool, seed: int
) -> None:
    """Without it packing could go wrong for some order or choice of lengths."""
    torch.manual_seed(seed)
    state = None if from_zero else random_state(odd_bilm, len(sentences))
    layers, left = run(both[0], sentences, state)
    expected, expected_left = run(both[1], sentences, state)
    for found, wanted in zip(layers, expected, strict=True):
        close(found, wanted)
    close(left.h, expected_left.h)
    close(left.c, expected_left.c)


@given(BATCHES, st.booleans(), st.integers(0, 99))
def test_fast_is_plain_from_one_state(
    both: tuple[Engine, Engine], odd_bilm: BiLM, sentences: list[str], from_zero: bool, seed: int
) -> None:
    """Without it beginnings that rows have in common could go wrong for some choice of rows."""
    torch.manual_seed(seed)
    start = None if from_zero else random_state(odd_bilm, 1)
    found = run_alike(both[0], sentences, start)
    for one, other in zip(found, run_alike(both[1], sentences, start), strict=True):
        close(one, other)


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
@pytest.mark.usefixtures("seed")
def test_layers_beyond_the_wanted_ones_change_nothing(
    highest: int, engine: str, odd_bilm: BiLM
) -> None:
    """Without it `--layers 1` could be other numbers than layer 1 of `--layers all`."""
    chosen = choose_engine(engine, odd_bilm, CPU)
    start = random_state(odd_bilm, 1)
    batch, types = batch_of(SENTENCES)
    vectors = chosen.token_vectors(types)
    layers = chosen.run_alike(batch, vectors, start)
    some = chosen.run_alike(batch, vectors, start, highest=highest)
    assert len(some) == highest + 1
    np.testing.assert_array_equal(some, layers[: highest + 1])


@pytest.mark.usefixtures("seed")
def test_rows_may_stand_in_any_order(engine: str, tiny_bilm: BiLM) -> None:
    """Without it the state or the layers of one row could come back as another's."""
    chosen = choose_engine(engine, tiny_bilm, CPU)
    state = random_state(tiny_bilm, len(SENTENCES))
    layers, left = run(chosen, SENTENCES, state)
    order = torch.randperm(len(SENTENCES))
    turned, turned_left = run(chosen, [SENTENCES[r] for r in order], state.rows(order))
    for place, r in enumerate(order.tolist()):
        close(turned[place], layers[r])
    close(turned_left.h, left.h[:, :, order])
    close(turned_left.c, left.c[:, :, order])


@pytest.mark.usefixtures("seed")
def test_given_state_stays_as_it_is(engine: str, tiny_bilm: BiLM) -> None:
    """Without it an engine that works in place would spoil the warm state for the next batch."""
    state = random_state(tiny_bilm, len(SENTENCES))
    before = State(state.h.clone(), state.c.clone())
    first, _ = run(choose_engine(engine, tiny_bilm, CPU), SENTENCES, state)
    assert torch.equal(state.h, before.h)
    assert torch.equal(state.c, before.c)
    again, _ = run(choose_engine(engine, tiny_bilm, CPU), SENTENCES, state)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    start = state.rows(slice(0, 1))
    run_alike(choose_engine(engine, tiny_bilm, CPU), SENTENCES, start)
    assert torch.equal(start.h, before.h[:, :, :1])
    assert torch.equal(start.c, before.c[:, :, :1])


def test_layer_0_is_the_token_vector_twice(engine: str, tiny_bilm: BiLM) -> None:
    """Without it layer 0 would hold the vectors in an order of the engine's own."""
    chosen = choose_engine(engine, tiny_bilm, CPU)
    layers, _ = run(chosen, SENTENCES)
    for sentence, found in zip(SENTENCES, layers, strict=True):
        if tokens := sentence.split():
            vectors = chosen.token_vectors(tokens).numpy()
            np.testing.assert_array_equal(found[0, :, :8], found[0, :, 8:])
            close(found[0, :, :8], vectors)


def test_types_that_are_too_many_are_computed_as_they_are_read(
    odd_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a batch of very many types would have other numbers, or another type's."""
    plain, chosen = (choose_engine(name, odd_bilm, CPU) for name in ("plain", "fast"))
    expected, expected_left = run(plain, SENTENCES)
    monkeypatch.setattr(gates, "_TYPES_BYTES", 0)
    layers, left = run(chosen, SENTENCES)
    for found in (layers, run_alike(chosen, SENTENCES)):
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    close(left.h, expected_left.h)
    close(left.c, expected_left.c)


@pytest.mark.parametrize("n_rows", [9, 17, 33, 70])
def test_many_rows_are_as_few(n_rows: int, odd_bilm: BiLM) -> None:
    """Without it a step's places too many could end up in those of a row."""
    torch.manual_seed(n_rows)
    words = [*"abcdefghijklmnopqrst", "the", "cat"]
    drawn = torch.randint(len(words), (n_rows, 12)).tolist()
    lengths = torch.randint(13, (n_rows,)).tolist()
    sentences = [" ".join(words[k] for k in row[:n]) for row, n in zip(drawn, lengths, strict=True)]
    plain, chosen = (choose_engine(name, odd_bilm, CPU) for name in ("plain", "fast"))
    state = random_state(odd_bilm, n_rows)
    (layers, left), (expected, expected_left) = (run(e, sentences, state) for e in (chosen, plain))
    start = state.rows(slice(0, 1))
    alike, expected_alike = (run_alike(e, sentences, start) for e in (chosen, plain))
    for found, wanted in zip([*layers, *alike], [*expected, *expected_alike], strict=True):
        close(found, wanted)
    close(left.h, expected_left.h)
    close(left.c, expected_left.c)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_batch_leaves_nothing_to_the_next(precision: str, odd_bilm: BiLM) -> None:
    """Without it the gates of one batch could show in a smaller or larger one after it."""
    batches = (SENTENCES[:1], SENTENCES, ALIKE[:2], SENTENCES)
    before = {name: value.clone() for name, value in odd_bilm.state_dict().items()}
    kept = choose_engine("fast", odd_bilm, CPU, precision)
    for batch in batches:
        fresh = choose_engine("fast", odd_bilm, CPU, precision)
        for one, other in zip(run(kept, batch)[0], run(fresh, batch)[0], strict=True):
            np.testing.assert_array_equal(one, other)
    for name, value in odd_bilm.state_dict().items():
        assert torch.equal(value, before[name])


def test_without_onednn_torch_multiplies(odd_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a build of torch that lacks oneDNN, or a GPU, would have no products."""
    expected, expected_left = run(choose_engine("plain", odd_bilm, CPU), SENTENCES)
    monkeypatch.setattr(products, "packs", lambda weight: False)
    chosen = choose_engine("fast", odd_bilm, CPU)
    monkeypatch.setattr(products, "PackedWeight", None)  # nobody asks for it
    layers, left = run(chosen, SENTENCES)
    for found, wanted in zip(layers, expected, strict=True):
        close(found, wanted)
    close(left.h, expected_left.h)
    for found, wanted in zip(run_alike(chosen, SENTENCES), expected, strict=True):
        close(found, wanted)


def test_types_are_asked_for_in_any_number(engine: str, tiny_bilm: BiLM) -> None:
    """Without it none, or more types than one product has rows, would fail."""
    chosen = choose_engine(engine, tiny_bilm, CPU)
    assert chosen.token_vectors([]).shape == (0, 8)
    types = [f"type{n}" for n in range(700)]
    vectors = chosen.token_vectors(types)
    assert vectors.shape == (700, 8)
    close(chosen.token_vectors(types[511:514]), vectors[511:514])


def test_a_bilm_in_training_can_be_embedded_with(engine: str, tiny_bilm: BiLM) -> None:
    """Without it a biLM that was just trained would have to be written and read first."""
    trained = BiLM(tiny_bilm.options)
    trained.load_state_dict(tiny_bilm.state_dict())
    assert next(trained.parameters()).requires_grad
    layers, left = run(choose_engine(engine, trained, CPU), SENTENCES)
    expected, _ = run(choose_engine(engine, tiny_bilm, CPU), SENTENCES)
    for found, wanted in zip(layers, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not left.h.requires_grad


def test_two_threads_give_the_same_bits_each_time(tiny_bilm: BiLM) -> None:
    """Without it a thread that was not told how many cores are its own would decide by chance."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first, _ = run(choose_engine("fast", tiny_bilm, CPU), SENTENCES)
        for _ in range(20):
            again, _ = run(choose_engine("fast", tiny_bilm, CPU), SENTENCES)
            for one, other in zip(first, again, strict=True):
                np.testing.assert_array_equal(one, other)
    finally:
        torch.set_num_threads(before)


def test_no_such_engine(tiny_bilm: BiLM) -> None:
    """Without it a wrong name would be a KeyError."""
    assert set(ENGINES) == {"fast", "plain"}
    with pytest.raises(UsageError, match="--engine onnx: not fast or plain"):
        choose_engine("onnx", tiny_bilm, CPU)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_on_a_gpu_they_are_those_of_the_oracle(shape: str, engine: str, paired: Paired) -> None:
    """Without it a GPU's shortened float32 products (TF32) would pass for float32."""
    bilm, oracle = paired(SHAPES[shape])
    chosen = choose_engine(engine, bilm, torch.device("cuda"))
    batch, types = batch_of(SENTENCES)
    vectors = chosen.token_vectors(types)
    layers, _ = chosen.run(batch, vectors, State.zeros(bilm.options, len(SENTENCES), device="cuda"))
    alike = chosen.run_alike(batch, vectors, None)
    for found in (split(layers, batch), split(alike, batch)):
        for piece, sentence in zip(found, SENTENCES, strict=True):
            expected, _ = oracle.read(sentence.split())
            close(piece, expected, ATOL[engine, "float32"])
