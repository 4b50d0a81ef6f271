"""`elmo embed` as a person runs it: what it writes, what it says, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, only_tiny
from tolerance import ATOL_ORDER

from elmo_cli.cli import console
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.reader import open_embeddings

LINES = ("The cat sat on the mat .", "A dog", "", "naïve 日本語 /", "A dog", "It slept .")
TEXT = "".join(f"{line}\n" for line in LINES)
N_TOKENS = sum(len(line.split()) for line in LINES)
DOCUMENTS = (
    '{"doc_key": "a_0", "sentences": [["The", "cat"], ["It", "sat"]]}\n'
    '{"doc_key": "b_0", "sentences": [["It", "sat"]]}\n'
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `corpus.txt`, where $ELMO_MODEL is the small model."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def alone(bilm: BiLM, text: str, **settings: Any) -> np.ndarray:
    return Embedder(bilm, device="cpu", **settings).embed(text.split())


def check_lines(path: str, bilm: BiLM, lines: tuple[str, ...] = LINES) -> None:
    """The file holds each line under its number."""
    with h5py.File(path) as file:
        assert list(file) == [*map(str, range(len(lines))), "sentence_to_index"]
        for number, line in enumerate(lines):
            expected = alone(bilm, line)
            np.testing.assert_allclose(file[str(number)][()], expected, rtol=0, atol=ATOL_ORDER)


def said(done: Done) -> list[str]:
    return done.err.splitlines()


def refused(done: Done, code: int, message: str, hint: str) -> None:
    """Two lines, as every error of the command is, and nothing on standard output."""
    error, advice = said(done)[-2:]
    assert (done.code, done.out, error) == (code, b"", f"error: {message}")
    assert advice.startswith("hint: ")
    assert hint in advice


# -- text in, file out ----------------------------------------------------------------------------


def test_a_text_into_a_file(here: Path, tiny_bilm: BiLM) -> None:
    done = made("embed", "corpus.txt", "-o", "out.hdf5")
    assert done.out == b""
    about, summary = said(done)
    assert re.fullmatch(
        r"model tiny, 16 dimensions, on cpu, (1 thread|([2-9]|\d\d+) threads)", about
    )
    assert re.fullmatch(
        rf"out\.hdf5: 6 sentences, {N_TOKENS} tokens, [\d.]+ KiB; {N_TOKENS} tokens in [\d.]+ s "
        r"\([\d,]+ tokens/s\)",
        summary,
    )
    check_lines("out.hdf5", tiny_bilm)
    assert sorted(os.listdir()) == ["corpus.txt", "out.hdf5"]


def test_standard_input(tiny_bilm: BiLM) -> None:
    made("embed", "-", "-o", "out.hdf5", stdin=TEXT.encode())
    check_lines("out.hdf5", tiny_bilm)
    with open_embeddings("out.hdf5") as embeddings:
        assert embeddings.attributes["sources"] == [["-", 0]]


def test_a_folder_gets_a_file_for_each_input(tiny_bilm: BiLM) -> None:
    Path("b.conllu").write_text("1\tIt\n2\tslept\n\n")
    done = made("embed", "corpus.txt", "b.conllu", "-o", "new/deep/")
    check_lines("new/deep/corpus.hdf5", tiny_bilm)
    check_lines("new/deep/b.hdf5", tiny_bilm, ("It slept",))
    names = ["new/deep/corpus.hdf5", "new/deep/b.hdf5"]
    assert [line.split(":")[0] for line in said(done)[1:]] == names


def test_a_file_in_a_folder_is_called_as_its_text_in_any_case() -> None:
    """What a suffix says is read in any case, and A.TXT.GZ would become A.TXT.GZ.hdf5."""
    names = ("A.TXT.GZ", "b.v4_gold_conll", "c.jsonl.txt", "D.CONLLU")
    for name in names:
        shutil.copy("corpus.txt", name)
    done = made("embed", *names, "-n", "-o", "v/", "--input-format", "plain")
    called = {line.split(b":")[0] for line in done.out.splitlines()}
    assert called == {b"v/A.hdf5", b"v/b.v4_gold_conll.hdf5", b"v/c.jsonl.hdf5", b"v/D.hdf5"}


def test_standard_output_is_json_lines(tiny_bilm: BiLM) -> None:
    done = made("embed", "-", "-o", "-", stdin=TEXT.encode())
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["key"] for record in records] == list(range(len(LINES)))
    assert [record["tokens"] for record in records] == [line.split() for line in LINES]
    for record, line in zip(records, LINES, strict=True):
        expected = alone(tiny_bilm, line)
        found = np.array(record["layers"]).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL_ORDER)


def facts_of(*options: str) -> dict[str, Any]:
    """The attributes of a file made with these options."""
    made("embed", "corpus.txt", "-o", "out.hdf5", "--overwrite", *options)
    with open_embeddings("out.hdf5") as embeddings:
        return {**embeddings.attributes, "dtype": str(embeddings.stored_dtype)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--layers 2,0 --dtype float16", {"layers": "2,0", "dtype": "float16"}),
        ("--pool max --layout flat", {"pool": "max", "layout": "flat"}),
        ("--forget-sentences", {"forget_sentences": True}),
        ("--state carry --batch-size 1", {"state": "carry", "batch_size": 1}),
        ("--engine plain --blank-lines skip", {"blank": "skip"}),
        ("--precision int8", {"precision": "int8"}),
    ],
)
def test_options_reach_the_file(options: str, expected: dict[str, Any]) -> None:
    assert expected.items() <= facts_of(*options.split()).items()


# -- what it says ---------------------------------------------------------------------------------

KEYS = (
    *("output", "sentences", "tokens", "duplicates", "computed_tokens", "bytes", "blank_lines"),
    *("truncated_tokens", "skipped", "warnings"),
)


def test_json() -> None:
    Path("long.txt").write_text(f"{'a' * 49} b\n")
    done = made("embed", "corpus.txt", "long.txt", "-o", "out.hdf5", "--json")
    assert json.loads(done.out) == {
        "output": "out.hdf5",
        "sentences": 7,
        "tokens": N_TOKENS + 2,
        "duplicates": 0,
        "computed_tokens": N_TOKENS + 2,
        "bytes": os.path.getsize("out.hdf5"),
        "blank_lines": 1,
        "truncated_tokens": 1,
        "skipped": [],
        "warnings": [],
    }
    assert done.out.count(b"\n") == 1
    assert (
        f"1 token is longer than the model reads and was cut: `{'a' * 49}` (long.txt, line 1)"
        in done.err
    )
    several = json.loads(made("embed", "corpus.txt", "long.txt", "-o", "v/", "--json").out)
    assert [one["output"] for one in several] == ["v/corpus.hdf5", "v/long.hdf5"]
    for name in KEYS:
        assert f"`{name}`" in documented("embed")


def test_quiet_says_nothing() -> None:
    Path("long.txt").write_text("a" * 49)
    done = made("embed", "corpus.txt", "long.txt", "-o", "out.hdf5", "--quiet")
    assert (done.out, done.err) == (b"", "")
    assert made("embed", "-", "-o", "-", "-q", stdin=b"a\n").err == ""


def test_dry_run_writes_nothing_and_tells_sizes() -> None:
    Path("big.txt").write_text(TEXT * 50, encoding="utf-8")
    before = sorted(os.listdir())
    options = ("embed", "big.txt", "--layers", "0,2", "--dtype", "float16", "-o")
    done = made(*options, "out.hdf5", "--dry-run")
    assert sorted(os.listdir()) == before
    found = re.fullmatch(
        r"out\.hdf5: 300 sentences, ([\d,]+) tokens, about ([\d.]+) KiB "
        r"\(([\d.]+) KiB on disk while it is being completed\), about \d+ s \(\d+ s to \d+ s\); "
        r"nothing was written\n",
        done.out.decode(),
    )
    assert found is not None
    assert found[1] == f"{50 * N_TOKENS:,}"
    told = json.loads(made(*options, "out.hdf5", "--dry-run", "--json").out)
    made(*options, "out.hdf5")
    assert told["bytes"] == pytest.approx(os.path.getsize("out.hdf5"), rel=0.3)
    assert told == {
        "output": "out.hdf5",
        "sentences": 300,
        "tokens": 50 * N_TOKENS,
        "computed_tokens": 50 * N_TOKENS,
        "bytes": told["bytes"],
        "peak_bytes": told["peak_bytes"],
        "seconds": told["seconds"],
        "seconds_range": told["seconds_range"],
    }
    low, high = told["seconds_range"]
    assert 0 < low <= told["seconds"] <= high
    assert told["bytes"] < told["peak_bytes"] < 2 * told["bytes"]
    made(*options, "far/away/", "--dry-run")
    assert not Path("far").exists()


def test_progress_is_plain_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "_LINE_EVERY_S", 0.02)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    embed_block = Embedder.embed_block

    def slow(self: Embedder, *args: Any) -> Any:
        time.sleep(0.2)
        return embed_block(self, *args)

    monkeypatch.setattr(Embedder, "embed_block", slow)
    about, *lines, _ = said(made("embed", "corpus.txt", "-o", "out.hdf5"))
    assert about.startswith("model tiny")
    line = r"(0|9|17) tokens of about (?:9|17) \(\d+%\)(, [\d,]+ tokens/s(, \d+ s left)?)?"
    assert {re.fullmatch(line, one)[1] for one in lines} >= {"0", "9"}
    of_stdin = said(made("embed", "-", "-o", "o.hdf5", stdin=TEXT.encode()))
    assert re.fullmatch(r"(9|17) tokens, [\d,]+ tokens/s", of_stdin[-2])
    assert "\r" not in "".join(lines)
    assert "\x1b" not in "".join(lines)


# -- environment ----------------------------------------------------------------------------------


def test_model_and_device_of_the_environment(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line takes precedence; an error names the variable that a value came from."""
    assert facts_of()["model"] == "tiny"
    assert facts_of("-m", str(odd))["model"] == "odd"
    monkeypatch.setenv("ELMO_MODEL", "nosuch")
    command = ("embed", "corpus.txt", "-o", "new.hdf5")
    assert "$ELMO_MODEL is `nosuch`" in elmo(*command).err
    assert "$ELMO_MODEL" not in elmo(*command, "-m", "nosuch").err
    monkeypatch.setenv("ELMO_MODEL", str(odd))
    monkeypatch.setenv("ELMO_DEVICE", "abacus")
    assert "$ELMO_DEVICE is `abacus`" in elmo(*command).err
    assert facts_of("--device", "cpu")["model"] == "odd"
    assert not Path("new.hdf5").exists()


# -- interrupted runs -----------------------------------------------------------------------------


def stopped(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run a command to its first block, of three lines, as if Ctrl-C came there."""

    def stop(self: object, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "SENTENCES", 3)
    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.cli.console.Progress.update", stop)
        done = elmo(*words)
    refused(done, 130, "interrupted", "`--resume`")


def test_resume_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("embed", "corpus.txt", "-o", "out.hdf5")
    stopped(monkeypatch, *command)
    assert sorted(os.listdir())[1:3] == ["out.hdf5.part", "out.hdf5.part.log"]
    refused(elmo(*command), 1, "out.hdf5.part: unfinished, 3 sentences", "`--resume`")
    done = made(*command, "--resume", "--json")
    assert "resuming: 9 tokens done" in said(done)
    counts = json.loads(done.out)
    assert (counts["tokens"], counts["computed_tokens"]) == (N_TOKENS, N_TOKENS - 9)
    made("embed", "corpus.txt", "-o", "whole.hdf5")
    assert Path("out.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    assert sorted(os.listdir()) == ["corpus.txt", "out.hdf5", "whole.hdf5"]


def test_dry_run_of_resume_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("embed", "corpus.txt", "-o", "out.hdf5")
    stopped(monkeypatch, *command)
    files = {name: Path(name).read_bytes() for name in os.listdir()}
    dry = ("--resume", "--dry-run")
    left = f"; 3 sentences done, {N_TOKENS - 9} tokens remaining; nothing was written\n"
    assert made(*command, *dry).out.decode().endswith(left)
    told = json.loads(made(*command, *dry, "--json").out)
    assert (told["tokens"], told["computed_tokens"]) == (N_TOKENS, N_TOKENS - 9)
    assert {name: Path(name).read_bytes() for name in os.listdir()} == files
    made(*command, "--resume")
    told = json.loads(made(*command, *dry, "--json").out)
    assert (told["tokens"], told["computed_tokens"]) == (N_TOKENS, 0)
    assert b"; 6 sentences done, 0 tokens remaining" in made(*command, *dry).out


def test_resume_in_a_folder_does_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy("corpus.txt", "second.txt")
    command = ("embed", "corpus.txt", "second.txt", "-o", "v/")
    stopped(monkeypatch, *command)
    done = made(*command, "--resume", "--json")
    assert [one["computed_tokens"] for one in json.loads(done.out)] == [N_TOKENS - 9, N_TOKENS]
    done = made(*command, "--resume", "--json")
    assert [one["computed_tokens"] for one in json.loads(done.out)] == [0, 0]


# -- input that is left out -----------------------------------------------------------------------


@pytest.fixture
def damaged() -> bytes:
    """`bad.txt`, whose second line is no UTF-8; what the list of it says."""
    Path("bad.txt").write_bytes(b"one\n\xff\nthree\n")
    return b"bad.txt\t2\t0xFF at byte 1 is not UTF-8\n"


def test_lines_left_out_are_listed(damaged: bytes, tiny_bilm: BiLM) -> None:
    done = elmo("embed", "bad.txt", "-o", "out.hdf5", "--on-error", "skip", "--json")
    assert done.code == 3
    assert json.loads(done.out)["skipped"] == [["bad.txt", 2, "0xFF at byte 1 is not UTF-8"]]
    assert "the list is out.hdf5.skipped.tsv" in said(done)[-1]
    assert Path("out.hdf5.skipped.tsv").read_bytes() == damaged
    with open_embeddings("out.hdf5") as embeddings:
        assert list(embeddings) == [0, 2]
        found = embeddings[2]
    np.testing.assert_allclose(found, alone(tiny_bilm, "three"), rtol=0, atol=ATOL_ORDER)


def test_a_list_of_another_run_is_not_lost_unasked(damaged: bytes) -> None:
    """It is written, or taken away, when the work is done: too late to ask."""
    mine = Path("out.hdf5.skipped.tsv")
    mine.write_text("mine")
    for options in ((), ("--on-error", "skip"), ("--on-error", "skip", "--resume")):
        done = elmo("embed", "bad.txt" if options else "corpus.txt", "-o", "out.hdf5", *options)
        refused(done, 1, "out.hdf5.skipped.tsv: exists", "`--overwrite`")
        assert (mine.read_text(), Path("out.hdf5").exists()) == ("mine", False)
    assert elmo("embed", "bad.txt", "-o", "out.hdf5", "--on-error", "skip", "-f").code == 3
    assert mine.read_bytes() == damaged


def test_file_names_that_are_not_utf8(here: Path) -> None:
    """A list has their bytes, and a message escapes them."""
    name, path = os.fsdecode(b"\xfe.txt"), os.fsdecode(b"\xfe.hdf5")
    Path(name).write_bytes(b"one\n\xff\n")
    done = elmo("embed", name, "-o", path, "--on-error", "skip")
    assert done.code == 3
    assert rf"{chr(92)}udcfe.hdf5: 1 sentence, " in done.err
    listed = b"\xfe.txt\t2\t0xFF at byte 1 is not UTF-8\n"
    assert Path(f"{path}.skipped.tsv").read_bytes() == listed


# -- a process of its own -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly() -> None:
    """`| head -1` is how one looks at the first sentence of many; Python would complain twice."""
    Path("big.txt").write_text(TEXT * 100, encoding="utf-8")
    command = f"{sys.executable} -m elmo_cli embed big.txt -q -o - 2>err"
    script = command + ' | head -1; echo "${PIPESTATUS[0]}"'
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment, check=True)
    record, status = done.stdout.splitlines()
    assert json.loads(record)["tokens"] == LINES[0].split()
    assert (status, Path("err").read_text()) == (b"1", "")
