"""`elmo neighbors` and `elmo kwic` on files of `elmo embed`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, refused

from elmo_cli.analysis.neighbors import nearest
from elmo_cli.analysis.query import find_token
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.cli import console
from elmo_cli.store.reader import open_embeddings

LINES = (
    "the play began at eight in the old house by the river that evening",
    "They play [b] ball in the park",
    "Yes .",
    "a Play in 3 acts",
    "Yes .",
    "he began to play at once",
)


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working directory with a text and its embeddings a.hdf5."""
    Path("a.txt").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    made("embed", "a.txt", "-o", "a.hdf5", "-q")


def rows(done: Done) -> list[list[str]]:
    """The cells of what was printed."""
    return [line.split("\t") for line in done.out.decode().splitlines()]


def neighbors(*words: object) -> dict[str, Any]:
    """The result as JSON."""
    done = made("neighbors", *words, "--json", "-q")
    assert (done.out.count(b"\n"), done.err) == (1, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_neighbors_in_a_table_and_as_json() -> None:
    words = ("neighbors", "a.hdf5", "0:play", "2:0", "-k", "3", "--layer", "1")
    done = made(*words)
    first, *found = rows(done)
    assert first == ["cosine", "position", "before", "token", "after"]
    assert found[0] == ["query", "0:1", "the", "play", "began at eight in the old …"]
    assert done.err == "a.hdf5: layer 1, 36 tokens\n"
    assert made(*words, "-q").err == ""
    facts = neighbors(*words[1:])
    queries = facts.pop("queries")
    with open_embeddings("a.hdf5") as embeddings:
        view = LayerView(embeddings, 1)
        tokens = [find_token(view, query) for query in words[2:4]]
        expected = nearest(view, tokens, 3).neighbors
    near = [one for query in queries for one in query["neighbors"]]
    names = ("cosine", "key", "position", "token", "tokens")
    pairs = [(cosine, token) for some in expected for token, cosine in some]
    for row, one, (cosine, token) in zip([*found[1:4], *found[5:]], near, pairs, strict=True):
        assert row == [f"{cosine:.3f}", str(token), *token.context(6)]
        line = LINES[token.key].split()
        values = (cosine, token.key, token.position, line[token.position], line)
        assert one == dict(zip(names, values, strict=True))
    assert facts == {
        "file": "a.hdf5",
        "query_file": None,
        "layer": 1,
        "same_word": False,
        "n_compared": 36,
        "sentences_without_tokens": 0,
        "warnings": [],
    }
    assert [query["query"] for query in queries] == ["0:play", "2:0"]
    occurrences = json.loads(made("kwic", "a.hdf5", "a", "--json", "-q").out)
    for name in {*facts, "queries", *queries[0], *near[0], *occurrences}:
        assert f"`{name}`" in documented("neighbors"), name


def test_same_word() -> None:
    found = rows(made("neighbors", "a.hdf5", "0:play", "--same-word", "-k", "9"))
    assert {row[1] for row in found[2:]} == {"1:1", "3:1", "5:3"}
    done = made("neighbors", "a.hdf5", "0:eight", "--same-word")
    assert len(rows(done)) == 2
    assert done.err.splitlines()[-1] == "a.hdf5: no neighbour for 0:eight"


def test_kwic() -> None:
    done = made("kwic", "a.hdf5", "PLAY")
    assert (rows(done), done.err) == (
        [
            ["position", "before", "token", "after"],
            ["0:1", "the", "play", "began at eight in the old …"],
            ["1:1", "They", "play", "[b] ball in the park"],
            ["3:1", "a", "Play", "in 3 acts"],
            ["5:3", "he began to", "play", "at once"],
        ],
        "",
    )
    facts = json.loads(made("kwic", "a.hdf5", "play", "-k", "2", "--json").out)
    assert (facts["file"], facts["word"]) == ("a.hdf5", "play")
    assert [(one["key"], one["position"]) for one in facts["occurrences"]] == [(0, 1), (1, 1)]
    none = made("kwic", "a.hdf5", "foo")
    assert (len(rows(none)), none.err) == (1, "a.hdf5: foo does not occur\n")


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
    positions = ["0:1", "1:1", "3:1", "5:3"]
    assert facts["queries"] == [
        {**one, "query": "Play", "n_occurrences": 4}
        for one in neighbors("a.hdf5", *positions, "-k", "1")["queries"]
    ]
    [one] = neighbors("a.hdf5", "play", "--occurrence", "3")["queries"]
    assert (one["key"], one["position"], one["n_occurrences"]) == (3, 1, 4)
    Path("c.txt").write_text("".join(f"{k} a\n" for k in range(6)))
    made("embed", "c.txt", "-o", "c.hdf5", "-q")
    done = made("neighbors", "c.hdf5", "a", "-k", "1")
    assert [row[1] for row in rows(done) if row[0] == "query"] == [f"{k}:1" for k in range(5)]
    assert "c.hdf5: 5 of 6 occurrences of a; `--occurrence all`" in done.err


@pytest.mark.parametrize("options", [(), ("--layers", "1"), ("--tokenize",)])
def test_typed_sentence_equals_a_query_file(tiny: Path, options: tuple[str, ...]) -> None:
    made("embed", "a.txt", "-o", "a.hdf5", "-qf", *options)
    made("embed", "-", "-o", "q.hdf5", "-q", *options, stdin=b"he liked a play .\n")
    [typed] = neighbors("a.hdf5", "--text", "he liked a [play] .", "-m", tiny)["queries"]
    [query] = neighbors("a.hdf5", "0:3", "--query-file", "q.hdf5")["queries"]
    near = [(one["key"], one["position"]) for one in query.pop("neighbors")]
    found = typed.pop("neighbors")
    assert [(one["key"], one["position"]) for one in found] == near
    assert typed == {**query, "query": "he liked a [play] ."}


def test_typed_sentence_for_carried_states(tiny: Path) -> None:
    made("embed", "a.txt", "-o", "a.hdf5", "-qf", "--state", "carry", "--batch-size", "2")
    done = made("neighbors", "a.hdf5", "--text", "a [play]", "--text", "[play] it", "-m", tiny)
    assert done.err.startswith("warning: a.hdf5: state is 'carry', that of a typed sentence ")
    assert [row[1] for row in rows(done) if row[0] == "query"] == ["0:1", "1:0"]


def test_files_without_tokens_and_of_pooled_sentences() -> None:
    made("embed", "a.txt", "-o", "b.hdf5", "-q", "--layout", "bilm")
    done = made("neighbors", "b.hdf5", "0:1", "-k", "1")
    assert rows(done)[1] == ["query", "0:1", "", "", ""]
    assert done.err.splitlines()[1].startswith("b.hdf5: the tokens of some sentences")
    made("embed", "a.txt", "-o", "p.hdf5", "-q", "--pool", "mean")
    done = made("neighbors", "p.hdf5", "0", "-k", "2")
    found = rows(done)
    assert found[1] == ["query", "0", "", "", " ".join(LINES[0].split()[:13]) + " …"]
    assert (len(found), done.err) == (4, "p.hdf5: layer 2, 6 sentences\n")


def test_terminal_shows_tokens_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as markup of rich or control characters."""
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
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
    what = "a.hdf5: sentence '3' holds int32 in shape (3, 5), "
    refused(elmo("neighbors", "a.hdf5", "0:1"), 1, what, "")


def test_torch_is_not_imported() -> None:
    program = (
        "import sys; from elmo_cli.cli.main import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", program, "neighbors", "a.hdf5", "0:1", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
