"""Embedder: sentences to arrays, in the order given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from elmo_cli.embed.blocks import CARRY_BATCH_SIZE, split_into_blocks
from elmo_cli.embed.given import check_loaded, check_state, checked_size, sentence_of
from elmo_cli.embed.output import Array, Output
from elmo_cli.embed.parts import Parts, joined, out_of_memory
from elmo_cli.embed.state_policy import STATES, run_carried, run_documents, run_free
from elmo_cli.engine.contract import make_engine
from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.batching import Batch, TypeNumbers
from elmo_cli.text.input import InputSettings, Name, read_sentences
from elmo_cli.text.sentence import Sentence

# Of a batch, where the state is free: rows, or fewer where a gate would have more values, for which
# a processor's cache has no room.
_ROWS, _GATE_VALUES = 512, 1 << 20
_BATCH_TOKENS = 24_576  # of such a batch, borders too, and padding where the engine pads


class Embedder:
    """Computes the layers of sentences with one biLM, on one device.

    Args:
        bilm: from `load`.
        state: what a sentence starts from: "zero", "warm", "carry" or "document".
        layers: what is kept, see `Output.parse`.
        dtype: "float32" or "float16"; "int8" is for `embed_file`, arrays stay float32.
        pool: None, or "mean" or "max" over the tokens of a sentence.
        bare: whether a single layer loses its axis.
        batch_size: sentences that are computed together; with state "carry" the rows of the state.
            None for 64 with it, otherwise for 512, or fewer on a processor where a layer has more
            than 2,048 cells.
        engine: "fast", or "plain" for the model as it stands.
        precision: of the products: "float32", "bf16" or "int8", see `engine.gemm`.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps". One on cuda turns TF32 off for the
            convolutions of the whole process, since vectors are float32.
    Attributes:
        start: the state of one row that every sentence starts from with state "warm", else None.
    Raises:
        UsageError, DeviceError: one of these is not to be had.
        TypeError: `bilm` is something else, such as a name, which `load` takes.

    Example:
        embedder = Embedder(load())
        layers = embedder.embed(["The", "cat", "sat"])  # (3, 3, dim) float32
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        state: str = "zero",
        layers: str | int = "all",
        dtype: str = "float32",
        pool: str | None = None,
        bare: bool = False,
        batch_size: int | None = None,
        engine: str = "fast",
        precision: str = "float32",
        device: str | torch.device = "auto",
    ) -> None:
        check_loaded(bilm)
        if state not in STATES:
            raise UsageError(f"--state {state}: not {', '.join(STATES)}", "zero is the default")
        self.device = select_device(str(device))
        if batch_size is None:
            batch_size = CARRY_BATCH_SIZE if state == "carry" else _rows(bilm.options, self.device)
        self.bilm, self.state, self.batch_size = bilm, state, checked_size(batch_size)
        self.precision = precision
        n_layers = 1 + bilm.options.n_layers
        self.output = Output.parse(
            str(layers), n_layers=n_layers, dtype=dtype, pool=pool, bare=bare
        )
        self.engine = make_engine(engine, bilm, self.device, precision)
        self.start = warm_state(bilm).to(self.device) if state == "warm" else None
        # A carried state needs all layers, whatever goes out.
        self._highest = self.output.highest if state in ("zero", "warm") else None
        self._parts = Parts(self.device, padded=self.engine.pads)

    def embed(self, tokens: Sequence[str]) -> Array:
        """The array of one sentence by itself, from the zero or the warm state.

        Many sentences take a fraction of the time each by `stream` or `embed_batch`: weights are
        read once for all rows of a batch.

        Returns:
            (layer, token, dim) with `layers="all"`; see `Output.sentence` for other choices.
        Raises:
            TypeError: it is a text that has not been split, or several sentences.
        """
        return self.embed_batch([tokens])[0][0]

    def embed_batch(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[list[Array], State | None]:
        """The arrays of sentences that go through the biLM as one batch.

        Args:
            sentences: lists of tokens; an empty one gives an array without tokens.
            state: with state "carry" what the batch before left (None at first), see
                `state_policy.run_carried`; otherwise left out.
        Returns:
            An array a sentence in the order given, and the state for the next batch ("carry").
        Raises:
            TypeError: a sentence is no list of tokens, or `state` no state, or one that would be
                passed over.
            UsageError: the state of a biLM of other sizes.
        """
        made = [sentence_of(tokens, key) for key, tokens in enumerate(sentences)]
        is_carried = self.state == "carry"
        if state is not None:
            check_state(state, self.bilm.options, is_carried=is_carried)
        size = max(1, len(made)) if is_carried else self.batch_size
        arrays, left = self._block(made, state, batch_size=size)
        return [_own(array) for array in arrays], left if is_carried else None

    def embed_block(
        self, sentences: Sequence[Sentence], state: State | None
    ) -> tuple[list[Array], State | None]:
        """The arrays of a block, and the state for the next block ("carry" and "document")."""
        return self._block(sentences, state, batch_size=self.batch_size)

    def embed_types(self, types: Sequence[str]) -> Array:
        """Vectors of types without context, (type, projection): one copy of layer 0.

        Raises:
            TypeError: they are no list of texts.
            OutputError, WeightFileError: a value that the file can't hold, or none can.
        """
        types = sentence_of(types, 0).tokens
        vectors = self.engine.embed_types(types)
        if not self.output.holds(vectors):
            row = next(r for r in range(len(types)) if not self.output.holds(vectors[r]))
            raise self.output.refusal(vectors[row], f"the type `{types[row]}`", self.bilm.name)
        array: Array = self.output.stored(vectors.cpu()).numpy()
        return array

    def stream(
        self,
        source: Name | Iterable[Sentence | Sequence[str]],
        settings: InputSettings | None = None,
    ) -> Iterator[tuple[Sentence, Array]]:
        """Sentences with their arrays, in order.

        Args:
            source: a text file; or sentences of any reader, or lists of tokens.
            settings: how a file is read.
        Raises:
            UsageError: `settings` for sentences, which are read already.
        """
        if isinstance(source, (str, os.PathLike)):
            source = read_sentences(source, settings or InputSettings())
        elif settings is not None:
            raise UsageError(
                "stream: settings say how a file is read, and sentences were given",
                "name the file, or give the settings to `read_sentences`",
            )
        sentences = (
            given if isinstance(given, Sentence) else sentence_of(given, key)
            for key, given in enumerate(source)
        )
        state: State | None = None
        blocks = split_into_blocks(sentences, state=self.state, batch_size=self.batch_size)
        for block in blocks:
            arrays, state = self.embed_block(block.sentences, state)
            for sentence, array in zip(block.sentences, arrays, strict=True):
                yield sentence, _own(array)

    def _block(
        self, sentences: Sequence[Sentence], state: State | None, *, batch_size: int
    ) -> tuple[list[Array], State | None]:
        if not sentences:
            return [], state
        types = TypeNumbers()
        rows = [types.numbers_of(sentence.tokens) for sentence in sentences]
        arrays = [self._empty() for _ in rows]
        vectors = self._guarded(lambda: self.engine.embed_types(types.types), sentences)

        def keep(batch: Batch, layers: Tensor) -> None:
            """Reduce layers and take them off the device: in a part too, as memory may end here."""
            inner = (batch.lengths - 2).tolist()
            kept = self.output.of(layers)
            if not self.output.holds(kept):
                raise self._refusal(torch.split(kept, inner, -2), batch, sentences)
            pieces = torch.split(self.output.leaving(kept).cpu(), inner, -2)
            for position, piece in zip(batch.source_rows.tolist(), pieces, strict=True):
                if piece.shape[-2]:
                    arrays[position] = self.output.sentence(piece)

        def read_alike(batch: Batch) -> None:
            def part(rows: slice) -> None:
                some = batch.rows_slice(rows)
                layers, _ = self.engine.forward(
                    some, vectors, self.start, shared_start=True, top_layer=self._highest
                )
                keep(some, layers)

            self._parts.run(batch, part, sentences)

        def read_on(batch: Batch, start: State) -> State:
            def part(rows: slice) -> State:
                some = batch.rows_slice(rows)
                layers, left = self.engine.forward(some, vectors, start.select_rows(rows))
                keep(some, layers)
                assert left is not None
                return left

            left = self._parts.run(batch, part, sentences)
            return State(joined([s.h for s in left], 2), joined([s.c for s in left], 2))

        limits: dict[str, Any] = {
            "batch_size": batch_size,
            "batch_tokens": _BATCH_TOKENS,
            "padded": self.engine.pads,
        }
        if self.state in ("zero", "warm"):
            run_free(rows, read_alike, **limits)
            return arrays, None
        if state is None:
            state = State.zeros(self.bilm.options, 1, device=self.device)
        state = state.to(self.device)
        if self.state == "carry":
            return arrays, run_carried(rows, read_on, state=state, batch_size=batch_size)
        return arrays, run_documents(rows, sentences, read_on, state=state, **limits)

    def _refusal(
        self, pieces: Sequence[Tensor], batch: Batch, sentences: Sequence[Sentence]
    ) -> ElmoError:
        """The error for the first sentence of a batch with values that can't be stored."""
        row = next(r for r, piece in enumerate(pieces) if not self.output.holds(piece))
        sentence = sentences[int(batch.source_rows[row])]
        return self.output.refusal(pieces[row], sentence.where, self.bilm.name)

    def _empty(self) -> Array:
        """The array of a sentence without tokens."""
        n_layers, dim = 1 + self.bilm.options.n_layers, self.bilm.options.dim
        return self.output.sentence(self.output.of(torch.empty(n_layers, 0, dim)))

    def _guarded(self, compute: Callable[[], Tensor], sentences: Sequence[Sentence]) -> Tensor:
        try:
            return compute()
        except RuntimeError as error:
            raise out_of_memory(error, sentences[0], self.device) from error


def _own(array: Array) -> Array:
    """An array of its own: one that looks into the arrays of its batch would keep all of them."""
    own: Array = array.copy()
    return own


def _rows(options: Options, device: torch.device) -> int:
    """Rows of a batch where nothing else is said, and the state is free."""
    if device.type != "cpu":
        return _ROWS
    return max(1, min(_ROWS, _GATE_VALUES // options.lstm_dim))
