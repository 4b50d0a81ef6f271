"""Embedder: sentences to arrays, with four initial states, and halved batches on small devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import FloatArray, Int64Array
from elmo_cli.embed.blocks import CARRY_BATCH_SIZE, positions_by_document, split_into_blocks
from elmo_cli.embed.output_reduction import OutputReduction, sort_vectors, split_vectors
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
from elmo_cli.fields import changed_fields, with_changes, with_fields
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.batching import Batch, TypeNumbers, batches_by_length
from elmo_cli.text.input import Name, read_sentences
from elmo_cli.text.sentence import Sentence, sentence_of, sentences_of
from elmo_cli.text.vocabulary import Vocabulary


class Embedder:
    """Computes the layers of sentences with one biLM, on one device.

    It ignores `torch.autocast`. After a change of the model's weights it raises a UsageError.

    Args:
        bilm: from `load`.
        settings: the defaults when None.
        changes: single settings by name, see `EmbedderSettings`; its fields are keywords here.
    Attributes:
        settings, state, precision, bilm, engine, batch_size, device: what it computes with.
        output: how layers become arrays.
        start: the initial state of every sentence with state "warm" (one row), else None.
        sorts_vectors: whether the vectors of a sentence are next to each other in memory.
    Raises:
        UsageError, DeviceError: a setting is impossible here, or for this model and its dtype.
        TypeError: `bilm` is no `BiLM`, such as a name, which `load` takes.

    Example:
        embedder = Embedder(load())
        layers = embedder.embed(["The", "cat", "sat"])  # (3, 3, dim) float32
    """

    @with_fields(EmbedderSettings)
    def __init__(
        self, bilm: BiLM, settings: EmbedderSettings | None = None, **changes: Any
    ) -> None:
        if not isinstance(bilm, BiLM):
            name = type(bilm).__name__  # type: ignore[unreachable]
            raise TypeError(f"bilm is of type {name}, not BiLM: `Embedder(load(name_or_path))`")
        self.bilm = bilm
        self.settings = with_changes(settings or EmbedderSettings(), changes)
        self.state = self.settings.state
        self.precision = self.settings.precision
        self.device = select_device(self.settings.device)
        self.sorts_vectors = self.device.type != "cpu"  # on a CPU, the writer thread does
        self.batch_size = self.settings.batch_size or self._default_batch_size()
        n_layers = 1 + bilm.options.n_layers
        self.output = OutputReduction.of(self.settings, n_layers)
        no_tokens = torch.empty(n_layers, 0, bilm.options.dim, dtype=torch.float32)
        self._empty = self.output.to_array(self.output.select(no_tokens))
        self._is_independent = self.state in ("zero", "warm")
        with without_autocast(self.device):
            self.engine = make_engine(self.settings.engine, bilm, self.device, self.precision)
            self.start = warm_state(bilm).to(self.device) if self.state == "warm" else None
        self.weights_guard = WeightsGuard(bilm)

    def __repr__(self) -> str:
        shown = {**changed_fields(self.settings), "device": str(self.device)}
        settings = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"Embedder({self.bilm.name or 'BiLM'!r}, {settings})"

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The types that the softmax of the model predicts; None if no file lists them.

        Raises:
            InputError: the vocabulary file cannot be read, or is not valid.
        """
        path = self.bilm.vocabulary_file
        return Vocabulary.read(path) if path else None

    def _default_batch_size(self) -> int:
        if self.state == "carry":
            return CARRY_BATCH_SIZE
        tuning = DeviceTuning.of(self.device)
        rows_in_cache = tuning.gate_values // self.bilm.options.lstm_dim
        return max(1, min(tuning.rows, rows_in_cache))

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
        checked = list(sentences_of(sentences))
        if self.state != "carry":
            arrays, _ = self.embed_block(checked, None)
            return [array.copy() for array in arrays], None
        arrays, final = self.embed_block(checked, state, batch_size=len(checked))
        return [array.copy() for array in arrays], final

    def embed_block(
        self,
        sentences: Sequence[Sentence],
        state: State | None,
        *,
        batch_size: int | None = None,
        tokens_first: bool = False,
    ) -> tuple[list[FloatArray], State | None]:
        """Compute a block.

        Args:
            tokens_first: where a GPU sorts vectors, whether the layers of a token are next to each
                other in memory; otherwise, the tokens of a layer are.
        Returns:
            The arrays of its sentences, views of those of its batches, and the state for the next
            block ("carry" and "document").
        """
        if not sentences:
            return [], state
        types = TypeNumbers(self.bilm.token_ids)
        rows = [types.numbers_of(sentence.tokens) for sentence in sentences]
        with self._computing():
            block = _BlockInWork(
                sentences=sentences,
                rows=rows,
                type_vectors=self.engine.embed_types(types.types),
                arrays=[self._empty] * len(rows),
                batch_size=batch_size or self.batch_size,
                tokens_first=tokens_first,
            )
            if self._is_independent:
                self._compute_independent(block)
                return block.arrays, None
            if state is None:
                state = State.zeros(self.bilm.options, 1)
            state = state.to(self.device)
            if self.state == "carry":
                final = self._compute_carried(block, state)
            else:
                final = self._compute_documents(block, state)
            return block.arrays, final

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
        self.weights_guard.check()
        with without_autocast(self.device):
            yield

    def _compute_independent(self, block: _BlockInWork) -> None:
        """Start each sentence from the same state.

        From zeros this is an ELMo embedder of AllenNLP that embeds one sentence only.
        """
        positions = [p for p, sentence in enumerate(block.sentences) if sentence.tokens]
        for batch in self._batches(block, positions):
            self._compute(block, batch, self.start)

    def _compute_carried(self, block: _BlockInWork, state: State) -> State:
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
            batch = Batch(rows=rows, source_rows=np.arange(first, first + len(rows)))
            used_rows = slice(0, len(rows))  # a last batch may be smaller
            state = state.with_rows_added(len(rows))
            final = self._compute(block, batch, state.select_rows(used_rows))
            state = state.with_rows(used_rows, final)
        return state

    def _compute_documents(self, block: _BlockInWork, state: State) -> State:
        """Start each document from zeros and carry the state within it.

        The documents of a block run in parallel: turn k computes sentence k of each of them. Takes
        and returns the state (one row) at the end of the last document so far.
        """
        documents = positions_by_document(block.sentences)
        if block.sentences[0].starts_document:
            state = State.zeros(self.bilm.options, 1, device=self.device)
        state = state.with_rows_added(len(documents))
        n_turns = max(len(positions) for positions in documents)
        for turn in range(n_turns):
            document_of: dict[int, int] = {}  # position of a sentence -> number of its document
            for number, positions in enumerate(documents):
                if turn < len(positions):
                    document_of[positions[turn]] = number
            for batch in self._batches(block, list(document_of)):
                numbers = [document_of[position] for position in batch.source_rows.tolist()]
                state_rows = torch.tensor(numbers, device=self.device)
                final = self._compute(block, batch, state.select_rows(state_rows))
                state = state.with_rows(state_rows, final)
        return state.select_rows(slice(len(documents) - 1, len(documents)))

    def _batches(self, block: _BlockInWork, positions: Sequence[int]) -> list[Batch]:
        """The sentences at some positions, in batches of similar length."""
        batches = batches_by_length(
            [block.rows[position] for position in positions],
            batch_size=block.batch_size,
            batch_tokens=DeviceTuning.of(self.device).tokens,
            padded=self.engine.pads,
        )
        position_of_row = np.array(positions)
        return [
            Batch(rows=batch.rows, source_rows=position_of_row[batch.source_rows])
            for batch in batches
        ]

    def _compute(self, block: _BlockInWork, batch: Batch, start: State | None) -> Any:
        """Fill in the arrays of a batch, split in half if it does not fit in the device's memory;
        return the final state, None if sentences are independent."""
        n_rows = len(batch.rows)
        try:
            return self._forward(block, batch, start)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if n_rows == 1:
                sentence = block.sentences[int(batch.source_rows[0])]
                raise self._too_long(sentence) from error
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        finals = []
        for half in (slice(0, n_rows // 2), slice(n_rows // 2, n_rows)):
            start_of_half = start
            if start is not None and not self._is_independent:
                start_of_half = start.select_rows(half)
            finals.append(self._compute(block, batch.rows_slice(half), start_of_half))
        if self._is_independent:
            return None
        h = torch.cat([final.h for final in finals], 2)
        c = torch.cat([final.c for final in finals], 2)
        return State(h, c)

    def _too_long(self, sentence: Sentence) -> DeviceError:
        n_tokens = len(sentence.tokens)
        return DeviceError(
            f"out of memory on {self.device} with a sentence of {n_tokens} tokens",
            "split the sentence, or compute on the CPU",
            where=sentence.where,
        )

    def _forward(self, block: _BlockInWork, batch: Batch, start: State | None) -> State | None:
        """Compute a batch, reduce its layers and move them off the device, into `block.arrays`."""
        layers, final = self.engine.forward(
            batch,
            block.type_vectors,
            start,
            shared_start=self._is_independent,
            top_layer=self.output.top_layer if self._is_independent else None,
        )
        n_tokens = (batch.lengths - 2).tolist()  # without the sentence boundaries
        positions = batch.source_rows.tolist()
        selected = self.output.select(layers)
        self._check_values(selected, n_tokens, lambda row: block.sentences[positions[row]].where)
        if self.output.pool is None:
            selected = self.output.cast(selected)
        arrays = self._to_arrays(selected, n_tokens, tokens_first=block.tokens_first)
        for position, n_own_tokens, array in zip(positions, n_tokens, arrays, strict=True):
            if n_own_tokens:
                block.arrays[position] = array
        return final

    def _to_arrays(
        self, selected: Tensor, sizes: list[int], *, tokens_first: bool
    ) -> Iterable[FloatArray]:
        """Return the array of each sentence; unless pooled, a view of that of the batch."""
        has_layers = selected.dim() == 3
        if not self.sorts_vectors or not has_layers or self.output.pool is not None:
            return map(self.output.to_array, torch.split(copy_to_cpu(selected), sizes, -2))
        vectors = copy_to_cpu(sort_vectors(selected, sizes, tokens_first=tokens_first)).numpy()
        return split_vectors(vectors, sizes, len(selected), tokens_first=tokens_first)

    def _check_values(self, values: Tensor, sizes: list[int], where: Callable[[int], str]) -> None:
        """Raise an OutputError that says where the first value that does not fit is."""
        if self.output.fits(values):
            return
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
    tokens_first: bool  # whether the layers of a token are next to each other in memory
