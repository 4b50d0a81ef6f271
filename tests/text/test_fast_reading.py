"""Lines that are decoded together and trees of words alone are read as the plain way reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elmo_cli.errors import InputError
from elmo_cli.text import conllu_rows, lines
from elmo_cli.text.control_characters import is_refused_in_utf8, pattern_for_lines
from elmo_cli.text.input import InputReport, InputSettings, read_sentences

TREE = "# sent_id = 1\n# text = a b\n1\ta\tA\tDET\n2\tb c\tB\tNOUN\n"
LONG = "".join(f"{number}\tw\t_\n" for number in range(1, 1203))
TEXTS = {
    "words": TREE,
    "two trees, no line end": f"{TREE}\n \t\n{TREE.rstrip()}",
    "line ends of Windows": TREE.replace("\n", "\r\n") + "\r\n1\tx\t_\r",
    "a carriage return too many": TREE.replace("b c", "b\r"),
    "ranges and empty nodes": "1-2\tau\t_\n1\tà\t_\n2\tle\t_\n2.1\tx\t_\n3\tlit\t_\n",
    "a range alone": "1-2\tau\t_\n",
    "a range that ends late": "1-3\tau\t_\n1\tà\t_\n2\tle\t_\n",
    "a range that begins late": "2-3\tau\t_\n1\tà\t_\n2\tle\t_\n",
    "more words than are numbered": LONG,
    "a comment between rows": "1\ta\t_\n# more\n2\tb\t_\n",
    "comments alone": "# one\n# two\n\n# newdoc id = d_1\n1\ta\t_\n",
    "documents": f"# newdoc id = d_1\n{TREE}\n# newdoc\n{TREE}",
    "other columns": "# global.columns = ID LEMMA FORM\n1\ta\tb\n",
    "a missing word": "1\ta\t_\n3\tb\t_\n",
    "a missing blank line": "1\ta\t_\n1\tb\t_\n",
    "an ID alone": "1\ta\t_\n2\n",
    "no ID": f"{TREE}\nword\tDET\n",
    "an ID in other digits": "\u0661\ta\t_\n",
    "an ID in superscript": "1\ta\t_\n\u00b2\tb\t_\n",
    "a leading zero": "01\ta\t_\n",
    "an empty form": "1\t \t_\n",
    "a hyphen as the ID": "-\ta\t_\n",
    "a form of other spaces": "1\t\u00a0\t_\n2\tx\u2028y\x0cz\t_\n3\t\u0085\t_\n",
    "a NUL": TREE.replace("b c", "b\0"),
    "a control character of Latin-1": TREE.replace("b c", "b\x91"),
    "a byte order mark at a line": f"{TREE}\n\ufeff{TREE}",
    "a byte order mark in a line": TREE.replace("b c", "b\ufeff"),
    "bytes that are not UTF-8": TREE.replace("b c", "b\udce4"),
    "nothing": "",
    "blank lines": "\n\n \n",
}


def result_of(path: Path, **settings: Any) -> list[object]:
    """The sentences of a file, the error that ends them, and what is reported."""
    report = InputReport()
    results: list[object] = []
    try:
        for sentence in read_sentences(str(path), InputSettings(**settings), report):
            results.append(sentence)
    except InputError as error:
        results.append((str(error), error.hint, error.parameters))
    return [*results, report]


@pytest.mark.parametrize("name", TEXTS)
def test_the_fast_way_reads_as_the_plain_way(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(TEXTS[name].encode("utf-8", "surrogateescape"))
    all_settings = [
        {"rows": rows, "on_error": on_error}
        for rows in ("words", "tokens", "all")
        for on_error in ("stop", "skip")
    ]
    fast = [result_of(path, **settings) for settings in all_settings]
    monkeypatch.setattr(conllu_rows, "_read_words", lambda *arguments: None)
    monkeypatch.setattr(lines, "_decode_together", lambda block: None)
    plain = [result_of(path, **settings) for settings in all_settings]
    assert fast == plain


def test_most_trees_are_read_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with ranges and empty nodes, where these are left out."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("read the plain way")

    monkeypatch.setattr(lines.LineReader, "_decode_each", refuse)
    monkeypatch.setattr(conllu_rows.SentenceLines, "readable", refuse)
    fast = ("words", "line ends of Windows", "ranges and empty nodes", "a form of other spaces")
    for name in fast:
        path = tmp_path / "a.conllu"
        path.write_text(TEXTS[name], encoding="utf-8", newline="")
        assert list(read_sentences(str(path)))


def test_refused_characters_are_found_in_bytes() -> None:
    """Exactly those that are refused in a decoded line."""
    refused = pattern_for_lines(is_one_byte=False)
    for code in [*range(0x2100), 0x3000, 0xFEFE, 0xFEFF, 0xFFFD, 0x1F600]:
        if chr(code) != "\n":
            text = f"a{chr(code)}b"
            assert is_refused_in_utf8(text.encode()) == bool(refused.search(text)), hex(code)
