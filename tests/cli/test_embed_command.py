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
NOTES = ["repeated sentences", "blank lines"]  # what other programs need for this text


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with `corpus.txt`; slow loading is not announced."""
    monkeypatch.setattr(console, "_LOADING_IN_LOG_S", 600)
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
    about, summary, *notes = said(done)
    assert [note.split(":")[0] for note in notes] == NOTES
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
    assert [line.split(":")[0] for line in said(done)[1:]] == [*names, *NOTES]


def test_standard_output_is_json_lines(tiny_bilm: BiLM) -> None:
    lines = (*LINES, "It is </S> .")
    text = "".join(f"{line}\n" for line in lines)
    done = made("embed", "-", "-o", "-", stdin=text.encode())
    assert done.err.count("boundary or padding tokens") == 1
    records = [json.loads(line) for line in done.out.splitlines()]
    for number, (record, line) in enumerate(zip(records, lines, strict=True)):
        assert record["key"] == number
        assert record["tokens"] == line.split()
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
        ("--sentence-map occurrences", {"sentence_map": "occurrences"}),
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
        "fit": {},
        "truncated_tokens": 1,
        "skipped": [],
        "warnings": [],
    }
    assert json.loads(done.out) == facts
    assert done.out.count(b"\n") == 1
    for name in facts:
        assert f"`{name}`" in documented("embed")


def test_json_of_several_files_is_a_list() -> None:
    shutil.copy("corpus.txt", "second.txt")
    done = made("embed", "corpus.txt", "second.txt", "-o", "v/", "--json")
    assert [facts["output"] for facts in json.loads(done.out)] == ["v/corpus.hdf5", "v/second.hdf5"]


def test_truncated_tokens_are_counted() -> None:
    token = "a" * 49
    Path("long.txt").write_text(f"{token} b\n")
    done = made("embed", "long.txt", "-o", "out.hdf5")
    cut = "cut 1 token to the length that the model reads; the first is "
    assert f"{cut}'{token}' (long.txt, line 1)" in done.err


def test_quiet() -> None:
    done = made("embed", "corpus.txt", "-o", "quiet.hdf5", "--quiet")
    assert done.out == b""
    assert done.err == ""
    assert made("embed", "-", "-o", "-", "-q", stdin=b"a\n").err == ""


def test_dry_run_writes_nothing_and_prints_sizes() -> None:
    Path("big.txt").write_text(TEXT * 50, encoding="utf-8")
    before = sorted(os.listdir())
    n_tokens = 50 * N_TOKENS
    command = ("embed", "big.txt", "-o", "out.hdf5", "--layers", "0,2", "--dtype", "float16")
    done = made(*command, "--dry-run")
    plan = json.loads(made(*command, "--dry-run", "--json").out)
    assert sorted(os.listdir()) == before
    assert re.fullmatch(
        rf"out\.hdf5: 300 sentences, {n_tokens:,} tokens, about ([\d.]+) KiB, "
        r"about \d+ s \(\d+ s to \d+ s\); "
        r"nothing was written\n",
        done.out.decode(),
    )
    made(*command)
    size = os.path.getsize("out.hdf5")
    assert plan.pop("bytes") == pytest.approx(size, rel=0.3)
    assert 0.7 * size < plan.pop("peak_bytes") < 1.8 * size  # this model has 16 dimensions
    low, high = plan.pop("seconds_range")
    assert 0 < low <= plan.pop("seconds") <= high
    assert plan == {
        "output": "out.hdf5",
        "sentences": 300,
        "tokens": n_tokens,
        "computed_tokens": n_tokens,
        "fit": {},
    }


def test_progress_is_plain_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "_LINE_EVERY_S", 0.02)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    embed_block = Embedder.embed_block

    def slow(self: Embedder, sentences: Any, state: Any, **settings: Any) -> Any:
        time.sleep(0.2)
        return embed_block(self, sentences, state, **settings)

    monkeypatch.setattr(Embedder, "embed_block", slow)
    about, *lines, _, _, _ = said(made("embed", "corpus.txt", "-o", "out.hdf5"))
    assert about.startswith("model tiny")
    pattern = r"(0|9|17) tokens of about (?:9|17) \(\d+%\)(, [\d,]+ tokens/s(, \d+ s left)?)?"
    n_done = set()
    for line in lines:
        progress = re.fullmatch(pattern, line)
        assert progress is not None, line
        n_done.add(progress[1])
    assert n_done >= {"0", "9"}
    of_stdin = said(made("embed", "-", "-o", "o.hdf5", stdin=TEXT.encode()))
    assert re.fullmatch(r"(9|17) tokens, [\d,]+ tokens/s", of_stdin[-2 - len(NOTES)])


# -- interrupted runs -----------------------------------------------------------------------------


COMMAND = ("embed", "corpus.txt", "-o", "out.hdf5")
N_TOKENS_LEFT = N_TOKENS - 9  # after the first block of three lines


def contents() -> dict[str, bytes]:
    """The content of every file in the working directory."""
    return {path.name: path.read_bytes() for path in Path().iterdir()}


def test_an_unfinished_run_is_not_started_over_unasked(stop_run: Any) -> None:
    stop_run(*COMMAND)
    before = contents()
    assert sorted(before) == ["corpus.txt", "out.hdf5.part", "out.hdf5.part.log"]
    refused(elmo(*COMMAND), 1, "out.hdf5.part: unfinished, 3 sentences", "`--resume`")
    assert contents() == before


def test_a_dry_run_of_resuming_shows_what_remains(stop_run: Any) -> None:
    stop_run(*COMMAND)
    before = contents()
    dry_run = (*COMMAND, "--resume", "--dry-run")
    left = f"; 3 sentences done, {N_TOKENS_LEFT} tokens remaining; nothing was written\n"
    assert made(*dry_run).out.decode().endswith(left)
    plan = json.loads(made(*dry_run, "--json").out)
    assert plan["tokens"] == N_TOKENS
    assert plan["computed_tokens"] == N_TOKENS_LEFT
    assert contents() == before
    made(*COMMAND, "--resume")
    assert b"; 6 sentences done, 0 tokens remaining" in made(*dry_run).out


def test_resume(stop_run: Any) -> None:
    stop_run(*COMMAND)
    done = made(*COMMAND, "--resume", "--json")
    assert "resuming: 9 tokens done" in said(done)
    facts = json.loads(done.out)
    assert facts["tokens"] == N_TOKENS
    assert facts["computed_tokens"] == N_TOKENS_LEFT
    made("embed", "corpus.txt", "-o", "whole.hdf5")
    assert Path("out.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    assert sorted(os.listdir()) == ["corpus.txt", "out.hdf5", "whole.hdf5"]


def test_resume_in_a_folder_does_the_rest(stop_run: Any) -> None:
    shutil.copy("corpus.txt", "second.txt")
    command = ("embed", "corpus.txt", "second.txt", "-o", "v/")
    stop_run(*command)
    for n_computed in ([N_TOKENS_LEFT, N_TOKENS], [0, 0]):
        done = made(*command, "--resume", "--json")
        assert [facts["computed_tokens"] for facts in json.loads(done.out)] == n_computed


# -- input that is left out -----------------------------------------------------------------------


BAD_TEXT = b"one\n\xff\nthree\n"
SKIP = ("--on-error", "skip")
REASON = "0xFF at byte 1 is not UTF-8"


def test_lines_left_out_are_listed_next_to_the_file(tiny_bilm: BiLM) -> None:
    Path("bad.txt").write_bytes(BAD_TEXT)
    done = elmo("embed", "bad.txt", "-o", "out.hdf5", *SKIP, "--json")
    assert done.code == 3
    assert json.loads(done.out)["skipped"] == [["bad.txt", 2, REASON]]
    assert "listed in out.hdf5.skipped.tsv" in said(done)[-1]
    assert Path("out.hdf5.skipped.tsv").read_text() == f"bad.txt\t2\t{REASON}\n"
    with open_embeddings("out.hdf5") as embeddings:
        assert list(embeddings) == [0, 2]
        check(embeddings[2], tiny_bilm, "three")


@pytest.mark.parametrize(
    ("name", "options"),
    [("corpus.txt", ()), ("bad.txt", SKIP), ("bad.txt", (*SKIP, "--resume"))],
)
def test_a_list_of_another_run_is_replaced_only_on_request(
    name: str, options: tuple[str, ...]
) -> None:
    Path("bad.txt").write_bytes(BAD_TEXT)
    skipped_list = Path("out.hdf5.skipped.tsv")
    skipped_list.write_text("mine")
    done = elmo("embed", name, "-o", "out.hdf5", *options)
    refused(done, 1, "out.hdf5.skipped.tsv: exists", "`--overwrite`")
    assert skipped_list.read_text() == "mine"
    assert not Path("out.hdf5").exists()
    assert elmo("embed", "bad.txt", "-o", "out.hdf5", *SKIP, "-f").code == 3
    assert skipped_list.read_text() == f"bad.txt\t2\t{REASON}\n"
    made("embed", "corpus.txt", "-o", "out.hdf5", "-f")
    assert not skipped_list.exists()  # nothing is left out of the new file


@pytest.mark.parametrize("shard", [(), ("--shard", "2/2")])
def test_a_finished_file_keeps_its_list(shard: tuple[str, ...]) -> None:
    """Also if the command is repeated, which reads the text but computes nothing."""
    Path("bad.txt").write_bytes(BAD_TEXT)
    for _ in range(2):
        done = elmo("embed", "bad.txt", "-o", "out.hdf5", *SKIP, "--resume", *shard)
        refused(done, 3, "1 line was left out", "listed in out.hdf5.skipped.tsv")
        assert Path("out.hdf5.skipped.tsv").read_text() == f"bad.txt\t2\t{REASON}\n"
    assert "complete already" in done.err


def test_a_list_has_the_bytes_of_a_name_that_is_not_utf_8() -> None:
    """A message escapes them."""
    name = os.fsdecode(b"\xfe.txt")
    output = os.fsdecode(b"\xfe.hdf5")
    Path(name).write_bytes(BAD_TEXT)
    done = elmo("embed", name, "-o", output, *SKIP)
    assert "\\udcfe.hdf5: 2 sentences, " in done.err
    expected = b"\xfe.txt\t2\t" + REASON.encode() + b"\n"
    assert Path(f"{output}.skipped.tsv").read_bytes() == expected


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
    assert status == b"0"
    assert Path("err").read_text() == ""


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
    done = elmo("embed", "corpus.txt", *words)
    (warning,) = [message for message in said(done) if "looks" in message]
    assert option in warning


@pytest.mark.parametrize(
    "layout", ["bilm-types", "manylangs --layers top", "allennlp --use-sentence-keys"]
)
def test_a_stream_keeps_its_first_line_in_layouts_that_check_it(layout: str) -> None:
    """A file is opened once more to check its first sentence; a pipe can be read only once."""
    Path("more.txt").write_text("is\n")
    words = ("-", "more.txt", "-o", "out.hdf5", "--layout", *layout.split())
    made("embed", *words, stdin=b"play\nfair\n")
    with open_embeddings("out.hdf5") as embeddings:
        assert len(embeddings) == 3
