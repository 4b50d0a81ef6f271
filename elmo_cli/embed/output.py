"""Output: which layers go out, in which type, one vector a token or one a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.errors import ElmoError, OutputError, UsageError, WeightFileError
from elmo_cli.store.layer_choice import MIX, layer_numbers, mix_weights

# What arrays are computed into; the file makes int8 of them.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.float32}
POOLS = ("mean", "max")

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
        if name.startswith(MIX):
            weights = mix_weights(name, n_layers, "the model")
            return cls(name, weights=weights, dtype=dtype, pool=pool)
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
        if not math.isfinite(greatest) and self.weights:
            return OutputError(
                f"{where}: --layers {self.name}: a value is beyond float32",
                "give smaller weights, or a smaller gamma; `--layers all` tells whether the layers "
                "themselves are finite",
            )
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
    numbers = layer_numbers(name)
    if max(numbers) >= n_layers:
        raise UsageError(
            f"--layers {name}: the model has layers 0 to {n_layers - 1}", "0 is the token layer"
        )
    return numbers
