"""Memory that is freed is kept for what comes next."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_KEPT = 1 << 30  # bytes
_LARGEST_KEPT = 1 << 25  # bytes; the most that glibc takes


def keep_freed_memory() -> None:
    """Tell glibc to keep what is freed instead of giving it back to the system.

    A batch, or a step of training, makes and frees arrays of megabytes. Given back each time, their
    pages are zeroed anew by the system at each first touch. An array larger than `_LARGEST_KEPT`
    goes back all the same. And threads that begin later take from the place of all: those of their
    own, which glibc gives them otherwise, are of 64 MB, go back when they are empty, and don't
    share what they keep. (So this comes first: where threads have such places already, new ones
    take these over.) Other C libraries than glibc do not have these settings.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
    mallopt(_TRIM_THRESHOLD, _KEPT)
    mallopt(_ARENA_MAX, 1)
