"""Arrays on their way to a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from elmo_cli.errors import OutputError
from elmo_cli.store.int8 import INT8
from elmo_cli.text.sentence import Sentence


def as_stored(sentence: Sentence, array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array of a sentence as a layout takes it.

    Args:
        dtype: of the file; int8 is made by the layout, which takes float32.

    Raises:
        OutputError: a finite value is beyond what the type holds, or one for int8 is not finite.
    """
    if dtype == INT8 and not np.isfinite(array).all():
        raise OutputError(
            f"{sentence.where}: a value is NaN or infinite, beyond int8",
            "`--dtype float32`",
        )
    taken = np.dtype(np.float32) if dtype == INT8 else dtype
    if array.dtype == taken:
        return array
    try:
        with np.errstate(over="raise"):
            return array.astype(taken)
    except FloatingPointError:
        raise OutputError(
            f"{sentence.where}: a value is beyond {taken.name}",
            "no embeddings file holds such values" if taken == np.float32 else "`--dtype float32`",
        ) from None


def n_tokens(sentence: Sentence, values: np.ndarray, *, pooled: bool) -> int:
    """Tokens that the array of a sentence stands for; of a lone vector those of the sentence."""
    if pooled or values.ndim < 2:
        return len(sentence.tokens)
    return int(values.shape[-2])
