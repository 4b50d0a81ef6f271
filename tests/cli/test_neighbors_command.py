"""`elmo neighbors` and `elmo kwic` on files of `elmo embed`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, only_tiny, refused
from rich.cells import cell_len

from elmo_cli.cli import console
from elmo_cli.cli.kwic import fit_rows

LINES = (
    "the play began at eight in the old house by the river that evening",
    "They play [b] ball in the park",
    "Yes .",
    "a Play in 3 acts",
    "Yes .",
    "he began to play at once",
)


@pytest.fixture(scope="module")
def embedded(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and its embeddings, a.hdf5 in the layout `allennlp` and flat.hdf5."""
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "a.txt").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        only_tiny(patch, tiny)
        patch.chdir(folder)
        made("embed", "a.txt", "-o", "a.hdf5", "-q")
        made("embed", "a.txt", "-o", "flat.hdf5", "--layout", "flat", "-q")
    return folder


@pytest.fixture(autouse=True)
def here(embedded: Path, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a copy of the files of `embedded`."""
    only_tiny(monkeypatch, tiny)
    shutil.copytree(embedded, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def rows(done: Done) -> list[list[str]]:
    """The cells of what was printed."""
    return [line.split("\t") for line in done.out.decode().splitlines()]


def query_positions(done: Done) -> list[str]:
    """Where the queries of a table are."""
    return [row[1] for row in rows(done) if row[0] == "query"]


def positions(occurrences: list[dict[str, Any]]) -> list[str]:
    """Where tokens are, as the table shows it."""
    return [f"{occurrence['key']}:{occurrence['position']}" for occurrence in occurrences]


def neighbors(*words: object) -> dict[str, Any]:
    """The result as JSON."""
    done = made("neighbors", *words, "--json", "-q")
    assert done.out.count(b"\n") == 1
    assert done.err == ""
    facts: dict[str, Any] = json.loads(done.out)
    return facts


def test_table_shows_what_json_contains() -> None:
    words = ("a.hdf5", "0:play", "2:0", "-k", "3", "--layer", "1")
    facts = neighbors(*words)
    done = made("neighbors", *words)
    header, *table = rows(done)
    assert header == ["cosine", "position", "before", "token", "after"]
    assert table[0] == ["query", "0:1", "the", "play", "began at eight in the old …"]
    expected = []
    for query in facts.pop("queries"):
        assert query["n_occurrences"] is None
        assert len(query["neighbors"]) == 3
        expected.append(["query", f"{query['key']}:{query['position']}"])
        for near in query["neighbors"]:
            expected.append([f"{near['cosine']:.3f}", f"{near['key']}:{near['position']}"])
            assert near["tokens"] == LINES[near["key"]].split()
            assert near["token"] == near["tokens"][near["position"]]
    assert [row[:2] for row in table] == expected
    for _, where, before, token, after in table:
        key, position = map(int, where.split(":"))
        assert LINES[key].split()[position] == token
        assert f"{before} {token} {after}".strip(" …") in LINES[key]
    assert facts == {
        "file": "a.hdf5",
        "query_file": None,
        "layer": 1,
        "same_word": False,
        "n_compared": 36,
        "sentences_without_tokens": 0,
        "warnings": [],
    }
    assert done.err == "a.hdf5: layer 1, 36 tokens; the 3 nearest of each query (-k)\n"
    occurrences = json.loads(made("kwic", "a.hdf5", "a", "--json", "-q").out)
    for name in {*facts, "queries", *query, *near, *occurrences}:
        assert f"`{name}`" in documented("neighbors"), name


def test_same_word() -> None:
    done = made("neighbors", "a.hdf5", "0:play", "0:eight", "--same-word", "-k", "9")
    assert {row[1] for row in rows(done)[2:-1]} == {"1:1", "3:1", "5:3"}
    assert rows(done)[-1][:2] == ["query", "0:4"]  # without a neighbor
    assert done.err == "a.hdf5: layer 2, 36 tokens\n"


def test_counts_have_their_nouns_and_an_empty_file_no_layers() -> None:
    Path("b.txt").write_text("play\n")
    Path("c.txt").write_text("")
    for name in ("b", "c"):
        made("embed", f"{name}.txt", "-o", f"{name}.hdf5", "--layout", "flat", "-q")
    assert "b.hdf5: layer 2, 1 token\n" in made("neighbors", "b.hdf5", "0:0").err
    rows_of_file = [line.split() for line in made("inspect", "c.hdf5").out.decode().splitlines()]
    assert ["layers", "none"] in rows_of_file
    refused(elmo("kwic", "c.hdf5", "play"), 2, "c.hdf5: the file has no tokens", "embed a text")


def test_kwic() -> None:
    done = made("kwic", "a.hdf5", "PLAY")
    assert done.err == ""
    assert rows(done) == [
        ["position", "before", "token", "after"],
        ["0:1", "the", "play", "began at eight in the old …"],
        ["1:1", "They", "play", "[b] ball in the park"],
        ["3:1", "a", "Play", "in 3 acts"],
        ["5:3", "he began to", "play", "at once"],
    ]
    facts = json.loads(made("kwic", "a.hdf5", "play", "-k", "2", "--json").out)
    assert facts["file"] == "a.hdf5"
    assert facts["word"] == "play"
    assert positions(facts["occurrences"]) == ["0:1", "1:1"]


def test_kwic_of_a_word_that_does_not_occur() -> None:
    done = made("kwic", "a.hdf5", "foo")
    assert len(rows(done)) == 1
    assert done.err == "a.hdf5: foo does not occur\n"


@pytest.mark.parametrize(
    ("phrase", "found"),
    [
        ("the  PLAY", ["0:0"]),
        ("in the", ["0:5", "1:4"]),
        ("the park", ["1:5"]),
        ("play began at eight", ["0:1"]),
        ("old river", []),
        ("evening They", []),
    ],
)
def test_kwic_of_a_phrase(phrase: str, found: list[str]) -> None:
    """Tokens that occur one by one are no answer to a search for all of them in a row."""
    for name in ("a.hdf5", "flat.hdf5"):
        done = made("kwic", name, phrase, "--json")
        occurrences = json.loads(done.out)["occurrences"]
        assert positions(occurrences) == found
        for occurrence in occurrences:
            assert occurrence["token"].lower() == " ".join(phrase.lower().split())
        assert ("does not occur" in done.err) == (not found)


def test_kwic_of_tokens_with_spaces_and_of_raw_text() -> None:
    Path("s.jsonl").write_text(
        '{"tokens": ["10 000", "roses"]}\n{"tokens": ["10", "000", "more", "roses"]}\n'
    )
    made("embed", "s.jsonl", "-o", "s.hdf5", "--layout", "flat", "-q")
    assert positions(json.loads(made("kwic", "s.hdf5", "10 000", "--json").out)["occurrences"]) == [
        "0:0",
        "1:0",
    ]
    done = made("embed", "s.jsonl", "-o", "t.hdf5")
    warning = "warning: t.hdf5: the tokens of 1 sentence are not recorded: sentence 0 (`10 000"
    assert warning in done.err
    assert "`--layout flat`" in done.err
    facts = json.loads(made("kwic", "t.hdf5", "roses", "--json").out)
    assert facts["sentences_without_tokens"] == 1
    done = made("neighbors", "t.hdf5", "1:roses", "--same-word", "--json")
    facts = json.loads(done.out)
    assert facts["sentences_without_tokens"] == 1
    assert facts["warnings"] == ["t.hdf5: skipped 1 sentence whose tokens are not stored"]
    assert f"warning: {facts['warnings'][0]}\n" in done.err
    done = made("kwic", "t.hdf5", "roses")
    assert [row[0] for row in rows(done)[1:]] == ["1:3"]
    assert done.err == "warning: t.hdf5: skipped 1 sentence whose tokens are not stored\n"
    made("embed", "-", "-o", "r.hdf5", "--tokenize", "-q", stdin=b"I don't know.")
    assert positions(json.loads(made("kwic", "r.hdf5", "don't", "--json").out)["occurrences"]) == [
        "0:1"
    ]
    assert elmo("kwic", "a.hdf5", " ").code == 2


CELLS = ["a", "bb ccc", "日本語", "e\u0301", "😀", "x" * 300]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("columns", [("position",), ("cosine", "position")])
def test_a_row_fits_the_terminal(columns: tuple[str, ...], width: int) -> None:
    """A line that wraps, or that a wide character makes longer than counted, is no table."""
    header = (*columns, "before", "token", "after")
    table = []
    for before in CELLS:
        for token in CELLS:
            for after in CELLS:
                first = ["0.123", "a/long/key_0000:12"][-len(columns) :]
                table.append((*first, f"{before} left", token, f"right {after}"))
    for shown in (table, table[:3]):
        fitted = fit_rows(header, shown, width)
        widths = [max(map(cell_len, cells)) for cells in zip(header, *fitted, strict=True)]
        assert sum(widths) + 2 * (len(header) - 1) <= width
        for row, cut in zip(shown, fitted, strict=True):
            assert row[-3].endswith(cut[-3].removeprefix("…"))
            assert row[-2].startswith(cut[-2].removesuffix("…"))
            assert row[-1].startswith(cut[-1].removesuffix("…"))
            assert cut[: len(columns)] == row[: len(columns)] or width < 80


def test_short_rows_are_not_cut() -> None:
    header = ("position", "before", "token", "after")
    shown = [("0:1", "he", "play", "w " * 20)]
    assert fit_rows(header, shown, 80) == shown


def test_queries_of_another_file() -> None:
    options = ("--layout", "flat", "--state", "carry", "--batch-size", "2")
    made("embed", "-", "-o", "q.hdf5", "-q", *options, stdin=b"a play\n")
    words = ("neighbors", "a.hdf5", "0:play", "--query-file", "q.hdf5")
    warning = "q.hdf5: state is 'carry', that of a.hdf5 is 'zero'"
    assert made(*words).err.splitlines()[0] == f"warning: {warning}"
    facts = neighbors(*words[1:])
    assert (facts["query_file"], facts["warnings"][0]) == ("q.hdf5", warning)
    assert facts["queries"][0]["tokens"] == ["a", "play"]
    same = neighbors("a.hdf5", "0:play", "--query-file", "a.hdf5")
    assert same == {**neighbors("a.hdf5", "0:play"), "query_file": "a.hdf5"}


def test_word_in_the_file() -> None:
    facts = neighbors("a.hdf5", "Play", "--occurrence", "all", "-k", "1")
    by_position = neighbors("a.hdf5", "0:1", "1:1", "3:1", "5:3", "-k", "1")
    expected = []
    for query in by_position["queries"]:
        expected.append({**query, "query": "Play", "n_occurrences": 4})
    assert facts["queries"] == expected
    (third,) = neighbors("a.hdf5", "play", "--occurrence", "3")["queries"]
    assert positions([third]) == ["3:1"]
    assert len(third["neighbors"]) == 5  # by default
    assert third["n_occurrences"] == 4


def test_only_the_first_occurrences_of_a_word_are_queries() -> None:
    Path("c.txt").write_text("".join(f"{number} a\n" for number in range(6)))
    made("embed", "c.txt", "-o", "c.hdf5", "-q")
    done = made("neighbors", "c.hdf5", "a", "-k", "1")
    assert query_positions(done) == ["0:1", "1:1", "2:1", "3:1", "4:1"]
    assert "c.hdf5: 5 of 6 occurrences of a; `--occurrence all`" in done.err
    done = made("neighbors", "c.hdf5", "=3")
    assert done.err.splitlines()[-1] == "c.hdf5: 1 of 1 occurrence of 3"
    done = made("neighbors", "c.hdf5", "a", "-k", "1", "--occurrence", "all")
    assert done.err.splitlines()[-1] == "c.hdf5: 6 of 6 occurrences of a"  # no more to search with


@pytest.mark.parametrize("options", [(), ("--layers", "0,1"), ("--tokenize",)])
def test_typed_sentence_equals_a_query_file(tiny: Path, options: tuple[str, ...]) -> None:
    made("embed", "a.txt", "-o", "a.hdf5", "-qf", *options)
    made("embed", "-", "-o", "q.hdf5", "-q", *options, stdin=b"he liked a play .\n")
    layer = ("--layer", "0") if options else ()
    words = ("--text", "he liked a [play] .", "-m", tiny)
    (typed,) = neighbors("a.hdf5", *words, *layer)["queries"]
    (query,) = neighbors("a.hdf5", "0:3", "--query-file", "q.hdf5", *layer)["queries"]
    assert positions(typed.pop("neighbors")) == positions(query.pop("neighbors"))
    assert typed == {**query, "query": "he liked a [play] ."}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0:1 -m tiny", "--model: has no effect without --text"),
        ("--text [a] --query-file a.hdf5", "--query-file: has no effect with --text"),
        ("--text [a] --occurrence 2", "--occurrence: has no effect with --text"),
        ("0:1 -f", "--overwrite: has no effect without --output"),
        ("0:1 --text [a]", "expected either a QUERY or --text"),
        ("-k 2", "expected either a QUERY or --text"),
        ("play --occurrence 0", "--occurrence 0: no such number"),
        ("play --occurrence 1.5", "--occurrence 1.5: no such number"),
        ("play --occurrence 1234567890", "--occurrence 1234567890: no such number"),
        ("play --occurrence 123456789", "`--occurrence 123456789`: the last occurrence of"),
    ],
)
def test_contradictions_and_wrong_numbers_are_refused(line: str, message: str) -> None:
    done = elmo("neighbors", "a.hdf5", *line.split())
    assert done.code == 2
    assert done.err.startswith(f"error: {message}")


def test_typed_sentence_for_carried_states(tiny: Path) -> None:
    made("embed", "a.txt", "-o", "a.hdf5", "-qf", "--state", "carry", "--batch-size", "2")
    done = made("neighbors", "a.hdf5", "--text", "a [play]", "--text", "[play] it", "-m", tiny)
    assert done.err.startswith("warning: a.hdf5: state is 'carry', that of a typed sentence ")
    assert query_positions(done) == ["0:1", "1:0"]


@pytest.mark.parametrize(
    ("options", "query", "row", "note"),
    [
        (["--layout", "bilm"], "0:1", "", "the tokens of some sentences are not stored"),
        (
            ["--pool", "mean"],
            "0",
            " ".join(LINES[0].split()[:13]) + " …",
            "layer 2, 6 sentences; the 2 nearest of each query (-k)",
        ),
    ],
)
def test_queries_without_a_token(options: list[str], query: str, row: str, note: str) -> None:
    made("embed", "a.txt", "-o", "b.hdf5", "-q", *options)
    done = made("neighbors", "b.hdf5", query, "-k", "2")
    _, query_row, *table = rows(done)
    assert query_row == ["query", query, "", "", row]
    assert len(table) == 2
    assert done.err.splitlines()[-1] == f"b.hdf5: {note}"


def test_terminal_shows_tokens_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as markup of rich or control characters."""

    def is_terminal(stream: object) -> bool:
        return True

    monkeypatch.setattr(console, "is_terminal", is_terminal)
    monkeypatch.setenv("COLUMNS", "120")
    shown = made("kwic", "a.hdf5", "[b]").out.decode()
    assert "They play" in shown
    assert "[b]" in shown
    assert "\t" not in shown
    Path("c.jsonl").write_text('{"tokens": ["a\\u001b[31m", "b\\tc", "d\\u00a0e", "f"]}\n')
    made("embed", "c.jsonl", "-o", "c.hdf5", "-q", "--layout", "flat")
    shown = made("kwic", "c.hdf5", "f").out.decode()
    assert r"a\x1b[31m b\tc d" in shown


def test_corrupt_file_is_read_in_a_child_process() -> None:
    with h5py.File("a.hdf5", "a") as file:
        del file["3"]
        file["3"] = np.zeros((3, 5), np.int32)
    done = elmo("neighbors", "a.hdf5", "0:1")
    assert done.code == 1
    assert done.err.startswith("error: a.hdf5: sentence '3' holds int32 in shape (3, 5), ")


def test_torch_is_not_imported() -> None:
    program = (
        "import sys; from elmo_cli.cli.main import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", program, "neighbors", "a.hdf5", "0:1", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
