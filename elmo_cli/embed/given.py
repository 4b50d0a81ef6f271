"""What an embedder is given by a program, looked at before it is computed with."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, SupportsIndex, cast

from elmo_cli.errors import UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.sentence import Sentence


def check_loaded(bilm: object) -> None:
    """Refuse what is no biLM, such as its name.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(bilm, BiLM):
        what = type(bilm).__name__
        raise TypeError(f"bilm is of type {what}, not BiLM: `Embedder(load(name_or_path))`")


def checked_size(batch_size: object) -> int:
    """The rows of a batch, of numpy's whole numbers too.

    Raises:
        UsageError: no whole number from 1.
    """
    is_whole = isinstance(batch_size, SupportsIndex) and not isinstance(batch_size, bool)
    if not is_whole or (size := index(cast("SupportsIndex", batch_size))) < 1:
        raise UsageError(
            f"--batch-size {batch_size}: a whole number from 1 is needed", "leave it out"
        )
    return size


def check_state(state: object, options: Options, *, is_carried: bool) -> None:
    """Refuse a state that a batch can't go on from.

    Args:
        is_carried: whether the embedder takes one at all.
    Raises:
        TypeError: it takes none, or this is none.
        UsageError: it is of a biLM of other sizes.
    """
    if not is_carried:
        raise TypeError('a state is taken with state="carry" alone, here it would be passed over')
    if not isinstance(state, State):
        raise TypeError(f"the state is of type {type(state).__name__}, not what a batch has left")
    expected = State.zeros(options, state.n_rows)
    if (state.h.shape, state.c.shape) != (expected.h.shape, expected.c.shape):
        raise UsageError("the state is of a biLM of other sizes", "begin with None")


def sentence_of(tokens: Sequence[str], key: int) -> Sentence:
    """Tokens as a sentence; a text would pass for a list of its characters.

    Raises:
        TypeError: no list of texts.
    """
    if isinstance(tokens, str):
        raise TypeError(f"a sentence is a list of tokens, not a text: {tokens[:40]!r}; .split() it")
    made: tuple[Any, ...] = tuple(tokens)
    for token in made:
        if not isinstance(token, str):
            what = type(token).__name__
            raise TypeError(f"a token is a text, not {what}; `embed_batch` takes several sentences")
    return Sentence(made, key)
