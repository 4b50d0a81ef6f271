"""A fake Ray: workers are objects of this process, and a call runs when it is waited for."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any


class RayError(Exception):
    """A worker died."""


class RayTaskError(RayError):
    """A worker raised an exception, `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Method:
    """A method of a worker."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker, self._name = worker, name

    def options(self, *, max_task_retries: int) -> Method:
        assert max_task_retries == 0
        return self

    def remote(self, *args: Any) -> Callable[[], Any]:
        return partial(self._worker.call, self._name, args)


class Worker:
    """The handle of an actor."""

    def __init__(self, start: Callable[[], Any], ray: FakeRay) -> None:
        self._start, self._ray, self._actor = start, ray, start()
        self.load, self.embed = Method(self, "load"), Method(self, "embed")

    def call(self, method: str, args: tuple[Any, ...]) -> Any:
        if self._ray.dies(method, args):
            self._actor = self._start()
            raise RayError("the worker died\nkilled")
        try:
            return getattr(self._actor, method)(*args)
        except Exception as error:
            raise RayTaskError(error) from error


class FakeRay:
    """What the modules `ray` and `ray.exceptions` contain.

    Args:
        init: `ray.init`.
        dies: whether the worker dies in a call, from the method's name and arguments.
        seed: of the order in which calls are ready.
    """

    def __init__(
        self,
        init: Callable[..., object] = lambda **_: None,
        dies: Callable[[str, tuple[Any, ...]], bool] = lambda method, args: False,
        seed: int = 0,
    ) -> None:
        self.dies, self._random, self.options = dies, random.Random(seed), dict[str, Any]()
        ray, exceptions = ModuleType("ray"), ModuleType("ray.exceptions")
        vars(exceptions).update(RayError=RayError, RayTaskError=RayTaskError)
        vars(ray).update(init=init, is_initialized=lambda: False, shutdown=lambda: None)
        vars(ray).update(remote=self._remote, wait=self._wait, get=lambda call: call())
        self.modules = {"ray": ray, "ray.exceptions": exceptions}

    def _remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=lambda *args: Worker(partial(kind, *args), self))

    def _wait(self, calls: list[Any], *, num_returns: int) -> tuple[list[Any], list[Any]]:
        ready = self._random.choice(calls)
        return [ready], [call for call in calls if call is not ready]
