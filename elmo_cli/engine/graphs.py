"""GraphRowStates: the time steps of an LSTM layer as CUDA graphs.

A step is a dozen kernels. On a GPU, launching each from Python takes longer than executing it; a
CUDA graph launches all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from elmo_cli.engine.lstm import RowStates, Step, read_rows
from elmo_cli.model.bilm import ProjectedLSTM

_MAX_ROWS = 1024  # of a batch


class GraphRowStates(RowStates):
    """States of at most `_MAX_ROWS` rows on a GPU, whose steps become CUDA graphs.

    The second time that a step is computed with the same number of rows, it is recorded as a CUDA
    graph, which is replayed from then on. A graph uses fixed memory: `h`, `c` and a copy of what
    the step reads.
    """

    def __init__(self, layer: ProjectedLSTM, recorder: GraphRecorder) -> None:
        weight = layer.recurrent.weight.detach()
        super().__init__(
            h=weight.new_zeros(_MAX_ROWS, layer.options.projection_dim),
            c=weight.new_zeros(_MAX_ROWS, layer.options.lstm_dim),
        )
        self._recorder = recorder
        self._inputs: dict[tuple[int, torch.dtype], Tensor] = {}  # by size and dtype of a row
        # By the name of the step and the number of rows; None after the first call.
        self._graphs: dict[tuple[str, int], torch.cuda.CUDAGraph | None] = {}

    def set(self, h: Tensor, c: Tensor) -> None:
        """See `RowStates.set`."""
        self.h[: len(h)] = h
        self.c[: len(c)] = c

    def advance(
        self, step: Step, sources: Sequence[Tensor], numbers: Tensor | None, positions: slice
    ) -> None:
        """See `RowStates.advance`; on a GPU there is one source for all gates."""
        (source,) = sources
        n_rows = positions.stop - positions.start
        row_size = source.shape[1]
        kind = (row_size, source.dtype)
        if kind not in self._inputs:
            self._inputs[kind] = source.new_empty(_MAX_ROWS, row_size)
        x = read_rows(source, numbers, positions, out=self._inputs[kind][:n_rows])
        compute = partial(step, [x], self.h[:n_rows], self.c[:n_rows])

        key = (step.__name__, n_rows)  # the method itself would be a reference cycle
        if key not in self._graphs:
            compute()
            self._graphs[key] = None
            return
        graph = self._graphs[key]
        if graph is None:
            graph = self._recorder.record(compute)
            self._graphs[key] = graph
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
        """Record a graph; unlike `torch.cuda.graph`, do not release unused memory each time."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self._device)
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                compute()
            except BaseException:
                with suppress(RuntimeError):  # the first error says more, such as out of memory
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph
