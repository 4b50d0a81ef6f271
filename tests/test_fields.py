"""Fields of settings: what they accept, up to their bounds, and what they say of other values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from elmo_cli.errors import SettingError
from elmo_cli.fields import (
    at_least,
    check_fields,
    convert_integers,
    one_of,
    positive,
    with_changes,
    within,
)


@dataclass(frozen=True)
class Fields:
    """One of each kind."""

    count: int = at_least(2, 5)
    limit: int | None = at_least(1)
    rate: float = positive(0.5)
    size: int = within(3, 12, 4)
    word: str = one_of("b", "a")
    is_on: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        convert_integers(self)
        check_fields(self)


def test_values_up_to_the_bounds_are_accepted() -> None:
    assert (Fields().word, Fields().count, Fields().limit) == ("b", 5, None)
    assert Fields(count=2, limit=1, rate=1e-30, size=3, word="a", is_on=True, names=("x",))
    assert Fields(size=12, rate=2).rate == 2
    numpy_fields = Fields(count=np.int32(7), is_on=True)  # type: ignore[arg-type]
    assert (type(numpy_fields.count), numpy_fields.is_on) == (int, True)


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"count": 1}, "`count`: 1 is not at least 2", "give another value"),
        ({"count": None}, "`count`: None is not a whole number", "give another value"),
        ({"count": True}, "`count`: True is not a whole number", "give another value"),
        ({"count": 3.0}, "`count`: 3.0 is not a whole number", "give another value"),
        ({"limit": 0}, "`limit`: 0 is not at least 1", "give another value"),
        ({"limit": "3"}, "`limit`: '3' is not a whole number", "give another value"),
        ({"rate": 0}, "`rate`: 0 is not a positive number", "give another value"),
        ({"rate": math.inf}, "`rate`: inf is not a positive number", "give another value"),
        ({"rate": True}, "`rate`: True is not a number", "give another value"),
        ({"size": 2}, "`size=2`: out of range", "give a number from 3 to 12"),
        ({"size": 13}, "`size=13`: out of range", "give a number from 3 to 12"),
        ({"word": "c"}, "`word`: unknown value 'c'", "choose one of b, a"),
        ({"word": 3}, "`word`: 3 is not a string", "give another value"),
        ({"is_on": 1}, "`is_on`: 1 is not true or false", "give another value"),
    ],
)
def test_other_values_are_refused(changes: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(SettingError) as caught:
        Fields(**changes)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_changes_are_fields_by_name() -> None:
    changed = with_changes(Fields(count=7), {"size": 3})
    assert (changed.count, changed.size) == (7, 3)
    with pytest.raises(SettingError, match="`size=2`: out of range"):
        with_changes(Fields(), {"size": 2})
    with pytest.raises(SettingError) as caught:
        with_changes(Fields(), {"size": 2, "sizes": 3})
    assert caught.value.message == "`sizes`: no such setting"
    assert caught.value.hint == "the settings are count, limit, rate, size, word, is_on, names"
