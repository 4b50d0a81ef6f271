"""Token streams: the endless, shuffled, resumable sequence of batches that training reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from elmo_cli.arrays import Int32Array, Int64Array
from elmo_cli.errors import TrainingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TrainSettings

FORWARD = 0
BACKWARD = 1


@dataclass(frozen=True)
class StreamBatch:
    """A window of tokens of all streams in both directions.

    Attributes:
        inputs: type numbers of the corpus, (token, direction, stream) int32.
        targets: the type that follows each input, same shape.
        epoch, index: zero-based epoch, and zero-based index of the batch in it.
        n_batches: number of batches in this epoch.
    """

    inputs: Int32Array
    targets: Int32Array
    epoch: int
    index: int
    n_batches: int

    @property
    def n_tokens(self) -> int:
        """Number of tokens in each direction."""
        return self.inputs[:, FORWARD].size

    def streams(self, part: slice) -> StreamBatch:
        """Return the same window for some of the streams."""
        return replace(self, inputs=self.inputs[..., part], targets=self.targets[..., part])


def check_long_enough(corpus: Corpus, settings: TrainSettings, n_processes: int = 1) -> None:
    """Refuse a text that is shorter than one batch (TrainingError)."""
    n_streams = settings.n_streams * n_processes
    bptt = settings.bptt
    n_inputs = corpus.n_predictions
    if n_inputs // n_streams >= bptt:
        return
    problem = (
        f"{corpus.n_tokens} tokens are less than one batch of {n_streams} streams of {bptt} tokens"
    )
    hint = "give more text"
    if n_inputs >= bptt:
        hint += f", or `batch_size={n_inputs // bptt}`"
    raise TrainingError(problem, hint, where="the text")


def batches(
    corpus: Corpus,
    settings: TrainSettings,
    n_processes: int = 1,
    *,
    epoch: int = 0,
    index: int = 0,
) -> Iterator[StreamBatch]:
    """Yield batches endlessly; each continues the streams where the previous batch ended.

    The sentences, or documents, are shuffled in each epoch, differently in the two directions, and
    divided into streams of equal length; a sentence that crosses the end of a stream is continued
    by the next one. Tokens after the last whole window are not read in that epoch.

    Args:
        epoch, index: of the first batch.
    Raises:
        TrainingError: the text is shorter than one batch.

    Source: bilm-tf `bilm/data.py` `BidirectionalLMDataset`, which assigns whole sentences to
    endless streams.
    """
    check_long_enough(corpus, settings, n_processes)
    n_streams = settings.n_streams * n_processes
    bptt = settings.bptt
    length = corpus.n_predictions // n_streams  # of a stream
    n_batches = length // bptt
    first_index = index  # the other epochs begin at 0
    while True:
        inputs = []  # of each direction, (stream, position)
        targets = []  # the same
        for direction in (FORWARD, BACKWARD):
            random = np.random.default_rng([settings.seed, epoch, direction])
            order = shuffled_order(corpus, random, settings.shuffle)
            flat_inputs, flat_targets = flatten(corpus, order, direction)
            inputs.append(flat_inputs[: n_streams * length].reshape(n_streams, length))
            targets.append(flat_targets[: n_streams * length].reshape(n_streams, length))
        for number in range(first_index, n_batches):
            window = slice(number * bptt, (number + 1) * bptt)
            yield StreamBatch(
                inputs=np.stack([streams[:, window].T for streams in inputs], 1),
                targets=np.stack([streams[:, window].T for streams in targets], 1),
                epoch=epoch,
                index=number,
                n_batches=n_batches,
            )
        epoch += 1
        first_index = 0


def shuffled_order(
    corpus: Corpus, random: np.random.Generator, shuffle: str = "sentences"
) -> Int64Array:
    """Return all sentence numbers in random order, (sentence,) int64."""
    if shuffle == "sentences":
        return random.permutation(corpus.n_sentences)
    firsts = corpus.documents[:-1]  # first sentence of each document
    lengths = np.diff(corpus.documents)  # in sentences
    shuffled = random.permutation(len(lengths))
    return _ranges(firsts[shuffled], lengths[shuffled])


def flatten(corpus: Corpus, order: Int64Array, direction: int) -> tuple[Int32Array, Int32Array]:
    """Join sentences in the reading order of a direction.

    Forward, the inputs of a sentence are `<S> w1 … wn` and the targets `w1 … wn </S>`; backward
    `</S> wn … w1` and `wn … w1 <S>`. The last symbol of a sentence is only used as a target.

    Args:
        order: sentence numbers, (sentence,) int64.
        direction: FORWARD or BACKWARD.
    Returns:
        Inputs and targets, type numbers, each (position,) int32.
    """
    lengths = np.diff(corpus.starts)[order] - 1
    if direction == FORWARD:
        positions = _ranges(corpus.starts[order], lengths)  # of the inputs
        return corpus.tokens[positions], corpus.tokens[positions + 1]
    lasts = corpus.starts[order + 1] - 1
    positions = -_ranges(-lasts, lengths)  # from the last symbol of each sentence down
    return corpus.tokens[positions], corpus.tokens[positions - 1]


def _ranges(firsts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Concatenate the ranges `first, first + 1, …` of the given lengths."""
    ends = np.cumsum(lengths)  # in the concatenation
    starts = ends - lengths
    offsets = np.repeat(firsts - starts, lengths)
    return np.asarray(offsets + np.arange(ends[-1]))
