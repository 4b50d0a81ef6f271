"""EmbedderSettings: how sentences are embedded. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass

from elmo_cli.engine.names import ENGINES, PRECISIONS, check_device_name
from elmo_cli.errors import UsageError
from elmo_cli.fields import at_least, check_fields, convert_integers, one_of

STATES = ("zero", "warm", "carry", "document")
DTYPES = ("float32", "float16", "int8")
POOLS = ("mean", "max")
SENTENCE_MAPS = ("last", "occurrences")  # `FileSpec.sentence_map`


@dataclass(frozen=True)
class EmbedderSettings:
    """How sentences are embedded: the arguments of `Embedder`.

    Attributes:
        state: the initial LSTM state of a sentence: "zero", "warm" (stored with the model), "carry"
            (the final state of the previous batch, as in AllenNLP and bilm-tf) or "document" (the
            final state of the previous sentence of its document).
        layers: which layers to return, or their sum, see `LayerSelection.parse`.
        dtype: "float32" or "float16"; with "int8" arrays are float32, and only files are int8.
        pool: None for one vector per token; "mean" or "max" over a sentence's tokens.
        drop_layer_axis: whether a single layer loses its axis.
        batch_size: sentences per batch; with state "carry" also the rows of the state. None for 64
            with it, otherwise for 512, or fewer on a CPU for LSTMs of more than 2,048 cells.
        engine: "fast", or "plain" for the model as it is.
        precision: of matrix products: "float32", "bf16" or "int8", see `engine.gemm`.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
    Raises:
        UsageError: a setting has an invalid value, or two settings contradict each other.
    """

    state: str = one_of(*STATES)
    layers: str = "all"
    dtype: str = one_of(*DTYPES)
    pool: str | None = one_of(None, *POOLS)
    drop_layer_axis: bool = False
    batch_size: int | None = at_least(1)
    engine: str = one_of(*ENGINES)
    precision: str = one_of(*PRECISIONS)
    device: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", str(self.layers))
        object.__setattr__(self, "device", str(self.device))
        convert_integers(self)
        check_fields(self)
        check_device_name(self.device)
        if self.engine == "plain" and self.precision != "float32":
            where = f"`precision={self.precision}`"
            raise UsageError(
                "the plain engine computes in float32", "use `engine=fast`", where=where
            )
