"""What readers report: truncated tokens, and signs that a text is not what it is read as."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_files import read, write

from elmo_cli.text.input import InputReport


def report_on(path: Path, text: str, **settings: object) -> InputReport:
    report = InputReport()
    read(write(path, text), report, **settings)
    return report


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return tmp_path / "corpus.txt"


def test_truncated_tokens_are_counted_in_bytes_of_utf8(text: Path) -> None:
    """48 bytes fit, 49 do not; characters of other scripts have two to four bytes each."""
    fits = ["a" * 48, "é" * 24, "水" * 16, "🐈" * 12]
    over = ["a" * 49, "é" * 24 + "a", "水" * 17, "🐈" * 13]
    report = report_on(text, " ".join(fits) + "\n\nx " + " ".join(over) + "\n")
    assert report.truncated_tokens == 4
    assert report.first_truncated == ("a" * 49, str(text), 3)
    assert report_on(text, "é" * 25 + "\n").truncated_tokens == 1
    assert report_on(text, "abcdef\n", max_characters=7).truncated_tokens == 1
    shown = report_on(text, "b" * 100_000).first_truncated
    assert shown == ("b" * 60 + "…", str(text), 1)


def test_tokens_of_a_unicode_model_are_cut_after_characters(text: Path) -> None:
    """Such a model has a script of its own, so no script is suspicious."""
    content = " ".join(["猫" * 48, "猫" * 49, "a" * 49]) + "\n"
    report = report_on(text, content, is_unicode=True)
    assert report.truncated_tokens == 2
    assert report.warnings == []


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.conll", "a\tX\n\n" * 2 + "a\tX\nb\tX\n" * 500 + "c\tX\n", 5),
        ("a.conll", "a\tX\nb\tX\n" * 500, None),
        ("a.conllu", "".join(f"{i}\ta\n" for i in range(1, 1_002)), 1),
    ],
)
def test_a_sentence_of_many_rows_is_warned_of(
    tmp_path: Path, name: str, content: str, line: int | None
) -> None:
    path = tmp_path / name
    warnings = report_on(path, content).warnings
    problem = "a sentence of 1,001 tokens; is a blank line missing?"
    assert warnings == ([] if line is None else [f"{path}, line {line}: {problem}"])


@pytest.mark.parametrize(
    ("n_single", "n_others", "is_warned"),
    [(20, 0, True), (19, 0, False), (40, 4, True), (40, 5, False)],
)
def test_columns_with_a_blank_line_after_each_token_are_warned_of(
    tmp_path: Path, n_single: int, n_others: int, is_warned: bool
) -> None:
    """As if line ends had been doubled. A line of plain text may be a word."""
    content = "a\tX\n\n" * (n_single - 1) + "b\tX\n\n" + "a\tX\nb\tX\n\n" * n_others
    path = tmp_path / "a.conll"
    problem = "each sentence has one token; a blank line ends a sentence"
    warnings = report_on(path, content).warnings
    assert warnings == ([f"{path}, line 1: {problem}"] if is_warned else [])
    assert report_on(tmp_path / "a.txt", "a\n\n" * n_single).warnings == []


TOKENIZED = "The cat , which sat on the mat , slept .\n" * 10

# name -> (text, line that the warning names, words of the warning)
SUSPICIOUS = {
    "untokenized": ("The cat, which sat on the mat, slept.\n" * 10, 1, "`tokenize=True`"),
    "full stops alone": ("The cat sat on the mat.\n" * 10, 1, "untokenized"),
    "boundaries": (TOKENIZED + "<S> The cat </S>\n", 11, "<S>"),
    "boundaries of another model": (TOKENIZED + "a <bos> b <eos>\n", 11, "the biLM adds its own"),
    "residues": ("MKVLAAGIVGLLLAQPSSAAAEELKKLEGRM\n" * 2, 1, "FASTA"),
    "Moses escapes": ("a b\nThey &apos;re &quot; here &quot; .\n" * 5, 2, "Moses"),
    "Moses brackets": ("See &#91; 1 &#93; &#124; .\n", 1, "Moses"),
    "HTML escapes": ("Tom &amp; Ann &lt; Bob .\n" * 20, 1, "escapes"),
    "JSON array": ('["The", "cat"]\n', 1, "`format='jsonl'`"),
    "JSON lines": ('{"tokens": ["The", "cat"]}\n' * 9, 1, "`format='jsonl'`"),
    "Python lists": ("['The', 'cat']\n" * 3, 1, "Python"),
    "Python tuples": ("[('The', 'DT'), ('cat', 'NN')]\n", 1, "Python"),
    "Python bytes": ("b'The cat'\n", 1, "Python"),
    "fastText labels": ("__label__1 The cat\n", 1, "`__label__`"),
    "translations": ("The cat ||| Die Katze\n", 1, "`|||`"),
    "subtitles": ("1\n00:00:01,000 --> 00:00:04,000\nThe cat sat .\n", 2, "subtitles"),
    "tags after `_`": ("The_DT cat_NN sat_VBD ._.\n", 1, "`The_DT`"),
    "tags after `/`": ("The/DT 1\\/2/CD sat/VBD ./.\n", 1, "`The_DT`"),
    "factors": ("The|DT|the cat|NN|cat sat|VBD|sit\n", 1, "`The_DT`"),
    "trees of PTB": ("( (S (NP (DT The) (NN cat)) (VP (VBD sat))))\n", 1, "trees"),
    "trees of SST": ("(3 (2 The) (2 (2 cat) (2 sat)))\n", 1, "trees"),
    "trees without labels": ("( ( The cat ) ( sat . ) )\n", 1, "trees"),
    "escapes of Unicode": ("The caf\\u00e9 is here\n", 1, "`\\u00e9`"),
    "escaped line ends": ("The cat sat .\\nThe dog ran .\n", 1, "`\\n`"),
    "BPE": ("The cat sle@@ pt\n", 1, "pieces of words"),
    "SentencePiece": ("\u2581The \u2581cat sle pt\n", 1, "pieces of words"),
    "WordPiece": ("the cat sle ##pt\n", 1, "pieces of words"),
    "GPT-2": ("The \u0120cat \u0120sat\n", 1, "pieces of words"),
    "WikiText": ("10 @,@ 000 role @-@ playing games\n", 1, "joined tokens"),
    "line breaks of HTML": ("Good . <br /><br /> I liked it .\n", 1, "`<br />`"),
    "tokenized line breaks": ("Good . < br / > I liked it .\n", 1, "`<br />`"),
    "tags with attributes": ('<doc id="1" title="a">\nThe cat\n</doc>\n', 1, "tags"),
    "tokenized escapes": ("Tom & amp ; Ann\n", 1, "HTML"),
    "unknown words": (TOKENIZED + "the <unk> sat\n", 11, "`<unk>`"),
    "withheld words": ("_ _ _\n", 1, "withheld"),
    "withheld words of OntoNotes": (TOKENIZED + "[WORD] [WORD]\n", 11, "withheld"),
    "encoded twice": (TOKENIZED + "I donâ€™t like the cafÃ© .\n", 11, "encoded twice"),
    "replaced characters": (TOKENIZED + "The caf\ufffd\n", 11, "U+FFFD"),
    "decomposed letters": (TOKENIZED + "The cafe\u0301\n", 11, "NFD"),
    "a soft hyphen": (TOKENIZED + "the ri\u00adver\n", 11, "U+00AD"),
    "a zero-width space": (TOKENIZED + "the river\u200b\n", 11, "U+200B"),
    "a token that is invisible": (TOKENIZED + "the \u200b river\n", 11, "U+200B"),
    "Chinese": ("猫 坐 在 垫 子 上 。\n", 1, "Latin"),
    "Russian": ("Кошка сидела на ковре OK .\n" * 3 + TOKENIZED[:42], 1, "Latin"),
    "empty": ("", 0, "empty"),
}


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_a_suspicious_text_causes_one_warning(text: Path, name: str) -> None:
    """Each is a mistake that users noticed only after training on the vectors."""
    content, line, words = SUSPICIOUS[name]
    (warning,) = report_on(text, content).warnings
    assert warning.startswith(f"{text}, line {line}: " if line else f"{text}: ")
    assert words in warning


@pytest.mark.parametrize(
    "token",
    ["<S>", "</S>", "<s>", "</s>", "<bos>", "<eos>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]"],
)
def test_each_boundary_token_is_warned_of(text: Path, token: str) -> None:
    (warning,) = report_on(text, f"The cat {token}\n").warnings
    assert warning.startswith(f"{text}, line 1: boundary or padding tokens")


@pytest.mark.parametrize("name", ["amp", "apos", "quot", "lt", "gt", "nbsp", "#39", "#8217"])
def test_each_escape_is_warned_of(text: Path, name: str) -> None:
    (warning,) = report_on(text, f"It &{name}; is\n").warnings
    assert warning.startswith(f"{text}, line 1: escapes such as")


@pytest.mark.parametrize(
    "line", ["ab, c", "ab; c", "ab? c", "ab! c", "c ab.", 'c ab."', "c ab.\u2019)", "c ab,"]
)
def test_punctuation_at_a_word_is_warned_of(text: Path, line: str) -> None:
    (warning,) = report_on(text, f"{line}\n").warnings
    assert "looks untokenized" in warning


# name -> (a line that shows the sign, the most of 10 such lines that are not warned of)
FRACTIONS = {
    "untokenized": ("It slept.\n", 3),
    "JSON": ('[ "a" ]\n', 5),
    "FASTA": ("M" * 30 + "\n", 3),
    "script": ("猫 坐\n", 5),
    "lists": ("['a', 'b']\n", 5),
    "fields": ("a ||| b\n", 5),
    "tags": ("a_b c_d e_f\n", 5),
    "trees": ("((a) b)\n", 5),
    "subwords": ("a@@ b\n", 1),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_a_few_lines_that_show_a_sign_are_no_reason_to_warn(text: Path, name: str) -> None:
    """A text may quote other data; more of them are a mistake."""
    line, n_most = FRACTIONS[name]
    harmless = "It slept .\n" * (10 - n_most)
    assert report_on(text, line * n_most + harmless).warnings == []
    suspicious = line * (n_most + 1) + harmless.removesuffix("It slept .\n")
    assert len(report_on(text, suspicious).warnings) == 1


@pytest.mark.parametrize(
    "harmless",
    [
        TOKENIZED,
        "He works in the U.S.\n" + TOKENIZED,
        TOKENIZED + "http://example.org/" + "a" * 100 + "\n",
        "id 1\tlabel\n" * 3 + TOKENIZED,
        "a\tb c\n",
        "I O\n" + TOKENIZED,
        "M K L\nV V A\n" * 20,
        "AT & T <s3>\n" * 10,
        "[ The cat ]\n{ sat }\n",
        "M" * 29 + "\n",
        "<S>\n</S>\n<UNK>\nthe\ncat\n",  # a vocabulary, for `layout='bilm-types'`
        "_\n[WORD]\n<unk>\n[MASK]\n",  # entries of a vocabulary
        "and/or he/she\nsnake_case and/or other words\n",
        "New_York is in_spite_of it\n",
        "(see (1) above) .\n(a) b\n(The cat sat)\n",
        "## Title\n# 1 @ home\n@user a@b.org e@\n",
        "a < b > c\nI <3 <user> <url> <e1> it </e1> and <s3> <i .\n",
        "\\nu \\to C:\\new\n",
        "b ' s\n('t is )\n",
        "»På« „Ä“ IRMÃ” é» É» naïve Â « Ã » .\n",
        "Zoe\u0308 ".replace("e\u0308", "ë")
        + "q\u0301 x\u0302 \u05d0\u05b8\n",  # no letter for both
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 a b c d e f g h i j k\n",  # Persian
        "\U0001f468\u200d\U0001f469 a b\n",  # joined emoji
        TOKENIZED * 5 + "a <br /> b\n",
        TOKENIZED * 5 + "a \\u00e9 b\n",
        "Con mèo đã ngồi trên tấm thảm tiếng Việt .\n",
        "b" * 5_000_000,  # in linear time
        ("a " * 5000 + "\n") * 2 + "a <S> b\n",  # 10,000 tokens are enough too
        TOKENIZED * 20 + "a <S> b\n" * 400,  # only the first sentences are checked
        "\n",
    ],
)
def test_a_proper_text_causes_no_warning(text: Path, harmless: str) -> None:
    assert report_on(text, harmless).warnings == []
