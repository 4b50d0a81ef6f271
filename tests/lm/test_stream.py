"""Token streams: what each direction reads and predicts, and that batches continue each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from elmo_cli.errors import TrainingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.stream import (
    BACKWARD,
    FORWARD,
    StreamBatch,
    batches,
    check_long_enough,
    flatten,
    shuffled_order,
)

LONG = [[f"w{(7 * i + k) % 13}" for k in range(1 + i % 9)] for i in range(60)]
N_BOUNDARIES = 2  # types of a corpus that are no tokens, <S> and </S>; the first two


def words(corpus: Corpus, numbers: np.ndarray) -> str:
    return " ".join(corpus.types[n] for n in numbers)


def first_batches(corpus: Corpus, n: int, **position: int) -> list[StreamBatch]:
    settings = TrainSettings(batch_size=3, bptt=4, seed=5)
    return list(islice(batches(corpus, settings, **position), n))


def first_epoch(corpus: Corpus, direction: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of the first epoch in one direction: (symbol, stream)."""
    epoch = [batch for batch in first_batches(corpus, 60) if batch.epoch == 0]
    inputs = np.concatenate([batch.inputs[:, direction] for batch in epoch])
    targets = np.concatenate([batch.targets[:, direction] for batch in epoch])
    return inputs, targets


def test_flatten_pairs_each_input_with_the_next_symbol() -> None:
    corpus = Corpus.read([["the", "cat", "sat"], [], ["a", "dog"], ["the", "dog"]])
    order = np.array([1, 0])
    inputs, targets = flatten(corpus, order, FORWARD)
    assert words(corpus, inputs) == "<S> a dog <S> the cat sat"
    assert words(corpus, targets) == "a dog </S> the cat sat </S>"
    inputs, targets = flatten(corpus, order, BACKWARD)
    assert words(corpus, inputs) == "</S> dog a </S> sat cat the"
    assert words(corpus, targets) == "dog a <S> sat cat the <S>"


@pytest.mark.parametrize(("direction", "border"), [(FORWARD, "<S>"), (BACKWARD, "</S>")])
def test_streams_continue_from_batch_to_batch(direction: int, border: str) -> None:
    """The LSTM state is carried, so an epoch in one piece must be the shuffled text."""
    corpus = Corpus.read(LONG)
    inputs, targets = first_epoch(corpus, direction)
    step = 1 if direction == FORWARD else -1
    sentences = {" ".join(tokens[::step]) for tokens in LONG}
    assert words(corpus, inputs[:1, 0]) == border
    for stream in range(3):
        whole_sentences = words(corpus, inputs[:, stream]).split(border)[1:-1]
        assert {sentence.strip() for sentence in whole_sentences} <= sentences
        is_previous_target = inputs[1:, stream] == targets[:-1, stream]
        is_border = inputs[1:, stream] == corpus.types.index(border)
        assert (is_previous_target | is_border).all()


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_an_epoch_predicts_no_token_twice_and_few_never(direction: int) -> None:
    corpus = Corpus.read(LONG)
    _, targets = first_epoch(corpus, direction)
    n_predicted = np.bincount(targets.ravel(), minlength=len(corpus.types))[N_BOUNDARIES:]
    n_in_text = corpus.counts()[N_BOUNDARIES:]
    assert (n_predicted <= n_in_text).all()
    assert n_predicted.sum() > 0.85 * corpus.n_tokens


def test_epochs_and_directions_have_different_orders() -> None:
    corpus = Corpus.read(LONG)
    all_batches = first_batches(corpus, 60)
    first = all_batches[0]
    [second, *_] = [batch for batch in all_batches if batch.epoch == 1]
    assert not np.array_equal(first.inputs, second.inputs)
    read_forward = np.sort(first.targets[:, FORWARD].ravel())
    read_backward = np.sort(first.targets[:, BACKWARD].ravel())
    assert not np.array_equal(read_forward, read_backward)


def test_documents_keep_their_sentences_together_and_in_order() -> None:
    corpus = replace(Corpus.read(LONG), documents=np.asarray([0, 1, 4, 11, 12, len(LONG)]))
    order = shuffled_order(corpus, np.random.default_rng(3), "documents")
    assert sorted(order) == list(range(len(LONG)))
    begins_a_run = np.diff(order, prepend=-2) != 1
    first_sentences = order[begins_a_run].tolist()
    assert set(first_sentences) <= {0, 1, 4, 11, 12}
    assert first_sentences != sorted(first_sentences)
    other = shuffled_order(corpus, np.random.default_rng(4), "documents")
    assert not np.array_equal(order, other)


def test_sentences_of_no_documents_are_torn_apart() -> None:
    corpus = replace(Corpus.read(LONG), documents=np.asarray([0, 1, 4, 11, 12, len(LONG)]))
    order = shuffled_order(corpus, np.random.default_rng(3))
    follows_its_neighbor = np.diff(order) == 1
    assert follows_its_neighbor.mean() < 0.2


def test_a_stream_can_start_at_any_batch() -> None:
    """Without it a resumed run would read other text than an uninterrupted one."""
    corpus = Corpus.read(LONG)
    whole = first_batches(corpus, 60)
    for k in (1, 17, 40):
        resumed = first_batches(corpus, 5, epoch=whole[k].epoch, index=whole[k].index)
        for batch, expected in zip(resumed, whole[k : k + 5], strict=True):
            assert np.array_equal(batch.inputs, expected.inputs)
            assert np.array_equal(batch.targets, expected.targets)
            assert (batch.epoch, batch.index) == (expected.epoch, expected.index)


def test_a_text_shorter_than_one_batch_is_refused() -> None:
    corpus = Corpus.read([["a"] * 11])
    with pytest.raises(TrainingError, match="11 tokens are less than one batch of 3 streams") as it:
        next(batches(corpus, TrainSettings(batch_size=3, bptt=5)))
    assert "`batch_size=2`" in it.value.hint
    assert next(batches(corpus, TrainSettings(batch_size=3, bptt=4))).n_batches == 1


@pytest.mark.parametrize(
    ("settings", "n_processes", "n_streams", "hint"),
    [
        ({"batch_size": 2, "bptt": 12}, 1, 2, "give more text, or `batch_size=1`"),
        ({"batch_size": 1, "bptt": 13}, 1, 1, "give more text"),  # no size would do
        ({"batch_size": 1, "bptt": 5}, 3, 3, "give more text, or `batch_size=2`"),
        (
            {"batch_size": 2, "gradient_accumulation_steps": 2, "bptt": 4},
            1,
            4,
            "give more text, or `batch_size=3`",
        ),
    ],
)
def test_all_streams_of_a_step_need_text(
    settings: dict[str, int], n_processes: int, n_streams: int, hint: str
) -> None:
    """Those of all processes, and of all batches of a weight update."""
    corpus = Corpus.read([["a"] * 11])
    with pytest.raises(TrainingError) as caught:
        check_long_enough(corpus, TrainSettings(**settings), n_processes)
    sizes = f"one batch of {n_streams} streams of {settings['bptt']} tokens"
    assert caught.value.problem == f"11 tokens are less than {sizes}"
    assert caught.value.hint == hint
