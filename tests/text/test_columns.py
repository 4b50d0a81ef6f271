"""CoNLL-U and column formats: the tokens of trees and tables, with their documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from text_files import read, refused, tokens, write

from elmo_cli.text.input import InputReport


def rows(*words: str) -> str:
    """A sentence of CoNLL-U."""
    cells = (f"{i}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_\n" for i, word in enumerate(words, 1))
    return "".join(cells) + "\n"


@pytest.fixture
def conllu(tmp_path: Path) -> Path:
    return tmp_path / "a.conllu"


@pytest.fixture
def conll(tmp_path: Path) -> Path:
    return tmp_path / "a.conll"


def test_conllu_gives_one_token_for_each_word_of_the_tree(conllu: Path) -> None:
    """Otherwise token counts differ from the treebank's by its ranges and empty nodes."""
    write(
        conllu,
        "\n\n# sent_id = 1\n# text = Va au lit\n1\tVa\taller\n2-3\tau\t_\n2\tà\tà\n3\tle\tle\n"
        "3.1\tpetit\t_\n4\tlit\tlit\n\n# a comment alone\n\n"
        + rows("New York", "_", "#").strip("\n"),
    )
    assert [(s.key, s.line, s.tokens, s.text) for s in read(conllu)] == [
        (0, 5, ("Va", "à", "le", "lit"), "Va à le lit"),
        (1, 14, ("New York", "_", "#"), "New York _ #"),
    ]
    assert tokens(write(conllu, "1\tWent\tgo\n\n"), column=3) == ["go"]
    assert tokens(conllu, column=-2) == ["Went"]
    assert tokens(write(conllu, "# global.columns = ID FORM UPOS\n1\tWent\tX\n")) == ["Went"]
    assert tokens(write(conllu, "# global.columns = ID UPOS FORM\n1\tX\tgo\n"), column=3) == ["go"]


def test_documents_of_conllu(conllu: Path) -> None:
    write(conllu, rows("a") + "# newdoc id = x/y 1\n" + rows("b") + rows("c") + "# newdoc\n"
          + rows("d"))  # fmt: skip
    found = [(s.document, s.place, s.starts_document) for s in read(conllu)]
    assert found == [(None, 0, True), ("x/y 1", 0, True), ("x/y 1", 1, False), (None, 0, True)]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("The cat sat .\n", "line 1: 'The cat sat .' is not a row", "`format='conll'`"),
        ("1\tThe\nx\tcat\n", "line 2: 'x\\tcat' is not a row of CoNLL-U", "`format='conll'`"),
        ("1\tThe\n2\n", "line 2: '2' is not a row", "`format='conll'`"),
        ("1\tThe\n1\tcat\n", "line 2: ID '1' instead of 2; is a blank line", "`column=2`"),
        ("\n2\tThe\n", "line 2: ID '2' instead of 1", "`column=2`"),
        (rows("a") + "# x\n1-2\tau\t_\n\n" + rows("b"), "line 4: a sentence of ranges", "words"),
        ("# global.columns = ID UPOS FORM\n1\tX\ta\n", "line 1: '# global.columns", "`column=3`"),
        ("1.1\tx\t_\n", "line 1: a sentence of ranges or empty nodes", "words"),
    ],
)
def test_refused_lines_of_conllu(conllu: Path, text: str, message: str, hint: str) -> None:
    error = refused(write(conllu, text))
    assert f"{conllu}, {message}" in error.message
    assert hint in error.hint


def test_a_refused_row_takes_its_sentence_and_its_key(conllu: Path) -> None:
    """Otherwise half a sentence is embedded, or later keys and positions are shifted."""
    write(
        conllu,
        b"# newdoc id = d\n1\ta\n\n1\tb\nx\n3\tc\n\n1\td\xe9\n2\te\n\n"
        b"# \xe9\n# newdoc id = e\n1\tf\n\n1\tg\n\n1-2\tdu\n\n1\th\n",
    )
    report = InputReport()
    sentences = read(conllu, report, on_error="skip")
    assert [(s.key, s.tokens, s.document, s.place, s.starts_document) for s in sentences] == [
        (0, ("a",), "d", 0, True),
        (4, ("g",), "e", 1, True),
        (6, ("h",), "e", 3, False),
    ]
    assert [line for _, line, _ in report.skipped] == [5, 8, 11, 17]


def test_a_sentence_over_max_tokens_is_refused(
    conll: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(conll, "a\nb\n\n" + "c\n" * 5)
    message = refused(conll, max_tokens=2).message
    assert message == f"{conll}, line 4: a sentence of more than 2 tokens"
    assert tokens(conll, max_tokens=4, on_error="skip") == ["a b"]
    assert tokens(conll, max_tokens=5) == ["a b", "c c c c c"]
    monkeypatch.setattr("elmo_cli.text.conll._MAX_COMMENTS", 1)
    write(conll, "a\n\n" + "# c\n" * 4)  # an endless one, of which comments are a part
    message = refused(conll, max_tokens=1, on_error="skip").message
    assert message.startswith(f"{conll}, line 3: a sentence of more than 1 token, with comments")
    assert tokens(conll, max_tokens=2) == ["a"]


CONLL_2012 = "bc/cctv/00/cctv_0000   {part}   {n}   {word}   NN   (NP*)   -   -   -   A  *  -\n"


def conll_2012(part: int, *words: str) -> str:
    return "".join(CONLL_2012.format(part=part, n=n, word=w) for n, w in enumerate(words)) + "\n"


CONLL_2003 = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\nran VBD I-VP O\n\n"

# name -> (content, tokens, a part of the only warning if there is one, column if it is given)
READABLE: dict[str, tuple[Any, ...]] = {
    "CoNLL-2003": (f"-DOCSTART- -X- O O\n\n{CONLL_2003}", ["EU rejects", "Peter ran"], ""),
    "CoNLL-2000, # a row": ("3 CD I-NP\n# # B-NP\na DT B-NP\n", ["3 # a"], ", line 2: "),
    "WNUT, tabs, # a row": ("#\tO\n#tag\tO\nNew York\tB-LOC\n\n#a\tO\n", ["# #tag New York", "#a"],
                            ""),
    "U+00A0 a token": ("\u00a0\tO\na\u00a0b\tO\n", ["\u00a0 a\u00a0b"], ""),
    "U+00A0 in one column": ("a\n\u00a0\nb\n\n\u3000\n", ["a \u00a0 b", "\u3000"], ""),
    "one column": ("EU\nrejects\n#tag\n\n1\n2\n", ["EU rejects #tag", "1 2"], ""),
    "numbers among tokens": ("1 CD\n. .\n\n2 CD\nmen NNS\n\n", ["1 .", "2 men"], ""),
    "CoNLL-2012": ("#begin document (x); part 000\n" + conll_2012(0, "In", "#") + "#end document",
                   ["In #"], ""),
    "CoNLL-2012, an odd row": ("#begin document (x); part 000\n" + conll_2012(0, *"abcdefghijk")
                               + conll_2012(0, "l").replace("   0   0   l", "   0   -   l"),
                               ["a b c d e f g h i j k", "l"], ""),
    "CoNLL-2012 of single words": ("#begin document (x); part 000\n" + conll_2012(0, "Yes") * 2,
                                   ["Yes", "Yes"], ""),
    "form feed": ("EU NNP\nran VBD\n\x0c\nPeter NNP\nsat VBD\n", ["EU ran", "Peter sat"], ""),
    "a comment, tabs": ("# my data\n\nNew York\tx\tO\ncat\tc\tO\n\n# the end\n\n", ["New York cat"],
                        ""),
    "a comment, spaces": (f"# my comment\n{CONLL_2003}# and another one, longer\n",
                          ["EU rejects", "Peter ran"], ""),
    "a comment inside": ("EU NNP O\n# a longer comment here\nran VBD O\n", ["EU ran"], ""),
    "metadata, as wide": (f"# sent_id = 1\n{CONLL_2003}", ["EU rejects", "Peter ran"], ""),
    "MultiCoNER": ("# id 5-3\tdomain=en\nrob _ _ B-PER\nran _ _ O\n\n"
                   "# id 5-4\tdomain=en\n# _ _ O\n",
                   ["rob ran", "#"], ", line 6: "),
    "MultiCoNER, tabs": ("# id 5-3\tdomain=en\nrob\tB-PER\n\n"
                         "# id 5-4\tdomain=en\n#\tO\n#a\tO\n",
                         ["rob", "# #a"], ""),
    "# may be a comment, tabs": ("# New York\tO\nran\tO\n", ["# New York ran"], ", line 1: "),
    "comments fill the head": ("# a free text\n" * 5000 + "a X\nb X\n", ["a b"], ""),
    "# may be a comment, first": ("# comment\nEU NNP\nran VBD\n", ["# EU ran"], ", line 1: "),
    "# may be a comment": ("EU NNP\n# comment\nran VBD\n", ["EU # ran"], ", line 2: "),
    "#my comment": ("EU NNP\n#my comment\nran VBD\n", ["EU #my ran"], ", line 2: "),
    "column 2 given": ("1\tYes\tyes\n\n1\tNo\tno\n", ["Yes", "No"], "", 2),
    "column 1 given": ("1 CD O\n\n2 CD O\n", ["1", "2"], "", 1),
    "column 4 given": (conll_2012(0, "Yes") * 3, ["Yes"] * 3, "", 4),
    "last column given": (CONLL_2003, ["I-ORG O", "I-PER O"], "", -1),
    # What structural-probes counts as the tokens of CoNLL-U: all rows.
    "all rows of CoNLL-U": ("# text = du\n# newpar\n1-2\tdu\t_\n1\tde\t_\n2.1\tx\t_\n", ["du de x"],
                            "", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_columns_that_are_read(conll: Path, name: str) -> None:
    """Ordinary files need no option; what may be something else is read, but not silently."""
    content, expected, warning, *column = READABLE[name]
    report = InputReport()
    assert tokens(write(conll, content), report, column=column[0] if column else None) == expected
    assert [warning in found for found in report.warnings] == ([True] if warning else [])


# name -> (content, line, what the message names, what the hint says to pass)
AMBIGUOUS: dict[str, tuple[Any, ...]] = {
    "CoNLL-X": ("1\tThe\tthe\n2\tcat\tcat\n\n1\tYes\tyes\n", 1, "'1'", "`column=2`"),
    "one row": ("\n1 CD O\n", 2, "'1'", "`column=1`"),
    "offsets": ("0 The\n4 cat\n8 sat\n", 1, "'0'", "`column=2`"),
    "SemEval-2010": ("#begin document 10\n1\tThe\tthe\tDT\n2\tcat\tcat\tNN\n", 2, "'1'",
                     "`column=2`"),
    "sentence, number, token": ("s1 1 The D\ns1 2 cat N\n\ns2 1 It P\n", 1, "'s1'", "`column=2`"),
    "numbers in column 2": ("#begin document 10\ns 1 The D\ns 2 cat N\n", 2, "'s'", "`column=2`"),
    "CoNLL-2012 without #begin": (conll_2012(0, "In", "it"), 1, "'bc/cctv/00", "`column=4`"),
    "CoNLL-2012 of single words": (conll_2012(0, "Yes") * 3, 1, "'bc/cctv/00", "`column=4`"),
    "a hashtag without its tab": ("EU\tO\n#tag\nran\tO\n", 2, "'#tag': the number", "separate"),
    "a row without tab": ("EU\tB-ORG\nrejects O\n", 2, "'rejects O': the number", "separate"),
    "a word alone": ("alone\nNew York\tO\nb\tO\n", 1, "columns is 1, not 2 as in", "separate"),
    "a row too short": ("a b\n\n", 1, "`column=3` is missing", "-1", 3),
    "an empty cell": ("a\tb\n\tb\n", 2, "column 1 is empty", "`column`"),
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_columns_that_are_refused(conll: Path, name: str) -> None:
    """Nothing is guessed silently: these were read as other tokens, or as too few."""
    content, line, what, hint, *column = AMBIGUOUS[name]
    error = refused(write(conll, content), column=column[0] if column else None)
    assert error.message.startswith(f"{conll}, line {line}: ")
    assert what in error.message
    assert hint in error.hint


def test_documents_of_conll_2012_have_the_keys_of_e2e_coref(conll: Path) -> None:
    """Otherwise coreference models do not find their documents in the file."""
    begin = "#begin document (bc/cctv/00/cctv_0000); part {:03}\n"
    write(
        conll,
        begin.format(0) + conll_2012(0, "In", "#") + conll_2012(0, "Yes") + "#end document\n"
        + begin.format(12) + conll_2012(12, "So") + "#end document\n"
        + "#begin document (nw/wsj/24/wsj_2400); part 000\n" + conll_2012(0, "But")
        + "#begin document wsj 1\n" + conll_2012(0, "It")
        + "#begin document (wsj 2);\n" + conll_2012(0, "It") + "#begin document\n"
        + conll_2012(0, "So") + "-DOCSTART- -X- O O\n\n" + conll_2012(0, "No"),
    )  # fmt: skip
    found = [(s.tokens, s.document, s.place, s.offset, s.starts_document) for s in read(conll)]
    assert found == [
        (("In", "#"), "bc/cctv/00/cctv_0000_0", 0, 0, True),
        (("Yes",), "bc/cctv/00/cctv_0000_0", 1, 0, False),
        (("So",), "bc/cctv/00/cctv_0000_12", 0, 2, True),
        (("But",), "nw/wsj/24/wsj_2400_0", 0, 0, True),
        (("It",), "wsj 1", 0, 0, True),
        (("It",), "wsj 2_0", 0, 0, True),
        (("So",), None, 0, 0, True),
        (("No",), None, 0, 0, True),
    ]


def test_the_rows_for_detection_are_neither_lost_nor_doubled(conll: Path) -> None:
    words = [f"w{i}" for i in range(5000)]
    write(conll, "".join(f"{word} O\n" + "\n" * (i % 3 == 2) for i, word in enumerate(words)))
    assert [token for s in read(conll) for token in s.tokens] == words
