"""Streams to standard output: what is written can be read again."""

from __future__ import annotations

import io
import json
import os
import threading

import numpy as np
import pytest

from elmo_cli.embed.streams import STREAMS, stream_writer
from elmo_cli.errors import UsageError
from elmo_cli.text.sentence import Sentence

SENTENCES = [
    Sentence(("the", "cat"), 0),
    Sentence((), 1),
    Sentence(("Zoë", "\u200b", "a\u00a0b", "c d", "e\nf"), 7),
]


def arrays_of(rank: int, dtype: str = "float32") -> list[np.ndarray]:
    """Arrays of any float32 bits: (layer 3, token, dim 4), or (token, dim) for rank 2."""
    numbers, made = np.random.default_rng(1), []
    for sentence in SENTENCES:
        shape = (3, len(sentence.tokens), 4)[3 - rank :]
        values = numbers.normal(size=shape) * 10.0 ** numbers.integers(-4, 4, shape)
        made.append(values.astype(dtype))
    return made


def written(name: str, arrays: list[np.ndarray], *, pooled: bool = False) -> bytes:
    out = io.BytesIO()
    write = stream_writer(name, out, pooled=pooled)
    for sentence, array in zip(SENTENCES, arrays, strict=True):
        write(sentence, array)
    return out.getvalue()


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_jsonl_round_trip(rank: int, dtype: str) -> None:
    """Without it numbers would be rounded, or a token spelled otherwise."""
    arrays = arrays_of(rank, dtype)
    records = [json.loads(line) for line in written("jsonl", arrays).decode().split("\n")[:-1]]
    for record, sentence, array in zip(records, SENTENCES, arrays, strict=True):
        assert record["key"] == sentence.key
        assert tuple(record["tokens"]) == sentence.tokens
        found = np.array(record["layers"], dtype).reshape(array.shape)
        np.testing.assert_array_equal(found, array)


def test_jsonl_with_half_a_character() -> None:
    """Without it one broken token would end the stream with a UnicodeEncodeError."""
    out = io.BytesIO()
    stream_writer("jsonl", out, pooled=False)(Sentence(("\ud800é",), 0), np.zeros((1, 2)))
    assert json.loads(out.getvalue())["tokens"] == ["\ud800é"]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npy_round_trip(rank: int, dtype: str) -> None:
    """Without it the records could not be read one behind the other."""
    arrays = arrays_of(max(rank, 2), dtype)
    if rank == 1:
        arrays = [np.arange(4, dtype=dtype)] * len(SENTENCES)
    stream = io.BytesIO(written("npy", arrays))
    for array in arrays:
        found = np.load(stream)
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)
    assert stream.read() == b""


def test_npy_of_arrays_that_lie_otherwise_in_memory() -> None:
    """Without it a transposed array would be written in Fortran's order."""
    array = arrays_of(3)[2].swapaxes(0, 1)
    out = io.BytesIO()
    stream_writer("npy", out, pooled=False)(SENTENCES[2], array)
    assert b"'fortran_order': False" in out.getvalue()
    np.testing.assert_array_equal(np.load(io.BytesIO(out.getvalue())), array)


def test_npy_to_a_reader_that_goes() -> None:
    """Without it `| head` would be told of as a failure, and one that has no reason."""
    reader, writer = os.pipe()

    def read_little() -> None:
        os.read(reader, 1)
        os.close(reader)

    thread = threading.Thread(target=read_little)
    thread.start()
    more = np.zeros((3, 50_000, 4), np.float32)  # than a pipe holds
    with pytest.raises(BrokenPipeError), open(writer, "wb") as out:
        stream_writer("npy", out, pooled=False)(SENTENCES[0], more)
    thread.join()


@pytest.mark.parametrize("rank", [2, 3])
def test_text_round_trip(rank: int) -> None:
    """Without it a space or a line end within a token would shift the columns."""
    arrays = arrays_of(rank)
    blocks = written("text", arrays).decode().split("\n\n")
    assert blocks.pop() == ""
    # A sentence without tokens is its blank line alone.
    rows = [[line.split(" ") for line in block.split("\n") if line] for block in blocks]
    found = [row for block in rows for row in block]
    names = ["the", "cat", "Zoë", "\u200b", "a_b", "c_d", "e_f"]
    assert [row[0] for row in found] == names
    by_token = [array.swapaxes(0, 1) if rank == 3 else array for array in arrays]
    expected = np.concatenate(
        [array.reshape(len(array), -1) for array in (by_token[0], by_token[2])]
    )
    values = np.array([[float(value) for value in row[1:]] for row in found], np.float32)
    np.testing.assert_array_equal(values, expected)


def test_text_has_a_blank_line_after_each_sentence() -> None:
    """Without it a sentence without tokens would shift the numbering of those after it."""
    lines = written("text", arrays_of(2)).decode().split("\n")
    assert [number for number, line in enumerate(lines) if not line] == [2, 3, 9, 10]


@pytest.mark.parametrize("rank", [1, 2])
def test_text_of_pooled_vectors_is_a_line_a_sentence(rank: int) -> None:
    """Without it pooled layers would be taken for tokens."""
    arrays = [np.full((3, 4)[2 - rank :], k, np.float32) for k in range(3)]
    rows = [line.split(" ") for line in written("text", arrays, pooled=True).decode().split("\n")]
    assert [row[0] for row in rows[:-1]] == ["0", "1", "7"]
    assert rows[2][1:] == ["2"] * arrays[2].size
    assert rows[-1] == [""]


def test_no_such_form() -> None:
    """Without it a wrong name would be a KeyError."""
    assert STREAMS == ("jsonl", "npy", "text")
    with pytest.raises(
        UsageError, match="--output-format csv: standard output is written as jsonl, npy"
    ):
        stream_writer("csv", io.BytesIO(), pooled=False)
