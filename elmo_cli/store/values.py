"""Arrays on their way to a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from elmo_cli.errors import OutputError
from elmo_cli.text.sentence import Sentence


def as_stored(
    sentence: Sentence, array: np.ndarray, dtype: np.dtype[np.floating[Any]]
) -> np.ndarray:
    """The array of a sentence in the dtype of the file, C-contiguous.

    Raises:
        OutputError: a finite value is beyond what float16 holds.
    """
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(array, dtype)
    except FloatingPointError:
        raise OutputError(
            f"{sentence.source}, line {sentence.line}: a value is beyond {dtype.name}",
            "`--dtype float32`",
        ) from None


def n_tokens(sentence: Sentence, values: np.ndarray, *, pooled: bool) -> int:
    """Tokens that the array of a sentence stands for; of a lone vector those of the sentence."""
    if pooled or values.ndim < 2:
        return len(sentence.tokens)
    return int(values.shape[-2])
