"""Any bytes give sentences or one of our errors, and memory does not grow with the lines."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_cli.errors import InputError
from elmo_cli.text.input import InputReport, InputSettings, read_sentences

PARTS = st.sampled_from(
    b"\n|\r\n|\r|\t| |\0|\xe9|\xef\xbb\xbf|\xc3\xa9|a|1\tThe\t_|2-3\tx|8.1\ty|# newdoc id = d"
    b"|-DOCSTART-|#|# x y|#tag|\x0c|0 a|1 b X|2 c X|s1 a|s1 b|a\tO\n"
    b'|#begin document (a/b); part 000|#end document|{"tokens": ["a"]}|{"text":|"b"}'
    b'|{"doc_key": "d_1", "sentences": [["a"], []]}|"\\ud800"|[|\xff\xfe'
    b"|>|>a|>b c\n|*|;".split(b"|")
)
FILES = st.one_of(st.binary(max_size=200), st.lists(PARTS, max_size=30).map(b"".join))
PACKED = FILES.map(gzip.compress) | FILES.map(lzma.compress)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A compressed file of which one byte is changed, unless it is shorter."""
    content = bytearray(draw(PACKED))
    position = draw(st.integers(0, 300))
    mask = draw(st.integers(1, 255))
    if position < len(content):
        content[position] ^= mask
    return bytes(content)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    content=FILES | PACKED | damaged(),
    text_format=st.sampled_from(["plain", "conll", "conllu", "jsonl", "fasta"]),
    encoding=st.sampled_from(["utf-8", "latin-1", "utf-16", "utf-7", "shift_jis", "iso2022_jp"]),
    on_error=st.sampled_from(["stop", "skip"]),
    blank=st.sampled_from(["keep", "skip", "error"]),
)
@example(b"\xef\xbb\xbf", "conll", "utf-8", "stop", "keep")
@example(b"\r", "plain", "utf-8", "skip", "error")
def test_any_bytes_give_sentences_or_an_error_that_names_the_file(
    tmp_path: Path, content: bytes, text_format: str, encoding: str, on_error: str, blank: str
) -> None:
    """No file causes a traceback, and keys increase."""
    path = tmp_path / "corpus"
    path.write_bytes(content)
    chosen = InputSettings(
        text_format, encoding=encoding, on_error=on_error, blank=blank, max_tokens=5
    )
    report = InputReport()
    sentences = []
    error = None
    try:
        sentences = list(read_sentences(path, chosen, report))
    except InputError as raised:
        error = raised
    assert error is None or (str(path) in error.message and error.hint)
    keys = [sentence.key for sentence in sentences]
    assert keys == sorted(set(keys))
    assert all(token and "\0" not in token for s in sentences for token in s.tokens)
    assert all(s.text.encode() is not None for s in sentences)
    assert error or report.bytes_read == len(content)


@pytest.mark.parametrize(
    ("text_format", "sentence"),
    [
        ("plain", b"The cat sat\n"),
        ("conll", b"The DT\ncat NN\nsat VBD\n\n"),
        ("conllu", b"1\tThe\n2\tcat\n3\tsat\n\n"),
        ("jsonl", b'{"tokens": ["The", "cat", "sat"]}\n'),
    ],
)
def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, text_format: str, sentence: bytes
) -> None:
    """Otherwise a run over a large corpus is killed for its memory: the sentences take 4 MB."""
    path = tmp_path / "corpus.gz"
    path.write_bytes(gzip.compress(sentence * 8_000, 1))
    tracemalloc.start()
    try:
        n_sentences = sum(1 for _ in read_sentences(path, InputSettings(text_format)))
        assert n_sentences == 8_000
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
