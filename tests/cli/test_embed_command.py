"""`elmo embed` as a person runs it: what it writes, what it says, and what it leaves alone."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import Done, documented, elmo, made, refused
from tolerance import ATOL_ORDER

from elmo_cli.cli import console
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.reader import open_embeddings

LINES = ("The cat sat on the mat .", "A dog", "", "naïve 日本語 /", "A dog", "It slept .")
TEXT = "".join(f"{line}\n" for line in LINES)
N_TOKENS = sum(len(line.split()) for line in LINES)


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working directory with `corpus.txt`."""
    Path("corpus.txt").write_text(TEXT, encoding="utf-8")


def check(found: np.ndarray, bilm: BiLM, text: str) -> None:
    """The vectors are those of an `Embedder` for a line of text."""
    expected = Embedder(bilm, device="cpu").embed(text.split())
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=ATOL_ORDER)


def check_lines(path: str, bilm: BiLM, lines: tuple[str, ...] = LINES) -> None:
    """The file holds each line under its number."""
    with h5py.File(path) as file:
        assert list(file) == [*map(str, range(len(lines))), "sentence_to_index"]
        for number, line in enumerate(lines):
            check(file[str(number)][()], bilm, line)


def said(done: Done) -> list[str]:
    return done.err.splitlines()


# -- text in, file out ----------------------------------------------------------------------------


def test_a_text_into_a_file(tiny_bilm: BiLM) -> None:
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
    made("embed", "-", "-o", "stdin.hdf5", stdin=TEXT.encode())
    check_lines("stdin.hdf5", tiny_bilm)
    with open_embeddings("stdin.hdf5") as embeddings:
        assert embeddings.attributes["sources"] == [["-", 0]]


def test_a_folder_gets_a_file_for_each_input(tiny_bilm: BiLM) -> None:
    Path("b.conllu").write_text("1\tIt\n2\tslept\n\n")
    done = made("embed", "corpus.txt", "b.conllu", "-o", "new/deep/")
    check_lines("new/deep/corpus.hdf5", tiny_bilm)
    check_lines("new/deep/b.hdf5", tiny_bilm, ("It slept",))
    names = ["new/deep/corpus.hdf5", "new/deep/b.hdf5"]
    assert [line.split(":")[0] for line in said(done)[1:]] == names


def test_standard_output_is_json_lines(tiny_bilm: BiLM) -> None:
    done = made("embed", "-", "-o", "-", stdin=f"{TEXT}It is </S> .\n".encode())
    assert done.err.count("boundary or padding tokens") == 1
    records = [json.loads(line) for line in done.out.splitlines()]
    lines = (*LINES, "It is </S> .")
    assert [record["key"] for record in records] == list(range(len(lines)))
    assert [record["tokens"] for record in records] == [line.split() for line in lines]
    for record, line in zip(records, lines, strict=True):
        check(np.array(record["layers"]), tiny_bilm, line)


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


def test_model_and_device_of_the_environment(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line takes precedence."""
    assert facts_of()["model"] == "tiny"
    assert facts_of("-m", str(odd))["model"] == "odd"
    monkeypatch.setenv("ELMO_MODEL", str(odd))
    monkeypatch.setenv("ELMO_DEVICE", "abacus")
    assert "abacus" in elmo("embed", "corpus.txt", "-o", "new.hdf5").err
    assert facts_of("--device", "cpu")["model"] == "odd"
    assert not Path("new.hdf5").exists()


# -- what it says ---------------------------------------------------------------------------------


def test_json() -> None:
    Path("long.txt").write_text(f"{'a' * 49} b\n")
    done = made("embed", "corpus.txt", "long.txt", "-o", "out.hdf5", "--json")
    facts = {
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
    assert (json.loads(done.out), done.out.count(b"\n")) == (facts, 1)
    cut = "cut 1 token to the length that the model reads; the first is "
    assert f"{cut}`{'a' * 49}` (long.txt, line 1)" in done.err
    several = json.loads(made("embed", "corpus.txt", "long.txt", "-o", "v/", "--json").out)
    assert [one["output"] for one in several] == ["v/corpus.hdf5", "v/long.hdf5"]
    for name in facts:
        assert f"`{name}`" in documented("embed")
    done = made("embed", "corpus.txt", "long.txt", "-o", "quiet.hdf5", "--quiet")
    assert (done.out, done.err) == (b"", "")
    assert made("embed", "-", "-o", "-", "-q", stdin=b"a\n").err == ""


def test_dry_run_writes_nothing_and_prints_sizes() -> None:
    Path("big.txt").write_text(TEXT * 50, encoding="utf-8")
    before = sorted(os.listdir())
    options = ("embed", "big.txt", "--layers", "0,2", "--dtype", "float16", "-o")
    done = made(*options, "out.hdf5", "--dry-run")
    plan = json.loads(made(*options, "out.hdf5", "--dry-run", "--json").out)
    assert sorted(os.listdir()) == before
    assert re.fullmatch(
        rf"out\.hdf5: 300 sentences, {50 * N_TOKENS:,} tokens, about ([\d.]+) KiB "
        r"\(([\d.]+) KiB on disk while it is being completed\), about \d+ s \(\d+ s to \d+ s\); "
        r"nothing was written\n",
        done.out.decode(),
    )
    made(*options, "out.hdf5")
    assert plan.pop("bytes") == pytest.approx(size := os.path.getsize("out.hdf5"), rel=0.3)
    assert 0.7 * size < plan.pop("peak_bytes") < 2.6 * size
    low, high = plan.pop("seconds_range")
    assert 0 < low <= plan.pop("seconds") <= high
    counts = {"sentences": 300, "tokens": 50 * N_TOKENS, "computed_tokens": 50 * N_TOKENS}
    assert plan == {"output": "out.hdf5", **counts}


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


# -- interrupted runs -----------------------------------------------------------------------------


def test_resume(stop_run: Any) -> None:
    command = ("embed", "corpus.txt", "-o", "out.hdf5")
    stop_run(*command)
    files = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert sorted(files) == ["corpus.txt", "out.hdf5.part", "out.hdf5.part.log"]
    refused(elmo(*command), 1, "out.hdf5.part: unfinished, 3 sentences", "`--resume`")
    dry = ("--resume", "--dry-run")
    left = f"; 3 sentences done, {N_TOKENS - 9} tokens remaining; nothing was written\n"
    assert made(*command, *dry).out.decode().endswith(left)
    plan = json.loads(made(*command, *dry, "--json").out)
    assert (plan["tokens"], plan["computed_tokens"]) == (N_TOKENS, N_TOKENS - 9)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == files
    done = made(*command, "--resume", "--json")
    assert "resuming: 9 tokens done" in said(done)
    counts = json.loads(done.out)
    assert (counts["tokens"], counts["computed_tokens"]) == (N_TOKENS, N_TOKENS - 9)
    assert b"; 6 sentences done, 0 tokens remaining" in made(*command, *dry).out
    made("embed", "corpus.txt", "-o", "whole.hdf5")
    assert Path("out.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    assert sorted(os.listdir()) == ["corpus.txt", "out.hdf5", "whole.hdf5"]


def test_resume_in_a_folder_does_the_rest(stop_run: Any) -> None:
    shutil.copy("corpus.txt", "second.txt")
    command = ("embed", "corpus.txt", "second.txt", "-o", "v/")
    stop_run(*command)
    for computed in ([N_TOKENS - 9, N_TOKENS], [0, 0]):
        done = made(*command, "--resume", "--json")
        assert [one["computed_tokens"] for one in json.loads(done.out)] == computed


# -- input that is left out -----------------------------------------------------------------------


def test_lines_left_out_are_listed(tiny_bilm: BiLM) -> None:
    """Next to the file; a list of another run is not lost unasked."""
    Path("bad.txt").write_bytes(b"one\n\xff\nthree\n")
    mine, skip = Path("out.hdf5.skipped.tsv"), ("--on-error", "skip")
    mine.write_text("mine")
    for options in ((), skip, (*skip, "--resume")):
        done = elmo("embed", "bad.txt" if options else "corpus.txt", "-o", "out.hdf5", *options)
        refused(done, 1, "out.hdf5.skipped.tsv: exists", "`--overwrite`")
        assert (mine.read_text(), Path("out.hdf5").exists()) == ("mine", False)
    done = elmo("embed", "bad.txt", "-o", "out.hdf5", *skip, "-f", "--json")
    assert done.code == 3
    assert json.loads(done.out)["skipped"] == [["bad.txt", 2, "0xFF at byte 1 is not UTF-8"]]
    assert "listed in out.hdf5.skipped.tsv" in said(done)[-1]
    assert mine.read_bytes() == b"bad.txt\t2\t0xFF at byte 1 is not UTF-8\n"
    with open_embeddings("out.hdf5") as embeddings:
        assert list(embeddings) == [0, 2]
        check(embeddings[2], tiny_bilm, "three")
    # The list has the bytes of a name that is not UTF-8, and a message escapes them.
    name, path = os.fsdecode(b"\xfe.txt"), os.fsdecode(b"\xfe.hdf5")
    shutil.copy("bad.txt", name)
    assert rf"{chr(92)}udcfe.hdf5: 2 sentences, " in elmo("embed", name, "-o", path, *skip).err
    assert Path(f"{path}.skipped.tsv").read_bytes() == mine.read_bytes().replace(b"bad", b"\xfe")


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


REFUSED = {
    "missing input": "embed nosuch.txt -o new.hdf5",
    "existing output": "embed corpus.txt -o old.hdf5",
    "malformed device": "embed corpus.txt -o new.hdf5 --device cuda:one",
    "malformed device of perplexity": "perplexity corpus.txt --device gpu",
    "malformed device of finetune": "finetune --domain corpus.txt -o model --device gpu",
    "malformed device of pretrain": "pretrain corpus.txt -o model --max-steps 1 --device gpu",
    "unknown model": "embed corpus.txt -o new.hdf5 -m nosuch",
    "layer that the model lacks": "embed corpus.txt -o new.hdf5 --layers 7",
    "layout of another dtype": "embed corpus.txt -o new.hdf5 --dtype int8",
    "name of another format": "embed corpus.txt -o new.parquet",
    "format of standard output": "embed corpus.txt -o - --output-format npy",
    "shard of a carried state": "embed corpus.txt -o new.hdf5 --shard 1/2 --state carry",
    "dry run of standard input": "embed - -o new.hdf5 -n",
    "folder of shards": "embed corpus.txt -o new.hdf5 --ray",
    "precision of the plain engine": "embed corpus.txt -o new.hdf5 --engine plain --precision bf16",
    "layout of documents": "embed corpus.txt -o new.hdf5 --layout e2e-coref",
    "layout of types": "embed corpus.txt -o vectors/ --layout bilm-types",
    "dtype of standard output": "embed corpus.txt -o - --dtype int8",
    "missing folder": "embed corpus.txt -o far/new.hdf5",
    "folder that accepts no files": "embed corpus.txt -o /proc/new.hdf5",
    "folder in a file": "embed corpus.txt -o old.hdf5/new/",
    "options of another model": "embed corpus.txt -o new.hdf5 -m ./other",
}
COMMANDS = """
import sys
from elmo_cli.cli.main import main
for words in sys.argv[1:]:
    try: main(words.split())
    except SystemExit as ended: print(ended.code, "torch" in sys.modules)
"""


def test_refused_without_torch(tiny: Path) -> None:
    Path("old.hdf5").write_text("old")
    shutil.copytree(tiny, "other")
    options = json.loads(Path("other/options.json").read_text())
    options["lstm"]["dim"] += 1
    Path("other/options.json").write_text(json.dumps(options))
    command = [sys.executable, "-c", COMMANDS, *REFUSED.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("error: ") == done.stderr.count("hint: ") == len(REFUSED)
    for name, line in zip(REFUSED, done.stdout.splitlines(), strict=True):
        assert re.fullmatch("[12] False", line), (name, line, done.stderr)


def test_a_missing_input_takes_less_than_half_a_second_of_cpu_time() -> None:
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "elmo_cli", *REFUSED["missing input"].split()]
        assert subprocess.run(command, capture_output=True).returncode == 1
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.4


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("The cat, which sat on the mat, slept.\n", "`--tokenize`"),
        ('{"text": "The cat sat ."}\n', "`--input-format jsonl`"),
    ],
)
@pytest.mark.parametrize(
    "words", [["-o", "out.hdf5"], ["-o", "out.hdf5", "--dry-run"], ["-o", "-"]]
)
def test_a_warning_names_the_option(line: str, option: str, words: list[str]) -> None:
    Path("corpus.txt").write_text(line * 10, encoding="utf-8")
    (warning,) = [one for one in said(elmo("embed", "corpus.txt", *words)) if "looks" in one]
    assert option in warning
