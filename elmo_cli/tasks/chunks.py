"""Chunks of a data file or text that is read, predicted and written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elmo_cli.tasks.readers import Split

_MOST_TOKENS = 20_000  # of a chunk; their vectors take 120 MB
_MOST_ROWS = 20_000  # rows may be blank
_GROWTH = 8  # few small chunks, since the first one is to be given out early


def read_chunks(
    split: Split, rows: Iterator[None], *, is_waiting: Callable[[], bool] = lambda: False
) -> Iterator[Split]:
    """Yield the rows of a split in chunks that grow, from one row to 20,000 tokens.

    Args:
        split: is filled by `rows`, and emptied for each chunk.
        rows: from `read_rows` or `Task.fill_text`.
        is_waiting: whether reading the next row may have to wait for another process; the chunk
            then ends before that row.
    """
    n_tokens_wanted = 1
    n_tokens = 0
    n_sentences = 0
    for _ in rows:
        n_tokens += sum(map(len, split.sentences[n_sentences:]))
        n_sentences = len(split.sentences)
        is_full = n_tokens >= n_tokens_wanted or len(split.examples) >= _MOST_ROWS
        if is_full or is_waiting():
            yield split.take()
            n_tokens = 0
            n_sentences = 0
            n_tokens_wanted = min(_GROWTH * n_tokens_wanted, _MOST_TOKENS)
    if split.examples or split.sentences:
        yield split.take()
