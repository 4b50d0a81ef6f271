"""Two threads of tasks, where two threads inside of every operation would wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")
# How many threads a new thread of Python computes with is one number of the process.
_one_at_a_time = threading.Lock()


def side_by_side(tasks: Sequence[Callable[[], Result]], device: torch.device) -> list[Result]:
    """The results of tasks that don't touch each other's tensors, in their order.

    On a CPU two of them run at a time, each with half of torch's threads. A step of an LSTM is a
    dozen small operations; to share out each of them costs a meeting of the threads at its end,
    which takes longer than the operation when something else wants a core. A single task has half
    of the threads too, since a product may come to other bits with more of them. Threads that call
    this at once do so one after the other, for the same reason.

    Args:
        tasks: functions without arguments; they run in inference mode.
        device: where they compute; elsewhere than on a CPU they run one after the other.
    """
    if device.type != "cpu":
        return [_inferred(task) for task in tasks]
    with _one_at_a_time:
        n_threads = torch.get_num_threads()
    if n_threads < 2:
        return [_inferred(task) for task in tasks]
    with _one_at_a_time:
        n_threads = torch.get_num_threads()  # as the call before has put it back
        # Each thread has a number of its own; a new one computes with all cores until it is told.
        share = n_threads // 2
        pool = ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(share,))
        try:
            with pool:
                return list(pool.map(_inferred, tasks))
        finally:
            torch.set_num_threads(n_threads)  # for threads to come


def _inferred(task: Callable[[], Result]) -> Result:
    with torch.inference_mode():
        return task()
