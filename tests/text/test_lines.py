"""Bytes to lines: compression, encodings, streams, and everything that is not text."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import pickle
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from text_files import read, refused, tokens, write

from elmo_cli.text import lines
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.lines import LineReader

COMPRESS = {
    "gzip": lambda content: gzip.compress(content, 1),
    "xz": lambda content: lzma.compress(content, preset=0),
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files_are_recognised_by_their_bytes(text: Path, kind: str) -> None:
    """In several members, with padding, under any name."""
    compress = COMPRESS[kind]
    write(text, compress(b"a b\nc") + compress(b" d\n") + b"\0" * 8 + compress(b"e\n"))
    report = InputReport()
    assert tokens(text, report) == ["a b", "c d", "e"]
    assert report.bytes_read == text.stat().st_size
    many = [f"line {i} {i * i}" for i in range(50_000)]  # more than one chunk
    assert tokens(write(text, compress("\n".join(many).encode()))) == many


@pytest.mark.parametrize("kind", COMPRESS)
def test_corrupt_compressed_data_is_refused(text: Path, kind: str) -> None:
    """Otherwise half a corpus passes for a whole one."""
    whole = COMPRESS[kind](np.random.default_rng(1).bytes(5000).hex().encode())
    middle, end = bytearray(whole), bytearray(whole)
    middle[len(whole) // 2] ^= 0xFF
    end[-6] ^= 0xFF
    for corrupt, what in (
        (whole[:-1], "ends too early after "),
        (whole[:-9], "ends too early after "),
        (whole[: len(whole) // 2], "ends too early after "),
        (middle, "is corrupt ("),
        (end, "is corrupt ("),
        (whole + b"more than that", "is corrupt ("),
        (whole + b"\0" * 8 + b"some more garbage", "is corrupt ("),
    ):
        error = refused(write(text, bytes(corrupt)))
        assert f"the {kind} data {what}" in error.message
        assert f"{kind} -t {text}" in error.hint


# encoding -> content, line and byte of the error, what the hint says; or the lines
BYTES: dict[str, tuple[bytes, dict[str, str], str | list[str], str]] = {
    "not UTF-8": (b"h\xc3\xa9llo\r\nb\ncaf\xe9 x\n", {}, "line 3, byte 13: 0xE9", "latin-1"),
    "Latin-1": (b"caf\xe9 x\n", {"encoding": "latin-1"}, ["café x"], ""),
    "beyond a chunk": (b"some words\n" * 30_000 + b"\xff\n", {}, "line 30001, byte 330000", "la"),
    "after a mark": (b"\xef\xbb\xbfa\n\xff\n", {}, "line 2, byte 5: 0xFF", "latin-1"),
    "NUL": (b"a\nb\0c\n", {}, "line 2: a NUL at character 2", "`encoding='utf-16-le'`"),
    "UTF-16, no mark": ("a é\n".encode("utf-16-le"), {}, "line 1", "`encoding='utf-16-le'`"),
    "Mac line ends": (b"a\rb\rc\r", {}, "line 1: a carriage return at character 2", "tr '\\r'"),
    "a return inside": (b"x\r\na\rb\n", {}, "line 2: a carriage return at character 2", "tr"),
    "two returns": (b"a\r\r\nb\n", {}, "line 1: a carriage return", "tr"),
    "CRLF": (b"a b\r\n\r\nc\r\n", {}, ["a b", "", "c"], ""),
    "a return at the end": (b"a\r\nb\r", {}, ["a", "b"], ""),
    "utf-16, half a character": ("ab".encode("utf-16") + b"\0", {"encoding": "utf-16"},
                                 "after line 0: not UTF-16 (", "utf-16"),
    "utf-16, no mark": (b"plain text\n", {"encoding": "utf-16"}, "after line 0: not UTF-16 (", ""),
    "utf-7, half a character": (b"a\n+2AA-\n", {"encoding": "utf-7"}, "after line 1: not UTF", ""),
    "utf-16 as UTF-8": ("a\n".encode("utf-16"), {}, "mark of UTF-16, read as UTF-8",
                        "`encoding='utf-16'`"),
    "utf-32 as UTF-8": ("a\n".encode("utf-32"), {}, "mark of UTF-32, read as UTF-8",
                        "`encoding='utf-32'`"),
    "UTF-8 as cp1252": ("\ufeffcafé\n".encode(), {"encoding": "cp1252"}, "mark of UTF-8, read",
                        "`encoding='utf-8'`"),
    "le as be": ("\ufeffé\n".encode("utf-16-le"), {"encoding": "utf-16-be"},
                 "mark in the other byte order", "`encoding='utf-16'`"),
    "be as le": ("\ufeffé\n".encode("utf-16-be"), {"encoding": "utf-16-le"},
                 "mark in the other byte order", "`encoding='utf-16'`"),
    "a mark and le": ("\ufeffb\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, ["b"], ""),
    **{
        kind: ("a b\n\nċ 10\ne".encode(kind), {"encoding": kind}, ["a b", "", "ċ 10", "e"], "")
        for kind in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig")
    },
    "cp037": ("a b\n\nc".encode("cp037"), {"encoding": "cp037"}, ["a b", "", "c"], ""),
    "iso2022": ("日 本\nb\n".encode("iso2022_jp"), {"encoding": "iso2022_jp"}, ["日 本", "b"], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_bytes_become_lines_or_are_refused_where_they_are(text: Path, name: str) -> None:
    """Bytes are counted from 0 in the decompressed file, as `xxd -s` does."""
    content, chosen, expected, hint = BYTES[name]
    for raw in (content, gzip.compress(content)):
        write(text, raw)
        if isinstance(expected, list):
            assert tokens(text, **chosen) == expected
            continue
        error = refused(text, **chosen)
        assert expected in error.message
        assert hint in error.hint


def test_a_utf8_mark_is_removed_and_mentioned_once(tmp_path: Path) -> None:
    """Otherwise the first token of the file has three bytes too many."""
    one = write(tmp_path / "1", b"\xef\xbb\xbfa\n")
    two = write(tmp_path / "2", b"\xef\xbb\xbf")
    report = InputReport()
    assert [s.tokens for s in read_sentences([one, two], report=report)] == [("a",)]
    assert [warning.split(":")[0] for warning in report.warnings] == [str(one), str(two)]


def hdf5() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["0"] = np.zeros(3)
    return buffer.getvalue()


def zipped(name: str = "a.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, "a b")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


def numpy_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (hdf5(), "an HDF5 file"),
        (zipped(), "a zip archive"),
        (zipped("archive/data.pkl"), "a PyTorch checkpoint"),
        (tarred(), "a tar archive"),
        (gzip.compress(tarred()), "a tar archive"),
        (numpy_array(), "a NumPy array"),
        (pickle.dumps(["a"]), "a Python pickle"),
        (gzip.compress(gzip.compress(b"a")), "gzip data compressed twice"),
        (lzma.compress(gzip.compress(b"a")), "gzip data compressed twice"),
        (lzma.compress(lzma.compress(b"a")), "xz data compressed twice"),
        (b"BZh91AY&SY\x00", "bzip2 data"),
        (b"PAR1\x15\x04\x15\x10", "a Parquet file"),
        (b"\x28\xb5\x2f\xfd\x04", "Zstandard data"),
        (b"%PDF-1.4\n", "a PDF document"),
        (b"\x89PNG\r\n\x1a\n\0", "a PNG image"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    ],
)
def test_files_of_other_kinds_are_named(text: Path, content: bytes, what: str) -> None:
    error = refused(write(text, content))
    assert error.message.startswith(f"{text}: {what}")
    assert error.message.endswith(", not a text")


def test_a_text_may_begin_like_bzip2_or_parquet(text: Path) -> None:
    """Otherwise a word, or a gene, at the beginning of a text has it refused."""
    for line in ("BZh is a sign", "PAR1", "PAR1 is a gene"):
        assert tokens(write(text, f"{line}\n")) == [line]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(b"a b\nc\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    report = InputReport()
    assert [(s.source, s.line, s.text) for s in read("-", report)] == [
        ("-", 1, "a b"),
        ("-", 2, "c"),
    ]
    assert report.bytes_read == len(content)
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-").message == "-: standard input is closed"


@pytest.mark.parametrize("when", ["before", "while it is read"])
def test_non_blocking_standard_input_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Otherwise a slow text is truncated where nothing has arrived yet, without an error."""
    source, target = os.pipe()
    os.set_blocking(source, when != "before")

    def send() -> None:
        for line in (b"a b, more than sixteen bytes\n", b"c\n"):
            time.sleep(0.1)
            os.write(target, line)
        time.sleep(0.1)
        os.close(target)

    writer = threading.Thread(target=send)
    writer.start()
    with open(source, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        sentences = read_sentences(["-"])
        assert next(sentences).text.startswith("a b")
        os.set_blocking(source, False)
        assert [s.text for s in sentences] == ["c"]
    writer.join()


def test_a_pipe_is_read_as_it_fills(tmp_path: Path) -> None:
    """Lines must come out before the writer closes, in pieces of any size."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    seen = threading.Event()

    def send() -> None:
        with open(fifo, "wb", buffering=0) as stream:
            for piece in (b"\xc3", b"\xa9 a\r", b"\nb b b b b b b b b\n"):
                stream.write(piece)
            seen.wait(10)
            stream.write(b"c")

    writer = threading.Thread(target=send)
    writer.start()
    sentences = read_sentences(fifo)
    assert next(sentences).text == "é a"
    assert next(sentences).text.startswith("b b")
    seen.set()
    assert [s.text for s in sentences] == ["c"]
    writer.join()


LINES = st.lists(
    st.sampled_from(
        [b"", b"a", b"aaaaaaaaaaaaaaaaaaa", b"a" * 20, b"a" * 21, b"a" * 50, "é".encode()]
    )
)
FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@given(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 64))
@example([b"a" * 20, b"b"], b"\n", True, 1)
@FIXTURE
def test_only_lines_over_the_limit_are_refused(
    tmp_path: Path, given_: list[bytes], end: bytes, is_ended: bool, chunk: int
) -> None:
    """With any size of chunks each line keeps its number, whatever happens to the others."""
    given_ = [*given_, b"b"]
    path = write(tmp_path / "x", end.join(given_) + end * is_ended)
    report = InputReport()
    reader = LineReader(str(path), InputSettings(on_error="skip"), report)
    reader.max_line_bytes = 19 + len(end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        found = list(reader.lines())
    expected = [line.decode() if len(line) <= 20 else None for line in given_]
    assert found == expected
    assert [line for _, line, _ in report.skipped] == [
        number for number, line in enumerate(found, 1) if line is None
    ]


def test_a_line_without_end_is_refused_in_bounded_memory(text: Path) -> None:
    write(text, gzip.compress(b"a\n" + b"b" * (65 << 20) + b"\nc\n", 1))
    error = refused(text)
    assert error.message == f"{text}, line 2: no line end within {64 << 20} bytes"
    report = InputReport()
    assert tokens(text, report, on_error="skip") == ["a", "c"]
    assert [line for _, line, _ in report.skipped] == [2]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize(
    "endless", [lambda: b"\0" * (1 << 20), lambda: b"a" * (1 << 20)], ids=["zeros", "letters"]
)
def test_an_endless_input_comes_to_an_end(
    text: Path, monkeypatch: pytest.MonkeyPatch, on_error: str, endless: Callable[[], bytes]
) -> None:
    """`/dev/zero`, or a pipe from a program that runs wild."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr(lines, "_MAX_SKIPPED_BYTES", 4 << 20)
    monkeypatch.setattr("elmo_cli.text.text_bytes._raw_chunks", lambda *_: iter(endless, b""))
    message = refused(write(text, b""), on_error=on_error, max_tokens=1).message
    assert message.startswith(f"{text}, line 1: no line end within ")


def test_a_token_of_10_megabytes_is_one_token(text: Path) -> None:
    report = InputReport()
    first, second = read(write(text, b"a " + b"b" * 10_000_000 + b"\nc\n"), report)
    assert len(first.tokens[1]) == 10_000_000
    assert second.key == 1
    assert report.truncated_tokens == 1


def test_a_file_that_vanishes_is_named(text: Path) -> None:
    sentences = read_sentences(write(text, b"a\n"))
    text.unlink()
    with pytest.raises(ValueError, match=r"corpus\.txt: no such file"):
        next(sentences)
