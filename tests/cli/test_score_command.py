"""`elmo score`: its tables, its object of --json, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import math
import shutil
from collections import defaultdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import documented, elmo, made, refused

pytestmark = pytest.mark.usefixtures("language_model")

COLUMNS = ["sentence_id", "token_id", "token", "surprisal", "backward_surprisal", "unknown"]


def rows_of(table: bytes) -> list[dict[str, str]]:
    """The rows of a table, as a program with the default settings of CSV reads them."""
    return list(csv.DictReader(StringIO(table.decode(), newline=""), delimiter="\t"))


def scored(*words: object, stdin: bytes = b"") -> list[dict[str, str]]:
    """The rows of a table on standard output."""
    return rows_of(made("score", "-m", "model", *words, stdin=stdin).out)


def test_sums_equal_those_of_perplexity() -> None:
    """Per token and per sentence, in bits and nats; with blank lines and two files."""
    lines = Path("text").read_text().splitlines()
    Path("second").write_text("\n" + "\n\n".join(lines[:9]) + "\n")
    made("perplexity", "text", "second", "-m", "model", "-o", "table")
    expected = rows_of(Path("table").read_bytes())
    per_sentence = scored("text", "second", "--per", "sentence", "--unit", "nats")
    assert len(per_sentence) == len(expected) == 39
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in scored("text", "second"):
        for column in ("surprisal", "backward_surprisal"):
            sums[row["sentence_id"], column] += float(row[column] or 0)
    for row, figures in zip(per_sentence, expected, strict=True):
        for name in ("source", "line", "tokens", "unknown"):
            assert row[name] == figures[name]
        directions = (("surprisal", "forward"), ("backward_surprisal", "backward"))
        for column, direction in directions:
            nll = -float(figures[direction])
            assert float(row[column]) == pytest.approx(nll, rel=1e-5)
            bits = sums[row["sentence_id"], column]
            assert bits == pytest.approx(nll / math.log(2), rel=1e-5)
    ids = [int(row["sentence_id"]) for row in per_sentence]
    assert ids == [*range(1, 31), *range(32, 50, 2)]  # keys of embed plus one


def test_the_table_per_token() -> None:
    known = Path("model/vocab.txt").read_text().split("\n")[4]
    rows = scored("-", stdin=f'{known} " qwx"y\n'.encode())
    assert list(rows[0]) == COLUMNS
    shown = [
        [row[name] for name in ("sentence_id", "token_id", "token", "unknown")] for row in rows
    ]
    assert shown == [
        ["1", "0", "<S>", "0"],
        ["1", "1", known, "0"],
        ["1", "2", '"', "0"],
        ["1", "3", 'qwx"y', "1"],
        ["1", "4", "</S>", "0"],
    ]
    is_empty = [(row["surprisal"] == "", row["backward_surprisal"] == "") for row in rows]
    assert is_empty == [(True, False), *[(False, False)] * 3, (False, True)]


def test_the_digits_of_the_table_give_each_float32_back() -> None:
    facts = json.loads(made("score", "-m", "model", "text", "--json", "--unit", "nats").out)
    shown = scored("text", "--unit", "nats")
    n_compared = 0
    for row, exact in zip(shown, facts["scores"], strict=True):
        for column in ("surprisal", "backward_surprisal"):
            if exact[column] is not None:
                assert np.float32(row[column]) == np.float32(exact[column])
                n_compared += 1
    assert n_compared > 100


def test_tokens_with_control_characters_and_quotes_stay_in_one_row() -> None:
    tokens = ["the", "a\tb", "c\nd", '"e\r', "\x1b[1m"]
    Path("text.jsonl").write_text(json.dumps({"tokens": tokens}) + "\n")
    done = made("score", "text.jsonl", "-m", "model")
    assert done.out.count(b"\n") == 1 + len(tokens) + 2
    shown = [row["token"] for row in rows_of(done.out)[1:-1]]
    assert shown == ["the", r"a\tb", r"c\nd", r'"e\r', r"\x1b[1m"]


def test_spelling_is_added_to_the_unknown_tokens() -> None:
    rows = scored("text", "--spelling")
    assert list(rows[0]) == [*COLUMNS, "spelling"]
    spelling = 0.0
    for row in rows:
        assert (float(row["spelling"]) > 0) == (row["unknown"] == "1")
        spelling += float(row["spelling"])
    facts = json.loads(made("perplexity", "text", "-m", "model", "--json").out)
    n_bytes = len(Path("text").read_bytes())
    assert spelling == pytest.approx(facts["bits_per_byte"]["spelling"] * n_bytes, rel=1e-5)
    per_sentence = scored("text", "--spelling", "--per", "sentence", "--unit", "nats")
    nats = sum(float(row["spelling"]) for row in per_sentence)
    assert nats == pytest.approx(spelling * math.log(2), rel=1e-5)


def test_compressed_text_and_a_file_as_output() -> None:
    content = Path("text").read_bytes()
    Path("a.txt.gz").write_bytes(gzip.compress(content))
    Path("b.txt.xz").write_bytes(lzma.compress(content))
    expected = made("score", "text", "-m", "model")
    assert "30 sentences, 264 tokens, " in expected.err
    for name in ("a.txt.gz", "b.txt.xz"):
        done = made("score", name, "-m", "model", "-o", "out.tsv", "-f")
        assert Path("out.tsv").read_bytes() == expected.out
        assert done.out.decode().splitlines()[-1] == "model model"
    pair = ["--options-file", "model/options.json", "--weight-file", "model/weights.hdf5"]
    assert made("score", "text", *pair).err.splitlines()[-1] == "model model/weights.hdf5"


def test_the_object_of_json() -> None:
    """It has the rows unless they are in a file; and the fields that the page lists."""
    facts: dict[str, Any] = json.loads(made("score", "text", "-m", "model", "--json").out)
    assert len(facts["scores"]) == 264 + 2 * 30
    assert list(facts["scores"][0]) == COLUMNS
    assert facts["scores"][0]["surprisal"] is None
    for column, direction in (("surprisal", "forward"), ("backward_surprisal", "backward")):
        total = sum(row[column] or 0 for row in facts["scores"])
        assert facts["surprisal"][direction] == pytest.approx(total)
    assert facts["unknown"] == sum(row["unknown"] for row in facts["scores"])
    words = ("score", "text", "-m", "model", "--json", "--spelling")
    in_file = json.loads(made(*words, "-o", "out.tsv").out)
    assert {**in_file, "scores": []}.keys() == {*facts, "spelling"}
    page = documented("score")
    assert all(f"`{field}`" in page for field in {*facts, "spelling"})


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        ("text --json -o -", 2, "--json: has no effect for standard output", "leave it out"),
        ("text -f", 2, "--overwrite: has no effect without --output", "leave it out"),
        ("text -o table", 1, "table: exists", "--overwrite"),
        ("text -o text -f", 2, "text: is also ", ""),
        ("text -o model/vocab.txt -f", 2, "model/vocab.txt: is also a file of the model", ""),
        ("text --vocabulary types -o types -f", 2, "types: is also a file of", ""),
        ("nosuch", 1, "nosuch: ", ""),
        ("blank", 1, "blank: contains no sentences", ""),
        ("unknown", 1, "unknown: tokens of the text in the vocabulary: none", "--tokenize"),
        ("latin", 1, "latin, line 2: ", ""),
    ],
)
def test_refused_commands_of_score(words: str, code: int, message: str, hint: str) -> None:
    Path("table").write_text("mine")
    Path("blank").write_text("\n\n")
    Path("unknown").write_text("xyzzy qqq\n")
    Path("latin").write_bytes(b"the\ncaf\xe9\n")
    shutil.copy("model/vocab.txt", "types")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = elmo("score", *words.split(), "-m", "model")
    refused(done, code, message, hint)
    assert done.out == b""
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_skipped_lines_keep_the_numbers_of_the_others() -> None:
    Path("latin").write_bytes(b"the\ncaf\xe9\nthe\n")
    done = elmo("score", "latin", "-m", "model", "--on-error", "skip", "--per", "sentence")
    refused(done, 3, "1 line was left out", "")
    assert [row["sentence_id"] for row in rows_of(done.out)] == ["1", "3"]
