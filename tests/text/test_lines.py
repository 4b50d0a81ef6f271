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
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from text_files import read, refused, tokens, write

from elmo_cli.text import chunks, lines
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.lines import LineReader

COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files_are_recognized_by_their_bytes(text: Path, kind: str) -> None:
    """In several members, with padding, under any name."""
    compress = COMPRESS[kind]
    write(text, compress(b"a b\nc") + compress(b" d\n") + b"\0" * 8 + compress(b"e\n"))
    report = InputReport()
    assert tokens(text, report) == ["a b", "c d", "e"]
    assert report.bytes_read == text.stat().st_size


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files_of_several_chunks(text: Path, kind: str) -> None:
    lines_of_text = [f"line {i} {i * i}" for i in range(20_000)]
    compressed = COMPRESS[kind]("\n".join(lines_of_text).encode())
    assert tokens(write(text, compressed)) == lines_of_text


def without_the_last_byte(content: bytes) -> bytes:
    return content[:-1]


def with_a_changed_byte_in_the_middle(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(content) // 2] ^= 0xFF
    return bytes(changed)


def with_a_changed_byte_near_the_end(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[-6] ^= 0xFF
    return bytes(changed)


def with_more_at_the_end(content: bytes) -> bytes:
    return content + b"more than that"


def with_more_after_padding(content: bytes) -> bytes:
    return content + b"\0" * 8 + b"some more garbage"


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (without_the_last_byte, "ends too early"),
        (with_a_changed_byte_in_the_middle, "is corrupt ("),
        (with_a_changed_byte_near_the_end, "is corrupt ("),
        (with_more_at_the_end, "is corrupt ("),
        (with_more_after_padding, "is corrupt ("),
    ],
)
def test_corrupt_compressed_files_are_refused(
    text: Path, kind: str, damage: Callable[[bytes], bytes], problem: str
) -> None:
    """Otherwise half a corpus passes for a whole one."""
    whole = COMPRESS[kind](np.random.default_rng(1).bytes(5000).hex().encode())
    error = refused(write(text, damage(whole)))
    assert f"the compressed data {problem}" in error.message


MARK = "\ufeffé\n"
# content, encoding, and the lines or the message of the error
BYTES: list[tuple[bytes, str, list[str] | str]] = [
    (b"h\xc3\xa9llo\r\nb\ncaf\xe9 x\n", "utf-8", ", line 3: 0xE9 at byte 4 is not UTF-8"),
    (b"some words\n" * 30_000 + b"\xff\n", "utf-8", ", line 30001: 0xFF at byte 1 is not UTF-8"),
    (b"caf\xe9 x\n", "latin-1", ["café x"]),
    (b"\xef\xbb\xbfa\n\n", "utf-8", ["a", ""]),
    (f"a\n{MARK}\ufeff\ufeffb c".encode(), "utf-8", ["a", "é", "b c"]),
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
        ("a b\n\nċ 10\ne".encode(encoding), encoding, ["a b", "", "ċ 10", "e"])
        for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "utf-8-sig")
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


@pytest.mark.parametrize(
    ("of_mark", "encoding", "right"),
    [("utf-8", "cp1252", "utf-8"), ("utf-16-le", "utf-16-be", "utf-16")],
)
def test_the_hint_names_the_encoding_of_the_mark(
    text: Path, of_mark: str, encoding: str, right: str
) -> None:
    error = refused(write(text, MARK.encode(of_mark)), encoding=encoding)
    assert (error.hint, error.parameters) == (f"`encoding={right!r}`", ("encoding",))


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, "a b")
    return buffer.getvalue()


def saved(save: Callable[..., None], *arrays: object, **named: object) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


TAR = b"a.txt".ljust(257, b"\0") + b"ustar\0"
OTHER_KINDS = {
    "a zip archive": zipped("a.txt"),
    "a PyTorch checkpoint": zipped("archive/data.pkl"),
    "a tar archive": TAR,
    "a tar archive in compressed": gzip.compress(TAR),
    "a Python pickle": pickle.dumps(["a"]),
    "gzip data in compressed data": lzma.compress(gzip.compress(b"a")),
    "bzip2 data": b"BZh91AY&SY\x00",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\n",
    "a Parquet file": b"PAR1\x15\x04\x15\x10",
    "an Arrow file": b"ARROW1\0\0\xff\xff\xff\xff",
    "an Arrow stream": b"\xff\xff\xff\xff\xa0\0\0\0\x10\0\0\0",
    "a NumPy array": saved(np.save, np.zeros(3)),
    "a NumPy archive": saved(np.savez, a=np.zeros(3)),
    "an SQLite database": b"SQLite format 3\0",
    "an image": b"\x89PNG\r\n\x1a\n",
    "a PostScript document": b"%!PS-Adobe-3.0\n",
}
FIRST_LINES = {
    "a web page": b"<!DOCTYPE html>\n<html>\n",
    "a web page (HTML)": b"\n\n  <HTML lang='en'>\n",
    "an XML document": b'<?xml version="1.0"?>\n<TEI>\n',
    "annotations of brat": b"T1\tPER 0 5\tPeter\nT2\tLOC 9 12;14 15\tNew York\n",
    "PubTator": b"10192393|t|A common human skin tumour\n",
    "a web archive (WARC)": b"WARC/1.0\nWARC-Type: response\n",
    "subtitles (WebVTT)": b"WEBVTT\n\n00:01.000 --> 00:04.000\n",
    "a LaTeX document": b"\\documentclass[11pt]{article}\n\\begin{document}\n",
    "an ARFF table of Weka": b"@relation films\n@attribute text string\n",
    "FASTA": b">sp|P1|X a protein\nMKVLAAGIVGLLLAQPSS\n",
    "FASTA, not a text": b">seq1\nACGT\nACGA\n",
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_files_of_other_kinds_are_named(text: Path, kind: str) -> None:
    error = refused(write(text, OTHER_KINDS[kind]))
    assert error.message.startswith(f"{text}: {kind}")
    assert error.message.endswith(", not a text")
    assert " FILE" not in error.hint  # its commands name the file itself


def names_and_kinds() -> Iterator[tuple[str, str]]:
    """Yield each file name with the kinds of data that are refused under it."""
    for kind in FIRST_LINES:
        yield from ((name, kind) for name in ("a.conll", "a.conllu", "a.jsonl"))
        if not kind.startswith("FASTA"):  # which is read
            yield from ((name, kind) for name in ("a.txt", "a.fasta"))


@pytest.mark.parametrize(("name", "kind"), list(names_and_kinds()))
def test_data_with_known_first_lines_are_named(tmp_path: Path, name: str, kind: str) -> None:
    """Whatever the suffix: a page of a server has that of the file that was asked for."""
    path = tmp_path / name
    content = FIRST_LINES[kind]
    line = 1 + len(content) - len(content.lstrip(b"\n"))
    for raw, reading in (
        (content, {}),
        (b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), {}),
        (gzip.compress(content), {"on_error": "skip"}),
        (content.decode().encode("utf-16"), {"encoding": "utf-16"}),
    ):
        error = refused(write(path, raw), **reading)
        assert error.message.startswith(f"{path}, line {line}: {kind}")
        assert error.message.endswith(", not a text")


@pytest.mark.parametrize(
    "content",
    [
        "PAR1 is a gene .\n",
        "PAR1\n",
        "> I agree .\nYES\n",
        ">>> x\nOK then\n",
        "<s> a </s>\nhtml\n",
        "<htmlx> .\n",
        "a\n<html>\n",
        "GIF89a is old .\n",
        "T1 PER 0 5\n",
        "1|t|\n",
        "WARC is a format .\n",
        "WEBVTTs\n",
        "@relation is a tag\n",
    ],
)
def test_texts_that_begin_like_other_data_are_read(text: Path, content: str) -> None:
    assert tokens(write(text, content)) == content.splitlines()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(b"a b\nc\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    report = InputReport()
    sentences = read("-", report)
    assert [(s.source, s.line, s.text) for s in sentences] == [("-", 1, "a b"), ("-", 2, "c")]
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
    tmp_path: Path, first_lines: list[bytes], end: bytes, is_ended: bool, chunk: int
) -> None:
    """With any size of chunks, up to the limit of a line, whatever happens to other lines."""
    raw_lines = [*first_lines, b"b"]
    path = write(tmp_path / "x", end.join(raw_lines) + end * is_ended)
    report = InputReport()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_CHUNK_BYTES", chunk)
        patch.setattr(lines, "_MAX_LINE_BYTES", 19 + len(end))
        reader = LineReader(str(path), InputSettings(on_error="skip"), report)
        lines_read = list(reader.lines())
        write(path, b"b" + end + b"a" * (20 + len(end)) + end)
        assert refused(path, on_error="skip").message.startswith(f"{path}, line 2: no line end")
    assert lines_read == [None if b"\xff" in line else line.decode() for line in raw_lines]
    refused_lines = [number for number, line in enumerate(lines_read, 1) if line is None]
    assert [line for _, line, _ in report.skipped] == refused_lines


def test_an_endless_input_comes_to_an_end(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/zero`, or a pipe from a program that runs wild."""

    def endless_zeros(*_: object) -> Iterator[bytes]:
        while True:
            yield bytes(1 << 20)

    monkeypatch.setattr(chunks, "_raw_chunks", endless_zeros)
    message = refused(write(text, b""), on_error="skip", max_tokens=1).message
    assert message == f"{text}, line 1: no line end within {64 << 20} bytes"


def test_a_file_that_vanishes_is_named(text: Path) -> None:
    sentences = read_sentences(write(text, b"a\n"))
    text.unlink()
    with pytest.raises(ValueError, match=r"corpus\.txt: no such file"):
        next(sentences)
