"""CoNLL-U and column formats: the tokens of the trees and tables, with their documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_cli.errors import InputError
from elmo_cli.text.formats import Notes, measure, read_sentences
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.settings import InputSettings


def rows(*words: str) -> str:
    """A sentence of CoNLL-U."""
    return (
        "".join(f"{i}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_\n" for i, word in enumerate(words, 1)) + "\n"
    )


def read(path: Path, notes: Notes | None = None, **settings: object) -> list[Sentence]:
    return list(read_sentences(path, InputSettings(**settings), notes))  # type: ignore[arg-type]


@pytest.fixture
def conllu(tmp_path: Path) -> Path:
    return tmp_path / "a.conllu"


@pytest.fixture
def conll(tmp_path: Path) -> Path:
    return tmp_path / "a.conll"


def test_conllu_gives_one_token_for_each_word_of_the_tree(conllu: Path) -> None:
    """Without this, token counts differ from the treebank's by its ranges and empty nodes."""
    conllu.write_text(
        "# sent_id = 1\n# text = Va au lit\n1\tVa\taller\n2-3\tau\t_\n2\tà\tà\n3\tle\tle\n"
        "3.1\tpetit\t_\n4\tlit\tlit\n\n" + rows("New York", "_", "#"),
        "utf-8",
    )
    first, second = read(conllu)
    assert first.tokens == ("Va", "à", "le", "lit")
    assert first.text == "Va à le lit"
    assert (first.key, first.line) == (0, 3)
    assert second.tokens == ("New York", "_", "#")
    assert (second.key, second.line) == (1, 10)
    assert measure(conllu) == (2, 7)


def test_conllu_documents_have_keys_and_places(conllu: Path) -> None:
    conllu.write_text(
        rows("a") + "# newdoc id = x/y 1\n" + rows("b") + rows("c") + "# newdoc\n" + rows("d")
    )
    assert [(s.document, s.place, s.starts_document) for s in read(conllu)] == [
        (None, 0, True),
        ("x/y 1", 0, True),
        ("x/y 1", 1, False),
        (None, 0, True),
    ]


def test_the_last_sentence_may_lack_its_blank_line_and_blank_lines_may_repeat(conllu: Path) -> None:
    conllu.write_text("\n\n" + rows("a") + "\n\n# a comment alone\n\n" + rows("b").rstrip("\n"))
    assert [(s.key, s.tokens) for s in read(conllu)] == [(0, ("a",)), (1, ("b",))]


def test_another_column_of_conllu(conllu: Path) -> None:
    conllu.write_text("1\tWent\tgo\n\n")
    assert read(conllu, column=3)[0].tokens == ("go",)
    assert read(conllu, column=-2)[0].tokens == ("Went",)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("The cat sat .\n", "line 1: 'The cat sat .' is no row of CoNLL-U", "--input-format conll"),
        ("1\tThe\nx\tcat\n", "line 2: 'x\\tcat' is no row of CoNLL-U", "--input-format conll"),
        ("1\tThe\n2\t\n", "line 2: column 2 is empty", "--column"),
        ("1\tThe\n3\tsat\n", "line 2: ID '3', 2 has to follow", "--input-format conll --column 2"),
        ("1\tThe\n1\tcat\n", "line 2: ID '1', 2 has to follow; is a blank line", "--column 2"),
        ("\n2\tThe\n", "line 2: ID '2', 1 has to follow", "--column 2"),
    ],
)
def test_what_is_no_conllu_is_refused_by_line(
    conllu: Path, text: str, message: str, hint: str
) -> None:
    conllu.write_text(text)
    with pytest.raises(InputError) as caught:
        read(conllu)
    assert f"{conllu}, {message}" in caught.value.message
    assert hint in caught.value.hint


def test_a_refused_row_takes_its_sentence_and_its_key(conllu: Path) -> None:
    """Without this, half a sentence is embedded, or later keys and places are shifted."""
    conllu.write_bytes(
        b"# newdoc id = d\n1\ta\n\n1\tb\nx\n3\tc\n\n1\td\xe9\n2\te\n\n"
        b"# \xe9\n# newdoc id = e\n1\tf\n\n1\tg\n"
    )
    notes = Notes()
    sentences = read(conllu, notes, on_error="skip")
    found = [(s.key, s.tokens, s.document, s.place, s.starts_document) for s in sentences]
    assert found == [(0, ("a",), "d", 0, True), (4, ("g",), "e", 1, True)]
    assert [line for _, line, _ in notes.skipped] == [5, 8, 11]


def test_a_sentence_over_max_tokens_is_counted_to_its_end(conll: Path) -> None:
    conll.write_text("a\nb\n\n" + "c\n" * 5)
    with pytest.raises(InputError, match=r"a\.conll, line 4: 5 tokens, more than the limit of 2"):
        read(conll, max_tokens=2)


def test_conll_2003_reads_column_1_and_its_documents(conll: Path) -> None:
    conll.write_text(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\n\n"
        "-DOCSTART- -X- O O\n\n# SYM I-NP O\n"
    )
    sentences = read(conll)
    assert [s.tokens for s in sentences] == [("EU", "rejects"), ("Peter",), ("#",)]
    assert [s.starts_document for s in sentences] == [True, False, True]
    assert [s.document for s in sentences] == [None, None, None]
    assert read(conll, column=-1)[0].tokens == ("I-ORG", "O")


def test_conll_2012_reads_column_4_and_keys_documents_as_e2e_coref(conll: Path) -> None:
    """Without this, coreference models do not find their documents in the file."""
    part = "bc/cctv/00/cctv_0000   {part}   {n}   {word}   NN   (NP*)   -   -   -   Speaker  *  -\n"
    conll.write_text(
        "#begin document (bc/cctv/00/cctv_0000); part 000\n"
        + part.format(part=0, n=0, word="In")
        + part.format(part=0, n=1, word="#")
        + "\n"
        + part.format(part=0, n=0, word="Yes")
        + "\n#end document\n#begin document (bc/cctv/00/cctv_0000); part 012\n"
        + part.format(part=12, n=0, word="So")
        + "\n#end document\n#begin document (nw/wsj/24/wsj_2400); part 000\n"
        + part.format(part=0, n=0, word="But")
    )
    found = [(s.tokens, s.document, s.place, s.offset, s.starts_document) for s in read(conll)]
    assert found == [
        (("In", "#"), "bc/cctv/00/cctv_0000_0", 0, 0, True),
        (("Yes",), "bc/cctv/00/cctv_0000_0", 1, 0, False),
        (("So",), "bc/cctv/00/cctv_0000_12", 0, 2, True),
        (("But",), "nw/wsj/24/wsj_2400_0", 0, 0, True),
    ]


def test_tokens_may_hold_spaces_where_tabs_part_the_columns(conll: Path) -> None:
    """Without this, WNUT-like files lose part of such tokens, and comments become tokens."""
    conll.write_text("# a comment\nNew York\tB-LOC\n#\tO\n\u00a0\tO\n\t\nalone\n", "utf-8")
    assert [s.tokens for s in read(conll)] == [("New York", "#", "\u00a0"), ("alone",)]


def test_a_row_parted_otherwise_is_refused(conll: Path) -> None:
    """Without this all its columns would be one token."""
    conll.write_text("EU\tB-ORG\n<doc id=1 x>\nrejects O\n")
    with pytest.raises(
        InputError, match=r"line 3: 'rejects O' has no tab, which parts the columns"
    ):
        read(conll)


def test_columns_part_at_spaces_only_where_there_are_no_tabs(conll: Path) -> None:
    conll.write_text("a\u00a0b  X \n c X\n", "utf-8")
    assert read(conll)[0].tokens == ("a\u00a0b", "c")


def test_counted_tokens_are_recognised_and_said_so(conll: Path) -> None:
    """Without this, CoNLL-X files give the vectors of the numbers 1, 2, 3."""
    conll.write_text("1\tThe\tthe\n2\tcat\tcat\n\n1\tYes\tyes\n")
    notes = Notes()
    assert [s.tokens for s in read(conll, notes)] == [("The", "cat"), ("Yes",)]
    assert "column 2 is read" in notes.warnings[0]
    assert read(conll, column=1)[0].tokens == ("1", "2")


def test_first_sentences_of_one_token_do_not_hide_that_tokens_are_counted(conll: Path) -> None:
    """Without it a CoNLL-X file that begins with a word alone gives the vectors of 1, 2, 3."""
    conll.write_text("1\tYes\tyes\n\n1\tNo\tno\n\n1\tThe\tthe\n2\tcat\tcat\n")
    assert [s.tokens for s in read(conll)] == [("Yes",), ("No",), ("The", "cat")]
    conll.write_text("1 CD O\n\n2 CD O\n\n3 CD O\n")  # tokens that are numbers
    assert [s.tokens for s in read(conll)] == [("1",), ("2",), ("3",)]
    conll.write_text("1 CD O\n\n1 CD O\n")
    assert [s.tokens for s in read(conll)] == [("1",), ("1",)]


def test_a_free_comment_at_the_top_hides_no_columns(conll: Path) -> None:
    """Without it such a file begins with a sentence ("#",), and its columns are taken for one."""
    conll.write_text("# CoNLL-X data of 2006\n\n1\tNew York\tx\n2\tcat\tcat\n\n# the end\n\n")
    assert [s.tokens for s in read(conll)] == [("New York", "cat")]
    conll.write_text("# SYM O\n\na NN O\nb NN O\n")  # without tabs it is a token
    assert [s.tokens for s in read(conll)] == [("#",), ("a", "b")]


def test_a_document_may_have_a_name_without_parentheses(conll: Path) -> None:
    """Without it SemEval-2010 files are one document, and the lemmas stand for the words."""
    conll.write_text(
        "#begin document wsj 1\n1\tIt\tit\tit\n2\tsat\tsit\tsit\n\n#end document\n"
        "#begin document\n1\tSo\tso\tso\n"
    )
    found = [(s.tokens, s.document, s.starts_document) for s in read(conll)]
    assert found == [(("It", "sat"), "wsj 1", True), (("So",), None, True)]
    conll.write_text("#begin document a\na 0 0 In\na 0 1 it\n")
    assert [s.tokens for s in read(conll)] == [("In", "it")]


def test_a_line_that_lacks_the_column_is_refused(conll: Path) -> None:
    conll.write_text("a NN O\nb NN\n")
    with pytest.raises(InputError) as caught:
        read(conll, column=3)
    assert caught.value.message == f"{conll}, line 2: 2 columns, column 3 is asked for"
    with pytest.raises(InputError, match="line 2: 2 columns, column -3 is asked for"):
        read(conll, column=-3)


def test_a_long_first_sentence_is_not_held_back(conll: Path) -> None:
    """The look at the first lines must neither lose nor double any of them."""
    words = [f"w{i}" for i in range(1000)]
    conll.write_text("".join(f"{word} O\n" for word in words))
    assert read(conll)[0].tokens == tuple(words)
