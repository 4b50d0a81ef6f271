"""Embeddings on standard output can be read again, bit for bit."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile

import numpy as np
import pytest

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.stream_formats import sentence_writer
from elmo_cli.text.sentence import Sentence

SENTENCES = [
    Sentence(("the", "cat"), 0),
    Sentence((), 1),
    Sentence(("Zoë", "\u200b", "a\u00a0b", "c d", "e\nf"), 7),
]


def arrays_of(rank: int, dtype: str = "float32") -> list[FloatArray]:
    """Arrays of any bits: (layer 3, token, dim 4), or (token, dim) for rank 2."""
    numbers = np.random.default_rng(1)
    arrays = []
    for sentence in SENTENCES:
        shape = (3, len(sentence.tokens), 4)[3 - rank :]
        values = numbers.normal(size=shape) * 10.0 ** numbers.integers(-6, 4, shape)
        arrays.append(values.astype(dtype))
    return arrays


def written(stream_format: str, arrays: list[FloatArray], *, pooled: bool = False) -> bytes:
    out = io.BytesIO()
    with sentence_writer(stream_format, out, pooled=pooled) as write:
        for sentence, array in zip(SENTENCES, arrays, strict=True):
            write(sentence, array)
    return out.getvalue()


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_jsonl_round_trip(rank: int, dtype: str) -> None:
    arrays = arrays_of(rank, dtype)
    records = [json.loads(line) for line in written("jsonl", arrays).decode().split("\n")[:-1]]
    for record, sentence, array in zip(records, SENTENCES, arrays, strict=True):
        assert (record["key"], tuple(record["tokens"])) == (sentence.key, sentence.tokens)
        values = np.array(record["layers"], dtype).reshape(array.shape)
        np.testing.assert_array_equal(values, array)


def test_jsonl_has_the_fewest_digits_and_escapes_half_surrogate_pairs() -> None:
    out = io.BytesIO()
    with sentence_writer("jsonl", out, pooled=True) as write:
        write(Sentence(("\ud800é",), 3), np.float32([[0.1, -2, 1e-7, 16777]]))
    line = out.getvalue()
    assert line.endswith(b'"layers": [[0.1,-2.0,1e-7,16777.0]]}\n')
    assert json.loads(line)["tokens"] == ["\ud800é"]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz_is_one_archive_of_an_array_per_key(rank: int, dtype: str) -> None:
    arrays = arrays_of(max(rank, 2), dtype)
    if rank == 1:
        arrays = [np.arange(4, dtype=dtype)] * len(SENTENCES)
    arrays[2] = np.asfortranarray(arrays[2])
    content = written("npz", arrays)
    archive = np.load(io.BytesIO(content))
    assert list(archive) == ["0", "1", "7"]
    for sentence, array in zip(SENTENCES, arrays, strict=True):
        np.testing.assert_array_equal(archive[str(sentence.key)], array, strict=True)
    assert content == written("npz", arrays)


def test_npz_that_was_interrupted_is_not_valid() -> None:
    out = io.BytesIO()

    def interrupted() -> None:
        with sentence_writer("npz", out, pooled=False) as write:
            write(SENTENCES[0], arrays_of(3)[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(out)


@pytest.mark.parametrize("stream_format", ["jsonl", "npz", "text"])
def test_a_pipe_whose_reader_has_closed_it(stream_format: str) -> None:
    reader, writer = os.pipe()

    def read_little() -> None:
        os.read(reader, 1)
        os.close(reader)

    thread = threading.Thread(target=read_little)
    thread.start()
    sentence = Sentence(("a",) * 9000, 0)
    more_than_a_pipe_holds = np.zeros((3, 9000, 4), np.float32)
    with (
        pytest.raises(BrokenPipeError),
        open(writer, "wb") as out,
        sentence_writer(stream_format, out, pooled=False) as write,
    ):
        write(sentence, more_than_a_pipe_holds)
    thread.join()


@pytest.mark.parametrize("rank", [2, 3])
def test_text_is_a_line_per_token_and_a_blank_line_per_sentence(rank: int) -> None:
    arrays = arrays_of(rank)
    lines = written("text", arrays).decode().split("\n")
    assert [number for number, line in enumerate(lines) if not line] == [2, 3, 9, 10]
    rows = [line.split(" ") for line in lines if line]
    assert [row[0] for row in rows] == ["the", "cat", "Zoë", "\u200b", "a_b", "c_d", "e_f"]
    by_token = [array.swapaxes(0, 1) if rank == 3 else array for array in arrays]
    expected = np.concatenate([by_token[k].reshape(len(by_token[k]), -1) for k in (0, 2)])
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], np.float32), expected)


@pytest.mark.parametrize("rank", [1, 2])
def test_text_of_pooled_vectors_is_a_line_per_sentence(rank: int) -> None:
    arrays = [np.full((3, 4)[2 - rank :], k, np.float32) for k in range(3)]
    rows = [line.split(" ") for line in written("text", arrays, pooled=True).decode().split("\n")]
    assert [row[0] for row in rows] == ["0", "1", "7", ""]
    assert rows[2][1:] == ["2.0"] * arrays[2].size
