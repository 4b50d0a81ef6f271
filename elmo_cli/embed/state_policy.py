"""What state the sentences of a block start from, and so which go together; a state as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from elmo_cli.errors import ResumeError
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch, Ids, batches_by_length
from elmo_cli.text.sentence import Sentence

STATES = ("zero", "warm", "carry", "document")
_BORDERS = 2  # tokens of a row that are the borders of the sentence

Run = Callable[[Batch, State], State]


def run_free(
    rows: Sequence[Ids],
    run: Callable[[Batch], None],
    *,
    batch_size: int,
    batch_tokens: int,
    padded: bool,
) -> None:
    """Each sentence from the same state, "zero" or "warm"; batches by length.

    Source: an ELMo embedder of AllenNLP that is asked for one sentence only starts from zeros.
    """
    filled = [p for p, row in enumerate(rows) if len(row) > _BORDERS]
    batches = batches_by_length(
        [rows[p] for p in filled], batch_size=batch_size, batch_tokens=batch_tokens, padded=padded
    )
    for batch in batches:
        run(Batch(batch.rows, np.array([filled[p] for p in batch.source_rows], np.int64)))


def run_carried(rows: Sequence[Ids], run: Run, *, state: State, batch_size: int) -> State:
    """Row r of a batch goes on where row r of the batch before stopped, in input order.

    Source: AllenNLP `modules/encoder_base.py`, bilm-tf `bilm/model.py`; with batch size 1 this is
    bilm-tf's `dump_bilm_embeddings`. A batch of one empty sentence leaves the state alone, an empty
    sentence beside others is read as its two borders.
    """
    for first in range(0, len(rows), batch_size):
        batch = Batch(
            tuple(rows[first : first + batch_size]),
            np.arange(first, min(first + batch_size, len(rows))),
        )
        n_rows = len(batch.rows)
        if n_rows == 1 and len(batch.rows[0]) == _BORDERS:
            continue
        state = state.with_rows_added(n_rows)
        left = run(batch, state.select_rows(slice(0, n_rows)))
        state = state.with_rows(slice(0, n_rows), left)
    return state


def run_documents(
    rows: Sequence[Ids],
    sentences: Sequence[Sentence],
    run: Run,
    *,
    state: State,
    batch_size: int,
    batch_tokens: int,
    padded: bool,
) -> State:
    """Carry within a document, zero at its start; the block's documents stand side by side.

    Args:
        batch_size, batch_tokens, padded: as of `batches_by_length`; what of the documents' next
            sentences is more than that is another batch.
        state: one row, where the document that the block before left open stopped.
    Returns:
        One row, where the last document of the block stopped.
    """
    documents = _documents(rows, sentences)
    carried = state.with_rows_added(len(documents))  # (…, document, …), new rows are zero
    if sentences[0].starts_document:
        carried = State(torch.zeros_like(carried.h), torch.zeros_like(carried.c))
    for turn in range(max(len(document) for document in documents)):
        running = [r for r, document in enumerate(documents) if turn < len(document)]
        places = [documents[r][turn] for r in running]
        batches = batches_by_length(
            [rows[p] for p in places],
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            padded=padded,
        )
        for batch in batches:
            index = torch.tensor([running[p] for p in batch.source_rows], device=carried.h.device)
            some = Batch(batch.rows, np.array([places[p] for p in batch.source_rows], np.int64))
            carried = carried.with_rows(index, run(some, carried.select_rows(index)))
    return carried.select_rows(slice(len(documents) - 1, len(documents)))


def _documents(rows: Sequence[Ids], sentences: Sequence[Sentence]) -> list[list[int]]:
    """Places of the sentences of each document, in order, blank ones left out."""
    documents: list[list[int]] = []
    for place, sentence in enumerate(sentences):
        if sentence.starts_document or not documents:
            documents.append([])
        if len(rows[place]) > _BORDERS:
            documents[-1].append(place)
    return documents


def state_bytes(state: State) -> bytes:
    """A state as the journal keeps it: float32, h then c."""
    return b"".join(part.cpu().float().numpy().tobytes() for part in (state.h, state.c))


def state_from_bytes(content: bytes, options: Options) -> State:
    """The state of `state_bytes`.

    Raises:
        ResumeError: not a state of such a model.
    """
    sizes = (options.projection_dim, options.lstm_dim)
    row = 4 * options.n_layers * 2 * sum(sizes)
    if len(content) % row:
        raise ResumeError(
            f"the journal's state has {len(content)} bytes, not a multiple of {row}",
            "the journal is damaged; `--overwrite` starts anew",
        )
    n_rows = len(content) // row
    flat = torch.frombuffer(bytearray(content), dtype=torch.float32) if content else torch.empty(0)
    cells = options.n_layers * 2 * n_rows * options.projection_dim
    h = flat[:cells].reshape(options.n_layers, 2, n_rows, sizes[0])
    return State(h, flat[cells:].reshape(options.n_layers, 2, n_rows, sizes[1]))
