"""Embeddings on standard output: jsonl, npz or text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.number_text import json_of, words_of
from elmo_cli.text.sentence import Sentence

WriteSentence = Callable[[Sentence, FloatArray], object]

_SPACE = re.compile(r"\s")  # a token of jsonl may contain it


@contextmanager
def sentence_writer(stream_format: str, out: BinaryIO, *, pooled: bool) -> Iterator[WriteSentence]:
    """A function that writes one sentence after another, to be used in a `with`.

    Args:
        stream_format: "jsonl": one object per sentence, {"key": 0, "tokens": […], "layers": […]},
            nested like the array. "npz": an archive for `numpy.load`, one array per key. "text":
            one line per token, the token and its values, and a blank line after each sentence; if
            `pooled` one line per sentence, its key and its values; layers follow one another.
            Numbers have the fewest digits that identify the value in its dtype.
    """
    if stream_format == "npz":
        with archive_writer(out) as write_member:
            yield lambda sentence, array: write_member(str(sentence.key), array)
        return
    if stream_format == "jsonl":
        format_lines = _jsonl
    elif pooled:
        format_lines = _pooled
    else:
        format_lines = _text

    def write_lines(sentence: Sentence, array: FloatArray) -> None:
        out.write(format_lines(sentence, array))

    yield write_lines


@contextmanager
def archive_writer(
    out: BinaryIO, *, deflated: bool = False, comment: bytes = b""
) -> Iterator[Callable[[str, FloatArray], object]]:
    """A function that writes one named array after another to a .npz archive, for a `with`.

    Args:
        deflated: whether arrays are compressed.
        comment: of the archive, at most 65,535 bytes; readers of .npz files ignore it.
    """
    archive = ZipFile(out, "w")
    archive.comment = comment

    def write(name: str, array: FloatArray) -> None:
        info = ZipInfo(f"{name}.npy")  # with a fixed date: the same input gives the same bytes
        info.compress_type = ZIP_DEFLATED if deflated else ZIP_STORED
        with archive.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    try:
        yield write
    except BaseException:
        archive.fp = None  # a cut archive must not get a directory, with which it would be valid
        raise
    archive.close()


def _jsonl(sentence: Sentence, array: FloatArray) -> bytes:
    tokens = json.dumps(list(sentence.tokens), ensure_ascii=False)
    head = f'{{"key": {sentence.key}, "tokens": {tokens}, "layers": '
    # Half surrogate pairs become escapes, as in JSON.
    return b"%s%s}\n" % (head.encode("utf-8", "backslashreplace"), json_of(array))


def _text(sentence: Sentence, array: FloatArray) -> bytes:
    by_token = array if array.ndim == 2 else array.swapaxes(0, 1)
    lines = []
    for token, values in zip(sentence.tokens, by_token, strict=True):
        word = _SPACE.sub("_", token).encode("utf-8", "replace")
        lines.append(b"%s %s\n" % (word, words_of(values)))
    return b"".join([*lines, b"\n"])


def _pooled(sentence: Sentence, array: FloatArray) -> bytes:
    return b"%d %s\n" % (sentence.key, words_of(array))
