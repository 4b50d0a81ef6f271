"""Bytes to lines: compression, encodings, streams, and everything that is not text."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import pickle
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from text_files import read, refused, tokens, write

from elmo_cli.text import lines
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.lines import LineReader

COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files_are_recognized_by_their_bytes_and_refused_if_corrupt(
    text: Path, kind: str
) -> None:
    """In several members, with padding, under any name."""
    compress = COMPRESS[kind]
    write(text, compress(b"a b\nc") + compress(b" d\n") + b"\0" * 8 + compress(b"e\n"))
    report = InputReport()
    assert tokens(text, report) == ["a b", "c d", "e"]
    assert report.bytes_read == text.stat().st_size
    many = [f"line {i} {i * i}" for i in range(20_000)]  # more than one chunk
    assert tokens(write(text, compress("\n".join(many).encode()))) == many
    # Otherwise half a corpus passes for a whole one.
    whole = COMPRESS[kind](np.random.default_rng(1).bytes(5000).hex().encode())
    middle, end = bytearray(whole), bytearray(whole)
    middle[len(whole) // 2] ^= 0xFF
    end[-6] ^= 0xFF
    for corrupt, what in (
        (whole[:-1], "ends too early"),
        (middle, "is corrupt ("),
        (end, "is corrupt ("),
        (whole + b"more than that", "is corrupt ("),
        (whole + b"\0" * 8 + b"some more garbage", "is corrupt ("),
    ):
        error = refused(write(text, bytes(corrupt)))
        assert f"the compressed data {what}" in error.message


MARK = "\ufeffé\n"
# content, encoding, and the lines or the message of the error
BYTES: list[tuple[bytes, str, list[str] | str]] = [
    (b"h\xc3\xa9llo\r\nb\ncaf\xe9 x\n", "utf-8", ", line 3: 0xE9 at byte 4 is not UTF-8"),
    (b"some words\n" * 30_000 + b"\xff\n", "utf-8", ", line 30001: 0xFF at byte 1 is not UTF-8"),
    (b"caf\xe9 x\n", "latin-1", ["café x"]),
    (b"\xef\xbb\xbfa\n\n", "utf-8", ["a", ""]),
    (f"a\n{MARK}b \ufeffc".encode(), "utf-8", ["a", "é", "b \ufeffc"]),
    ("a\n".encode("utf-16") + MARK.encode("utf-16-le"), "utf-16", ["a", "é"]),
    (b"a\nb\0c\n", "utf-8", ", line 2: a NUL at character 2"),
    ("a é\n".encode("utf-16-le"), "utf-8", ", line 1: "),
    (b"a\rb\rc\r", "utf-8", ", line 1: a carriage return at character 2"),
    (b"x\r\na\rb\n", "utf-8", ", line 2: a carriage return at character 2"),
    (b"a\r\r\nb\n", "utf-8", ", line 1: a carriage return at character 2"),
    (b"a b\r\n\r\nc\r\n", "utf-8", ["a b", "", "c"]),
    (b"a\r\nb\r", "utf-8", ["a", "b"]),
    ("ab".encode("utf-16") + b"\0", "utf-16", ": not UTF-16 ("),
    (b"plain text\n", "utf-16", ": not UTF-16 ("),
    (b"a\n+2AA-\n", "utf-7", ": not UTF-7 ("),
    ("a\n".encode("utf-16"), "utf-8", ", line 1: 0xFF at byte 1 is not UTF-8"),
    ("a\n".encode("utf-16"), "latin-1", ", line 1: a NUL"),
    (MARK.encode(), "cp1252", ": `encoding='cp1252'` contradicts the byte order mark"),
    (MARK.encode("utf-16-le"), "utf-16-be", ": `encoding='utf-16-be'` contradicts"),
    (MARK.encode("utf-16-be"), "utf-16-le", ": `encoding='utf-16-le'` contradicts"),
    (MARK.encode("utf-16-le"), "utf-16-le", ["é"]),
    *(
        ("a b\n\nċ 10\ne".encode(kind), kind, ["a b", "", "ċ 10", "e"])
        for kind in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig")
    ),
    ("a b\n\nc".encode("cp037"), "cp037", ["a b", "", "c"]),
    ("日 本\nb\n".encode("iso2022_jp"), "iso2022_jp", ["日 本", "b"]),
    (b"BZh is a sign\n", "utf-8", ["BZh is a sign"]),  # bzip2 begins so
    (b"PK\nand so on\n", "utf-8", ["PK", "and so on"]),  # and zip
]


@pytest.mark.parametrize(("content", "encoding", "expected"), BYTES)
def test_bytes_become_lines_or_are_refused_where_they_are(
    text: Path, content: bytes, encoding: str, expected: list[str] | str
) -> None:
    """A byte order mark would make the first token three bytes longer."""
    for raw in (content, gzip.compress(content)):
        write(text, raw)
        if isinstance(expected, list):
            assert tokens(text, encoding=encoding) == expected
        else:
            assert refused(text, encoding=encoding).message.startswith(f"{text}{expected}")


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, "a b")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (zipped("a.txt"), "a zip archive"),
        (zipped("archive/data.pkl"), "a PyTorch checkpoint"),
        (b"a.txt".ljust(257, b"\0") + b"ustar\0", "a tar archive"),
        (gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar\0"), "a tar archive in compressed"),
        (pickle.dumps(["a"]), "a Python pickle"),
        (lzma.compress(gzip.compress(b"a")), "gzip data in compressed data"),
        (b"BZh91AY&SY\x00", "bzip2 data"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_of_other_kinds_are_named(text: Path, content: bytes, what: str) -> None:
    error = refused(write(text, content))
    assert error.message.startswith(f"{text}: {what}")
    assert error.message.endswith(", not a text")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(b"a b\nc\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    report = InputReport()
    found = [(s.source, s.line, s.text) for s in read("-", report)]
    assert found == [("-", 1, "a b"), ("-", 2, "c")]
    assert report.bytes_read == len(content)
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-").message == "-: standard input is closed"


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_stream_is_read_as_it_fills_and_to_its_end(
    monkeypatch: pytest.MonkeyPatch, is_blocking: bool
) -> None:
    """In pieces of any size; an empty read where nothing has arrived yet is not the end."""
    source, target = os.pipe()
    os.set_blocking(source, is_blocking)
    seen = threading.Event()

    def send() -> None:
        with open(target, "wb", buffering=0) as stream:
            for piece in (b"\xc3", b"\xa9 a\r", b"\nb b b b b b b b b\n"):
                time.sleep(0.05)
                stream.write(piece)
            in_time = seen.wait(10)
            time.sleep(0.05)
            stream.write(b"c" if in_time else b"too late")

    threading.Thread(target=send).start()
    with open(source, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        sentences = read_sentences("-")
        assert [next(sentences).text, next(sentences).text] == ["é a", "b b b b b b b b b"]
        os.set_blocking(source, False)  # while it is read
        seen.set()
        assert [s.text for s in sentences] == ["c"]


LINES = st.lists(st.sampled_from([b"", b"a", b"a" * 19, b"a" * 20, b"\xff" * 20, "é".encode()]))


@given(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 64))
@example([b"a" * 20, b"b"], b"\n", True, 1)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lines_keep_their_numbers(
    tmp_path: Path, given_: list[bytes], end: bytes, is_ended: bool, chunk: int
) -> None:
    """With any size of chunks, up to the limit of a line, whatever happens to other lines."""
    given_ = [*given_, b"b"]
    path = write(tmp_path / "x", end.join(given_) + end * is_ended)
    report = InputReport()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_CHUNK_BYTES", chunk)
        patch.setattr(lines, "_MAX_LINE_BYTES", 19 + len(end))
        found = list(LineReader(str(path), InputSettings(on_error="skip"), report).lines())
        write(path, b"b" + end + b"a" * (20 + len(end)) + end)
        assert refused(path, on_error="skip").message.startswith(f"{path}, line 2: no line end")
    assert found == [None if b"\xff" in line else line.decode() for line in given_]
    refused_lines = [number for number, line in enumerate(found, 1) if line is None]
    assert [line for _, line, _ in report.skipped] == refused_lines


def test_an_endless_input_comes_to_an_end(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/zero`, or a pipe from a program that runs wild."""
    monkeypatch.setattr(lines, "_raw_chunks", lambda *_: iter(lambda: b"\0" * (1 << 20), b""))
    message = refused(write(text, b""), on_error="skip", max_tokens=1).message
    assert message == f"{text}, line 1: no line end within {64 << 20} bytes"


def test_a_file_that_vanishes_is_named(text: Path) -> None:
    sentences = read_sentences(write(text, b"a\n"))
    text.unlink()
    with pytest.raises(ValueError, match=r"corpus\.txt: no such file"):
        next(sentences)
