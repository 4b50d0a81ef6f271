"""Embeddings as a stream: jsonl, npy or text, for pipes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from elmo_cli.embed.output_reduction import Array
from elmo_cli.errors import UsageError
from elmo_cli.text.sentence import Sentence

STREAMS = ("jsonl", "npy", "text")
_SPACE = re.compile(r"\s")  # jsonl may have it within a token
Write = Callable[[Sentence, Array], None]


def stream_writer(name: str, out: BinaryIO, *, pooled: bool) -> Write:
    """What writes one sentence after the other to `out`.

    Forms:
        jsonl: an object a sentence, {"key": 0, "tokens": […], "layers": […]}, nested as the array.
        npy: the arrays as .npy records one behind the other; `numpy.load` reads one at a time.
        text: a line a token, the token and its values, a blank line after a sentence; pooled, a
            line a sentence, its number and its values. Layers stand side by side.
    Raises:
        UsageError: no such form.
    """
    writers: dict[str, Write] = {
        "jsonl": lambda sentence, array: _jsonl(out, sentence, array),
        "npy": lambda _, array: _npy(out, np.ascontiguousarray(array)),
        "text": lambda sentence, array: _text(out, sentence, array, pooled),
    }
    if name not in writers:
        raise UsageError(
            f"--output-format {name}: standard output is written as {', '.join(STREAMS)}",
            "`--input-format` says how files are read",
        )
    return writers[name]


def _jsonl(out: BinaryIO, sentence: Sentence, array: Array) -> None:
    # UTF-8 has no half characters; as backslash escapes they are JSON all the same.
    record = {"key": sentence.key, "tokens": list(sentence.tokens), "layers": array.tolist()}
    out.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _npy(out: BinaryIO, array: Array) -> None:
    # What numpy itself writes to a file goes past `out`, and its error does not say what failed.
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(out, header)
    out.write(array.data)


def _text(out: BinaryIO, sentence: Sentence, array: Array, pooled: bool) -> None:
    if pooled:
        names, rows = [str(sentence.key)], array.reshape(1, -1)
    else:
        by_token = array.swapaxes(0, 1) if array.ndim == 3 else array
        names = list(sentence.tokens)
        rows = by_token.reshape(len(names), -1) if names else by_token[:0].reshape(0, 0)
    for name, row in zip(names, rows, strict=True):
        # Nine digits bring a float32 back as it was.
        values = " ".join(f"{value:.9g}" for value in row.tolist())
        out.write(f"{_SPACE.sub('_', name)} {values}\n".encode("utf-8", "replace"))
    if not pooled:
        out.write(b"\n")
