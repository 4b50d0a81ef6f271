"""finite_number: a number of an untrusted JSON file, in which NaN and Infinity may occur."""

from __future__ import annotations

from math import isfinite, nan
from typing import Any


def finite_number(value: Any) -> float:
    """Return a value as a float; raise one of `INVALID_JSON` unless it is a finite number."""
    number = float(value)
    if not isfinite(number):
        raise ValueError("not finite")
    return number


def finite_or_nan(value: Any) -> float:
    """Return `finite_number`, or NaN for None: a value that is missing."""
    return nan if value is None else finite_number(value)
