"""Names of shards, and of what is to become one."""

from __future__ import annotations

import time
import uuid

SHARDS = "part-*.hdf5"
UNFINISHED = ".unfinished"  # a folder in the output; a shard is moved out of it when it is whole
_LEFT_S = 24 * 3600.0  # no shard takes so long; what is older was left by a run that is dead


def unfinished_name(mark: str) -> str:
    """A name that no other file has; it begins with the mark of its run."""
    return f"{mark}-{uuid.uuid4().hex}.hdf5"


def is_left(modified_s: float) -> bool:
    """Whether an unfinished file is too old to be somebody's."""
    return time.time() - modified_s > _LEFT_S
