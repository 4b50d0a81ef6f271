"""Both engines against the oracle and against each other: the layers and the final state."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
import pytest
import torch
from engine_calls import (
    CPU,
    SENTENCES,
    SHARED_PREFIXES,
    all_close,
    batch_of,
    close,
    equal,
    forward,
    random_state,
)
from hypothesis import given
from hypothesis import strategies as st
from make_weights import SHAPES
from model_pairs import MakePair
from oracle import Oracle
from tolerance import ATOL

from elmo_cli.engine import gemm, lstm
from elmo_cli.engine.engines import Engine, FastEngine, make_engine
from elmo_cli.engine.graphs import GraphRecorder, GraphRowStates
from elmo_cli.engine.names import PRECISIONS
from elmo_cli.errors import DeviceError
from elmo_cli.model.bilm import BiLM, State


@pytest.mark.parametrize("start", ["zeros", "shared zeros", "rows", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_layers_and_state_equal_the_oracle(
    shape: str, start: str, engine: str, paired: MakePair
) -> None:
    """Every shape of model, from zeros, from a state per row, and from one state for all rows."""
    check_oracle(paired(SHAPES[shape]), engine, start, CPU)


def check_oracle(pair: tuple[BiLM, Oracle], name: str, start: str, device: torch.device) -> None:
    bilm, oracle = pair
    sentences = [*SENTENCES, *SHARED_PREFIXES]
    shared = start.startswith("shared")
    state = None
    if not start.endswith("zeros"):
        state = random_state(bilm, 1 if shared else len(sentences)).to(device)
    layers, final = forward(make_engine(name, bilm, device), sentences, state, shared=shared)
    atol = ATOL[name, "float32"]
    for r, sentence in enumerate(sentences):
        expected, (h, c) = oracle.read(sentence.split(), state_of_row(state, r))
        assert layers[r].shape == expected.shape
        close(layers[r], expected, atol)
        if final is not None:
            close(final.h[:, :, r].cpu(), h, atol)
            close(final.c[:, :, r].cpu(), c, atol)


def state_of_row(state: State | None, row: int) -> tuple[np.ndarray, np.ndarray] | None:
    """h and c of one row as the oracle takes them; a single row is shared by all."""
    if state is None:
        return None
    row = min(row, state.h.shape[2] - 1)
    return state.h[:, :, row].cpu().double().numpy(), state.c[:, :, row].cpu().double().numpy()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("start", ["shared zeros", "rows", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_a_gpu_computes_in_float32(shape: str, start: str, engine: str, paired: MakePair) -> None:
    """TF32 products would be off by a thousandth."""
    check_oracle(paired(SHAPES[shape]), engine, start, torch.device("cuda"))


class Replayed(NamedTuple):
    """In place of a CUDA graph: computes the same step on the same memory."""

    replay: Callable[[], object]


class Recorder:
    """In place of a `GraphRecorder`."""

    record = staticmethod(Replayed)


on_a_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("max_type_gates", [0, 1 << 28])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_graphs_give_the_bits_of_single_kernels(
    precision: str,
    max_type_gates: int,
    shared: bool,
    device: str,
    odd_bilm: BiLM,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step becomes a graph the second time, and is replayed from the third time on."""
    monkeypatch.setattr(lstm, "_MAX_TYPE_GATES", max_type_gates)
    monkeypatch.setattr(gemm, "can_pack", lambda weight: False)  # as on a GPU, for CPUs
    bilm = copy.deepcopy(odd_bilm)
    engine = cast(FastEngine, make_engine("fast", bilm, torch.device(device), precision))
    if device == "cpu":
        layers = [*bilm.forward_lm.layers, *bilm.backward_lm.layers]
        for fast_lstm, layer in zip(itertools.chain(*engine._lstms), layers, strict=True):
            fast_lstm._states = GraphRowStates(layer, Recorder())
    batches = (SENTENCES, SHARED_PREFIXES, SENTENCES[2:4])

    def forward_all() -> list[np.ndarray]:
        arrays: list[np.ndarray] = []
        for batch in batches:
            torch.manual_seed(1)
            start = random_state(odd_bilm, 1 if shared else len(batch)).to(torch.device(device))
            layers, final = forward(engine, batch, start, shared=shared)
            arrays += layers
            if final is not None:
                arrays += [final.h.cpu().numpy(), final.c.cpu().numpy()]
        return arrays

    with monkeypatch.context() as single:
        single.setattr(lstm.FastLSTM, "_start", lambda self, h, c, n: lstm.RowStates(h, c))
        expected = forward_all()
    for _ in range(3):
        equal(forward_all(), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_recording_that_runs_out_of_memory() -> None:
    """The embedder then halves the batch, and records again."""
    recorder = GraphRecorder(torch.device("cuda"))
    value = torch.zeros(1, device="cuda")

    def fail() -> None:
        value.add_(1)
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        recorder.record(fail)
    recorder.record(lambda: value.add_(2)).replay()
    assert value.item() == 2


WORDS = st.sampled_from(["the", "cat", "sat", "Zoë", ".", "on"])
BATCHES = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def fast(odd_bilm: BiLM) -> Engine:
    return make_engine("fast", odd_bilm, CPU)


@pytest.fixture(scope="module")
def plain(odd_bilm: BiLM) -> Engine:
    return make_engine("plain", odd_bilm, CPU)


@given(BATCHES, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_fast_equals_plain_for_any_batch(
    fast: Engine,
    plain: Engine,
    odd_bilm: BiLM,
    sentences: list[str],
    shared: bool,
    from_zero: bool,
    with_boundaries: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    state = None if from_zero else random_state(odd_bilm, 1 if shared else len(sentences))
    all_close(
        forward(fast, sentences, state, shared=shared, with_boundaries=with_boundaries),
        forward(plain, sentences, state, shared=shared, with_boundaries=with_boundaries),
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.usefixtures("seed")
def test_boundaries_are_returned_when_asked(shared: bool, engine: str, odd_bilm: BiLM) -> None:
    """Their vectors are those of the model; the others, and the final state, do not change."""
    chosen = make_engine(engine, copy.deepcopy(odd_bilm), CPU)
    state = random_state(odd_bilm, 1 if shared else len(SENTENCES))
    found, final = forward(chosen, SENTENCES, state, shared=shared, with_boundaries=True)
    expected, expected_final = forward(chosen, SENTENCES, state, shared=shared)
    for layers, inner in zip(found, expected, strict=True):
        close(layers[:, 1:-1], inner)
    if final is not None and expected_final is not None:
        assert torch.equal(final.h, expected_final.h)
        assert torch.equal(final.c, expected_final.c)
    for row, sentence in enumerate(SENTENCES):
        ids = odd_bilm.token_ids.tokens(["<S>", *sentence.split(), "</S>"])
        start = state if shared else state.select_rows(slice(row, row + 1))
        lengths = torch.tensor([len(ids)])
        with torch.no_grad():
            of_model, _ = odd_bilm(torch.from_numpy(ids)[np.newaxis], lengths, start)
        close(found[row], of_model[:, 0])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n_rows", [9, 17, 33, 70])
def test_padded_steps_equal_plain(
    n_rows: int, shared: bool, fast: Engine, plain: Engine, odd_bilm: BiLM
) -> None:
    """Numbers of rows for which a step computes positions in excess."""
    torch.manual_seed(n_rows)
    words = [*"abcdefghijklmnopqrst", "the", "cat"]
    drawn = torch.randint(len(words), (n_rows, 12)).tolist()
    lengths = torch.randint(13, (n_rows,)).tolist()
    sentences = [" ".join(words[k] for k in row[:n]) for row, n in zip(drawn, lengths, strict=True)]
    state = random_state(odd_bilm, 1 if shared else n_rows)
    all_close(
        forward(fast, sentences, state, shared=shared),
        forward(plain, sentences, state, shared=shared),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_with_very_many_types_equals_plain(
    shared: bool, odd_bilm: BiLM, plain: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their part of the gates is then computed step by step."""
    monkeypatch.setattr(lstm, "_MAX_TYPE_GATES", 0)
    fast = make_engine("fast", odd_bilm, CPU)
    all_close(forward(fast, SENTENCES, shared=shared), forward(plain, SENTENCES))


@pytest.mark.parametrize("shared", [False, True])
def test_a_build_of_torch_without_onednn_equals_plain(
    shared: bool, odd_bilm: BiLM, plain: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does a GPU."""
    monkeypatch.setattr(gemm, "can_pack", lambda weight: False)
    monkeypatch.setattr(gemm, "PackedWeight", None)  # never used
    fast = make_engine("fast", odd_bilm, CPU)
    all_close(forward(fast, SENTENCES, shared=shared), forward(plain, SENTENCES))


@pytest.mark.parametrize("top_layer", [0, 1, 2, 3])
@pytest.mark.usefixtures("seed")
def test_layers_above_the_wanted_ones_change_nothing(
    top_layer: int, engine: str, odd_bilm: BiLM
) -> None:
    chosen = make_engine(engine, odd_bilm, CPU)
    start = random_state(odd_bilm, 1)
    batch, types = batch_of(SENTENCES)
    vectors = chosen.embed_types(types)
    layers, _ = chosen.forward(batch, vectors, start, shared_start=True)
    lower, _ = chosen.forward(batch, vectors, start, shared_start=True, top_layer=top_layer)
    assert len(lower) == top_layer + 1
    np.testing.assert_array_equal(lower, layers[: top_layer + 1])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.usefixtures("seed")
def test_arguments_and_model_are_not_modified(shared: bool, engine: str, tiny_bilm: BiLM) -> None:
    """A model that was just trained gives the same bits, and no gradients."""
    trained = BiLM(tiny_bilm.options)
    trained.load_state_dict(tiny_bilm.state_dict())
    state = random_state(trained, 1 if shared else len(SENTENCES))
    before = State(state.h.clone(), state.c.clone())
    first, final = forward(make_engine(engine, trained, CPU), SENTENCES, state, shared=shared)
    assert torch.equal(state.h, before.h)
    assert torch.equal(state.c, before.c)
    equal(first, forward(make_engine(engine, tiny_bilm, CPU), SENTENCES, state, shared=shared)[0])
    assert final is None or not final.h.requires_grad
    for name, value in trained.state_dict().items():
        assert torch.equal(value, tiny_bilm.state_dict()[name])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_batch_depends_on_no_batch_before_it(precision: str, odd_bilm: BiLM) -> None:
    kept = make_engine("fast", odd_bilm, CPU, precision)
    for batch in (SENTENCES[:1], SENTENCES, SHARED_PREFIXES[:2], SENTENCES):
        fresh = make_engine("fast", odd_bilm, CPU, precision)
        equal(forward(kept, batch)[0], forward(fresh, batch)[0])


def test_types_in_any_number(engine: str, tiny_bilm: BiLM) -> None:
    """None, and more than one product has rows."""
    chosen = make_engine(engine, tiny_bilm, CPU)
    assert chosen.embed_types([]).shape == (0, 8)
    types = [f"type{n}" for n in range(700)]
    vectors = chosen.embed_types(types)
    assert vectors.shape == (700, 8)
    close(chosen.embed_types(types[511:514]), vectors[511:514])


def test_threads_give_the_same_bits_each_time(tiny_bilm: BiLM) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first, _ = forward(make_engine("fast", tiny_bilm, CPU), SENTENCES)
        for _ in range(20):
            equal(first, forward(make_engine("fast", tiny_bilm, CPU), SENTENCES)[0])
    finally:
        torch.set_num_threads(before)


def test_refused_settings(tiny_bilm: BiLM) -> None:
    with pytest.raises(DeviceError, match="`precision=int8`: "):
        make_engine("fast", tiny_bilm, torch.device("cuda"), "int8")
