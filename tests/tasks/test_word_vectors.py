"""Word vectors from text and NumPy files: what is read, what is left out, and what is refused."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.errors import InputError
from elmo_cli.tasks.word_vectors import WordVectors

GLOVE = "the 1 2\ncat 3 4\nParis 5 6\n"
ONES = np.ones((2, 3), "f4")


@pytest.mark.parametrize(
    "name", ["glove.txt", "bom.txt", "glove.txt.gz", "word2vec.txt", "glove.npz"]
)
def test_word_vectors_are_read(name: str) -> None:
    if name.endswith(".npz"):
        np.savez(name, words=["the", "cat", "Paris"], vectors=[[1, 2], [3, 4], [5, 6]])
    else:
        start = {"word2vec.txt": "3 2\n", "bom.txt": "\ufeff"}.get(name, "")
        text = f"{start}{GLOVE}\n"
        with gzip.open(name, "wt") if name.endswith(".gz") else open(name, "w") as file:
            file.write(text)
    vectors = WordVectors.read(name)
    assert vectors.words == ["the", "cat", "Paris"]
    assert vectors.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert vectors.rows_of(["The", "Paris", "paris", "dog", "cat"]) == [2, 4, 1, 1, 3]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it contains no words"),
        (b"the 1 2\ncat 3\n", "line 2: expected a word and 2 values"),
        (b"the\ncat\n", "line 1: expected a word and its values"),
        (b"the 1 x\n", "line 1: could not convert string to float"),
        (b"the 1 1e9\n", "a value is not finite in float16"),
        (b"\xff\xfe the\n", "cannot be read as word vectors"),
        (b"2 3\nthe 1 2\n", "its header states 3 values per word, line 2 has 2"),
        (b"3 2\nthe 1 2\ncat 3 4\n", "its header states 3 words, but it has 2: it may be"),
        (b"5 3\n", "its header states 5 words, but it has 0"),
        (b"words values\nthe 1 2\n", "line 1: neither a word and its values nor a header"),
        (b"-2 2\nthe 1 2\n", "line 1: neither"),
        (b"2.0 2\nthe 1 2\n", "line 1: neither"),
    ],
)
def test_bad_word_vectors_are_refused(content: bytes, words: str) -> None:
    Path("bad.txt").write_bytes(content)
    with pytest.raises(InputError, match=words):
        WordVectors.read("bad.txt")


def test_words_that_were_added_below_those_of_the_header_are_read() -> None:
    Path("a.vec").write_text("2 2\nthe 1 2\n\ncat 3 4\nParis 5 6\n")
    assert WordVectors.read("a.vec").words == ["the", "cat", "Paris"]


def test_words_of_glove_may_contain_spaces() -> None:
    Path("a.txt").write_text("the 1 2\n. . . 3 4\nat a@b.com 5 6\n")
    assert WordVectors.read("a.txt").words == ["the", ". . .", "at a@b.com"]


def test_words_of_the_data_are_kept_however_rare_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the data have a word only with a capital, such as at the start of a sentence."""
    monkeypatch.setattr("elmo_cli.tasks.word_vectors._MAX_WORDS", 1)
    Path("glove.txt").write_text(GLOVE)
    assert WordVectors.read("glove.txt").words == ["the"]
    assert WordVectors.read("glove.txt", ["Cat"]).words == ["the", "cat"]
    assert WordVectors.read("glove.txt", ["Paris"]).words == ["the", "Paris"]


def test_words_of_the_data_come_first() -> None:
    vectors = WordVectors(["the", "cat", "Paris"], np.array([[1, 2], [3, 4], [5, 6]]))
    ordered = vectors.with_first(["Paris", "dog", "The", "the"])
    assert ordered.words == ["Paris", "the", "cat"]
    assert ordered.table().tolist() == [[0, 0], [3, 4], [5, 6], [1, 2]]
    assert vectors.table().tolist()[2:] == [[1, 2], [3, 4], [5, 6]]
    assert WordVectors([], np.zeros((0, 2))).table().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "npz"])
def test_the_first_vector_of_a_word_counts(suffix: str) -> None:
    """Files are sorted by frequency, and repaired or lower-cased ones have words twice."""
    path = f"a.{suffix}"
    if suffix == "npz":
        np.savez(path, words=["a", "b", "a", "a"], vectors=[[1], [2], [3], [4]])
    else:
        with gzip.open(path, "wt") if suffix == "txt.gz" else open(path, "w") as file:
            file.write("a 1 0\nb 2 0\na 3 0\na 4 0\n")
    found = WordVectors.read(path)
    assert found.words == ["a", "b"]
    assert found.vectors[:, 0].tolist() == [1, 2]
    assert "left out 2 vectors" in found.with_first(["b"]).warning
    assert "'a'" in found.warning


@pytest.mark.parametrize("words", [["the", "cat"], [b"the", b"cat"]])
def test_words_of_an_archive_are_strings_or_bytes(words: list[str | bytes]) -> None:
    np.savez("a.npz", words=np.array(words), vectors=ONES)
    found = WordVectors.read("a.npz")
    assert found.words == ["the", "cat"]
    assert found.warning == ""
    found.write(Path("b.npz"))
    assert WordVectors.read("b.npz").words == ["the", "cat"]


def saved(words: object, vectors: object = ONES) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, words=words, vectors=vectors)
    return buffer.getvalue()


def flipped() -> bytes:
    content = bytearray(saved(["the", "cat"]))
    content[content.find(b"\x93NUMPY") + 140] ^= 1
    return bytes(content)


def an_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, ONES)
    return buffer.getvalue()


def header(shape: str, dtype: str) -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def zipped(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def forged(shape: str, dtype: str = "<f4", content: bytes = bytes(24)) -> bytes:
    words = header("(2,)", "<U3") + "thecat".encode("utf-32-le")
    return zipped(words=words, vectors=header(shape, dtype) + content)


def bomb() -> bytes:
    return forged("(2, 100000000)", content=bytes(80 << 20))


BAD = {
    "truncated": lambda: saved(["the", "cat"])[:-40],
    "a flipped byte": flipped,
    "numbers": lambda: saved([1, 2]),
    "two axes": lambda: saved([["the", "cat"]]),
    "objects": lambda: saved(np.array(["the", None], object)),
    "an array": an_array,
    "a negative shape": lambda: forged("(-2, -3)"),
    "a huge shape": lambda: forged("(2, 1000000000000)"),
    "a huge type": lambda: forged("(2, 3)", "<U100000000"),
    "complex numbers": lambda: saved(["the", "cat"], ONES.astype(complex)),
    "text": lambda: saved(["the", "cat"], np.array([["1"], ["2"]])),
    "a line end": lambda: saved(["the\n", "cat"]),
    "half a pair": lambda: saved(["\ud800", "cat"]),
    "no words": lambda: saved(np.array([], "U1"), np.zeros((0, 3))),
    "no values": lambda: saved(["the", "cat"], np.ones((2, 0))),
    "another name": lambda: zipped(word=b""),
    "another method": lambda: zipped(zipfile.ZIP_LZMA, words=b"", vectors=b""),
    "a bomb": bomb,
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_an_archive_that_is_refused(make: Callable[[], bytes]) -> None:
    Path("a.npz").write_bytes(make())
    with pytest.raises(InputError, match=r"a\.npz: cannot be read as word vectors \(") as caught:
        WordVectors.read("a.npz")
    assert "GloVe" in caught.value.hint


def one_line() -> bytes:
    return bytes(80 << 20)


def many_lines() -> bytes:
    return b"a 1 2\n" * 9_000_000


@pytest.mark.parametrize("make", [one_line, many_lines])
def test_compressed_text_that_expands_too_far_is_refused(
    make: Callable[[], bytes],
) -> None:
    """Also if it has fewer lines than the largest published file: these are more than its bytes."""
    Path("a.txt.gz").write_bytes(gzip.compress(make(), 9))
    with pytest.raises(InputError, match=r"longer than 1\.0 MiB|more than 100,000 lines"):
        WordVectors.read("a.txt.gz")


def test_the_content_of_compressed_text_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.zip_files.MIN_LIMIT", 1 << 10)
    Path("a.txt.gz").write_bytes(gzip.compress(b"a 1 2\n" * 100_000))
    with pytest.raises(InputError, match="its content has more than"):
        WordVectors.read("a.txt.gz")


def test_a_damaged_compressed_file_is_refused() -> None:
    content = bytearray(gzip.compress(GLOVE.encode() * 1_000))
    content[40] ^= 255
    Path("a.gz").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as word vectors"):
        WordVectors.read("a.gz")
