"""Devices: what a name means, and what is said where there is none."""

from __future__ import annotations

import pytest
import torch

from elmo_cli.engine.device import choose_device, is_out_of_memory, set_threads
from elmo_cli.errors import DeviceError, UsageError


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_auto_and_cpu_without_a_gpu() -> None:
    """Without it the default would fail on most machines."""
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")


@pytest.mark.usefixtures("two_gpus")
def test_auto_takes_the_gpu() -> None:
    """Without it a GPU would stand idle."""
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("cuda:01") == torch.device("cuda:1")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["auto", "cuda:1"])
@pytest.mark.usefixtures("two_gpus")
def test_convolutions_on_a_gpu_are_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it layer 0 on a GPU is off by a thousandth: cuDNN takes TF32 where it may."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert choose_device("cpu").type == "cpu"
    assert torch.backends.cudnn.allow_tf32
    assert choose_device(name).type == "cuda"
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    "name", ["gpu", "", "cuda:", "cuda:x", "cuda:²", "cpu:", "cuda:-1", "cpu:0", "mps:0", "CPU"]
)
@pytest.mark.usefixtures("two_gpus")
def test_no_such_name(name: str) -> None:
    """Without it torch's own message, or another device than was meant, would come."""
    with pytest.raises(UsageError) as caught:
        choose_device(name)
    assert caught.value.message == f"--device {name}: not auto, cpu, cuda, cuda:N or mps"
    assert "--device cpu" in caught.value.hint


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps"])
@pytest.mark.usefixtures("no_gpu")
def test_a_device_that_is_not_there(name: str) -> None:
    """Without it the run would fail later, with a message from within torch."""
    with pytest.raises(DeviceError, match=f"--device {name}: ") as caught:
        choose_device(name)
    assert "--device cpu" in caught.value.hint


@pytest.mark.usefixtures("two_gpus")
def test_a_number_that_is_too_large() -> None:
    """Without it the same."""
    with pytest.raises(DeviceError, match="--device cuda:2: there are 2 CUDA devices, from cuda:0"):
        choose_device("cuda:2")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error: Exception, is_memory: bool) -> None:
    """Without it batches would not be halved, or a mistake be taken for a full GPU."""
    assert is_out_of_memory(error) is is_memory


def test_threads_are_set() -> None:
    """Without it --threads would do nothing."""
    before = torch.get_num_threads()
    try:
        set_threads(before + 1)
        assert torch.get_num_threads() == before + 1
        set_threads(None)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
