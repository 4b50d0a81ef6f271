"""run_job: every way to a file ends in the same bytes, and what would not is refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from embedders import cached_embedder
from tolerance import ATOL_ORDER

from elmo_cli.embed import blocks
from elmo_cli.embed.blocks import TextScan, scan_text
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embed_file, make_embedder, run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ElmoError, InputError, OutputError, ResumeError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.load import ModelSource, load
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.shards import merge_shards
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputSettings

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N_BLOCKS = 7


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 sentences, of which the corpus below has seven; models are read once."""
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 2)
    monkeypatch.setattr("elmo_cli.embed.run.make_embedder", cached_embedder)


@pytest.fixture
def corpus(tmp_path: Path, lines: list[list[str]]) -> tuple[str, ...]:
    """Two files of 56 lines in all: short sentences, blank lines, repeated sentences."""
    numbers = random.Random(3)
    short = [line for line in lines if len(line) < 8]
    made = [" ".join(numbers.choice(short)) if numbers.random() < 0.9 else "" for _ in range(56)]
    paths = (tmp_path / "first.txt", tmp_path / "second.txt")
    for path, part in zip(paths, (made[:30], made[30:]), strict=True):
        path.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    return tuple(map(str, paths))


@pytest.fixture
def job(corpus: tuple[str, ...], tiny: Path, tmp_path: Path) -> EmbedJob:
    settings = EmbedderSettings(batch_size=4, device="cpu")
    return EmbedJob(corpus, f"{tmp_path}/whole.hdf5", ModelSource(str(tiny)), embedder=settings)


def changed(job: EmbedJob, **changes: Any) -> EmbedJob:
    """The job with other settings: of the embedder, of the file (`layout`, …), or of itself."""
    of_embedder = {k: v for k, v in changes.items() if hasattr(job.embedder, k)}
    of_file = {k: v for k, v in changes.items() if k in ("layout", "keys", "forget_sentences")}
    rest = {k: v for k, v in changes.items() if k not in of_embedder and k not in of_file}
    embedder, file = replace(job.embedder, **of_embedder), replace(job.file, **of_file)
    return replace(job, embedder=embedder, file=file, **rest)


def shards_of(job: EmbedJob, n: int) -> list[EmbedJob]:
    return [replace(job, output=f"{job.output}.{i}", shard=(i, n)) for i in range(1, n + 1)]


class Ended(BaseException):
    """The process ends here, as far as the run can tell."""


def run_until(block: int, job: EmbedJob) -> EmbedJob:
    """Run a job that ends after it has computed `block` blocks; the job that resumes it."""
    embed_block, n_started = Embedder.embed_block, 0

    def counted(self: Embedder, *args: Any) -> Any:
        nonlocal n_started
        if n_started == block:
            raise Ended
        n_started += 1
        return embed_block(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedder, "embed_block", counted)
        with pytest.raises(Ended):
            run_job(job)
    return replace(job, resume=True, overwrite=False)


def test_content_of_the_file(job: EmbedJob, tiny_bilm: BiLM) -> None:
    calls: list[tuple[int, int | None]] = []
    summary = run_job(job, progress=lambda done, total: calls.append((done, total)))
    texts = [line for name in job.inputs for line in Path(name).read_text().split("\n")[:-1]]
    embedder = Embedder(tiny_bilm, device="cpu")
    with open_embeddings(job.output) as embeddings:
        assert len(embeddings) == 56
        for key, text in enumerate(texts):
            expected = embedder.embed(text.split())
            np.testing.assert_allclose(
                embeddings[key], expected, rtol=0, atol=ATOL_ORDER, strict=True
            )
        facts = embeddings.attributes
    assert (facts["state"], facts["model"], len(facts["model_sha256"])) == ("zero", "tiny", 64)
    assert facts["sources"] == [[job.inputs[0], 0], [job.inputs[1], 30]]
    n_tokens = sum(len(text.split()) for text in texts)
    assert (summary.sentences, summary.tokens, summary.computed) == (56, n_tokens, n_tokens)
    assert summary.bytes == Path(job.output).stat().st_size
    assert not list(Path(job.output).parent.glob("whole.hdf5.*"))
    dones, totals = zip(*calls, strict=True)
    assert (len(calls), dones[0]) == (1 + N_BLOCKS, 0)
    assert list(dones) == sorted(dones)
    assert calls[-1] == (n_tokens, n_tokens)
    assert all(isinstance(total, int) for total in totals)


@pytest.mark.parametrize(
    ("changes", "n_shards"),
    [
        ({}, 3),
        ({"layout": "flat"}, 9),  # more shards than blocks
        ({"state": "warm", "layout": "flat"}, 3),
        ({"state": "document", "layout": "bilm"}, 3),
        ({"state": "document"}, 9),
        ({"layers": "top", "dtype": "float16"}, 3),
        ({"layers": "mix:0.2,0.3,0.5,2", "dtype": "float16"}, 3),
    ],
)
def test_shards_merged_are_the_whole(
    changes: dict[str, Any], n_shards: int, job: EmbedJob, tmp_path: Path
) -> None:
    job = changed(job, **changes)
    run_job(job)
    shards = shards_of(job, n_shards)
    for shard in shards:
        run_job(shard)
    merge_shards([shard.output for shard in shards[::-1]], tmp_path / "merged.hdf5")
    assert (tmp_path / "merged.hdf5").read_bytes() == Path(job.output).read_bytes()


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, [0, 1, 3, 6]),
        ({"layout": "flat"}, [3]),
        ({"state": "warm"}, [2]),
        ({"state": "carry"}, [1, 4]),
        ({"state": "document"}, [1, 2]),
        ({"shard": (2, 2)}, [1]),
        ({"shard": (2, 2), "state": "document"}, [1]),
    ],
)
def test_repeated_and_resumed_at_any_block_are_the_same_bytes(
    changes: dict[str, Any], ends: list[int], job: EmbedJob, tmp_path: Path
) -> None:
    job = changed(job, **changes)
    whole = run_job(job)
    expected = Path(job.output).read_bytes()
    assert run_job(replace(job, overwrite=True)).computed == whole.tokens
    assert Path(job.output).read_bytes() == expected
    for block in ends:
        again = run_until(block, replace(job, output=f"{tmp_path}/resumed{block}.hdf5"))
        assert not Path(again.output).exists()
        calls: list[int] = []
        summary = run_job(again, progress=lambda done, total, calls=calls: calls.append(done))
        assert Path(again.output).read_bytes() == expected
        assert summary.tokens == whole.tokens == calls[0] + summary.computed == calls[-1]
        assert (summary.computed < whole.tokens) == (block > 0)
        finished = run_job(again)
        assert (finished.computed, finished.sentences) == (0, whole.sentences)


@pytest.mark.parametrize("n_shards", [3, 9])
def test_each_shard_lists_all_skipped_lines(n_shards: int, job: EmbedJob) -> None:
    for path in map(Path, job.inputs):
        lines = path.read_bytes().split(b"\n")
        lines[::5] = [b"\xff"] * len(lines[::5])
        path.write_bytes(b"\n".join(lines))
    job = replace(job, text=InputSettings(on_error="skip"))
    whole = run_job(job).report.skipped
    assert len(whole) > 10
    for shard in shards_of(job, n_shards):
        for again in (shard, replace(shard, resume=True)):
            assert run_job(again).report.skipped == whole
            assert Path(shard.skipped_list).read_text().count("\n") == len(whole)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layers": "top"}, "layers"),
        ({"dtype": "float16"}, "dtype"),
        ({"state": "warm"}, "state"),
        ({"state": "document"}, "state"),
        ({"pool": "mean"}, "pool"),
        ({"layout": "bilm"}, "layout"),
        ({"forget_sentences": True}, "sentence"),
        ({"shard": (1, 2)}, "shard"),
        ({"precision": "bf16"}, "precision"),
        ({"text": InputSettings(blank="skip")}, "blank"),
        ({"text": InputSettings(tokenize=True)}, "tokenizer"),
        ({"text": InputSettings(format="conll", column=1)}, "format"),
        ({"model": ModelSource("odd")}, "model"),
        ({"state": "carry", "batch_size": 8}, "batch"),
    ],
)
def test_resume_refuses_other_settings(
    changes: dict[str, Any], named: str, job: EmbedJob, odd: Path
) -> None:
    if changes.get("state") == "carry":
        job = changed(job, state="carry")
    if "model" in changes:
        changes = {"model": ModelSource(str(odd))}
    again = run_until(1, job)
    before = Path(f"{job.output}.part").read_bytes()
    with pytest.raises(ResumeError) as caught:
        run_job(changed(again, **changes))
    assert named in caught.value.message
    assert Path(f"{job.output}.part").read_bytes() == before


def with_a_longer_line(text: str) -> str:
    return text.replace("\n", " more\n", 1)


def with_another_line(text: str) -> str:
    return "\n" + text


def only_the_beginning(text: str) -> str:
    return text[: len(text) // 20]


def nothing(text: str) -> str:
    return ""


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize(
    "change", [with_a_longer_line, with_another_line, only_the_beginning, nothing]
)
def test_resume_refuses_another_text(
    change: Callable[[str], str], is_finished: bool, job: EmbedJob
) -> None:
    again = run_until(3, job)
    if is_finished:
        run_job(again)
    Path(job.inputs[1]).write_text("")
    first = Path(job.inputs[0])
    first.write_text(change(first.read_text()))
    with pytest.raises(ResumeError, match=r"whole\.hdf5.*: made from a different text"):
        run_job(again)


def test_resume_accepts_a_text_with_more_at_its_end(job: EmbedJob, tmp_path: Path) -> None:
    again = run_until(3, job)
    with open(job.inputs[1], "a", encoding="utf-8") as file:
        file.write("one more\n")
    run_job(again)
    fresh = replace(job, output=str(tmp_path / "fresh.hdf5"))
    run_job(fresh)
    assert Path(job.output).read_bytes() == Path(fresh.output).read_bytes()


@pytest.mark.parametrize("changes", [{}, {"shard": (1, 1)}, {"layout": "bilm", "shard": (1, 2)}])
def test_a_text_that_shrinks_while_it_is_read_is_refused(
    changes: dict[str, Any], job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "SENTENCES", 500)
    job = changed(job, **changes)
    run_job(job)
    before = Path(job.output).read_bytes()

    def shrink(done: int, total: int | None) -> None:
        for name in job.inputs:
            Path(name).write_text("")

    Path(job.inputs[0]).write_text(
        "It slept .\n" * 3000
    )  # more than is read at a time, also for half of the blocks
    with pytest.raises(InputError, match="changed while it was read"):
        run_job(replace(job, overwrite=True), progress=shrink)
    assert Path(job.output).read_bytes() == before


def test_a_text_that_changes_after_its_scan_is_refused(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shards would be those of two texts, of as many sentences."""

    def scan_and_change(job: EmbedJob) -> TextScan:
        scan, second = scan_text(job), Path(job.inputs[1])
        second.write_text(second.read_text().upper())
        return scan

    monkeypatch.setattr("elmo_cli.embed.run.scan_text", scan_and_change)
    with pytest.raises(InputError, match="changed while it was read"):
        run_job(replace(job, shard=(2, 2)))
    assert not Path(job.output).exists()


def test_token_vectors_of_a_vocabulary(job: EmbedJob, tiny_bilm: BiLM, tmp_path: Path) -> None:
    types = ["</S>", "<S>", "<UNK>", "the", "cat", "the", *(f"type{n}" for n in range(30))]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(types) + "\n", encoding="utf-8")
    of_types = changed(job, layout="bilm-types")
    run_job(replace(of_types, inputs=(str(vocabulary),)))
    with h5py.File(job.output) as file:
        expected = Embedder(tiny_bilm, device="cpu").embed_types(types)
        np.testing.assert_allclose(file["embedding"][...], expected, rtol=0, atol=ATOL_ORDER)
    with pytest.raises(InputError, match=r"first\.txt, line \d+: \d+ tokens"):
        run_job(replace(of_types, overwrite=True))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shard": (1, 2), "state": "carry"}, "`shard` and `state=carry`"),
        ({"shard": (1, 2), "inputs": ("-",)}, "`shard`: standard input"),
        ({"layout": "bilm-types", "layers": "top"}, "`layout=bilm-types`"),
        ({"layout": "bilm-types", "pool": "mean"}, "`layout=bilm-types`"),
        ({"layout": "bilm-types", "state": "carry"}, "`layout=bilm-types`"),
        ({"layout": "manylangs"}, "`layout=manylangs`"),
        ({"layout": "manylangs", "layers": "0,2"}, "`layout=manylangs`"),
        ({"layout": "manylangs", "layers": " 0 ,2"}, "`layout=manylangs`"),
        ({"overwrite": True, "resume": True}, "`overwrite=True` and `resume=True`"),
        ({"dtype": "int8"}, "`dtype=int8`"),
    ],
)
def test_settings_that_contradict_each_other(
    changes: dict[str, Any], named: str, job: EmbedJob
) -> None:
    with pytest.raises(UsageError, match=named):
        changed(job, **changes)


def in_place_of_an_input(job: EmbedJob) -> EmbedJob:
    return replace(job, output=job.inputs[0], overwrite=True)


def in_place_of_the_model(job: EmbedJob) -> EmbedJob:
    return replace(job, output=f"{job.model.name_or_path}/weights.hdf5", overwrite=True)


def of_a_missing_text(job: EmbedJob) -> EmbedJob:
    return replace(job, inputs=("no.txt",))


def into_a_missing_folder(job: EmbedJob) -> EmbedJob:
    return replace(job, output="no/such/out.hdf5")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (in_place_of_an_input, UsageError),
        (in_place_of_the_model, UsageError),
        (of_a_missing_text, InputError),
        (into_a_missing_folder, OutputError),
    ],
)
def test_paths_are_refused_before_the_model_is_loaded(
    change: Callable[[EmbedJob], EmbedJob],
    error: type[ElmoError],
    job: EmbedJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmo_cli.embed.run.make_embedder", None)
    job = change(job)
    before = Path(job.inputs[0]).read_bytes() if Path(job.inputs[0]).exists() else None
    with pytest.raises(error):
        run_job(job)
    assert before is None or Path(job.inputs[0]).read_bytes() == before


def test_a_file_of_the_model_that_the_job_does_not_name_is_kept(
    tiny: Path, job: EmbedJob, tmp_path: Path
) -> None:
    shutil.copytree(tiny, tmp_path / "model")
    weights = tmp_path / "model" / "weights.hdf5"
    before, embedder = weights.read_bytes(), Embedder(load(tmp_path / "model"))
    with pytest.raises(UsageError, match=r"weights\.hdf5: is also a file of the model"):
        embed_file(job.inputs[0], weights, embedder, overwrite=True)
    assert weights.read_bytes() == before


def test_embed_file_uses_the_settings_of_the_embedder(
    tiny_bilm: BiLM, job: EmbedJob, tmp_path: Path
) -> None:
    settings = {"state": "carry", "layers": " 0, 02 ", "dtype": "float16", "batch_size": 3}
    embedder = Embedder(tiny_bilm, **settings)
    out = tmp_path / "carried.hdf5"
    summary = embed_file(Path(job.inputs[0]), out, embedder, file=FileSpec("bilm"))
    with open_embeddings(out) as embeddings:
        facts = embeddings.attributes
        expected = [array for _, array in embedder.stream(job.inputs[0])]
        assert len(embeddings) == summary.sentences == len(expected)
        for key, array in enumerate(expected):
            np.testing.assert_array_equal(embeddings[key], array, strict=True)
    wanted = {"state": "carry", "layers": "0,2", "dtype": "float16", "batch_size": 3}
    assert {**wanted, "layout": "bilm"}.items() <= facts.items()
    zero = Embedder(tiny_bilm)
    for name, shard in (("a.hdf5", "1/1"), ("b.hdf5", "1/1")):
        embed_file(job.inputs[0], tmp_path / name, zero, shard=shard)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
    with pytest.raises(TypeError):
        embed_file(job.inputs[0], out, zero, layout="bilm")  # type: ignore[call-arg]


def test_truncated_tokens_are_counted_by_the_limit_of_the_model(
    tiny: Path, job: EmbedJob, tmp_path: Path
) -> None:
    options = json.loads((tiny / "options.json").read_text())
    options["char_cnn"]["max_characters_per_token"] = 10
    (tmp_path / "options.json").write_text(json.dumps(options))
    Path(job.inputs[0]).write_text("short abcdefghi\nabcdefgh\n")
    model = ModelSource(None, str(tmp_path / "options.json"), str(tiny / "weights.hdf5"))
    report = run_job(replace(job, inputs=job.inputs[:1], model=model)).report
    assert report.truncated_tokens == 1
    assert report.first_truncated == ("abcdefghi", job.inputs[0], 1)


def test_warnings_about_the_input_come_before_any_computing(job: EmbedJob) -> None:
    events: list[str] = []
    Path(job.inputs[0]).write_text("Hello, he said. Yes, it is.\n" * 300)
    report = run_job(
        job, progress=lambda done, total: events.append(f"{done}"), warn=events.append
    ).report
    assert [event for event in events if "untokenized" in event] == report.warnings
    assert "untokenized" in events[events.index("0") - 1]


@pytest.mark.parametrize("is_scanned", [False, True])
def test_too_little_free_space(
    is_scanned: bool, job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exact size is refused; an estimate is a warning."""
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    warned: list[str] = []
    if is_scanned:
        with pytest.raises(OutputError, match="are needed"):
            run_job(replace(job, shard=(1, 1)))
        assert not list(tmp_path.glob("whole.hdf5*"))
    else:
        run_job(job, warn=warned.append)
        run_job(replace(job, resume=True), warn=warned.append)  # a finished file needs none
        assert sum("are needed" in warning for warning in warned) == 1


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_the_fast_engine_frees_the_weights_of_the_model(
    job: EmbedJob, tiny_bilm: BiLM, precision: str
) -> None:
    for engine in ("fast", "plain") if precision == "float32" else ("fast",):
        made = changed(job, engine=engine, precision=precision)
        embedder = make_embedder(made)
        assert all(w.is_meta for w in embedder.bilm.parameters()) == (engine == "fast")
        tokens = ["The", "cat", "sat"]
        whole = Embedder(tiny_bilm, batch_size=4, engine=engine, precision=precision, device="cpu")
        assert np.array_equal(embedder.embed(tokens), whole.embed(tokens))


# -- the writer thread ----------------------------------------------------------------------------


def slow_commits(
    monkeypatch: pytest.MonkeyPatch, seconds: float, meanwhile: Callable[[], None] = lambda: None
) -> list[str]:
    """Let each commit take a while; what began and ended."""
    events: list[str] = []
    append = EmbeddingsWriter.append_block

    def slow(self: EmbeddingsWriter, *args: Any, **facts: Any) -> None:
        assert events.count("begin") == events.count("end")  # one at a time
        events.append("begin")
        meanwhile()
        time.sleep(seconds)
        append(self, *args, **facts)
        events.append("end")

    monkeypatch.setattr(EmbeddingsWriter, "append_block", slow)
    return events


def test_a_block_is_written_while_the_next_one_is_computed(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, embed_block = slow_commits(monkeypatch, 0.05), Embedder.embed_block

    def computing(self: Embedder, *args: Any) -> Any:
        events.append("compute")
        return embed_block(self, *args)

    monkeypatch.setattr(Embedder, "embed_block", computing)
    run_job(job)
    computed_before = [events[:i].count("compute") for i, e in enumerate(events) if e == "end"]
    assert computed_before == [min(k + 2, N_BLOCKS) for k in range(N_BLOCKS)]


@pytest.mark.parametrize("n_presses", [1, 3])
def test_ctrl_c_waits_for_the_commit(
    n_presses: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident or 0

    def press() -> None:
        for _ in range(n_presses):
            time.sleep(0.05)
            signal.pthread_kill(main, signal.SIGINT)

    events = slow_commits(monkeypatch, 0.1, press)
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    assert events == ["begin", "end"]
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    summary = run_job(replace(job, resume=True))
    assert 0 < summary.computed < summary.tokens


@pytest.mark.parametrize("n_good", [0, N_BLOCKS - 1])
def test_an_error_of_the_writer_ends_the_run(
    n_good: int, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, n_written = EmbeddingsWriter.append_block, 0

    def fill(self: EmbeddingsWriter, *args: Any, **facts: Any) -> None:
        nonlocal n_written
        if n_written == n_good:
            raise OSError(28, os.strerror(28))
        n_written += 1
        append(self, *args, **facts)

    monkeypatch.setattr(EmbeddingsWriter, "append_block", fill)
    with pytest.raises(OSError, match="No space left"):
        run_job(job)
    assert not Path(job.output).exists()
