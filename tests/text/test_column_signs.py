"""Files of columns that are something else: other separators, rows of names, CSV."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from text_files import read, refused, tokens, write

from elmo_cli.analysis.labelled_vectors import LabelSettings, read_labels
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.task import load_task
from elmo_cli.text.column_signs import csv_sign, separator_sign
from elmo_cli.text.conll import CONLLU_COLUMNS
from elmo_cli.text.input_report import InputReport


def embed_tokens(path: Path) -> None:
    read(path)


def probe_labels(path: Path) -> None:
    list(read_labels(str(path), LabelSettings()))


def train_ner(path: Path) -> None:
    read_data_file(load_task("ner"), str(path))


def predict_ner(path: Path) -> None:
    read_data_file(load_task("ner"), str(path), labelled=False)


def train_coref(path: Path) -> None:
    read_data_file(load_task("coref"), str(path))


def train_srl(path: Path) -> None:
    read_data_file(load_task("srl"), str(path))


READERS = (embed_tokens, probe_labels, train_ner, predict_ner, train_coref, train_srl)

# Rows of one column for a splitter at tabs and spaces, and what their message names.
SEPARATED = {
    "commas": ("EU,NNP,B-ORG\nrejects,VBZ,O\n\nPeter,NNP,B-PER\n", "`,`"),
    "semicolons": ("EU;B-ORG\nrejects;O\n", "`;`"),
    "bars": ("EU|B-ORG\nrejects|O\n", "`|`"),
    "bars with spaces": ("EU | B-ORG\nrejects | O\n", "`|`"),
    "commas with spaces": ("EU, NNP, B-ORG\nrejects, VBZ, O\n", "`,`"),
    "commas with tabs": ("EU,\tB-ORG\nrejects,\tO\n", "`,`"),
    "quoted": ('"EU","B-ORG"\n"10,000","O"\n', "`,`"),
    "no-break spaces": ("EU\u00a0B-ORG\nrejects\u00a0\u00a0O\nGerman\u00a0B-MISC\n", "U+00A0"),
    "ideographic spaces": ("EU\u3000B-ORG\nrejects\u3000O\n", "U+3000"),
    "narrow spaces": ("EU\u202fB-ORG\nrejects\u202fO\n", "U+202F"),
    "em spaces": ("# a comment\nEU\u2003B-ORG\nrejects\u2003O\n", "U+2003"),
    "unit separators": ("EU\x1fB-ORG\nrejects\x1fO\n", "U+001F"),
    "in half of the rows as often": ("EU,O\nGerman,NNP,O\n", "`,`"),
    "a comma as a token": ("EU,NNP,O\n,,,,O\nGermany,NNP,O\nran,VB,O\n", "`,`"),
}


@pytest.mark.parametrize("name", SEPARATED)
@pytest.mark.parametrize("use", READERS)
def test_another_separator_is_refused(
    tmp_path: Path, use: Callable[[Path], None], name: str
) -> None:
    """Each row would be one token with its label in it, and the numbers of both would agree."""
    content, separator = SEPARATED[name]
    path = write(tmp_path / "a.conll", content)
    line = 2 if content.startswith("#") else 1
    with pytest.raises(ElmoError) as caught:
        use(path)
    problem = f"the columns are separated by {separator}, not by tabs or spaces"
    assert caught.value.message == f"{path}, line {line}: {problem}"
    assert "replace it" in caught.value.hint or "export" in caught.value.hint


@pytest.mark.parametrize("separator", "/_")
@pytest.mark.parametrize("use", READERS)
def test_tokens_that_are_joined_with_tags_are_refused(
    tmp_path: Path, use: Callable[[Path], None], separator: str
) -> None:
    """As taggers print them; the command of the hint separates them."""
    content = "The/DT\ncat/NN\n\n1\\/2/CD\n./.\nA/DT\n".replace("/", separator)
    path = write(tmp_path / "FILE.conll", content)
    with pytest.raises(ElmoError, match=f"the tokens are joined with tags by `{separator}`") as e:
        use(path)
    _, command, _ = e.value.hint.replace(" FILE ", " FILE.conll ").split("`")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    rows = (tmp_path / "NEW_FILE").read_text().split("\n")
    expected = ["The\tDT", "cat\tNN", "", "1\\/2\tCD", ".\t.", "A\tDT", ""]
    assert rows == [row.replace("/", separator) for row in expected]


@pytest.mark.parametrize("content", ['"EU"\t"O"\n"a ""b"""\t"O"\n', '"EU"\n"ran"\n'])
@pytest.mark.parametrize("use", READERS)
def test_cells_in_quotes_are_refused(
    tmp_path: Path, use: Callable[[Path], None], content: str
) -> None:
    """The quotes would be a part of the tokens and of the labels."""
    path = write(tmp_path / "a.conll", content)
    with pytest.raises(ElmoError, match=r"a\.conll, line 1: the cells are in quotes") as caught:
        use(path)
    assert "`quoting=csv.QUOTE_NONE`" in caught.value.hint


def test_a_quote_in_quotes_is_warned_of(tmp_path: Path) -> None:
    """A table writes the token `"` in this way, also one that writes no other cell in quotes."""
    path = write(tmp_path / "a.conll", 'He\tO\n""""\tO\nHi\tO\n""""\tO\n')
    report = InputReport()
    read(path, report)
    [warning] = report.warnings
    assert warning.startswith(f'{path}, line 2: a cell is `""""`, as tables write')


@pytest.mark.parametrize("content", ['He\tO\n"\tO\n""\t"\n', '"EU"\tO\nran\tO\n', '"EU" O\n'])
def test_quotes_may_be_tokens(tmp_path: Path, content: str) -> None:
    report = InputReport()
    [sentence] = read(write(tmp_path / "a.conll", content), report)
    assert len(sentence.tokens) == content.count("\n")
    assert report.warnings == []


def test_labels_of_spans_are_no_tokens(tmp_path: Path) -> None:
    """In some data sets the label comes first, as in those of the MIT movie corpus."""
    rows = "O\tthe\nB-PER\tAnna\n\nO\ta\n"
    error = refused(write(tmp_path / "a.conll", rows))
    assert error.message.endswith("line 1: column 1 ('O') holds labels of spans, not tokens")
    assert "`column=2`" in error.hint
    assert tokens(tmp_path / "a.conll", column=2) == ["the Anna", "a"]
    assert tokens(write(tmp_path / "b.conll", "O\tUH\n\nO\tUH\nOh\tUH\n")) == ["O", "O Oh"]


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        (["EU;O", "ran;O"], "replace it: `tr ';' '\\t' < FILE > NEW_FILE`"),
        (["EU|O", '"ran"|O'], "export the table with tabs and without quotes"),
        (["EU\u00a0O"] * 2, r"replace it: `sed 's/\xC2\xA0/\t/g' FILE > NEW_FILE`"),
        (["EU \u3000O"] * 2, r"replace it: `sed 's/\xE3\x80\x80/\t/g' FILE > NEW_FILE`"),
    ],
)
def test_the_hint_replaces_the_separator(rows: list[str], hint: str) -> None:
    sign = separator_sign(rows)
    assert sign is not None
    assert sign.hint == hint


@pytest.mark.parametrize(("n_others", "is_sign"), [(1, True), (2, False)])
def test_a_tenth_of_the_rows_may_lack_the_separator(n_others: int, is_sign: bool) -> None:
    sign = separator_sign(["EU,O"] * (10 - n_others) + ["ran"] * n_others)
    assert (sign is not None) == is_sign


@pytest.mark.parametrize(
    "content",
    [
        "EU\n10,000\nGerman\n\nPeter\n",
        "and/or\nEU\n",
        "a\n,\nb\n",
        "1,000\n",  # one row may be one token
        ", ,\nEU NNP\n",
        "a|b X\nc|d Y\n",
        "a\tN|Sing\nb\tV|Past\n",
        "New York\tB-LOC\n, and\tO\n",
        "a\u00a0b\tO\nc\u00a0d\tO\n",
        "a b\nc\td\n",  # a tab in half of the rows, not in the first one
    ],
)
def test_true_columns_are_read(tmp_path: Path, content: str) -> None:
    rows = sum(len(sentence.tokens) for sentence in read(write(tmp_path / "a.conll", content)))
    assert rows == sum(line != "" for line in content.splitlines())


HEADERS = {
    "tabs": "token\tlabel\nEU\tB-ORG\nrejects\tO\n\nPeter\tB-PER\n",
    "emtsv": "form\tpos\nThe\tDT\ndog\tNN\n",
    "emtsv, all": "form\twsafter\tanas\tlemma\txpostag\nA\t\\n\t[]\ta\t[/Det]\n",
    "spaces": "Word POS Tag\nThousands NNS O\nof IN O\n",
    "capitals": "TOKEN\tNE-COARSE-LIT\tNE-FINE-COMP\tMISC\nA\tO\tO\t_\n",
    "underscores": "token_id\tword\tner_tag\n1\tA\tO\n2\tb\tO\n",
    "with a hash": "#form\tpos\nThe\tDT\n",
    "with a hash and a space": "# form\tpos\nThe\tDT\n",
    "quotes": '"word"\t"label"\nA\tO\n',
    "kaggle": "Sentence #\tWord\tPOS\tTag\ns1\tA\tDT\tO\ns1\tb\tNN\tO\n",
    "then a blank line": "token\tlabel\n\nEU\tB-ORG\nran\tO\n",
    "of fewer columns": "word tag\n\nEU NNP O\nran VB O\n",
    "after a comment": "# data = x\ntoken\tlabel\nEU\tO\n",
    "of two files": "token\tlabel\nEU\tO\n\ntoken\tlabel\nran\tO\n",
    "a word that is a name": "word\tlabel\n" + "the\tO\n" * 200 + "word\tO\n",
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("use", READERS)
def test_a_row_of_column_names_is_refused(
    tmp_path: Path, use: Callable[[Path], None], name: str
) -> None:
    """It would be the first token, and shift all labels of the first sentence."""
    path = write(tmp_path / "a.conll", HEADERS[name])
    line = 2 if name == "after a comment" else 1
    with pytest.raises(ElmoError) as caught:
        use(path)
    assert caught.value.message.startswith(f"{path}, line {line}: the row names the columns ('")
    if name != "of two files":
        assert caught.value.hint == f"delete it: `sed '{line}d' FILE > NEW_FILE`"


@pytest.mark.parametrize("name", HEADERS)
def test_the_command_of_the_hint_deletes_the_names_of_the_columns(
    tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / "FILE", HEADERS[name])
    error = refused(path, format="conll")
    _, command, _ = error.hint.split("`")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    lines = HEADERS[name].splitlines(keepends=True)
    header = lines[1] if name == "after a comment" else lines[0]
    expected = [line for line in lines if line != header]
    assert (tmp_path / "NEW_FILE").read_text() == "".join(expected)


@pytest.mark.parametrize(
    "content",
    [
        "Word NN O\nTag NN O\n",
        "token\nEU\nrejects\n",  # one name may be a token
        "Word word\ncat word\n12 number\n",  # labels
        "EU\tO\n\ntoken\tlabel\n",  # not the first row
        "# form lemma pos\nEU O\nran O\n",  # a comment, by its number of columns
        "tag tag\nEU NNP\n",  # a word and its label
    ],
)
def test_a_first_row_that_holds_a_token_is_read(tmp_path: Path, content: str) -> None:
    rows = sum(len(sentence.tokens) for sentence in read(write(tmp_path / "a.conll", content)))
    is_row = [line != "" and not line.startswith("# ") for line in content.splitlines()]
    assert rows == sum(is_row)


@pytest.mark.parametrize("use", READERS)
def test_a_line_of_a_no_break_space_is_not_blank(
    tmp_path: Path, use: Callable[[Path], None]
) -> None:
    """One rule for all: ASCII whitespace is blank, so that U+00A0 may be a token."""
    path = write(tmp_path / "a.conll", "EU\tO\n\u00a0\nran\tO\n")
    with pytest.raises(ElmoError, match=r"line 2: '\\xa0': the number of columns is 1, not 2"):
        use(path)


def test_blank_lines_of_trees_and_json_are_ascii_white_space(tmp_path: Path) -> None:
    assert "line 2: '\\xa0'" in refused(write(tmp_path / "a.conllu", "1\ta\n\u00a0\n")).message
    assert tokens(write(tmp_path / "b.conllu", "1\ta\n \x0c\n1\tb\n")) == ["a", "b"]
    error = refused(write(tmp_path / "a.jsonl", '{"tokens": ["a"]}\n\u3000\n'))
    assert "line 2: not JSON" in error.message


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("text,label\nThe cat sat .,pos\n", 1),
        ("\n \ntext,label\nThe cat sat .,pos\n", 3),
        ("Id;Sentence;Label\n1;It works .;pos\n", 1),
        ('1,"It works, really .",pos\n2,"No .",neg\n', 1),
        ("1,The cat sat\n2,The dog ran\n3,It slept\n", 1),
        ("\n1;The cat sat\n2;The dog, too\n3;It slept\n", 2),
        ("LJ1-01|Printing, in the\nLJ1-02|in being a|in being 1\nLJ1-03|For the first\n", 1),
    ],
)
def test_csv_is_no_text(tmp_path: Path, content: str, line: int) -> None:
    error = refused(write(tmp_path / "a.txt", content))
    assert error.message == f"{tmp_path / 'a.txt'}, line {line}: looks like CSV, which is not read"
    assert tokens(tmp_path / "a.txt", format="plain")
    with pytest.raises(UsageError, match=r"a\.csv: a table by its suffix"):
        read(write(tmp_path / "a.csv", content))


def test_bars_between_many_words_are_read_in_linear_time() -> None:
    """A pattern that may divide the words in many ways would take minutes."""
    row = "a|" + "b " * 4000 + "|c|d"
    start = time.process_time()
    assert csv_sign([row] * 3) is None
    assert time.process_time() - start < 1


def test_at_most_five_names_of_columns_are_shown(tmp_path: Path) -> None:
    content = f"{' '.join(CONLLU_COLUMNS)}\n{'x ' * len(CONLLU_COLUMNS)}\n"
    error = refused(write(tmp_path / "a.conll", content))
    shown = "'id', 'form', 'lemma', 'upos', 'xpos'"
    problem = f"the row names the columns ({shown}) and is not data"
    assert error.message == f"{tmp_path / 'a.conll'}, line 1: {problem}"


@pytest.mark.parametrize(
    "content",
    [
        '"No," he said, "now."\n' * 9,
        "words, words\n" * 9,
        "text\n",
        "text,text\n",
        "Tokens, labels\n",  # a space follows the comma
        '"Yes","No"\n',  # a single line
        '"Yes","No"\n' * 8 + "He said so .\n",  # 8 of 9 lines
        "10,000\n1,5\n2,500 people\n",
        "1,a\n2,b\n",  # two lines
        "1,a\n" * 8 + "b\n",  # 8 of 9 lines
        "The|DT old|JJ\nA|DT cat|NN\nIt|P ran|V\n",
        "a | b\nc | d\ne | f\n",
    ],
)
def test_a_text_with_commas_is_no_csv(tmp_path: Path, content: str) -> None:
    assert tokens(write(tmp_path / "a.txt", content))
