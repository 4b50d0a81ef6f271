"""in_child: what its reader may crash on is read in a process of its own.

HDF5 is a C library that a damaged file, or one made to do harm, can crash, send round in circles or
talk into taking all memory; Python's readers of archives take memory too. Whatever a file does to a
child process, its parent goes on.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeVar, cast

from elmo_cli.errors import ElmoError

Result = TypeVar("Result")
Place = str | os.PathLike[str]

# Reading takes no more memory than so many bytes, and so many times the bytes of what is read.
FLOOR, FACTOR = 256 << 20, 16
STUCK_S = 120.0  # longer than any one call takes on a sound file
_BEAT_S = 1.0
_LAST_WORDS_S = 10.0
_BEAT, _PATIENCE = b".", b"~"  # back from a call; in one that may take as long as it likes
_HINT = "the file is damaged, or made to do harm: get it anew from its source"


def in_child(work: Callable[[], Result], files: Sequence[Place], error: type[ElmoError]) -> Result:
    """What `work` returns or raises, done in a child process with little memory.

    Args:
        work: reads the files, and may write others; what it returns or raises has to pickle.
        files: what it reads.
        error: raised where the child crashes, gets stuck in one call, or wants too much memory.
    """
    from_child, to_parent = os.pipe()
    with warnings.catch_warnings():
        # Python warns where there are threads; this child runs none of them, and no torch.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(from_child)
        _work(work, files, to_parent)
    os.close(to_parent)
    try:
        answer = _listen(from_child)
    except BaseException:  # Ctrl-C: what the child began to write is to be cleared away
        _end(pid, signal.SIGTERM)
        raise
    finally:
        os.close(from_child)
    status = _end(pid, None if answer is not None else signal.SIGKILL)
    if answer:
        returned, value, trace = pickle.loads(answer)
        if returned:
            return cast("Result", value)
        if not isinstance(value, MemoryError):
            raise value from (None if isinstance(value, ElmoError) else _InChildError(trace))
        why = f"asks for more memory than {FACTOR} times its bytes and {FLOOR >> 20} MiB"
    elif answer is None:
        why = f"its reader has not come back for {STUCK_S:.0f} s"
    else:
        why = f"its reader crashed ({_signal(status)})"
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    raise error(f"{os.fspath(files[0])}{more}: {why}", _HINT)


@contextmanager
def patience() -> Iterator[None]:
    """For a call that waits for a disk, however slow: a child in it is not taken to be stuck."""
    if _parent.pipe is None:
        yield
        return
    _parent.word = _PATIENCE
    _beat()
    try:
        yield
    finally:
        _parent.word = _BEAT
        _beat()


class _Parent:
    """Whom this process tells that it is alive, if it is a child; and in what word."""

    pipe: int | None = None
    word = _BEAT


_parent = _Parent()


def _listen(from_child: int) -> bytes | None:
    """The last words of a child, empty if it died without; None if it is stuck."""
    answer = bytearray()
    limit: float | None = STUCK_S
    poll = select.poll()  # `select` refuses numbers from 1,024 on, which a busy program has
    poll.register(from_child, select.POLLIN)
    while poll.poll(None if limit is None else limit * 1000):
        piece = os.read(from_child, 1 << 16)
        if not piece:
            return bytes(answer)
        limit = None if not answer and piece.endswith(_PATIENCE) else STUCK_S
        answer += piece if answer else piece.lstrip(_BEAT + _PATIENCE)
    return None


def _end(pid: int, by: int | None) -> int:
    """See a child out; how it ended, 0 where the calling program has seen to it already."""
    # That program may ignore SIGCHLD, or wait for children that it does not know.
    with suppress(ChildProcessError, ProcessLookupError):
        if by is not None:
            os.kill(pid, by)
        if by == signal.SIGTERM:
            end = time.monotonic() + _LAST_WORDS_S
            while time.monotonic() < end:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return status
                time.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]
    return 0


def _signal(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "no answer"


def _work(work: Callable[[], object], files: Sequence[Place], to_parent: int) -> NoReturn:
    """The life of the child."""
    try:
        faulthandler.disable()  # the parent says in one line what pages of traces would say
        # Ctrl-C reaches all processes of a terminal; the parent tells this one, and only once.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        _parent.pipe = to_parent
        signal.signal(signal.SIGALRM, lambda *_: _beat())
        signal.setitimer(signal.ITIMER_REAL, _BEAT_S, _BEAT_S)
        before = _limit_memory(files)
        try:
            answer = pickle.dumps((True, work(), ""))
        except BaseException as error:
            resource.setrlimit(resource.RLIMIT_AS, before)
            trace = "".join(traceback.format_exception(error))
            answer = pickle.dumps((False, _portable(error), trace))
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(to_parent, answer)
    finally:
        os._exit(0)


def _beat() -> None:
    """Tell that the child is back from its last call; end it with its parent."""
    try:
        if _parent.pipe is not None:
            os.write(_parent.pipe, _parent.word)
    except OSError:
        os._exit(1)


def _limit_memory(files: Sequence[Place]) -> tuple[int, int]:
    """Limit what this process takes from now on; the limits before."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    n_bytes = 0
    for file in files:
        with suppress(OSError):
            n_bytes += os.stat(file).st_size
    with suppress(OSError, ValueError):  # macOS has neither
        with open("/proc/self/statm") as statm:
            taken = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + FLOOR + FACTOR * n_bytes, before[1]))
    return before


def _portable(error: BaseException) -> BaseException:
    """The error, or one like it if it can't be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _InChildError(Exception):
    """The traceback of an error in the child, for `--debug`."""


def _write(pipe: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(pipe, view) :]
