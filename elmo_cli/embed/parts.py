"""Parts: a batch in parts, where the memory of the device ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from elmo_cli.engine.runtime import is_out_of_memory
from elmo_cli.errors import DeviceError
from elmo_cli.text.batching import Batch
from elmo_cli.text.sentence import Sentence

Result = TypeVar("Result")


class Parts:
    """Computes batches whole, and in halves once one of their size has met the end of a memory.

    Args:
        device: where they are computed.
        padded: whether rows take the room of the longest.
    """

    def __init__(self, device: torch.device, *, padded: bool) -> None:
        self._device, self._padded = device, padded
        self._most = math.inf  # tokens of a batch that may fit

    def run(
        self, batch: Batch, compute: Callable[[slice], Result], sentences: Sequence[Sentence]
    ) -> list[Result]:
        """What `compute` makes of the rows of a batch, mostly of all of them at once.

        Args:
            batch: its rows.
            compute: takes some of the rows.
            sentences: what the batch's positions are places in.
        Raises:
            DeviceError: a single row is too much.
        """
        parts, start, stop = [], 0, len(batch.rows)
        while start < len(batch.rows):
            part = batch.rows_slice(slice(start, stop))
            n_rows = len(part.rows)
            if n_rows == 1 or self._fits(part):
                try:
                    parts.append(compute(slice(start, stop)))
                    start, stop = stop, len(batch.rows)
                    continue
                except RuntimeError as error:
                    if not is_out_of_memory(error) or n_rows == 1:
                        first = sentences[int(part.source_rows[0])]
                        raise out_of_memory(error, first, self._device) from error
                    if self._device.type == "cuda":
                        torch.cuda.empty_cache()
                    self._most = part.tokens(padded=self._padded) // 2
            stop = start + n_rows // 2
        return parts

    def _fits(self, batch: Batch) -> bool:
        return self._device.type == "cpu" or batch.tokens(padded=self._padded) <= self._most


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """The parts of a batch as one; a part that is alone is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim)


def out_of_memory(error: RuntimeError, sentence: Sentence, device: torch.device) -> Exception:
    """What to raise for an error of torch: itself, unless it is that memory ended."""
    if not is_out_of_memory(error):
        return error
    return DeviceError(
        f"{sentence.where}: out of memory on {device} with a sentence of "
        f"{len(sentence.tokens)} tokens",
        "`--max-sentence-length` refuses such sentences, `--on-error skip` leaves them out; "
        "`--resume` goes on after the last block that was written",
    )
