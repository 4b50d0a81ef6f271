"""Names of labels: how many a task model may have, and which strings can be one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from elmo_cli.messages import shortened

MOST_LABELS = 10_000
MOST_SPAN_TYPES = 1_000  # each of which has several labels, and each pair of these a score
# C0 and C1 controls, halves of surrogate pairs, and the line ends of Unicode.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


def find_variants(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that differ only in case or white space; None if there are none."""
    by_folded: dict[str, str] = {}
    for name in sorted(names):
        words = name.casefold().split()
        first = by_folded.setdefault(" ".join(words), name)
        if first != name:
            return first, name
    return None


def check_names(names: Any, *, most: int = MOST_LABELS, may_be_empty: bool = False) -> None:
    """Raise a ValueError unless labels are a list of distinct strings, which end no line or cell.

    Args:
        most: the largest number of names; a model of more needs too much memory.
        may_be_empty: whether a name may be "", the type of spans that have none.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the labels are not a list of strings")
    if not 1 <= len(names) <= most:
        raise ValueError(f"there are {len(names):,} labels, not 1 to {most:,}")
    if len(set(names)) < len(names):
        raise ValueError("a label occurs twice")
    for name in names:
        if not name and not may_be_empty:
            raise ValueError("a label is empty")
        if _CONTROL.search(name):
            raise ValueError(f"the label {shortened(ascii(name))} has a control character")
