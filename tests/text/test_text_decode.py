"""Bytes to lines: compression, encodings, streams, and everything that is no text."""

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
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text import decode
from elmo_cli.text.decode import Source
from elmo_cli.text.formats import Notes, read_sentences
from elmo_cli.text.settings import InputSettings

COMPRESS = {
    "gzip": lambda content: gzip.compress(content, 1),
    "xz": lambda content: lzma.compress(content, preset=0),
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


def tokens(path: Path | str, notes: Notes | None = None, **settings: object) -> list[str]:
    sentences = read_sentences(path, InputSettings(**settings), notes)  # type: ignore[arg-type]
    return [" ".join(sentence.tokens) for sentence in sentences]


def refused(path: Path | str, **settings: object) -> InputError:
    with pytest.raises(InputError) as caught:
        tokens(path, **settings)
    return caught.value


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_files_are_known_by_their_bytes(text: Path, kind: str) -> None:
    """Also in several members, with padding, whatever the name; without this, vectors of noise."""
    compress = COMPRESS[kind]
    text.write_bytes(compress(b"a b\nc") + compress(b" d\n") + b"\0" * 8 + compress(b"e\n"))
    notes = Notes()
    assert tokens(text, notes) == ["a b", "c d", "e"]
    assert notes.bytes_read == text.stat().st_size


@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_data_larger_than_a_piece(text: Path, kind: str) -> None:
    """The decompressors hand out pieces; none may be lost, at whatever border."""
    lines = [f"line {i} {i * i}" for i in range(50_000)]
    text.write_bytes(COMPRESS[kind]("\n".join(lines).encode()))
    assert tokens(text) == lines


@pytest.mark.parametrize("kind", COMPRESS)
def test_truncated_compressed_data_is_refused(text: Path, kind: str) -> None:
    """Without this, half a corpus passes for a whole one."""
    whole = COMPRESS[kind](b"a b\n" * 10_000)
    for n_lost in (1, 9, len(whole) // 2):
        text.write_bytes(whole[:-n_lost])
        error = refused(text)
        assert f"{text}: the {kind} data ends too early after " in error.message
        assert f"{kind} -t {text}" in error.hint


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("damage", ["middle", "end", "after"])
def test_damaged_compressed_data_is_refused(text: Path, kind: str, damage: str) -> None:
    whole = bytearray(COMPRESS[kind](np.random.default_rng(1).bytes(5000).hex().encode()))
    if damage == "after":
        whole += b"more than that"
    else:
        place = len(whole) // 2 if damage == "middle" else len(whole) - 6
        whole[place] ^= 0xFF
    text.write_bytes(whole)
    assert f"{text}: the {kind} data is damaged (" in refused(text).message


def test_bytes_that_are_no_utf8_are_named_with_their_place(text: Path) -> None:
    """The byte is counted from 0 in the decompressed file, as `xxd -s` does."""
    content = "héllo\r\nb\n".encode() + b"caf\xe9 x\n"
    for raw in (content, gzip.compress(content)):
        text.write_bytes(raw)
        error = refused(text)
        assert error.message == f"{text}, line 3, byte 13: 0xE9 is not UTF-8"
        assert content[13] == 0xE9
        assert "--encoding latin-1" in error.hint
    assert tokens(text, encoding="latin-1") == ["hÃ©llo", "b", "café x"]


def test_byte_places_hold_beyond_the_first_piece_and_after_a_mark(text: Path) -> None:
    content = b"\xef\xbb\xbf" + b"some words\n" * 30_000 + b"\xff\n"
    text.write_bytes(content)
    assert f"line 30001, byte {len(content) - 2}: 0xFF" in refused(text).message


def test_a_nul_is_refused(text: Path) -> None:
    text.write_bytes(b"a\nb\0c\n")
    error = refused(text)
    assert error.message == f"{text}, line 2: a NUL at character 2; this is not a text"
    assert "--encoding utf-16-le" in error.hint


@pytest.mark.parametrize("kind", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037"])
def test_encodings_not_based_on_ascii(text: Path, kind: str) -> None:
    """In these, bytes 10 and 13 are no line ends."""
    lines = ["a b", "", "ċ 10", "e"] if kind != "cp037" else ["a b", "", "c", "e"]
    text.write_bytes("\n".join(lines).encode(kind))
    assert tokens(text, encoding=kind) == lines
    assert tokens(text, encoding=kind) == lines


def test_a_wide_encoding_that_does_not_fit_is_refused(text: Path) -> None:
    text.write_bytes("ab".encode("utf-16") + b"\0")
    assert f"{text}, after byte 7: not UTF-16 (" in refused(text, encoding="utf-16").message
    text.write_bytes(b"plain text\n")
    assert "not UTF-16 (" in refused(text, encoding="utf-16").message
    text.write_bytes(b"+2AA-\n")  # a lone surrogate, which UTF-7 can write
    assert "not UTF-7 (" in refused(text, encoding="utf-7").message


def test_a_utf8_mark_is_left_out_and_mentioned_once(tmp_path: Path) -> None:
    """Without this, the first token of the file has three bytes too many."""
    one, two, three = (tmp_path / name for name in ("1", "2", "3"))
    one.write_bytes(b"\xef\xbb\xbfa\n")
    two.write_bytes(b"\xef\xbb\xbf")
    three.write_bytes("\ufeffb\n".encode("utf-16-le"))
    notes = Notes()
    assert [s.tokens for s in read_sentences([one, two], notes=notes)] == [("a",)]
    assert notes.warnings == [
        f"{one}: begins with a byte order mark, left out",
        f"{two}: empty, without any line",
    ]
    assert tokens(three, encoding="utf-16-le") == ["b"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_wide_mark_asks_for_its_encoding(text: Path, encoding: str) -> None:
    text.write_bytes("a\n".encode(encoding))
    error = refused(text)
    assert f"{text}: the byte order mark of {encoding.upper()}, read as UTF-8" == error.message
    assert error.hint == f"add `--encoding {encoding}`"


def test_a_mark_that_contradicts_the_encoding_is_no_text(text: Path) -> None:
    text.write_bytes("\ufeffcafé\n".encode())
    error = refused(text, encoding="cp1252")
    assert error.message == f"{text}: the byte order mark of UTF-8, read as CP1252"
    assert error.hint == "give `--encoding utf-8`"
    for order, other in (("le", "be"), ("be", "le")):
        text.write_bytes("\ufeffcafé\n".encode(f"utf-16-{order}"))
        error = refused(text, encoding=f"utf-16-{other}")
        assert "a byte order mark with its bytes turned" in error.message
        assert tokens(text, encoding="utf-16") == ["café"]


def hdf5() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["0"] = np.zeros(3)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.txt", "a b")
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
        (tarred(), "a tar archive"),
        (gzip.compress(tarred()), "a tar archive"),
        (numpy_array(), "a numpy array"),
        (pickle.dumps(["a"]), "a Python pickle"),
        (gzip.compress(gzip.compress(b"a")), "compressed twice (gzip)"),
        (lzma.compress(lzma.compress(b"a")), "compressed twice (xz)"),
        (b"BZh91AY&SY\x00", "bzip2 data"),
        (b"PAR1\x15\x04\x15\x10", "a Parquet file"),
        (b"\x28\xb5\x2f\xfd\x04", "Zstandard data"),
        (b"%PDF-1.4\n", "a PDF document"),
        (b"\x89PNG\r\n\x1a\n\0", "a PNG picture"),
    ],
)
def test_what_is_no_text_is_called_by_its_name(text: Path, content: bytes, what: str) -> None:
    text.write_bytes(content)
    error = refused(text)
    assert error.message.startswith(f"{text}: {what}")
    assert error.message.endswith(", not a text")
    assert error.hint


def test_a_text_may_begin_like_bzip2_or_parquet(text: Path) -> None:
    """Without it a word, or a gene, at the beginning of a text has it refused."""
    for line in ("BZh is a sign", "PAR1", "PAR1 is a gene"):
        text.write_bytes(f"{line}\n".encode())
        assert tokens(text) == [line]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(b"a b\nc\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    notes = Notes()
    sentences = list(read_sentences(["-"], notes=notes))
    assert [(s.source, s.line, s.text) for s in sentences] == [("-", 1, "a b"), ("-", 2, "c")]
    assert notes.bytes_read == len(content)
    assert not sys.stdin.buffer.closed


def test_standard_input_that_does_not_wait_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it a text that comes slowly is cut where nothing has come yet, without a word."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write() -> None:
        for line in (b"a b\n", b"c\n"):
            time.sleep(0.1)
            os.write(writing, line)
        time.sleep(0.1)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert [s.text for s in read_sentences(["-"])] == ["a b", "c"]
        assert not os.get_blocking(reading)
    writer.join()


def test_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-").message == "-: standard input is closed"


def test_a_fifo_is_read_as_it_fills(tmp_path: Path) -> None:
    """Lines must come out before the writer closes, in pieces of any size."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    seen = threading.Event()

    def write() -> None:
        with open(fifo, "wb", buffering=0) as stream:
            for piece in (b"\xc3", b"\xa9 a\r", b"\nb b b b b b b b b\n"):
                stream.write(piece)
            seen.wait(10)
            stream.write(b"c")

    writer = threading.Thread(target=write)
    writer.start()
    sentences = read_sentences(fifo)
    assert next(sentences).text == "é a"
    assert next(sentences).text.startswith("b b")
    seen.set()
    assert [s.text for s in sentences] == ["c"]
    writer.join()


def test_names_are_checked_before_any_file_is_read(text: Path, tmp_path: Path) -> None:
    """Without this, a mistyped name stops a run only after hours."""
    text.write_bytes(b"a\n")
    with pytest.raises(InputError) as caught:
        read_sentences([text, tmp_path / "corpsu.txt"])
    assert caught.value.message == f"{tmp_path / 'corpsu.txt'}: no such file"
    assert os.getcwd() in caught.value.hint
    with pytest.raises(InputError, match=": a folder, not a file"):
        read_sentences([text, tmp_path])
    with pytest.raises(InputError, match=r": can't be read \(Not a directory\)"):
        read_sentences([text / "x"])
    with pytest.raises(InputError, match=r": can't be read \(embedded null byte\)"):
        read_sentences(["a\0b"])


def test_no_permission_is_said(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"corpus\.txt: no permission to read it"):
        read_sentences(text)


def test_a_file_that_vanishes_is_named(text: Path) -> None:
    text.write_bytes(b"a\n")
    sentences = read_sentences(text)
    text.unlink()
    with pytest.raises(InputError, match=r"corpus\.txt: no such file"):
        next(sentences)


@pytest.mark.parametrize(
    ("paths", "message"), [([], "no input"), (["-", "-"], "-: standard input is named twice")]
)
def test_no_name_and_standard_input_twice_are_refused(paths: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_sentences(paths)
    assert caught.value.message.startswith(message)


def split(pieces: list[bytes], most: int = decode.MAX_LINE_BYTES) -> list[str | None]:
    """The lines of a source whose bytes come in these pieces."""
    source = Source("x", InputSettings(on_error="skip", encoding="latin-1"), Notes())
    source.max_line_bytes = most
    chunks = iter(pieces)

    def received() -> Iterator[bytes]:
        for chunk in chunks:
            source._received += len(chunk)
            yield chunk

    source._text_bytes = lambda recode: received()  # type: ignore[method-assign]
    return list(source.lines())


@given(st.lists(st.text("a\r\n", min_size=1).map(str.encode)))
def test_lines_do_not_depend_on_the_pieces(pieces: list[bytes]) -> None:
    """A line end may fall on any border of pieces; a doubled line would shift all keys."""
    whole = b"".join(pieces)
    expected = io.StringIO(whole.decode(), newline=None).read().split("\n")
    if expected[-1] == "":
        expected.pop()
    assert split(pieces) == expected


@given(
    st.lists(st.sampled_from([b"a", b"aaaaaaaaa", b"aaaa\r", b"\r", b"\n", b"b\r\nc"]), max_size=20)
)
@example([b"aaaaaaaaa", b"aaaaaaaaa", b"aaaa\r", b"c\nd\n"])
@example([b"aaaaaaaaa", b"aaaaaaaaa", b"aaaa\r", b"\nc\nd\n"])
@example([b"aaaaaaaaa", b"aaaaaaaaa", b"aaaa\r"])
def test_overlong_lines_are_left_out_alone(pieces: list[bytes]) -> None:
    """Whatever the pieces, only a line over the limit may be lost, and it keeps its number."""
    whole = split(pieces)
    short = split(pieces, most=20)
    assert len(short) == len(whole)
    for line, taken in zip(whole, short, strict=True):
        assert taken == line or (taken is None and line is not None and len(line) > 11)


def test_a_line_without_end_is_refused_in_bounded_memory(text: Path) -> None:
    text.write_bytes(gzip.compress(b"a\n" + b"b" * (65 << 20) + b"\nc\n", 1))
    error = refused(text)
    assert error.message == f"{text}, line 2: no line end within {64 << 20} bytes"
    notes = Notes()
    assert tokens(text, notes, on_error="skip") == ["a", "c"]
    assert [line for _, line, _ in notes.skipped] == [2]


def test_a_token_of_10_megabytes_is_one_token(text: Path) -> None:
    text.write_bytes(b"a " + b"b" * 10_000_000 + b"\nc\n")
    notes = Notes()
    first, second = read_sentences(text, notes=notes)
    assert len(first.tokens[1]) == 10_000_000
    assert second.key == 1
    assert notes.truncated_tokens == 1
