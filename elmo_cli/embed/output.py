"""Output: which layers go out, in which type, one vector a token or one a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.errors import ElmoError, OutputError, UsageError, WeightFileError

# What arrays are computed into; the file makes int8 of them.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.float32}
POOLS = ("mean", "max")
_FORMS = "`--layers` takes all, top, average, layer numbers such as 0,2, or mix:w0,w1,w2[,gamma]"

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Output:
    """What is kept of the layers.

    Attributes:
        name: "all", "top", "average", "0,2", "mix:0.2,0.3,0.5", without white space.
        keep: numbers of the layers that stay side by side; empty for top, average and a mix.
        weights: of a mix, one for each layer.
        dtype: "float32", "float16", or "int8", of which only files are made and no arrays.
        pool: None for one vector a token; "mean" or "max" over a sentence's tokens.
        bare: whether a single layer loses its axis, for layouts that hold one layer a file.
    """

    name: str
    keep: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    dtype: str = "float32"
    pool: str | None = None
    bare: bool = False

    @classmethod
    def parse(
        cls,
        name: str,
        *,
        n_layers: int,
        dtype: str = "float32",
        pool: str | None = None,
        bare: bool = False,
    ) -> Output:
        """Read a choice of layers.

        Args:
            name: see `name` above; top is the last layer, average the plain mean.
            n_layers: layers of the model, the token layer among them.
        Raises:
            UsageError: not such a choice, or layers that the model has not.
        """
        if dtype not in DTYPES:
            raise UsageError(f"--dtype {dtype}: not {', '.join(DTYPES)}", "float32 is exact")
        if pool is not None and pool not in POOLS:
            raise UsageError(f"--pool {pool}: not {' or '.join(POOLS)}", "leave it out for tokens")
        name = "".join(name.split())
        if name == "all":
            return cls(name, keep=tuple(range(n_layers)), dtype=dtype, pool=pool)
        if name in ("top", "average"):
            return cls(name, dtype=dtype, pool=pool)
        if name.startswith("mix:"):
            return cls(name, weights=_mix(name, n_layers), dtype=dtype, pool=pool)
        keep = _numbers(name, n_layers)
        return cls(",".join(map(str, keep)), keep=keep, dtype=dtype, pool=pool, bare=bare)

    @property
    def highest(self) -> int | None:
        """The highest layer that goes out; None for the top one."""
        return max(self.keep) if self.keep else None

    @property
    def n_kept(self) -> int:
        """Vectors that are stored for a token."""
        return len(self.keep) or 1

    def of(self, layers: Tensor) -> Tensor:
        """Reduce layers to what goes out.

        Args:
            layers: (layer, token, dim) float32.
        Returns:
            (kept layer, token, dim), or (token, dim) for a weighted sum; still float32.
        """
        if len(self.keep) > 1 and self.keep == tuple(range(len(layers))):
            return layers
        if self.bare and len(self.keep) == 1:
            return layers[self.keep[0]]  # (token, dim)
        if self.keep:
            return layers[list(self.keep)]  # (kept layer, token, dim)
        if self.name == "top":
            return layers[-1]  # (token, dim)
        if self.name == "average":
            return layers.mean(0)  # (token, dim)
        weights = torch.tensor(self.weights, device=layers.device)  # (layer,)
        return torch.einsum("k,ktd->td", weights, layers)  # (token, dim)

    def leaving(self, kept: Tensor) -> Tensor:
        """What `of` gave, in the type that leaves the device: the file's, if nothing is pooled."""
        return kept if self.pool else self.stored(kept)

    def sentence(self, kept: Tensor) -> Array:
        """The array of one sentence from what `of` or `leaving` gave for its tokens.

        Returns:
            (layer, token, dim) or (token, dim); pooled (layer, dim) or (dim,). A sentence without
            tokens pools to zeros.
        """
        if self.pool is None:
            array: Array = self.stored(kept).numpy()
            return array
        if kept.shape[-2] == 0:
            pooled = kept.sum(-2)
        else:
            pooled = kept.mean(-2) if self.pool == "mean" else kept.amax(-2)
        array = self.stored(pooled).numpy()
        return array

    def holds(self, values: Tensor) -> bool:
        """Whether all values are finite and within the type they are stored in."""
        if not values.numel():
            return True
        least, greatest = torch.aminmax(values)  # both are NaN if one value is
        most = torch.finfo(DTYPES[self.dtype]).max
        return bool((-most <= least) & (greatest <= most))

    def refusal(self, values: Tensor, where: str, model: str) -> ElmoError:
        """The error for values that `holds` refuses.

        Args:
            where: of what the values are, for the message.
            model: its name, which computed them.
        """
        greatest = float(values.abs().amax())
        if not math.isfinite(greatest):
            return WeightFileError(
                f"{where}: the model {model} computes {greatest}",
                "its weights or clips are damaged: take both files from one model, and "
                "`elmo inspect WEIGHTS.hdf5` checks them",
            )
        most = torch.finfo(DTYPES[self.dtype]).max
        return OutputError(
            f"{where}: a value is beyond {self.dtype} ({greatest:.4g}, at most {most:.5g})",
            "`--dtype float32`",
        )

    def stored(self, values: Tensor) -> Tensor:
        """Values in the type they are stored in."""
        return values.to(DTYPES[self.dtype])


def _numbers(name: str, n_layers: int) -> tuple[int, ...]:
    parts = name.split(",")
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"--layers {name}: not a choice of layers", _FORMS)
    numbers = tuple(int(part) for part in parts)
    if max(numbers) >= n_layers:
        raise UsageError(
            f"--layers {name}: the model has layers 0 to {n_layers - 1}", "0 is the token layer"
        )
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"--layers {name}: a layer is named twice", _FORMS)
    return numbers


def _mix(name: str, n_layers: int) -> tuple[float, ...]:
    try:
        values = [float(part) for part in name[len("mix:") :].split(",")]
    except ValueError:
        values = [float("nan")]
    if not np.isfinite(values).all():
        raise UsageError(f"--layers {name}: not finite numbers", _FORMS)
    if len(values) not in (n_layers, n_layers + 1):
        raise UsageError(
            f"--layers {name}: {len(values)} numbers, the model needs {n_layers} weights, "
            "and gamma if you like",
            _FORMS,
        )
    gamma = values[n_layers] if len(values) > n_layers else 1.0
    weights = tuple(gamma * value for value in values[:n_layers])
    if not any(weights):
        raise UsageError(
            f"--layers {name}: all weights are 0, so every vector would be",
            "they are taken as they stand; an ElmoMix has them in torch.softmax(mix.weights, 0)",
        )
    most = float(np.finfo(np.float32).max)
    for layer, weight in enumerate(weights):
        if abs(weight) > most:
            # It would be infinite in the sum, which then looks like damage of the model.
            raise UsageError(
                f"--layers {name}: the weight {weight:g} of layer {layer} is beyond float32 "
                f"(at most {most:.5g})",
                "give smaller weights, or a smaller gamma",
            )
    return weights
