"""Output: which layers go out, in which type, one vector a token or one a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.errors import ElmoError, OutputError, UsageError, WeightFileError
from elmo_cli.store.layers import LayerSelection

# What arrays are computed into; the file makes int8 of them.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.float32}
POOLS = ("mean", "max")

Array = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Output:
    """What is kept of the layers.

    Attributes:
        layers: which layers, or their sum.
        dtype: "float32", "float16", or "int8", of which only files are made and no arrays.
        pool: None for one vector a token; "mean" or "max" over a sentence's tokens.
    """

    layers: LayerSelection
    dtype: str = "float32"
    pool: str | None = None

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
        """Parse a selection of layers, a dtype and a pooling.

        Args:
            name: as `LayerSelection.parse` takes it.
            n_layers: layers of the model, the token layer among them.
            bare: whether a single layer given by its number loses its axis, for layouts that hold
                one layer a file.
        Raises:
            UsageError: one of them does not exist.
        """
        if dtype not in DTYPES:
            raise UsageError(f"`dtype={dtype}`: not {', '.join(DTYPES)}", "float32 is exact")
        if pool is not None and pool not in POOLS:
            raise UsageError(f"`pool={pool}`: not {' or '.join(POOLS)}", "leave it out for tokens")
        layers = LayerSelection.parse(name, range(n_layers), n_layers, drop_axis=bare)
        return cls(layers, dtype, pool)

    @property
    def name(self) -> str:
        """The selection of layers without white space."""
        return self.layers.name

    @property
    def highest(self) -> int | None:
        """The highest layer that is kept; None if all are needed."""
        return None if self.layers.is_sum else max(self.layers.indices)

    @property
    def n_kept(self) -> int:
        """Vectors that are stored for a token."""
        return self.layers.n_kept

    def of(self, layers: Tensor) -> Tensor:
        """Select or sum layers.

        Args:
            layers: (layer, token, dim) float32.
        Returns:
            (kept layer, token, dim), or (token, dim) for a sum; still float32.
        """
        kept: Tensor = self.layers.apply(layers)
        return kept

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
        if not math.isfinite(greatest) and self.layers.weights:
            return OutputError(
                f"{where}: `layers={self.name}`: a value is beyond float32",
                "give smaller weights or a smaller gamma; `layers=all` shows whether the layers "
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
            "`dtype=float32` holds it",
        )

    def stored(self, values: Tensor) -> Tensor:
        """Values in the type they are stored in."""
        return values.to(DTYPES[self.dtype])
