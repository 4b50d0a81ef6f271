"""A fake Ray: workers are objects of this process, and a call runs when it is waited for."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any


class RayError(Exception):
    """A worker died."""


class RayTaskError(RayError):
    """A worker raised an exception, `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def piece_number(args: tuple[Any, ...]) -> int:
    """The number of the piece that a call of `embed` computes."""
    (work,) = args
    return int(work.piece.number)


class Deaths:
    """Workers die `n_times`: at a piece, or when they load the model (None)."""

    def __init__(self, number: int | None, n_times: int) -> None:
        self.number = number
        self.n_left = n_times

    def __call__(self, method: str, args: tuple[Any, ...]) -> bool:
        if self.n_left == 0 or self.number != (piece_number(args) if method == "embed" else None):
            return False
        self.n_left -= 1
        return True


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
        self.dies: Callable[[str, tuple[Any, ...]], bool] = Deaths(None, 0)
        self.order = random.Random(0)
        self.has = {"CPU": 2.0}
        self.started: list[dict[str, Any]] = []
        self.options: dict[str, Any] = {}
        exceptions = ModuleType("ray.exceptions")
        vars(exceptions).update(RayError=RayError, RayTaskError=RayTaskError)
        ray = ModuleType("ray")
        vars(ray).update(
            init=self._init,
            shutdown=self._shutdown,
            cluster_resources=self._cluster_resources,
            remote=self._remote,
            wait=self._wait,
            get=self._get,
        )
        self.modules = {"ray": ray, "ray.exceptions": exceptions}

    def _init(self, **options: Any) -> None:
        self.started.append(options)
        if options["address"] == "nobody":
            raise ConnectionError("not found")

    def _shutdown(self) -> None:
        """Every worker is an object of this process, so nothing has to end."""

    def _cluster_resources(self) -> dict[str, float]:
        return self.has

    def _remote(self, **options: Any) -> Callable[[type], _ActorClass]:
        self.options = options

        def decorate(kind: type) -> _ActorClass:
            return _ActorClass(self, kind)

        return decorate

    def _wait(self, calls: list[_Call], *, num_returns: int) -> tuple[list[_Call], list[_Call]]:
        ready = self.order.choice(calls)
        return [ready], [call for call in calls if call is not ready]

    def _get(self, call: _Call) -> Any:
        return call.result()


class _ActorClass:
    """What `ray.remote` makes of a class: `remote` starts a worker."""

    def __init__(self, ray: FakeRay, kind: type) -> None:
        self._ray = ray
        self._kind = kind

    def remote(self, *args: Any) -> _Worker:
        if self._ray.folder:
            os.chdir(self._ray.folder)
        return _Worker(self._ray, self._kind, args)


class _Worker:
    """A handle of a worker; one that dies is started again with the same arguments."""

    def __init__(self, ray: FakeRay, kind: type, args: tuple[Any, ...]) -> None:
        self.ray = ray
        self.load = _Method(self, "load")
        self.embed = _Method(self, "embed")
        self._kind = kind
        self._args = args
        self.start()

    def start(self) -> None:
        self.actor = self._kind(*self._args)


class _Method:
    """A method of a worker; `remote` gives a call of it."""

    def __init__(self, worker: _Worker, name: str) -> None:
        self._worker = worker
        self._name = name

    def options(self, *, max_task_retries: int) -> _Method:
        return self

    def remote(self, *args: Any) -> _Call:
        return _Call(self._worker, self._name, args)


@dataclass(frozen=True, eq=False)
class _Call:
    """A call that runs when its result is asked for."""

    worker: _Worker
    method: str
    args: tuple[Any, ...]

    def result(self) -> Any:
        if self.worker.ray.dies(self.method, self.args):
            self.worker.start()
            raise RayError("the worker died\nkilled")
        try:
            return getattr(self.worker.actor, self.method)(*self.args)
        except Exception as error:
            raise RayTaskError(error) from error
