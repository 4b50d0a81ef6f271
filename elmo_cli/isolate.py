"""Read untrusted files in a child process with limited memory and CPU time.

HDF5 and Python's readers of archives can crash on a corrupt file, loop for ever or cause unbounded
allocation. Whatever happens to the child, the parent raises one error.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import math
import os
import pickle
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from elmo_cli.errors import ElmoError
from elmo_cli.files import StrPath
from elmo_cli.messages import CORRUPT_HINT

Result = TypeVar("Result")
# Limits of a child, far above what readers need: a fixed part, and one per byte of its files.
MIN_MEMORY = 256 << 20  # bytes
MEMORY_PER_BYTE = 16
MIN_CPU_SECONDS = 6
CPU_SECONDS_PER_BYTE = 1e-5


def run_isolated(
    work: Callable[[], Result], files: Sequence[StrPath], error_class: type[ElmoError]
) -> Result:
    """Run `work` in a child process; return its result, which has to pickle, or raise its error.

    Memory and CPU time are limited by the sizes of the `files` that it reads. Where the child
    crashes or exceeds a limit, `error_class` is raised.
    """
    reader, writer = os.pipe()
    pid = os.fork()  # Python may warn of threads; the child starts and uses none
    if pid == 0:
        _run_child(work, files, writer)
    os.close(writer)
    status = 0
    try:
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read()
    except BaseException:  # Ctrl-C: the child removes its temporary files
        os.kill(pid, signal.SIGTERM)
        raise
    finally:
        with suppress(ChildProcessError):  # a program may ignore SIGCHLD
            status = os.waitpid(pid, 0)[1]
    try:
        error, value = pickle.loads(answer)
    except (EOFError, pickle.UnpicklingError):
        where = ", ".join(map(str, files))
        raise error_class(_reason_of_no_answer(status), CORRUPT_HINT, where=where) from None
    if isinstance(error, ElmoError):
        raise error
    if error is not None:
        raise error from RuntimeError(value)  # the traceback of the child
    return cast("Result", value)


def _reason_of_no_answer(status: int) -> str:
    """Why a child has sent nothing, by its wait status."""
    if status == 0:
        return "its reader crashed (no answer)"
    if os.WIFSIGNALED(status):
        return f"its reader crashed ({signal.Signals(os.WTERMSIG(status)).name})"
    return f"reading it takes more memory than {MEMORY_PER_BYTE} times its size"


def _run_child(work: Callable[[], object], files: Sequence[StrPath], pipe: int) -> NoReturn:
    try:
        faulthandler.disable()  # the parent reports a crash in one line
        gc.freeze()  # a collection would copy the memory of all objects of the parent
        # Ctrl-C reaches all processes of a terminal; the parent passes it on, once.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(AttributeError):  # Linux only: PR_SET_PDEATHSIG, end with a killed parent
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        n_bytes = sum(os.path.getsize(file) for file in files if os.path.exists(file))
        _set_limits(n_bytes)
        try:
            answer = pickle.dumps((None, work()))
        except MemoryError:
            os._exit(1)
        except BaseException as error:
            answer = pickle.dumps((error, traceback.format_exc()))
        with os.fdopen(pipe, "wb") as file:
            file.write(answer)
    finally:
        os._exit(0)


@contextmanager
def start_up_not_counted() -> Iterator[None]:
    """Exclude memory and CPU time that is used within, such as by an import, from the limits."""
    with (
        _not_counted(resource.RLIMIT_AS, _memory_in_use),
        _not_counted(resource.RLIMIT_CPU, lambda: math.ceil(time.process_time())),
    ):
        yield


@contextmanager
def _not_counted(kind: int, in_use: Callable[[], int]) -> Iterator[None]:
    """Lift a limit within, and then raise it by what was used.

    Args:
        kind: a resource, such as `resource.RLIMIT_AS`.
        in_use: returns how much of the resource this process uses, in the unit of the limit.
    """
    limit, hard_limit = resource.getrlimit(kind)
    if limit == resource.RLIM_INFINITY:
        yield
        return
    before = in_use()
    resource.setrlimit(kind, (hard_limit, hard_limit))
    try:
        yield
    finally:
        limit += max(0, in_use() - before)
        if hard_limit != resource.RLIM_INFINITY:
            limit = min(limit, hard_limit)
        resource.setrlimit(kind, (limit, hard_limit))


def _memory_in_use() -> int:
    """The address space of this process in bytes; 0 where the system does not tell."""
    with suppress(OSError):  # macOS has no /proc
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
        return n_pages * resource.getpagesize()
    return 0


def _set_limits(n_bytes: int) -> None:
    cpu_seconds = int(MIN_CPU_SECONDS + CPU_SECONDS_PER_BYTE * n_bytes)
    limits = {resource.RLIMIT_CPU: cpu_seconds}
    in_use = _memory_in_use()
    if in_use:
        limits[resource.RLIMIT_AS] = in_use + MIN_MEMORY + MEMORY_PER_BYTE * n_bytes
    for kind, limit in limits.items():
        _, hard_limit = resource.getrlimit(kind)
        with suppress(OSError, ValueError):  # a lower one holds already
            resource.setrlimit(kind, (limit, hard_limit))
