"""Embedder: sentences to arrays, with four initial states, and halved batches on small devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import FloatArray, Int64Array
from elmo_cli.embed.blocks import CARRY_BATCH_SIZE, positions_by_document, split_into_blocks
from elmo_cli.embed.output_reduction import OutputReduction
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.engine.engines import WeightsGuard, make_engine
from elmo_cli.engine.runtime import (
    DeviceTuning,
    copy_to_cpu,
    is_out_of_memory,
    select_device,
    without_autocast,
)
from elmo_cli.errors import DeviceError
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.batching import Batch, TypeNumbers, batches_by_length
from elmo_cli.text.input import Name, read_sentences
from elmo_cli.text.sentence import Sentence, sentence_of, sentences_of


class Embedder:
    """Computes the layers of sentences with one biLM, on one device.

    It ignores `torch.autocast`. After a change of the model's weights it raises a UsageError.

    Args:
        bilm: from `load`.
        settings: the defaults when None.
        changes: single settings by name, see `EmbedderSettings`.
    Attributes:
        settings, state, precision, bilm, engine, batch_size, device: what it computes with.
        output: how layers become arrays.
        start: the initial state of every sentence with state "warm" (one row), else None.
    Raises:
        UsageError, DeviceError: a setting is impossible here, or for this model and its dtype.
        TypeError: `bilm` is no `BiLM`, such as a name, which `load` takes.

    Example:
        embedder = Embedder(load())
        layers = embedder.embed(["The", "cat", "sat"])  # (3, 3, dim) float32
    """

    def __init__(
        self, bilm: BiLM, settings: EmbedderSettings | None = None, **changes: Any
    ) -> None:
        if not isinstance(bilm, BiLM):
            what = type(bilm).__name__  # type: ignore[unreachable]
            raise TypeError(f"bilm is of type {what}, not BiLM: `Embedder(load(name_or_path))`")
        self.bilm = bilm
        self.settings = settings = replace(settings or EmbedderSettings(), **changes)
        self.state, self.precision = settings.state, settings.precision
        self.device = select_device(settings.device)
        tuning = DeviceTuning.of(self.device)
        most_rows = max(1, min(tuning.rows, tuning.gate_values // bilm.options.lstm_dim))
        default = CARRY_BATCH_SIZE if self.state == "carry" else most_rows
        self.batch_size = settings.batch_size or default
        n_layers, dim = 1 + bilm.options.n_layers, bilm.options.dim
        self.output = OutputReduction.of(settings, n_layers)
        nothing = torch.empty(n_layers, 0, dim, dtype=torch.float32)
        self._empty = self.output.to_array(self.output.select(nothing))
        self._is_independent = self.state in ("zero", "warm")
        with without_autocast(self.device):
            self.engine = make_engine(settings.engine, bilm, self.device, settings.precision)
            self.start = warm_state(bilm).to(self.device) if self.state == "warm" else None
        self.weights = WeightsGuard(bilm)

    def embed(self, tokens: Sequence[str]) -> FloatArray:
        """The array of one sentence by itself, from the zero or the warm state.

        `stream` and `embed_batch` take a fraction of the time per sentence: weights are read once
        for all rows of a batch.

        Returns:
            (layer, token, dim) with `layers="all"`; see `OutputReduction.to_array` for others.
        Raises:
            TypeError: it is a text that has not been split, or several sentences.
            InputError: a token is empty, or not a string that UTF-8 can represent.
        """
        return self.embed_batch([tokens])[0][0]

    def embed_batch(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[list[FloatArray], State | None]:
        """The arrays of sentences that go through the biLM as one batch.

        Args:
            sentences: lists of tokens; an empty one gives an array without tokens.
            state: with state "carry" the final state of the previous batch (None at first): row r
                continues where row r of that batch stopped.
        Returns:
            One array per sentence in the order given, and the state for the next batch ("carry").
        Raises:
            TypeError, InputError: as of `embed`; or for a state that would be ignored.
        """
        if state is not None and self.state != "carry":
            raise TypeError('a state is used with state="carry" only, here it would be ignored')
        made = list(sentences_of(sentences))
        arrays, final = self.embed_block(made, state, len(made) if self.state == "carry" else None)
        return [array.copy() for array in arrays], final if self.state == "carry" else None

    def embed_block(
        self, sentences: Sequence[Sentence], state: State | None, batch_size: int | None = None
    ) -> tuple[list[FloatArray], State | None]:
        """The arrays of a block, views of those of its batches, and the state for the next block
        ("carry" and "document")."""
        if not sentences:
            return [], state
        types = TypeNumbers()
        rows = [types.numbers_of(sentence.tokens) for sentence in sentences]
        with self._computing():
            vectors, arrays = self.engine.embed_types(types.types), [self._empty] * len(rows)
            block = _BlockInWork(sentences, rows, vectors, arrays, batch_size or self.batch_size)
            if self._is_independent:
                # From zeros, as an ELMo embedder of AllenNLP that embeds one sentence only.
                filled = [p for p, sentence in enumerate(sentences) if sentence.tokens]
                for batch in self._batches(block, filled):
                    self._compute(block, batch, self.start)
                return arrays, None
            if state is None:
                state = State.zeros(self.bilm.options, 1)
            carry = self._carried if self.state == "carry" else self._documents
            return arrays, carry(block, state.to(self.device))

    def embed_types(self, types: Sequence[str]) -> FloatArray:
        """Context-free vectors of types, (type, projection_dim): one half of layer 0.

        Raises a TypeError if they are no list of texts, an OutputError for a value that does not
        fit the dtype.
        """
        types = sentence_of(types, 0).tokens
        with self._computing():
            vectors = self.engine.embed_types(types)
        self._check_values(vectors, [1] * len(types), lambda row: f"the type `{types[row]}`")
        return np.asarray(self.output.cast(vectors.cpu()))

    def stream(
        self, source: Name | Iterable[Sentence | Sequence[str]]
    ) -> Iterator[tuple[Sentence, FloatArray]]:
        """Sentences with their arrays, in order, of a text file; or of lists of tokens, or of the
        sentences of a reader, such as `read_sentences(file, settings)`."""
        if isinstance(source, (str, os.PathLike)):
            source = read_sentences(source)
        sentences = sentences_of(source)
        state: State | None = None
        for block in split_into_blocks(sentences, self.settings):
            arrays, state = self.embed_block(block.sentences, state)
            for sentence, array in zip(block.sentences, arrays, strict=True):
                yield sentence, array.copy()  # a view would keep the whole batch in memory

    @contextmanager
    def _computing(self) -> Iterator[None]:
        self.weights.check()
        with without_autocast(self.device):
            yield

    def _carried(self, block: _BlockInWork, state: State) -> State:
        """Row r of a batch continues where row r of the previous batch stopped, in input order.

        A batch of one empty sentence leaves the state as it is; an empty sentence next to others is
        read as its two boundaries.

        Source: AllenNLP `modules/encoder_base.py`, bilm-tf `bilm/model.py`; with batch size 1 this
        is bilm-tf's `dump_bilm_embeddings`.
        """
        for first in range(0, len(block.rows), block.batch_size):
            rows = tuple(block.rows[first : first + block.batch_size])
            if len(rows) == 1 and not block.sentences[first].tokens:
                continue
            some = slice(0, len(rows))
            state = state.with_rows_added(len(rows))
            batch = Batch(rows, np.arange(first, first + len(rows)))
            state = state.with_rows(some, self._compute(block, batch, state.select_rows(some)))
        return state

    def _documents(self, block: _BlockInWork, state: State) -> State:
        """Start each document from zeros and carry the state within it; a block's documents run in
        parallel. Takes and returns the state (one row) at the end of the last document so far."""
        documents = positions_by_document(block.sentences)
        if block.sentences[0].starts_document:
            state = State.zeros(self.bilm.options, 1, device=self.device)
        state = state.with_rows_added(len(documents))
        for turn in range(max(map(len, documents))):
            document_of = {d[turn]: k for k, d in enumerate(documents) if turn < len(d)}
            for batch in self._batches(block, list(document_of)):
                numbers = [document_of[p] for p in batch.source_rows.tolist()]
                index = torch.tensor(numbers, device=self.device)
                final = self._compute(block, batch, state.select_rows(index))
                state = state.with_rows(index, final)
        return state.select_rows(slice(len(documents) - 1, len(documents)))

    def _batches(self, block: _BlockInWork, positions: Sequence[int]) -> list[Batch]:
        """The sentences at some positions, in batches of similar length."""
        batches = batches_by_length(
            [block.rows[p] for p in positions],
            batch_size=block.batch_size,
            batch_tokens=DeviceTuning.of(self.device).tokens,
            padded=self.engine.pads,
        )
        return [Batch(batch.rows, np.array(positions)[batch.source_rows]) for batch in batches]

    def _compute(self, block: _BlockInWork, batch: Batch, start: State | None) -> Any:
        """Fill in the arrays of a batch, split in half if it does not fit in the device's memory;
        return the final state, None if sentences are independent."""
        n_rows, finals = len(batch.rows), []
        try:
            return self._forward(block, batch, start)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if n_rows == 1:
                sentence = block.sentences[int(batch.source_rows[0])]
                tokens = f"a sentence of {len(sentence.tokens)} tokens"
                what = f"{sentence.where}: out of memory on {self.device} with {tokens}"
                hint = "`max_tokens` refuses such sentences, `on_error=skip` skips them; "
                hint += "`resume=True` continues after the last block that was written"
                raise DeviceError(what, hint) from error
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        for half in (slice(0, n_rows // 2), slice(n_rows // 2, n_rows)):
            rows = start if start is None or self._is_independent else start.select_rows(half)
            finals.append(self._compute(block, batch.rows_slice(half), rows))
        if self._is_independent:
            return None
        return State(torch.cat([f.h for f in finals], 2), torch.cat([f.c for f in finals], 2))

    def _forward(self, block: _BlockInWork, batch: Batch, start: State | None) -> State | None:
        """Compute a batch, reduce its layers and move them off the device, into `block.arrays`."""
        layers, final = self.engine.forward(
            batch,
            block.type_vectors,
            start,
            shared_start=self._is_independent,
            top_layer=self.output.top_layer if self._is_independent else None,
        )
        n_tokens, positions = (batch.lengths - 2).tolist(), batch.source_rows.tolist()
        selected = self.output.select(layers)
        self._check_values(selected, n_tokens, lambda row: block.sentences[positions[row]].where)
        if self.output.pool is None:
            selected = self.output.cast(selected)
        pieces = torch.split(copy_to_cpu(selected), n_tokens, -2)
        for position, piece in zip(positions, pieces, strict=True):
            if piece.shape[-2]:
                block.arrays[position] = self.output.to_array(piece)
        return final

    def _check_values(self, values: Tensor, sizes: list[int], where: Callable[[int], str]) -> None:
        """Raise an OutputError that says where the first value that does not fit is."""
        if not self.output.fits(values):
            for row, piece in enumerate(torch.split(values, sizes, -2)):
                if not self.output.fits(piece):
                    raise self.output.error(piece, where(row), self.bilm.name)


@dataclass(frozen=True)
class _BlockInWork:
    """A block of sentences while it is computed."""

    sentences: Sequence[Sentence]
    rows: list[Int64Array]  # the numbers of each sentence's types, including sentence boundaries
    type_vectors: Tensor  # (type, projection_dim)
    arrays: list[FloatArray]  # of each sentence; at first without tokens
    batch_size: int
