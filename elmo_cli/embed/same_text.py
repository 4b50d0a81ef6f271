"""Whether the text of a resumed run is the one that its file was begun with."""

from __future__ import annotations

from elmo_cli.errors import ResumeError
from elmo_cli.store.log_lines import Progress

_HINT = "give the text that the run began with; or `overwrite=True` starts over"


def check_finished(output: str, done: Progress, text_sha256: str, n_sentences: int | None) -> None:
    """Refuse a finished file of another text.

    Args:
        done: what the file says of itself.
        text_sha256: of the whole input as it is now.
        n_sentences: of that input; None for a shard, which has not all of them.
    Raises:
        ResumeError: it is another text.
    """
    if text_sha256 == done.text_sha256:
        return
    what = "is not the one that it was made from"
    if n_sentences not in (None, done.sentences):
        what = f"has {n_sentences}"
    raise ResumeError(
        f"{output}: finished with {done.sentences} sentences, the input {what}", _HINT
    )


def check_begun(output: str, done: Progress, text_sha256: str) -> None:
    """Refuse an unfinished file of another text.

    Args:
        done: what is committed.
        text_sha256: of the input to the end of the last block that is committed.
    Raises:
        ResumeError: it is another text.
    """
    if text_sha256 != done.text_sha256:
        raise ResumeError(
            f"{output}.part: its first {done.sentences} sentences are not those of the input "
            "given now",
            _HINT,
        )


def too_short(output: str, done: Progress) -> ResumeError:
    """The error for an input with fewer blocks than are committed."""
    return ResumeError(
        f"{output}.part: holds {done.sentences} sentences, the input has fewer", _HINT
    )
