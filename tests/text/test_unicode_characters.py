"""UnicodeCharacterIds and its dictionaries, compared with what the original computes by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from unicode_models import CHARACTERS, MARKS, WORDS

from elmo_cli.errors import ModelError
from elmo_cli.text.unicode_characters import UnicodeCharacterIds, read_characters, read_words

OOV, BOS, EOS, PAD, EOW, BOW = (CHARACTERS[mark] for mark in MARKS)
A = CHARACTERS["a"]
MARK_LINES = "".join(f"{mark}\t{number}\n" for number, mark in enumerate(MARKS))

# token -> its character ids before padding, and its word; a row has 16 characters
SPELLED = {
    "": ([EOW, BOW], "<oov>"),
    "cat": ([EOW, *(CHARACTERS[c] for c in "cat"), BOW], "cat"),
    "Cat": ([EOW, OOV, A, CHARACTERS["t"], BOW], "<oov>"),  # nothing is normalized
    "<bos>": ([EOW, BOS, BOW], "<bos>"),
    "<eos>": ([EOW, EOS, BOW], "<eos>"),
    "<pad>": ([EOW, OOV, OOV, A, CHARACTERS["d"], OOV, BOW], "<pad>"),
    "a" * 14: ([EOW, *[A] * 14, BOW], "a" * 14),
    "a" * 15: ([EOW, *[A] * 14, BOW], "a" * 14),  # is cut before it is looked up
    "和": ([EOW, CHARACTERS["和"], BOW], "和"),
    "😀": ([EOW, OOV, BOW], "<oov>"),
    "e\u0301": ([EOW, CHARACTERS["e"], OOV, BOW], "<oov>"),
    "\ud800": ([EOW, OOV, BOW], "<oov>"),
}


@pytest.mark.parametrize("token", SPELLED, ids=ascii)
def test_a_token_becomes_the_ids_of_the_original(token: str) -> None:
    spelled, word = SPELLED[token]
    characters = [*spelled, *[PAD] * (16 - len(spelled))]
    with_words = UnicodeCharacterIds(CHARACTERS, WORDS, 16)
    assert with_words.tokens([token]).tolist() == [[*characters, WORDS[word]]]
    without_words = UnicodeCharacterIds(CHARACTERS, None, 16)
    assert without_words.tokens([token, "cat"])[0].tolist() == characters


def test_a_dictionary_is_read_as_the_original_reads_it(tmp_path: Path) -> None:
    """`splitlines` and `strip` decide what an entry is; a line without one stands for U+3000."""
    path = tmp_path / "char.dic"
    lines = ["a\t9", "b \t7\r", "\u00a0\t8", "a\t6", " c\t10\u2028d\t11\x0be\t12", "x y\t13"]
    path.write_text(MARK_LINES + "\n".join(lines), encoding="utf-8", newline="")
    dictionary = read_characters(path)
    others = {entry: n for entry, n in dictionary.ids.items() if entry not in MARKS}
    expected = {"a": 6, "b ": 7, "\u3000": 8, "c": 10, "d": 11, "e": 12, "x y": 13}
    assert others == expected
    assert dictionary.n_blank == 1
    written = tmp_path / "characters.txt"
    written.write_text(dictionary.text, encoding="utf-8")
    assert read_characters(written).ids == dictionary.ids


REFUSED = {
    "not UTF-8": (b"\xff\t7\n", "not UTF-8"),
    "no number": (b"a\tb\n", "line 7: 'a\\tb' is not an entry, a tab and its number"),
    "two tabs": (b"a\tb\t7\n", "line 7: "),
    "a blank line": (b"\na\t7\n", "line 7: '' is not"),
    "a huge number": (b"a\t" + b"9" * 5000 + b"\n", "line 7: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_line_that_is_no_entry_is_refused_by_its_number(name: str, tmp_path: Path) -> None:
    content, problem = REFUSED[name]
    path = tmp_path / "char.dic"
    path.write_bytes(MARK_LINES.encode() + content)
    with pytest.raises(ModelError) as caught:
        read_characters(path)
    assert problem in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert len(caught.value.message) < 300


def test_the_entries_that_each_token_needs_are_required(tmp_path: Path) -> None:
    path = tmp_path / "any.dic"
    for mark in MARKS:
        path.write_text(MARK_LINES.replace(mark, "x"), encoding="utf-8")
        with pytest.raises(ModelError, match=f"has no entry {mark}"):
            read_characters(path)
    path.write_text("<oov>\t0\nthe\t1\n")
    with pytest.raises(ModelError, match="has no entry <pad>"):
        read_words(path)


def test_entries_and_rows_are_compared_and_both_are_named(tmp_path: Path) -> None:
    path = tmp_path / "char.dic"
    path.write_text(MARK_LINES + "\u00a0\t6\n\u3000\t7\n", encoding="utf-8")
    dictionary = read_characters(path)
    with pytest.raises(ModelError) as caught:
        dictionary.check_rows(8, matrix="m.pkl")
    assert "has 7 entries, m.pkl 8 rows; 2 of its lines have the same blank" in caught.value.message
    with pytest.raises(ModelError, match=r"has the number 7, m\.pkl 7 rows"):
        dictionary.check_rows(7, matrix="m.pkl")
    path.write_text(MARK_LINES + "a\t-1\n")
    with pytest.raises(ModelError, match=r"'a' has the number -1, m\.pkl 7 rows"):
        read_characters(path).check_rows(7, matrix="m.pkl")


def test_a_dictionary_of_more_bytes_than_any_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is given instead of it may be larger than the memory."""
    path = tmp_path / "char.dic"
    path.write_text(MARK_LINES)
    n_bytes = len(MARK_LINES)
    monkeypatch.setattr("elmo_cli.text.unicode_characters._MAX_BYTES", n_bytes)
    assert len(read_characters(path).ids) == len(MARKS)
    monkeypatch.setattr("elmo_cli.text.unicode_characters._MAX_BYTES", n_bytes - 1)
    with pytest.raises(ModelError, match=f"has {n_bytes} bytes, too many for a dictionary"):
        read_characters(path)
