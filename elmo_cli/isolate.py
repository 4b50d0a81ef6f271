"""Read untrusted files in a child process with limited memory and CPU time.

HDF5 is a C library: a corrupt or crafted file can crash it, send it into an endless loop, or cause
unbounded allocation, and Python's readers of archives may take all memory too. Whatever happens to
the child, the parent raises one error.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, TypeVar, cast

from elmo_cli.errors import ElmoError

Result = TypeVar("Result")
StrPath = str | os.PathLike[str]

CORRUPT_HINT = "the file is corrupt or was not written by a known program: get it again"

# A reader may take this many bytes, and this many times the bytes of its files.
MIN_MEMORY, MEMORY_PER_BYTE = 256 << 20, 16
# CPU time of a child: far more than any reader needs, and an end to loops that HDF5 never leaves.
MIN_CPU_SECONDS, CPU_SECONDS_PER_BYTE = 6, 1e-5
_CLEANUP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


def run_isolated(
    work: Callable[[], Result], files: Sequence[StrPath], error_class: type[ElmoError]
) -> Result:
    """Run `work` in a child process and return its result.

    Args:
        work: reads the files, and may write others; what it returns or raises has to pickle.
        files: what it reads; its memory and CPU time are limited by their sizes.
        error_class: raised where the child crashes or exceeds a limit.
    Raises:
        Exception: whatever `work` raised, with the child's traceback as its cause unless it is an
            ElmoError.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python warns where there are threads; the child starts none and uses no torch.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(reader)
        _run_child(work, files, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answer:
            returned, value, trace = pickle.load(answer)
    except (EOFError, pickle.UnpicklingError):
        raise _crashed(files, error_class, _wait(pid)) from None
    except BaseException:  # Ctrl-C: the child removes its temporary files
        _terminate(pid)
        raise
    _wait(pid)
    if returned:
        return cast("Result", value)
    if isinstance(value, MemoryError):
        limit = f"{MEMORY_PER_BYTE} times its size and {MIN_MEMORY >> 20} MiB"
        raise _error(files, error_class, f"reading it takes more memory than {limit}")
    raise value from (None if isinstance(value, ElmoError) else _TracebackError(trace))


class _TracebackError(Exception):
    """The traceback of an error in the child, for `--debug`."""


def _run_child(work: Callable[[], object], files: Sequence[StrPath], writer: int) -> NoReturn:
    try:
        faulthandler.disable()  # the parent says in one line what pages of traces would say
        # Ctrl-C reaches all processes of a terminal; the parent passes it on, once.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(OSError, AttributeError):  # Linux only: end with a parent that was killed
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        memory = _set_limits(files)
        try:
            answer = pickle.dumps((True, work(), ""))
        except BaseException as error:
            resource.setrlimit(resource.RLIMIT_AS, memory)
            trace = "".join(traceback.format_exception(error))
            answer = pickle.dumps((False, _picklable(error), trace))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _set_limits(files: Sequence[StrPath]) -> tuple[int, int]:
    """Limit what this process takes from now on; returns the memory limit that it had before."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    n_bytes = 0
    for file in files:
        with suppress(OSError):
            n_bytes += os.stat(file).st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = int(MIN_CPU_SECONDS + CPU_SECONDS_PER_BYTE * n_bytes)
    if soft == resource.RLIM_INFINITY or seconds < soft:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
    with suppress(OSError, ValueError):  # macOS has neither
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(
            resource.RLIMIT_AS, (used + MIN_MEMORY + MEMORY_PER_BYTE * n_bytes, before[1])
        )
    return before


def _picklable(error: BaseException) -> BaseException:
    """The error, or one of the same text if it can't be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _wait(pid: int) -> int:
    """The status of a child that ends; 0 where the calling program has asked for it already."""
    with suppress(ChildProcessError):  # a program may ignore SIGCHLD, or wait for all children
        return os.waitpid(pid, 0)[1]
    return 0


def _terminate(pid: int) -> None:
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + _CLEANUP_SECONDS
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _crashed(files: Sequence[StrPath], error_class: type[ElmoError], status: int) -> ElmoError:
    by = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    if by == signal.SIGXCPU:
        return _error(files, error_class, "reading it takes more time than any valid file")
    return _error(files, error_class, f"its reader crashed ({by.name if by else 'no answer'})")


def _error(files: Sequence[StrPath], error_class: type[ElmoError], what: str) -> ElmoError:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return error_class(f"{os.fspath(files[0])}{more}: {what}", CORRUPT_HINT)
