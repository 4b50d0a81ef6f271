"""`elmo neighbors` as a person runs it, on files of `elmo embed`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, only_tiny

from elmo_cli.cli import concordance
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
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with texts and a.hdf5, where $ELMO_MODEL is the small model."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    made("embed", "a.txt", "-o", "a.hdf5", "-q")
    return tmp_path


def lines(done: Done) -> list[list[str]]:
    """The cells of what was printed."""
    return [line.split("\t") for line in done.out.decode().splitlines()]


def nearest(key: int, at: int, layer: int, n: int) -> list[tuple[float, str]]:
    """Cosine and place of the nearest tokens, by brute force."""
    with open_embeddings("a.hdf5") as embeddings:
        query = embeddings[key][layer, at]
        found = [
            (float(row @ query / np.linalg.norm(row) / np.linalg.norm(query)), f"{other}:{place}")
            for other in embeddings
            for place, row in enumerate(embeddings[other][layer])
            if LINES[other] != LINES[key]
        ]
    return sorted(found, key=lambda one: -one[0])[:n]


def test_a_table_of_the_nearest() -> None:
    done = made("neighbors", "a.hdf5", "0:play", "2:0", "-k", "3")
    first, *rows = lines(done)
    assert first == ["cosine", "position", "before", "token", "after"]
    assert [row[0] for row in rows].count("query") == 2
    assert rows[0] == ["query", "0:1", "the", "play", "began at eight in the old …"]
    for begin, key, at in ((0, 0, 1), (4, 2, 0)):
        expected = [[f"{cosine:.3f}", place] for cosine, place in nearest(key, at, 2, 3)]
        assert [row[:2] for row in rows[begin + 1 : begin + 4]] == expected
    for _, place, before, token, after in rows:
        key, at = map(int, place.split(":"))
        assert LINES[key].split()[at] == token
        assert f"{before} {token} {after}".strip(" …") in LINES[key]
    assert done.err == "a.hdf5: layer 2, 36 tokens\n"
    assert made("neighbors", "a.hdf5", "0:play", "2:0", "-k", "3", "-q").err == ""


def test_one_object_of_json() -> None:
    done = made("neighbors", "a.hdf5", "0:play", "--layer", "1", "--json", "-q")
    facts = json.loads(done.out)
    assert done.out.count(b"\n") == 1
    assert done.err == ""
    [query] = facts.pop("queries")
    assert facts == {
        "file": "a.hdf5",
        "query_file": None,
        "layer": 1,
        "same_word": False,
        "n_compared": 36,
        "sentences_without_tokens": 0,
        "warnings": [],
    }
    near = query.pop("neighbors")
    tokens = [line.split() for line in LINES]
    place = {"key": 0, "position": 1, "token": "play", "tokens": tokens[0]}
    assert query == {"query": "0:play", **place}
    assert [f"{one['key']}:{one['position']}" for one in near] == [
        place for _, place in nearest(0, 1, 1, 5)
    ]
    for one in near:
        assert set(one) == {"cosine", "key", "position", "token", "tokens"}
        assert one["tokens"] == tokens[one["key"]]
        assert one["token"] == one["tokens"][one["position"]]


def test_the_same_bytes_again() -> None:
    words = ("neighbors", "a.hdf5", "0:play", "5:3", "--json")
    assert made(*words).out == made(*words).out


def test_the_same_word() -> None:
    rows = lines(made("neighbors", "a.hdf5", "0:play", "--same-word", "-k", "9"))
    assert [row[3] for row in rows[1:]].count("play") == 3
    assert {row[1] for row in rows[2:]} == {"1:1", "3:1", "5:3"}
    done = made("neighbors", "a.hdf5", "0:eight", "--same-word")
    assert len(lines(done)) == 2
    assert done.err.splitlines()[-1] == "a.hdf5: no neighbour for 0:eight"


def test_places_of_a_word() -> None:
    done = made("kwic", "a.hdf5", "PLAY")
    assert lines(done) == [
        ["position", "before", "token", "after"],
        ["0:1", "the", "play", "began at eight in the old …"],
        ["1:1", "They", "play", "[b] ball in the park"],
        ["3:1", "a", "Play", "in 3 acts"],
        ["5:3", "he began to", "play", "at once"],
    ]
    assert done.err == ""
    facts = json.loads(made("kwic", "a.hdf5", "play", "-k", "2", "--json").out)
    assert (facts["file"], facts["word"]) == ("a.hdf5", "play")
    assert [(one["key"], one["position"], one["token"]) for one in facts["occurrences"]] == [
        (0, 1, "play"),
        (1, 1, "play"),
    ]
    none = made("kwic", "a.hdf5", "foo")
    assert (len(lines(none)), none.err) == (1, "a.hdf5: no token is spelled foo\n")


def test_queries_from_another_file() -> None:
    """A text that was embedded for the purpose, and a sentence that the corpus has too."""
    made("embed", "-", "-o", "q.hdf5", "-q", "--layout", "flat", stdin=b"a play\nYes .\n")
    done = made(
        "neighbors", "a.hdf5", "0:play", "1:Yes", "--query-file", "q.hdf5", "--json", "-k", "36"
    )
    facts = json.loads(done.out)
    assert (facts["query_file"], facts["warnings"]) == ("q.hdf5", [])
    first, second = facts["queries"]
    assert first["tokens"] == ["a", "play"]
    assert len(first["neighbors"]) == 36
    assert not {2, 4} & {one["key"] for one in second["neighbors"]}
    again = made("neighbors", "a.hdf5", "0:play", "--query-file", "a.hdf5", "-q").out
    assert again == made("neighbors", "a.hdf5", "0:play", "-q").out


def test_settings_that_differ_are_warned_of() -> None:
    made("embed", "a.txt", "-o", "q.hdf5", "-q", "--state", "carry", "--batch-size", "2")
    done = made("neighbors", "a.hdf5", "0:play", "--query-file", "q.hdf5")
    assert done.err.splitlines()[0] == (
        "warning: q.hdf5: state is carry, that of a.hdf5 zero: their vectors are not quite alike"
    )
    assert made("neighbors", "a.hdf5", "0:play", "--query-file", "q.hdf5", "-q").err == ""


@pytest.mark.parametrize(
    ("layout", "query"),
    [
        (("--layout", "flat", "--dtype", "int8"), "0:1"),
        (("--layout", "manylangs", "--layers", "top"), f"{chr(9).join(LINES[0].split())}:1"),
        (("--use-sentence-keys", "--dtype", "float16"), f"{LINES[0]}:1"),
        (("--layout", "bilm"), "0:1"),
    ],
    ids=["int8", "manylangs", "sentence", "bilm"],
)
def test_other_layouts_find_the_same(layout: tuple[str, ...], query: str) -> None:
    Path("b.txt").write_text("".join(f"{line}\n" for line in dict.fromkeys(LINES)))
    made("embed", "b.txt", "-o", "b.hdf5", "-q")
    made("embed", "b.txt", "-o", "c.hdf5", "-q", *layout)
    found: list[Any] = []
    for file, name in (("b.hdf5", "0:play"), ("c.hdf5", query)):
        done = made("neighbors", file, name, "--json", "-q")
        found.append(json.loads(done.out)["queries"][0]["neighbors"])
    for one, other in zip(*found, strict=True):
        assert one["cosine"] == pytest.approx(other["cosine"], abs=2e-3)
        if other["tokens"] is not None:
            assert (one["token"], one["tokens"]) == (other["token"], other["tokens"])
    assert (found[1][0]["token"] is None) == ("bilm" in layout)


def test_places_alone_of_a_layout_without_tokens() -> None:
    made("embed", "a.txt", "-o", "b.hdf5", "-q", "--layout", "bilm")
    done = made("neighbors", "b.hdf5", "0:1", "-k", "1")
    cosine, place = nearest(0, 1, 2, 1)[0]
    assert lines(done)[1:] == [["query", "0:1", "", "", ""], [f"{cosine:.3f}", place, "", "", ""]]
    assert done.err.splitlines()[1] == "b.hdf5: does not tell the tokens of all these sentences"


def test_pooled_sentences() -> None:
    made("embed", "a.txt", "-o", "p.hdf5", "-q", "--pool", "mean")
    done = made("neighbors", "p.hdf5", "0", "-k", "2")
    rows = lines(done)
    assert rows[1] == ["query", "0", "", "", " ".join(LINES[0].split()[:13]) + " …"]
    assert len(rows) == 4
    assert done.err == "p.hdf5: layer 2, 6 sentences\n"


def test_what_a_terminal_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would take a token such as [b] for markup, and a control character for what it does."""
    monkeypatch.setattr(concordance, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "120")
    shown = made("kwic", "a.hdf5", "[b]").out.decode()
    assert "They play" in shown
    assert "[b]" in shown
    assert "\t" not in shown
    Path("c.jsonl").write_text('{"tokens": ["a\\u001b[31m", "b\\tc", "d\\u00a0e", "f"]}\n')
    made("embed", "c.jsonl", "-o", "c.hdf5", "-q", "--layout", "flat")
    shown = made("kwic", "c.hdf5", "f").out.decode()
    assert "a\\x1b[31m b\\tc d\N{NO-BREAK SPACE}e" in shown


def test_damage_does_not_crash_the_command() -> None:
    with h5py.File("a.hdf5", "a") as file:
        del file["3"]
        file["3"] = np.zeros((3, 5), np.int32)
    done = elmo("neighbors", "a.hdf5", "0:1")
    assert done.code == 1
    assert done.err.startswith("error: a.hdf5: sentence '3' holds int32 in shape (3, 5), ")


def test_torch_stays_out() -> None:
    """It takes seconds to import, and nothing here needs it."""
    program = (
        "import sys; from elmo_cli.cli.main import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules)"
    )
    words = ["neighbors", "a.hdf5", "0:1", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_the_documentation_names_every_field_of_the_json() -> None:
    facts = json.loads(made("neighbors", "a.hdf5", "0:1", "--json", "-q").out)
    places = json.loads(made("kwic", "a.hdf5", "a", "--json", "-q").out)
    names = {*facts, *facts["queries"][0], *facts["queries"][0]["neighbors"][0], *places}
    assert all(f"`{name}`" in documented("neighbors") for name in names), names
