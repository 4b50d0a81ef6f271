"""Runtime: devices by name, threads, out-of-memory errors, and memory that stays allocated."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from elmo_cli.engine import runtime
from elmo_cli.engine.runtime import (
    has_fast_bf16,
    is_out_of_memory,
    keep_freed_memory,
    out_of_memory_as_device_error,
    return_large_blocks,
    run_parallel,
    select_device,
    set_num_threads,
)
from elmo_cli.errors import DeviceError, UsageError


@pytest.fixture(params=[0, 2])
def n_gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    n_gpus = int(request.param)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    return n_gpus


@pytest.mark.parametrize(
    ("name", "without_gpu", "with_two"),
    [
        ("auto", "cpu", "cuda"),
        ("cpu", "cpu", "cpu"),
        ("cuda", DeviceError, "cuda"),
        ("cuda:01", DeviceError, "cuda:1"),
        ("cuda:2", DeviceError, DeviceError),
        ("mps", DeviceError, DeviceError),
    ],
)
def test_device_names(name: str, without_gpu: object, with_two: object, n_gpus: int) -> None:
    """On a GPU convolutions are float32 as well: cuDNN uses TF32 by default."""
    expected = with_two if n_gpus else without_gpu
    if not isinstance(expected, str):
        with pytest.raises(expected, match=f"`device={name}`: "):  # type: ignore[call-overload]
            select_device(name)
        return
    assert select_device(name) == torch.device(expected)
    assert torch.backends.cudnn.allow_tf32 == (expected == "cpu")


LONG = f"cuda:{'1' * 5000}"


@pytest.mark.parametrize(
    "name",
    ["gpu", "", "cuda:", "cuda:x", "cuda:²", "cuda:-1", "cpu:0", "mps:0", "CPU", "cpu\n", LONG],
)
@pytest.mark.usefixtures("n_gpus")
def test_a_name_of_no_device_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"`device={name}`: "):
        select_device(name)


def test_mps_is_used_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` chooses between CUDA devices and the processor."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert [select_device(name).type for name in ("mps", "auto")] == ["mps", "cpu"]


OUT_OF_MEMORY = [
    MemoryError(),
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    RuntimeError("could not create a primitive"),
]
OTHER = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
    RuntimeError("could not create a primitive descriptor for a matmul primitive"),
    ValueError("out of memory"),
]


@pytest.mark.parametrize("is_fast", [False, True])
def test_bf16_is_fast_where_torch_says_so(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    name = "_is_avx512_bf16_supported"
    monkeypatch.setattr(torch.cpu, name, lambda: is_fast, raising=False)
    assert has_fast_bf16(torch.device("cpu")) == is_fast
    monkeypatch.delattr(torch.cpu, name)  # as in torch 2.4
    assert not has_fast_bf16(torch.device("cpu"))


def test_out_of_memory_errors() -> None:
    recognized = [error for error in OUT_OF_MEMORY + OTHER if is_out_of_memory(error)]
    assert recognized == OUT_OF_MEMORY


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_out_of_memory_is_reported_with_what_did_not_fit(error: Exception) -> None:
    with (
        pytest.raises(DeviceError) as caught,
        out_of_memory_as_device_error(torch.device("cpu"), "9 rows", "take 8"),
    ):
        raise error
    assert caught.value.message == "cpu: out of memory, with 9 rows"
    assert caught.value.hint == "take 8"


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_other_errors_stay_as_they_are(error: Exception) -> None:
    with (
        pytest.raises(type(error)) as caught,
        out_of_memory_as_device_error(torch.device("cpu"), "9 rows", "take 8"),
    ):
        raise error
    assert caught.value is error


def test_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        set_num_threads(before + 1)
        set_num_threads(None)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def number_in_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("four_threads")
def test_parallel_tasks_share_the_threads() -> None:
    """Also a single one: the bits of a product may depend on their number."""
    starts = [threading.Event() for _ in range(2)]

    def meet(number: int) -> tuple[int, int, bool]:
        if number < 2:  # the first two wait for each other
            starts[number].set()
            assert starts[1 - number].wait(10)
        return number, torch.get_num_threads(), torch.is_inference_mode_enabled()

    results = run_parallel([partial(meet, number) for number in range(5)], torch.device("cpu"))
    assert results == [(number, 2, True) for number in range(5)]
    assert run_parallel([partial(meet, 9)], torch.device("cpu")) == [(9, 2, True)]
    assert number_in_a_new_thread() == torch.get_num_threads() == 4
    with pytest.raises(ZeroDivisionError):
        run_parallel([lambda: 1, lambda: 1 // 0], torch.device("cpu"))
    assert number_in_a_new_thread() == torch.get_num_threads() == 4
    assert run_parallel([partial(meet, 7)], torch.device("meta")) == [(7, 4, True)]


@pytest.mark.usefixtures("four_threads")
def test_a_single_thread_is_not_halved() -> None:
    torch.set_num_threads(1)
    here = threading.get_ident()
    tasks = [torch.get_num_threads, threading.get_ident]
    assert run_parallel(tasks, torch.device("cpu")) == [1, here]


def test_large_blocks_are_returned_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where freed memory is kept, and also if the work fails."""
    settings: list[tuple[int, int]] = []
    monkeypatch.setattr(runtime, "_is_freed_memory_kept", False)
    monkeypatch.setattr(runtime, "_set_malloc_parameter", lambda *setting: settings.append(setting))
    with return_large_blocks():
        assert settings == []
    keep_freed_memory()
    threshold = (-3, 1 << 25)
    assert sorted(settings) == [(-8, 1), threshold, (-1, 1 << 30)]
    settings.clear()
    with return_large_blocks():
        assert settings == [(-3, 1 << 20)]
    assert settings == [(-3, 1 << 20), threshold]
    settings.clear()
    with pytest.raises(ZeroDivisionError), return_large_blocks():
        1 // 0  # noqa: B018 - any failure
    assert settings == [(-3, 1 << 20), threshold]


# Page faults of three threads, one after the other, that allocate and free arrays of the same size:
# 96 MB, more than glibc keeps for a thread. One child with its settings, one with ours.
FAULTS = """
import os, resource, threading, torch
from elmo_cli.engine.runtime import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    made = [torch.ones(6 << 18) for _ in range(16)]
    del made
    found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

for is_kept in (False, True):
    if os.fork() == 0:
        if is_kept:
            keep_freed_memory()
        found = []
        for _ in range(3):
            thread = threading.Thread(target=faults)
            thread.start()
            thread.join()
        print(max(found[1:]), flush=True)
        os._exit(0)
    os.wait()
"""
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
@pytest.mark.skipif(
    resource.getpagesize() != 4096 or (HUGE.exists() and "[always]" in HUGE.read_text()),
    reason="pages are large, so there are few of them to count",
)
def test_memory_freed_by_a_thread_is_used_by_the_next() -> None:
    names = ("MALLOC_", "GLIBC_TUNABLES")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # no threads before
    command = [sys.executable, "-c", FAULTS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    usual, with_memory_kept = map(int, done.stdout.split())
    assert with_memory_kept < usual / 2
