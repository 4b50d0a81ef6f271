"""`elmo change`: its table, its words, and the files that it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Done, documented, elmo, made, refused
from disks import disk_of

from elmo_cli.analysis import usage_archive

DIM = 8
HINT = "a float32 array (usage, dim) for each target"


def vectors(n: int, seed: int, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


FIRST = {"tree": vectors(9, 1), "plane/nn": vectors(20, 2), "rare": vectors(2, 3)}
SECOND = {
    "rare": vectors(30, 4),
    "plane/nn": vectors(15, 5) + 3,
    "tree": vectors(7, 6),
    "new": vectors(5, 7),
}


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """A working folder with the usages of two corpora."""
    np.savez_compressed("c1.npz", **FIRST)
    np.savez_compressed("c2.npz", **SECOND)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are checked in this process: a child process takes longer than the rest of a test."""

    def check(work: Callable[[], object], *_: object) -> object:
        return work()

    monkeypatch.setattr(usage_archive, "run_isolated", check)


def rows(table: bytes) -> list[list[str]]:
    return [line.split("\t") for line in table.decode().splitlines()]


def changed(*words: object) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(made("change", "c1.npz", "c2.npz", "--json", *words).out)
    return facts


@pytest.mark.usefixtures("in_this_process")
class TestChangeTable:
    def test_has_the_words_of_both_files_in_the_order_of_the_first(self) -> None:
        done = made("change", "c1.npz", "c2.npz", "--permutations", 99)
        header, *body = rows(done.out)
        assert header == ["target", "usages_1", "usages_2", "prt", "prt_p", "apd", "apd_p"]
        assert [row[:3] for row in body] == [
            ["tree", "9", "7"],
            ["plane/nn", "20", "15"],
            ["rare", "2", "30"],
        ]
        assert body[1][4] == body[1][6] == "0.01"
        assert float(body[0][4]) > 0.05
        assert body[2][3:] == ["", "", "", ""]
        assert done.err.splitlines() == [
            "c1.npz: lacks new",
            "no value for 1 word with fewer than 3 usages: rare",
        ]

    def test_equals_the_measures_of_the_vectors(self) -> None:
        (tree, *_) = changed()["targets"]
        mean_1 = FIRST["tree"].mean(axis=0, dtype=np.float64)
        mean_2 = SECOND["tree"].mean(axis=0, dtype=np.float64)
        cosine = mean_1 @ mean_2 / np.linalg.norm(mean_1) / np.linalg.norm(mean_2)
        assert tree["prt"] == pytest.approx(1 - cosine, abs=1e-9)
        distances = []
        for x in FIRST["tree"].astype(float):
            for y in SECOND["tree"].astype(float):
                distances.append(1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y))
        assert tree["apd"] == pytest.approx(np.mean(distances), abs=1e-9)

    def test_is_written_to_a_file_or_to_standard_output(self) -> None:
        printed = made("change", "c1.npz", "c2.npz").out
        done = made("change", "c1.npz", "c2.npz", "-o", "change.tsv")
        assert done.out == b""
        assert done.err.splitlines()[-1] == "change.tsv: 3 words"
        assert Path("change.tsv").read_bytes() == printed
        assert made("change", "c1.npz", "c2.npz", "-o", "-").out == printed
        refused(elmo("change", "c1.npz", "c2.npz", "-o", "change.tsv"), 1, "change.tsv: exists", "")
        made("change", "c1.npz", "c2.npz", "-o", "change.tsv", "-f", "--measure", "apd")
        assert rows(Path("change.tsv").read_bytes())[0][3:] == ["apd"]

    def test_quotes_cells_as_csv(self) -> None:
        """A `"` at the beginning of a cell would join the rows up to the next one."""
        words = {'"': vectors(3, 1), "a": vectors(3, 2), '"b"': vectors(3, 3)}
        for name in ("c1.npz", "c2.npz"):
            np.savez_compressed(name, **words)
        table = made("change", "c1.npz", "c2.npz", "-o", "-").out.decode()
        found = list(csv.DictReader(io.StringIO(table), delimiter="\t"))
        assert [row["target"] for row in found] == list(words)

    def test_json_is_printed_if_the_table_cannot_be_written(self) -> None:
        with disk_of(10):
            done = elmo("change", "c1.npz", "c2.npz", "--json", "-o", "change.tsv")
        assert done.code == 1
        assert "error: change.tsv: no space left" in done.err
        assert json.loads(done.out) == changed()

    def test_json_has_the_fields_of_its_page(self) -> None:
        facts = changed("--permutations", 19, "--seed", 3)
        section = documented("change")
        for name in (*facts, *facts["targets"][0]):
            assert f"`{name}`" in section
        assert facts["seed"] == 3
        assert facts["targets"][2] == {
            "target": "rare",
            "usages": [2, 30],
            "prt": None,
            "prt_p": None,
            "apd": None,
            "apd_p": None,
        }
        assert changed("--permutations", 19, "--seed", 3) == facts
        assert changed("--permutations", 19)["targets"] != facts["targets"]
        assert changed("--measure", "prt")["targets"][0].keys() == {"target", "usages", "prt"}


@pytest.mark.usefixtures("in_this_process")
class TestWordsOfChange:
    def words(self, text: str) -> Done:
        Path("words.txt").write_text(text, encoding="utf-8")
        return elmo("change", "c1.npz", "c2.npz", "--words", "words.txt")

    def test_are_compared_in_their_order(self) -> None:
        done = self.words("new\n\ntree\nnew\n")
        assert [row[:3] for row in rows(done.out)[1:]] == [["new", "0", "5"], ["tree", "9", "7"]]
        assert done.err.splitlines() == [
            "warning: words.txt, line 2: blank, left out",
            "warning: words.txt, line 4: 'new' is already on line 1, left out",
            "c1.npz: lacks new",
            "no value for 1 word with fewer than 3 usages: new",
        ]

    def test_that_neither_file_has_are_refused(self) -> None:
        problem = "words.txt: 'Tree' is neither in c1.npz nor in c2.npz"
        refused(self.words("tree\nTree\n"), 1, problem, "take out the word")

    def test_that_are_no_words_are_refused(self) -> None:
        refused(self.words("tree\nplane nn\n"), 1, "words.txt, line 2: 'plane nn' has several", "")
        refused(self.words("tree\t0.7\n"), 1, "words.txt, line 1: 'tree 0.7' has", "`cut -f1")
        refused(self.words("x" * 2000), 1, "words.txt, line 1: a word of more than 1,000", "")
        refused(self.words("\n"), 1, "words.txt: contains no words", "one word per line")
        Path("words.txt").write_bytes(b"caf\xe9\n")
        done = elmo("change", "c1.npz", "c2.npz", "--words", "words.txt")
        refused(done, 1, "words.txt, line 1: 0xE9 at byte 4 is not UTF-8", "`--encoding")

    def test_without_effect_are_refused(self) -> None:
        for option in (["--seed", 1], ["--encoding", "latin-1"], ["-f"]):
            refused(elmo("change", "c1.npz", "c2.npz", *option), 2, "--", "leave it out")


def record(path: str, **settings: object) -> None:
    """Write settings into the comment of an archive, as `elmo usages` does."""
    with zipfile.ZipFile(path, "a") as opened:
        opened.comment = json.dumps(settings).encode()


@pytest.mark.usefixtures("in_this_process")
class TestRecordedSettings:
    def test_of_another_model_or_layer_are_refused(self) -> None:
        record("c1.npz", model_sha256="a" * 64, layers="top")
        record("c2.npz", model_sha256="b" * 64, layers="top")
        problem = f"c2.npz: model_sha256 is '{'b' * 12}', that of c1.npz is '{'a' * 12}'"
        refused(elmo("change", "c1.npz", "c2.npz"), 1, problem, "the same model and the same layer")
        record("c2.npz", model_sha256="a" * 64, layers="0")
        problem = "c2.npz: layers is '0', that of c1.npz is 'top'"
        refused(elmo("change", "c1.npz", "c2.npz"), 1, problem, "the same model and the same layer")

    @pytest.mark.parametrize(
        "settings",
        [
            {"model_sha256": "a" * 64, "layers": "top"},
            {"model_sha256": "", "layers": "top"},  # a model that was never in a file
            {"model_sha256": "b" * 64},  # of another program
            {"model_sha256": "b" * 64, "layers": 0},
            {"model_sha256": "b" * 64, "layers": "0", "more": ""},
        ],
    )
    def test_that_do_not_contradict_are_accepted(self, settings: dict[str, object]) -> None:
        record("c1.npz", model_sha256="a" * 64, layers="top")
        record("c2.npz", **settings)
        made("change", "c1.npz", "c2.npz")

    @pytest.mark.parametrize("comment", [b"", b"[]", b"{", b"\xff", b"[" * 60_000])
    def test_that_cannot_be_read_are_ignored(self, comment: bytes) -> None:
        record("c1.npz", model_sha256="a" * 64, layers="top")
        with zipfile.ZipFile("c2.npz", "a") as opened:
            opened.comment = comment
        made("change", "c1.npz", "c2.npz")

    def test_of_one_file_twice_are_noted(self) -> None:
        done = made("change", "c1.npz", "./c1.npz")
        assert done.err.splitlines()[0] == "./c1.npz: compared with itself"


def member(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def archive(*members: tuple[str, bytes]) -> bytes:
    """A zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()


GOOD = member(FIRST["tree"])
REFUSED = {
    "text": (b"tree\n", "File is not a zip file"),
    "cut": (archive(("tree.npy", GOOD))[:-30], "File is not a zip file"),
    "changed byte": (
        archive(("tree.npy", GOOD)).replace(FIRST["tree"][3].tobytes()[:4], b"abcd", 1),
        "tree.npy is corrupt",
    ),
    "no array": (
        archive(("tree.txt", b"The cat sat on the mat")),
        "the magic string is not correct",
    ),
    "objects": (
        archive(("tree.npy", member(np.array([None, "x"], object)))),
        "tree.npy contains Python objects",
    ),
    "float64": (
        archive(("tree.npy", member(FIRST["tree"].astype(float)))),
        "the array 'tree' has the type float64, not float32",
    ),
    "whole numbers": (
        archive(("tree.npy", member(np.ones((4, DIM), np.int32)))),
        "the array 'tree' has the type int32, not float32",
    ),
    "one vector": (
        archive(("tree.npy", member(FIRST["tree"][0]))),
        "the array 'tree' has the shape (8,), not (usage, dim)",
    ),
    "vectors without values": (
        archive(("tree.npy", member(np.zeros((4, 0), np.float32)))),
        "the array 'tree' has the shape (4, 0), not (usage, dim)",
    ),
    "all layers": (
        archive(("tree.npy", member(np.ones((3, 4, DIM), np.float32)))),
        "the array 'tree' has the shape (3, 4, 8), not (usage, dim)",
    ),
    "other dimensions": (
        archive(("tree.npy", GOOD), ("x.npy", member(vectors(3, 1, dim=5)))),
        "its vectors have 5 and 8 values",
    ),
    "not a number": (
        archive(("tree.npy", member(np.full((4, DIM), np.nan, np.float32)))),
        "the array 'tree' has a value that is not finite",
    ),
    "more than is stored": (
        archive(("tree.npy", GOOD.replace(b"(9, 8)", b"(9, 9)"))),
        "tree.npy has 288 bytes, its header states 324",
    ),
}


WITH_LITTLE_MEMORY = """
import sys
from elmo_cli import isolate
from elmo_cli.cli.main import main
isolate.MIN_MEMORY = 1 << 20
main(sys.argv[1:])
"""


class TestFilesOfChange:
    @pytest.mark.parametrize("name", REFUSED)
    def test_that_are_no_usages_are_refused(self, name: str, in_this_process: None) -> None:
        """The error has two lines, and nothing that a file contains is run."""
        content, problem = REFUSED[name]
        Path("bad.npz").write_bytes(content)
        done = elmo("change", "bad.npz", "c2.npz")
        refused(done, 1, f"bad.npz: cannot be read as usages ({problem}", HINT)
        assert len(done.err.splitlines()) == 2

    def test_are_checked_in_a_child_process(self) -> None:
        """The child may crash; here it lacks memory, of which a new process has none to spare."""
        np.savez_compressed("large.npz", tree=np.zeros((12 << 10, 1 << 10), np.float32))
        done = subprocess.run(
            [sys.executable, "-c", WITH_LITTLE_MEMORY, "change", "c1.npz", "large.npz"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()
        assert error.startswith("error: large.npz: reading it takes more memory than")
        assert "the file is corrupt" in hint

    def test_that_are_missing_are_refused(self) -> None:
        refused(elmo("change", "c1.npz", "no.npz"), 1, "no.npz: no such file", "check the name")

    def test_with_other_vectors_are_refused(self) -> None:
        np.savez("c3.npz", tree=vectors(5, 1, dim=6))
        problem = "c3.npz: has vectors of 6 values, those of c1.npz have 8"
        refused(elmo("change", "c1.npz", "c3.npz"), 1, problem, "the same model")

    def test_without_common_words_are_refused(self) -> None:
        np.savez("c3.npz", other=vectors(5, 1))
        np.savez("c4.npz")
        for name in ("c3.npz", "c4.npz"):
            problem = f"{name}: has no word that c1.npz has"
            refused(elmo("change", "c1.npz", name), 1, problem, "the same list of words")

    def test_that_compress_well_are_read(self) -> None:
        """Vectors of layer 0 are equal: here 4 MB that take less than a hundredth of it."""
        equal = np.repeat(vectors(1, 1), 130_000, axis=0)
        np.savez_compressed("c3.npz", tree=equal)
        assert Path("c3.npz").stat().st_size < equal.nbytes / 100
        made("change", "c1.npz", "c3.npz", "--measure", "prt")
