"""A stand-in for Ray where what elmo does around it is looked at: one worker, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


class Dataset:
    """Rows of Ray Data, made when they are asked for."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._rows = rows

    def flat_map(self, function: Callable[..., Iterator[dict[str, Any]]], **_: Any) -> Dataset:
        return Dataset(made for row in self._rows for made in function(row))

    def map_batches(self, kind: Any, *, fn_constructor_args: tuple[Any, ...], **_: Any) -> Dataset:
        return Dataset(self._mapped(kind(*fn_constructor_args)))

    def _mapped(self, actor: Any) -> Iterator[dict[str, Any]]:
        for row in self._rows:
            batch = {name: np.array([value], object) for name, value in row.items()}
            yield {name: column[0] for name, column in actor(batch).items()}

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


def stand_in(init: Callable[..., object]) -> dict[str, ModuleType]:
    """Modules that stand in for `ray` and `ray.data`, whose `ray.init` is as given."""
    ray, data = ModuleType("ray"), ModuleType("ray.data")
    context = SimpleNamespace(execution_options=SimpleNamespace())
    members = {
        "DataContext": SimpleNamespace(get_current=lambda: context),
        "ActorPoolStrategy": lambda **_: None,
        "from_items": Dataset,
    }
    vars(data).update(members)
    vars(ray).update(data=data, is_initialized=lambda: False, init=init, shutdown=lambda: None)
    return {"ray": ray, "ray.data": data}
