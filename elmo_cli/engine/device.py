"""Where to compute: what "auto" means, and what there is."""

from __future__ import annotations

import time

import torch

from elmo_cli.errors import DeviceError, UsageError

_HINT = "`--device cpu` runs anywhere; `--device auto` takes what there is"


def choose_device(name: str) -> torch.device:
    """The device of a name: auto, cpu, cuda, cuda:N or mps; on cuda convolutions become float32.

    Raises:
        UsageError: no such kind of device.
        DeviceError: it is not on this machine.
    """
    device = _named(name)
    if device.type == "cuda":
        # By torch's own choice cuDNN rounds what a convolution multiplies to TF32, of 11 bits. The
        # filters over characters are float32 as all else is, whatever the device.
        torch.backends.cudnn.allow_tf32 = False
    return device


def set_threads(n_threads: int | None) -> None:
    """Compute with so many threads on the CPU; None leaves torch's own choice."""
    if n_threads is not None:
        torch.set_num_threads(n_threads)


def is_quick_in_bf16(device: torch.device) -> bool:
    """Whether products in bfloat16 take no longer than in float32; some processors only imitate
    them. Found out by two small ones."""
    seconds = []
    for dtype in (torch.float32, torch.bfloat16):
        matrix, times = torch.ones(256, 256, device=device, dtype=dtype), []
        for _ in range(3):
            begun = time.perf_counter()
            (matrix @ matrix).sum().item()
            times.append(time.perf_counter() - begun)
        seconds.append(min(times))
    return seconds[1] < 1.5 * seconds[0]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python failed for lack of memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in said
        or "can't allocate memory" in said
        or "status_alloc_failed" in said  # cuBLAS and cuDNN, of their own room
    )


def _named(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, colon, number = name.partition(":")
    numbered = kind == "cuda" and number.isascii() and number.isdigit()
    if kind not in ("cpu", "cuda", "mps") or (colon and not numbered):
        raise UsageError(f"--device {name}: not auto, cpu, cuda, cuda:N or mps", _HINT)
    if kind == "cuda":
        _check_cuda(name, int(number or 0))
    if kind == "mps" and not torch.backends.mps.is_available():
        raise DeviceError("--device mps: this machine or this build of torch has no mps", _HINT)
    return torch.device(kind, int(number)) if number else torch.device(kind)


def _check_cuda(name: str, number: int) -> None:
    if not torch.cuda.is_available():
        raise DeviceError(
            f"--device {name}: no CUDA device, or torch was built without CUDA", _HINT
        )
    if number >= torch.cuda.device_count():
        raise DeviceError(
            f"--device {name}: there are {torch.cuda.device_count()} CUDA devices, from cuda:0",
            _HINT,
        )
