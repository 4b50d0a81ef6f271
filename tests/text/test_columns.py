"""CoNLL-U and column formats: the tokens of trees and tables, with their documents."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from text_files import read, refused, tokens, write

from elmo_cli.errors import UsageError
from elmo_cli.text.column_format import Column, Columns
from elmo_cli.text.input import InputReport, InputSettings, read_columns


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
    words = [f"w{number}" for number in range(1, 13)]
    long = rows(*words).replace("\n10\t", "\n10-11\tw10w11\t_\n10\t")
    assert tokens(write(conllu, long)) == [" ".join(words)]
    assert tokens(write(conllu, "# global.columns = ID UPOS FORM\n1\tX\tgo\n"), column=3) == ["go"]


WITH_RANGES = (
    "0.1\tIl\t_\n1\tVa\taller\n2-3\tau\t_\n2\tà\tà\n2.1\tx\t_\n3\tle\tle\n3.1\tpetit\t_\n"
    "4\tlit\tlit\n5-6\tdu\t_\n5\tde\tde\n6\tle\tle\n\n"
)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("words", "Va à le lit de le"),
        ("tokens", "Va au lit du"),
        ("all", "Il Va au à x le petit lit du de le"),
    ],
)
def test_rows_of_conllu(conllu: Path, chosen: str, expected: str) -> None:
    """Each program counts its own; the label column is read in the same rows."""
    assert tokens(write(conllu, WITH_RANGES), rows=chosen) == [expected]
    assert tokens(write(conllu, rows("a", "b")), rows=chosen) == ["a b"]
    columns = Columns(tokens=Column(None, "column"), labels=Column(3, "labels"))
    settings = InputSettings(rows=chosen)
    (sentence,) = read_columns(str(write(conllu, WITH_RANGES)), settings, columns)
    assert len(sentence.labels) == len(expected.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\n3-4\tau\n2\tb\n", "line 2: the range '3-4' does not begin at the next word, 2"),
        ("1-2\tau\n1\ta\n2-3\tdu\n2\tb\n3\tc\n", "line 3: the range '2-3' does not begin"),
        ("2-1\tau\n1\ta\n2\tb\n", "line 1: the range '2-1'"),
        ("1\ta\n2-3\tau\n2\tb\n", "line 3: a range ends at word 3, the sentence at word 2"),
        ("1-2\tau\n", "line 1: a sentence of ranges"),
    ],
)
def test_ranges_whose_words_are_not_below_them(conllu: Path, text: str, message: str) -> None:
    error = refused(write(conllu, text), rows="tokens")
    assert f"{conllu}, {message}" in error.message
    assert error.hint


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.jsonl", "a.fasta"])
def test_rows_are_those_of_conllu(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^`rows=all`: .* has no ranges of words") as caught:
        read(write(tmp_path / name, "a\n"), rows="all")
    assert "`format='conllu'`" in caught.value.hint


def test_documents_of_conllu(conllu: Path) -> None:
    write(conllu, rows("a") + "# newdoc id = x/y 1\n" + rows("b") + rows("c") + "# newdoc\n"
          + rows("d"))  # fmt: skip
    documents = [(s.document, s.place, s.starts_document) for s in read(conllu)]
    assert documents == [(None, 0, True), ("x/y 1", 0, True), ("x/y 1", 1, False), (None, 0, True)]


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
    error = refused(conll, max_tokens=2)
    assert error.message == f"{conll}, line 4: a sentence of more than 2 tokens"
    assert error.hint == "is a blank line missing? otherwise raise the limit (`max_tokens`)"
    assert error.parameters == ("max_tokens",)
    assert tokens(conll, max_tokens=4, on_error="skip") == ["a b"]
    assert tokens(conll, max_tokens=5) == ["a b", "c c c c c"]
    monkeypatch.setattr("elmo_cli.text.row_groups._MAX_COMMENTS", 1)
    write(conll, "a\n\n" + "# c\n" * 4)  # an endless one, of which comments are a part
    message = refused(conll, max_tokens=1, on_error="skip").message
    assert message.startswith(f"{conll}, line 3: a sentence of more than 1 token, with comments")
    assert tokens(conll, max_tokens=2) == ["a"]


CONLL_2012 = "bc/cctv/00/cctv_0000   {part}   {n}   {word}   NN   (NP*)   -   -   -   A  *  -\n"


def conll_2012(part: int, *words: str) -> str:
    lines = [CONLL_2012.format(part=part, n=n, word=word) for n, word in enumerate(words)]
    return "".join(lines) + "\n"


CONLL_2003 = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\nran VBD I-VP O\n\n"


class ReadableColumns(NamedTuple):
    """A file that is read: its tokens, a part of its only warning, and `column` if it is needed."""

    content: str
    tokens: list[str]
    warning: str = ""
    column: int | None = None


READABLE = {
    "CoNLL-2003": ReadableColumns(
        f"-DOCSTART- -X- O O\n\n{CONLL_2003}", ["EU rejects", "Peter ran"]
    ),
    "CoNLL-2000, # a row": ReadableColumns(
        "3 CD I-NP\n# # B-NP\na DT B-NP\n", ["3 # a"], warning=", line 2: "
    ),
    "WNUT, tabs, # a row": ReadableColumns(
        "#\tO\n#tag\tO\nNew York\tB-LOC\n\n#a\tO\n", ["# #tag New York", "#a"]
    ),
    "U+00A0 a token": ReadableColumns("\u00a0\tO\na\u00a0b\tO\n", ["\u00a0 a\u00a0b"]),
    "U+00A0 in one column": ReadableColumns("a\n\u00a0\nb\n\n\u3000\n", ["a \u00a0 b", "\u3000"]),
    "one column": ReadableColumns("EU\nrejects\n#tag\n\n1\n2\n", ["EU rejects #tag", "1 2"]),
    "numbers among tokens": ReadableColumns("1 CD\n. .\n\n2 CD\nmen NNS\n\n", ["1 .", "2 men"]),
    "CoNLL-2012": ReadableColumns(
        "#begin document (x); part 000\n" + conll_2012(0, "In", "#") + "#end document", ["In #"]
    ),
    "CoNLL-2012, an odd row": ReadableColumns(
        "#begin document (x); part 000\n"
        + conll_2012(0, *"abcdefghijk")
        + conll_2012(0, "l").replace("   0   0   l", "   0   -   l"),
        ["a b c d e f g h i j k", "l"],
    ),
    "three columns, the last one numbers": ReadableColumns(
        "#begin document x\nThe DT 2\ncat NN 3\nsat VBD 0\n", ["The cat sat"]
    ),
    "CoNLL-2012 of single words": ReadableColumns(
        "#begin document (x); part 000\n" + conll_2012(0, "Yes") * 2, ["Yes", "Yes"]
    ),
    "form feed": ReadableColumns(
        "EU NNP\nran VBD\n\x0c\nPeter NNP\nsat VBD\n", ["EU ran", "Peter sat"]
    ),
    "a comment, tabs": ReadableColumns(
        "# my data\n\nNew York\tx\tO\ncat\tc\tO\n\n# the end\n\n", ["New York cat"]
    ),
    "a comment, spaces": ReadableColumns(
        f"# my comment\n{CONLL_2003}# and another one, longer\n", ["EU rejects", "Peter ran"]
    ),
    "a comment inside": ReadableColumns(
        "EU NNP O\n# a longer comment here\nran VBD O\n", ["EU ran"]
    ),
    "metadata, as wide": ReadableColumns(
        f"# sent_id = 1\n{CONLL_2003}", ["EU rejects", "Peter ran"]
    ),
    "-DOCSTART- in column 2": ReadableColumns(
        "1 -DOCSTART- O\n\n1 Yes O\n2 it O\n", ["Yes it"], column=2
    ),
    "MultiCoNER": ReadableColumns(
        "# id 5-3\tdomain=en\nrob _ _ B-PER\nran _ _ O\n\n# id 5-4\tdomain=en\n# _ _ O\n",
        ["rob ran", "#"],
        warning=", line 6: ",
    ),
    "MultiCoNER, tabs": ReadableColumns(
        "# id 5-3\tdomain=en\nrob\tB-PER\n\n# id 5-4\tdomain=en\n#\tO\n#a\tO\n", ["rob", "# #a"]
    ),
    "#end document, as wide": ReadableColumns(
        "#begin document x\nEU X\nran X\n#end document\n#begin document y\nA X\n#end document\n",
        ["EU ran", "A"],
    ),
    "# may be a comment, tabs": ReadableColumns(
        "# New York\tO\nran\tO\n", ["# New York ran"], warning=", line 1: "
    ),
    "comments fill the head": ReadableColumns("# a free text\n" * 5000 + "a X\nb X\n", ["a b"]),
    "# may be a comment, first": ReadableColumns(
        "# comment\nEU NNP\nran VBD\n", ["# EU ran"], warning=", line 1: "
    ),
    "# may be a comment": ReadableColumns(
        "EU NNP\n# comment\nran VBD\n", ["EU # ran"], warning=", line 2: "
    ),
    "#my comment": ReadableColumns(
        "EU NNP\n#my comment\nran VBD\n", ["EU #my ran"], warning=", line 2: "
    ),
    "column 2 given": ReadableColumns("1\tYes\tyes\n\n1\tNo\tno\n", ["Yes", "No"], column=2),
    "column 1 given": ReadableColumns("1 CD O\n\n2 CD O\n", ["1", "2"], column=1),
    "column 4 given": ReadableColumns(conll_2012(0, "Yes") * 3, ["Yes"] * 3, column=4),
    "last column given": ReadableColumns(CONLL_2003, ["I-ORG O", "I-PER O"], column=-1),
    # What structural-probes counts as the tokens of CoNLL-U: all rows.
    "all rows of CoNLL-U": ReadableColumns(
        "# text = du\n# newpar\n1-2\tdu\t_\n1\tde\t_\n2.1\tx\t_\n", ["du de x"], column=2
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_columns_that_are_read(conll: Path, name: str) -> None:
    """Ordinary files need no option; what may be something else is read, but not silently."""
    file = READABLE[name]
    report = InputReport()
    assert tokens(write(conll, file.content), report, column=file.column) == file.tokens
    if file.warning:
        (warning,) = report.warnings
        assert file.warning in warning
    else:
        assert report.warnings == []


class RefusedColumns(NamedTuple):
    """A file that is refused, parts of the problem and of the hint, and `column` if it is given."""

    content: str
    line: int
    problem: str
    hint: str
    column: int | None = None


AMBIGUOUS = {
    "CoNLL-X": RefusedColumns(
        "1\tThe\tthe\n2\tcat\tcat\n\n1\tYes\tyes\n", line=1, problem="'1'", hint="`column=2`"
    ),
    "one row": RefusedColumns("\n1 CD O\n", line=2, problem="'1'", hint="`column=1`"),
    "offsets": RefusedColumns("0 The\n4 cat\n8 sat\n", line=1, problem="'0'", hint="`column=2`"),
    "numbers of two digits": RefusedColumns(
        "".join(f"{number} w\n" for number in range(1, 21)), 1, problem="'1'", hint="`column=2`"
    ),
    "ranges": RefusedColumns("1-2 du\n1 de\n2 le\n", 1, problem="'1-2'", hint="`column=2`"),
    "empty nodes": RefusedColumns("1 a\n1.1 b\n2 c\n", 1, problem="'1'", hint="`column=2`"),
    "one of eleven is no number": RefusedColumns(
        "".join(f"{number} w\n" for number in [*range(1, 11), "x"]),
        line=1,
        problem="'1'",
        hint="`column=2`",
    ),
    "SemEval-2010": RefusedColumns(
        "#begin document 10\n1\tThe\tthe\tDT\n2\tcat\tcat\tNN\n",
        line=2,
        problem="'1'",
        hint="`column=2`",
    ),
    "sentence, number, token": RefusedColumns(
        "s1 1 The D\ns1 2 cat N\n\ns2 1 It P\n", line=1, problem="'s1'", hint="`column=2`"
    ),
    "numbers in column 2": RefusedColumns(
        "#begin document 10\ns 1 The D\ns 2 cat N\n", line=2, problem="'s'", hint="`column=2`"
    ),
    "CoNLL-2012 without #begin": RefusedColumns(
        conll_2012(0, "In", "it"), line=1, problem="'bc/cctv/00", hint="`column=4`"
    ),
    "CoNLL-2012 of single words": RefusedColumns(
        conll_2012(0, "Yes") * 3, line=1, problem="'bc/cctv/00", hint="`column=4`"
    ),
    "a hashtag without its tab": RefusedColumns(
        "EU\tO\n#tag\nran\tO\n", line=2, problem="'#tag': the number", hint="separate"
    ),
    "a row without tab": RefusedColumns(
        "EU\tB-ORG\nrejects O\n", line=2, problem="'rejects O': the number", hint="separate"
    ),
    "a word alone": RefusedColumns(
        "alone\nNew York\tO\nb\tO\n", line=1, problem="columns is 1, not 2 as in", hint="separate"
    ),
    "a row too short": RefusedColumns(
        "a b\n\n", line=1, problem="`column=3` is missing", hint="-1", column=3
    ),
    "a column before the first": RefusedColumns(
        "a b\n\n",
        1,
        problem="`column=-3` is missing: the number of columns is 2",
        hint="-1",
        column=-3,
    ),
    "an empty cell": RefusedColumns(
        "a\tb\n\tb\n", line=2, problem="column 1 is empty", hint="`column`"
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_columns_that_are_refused(conll: Path, name: str) -> None:
    """Nothing is guessed silently: these were read as other tokens, or as too few."""
    file = AMBIGUOUS[name]
    error = refused(write(conll, file.content), column=file.column)
    assert error.message.startswith(f"{conll}, line {file.line}: ")
    assert file.problem in error.message
    assert file.hint in error.hint


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
    documents = [(s.tokens, s.document, s.place, s.offset, s.starts_document) for s in read(conll)]
    assert documents == [
        (("In", "#"), "bc/cctv/00/cctv_0000_0", 0, 0, True),
        (("Yes",), "bc/cctv/00/cctv_0000_0", 1, 0, False),
        (("So",), "bc/cctv/00/cctv_0000_12", 0, 2, True),
        (("But",), "nw/wsj/24/wsj_2400_0", 0, 0, True),
        (("It",), "wsj 1", 0, 0, True),
        (("It",), "wsj 2_0", 0, 0, True),
        (("So",), None, 0, 0, True),
        (("No",), None, 0, 0, True),
    ]


def test_a_document_may_start_in_the_column_of_the_tokens(conll: Path) -> None:
    write(conll, "1 -DOCSTART- O\n\n1 Yes O\n\n1 It O\n\n1 -DOCSTART- O\n\n1 No O\n")
    assert [(s.tokens, s.key, s.starts_document) for s in read(conll, column=2)] == [
        (("Yes",), 0, True),
        (("It",), 1, False),
        (("No",), 2, True),
    ]


def test_the_rows_for_detection_are_neither_lost_nor_doubled(conll: Path) -> None:
    words = [f"w{i}" for i in range(5000)]
    lines = [f"{word} O\n" for word in words]
    lines[2::3] = [f"{line}\n" for line in lines[2::3]]  # a blank line after each third word
    write(conll, "".join(lines))
    assert [token for s in read(conll) for token in s.tokens] == words
