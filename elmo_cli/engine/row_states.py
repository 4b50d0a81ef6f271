"""RowStates: h and c of the rows of a batch in one LSTM layer, step after step.

A step is a dozen kernels. On a GPU, launching each from Python takes longer than executing it; a
CUDA graph launches all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from elmo_cli.model.lstm import ProjectedLSTM

MAX_GRAPH_ROWS = 1024  # of a batch whose steps become graphs

Step = Callable[[Iterable[Tensor], Tensor, Tensor], None]
"""Reads one array, or one for each gate, (row, n); updates h (row, projection_dim) and
c (row, lstm_dim) in place."""


class RowStates:
    """The state of each row: h (row, projection_dim) and c (row, lstm_dim)."""

    def __init__(self, h: Tensor, c: Tensor) -> None:
        self.h, self.c = h, c

    def select(self, rows: Tensor) -> None:
        """Continue from the states of these rows."""
        self.h, self.c = self.h.index_select(0, rows), self.c.index_select(0, rows)

    def advance(
        self, step: Step, sources: Sequence[Tensor], numbers: Tensor | None, positions: slice
    ) -> None:
        """Compute a step of the first rows.

        Args:
            sources: what the step reads, one array or one for each gate, (number, n): the rows
                `numbers[positions]`, or without numbers the rows `positions`.
        """
        rows = slice(positions.stop - positions.start)
        step((_read(s, numbers, positions) for s in sources), self.h[rows], self.c[rows])


class GraphRowStates(RowStates):
    """The same on a GPU, for at most `MAX_GRAPH_ROWS` rows.

    When a step is computed for the second time with as many rows, it is recorded as a CUDA graph,
    which is replayed from then on. A graph works on fixed memory: `h`, `c` and a copy of what the
    step reads.
    """

    def __init__(self, layer: ProjectedLSTM, recorder: GraphRecorder) -> None:
        weight, options = layer.recurrent.weight.detach(), layer.options
        super().__init__(
            weight.new_zeros(MAX_GRAPH_ROWS, options.projection_dim),
            weight.new_zeros(MAX_GRAPH_ROWS, options.lstm_dim),
        )
        self._recorder = recorder
        self._inputs: dict[tuple[int, torch.dtype], Tensor] = {}
        self._graphs: dict[tuple[str, int], torch.cuda.CUDAGraph | None] = {}

    def set(self, h: Tensor, c: Tensor) -> None:
        """Set the state of the first rows."""
        self.h[: len(h)], self.c[: len(c)] = h, c

    def select(self, rows: Tensor) -> None:
        """See `RowStates.select`."""
        self.set(self.h.index_select(0, rows), self.c.index_select(0, rows))

    def advance(
        self, step: Step, sources: Sequence[Tensor], numbers: Tensor | None, positions: slice
    ) -> None:
        """See `RowStates.advance`; on a GPU there is one source for all gates."""
        (source,) = sources
        n_rows, kind = positions.stop - positions.start, (source.shape[1], source.dtype)
        if kind not in self._inputs:
            self._inputs[kind] = source.new_empty(MAX_GRAPH_ROWS, source.shape[1])
        x = _read(source, numbers, positions, out=self._inputs[kind][:n_rows])
        compute = partial(step, [x], self.h[:n_rows], self.c[:n_rows])
        # The name: a method would refer back to its object, whose memory would be freed late.
        name = step.__name__
        if (name, n_rows) not in self._graphs:
            compute()
            self._graphs[name, n_rows] = None
            return
        graph = self._graphs[name, n_rows] or self._recorder.record(compute)
        self._graphs[name, n_rows] = graph
        graph.replay()


class GraphRecorder:
    """Records CUDA graphs that are replayed one after the other, and so may share memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        # torch forgets a pool without graphs, such as when the first recording ran out of memory.
        self._first = self.record(partial(torch.zeros, 1, device=device))

    def record(self, compute: Callable[[], object]) -> torch.cuda.CUDAGraph:
        """Unlike `torch.cuda.graph`, without returning unused memory to the device each time."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self._device)
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                compute()
            finally:
                graph.capture_end()
        return graph


def _read(
    source: Tensor, numbers: Tensor | None, positions: slice, out: Tensor | None = None
) -> Tensor:
    if numbers is not None:
        return torch.index_select(source, 0, numbers[positions], out=out)
    return source[positions] if out is None else out.copy_(source[positions])
