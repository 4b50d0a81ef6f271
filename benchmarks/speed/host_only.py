"""Run `elmo embed` without its model: what remains is the work of the CPU in a run on a GPU.

    PYTHONPATH=CHECKOUT python CHECKOUT/benchmarks/speed/host_only.py [OPTION…] embed TEXT -o OUT …

    --dim N                dimension of the vectors  [default: that of the model]
    --profile main|append  also list the functions that took longest in the main thread, or in the
                           thread of "append" (slows it down)
    --touch-mb N           first touch and free as much memory, as the output needs  [default: 0]

In the command, `forward` only lays out the batch in both directions and returns values that are
ready, in the dtype of the output. Type vectors are zeros, after the look-up of types and character
ids. Checking, casting and sorting values are left out, because a GPU does them. The options
`--layers`, `--state` and `--device` keep their defaults. OUT is best in /dev/shm; its vectors are
worthless. OUT should not exist yet, because freeing the pages of an old file takes time, too.

Printed are tokens per second of wall time, from the first block to the closed file, and
microseconds of CPU time per token: of all threads together; of the main thread ("main") without
"finish", which completes the file at the end; of its parts "forward" and "types"; and of "append",
the work of the thread that computes checksums and hands blocks to the writer thread. The peak
memory is that of the process. The bytes written include those that HDF5 writes.

A virtual machine may return freed memory to its host. To get it back takes several times as long as
to write to it, in every version of the program. With `--touch-mb` this happens before the time is
taken.
"""

from __future__ import annotations

import argparse
import cProfile
import mmap
import pstats
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.__main__ import command
from elmo_cli.embed import embedder as embedder_module
from elmo_cli.embed.embed_run import EmbedRun
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output_reduction import OutputReduction
from elmo_cli.embed.run_summary import RunSummary
from elmo_cli.engine.char_cnn import TypeCache
from elmo_cli.engine.engines import FastEngine
from elmo_cli.engine.lstm import PackedBatch
from elmo_cli.model.bilm import State
from elmo_cli.store.writer import EmbeddingsWriter

N_BUFFER_VECTORS = 100_000  # at least as many as all layers of one batch have
WORK = {"main": EmbedRun.write, "append": EmbeddingsWriter.append_block}


class Stopwatch:
    """Sums the CPU time and the wall time of functions."""

    def __init__(self) -> None:
        self.cpu_s = dict.fromkeys(("all", "forward", "types", "append", "finish"), 0.0)
        self.wall_s = dict(self.cpu_s)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which adds its times under a name; CPU time of its own thread only."""

        def measured(*args: Any, **options: Any) -> Any:
            start_wall_s = time.perf_counter()
            start_cpu_s = time.thread_time()
            result = function(*args, **options)
            self.cpu_s[name] += time.thread_time() - start_cpu_s
            self.wall_s[name] += time.perf_counter() - start_wall_s
            return result

        return measured


class ReadyValues:
    """Stands for the engine: values that are ready, taken from one buffer in turn."""

    def __init__(self, embedder: Embedder, dim: int | None) -> None:
        self.dim = dim or embedder.bilm.options.dim
        dtype = torch.float16 if embedder.settings.dtype == "float16" else torch.float32
        pattern = torch.randn(1 << 20).to(dtype)
        self._buffer = pattern.repeat(1 + N_BUFFER_VECTORS * self.dim // len(pattern))
        self._position = 0

    def take(self, n_layers: int, n_tokens: int) -> Tensor:
        """Values (layer, token, dim)."""
        size = n_layers * n_tokens * self.dim
        if self._position + size > len(self._buffer):
            self._position = 0
        values = self._buffer[self._position :][:size].view(n_layers, n_tokens, self.dim)
        self._position += size
        return values


def forward(
    values: ReadyValues,
    self: FastEngine,
    batch: Any,
    type_vectors: Tensor,
    start: State | None,
    *,
    shared_start: bool = False,
    top_layer: int | None = None,
) -> tuple[Tensor, State | None]:
    """Replaces `FastEngine.forward`."""
    order = np.argsort(-batch.lengths, kind="stable")
    layout = partial(PackedBatch.of, batch, order, torch.device("cpu"), shared_start=shared_start)
    layout(backward=False)
    layout(backward=True)
    n_layers = 1 + (self.options.n_layers if top_layer is None else top_layer)
    n_tokens = int(batch.lengths.sum()) - 2 * len(batch.rows)
    final = None if shared_start else State.zeros(self.options, len(batch.rows))
    return values.take(n_layers, n_tokens), final


def type_vectors(self: TypeCache, types: Sequence[str]) -> Tensor:
    """Replaces `TypeCache.vectors`."""
    new_types = [t for t in dict.fromkeys(types) if t not in self._rows]
    self._token_ids.tokens(new_types)
    for t in new_types:
        self._rows[t] = len(self._rows)
    torch.tensor([self._rows[t] for t in types], dtype=torch.int64)
    return torch.zeros(1, self._char_cnn.projection_dim).expand(len(types), -1)


def touch_memory(n_megabytes: int) -> None:
    """Have the system provide as much memory, and free it."""
    if not n_megabytes:
        return
    with mmap.mmap(-1, n_megabytes << 20) as memory:
        for begin in range(0, len(memory), mmap.PAGESIZE):
            memory[begin] = 1


def written_bytes() -> int:
    """Bytes that this process has passed to the system for writing; 0 where it does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def report(stopwatch: Stopwatch, done: RunSummary, process_s: float, n_written: int) -> None:
    """Print what was measured."""
    n_tokens = done.tokens
    cpu_s = dict(stopwatch.cpu_s)
    cpu_s["main"] = cpu_s.pop("all") - cpu_s["finish"]
    wall_s = stopwatch.wall_s["all"]
    figures = [f"all threads {1e6 * process_s / max(1, n_tokens):.2f}"]
    for name, seconds in sorted(cpu_s.items()):
        figures.append(f"{name} {1e6 * seconds / max(1, n_tokens):.2f}")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{n_tokens / wall_s:,.0f} tokens/s; {n_tokens:,} tokens, {done.sentences:,} sentences; "
        f"CPU, us/token: {', '.join(figures)}; wall {wall_s:.2f} s, "
        f"finish {stopwatch.wall_s['finish']:.2f} s; peak {peak_mb} MB; "
        f"{n_written / done.bytes:.3f} bytes written per byte of the file",
        file=sys.stderr,
    )


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--dim", type=int)
    parser.add_argument("--profile", choices=WORK)
    parser.add_argument("--touch-mb", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    sys.argv = ["elmo", *given.command]
    stopwatch = Stopwatch()
    profile = cProfile.Profile(time.thread_time)
    work = dict(WORK)
    if given.profile:
        work[given.profile] = partial(profile.runcall, work[given.profile])

    # A GPU also sorts vectors, in code that sorts them there.
    embedder_module.sort_vectors = (  # type: ignore[attr-defined]
        lambda vectors, sizes, tokens_first: vectors.view(-1, vectors.shape[-1])
    )

    def write(run: EmbedRun, blocks: Any) -> Any:
        run._embedder.sorts_vectors = True
        values = ReadyValues(run._embedder, given.dim)
        FastEngine.forward = stopwatch.timed(  # type: ignore[method-assign]
            "forward",
            lambda *args, **options: torch.inference_mode()(forward)(values, *args, **options),
        )
        touch_memory(given.touch_mb)
        start_s = time.process_time()
        n_before = written_bytes()
        done = stopwatch.timed("all", work["main"])(run, blocks)
        process_s = time.process_time() - start_s
        report(stopwatch, done, process_s, written_bytes() - n_before)
        if given.profile:
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(40)
        return done

    EmbedRun.write = write  # type: ignore[method-assign]
    EmbeddingsWriter.append_block = stopwatch.timed("append", work["append"])  # type: ignore
    EmbeddingsWriter.finish = stopwatch.timed("finish", EmbeddingsWriter.finish)  # type: ignore
    TypeCache.vectors = stopwatch.timed("types", type_vectors)  # type: ignore[method-assign]
    OutputReduction.fits = lambda self, values: True  # type: ignore[method-assign]
    OutputReduction.cast = lambda self, values: values  # type: ignore[method-assign]
    command()


if __name__ == "__main__":
    main()
