"""`elmo usages`: the vectors that it writes, the words that it finds, and what it refuses."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Done, documented, elmo, made, refused

from elmo_cli import open_embeddings
from elmo_cli.embed.embedder import Embedder

TEXTS = {
    "a.txt": "The play began at eight .\n\nThey play ball\nNo usage here\nplay play Play\n",
    "b.txt": "It rained .\nat eight they play .\n",
}
TREES = {
    "a.conllu": "He/he saw/see a/a saw/saw ./.|Saws/saw cut/cut ./.",
    "b.conllu": "I/I see/see|She/she sawed/saw it/it ./.",
}


def conllu(text: str) -> str:
    """CoNLL-U with lemmas, and a range above the first word."""
    lines = []
    for sentence in text.split("|"):
        lines.append("# newpar")
        for number, word in enumerate(sentence.split(), 1):
            form, lemma = word.split("/")
            if number == 1:
                lines.append(f"1-2\t{form}x\t_" + "\t_" * 7)
            lines.append(f"{number}\t{form}\t{lemma}" + "\t_" * 7)
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def texts(folder: Path) -> None:
    """A working folder with texts, trees and words."""
    for name, text in TEXTS.items():
        Path(name).write_text(text, encoding="utf-8")
    for name, text in TREES.items():
        Path(name).write_text(conllu(text), encoding="utf-8")
    Path("words.txt").write_text("play\nat\nnothing\n", encoding="utf-8")


def write_words(*words: str) -> None:
    Path("words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def written(*words: object) -> dict[str, Any]:
    """The object of --json."""
    done = made("usages", *words, "--words", "words.txt", "-o", "c.npz", "-f", "--json")
    facts: dict[str, Any] = json.loads(done.out)
    return facts


def table() -> list[dict[str, str]]:
    with open("c.tsv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def occurrences() -> list[tuple[str, int, int]]:
    """Target, key and position of each row of the table."""
    return [(row["target"], int(row["key"]), int(row["position"])) for row in table()]


def attempt(*words: object) -> Done:
    return elmo("usages", *words, "--words", "words.txt", "-o", "c.npz")


class TestUsageVectors:
    @pytest.mark.parametrize("layers", ["top", "average", "0", "mix:0.2,0.3,0.5,2"])
    def test_equal_those_of_embed(self, layers: str) -> None:
        """Each row of an array is the token that the table names, also in a second file."""
        written("a.txt", "b.txt", "--layers", layers)
        made("embed", "a.txt", "b.txt", "-o", "e.hdf5", "--layers", layers, "-q")
        n_rows = {"play": 0, "at": 0}
        with np.load("c.npz") as arrays, open_embeddings("e.hdf5") as embeddings:
            for row in table():
                target = row["target"]
                assert int(row["row"]) == n_rows[target]
                n_rows[target] += 1
                whole = embeddings[int(row["key"])].reshape(-1, embeddings.dim)
                vector = arrays[target][int(row["row"])]
                np.testing.assert_allclose(vector, whole[int(row["position"])], atol=2e-5, rtol=0)
                tokens = row["sentence"].split(" ")
                assert tokens[int(row["position"])] == target
            shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
            dim = embeddings.dim
        float32 = np.dtype(np.float32)
        assert shapes == {
            "play": ((5, dim), float32),
            "at": ((2, dim), float32),
            "nothing": ((0, dim), float32),
        }
        assert n_rows == {"play": 5, "at": 2}

    def test_are_in_the_order_of_the_text(self) -> None:
        facts = written("a.txt", "b.txt")
        assert occurrences() == [
            ("play", 0, 1),
            ("at", 0, 3),
            ("play", 2, 1),
            ("play", 4, 0),
            ("play", 4, 1),
            ("at", 6, 0),
            ("play", 6, 3),
        ]
        assert facts["targets"] == [
            {"target": "play", "usages": 5, "occurrences": 5},
            {"target": "at", "usages": 2, "occurrences": 2},
            {"target": "nothing", "usages": 0, "occurrences": 0},
        ]
        section = documented("usages")
        for name in (*facts, *facts["targets"][0]):
            assert f"`{name}`" in section

    def test_of_another_layer_are_not_compared(self) -> None:
        """The archive records its model and its layer."""
        written("a.txt")
        Path("c.npz").rename("top.npz")
        written("a.txt", "--layers", "0")
        done = elmo("change", "top.npz", "c.npz")
        refused(done, 1, "c.npz: layers is '0', that of top.npz is '2'", "the same layer")
        written("b.txt", "--layers", "2")
        made("change", "top.npz", "c.npz")
        written("b.txt", "--layers", "average")
        done = elmo("change", "top.npz", "c.npz")
        refused(done, 1, "c.npz: layers is 'average', that of top.npz is '2'", "the same layer")

    def test_of_words_that_do_not_occur_are_warned_of(self) -> None:
        Path("words.txt").write_text("PLAY\nnothing\n", encoding="utf-8")
        done = made("usages", "a.txt", "--words", "words.txt", "-o", "c.npz", "--json")
        (warning,) = json.loads(done.out)["warnings"]
        assert warning.startswith(
            "words.txt: none of the words, such as 'PLAY', occurs in the text"
        )
        assert "`--ignore-case` or `--match lemma`" in done.err

    def test_need_only_their_sentences(self, monkeypatch: pytest.MonkeyPatch) -> None:
        embedded: list[str] = []
        embed_block = Embedder.embed_block

        def recorded(self: Embedder, sentences: Any, state: Any, **settings: Any) -> Any:
            embedded.extend(sentence.text for sentence in sentences)
            return embed_block(self, sentences, state, **settings)

        monkeypatch.setattr(Embedder, "embed_block", recorded)
        expected = [line for line in "".join(TEXTS.values()).splitlines() if "play" in line]
        assert written("a.txt", "b.txt")["sentences"] == len(expected)
        assert embedded == expected
        embedded.clear()
        facts = written("a.txt", "b.txt", "--max-usages", 1, "--seed", 5)
        assert facts["usages"] == 2
        assert facts["targets"][0] == {"target": "play", "usages": 1, "occurrences": 5}
        assert len(embedded) == facts["sentences"] == len({key for _, key, _ in occurrences()})

    def test_have_the_same_bytes_in_each_run(self) -> None:
        written("a.txt")
        first = [Path(name).read_bytes() for name in ("c.npz", "c.tsv")]
        written("a.txt")
        assert [Path(name).read_bytes() for name in ("c.npz", "c.tsv")] == first

    def test_have_a_table_that_csv_reads_where_tokens_are_quotation_marks(self) -> None:
        """A `"` at the beginning of a cell would join the rows up to the next one."""
        Path("a.txt").write_text('" Play " , he said\nThey play\n"play " at\n')
        write_words("play", '"')
        written("a.txt")
        assert occurrences() == [('"', 0, 0), ('"', 0, 2), ("play", 1, 1), ('"', 2, 1)]
        assert [row["sentence"] for row in table()][:2] == ['" Play " , he said'] * 2

    def test_are_compared_by_change(self) -> None:
        """Usages that are exchanged for those of another word have the largest change."""
        lines = [f"w{number} the cat sat on the mat n{number}" for number in range(25)]
        others = [f"w{number} the dog sat on the rug n{number}" for number in range(25)]
        Path("one.txt").write_text("\n".join(lines[:12] + others[:12]) + "\n")
        exchanged = [line.replace("mat", "dog") for line in lines[12:]]
        Path("two.txt").write_text("\n".join(lines[12:] + exchanged) + "\n")
        write_words("cat", "dog", "sat")
        for name in ("one", "two"):
            made("usages", f"{name}.txt", "--words", "words.txt", "-o", f"{name}.npz", "-q")
        done = made("change", "one.npz", "two.npz", "--permutations", 99, "--json", "-q")
        p_values = {fact["target"]: fact["prt_p"] for fact in json.loads(done.out)["targets"]}
        assert p_values["dog"] == 0.01
        assert p_values["cat"] > 0.01


class TestMatches:
    def test_by_form(self) -> None:
        write_words("saw", "Play")
        written("a.txt")
        assert occurrences() == [("Play", 4, 2)]
        written("a.conllu", "b.conllu")
        assert occurrences() == [("saw", 0, 1), ("saw", 0, 3)]

    def test_by_lemma(self) -> None:
        """Keys go on in the second file, positions count words, and tokens are embedded."""
        write_words("saw", "see", "sees")
        written("a.conllu", "b.conllu", "--match", "lemma")
        expected = [("see", 0, 1), ("saw", 0, 3), ("saw", 1, 0), ("see", 2, 1), ("saw", 3, 1)]
        assert occurrences() == expected
        assert table()[2]["sentence"] == "Saws cut ."
        made("embed", "a.conllu", "b.conllu", "-o", "e.hdf5", "--layers", "top", "-q")
        with np.load("c.npz") as arrays, open_embeddings("e.hdf5") as embeddings:
            vectors = [embeddings[key][position] for _, key, position in expected if key != 0]
            found = [arrays["saw"][1], arrays["see"][1], arrays["saw"][2]]
            np.testing.assert_allclose(found, vectors, atol=2e-5, rtol=0)

    def test_by_regular_expression(self) -> None:
        write_words("pla.?", "e[a-z]+t")
        facts = written("a.txt", "--match", "regex")
        assert [fact["usages"] for fact in facts["targets"]] == [4, 1]

    def test_without_case(self) -> None:
        write_words("PLAY")
        assert written("a.txt", "--ignore-case")["usages"] == 5
        write_words("pl..")
        assert written("a.txt", "--ignore-case", "--match", "regex")["usages"] == 5
        write_words("SAW")
        assert written("a.conllu", "--ignore-case", "--match", "lemma")["usages"] == 2

    def test_in_other_formats_and_standard_input(self) -> None:
        Path("a.jsonl").write_text('{"tokens": ["I", "play", "a\\tb"]}\n')
        written("a.jsonl")
        assert table()[0]["sentence"] == "I play a\\tb"
        made("usages", "-", "--words", "words.txt", "-o", "s.npz", stdin=b"I play\n")
        with np.load("s.npz") as arrays:
            assert arrays["play"].shape[0] == 1


class TestRefusedUsages:
    def test_layers(self) -> None:
        for layers in ("all", "0,1"):
            done = attempt("a.txt", "--layers", layers)
            refused(done, 2, f"`--layers {layers}`: a usage has one vector", "`--layers top`")

    def test_words(self) -> None:
        write_words("play ground")
        problem = "words.txt, line 1: 'play ground' has several words"
        refused(attempt("a.txt"), 1, problem, "one word per line")
        write_words("play", "(at")
        problem = re.escape("words.txt, line 2: '(at' is no regular expression (")
        assert re.search(problem, attempt("a.txt", "--match", "regex").err)
        write_words("play", "", "play")
        done = made("usages", "a.txt", "--words", "words.txt", "-o", "c.npz")
        assert done.err.splitlines() == [
            "warning: words.txt, line 2: blank, left out",
            "warning: words.txt, line 3: 'play' is already on line 1, left out",
            "c.npz: 4 usages of 1 word in 3 sentences",
        ]

    def test_lemmas_of_other_formats(self) -> None:
        problem = "`--match lemma`: a.txt is plain, which has no column of lemmas"
        refused(attempt("a.conllu", "a.txt", "--match", "lemma"), 2, problem, "`--input-format")

    def test_columns_without_lemmas_are_reported(self) -> None:
        Path("n.conllu").write_text(conllu("He/_ saw/_|It/_"))
        write_words("_x")
        done = attempt("n.conllu", "--match", "lemma")
        assert "warning: n.conllu: the column of lemmas has only `_`; `--match form`" in done.err
        Path("empty.conllu").write_text("")
        for name in ("a.conllu", "empty.conllu"):
            assert "lemmas has only" not in attempt(name, "-f", "--match", "lemma").err

    def test_standard_input_twice(self) -> None:
        done = elmo("usages", "-", "--words", "-", "-o", "c.npz", stdin=b"play\n")
        refused(done, 2, "--words -: standard input can be read only once", "to a file")

    def test_options_without_effect(self) -> None:
        refused(attempt("a.txt", "--seed", 1), 2, "--seed: has no effect", "leave it out")

    def test_outputs(self) -> None:
        for name in ("c.npz", "c.tsv"):
            Path(name).write_text("precious")
            refused(attempt("a.txt"), 1, f"{name}: exists", "`--overwrite`")
            assert Path(name).read_text() == "precious"
            Path(name).unlink()
        done = elmo("usages", "a.txt", "--words", "words.txt", "-o", "c.h5")
        refused(done, 1, "c.h5: usages are written as .npz", "ends in .npz")
        Path("a.tsv").write_text("It is .\n")
        words = ("--words", "words.txt", "-o", "a.npz", "-f", "--input-format", "plain")
        refused(elmo("usages", "a.tsv", *words), 2, "a.tsv: is also one of the inputs", "")

    def test_unreadable_lines_are_left_out_on_request(self) -> None:
        Path("a.txt").write_bytes(b"I play\nI play caf\xe9\nThey play\n")
        assert attempt("a.txt").code == 1
        assert not Path("c.npz").exists()
        done = attempt("a.txt", "--on-error", "skip")
        assert done.code == 3
        assert occurrences() == [("play", 0, 1), ("play", 2, 1)]
