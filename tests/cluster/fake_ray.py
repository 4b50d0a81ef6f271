"""A fake Ray: workers are objects of this process, and a call runs when it is waited for."""

from __future__ import annotations

import os
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


class FakeRay:
    """What the modules `ray` and `ray.exceptions` contain.

    Attributes:
        dies: whether the worker dies in a call, from the method's name and arguments.
        order: chooses which call is ready.
        has: the resources of the cluster.
        started, options: the arguments of `ray.init` and `ray.remote`.
        folder: in which workers are started; "" for that of the caller.
        modules: by name.
    """

    folder = ""

    def __init__(self) -> None:
        self.dies: Callable[[str, tuple[Any, ...]], bool] = lambda method, args: False
        self.order, self.options = random.Random(0), dict[str, Any]()
        self.started, self.has = list[dict[str, Any]](), {"CPU": 2.0}
        ray, exceptions = ModuleType("ray"), ModuleType("ray.exceptions")
        vars(exceptions).update(RayError=RayError, RayTaskError=RayTaskError)
        vars(ray).update(init=self._init, shutdown=lambda: None, cluster_resources=lambda: self.has)
        vars(ray).update(remote=self._remote, wait=self._wait, get=lambda call: call())
        self.modules = {"ray": ray, "ray.exceptions": exceptions}

    def _init(self, **options: Any) -> None:
        self.started.append(options)
        if options["address"] == "nobody":
            raise ConnectionError("not found")

    def _remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=lambda *args: self._worker(partial(kind, *args)))

    def _worker(self, start: Callable[[], Any]) -> Any:
        if self.folder:
            os.chdir(self.folder)
        actor = [start()]

        def call(method: str, args: tuple[Any, ...]) -> Any:
            if self.dies(method, args):
                actor[0] = start()
                raise RayError("the worker died\nkilled")
            try:
                return getattr(actor[0], method)(*args)
            except Exception as error:
                raise RayTaskError(error) from error

        def method(name: str) -> Any:
            remote = SimpleNamespace(remote=lambda *args: partial(call, name, args))
            return SimpleNamespace(**vars(remote), options=lambda max_task_retries: remote)

        return SimpleNamespace(load=method("load"), embed=method("embed"))

    def _wait(self, calls: list[Any], *, num_returns: int) -> tuple[list[Any], list[Any]]:
        ready = self.order.choice(calls)
        return [ready], [call for call in calls if call is not ready]
