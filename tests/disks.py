"""Disks that fill up, and folders that can no longer be written to."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A disk of `n_bytes` in memory, mounted on a folder."""

    def __init__(self, folder: Path, n_bytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        _system("mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder))

    def grow(self, n_bytes: int) -> None:
        _system("mount", "-o", f"remount,size={n_bytes}", str(self.folder))


@contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[SmallDisk]:
    """A new disk at `folder`; the test is skipped where nothing can be mounted."""
    disk = SmallDisk(folder, n_bytes)
    try:
        yield disk
    finally:
        _system("umount", "--lazy", str(folder))


@contextmanager
def disk_of(n_bytes: int) -> Iterator[None]:
    """No file can become larger: the system refuses to write on, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _system(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"`{' '.join(words)}` does not work here ({error})")
