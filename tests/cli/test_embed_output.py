"""What `elmo embed` reports about files, skipped lines, folders and clusters, and refuses."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import elmo, made, refused

from elmo_cli.cli import console, embed_jobs, embed_summary
from elmo_cli.embed import blocks
from elmo_cli.embed.plan import FileSize, Plan, SecondsRange
from elmo_cli.embed.run_summary import RunSummary
from elmo_cli.errors import InputError
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.input_report import InputReport

EMBED = ("embed", "a.txt", "-o", "a.hdf5")


@pytest.fixture(autouse=True)
def here(folder: Path) -> None:
    """A working directory with a text of two sentences, and one with a line that is not UTF-8."""
    Path("a.txt").write_text("the cat\nit slept now\n")
    Path("bad.txt").write_bytes(b"one\n\xff\nthree\n")


# -- options without effect -----------------------------------------------------------------------

WITHOUT_RAY = ("--ray-address x", "--workers 2", "--gpus-per-worker 1")
WITH_RAY = ("--output-format npz", "--dry-run", "--shard 1/2", "--overwrite", "--resume")
FOR_STDOUT = (
    "--dry-run",
    "--json",
    "--overwrite",
    "--resume",
    "--shard 1/2",
    "--layout flat",
    "--use-sentence-keys",
    "--forget-sentences",
    "--sentence-map occurrences",
)
OF_MODEL = (
    "--model tiny",
    "--options-file a.txt",
    "--weight-file a.txt",
    "--device cpu",
    "--threads 1",
)
OF_INPUT = (
    "--input-format plain",
    "--tokenize",
    "--encoding utf-8",
    "--column 1",
    "--fasta-id first",
    "--fasta-raw",
    "--on-error skip",
    "--blank-lines skip",
)
TO_STDOUT = (
    "vocab a.txt -o -",
    "tokenize a.txt",
    "score a.txt -o -",
    "perplexity a.txt -o -",
    "predict ner a.txt",
    "change a.npz b.npz -o -",
)
WITHOUT_EFFECT = [
    *(("embed a.txt -o a.hdf5", words, "without --ray") for words in WITHOUT_RAY),
    *(("embed a.txt -o a/ --ray", words, "for --ray") for words in WITH_RAY),
    *(("embed a.txt -o -", words, "for standard output") for words in FOR_STDOUT),
    *(("inspect a.hdf5 --text a.txt", words, "without --recompute") for words in OF_MODEL),
    *(("inspect a.hdf5", words, "without --text") for words in OF_INPUT),
    *(("inspect elmo-en", words, "for a model") for words in OF_MODEL if "options" not in words),
    ("inspect elmo-en", "--text a.txt", "for a model"),
    ("vocab a.txt -o -", "--json", "for standard output"),
    *((command, "--overwrite", "for standard output") for command in TO_STDOUT),
]


@pytest.mark.parametrize(("command", "words", "condition"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_refused(command: str, words: str, condition: str) -> None:
    """A user who gives it expects an effect."""
    option = words.split()[0]
    done = elmo(*command.split(), *words.split())
    refused(done, 2, f"{option}: has no effect {condition}", "leave it out")


# -- reports about a file -------------------------------------------------------------------------


def test_duplicates_are_counted_and_named() -> None:
    """Also when the command is repeated, which computes nothing."""
    Path("a.txt").write_text("the cat\nit slept now\nthe cat\nthe cat\n")
    command = (*EMBED, "--layout", "manylangs", "--layers", "top", "--json", "--resume")
    for n_computed in (9, 0):
        done = made(*command)
        assert "2 repeated sentences left out by --layout manylangs\n" in done.err
        facts = json.loads(done.out)
        counts = [facts[name] for name in ("sentences", "tokens", "duplicates", "computed_tokens")]
        assert counts == [2, 5, 2, n_computed]


def test_what_the_file_records_of_its_text() -> None:
    Path("b.txt").write_bytes(b"a\n\n\xff\nb\n")
    words = ("--blank-lines", "skip", "--on-error", "skip", "--threads", "1", "--precision", "int8")
    done = elmo("embed", "a.txt", "b.txt", "-o", "a.hdf5", *words)
    assert done.code == 3
    about = "model tiny, 16 dimensions, on cpu, 1 thread, products in int8"
    assert about in done.err.splitlines()
    with open_embeddings("a.hdf5") as embeddings:
        attributes = embeddings.attributes
        assert list(embeddings) == [0, 1, 2, 5]
    assert attributes["skipped_sentences"] == 2
    assert attributes["sources"] == [["a.txt", 0], ["b.txt", 2]]
    versions = {name for name in attributes if name.endswith("_version")}
    assert versions == {"elmo_version", "torch_version", "numpy_version", "h5py_version"}
    made(*EMBED, "--overwrite")
    with open_embeddings("a.hdf5") as embeddings:
        assert "skipped_sentences" not in embeddings.attributes


def test_warnings_are_in_the_json_and_repeated_for_a_finished_file() -> None:
    Path("a.txt").write_text("The cat, it slept.\n")
    shutil.copy("a.txt", "b.txt")
    command = ("embed", "a.txt", "b.txt", "-o", "v/", "--resume", "--json")
    for _ in range(2):
        done = made(*command)
        first, second = json.loads(done.out)
        assert [len(facts["warnings"]) for facts in (first, second)] == [1, 1]
        for name in ("a.txt", "b.txt"):
            assert f"warning: {name}, line 1: looks untokenized; `--tokenize` splits" in done.err
    assert done.err.count("complete already") == 2


def test_a_pair_of_files_goes_before_the_model_of_the_environment(odd: Path) -> None:
    """The command line takes precedence, also where it names a model in another way."""
    pair = ("--options-file", odd / "options.json", "--weight-file", odd / "weights.hdf5")
    done = made(*EMBED, *pair)
    assert f"model {odd / 'weights.hdf5'}, " in done.err
    with open_embeddings("a.hdf5") as embeddings:
        assert embeddings.attributes["model"] == "odd"
    refused(elmo(*EMBED, "-f", *pair[:2]), 2, f"{odd / 'options.json'}: expected one model", "")
    refused(elmo(*EMBED, "-f", *pair[2:]), 2, f"{odd / 'weights.hdf5'}: expected one model", "")
    refused(elmo(*EMBED, "-f", "-m", "odd", *pair), 2, f"odd, {pair[1]}, {pair[3]}: expected", "")


@pytest.mark.parametrize(
    ("computed", "end"),
    [(5000, "5,000 tokens in 2.0 s (2,500 tokens/s)"), (0, "0 tokens in 2.0 s")],
)
def test_the_rate_is_that_of_the_computed_tokens(computed: int, end: str) -> None:
    """Those that were done before a run was resumed took no time of it."""
    summary = RunSummary(
        output="a.hdf5",
        sentences=1,
        tokens=6000,
        duplicates=0,
        computed=computed,
        bytes=2048,
        report=InputReport(),
    )
    line = embed_summary._summary_line(summary, 2.0)
    assert line == f"a.hdf5: 1 sentence, 6,000 tokens, 2.0 KiB; {end}"


def test_a_finished_file_of_another_text_is_not_called_complete() -> None:
    made(*EMBED)
    Path("a.txt").write_text("the dog\nit slept now\n")
    refused(elmo(*EMBED, "--resume"), 1, "a.hdf5: made from a different text", "`--overwrite`")


def test_the_number_of_threads_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    n_threads: list[int | None] = []
    monkeypatch.setattr("elmo_cli.engine.runtime.set_num_threads", n_threads.append)
    made(*EMBED, "--threads", 3)
    made(*EMBED, "-f")
    assert n_threads == [3, None]


def test_a_limit_of_the_length() -> None:
    made(*EMBED, "--max-sentence-length", 3)
    done = elmo(*EMBED, "--max-sentence-length", 2, "-f")
    refused(done, 1, "a.txt, line 2: more than 2 tokens", "(`--max-sentence-length`)")


# -- skipped lines --------------------------------------------------------------------------------


def test_the_lists_of_all_files_of_a_folder_are_named() -> None:
    shutil.copy("bad.txt", "worse.txt")
    words = ("bad.txt", "a.txt", "worse.txt", "-o", "v/", "--on-error", "skip", "--json")
    done = elmo("embed", *words)
    reason = "0xFF at byte 1 is not UTF-8"
    first = f"2 lines were left out, the first bad.txt, line 2: {reason}"
    refused(done, 3, first, "listed in v/bad.hdf5.skipped.tsv, v/worse.hdf5.skipped.tsv")
    skipped = [facts["skipped"] for facts in json.loads(done.out)]
    assert skipped == [[["bad.txt", 2, reason]], [], [["worse.txt", 2, reason]]]


def test_standard_output_has_the_reports_of_a_file() -> None:
    Path("bad.txt").write_bytes(b"one\n\xff\n" + b"a" * 49 + b"\n")
    done = elmo("embed", "bad.txt", "-o", "-", "--on-error", "skip")
    refused(done, 3, "1 line was left out, the first bad.txt, line 2: ", "`--on-error stop`")
    assert [json.loads(line)["key"] for line in done.out.splitlines()] == [0, 2]
    assert "warning: cut 1 token to the length that the model reads; " in done.err


def test_formats_of_standard_output() -> None:
    words = ("embed", "a.txt", "-o", "-", "-q", "--layers", "top", "--output-format")
    lines = made(*words, "text").out.decode().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["the", "cat", "", "it", "slept", "now", ""]
    pooled = made(*words, "text", "--pool", "mean").out.decode().splitlines()
    assert [line.split(" ")[0] for line in pooled] == ["0", "1"]
    archive = np.load(io.BytesIO(made(*words, "npz").out))
    assert {name: archive[name].shape for name in archive} == {"0": (2, 16), "1": (3, 16)}


# -- folders --------------------------------------------------------------------------------------


def test_a_plan_has_a_line_and_an_object_for_each_file() -> None:
    """A layout that is written in place takes its space once."""
    Path("b.txt").write_text("one\n")
    words = ("embed", "a.txt", "b.txt", "-o", "v/", "--layout", "flat", "--dry-run")
    lines = made(*words).out.decode().splitlines()
    counts = ("v/a.hdf5: 2 sentences, 5 tokens", "v/b.hdf5: 1 sentence, 1 token")
    for line, start in zip(lines, counts, strict=True):
        time = r"about \d+ s \(\d+ s to \d+ s\)"
        assert re.fullmatch(rf"{start}, about \S+ \S+, {time}; nothing was written", line), line
    plans = json.loads(made(*words, "--json").out)
    assert [plan["output"] for plan in plans] == ["v/a.hdf5", "v/b.hdf5"]
    assert not Path("v").exists()
    Path("b.txt").write_text("\n\n")
    line = made("embed", "b.txt", "-o", "b.hdf5", "--dry-run").out.decode()
    assert line.startswith("b.hdf5: 2 sentences, 0 tokens, about ")


def test_the_time_of_a_plan_includes_that_of_loading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(
        sentences=2,
        tokens=5,
        size=FileSize(total=7, peak=9, is_copied=True),
        computed=4,
        committed=1,
        seconds=SecondsRange(estimate=10.0, low=7.0, high=13.54),
        fit=(),
        warnings=("odd",),
    )
    monkeypatch.setattr(console, "running", console.RunningCommand(as_json=True))
    monkeypatch.setattr(embed_jobs, "plan_job", lambda job, embedder: plan)
    job: Any = SimpleNamespace(output="a.hdf5")
    embedder: Any = None
    embed_jobs.print_plans([job], embedder, loading_s=2.04)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "output": "a.hdf5",
        "sentences": 2,
        "tokens": 5,
        "computed_tokens": 4,
        "bytes": 7,
        "peak_bytes": 9,
        "fit": {},
        "seconds": 12.0,
        "seconds_range": [9.04, 15.6],
    }
    assert shown.err == "warning: odd\n"


def test_an_unfinished_run_that_is_to_replace_a_file_is_named(
    stop_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error names `--resume` first: the run may have computed for days."""
    monkeypatch.setattr(blocks, "SENTENCES", 3)  # as in `stop_run`
    Path("a.txt").write_text("the cat\n" * 9)
    made(*EMBED, "-q")
    stop_run(*EMBED, "--overwrite")
    done = elmo(*EMBED)
    problem = "a.hdf5: exists, and the run that is to replace it is unfinished"
    refused(done, 1, problem, "`--resume` continues that run, `--overwrite` starts over")
    Path("a.hdf5.part").unlink()  # what is left is the log of a run that is complete
    refused(elmo(*EMBED), 1, "a.hdf5: exists", "`--overwrite` replaces it")
    assert made(*EMBED, "--resume").err.endswith("complete already\n")
    assert not Path("a.hdf5.part.log").exists()


def test_the_first_sentence_of_each_file_is_checked_before_any_is_written() -> None:
    """A file that its layout cannot hold would end the run after those before it."""
    Path("types.txt").write_text("the\ncat\n")
    done = elmo("embed", "types.txt", "a.txt", "-o", "v/", "--layout", "bilm-types")
    refused(done, 1, "a.txt, line 1: 2 tokens; a vocabulary has one per line", "one type per line")
    assert not Path("v").exists()


def test_a_folder_that_has_some_of_the_files() -> None:
    """It is the rest of an interrupted run, or the output of another one."""
    Path("b.txt").write_text("one\n")
    command = ("embed", "a.txt", "b.txt", "-o", "v/", "-q")
    made("embed", "a.txt", "-o", "v/", "-q")
    refused(elmo(*command), 1, "v/: has 1 of 2 files", "`--resume` computes the others")
    assert sorted(path.name for path in Path("v").iterdir()) == ["a.hdf5"]
    made(*command, "--overwrite")
    refused(elmo(*command), 1, "v/a.hdf5: exists", "`--overwrite` replaces it")
    Path("v/b.hdf5").unlink()
    made(*command, "--resume")
    assert Path("v/b.hdf5").exists()


def test_a_file_is_not_taken_for_a_folder() -> None:
    Path("vectors").write_text("of the user")
    Path("b.txt").write_text("one\n")
    done = elmo("embed", "a.txt", "b.txt", "-o", "vectors/")
    refused(done, 1, "vectors/: is a file, not a folder", "choose another output path, or move")
    assert Path("vectors").read_text() == "of the user"
    done = elmo("pretrain", "a.txt", "-o", "vectors", "--max-steps", "1")
    refused(done, 1, "vectors: is a file, not a folder", "choose another output path, or move")


# -- clusters -------------------------------------------------------------------------------------


def piece(number: int, n_tokens: int, *, worker: str = "", error: str = "") -> Any:
    """A shard that a worker has written, that was complete before, or that is missing."""
    return SimpleNamespace(
        number=number,
        name=f"part-{number}-ab12.hdf5",
        n_sentences=10 * n_tokens,
        n_tokens=n_tokens,
        worker=worker,
        error=error,
        hint="take less",
    )


def test_what_a_cluster_has_done() -> None:
    """Tokens of shards that were complete before are not computed ones."""
    pieces = [
        piece(1, 5, worker="w2"),
        piece(2, 0, error="out of memory"),
        piece(3, 1),
        piece(4, 7, worker="w1"),
        piece(5, 2, worker="w2"),
    ]
    report = InputReport(blank_lines=3, truncated_tokens=4, skipped=[("a.txt", 2, "why")])
    warnings = ("about the model", "about the text")
    result: Any = SimpleNamespace(pieces=pieces, report=report, fit=(), warnings=warnings)
    assert embed_jobs._cluster_facts("v/", result, 1.26) == {
        "output": "v/",
        "shards": [f"part-{number}-ab12.hdf5" for number in (1, 3, 4, 5)],
        "missing": [{"shard": 2, "error": "out of memory"}],
        "sentences": 150,
        "tokens": 15,
        "computed_tokens": 14,
        "seconds": 1.3,
        "workers": ["w1", "w2"],
        "blank_lines": 3,
        "fit": {},
        "truncated_tokens": 4,
        "skipped": [("a.txt", 2, "why")],
        "warnings": ["about the model", "about the text"],
    }
    with pytest.raises(InputError) as caught:
        embed_jobs._refuse_missing("v/", result)
    missing = "1 of 5 shards missing, the first is 2: out of memory"
    assert caught.value.message == f"v/: {missing}"
    assert caught.value.hint == "take less; then repeat the command to compute the missing shards"


@pytest.mark.parametrize(
    ("output", "n_lines", "merged"), [("v", 1, "v"), ("s3://b/v/", 2, "shards")]
)
def test_the_command_that_joins_the_shards_is_printed(
    output: str,
    n_lines: int,
    merged: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It joins only the shards of one run: a folder may have those of several."""
    monkeypatch.setattr(console, "running", console.RunningCommand())
    embed_jobs._suggest_merge(output, "part-00001-of-00003-ab12.hdf5")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == n_lines
    names = f"{merged}/part-*-ab12.hdf5"
    assert lines[-1] == f"`elmo merge {names} -o OUT.hdf5` joins them into one file"
