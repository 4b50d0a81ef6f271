"""Measure how long each part of embedding takes on a GPU, and what larger blocks would gain.

    PYTHONPATH=CHECKOUT python CHECKOUT/benchmarks/speed/gpu_probe.py TEXT MODEL [DEVICE] [N]
        [--json FILE]

    TEXT    tokenized, one sentence per line
    MODEL   a name or a folder
    DEVICE  cuda or cpu  [default: cuda]
    N       number of sentences to embed  [default: 16000]

The sentences are embedded in float16 three times for each size of blocks and batches; the first two
runs record the CUDA graphs. A trial on a CPU with up to 2,000 sentences uses the present sizes
only. Printed are microseconds per token of the best run: "s" of all, "layout" of `PackedBatch.of`
(within the next), "enqueue" of `FastEngine.forward`, "gpu wait" after it, "d2h" of the copy to the
CPU, and "types" of the type vectors. The measurement waits after each batch, so it is slower than a
run. Then follow the rates of the product of all gates of the original model and of the copy from
the GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

START_S = time.perf_counter()
import torch  # noqa: E402

IMPORT_S = time.perf_counter() - START_S
from benchmarks.common import parse_arguments  # noqa: E402
from benchmarks.record import Record  # noqa: E402
from elmo_cli import Embedder, load, read_sentences  # noqa: E402
from elmo_cli.embed import blocks, embedder  # noqa: E402
from elmo_cli.engine import engines, graphs, lstm, runtime  # noqa: E402
from elmo_cli.text.sentence import Sentence  # noqa: E402

# Sentences of a block, rows of a batch, precision.
SIZES = (
    (1000, 1024, "float32"),
    (4000, 1024, "float32"),
    (8000, 1024, "float32"),
    (16000, 2048, "float32"),
    (1000, 1024, "bf16"),
    (16000, 2048, "bf16"),
)
TOKENS_OF_SENTENCE = 32  # blocks of N sentences have at most this many times N tokens
seconds = dict.fromkeys(("layout", "enqueue", "gpu wait", "d2h", "types"), 0.0)


def wait() -> None:
    """Wait until the GPU has done what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def timed(
    name: str,
    function: Callable[..., Any],
    *,
    before: Callable[[], None] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> Callable[..., Any]:
    """The function, which adds its time and that of `after` to `seconds[name]`."""

    def measured(*args: Any, **options: Any) -> Any:
        before()
        start_s = time.perf_counter()
        result = function(*args, **options)
        after()
        seconds[name] += time.perf_counter() - start_s
        return result

    return measured


def instrument() -> None:
    """Let the parts of embedding add their times to `seconds`."""
    fast: Any = engines.FastEngine
    enqueue = timed("enqueue", fast.forward)

    def forward(*args: Any, **options: Any) -> Any:
        result = enqueue(*args, **options)
        timed("gpu wait", wait)()
        return result

    fast.forward = forward
    fast.embed_types = timed("types", fast.embed_types, after=wait)
    packed: Any = lstm.PackedBatch
    packed.of = timed("layout", packed.of)
    module: Any = embedder
    module.copy_to_cpu = timed("d2h", module.copy_to_cpu, before=wait)


def measure(
    model: str,
    device: str,
    sentences: Sequence[Sentence],
    n_sentences: int,
    n_rows: int,
    precision: str,
) -> dict[str, Any]:
    """Print and return the speed with blocks of `n_sentences` and batches of `n_rows`."""
    blocks.SENTENCES = n_sentences
    blocks.TOKENS = TOKENS_OF_SENTENCE * n_sentences
    graphs._MAX_ROWS = n_rows
    tuning = runtime.DeviceTuning(
        rows=n_rows, gate_values=1 << 23, tokens=64 * n_rows, types_per_product=1024
    )
    runtime.DeviceTuning.of = lambda _: tuning  # type: ignore[method-assign]
    start_s = time.perf_counter()
    embeds = Embedder(load(model), device=device, dtype="float16", precision=precision)
    wait()
    model_s = time.perf_counter() - start_s
    runs: list[dict[str, float]] = []
    for _ in range(3):
        seconds.update(dict.fromkeys(seconds, 0.0))
        start_s = time.perf_counter()
        for block in blocks.split_into_blocks(iter(sentences), embeds.settings):
            embeds.embed_block(block.sentences, None)
        wait()
        runs.append({"s": time.perf_counter() - start_s, **seconds})
    best = min(runs, key=lambda times: times["s"])
    n_tokens = sum(len(sentence.tokens) for sentence in sentences)
    us = {name: round(1e6 * value / n_tokens, 2) for name, value in best.items()}
    all_s = [round(times["s"], 2) for times in runs]
    peak = torch.cuda.max_memory_allocated() >> 20 if torch.cuda.is_initialized() else 0
    speed = f"{n_tokens / best['s']:,.0f} tokens/s"
    print(f"{precision} blocks {n_sentences} rows {n_rows}: {speed};", end="")
    print(f" us/token {us}; three runs {all_s} s; model {model_s:.1f} s; {peak} MB", flush=True)
    return {
        "block_sentences": n_sentences,
        "batch_rows": n_rows,
        "precision": precision,
        "tokens": n_tokens,
        "runs": runs,
        "model_s": model_s,
        "peak_mb": peak,
    }


def product_rate(n_rows: int, device: str, kind: str) -> float:
    """TFLOP/s of a product of 1,024 x 16,384, the gates of the original model."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    a = torch.randn(n_rows, 1024, device=device, dtype=dtype)
    b = torch.randn(1024, 16384, device=device, dtype=dtype)
    product_s = 0.0
    for n_products in (3, 20):  # the first ones are not counted
        wait()
        start_s = time.perf_counter()
        for _ in range(n_products):
            a @ b
        wait()
        product_s = (time.perf_counter() - start_s) / n_products
    return 2 * n_rows * 1024 * 16384 / product_s / 1e12


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("text")
    parser.add_argument("model")
    parser.add_argument("device", nargs="?", default="cuda")
    parser.add_argument("n_sentences", nargs="?", type=int, default=16000)
    given = parse_arguments(parser)
    device = given.device
    record = Record(given.json, "benchmarks.speed.gpu_probe")
    start_s = time.perf_counter()
    torch.zeros(1, device=device)
    first_s = time.perf_counter() - start_s
    print(f"import torch {IMPORT_S:.2f} s, first use of {device} {first_s:.2f} s")
    instrument()
    sentences = list(islice(read_sentences(given.text), given.n_sentences))
    is_trial = device == "cpu" and len(sentences) <= 2000
    for n_sentences, n_rows, precision in SIZES[:1] if is_trial else SIZES:
        facts = measure(given.model, device, sentences, n_sentences, n_rows, precision)
        record.add(**facts)
    kinds = ("f32",) if device == "cpu" else ("f32", "tf32", "bf16")
    for n_rows in (200,) if device == "cpu" else (200, 500, 1024, 2048):
        rates = [f"{kind} {product_rate(n_rows, device, kind):.1f}" for kind in kinds]
        print(f"{n_rows} rows, original gates, TFLOP/s:", *rates, flush=True)
    values = torch.empty(3, 26000, 1024, dtype=torch.float16, device=device)
    copy = timed("d2h", runtime.copy_to_cpu, before=wait)
    for _ in range(3):  # the first copy allocates pinned memory; on a CPU nothing is copied
        seconds["d2h"] = 0.0
        copy(values)
        rate = values.nbytes / max(1e-9, seconds["d2h"]) / 1e9
        print(f"copy_to_cpu 160 MB: {rate:.1f} GB/s ({1e3 * seconds['d2h']:.0f} ms)")


if __name__ == "__main__":
    main()
