"""Fields of settings, which are dataclasses: bounds and choices, declared once and checked once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, get_args, get_origin, get_type_hints

from elmo_cli.errors import SettingError

MOST_SEED = 2**63 - 1  # NumPy refuses negative seeds, torch those of more than 64 bits
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def bounded(default: Any, allowed: str, holds: Callable[[Any], bool]) -> Any:
    """Declare a dataclass field: None, or a value that `holds` accepts and `allowed` describes."""
    return field(default=default, metadata={"allowed": allowed, "holds": holds})


def at_least(least: int, default: int | None = None) -> Any:
    """Declare a `bounded` field with a minimum."""
    return bounded(default, f"at least {least}", lambda value: value >= least)


def positive(default: float | None = None) -> Any:
    """Declare a `bounded` field with a positive number."""
    return bounded(default, "a positive number", lambda value: 0 < value < math.inf)


def one_of(*choices: Any) -> Any:
    """Declare a dataclass field with one of several values; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


def check_fields(settings: Any) -> None:
    """Raise a SettingError if a field of a dataclass has a wrong type or value."""
    hints = get_type_hints(type(settings))
    for one in fields(settings):
        value, allowed, hint = getattr(settings, one.name), one.metadata, hints[one.name]
        kinds = set(get_args(hint) or (hint,)) & KINDS.keys()
        if value is None or get_origin(hint) is tuple or not kinds:
            continue
        if type(value) not in kinds and not (float in kinds and type(value) is int):
            kind = KINDS[min(kinds, key=str)]
            raise SettingError(one.name, f"{value!r} is not {kind}")
        if value not in allowed.get("choices", (value,)):
            hint = f"choose one of {', '.join(map(str, allowed['choices']))}"
            raise SettingError(one.name, f"unknown value {value!r}", hint)
        if "holds" in allowed and not allowed["holds"](value):
            raise SettingError(one.name, f"{value} is not {allowed['allowed']}")
