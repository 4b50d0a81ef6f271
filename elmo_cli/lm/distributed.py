"""Training in several processes, each on streams of its own, started by `torchrun`.

Every process reads the whole text and takes its streams of each batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from elmo_cli.engine.runtime import is_out_of_memory, select_device
from elmo_cli.errors import ElmoError, TrainingError, UsageError
from elmo_cli.model.bilm import State

_JOIN_TIMEOUT = timedelta(minutes=10)  # between the starts of the processes
_TIMEOUT = timedelta(hours=2)  # the others wait while the first process evaluates
_LAUNCHER = "`torchrun --nproc-per-node N -m elmo_cli pretrain …`"


class ProcessGroup:
    """The processes that train one model; by default this process alone, on the CPU.

    Args:
        rank, size: number of this process, from 0, and of all; the first logs, saves and exports.
        device: of this process.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank = rank
        self.size = size
        self.device = torch.device("cpu") if device is None else device
        self.is_first = rank == 0

    def average_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes."""
        if self.size == 1:
            return
        for tensor in gradients:
            total = tensor.contiguous()  # as NCCL requires
            with _as_training_error():
                distributed.all_reduce(total)
            tensor.copy_(total.div_(self.size))

    def mean(self, value: float) -> float:
        """The mean of a number over the processes."""
        return self._sum([value])[0] / self.size

    def from_first(self, values: Sequence[float], stop: bool) -> tuple[list[float], bool]:
        """The numbers of the first process, and whether any process wants to stop."""
        terms = [value if self.is_first else 0.0 for value in values]
        *first_values, n_stops = self._sum([*terms, float(stop)])
        return first_values, n_stops > 0

    def gather_state(self, state: State) -> State:
        """The LSTM state of the streams of all processes."""
        # (layer, direction, stream, projection or cell)
        h = torch.cat(self._gather(state.h), 2)
        c = torch.cat(self._gather(state.c), 2)
        return State(h, c)

    def gather_bytes(self, content: Tensor) -> list[Tensor]:
        """The bytes of each process, equally many, (byte,) uint8 on the CPU."""
        of_processes = self._gather(content.to(self.device))
        return [of_process.cpu() for of_process in of_processes]

    def run_on_first(self, work: Callable[[], object]) -> None:
        """Let the first process do something that the others wait for.

        Raises:
            TrainingError: in the others, if it failed in the first, which raises its own error.
        """
        failure: BaseException | None = None
        if self.is_first:
            try:
                work()
            except (ElmoError, KeyboardInterrupt) as error:
                failure = error
        [n_failures] = self._sum([float(failure is not None)])
        if failure is not None:
            raise failure
        if n_failures > 0:
            raise TrainingError("the first process failed", "see its message")

    def _sum(self, values: list[float]) -> list[float]:
        """The sum of each number over the processes."""
        if self.size == 1:
            return values
        totals = torch.tensor(values, dtype=torch.float64, device=self.device)
        with _as_training_error():
            distributed.all_reduce(totals)
        return [float(total) for total in totals]

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensor of each process."""
        if self.size == 1:
            return [tensor]
        of_processes = [torch.empty_like(tensor) for _ in range(self.size)]
        with _as_training_error():
            distributed.all_gather(of_processes, tensor.contiguous())
        return of_processes


@contextmanager
def process_group(device: str) -> Iterator[ProcessGroup]:
    """Join the processes that torch's launcher has started; without it, this process alone.

    Args:
        device: as in `select_device`; cuda is the GPU of the process's own number.
    Raises:
        UsageError: $WORLD_SIZE is no number of processes, or a numbered device is given for
            several of them.
        DeviceError: the device is missing.
        TrainingError: the processes can't find each other.
    """
    size = _number_of_processes()
    chosen = select_device(device)
    if size == 1:
        yield ProcessGroup(device=chosen)
        return
    if ":" in device:
        problem = f"one device for {size} processes"
        hint = "`device=cuda` gives each process its own"
        raise UsageError(problem, hint, where=f"`device={device}`")
    if chosen.type == "cuda":
        chosen = select_device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
        torch.cuda.set_device(chosen)
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    try:
        # `init_process_group` alone would wait for a process that never starts as long as for one
        # that evaluates.
        store, rank, size = next(rendezvous("env://", timeout=_JOIN_TIMEOUT))
        distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=_TIMEOUT
        )
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        problem = f"the {size} processes can't find each other ({reason})"
        raise TrainingError(problem, f"start them with {_LAUNCHER}") from None
    try:
        yield ProcessGroup(rank, size, chosen)
    finally:
        distributed.destroy_process_group()


def _number_of_processes() -> int:
    """The number that torch's launcher has set; 1 without it."""
    stated = os.environ.get("WORLD_SIZE") or "1"
    if stated.isascii() and stated.isdigit() and int(stated) > 0:
        return int(stated)
    hint = f"unset it for one process, or start several with {_LAUNCHER}"
    raise UsageError(f"`{stated}` is not a number of processes", hint, where="$WORLD_SIZE")


@contextmanager
def _as_training_error() -> Iterator[None]:
    """Raise a TrainingError if another process does not answer: it has failed or was killed."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        problem = "another process of the run has ended"
        hint = "see its message; `resume=True` continues from the last checkpoint"
        raise TrainingError(problem, hint) from error
