"""Runtime: the device, threads, the allocator and out-of-memory errors."""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from elmo_cli.engine.names import DEVICE_HINT, check_device_name
from elmo_cli.errors import DeviceError

Result = TypeVar("Result")
# Parameters of mallopt, from glibc's malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_KEPT_BYTES = 1 << 30
_LARGEST_KEPT_BYTES = 1 << 25  # the maximum that glibc accepts
_SMALLEST_RETURNED_BYTES = 1 << 20
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed")
# oneDNN's whole message where it could not allocate the code of a kernel
_ONEDNN_OUT_OF_MEMORY = "could not create a primitive"
# torch's number of threads for new threads is one per process, so only one pool exists at a time.
_pool_lock = threading.Lock()
_is_freed_memory_kept = False  # whether `keep_freed_memory` was called in this process


@dataclass(frozen=True)
class DeviceTuning:
    """Sizes of batches, measured on each kind of device (benchmarks/speed/NOTES.md)."""

    rows: int  # of a batch of independent sentences at most
    gate_values: int  # of one gate of all rows at most; large LSTMs have fewer rows
    tokens: int  # of a batch at most, with sentence boundaries, and padding if the engine pads
    types_per_product: int  # rows of every product of the character CNN

    @classmethod
    def of(cls, device: torch.device) -> DeviceTuning:
        """Sizes that fit in the caches of a CPU, or that keep a GPU busy."""
        if device.type == "cuda":
            return cls(rows=1024, gate_values=1 << 22, tokens=65_536, types_per_product=1024)
        return cls(rows=512, gate_values=1 << 20, tokens=24_576, types_per_product=64)


def select_device(name: str) -> torch.device:
    """The device named auto, cpu, cuda, cuda:N or mps.

    On cuda this turns TF32 off for cuDNN: convolutions are float32, like everything else. No such
    kind of device is a UsageError, one that this machine does not have a DeviceError.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    check_device_name(name)
    kind, _, number = name.partition(":")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "cuda" and int(number or 0) >= n_devices:
        problem = f"{n_devices} CUDA devices are available"
        where = f"`device={name}`"
        raise DeviceError(problem, DEVICE_HINT, where=where, parameters=("device",))
    if kind == "mps" and not torch.backends.mps.is_available():
        problem = "this machine or build of torch has no MPS"
        raise DeviceError(problem, DEVICE_HINT, where="`device=mps`", parameters=("device",))
    if kind == "cuda":
        torch.backends.cudnn.allow_tf32 = False
    return torch.device(kind, int(number)) if number else torch.device(kind)


def without_autocast(device: torch.device) -> torch.autocast:
    """A context that computes in float32, also within the caller's `torch.autocast`."""
    return torch.autocast("cuda" if device.type == "cuda" else "cpu", enabled=False)


def has_fast_bf16(device: torch.device) -> bool:
    """Whether products in bfloat16 are as fast as in float32; some CPUs emulate them."""
    if device.type != "cpu":
        return True
    if platform.machine().lower() in ("x86_64", "amd64"):
        is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch 2.4 lacks it
        return is_supported is not None and bool(is_supported())
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch, cuBLAS, cuDNN, oneDNN or Python failed for lack of memory."""
    if isinstance(error, MemoryError):
        return True
    message = str(error).lower()
    is_known = message == _ONEDNN_OUT_OF_MEMORY or any(text in message for text in _OUT_OF_MEMORY)
    return isinstance(error, RuntimeError) and is_known


@contextmanager
def out_of_memory_as_device_error(device: torch.device, what: str, hint: str) -> Iterator[None]:
    """Raise a DeviceError if memory does not suffice: for `what`, with a hint."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DeviceError(f"out of memory, with {what}", hint, where=str(device)) from error


def copy_to_cpu(values: Tensor) -> Tensor:
    """The values on the CPU; from a GPU through pinned memory, which torch keeps and reuses."""
    if values.device.type != "cuda":
        return values.cpu()
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values)


def set_num_threads(n_threads: int | None) -> None:
    """Compute with `n_threads` threads on a CPU; None leaves torch's default."""
    if n_threads is not None:
        torch.set_num_threads(n_threads)


def keep_freed_memory() -> None:
    """Let glibc keep freed memory instead of returning it to the system.

    Each batch or training step allocates and frees arrays of megabytes; pages that were returned
    are zeroed again by the system at their next first touch. Threads share one arena, because
    those of their own are returned when they are empty. Call this before threads start. Other C
    libraries do not have these settings.
    """
    global _is_freed_memory_kept
    _is_freed_memory_kept = True
    _set_malloc_parameter(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
    _set_malloc_parameter(_TRIM_THRESHOLD, _KEPT_BYTES)
    _set_malloc_parameter(_ARENA_MAX, 1)


@contextmanager
def return_large_blocks() -> Iterator[None]:
    """Undo `keep_freed_memory` in this context, for blocks of at least a megabyte.

    A block that is a few bytes longer than a freed one is allocated elsewhere, and the memory of
    both is kept. Successive copies of a large text would therefore add up. Nothing changes if
    `keep_freed_memory` was not called.
    """
    if not _is_freed_memory_kept:
        yield
        return
    _set_malloc_parameter(_MMAP_THRESHOLD, _SMALLEST_RETURNED_BYTES)
    try:
        yield
    finally:
        _set_malloc_parameter(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def _set_malloc_parameter(parameter: int, value: int) -> None:
    """Set a parameter of glibc's malloc; do nothing with another C library."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(parameter, value)


def run_parallel(tasks: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
    """The results of independent tasks, in order; on a CPU two at a time, else one by one.

    On a CPU each of the two has half of torch's threads: a step of an LSTM is a dozen small
    operations, and a barrier after each of them costs more than the operation. A single task has
    half of the threads too, since the bits of a product may depend on their number. Tasks run in
    inference mode.
    """
    if device.type != "cpu":
        return [_run_inference(task) for task in tasks]
    with _pool_lock:
        n_threads = torch.get_num_threads()  # as the pool before has restored it
        if n_threads < 2:
            return [_run_inference(task) for task in tasks]
        half = n_threads // 2
        pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(half,))
        try:
            with pool:
                return list(pool.map(_run_inference, tasks))
        finally:
            torch.set_num_threads(n_threads)  # for threads that start later


def _run_inference(task: Callable[[], Result]) -> Result:
    with torch.inference_mode():
        return task()
