"""ProcessGroup: the processes that train one model together, each on rows of its own.

They are started by torch's launcher, `torchrun … -m elmo_cli pretrain …`, on one machine or many.
Every process reads the whole text and takes its own rows of the one stream; gradients are averaged
before they are clipped, so that R processes of B rows learn what one of R·B rows would.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, distributed

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import ElmoError, TrainingError, UsageError
from elmo_cli.model.state import State

_BUCKET = 1 << 23  # numbers that are sent at once
_TIMEOUT = timedelta(hours=2)  # the others wait while the first process looks at held-out text


class ProcessGroup:
    """The processes that train together; a process by itself is a team of one.

    Args:
        rank: number of this process, from 0; the first one logs, saves and exports.
        size: of the team.
        device: of this process.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size = rank, size
        self.device = device or torch.device("cpu")

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def average_gradients(self, tensors: Sequence[Tensor]) -> None:
        """Put the mean over the processes in the place of each tensor."""
        if self.size == 1:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            distributed.all_reduce(flat)
            flat.div_(self.size)
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def mean(self, value: float) -> float:
        """The mean of a number over the processes."""
        return self._sum([value])[0] / self.size if self.size > 1 else value

    def from_first(self, said: Sequence[float], wanted: bool) -> tuple[list[float], bool]:
        """What the first process says, and whether any process wants something: the same for all,
        so that all decide alike."""
        if self.size == 1:
            return list(said), wanted
        *heard, wishes = self._sum([*(x if self.is_first else 0.0 for x in said), float(wanted)])
        return heard, wishes > 0

    def gather_state(self, state: State) -> State:
        """The rows of all processes, one process after the other."""
        if self.size == 1:
            return state
        return State(*(torch.cat(self._gathered(part), 2) for part in (state.h, state.c)))

    def gather_bytes(self, content: Tensor) -> list[Tensor]:
        """What each process holds, as many bytes in each: (byte,) uint8 on the CPU."""
        if self.size == 1:
            return [content]
        return [part.cpu() for part in self._gathered(content.to(self.device))]

    def wait(self) -> None:
        """Go on when all processes have come here."""
        self._sum([0.0])

    def run_on_first(self, work: Callable[[], None]) -> None:
        """Let the first process do something that the others wait for.

        Raises:
            TrainingError: in the others, where it failed in the first, which raises what it met.
        """
        if self.size == 1:
            return work()
        failure: BaseException | None = None
        if self.is_first:
            try:
                work()
            except (ElmoError, KeyboardInterrupt) as error:
                failure = error
        if self._sum([float(failure is not None)])[0]:
            raise failure or TrainingError("the first process failed", "see what it says")

    def _sum(self, values: list[float]) -> list[float]:
        if self.size == 1:
            return values
        found = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(found)
        summed: list[float] = found.tolist()
        return summed

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        distributed.all_gather(parts, tensor.contiguous())
        return parts


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    for tensor in tensors:
        if bucket and sum(t.numel() for t in bucket) + tensor.numel() > _BUCKET:
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


@contextmanager
def process_group(device: str) -> Iterator[ProcessGroup]:
    """The team that torch's launcher has started this process in; a team of one without it.

    Args:
        device: as for `engine.runtime.select_device`; cuda is that of the process's own number.
    Raises:
        UsageError: a numbered device for several processes, or variables that are no numbers.
        DeviceError: the device is not there.
        TrainingError: the processes can't find each other.
    """
    size = _number("WORLD_SIZE", 1)
    if size == 1:
        yield ProcessGroup(device=select_device(device))
        return
    chosen = select_device(device)
    if ":" in device:
        raise UsageError(
            f"--device {device}: one device for {size} processes", "`--device cuda` gives each one"
        )
    if chosen.type == "cuda":
        chosen = select_device(f"cuda:{_number('LOCAL_RANK', 0)}")
        torch.cuda.set_device(chosen)
    try:
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(
            f"the {size} processes can't find each other ({str(error).splitlines()[0]})",
            "start them with `torchrun --nproc-per-node N -m elmo_cli pretrain …`",
        ) from None
    try:
        yield ProcessGroup(distributed.get_rank(), size, chosen)
    finally:
        distributed.destroy_process_group()


def _number(variable: str, default: int) -> int:
    value = os.environ.get(variable, "")
    if value and not value.isdecimal():
        raise UsageError(f"${variable}: {value!r} is not a number", "torchrun sets it")
    return int(value or default)
