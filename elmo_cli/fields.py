"""Fields of settings, which are dataclasses: bounds and choices, declared once and checked once."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from numbers import Integral
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from elmo_cli.errors import SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_SEED = 2**63 - 1  # NumPy refuses negative seeds, torch those of more than 64 bits
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Settings = TypeVar("_Settings", bound="DataclassInstance")
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


def within(least: int, most: int, default: int | None = None) -> Any:
    """Declare a dataclass field with a minimum and a maximum."""
    return field(default=default, metadata={"range": range(least, most + 1)})


def one_of(*choices: Any) -> Any:
    """Declare a dataclass field with one of several values; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


def with_fields(owner: type) -> Callable[[_Function], _Function]:
    """Decorate a function that takes the fields of a dataclass as `**changes`.

    Its signature, which `help` and notebooks show, names each field as a keyword with its default.
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                parameters.append(parameter)
        for setting in fields(owner):
            parameter = inspect.Parameter(
                setting.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default_of(setting, inspect.Parameter.empty),
                annotation=setting.type,
            )
            parameters.append(parameter)
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def with_changes(settings: _Settings, changes: Mapping[str, Any]) -> _Settings:
    """A copy of a dataclass in which the fields named in `changes` have other values.

    Raises:
        SettingError: there is no field of a name, or its value is refused.
    """
    known = [setting.name for setting in fields(settings)]
    for name in changes:
        if name not in known:
            raise SettingError(name, "no such setting", f"the settings are {', '.join(known)}")
    return replace(settings, **changes)


def changed_fields(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass that have another value than by default, with their values."""
    changed = {}
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if value != _default_of(setting, MISSING):
            changed[setting.name] = value
    return changed


def _default_of(setting: Field[Any], none: Any) -> Any:
    """The default of a field; `none` if it has none."""
    if setting.default is not MISSING:
        return setting.default
    return none if setting.default_factory is MISSING else setting.default_factory()


def check_fields(settings: Any) -> None:
    """Raise a SettingError if a field of a dataclass has a wrong type or value.

    Fields of other types than those of `KINDS` are not checked.
    """
    hints = get_type_hints(type(settings))
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        allowed_types = _types_in(hints[setting.name])
        is_unset = value is None and NoneType in allowed_types
        if not is_unset and not allowed_types.isdisjoint(KINDS):
            _check_type(setting.name, value, allowed_types)
            _check_value(setting.name, value, setting.metadata)


def convert_integers(settings: Any) -> None:
    """Convert the integers of NumPy in a dataclass to `int`; notebooks compute with them."""
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if isinstance(value, Integral) and type(value) not in KINDS:
            object.__setattr__(settings, setting.name, int(value))


def _types_in(hint: Any) -> set[Any]:
    """The types in the hint of a field: int and NoneType for `int | None`."""
    return set(get_args(hint)) if get_origin(hint) is UnionType else {hint}


def _check_type(name: str, value: Any, allowed_types: set[Any]) -> None:
    is_whole_number = type(value) is int and float in allowed_types
    if type(value) not in allowed_types and not is_whole_number:
        kinds = [kind for known_type, kind in KINDS.items() if known_type in allowed_types]
        raise SettingError(name, f"{value!r} is not {kinds[0]}")


def _check_value(name: str, value: Any, declared: Mapping[str, Any]) -> None:
    """Check a value against what `one_of`, `within` or `bounded` have declared."""
    if "choices" in declared and value not in declared["choices"]:
        known = ", ".join(map(str, declared["choices"]))
        raise SettingError(name, f"unknown value {value!r}", f"choose one of {known}")
    if "range" in declared and value not in declared["range"]:
        least = declared["range"][0]
        most = declared["range"][-1]
        hint = f"give a number from {least} to {most}"
        raise SettingError(name, "out of range", hint, value=value)
    if "holds" in declared and not declared["holds"](value):
        raise SettingError(name, f"{value} is not {declared['allowed']}")
