"""What a machine can do at most: products of large matrices by type, and its disk."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from elmo_cli.engine.gemm import PackedWeight, can_pack
from elmo_cli.engine.runtime import has_fast_bf16

_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
_TIMES = 20


def product_rate(precision: str, device: torch.device) -> float:
    """GFLOP/s of a product of two square matrices, best of some.

    Args:
        precision: "float32", "bf16" or, on a CPU alone, "int8".
    """
    if precision == "int8":
        return _whole_rate()
    side = 2048 if device.type == "cpu" else 8192
    if precision == "bf16" and not has_fast_bf16(device):
        side = 512  # a processor that only imitates it takes a minute for the larger one
    matrix = torch.randn(side, side, device=device).to(_DTYPES[precision])
    seconds = min(timed(lambda: torch.mm(matrix, matrix), device) for _ in range(_TIMES))
    return 2 * side**3 / seconds / 1e9


def packed_rate() -> float:
    """GFLOP/s of the same product in float32 on a CPU, with a weight that is packed already; 0
    where torch has no such products. On some processors torch's own is far below it."""
    matrix = torch.randn(2048, 2048)
    if not can_pack(matrix):
        return 0.0
    weight, cpu = PackedWeight(matrix), torch.device("cpu")
    with torch.inference_mode():
        seconds = min(timed(lambda: weight.linear(matrix), cpu) for _ in range(_TIMES))
    return 2 * 2048**3 / seconds / 1e9


def times_as_fast(precision: str, device: torch.device) -> float:
    """The rate of large products in a precision over that in float32, taken in turns."""
    rates = []
    for _ in range(3):
        exact = product_rate("float32", device)
        rates.append(product_rate(precision, device) / exact)
    return statistics.median(rates)


def disk_rate(folder: Path) -> float:
    """MB/s of writing 256 MB and of having them on the disk."""
    content = os.urandom(1 << 20) * 256

    def write() -> None:
        with (folder / "disk").open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())

    return len(content) / timed(write, torch.device("cpu")) / 1e6


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of work, that of the device to its end."""
    start = now(device)
    work()
    return now(device) - start


def now(device: torch.device) -> float:
    """Seconds of the clock, once the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _whole_rate() -> float:
    side, cpu = 2048, torch.device("cpu")
    rows = torch.randint(1, 127, (side, side), dtype=torch.uint8)
    columns = torch.randint(-127, 127, (side, side), dtype=torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(columns, None)
    scales, zeros = torch.ones(side), torch.zeros(side, dtype=torch.int64)
    tail = (1.0, 0, torch.float32, "none", [], "")

    def multiply() -> None:
        torch.ops.onednn.qlinear_pointwise(rows, 1.0, 64, packed, scales, zeros, None, *tail)

    return 2 * side**3 / min(timed(multiply, cpu) for _ in range(6)) / 1e9
