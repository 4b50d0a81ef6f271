"""Embedders that the estimators and pipelines of one process share: a model is loaded once.

A clone of an estimator has the settings of the original, and so its embedder. Nothing here imports
torch before an embedder is made: spaCy imports the modules of its plugins whenever it starts.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ModelError, SettingError
from elmo_cli.files import StrPath

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder
    from elmo_cli.store.layers import LayerSelection

_MOST_EMBEDDERS = 4  # in memory; the one that was used least recently is dropped first
_SHOWN_DIGITS = 12  # of a digest in a message

_FileState = tuple[Path, int, int]  # a file, its size in bytes, and its time in nanoseconds
_EmbedderKey = tuple[tuple[_FileState, ...], EmbedderSettings]


class SharedEmbedders:
    """A few embedders, by the files of the model and the settings; threads may share them."""

    def __init__(self) -> None:
        self._embedders: OrderedDict[_EmbedderKey, Embedder] = OrderedDict()
        self._lock = threading.Lock()
        self._has_one_thread = False  # whether torch may use only one, see `forget`

    def get(self, model: StrPath | None, settings: EmbedderSettings) -> Embedder:
        """The embedder of a model with these settings.

        A model whose files have changed is loaded again.

        Args:
            model: a name or a path, as `load` takes it.
        Raises:
            ElmoError: as `load` and `Embedder` do.
        """
        from elmo_cli.pretrained.load import find

        file_states = tuple(_state_of(path) for path in find(model).paths)
        key = (file_states, settings)
        with self._lock:
            if key not in self._embedders:
                self._embedders[key] = self._load(model, settings)
            self._embedders.move_to_end(key)
            if len(self._embedders) > _MOST_EMBEDDERS:
                self._embedders.popitem(last=False)
            return self._embedders[key]

    def forget(self) -> None:
        """Drop all embedders, in a process that was forked.

        The threads that have computed in the parent do not exist in the child, and OpenMP would
        wait for them forever. With a single thread it does not need them.
        """
        self._embedders = OrderedDict()
        self._lock = threading.Lock()
        self._has_one_thread = "torch" in sys.modules

    def _load(self, model: StrPath | None, settings: EmbedderSettings) -> Embedder:
        from elmo_cli.embed.embedder import Embedder
        from elmo_cli.engine.runtime import set_num_threads
        from elmo_cli.pretrained.load import load

        if self._has_one_thread:
            set_num_threads(1)
        embedder = Embedder(load(model), settings)
        if settings.engine == "fast":
            embedder.weights_guard.release()  # frees the weights: the engine has its own copy
        return embedder


_embedders = SharedEmbedders()
os.register_at_fork(after_in_child=_embedders.forget)

shared_embedder: Callable[[StrPath | None, EmbedderSettings], Embedder] = _embedders.get


def check_state(state: str) -> None:
    """Raise a SettingError for a state with which vectors depend on the texts before."""
    if state in ("carry", "document"):
        problem = "vectors would depend on the texts before, which come in any order here"
        raise SettingError("state", problem, "choose zero or warm", value=state)


def select_one_vector(layers: str, n_layers: int) -> LayerSelection:
    """The layer or the sum of layers that is the vector of a token.

    Args:
        layers: as `LayerSelection.parse` takes it, but not several layers.
        n_layers: layers of the model, layer 0 included.
    Raises:
        UsageError: it keeps several layers, or the model does not have one of them.
    """
    from elmo_cli.store.layers import LayerSelection

    selection = LayerSelection.parse(layers, range(n_layers), n_layers, drop_axis=True)
    if selection.n_kept > 1:
        problem = f"{selection.n_kept} vectors per token, but one is needed"
        hint = "choose average, top, sum, one layer such as 1, or mix:w0,w1,w2"
        raise SettingError("layers", problem, hint, value=layers)
    return selection


def check_sha256(model: StrPath | None, found: str, recorded: str) -> None:
    """Raise a ModelError if a model is not the one whose `model_sha256` was recorded."""
    if recorded not in ("", found):
        shown = f"{found[:_SHOWN_DIGITS]}…, not {recorded[:_SHOWN_DIGITS]}…"
        problem = f"its model_sha256 is {shown}, that of the model that this pipeline was made with"
        hint = "name that model as `model`, or make and train the pipeline again"
        raise ModelError(problem, hint, where=str(model))


def _state_of(path: Path) -> _FileState:
    status = path.stat()
    return path.resolve(), status.st_size, status.st_mtime_ns
