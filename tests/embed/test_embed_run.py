"""run_job and embed_file: the content of the file, its summary, warnings and free space."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from small_jobs import N_BLOCKS, changed
from tolerance import ATOL_ORDER

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.finished_run import summary_if_finished
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embed_file, make_embedder, run_job
from elmo_cli.errors import InputError, OutputError
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import sentences_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("small_blocks"),
]


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


@pytest.mark.parametrize("tokens_first", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dtype": "float16", "layers": "0,2"},
        {"state": "carry", "batch_size": 3},
        {"layers": "top"},
        {"layers": "sum", "dtype": "float16"},
        {"pool": "mean"},
    ],
    ids=str,
)
def test_vectors_that_are_sorted_on_the_device_are_the_same(
    settings: dict[str, Any], tokens_first: bool, tiny_bilm: BiLM
) -> None:
    """As on a GPU; one in the wrong order would be that of another token or layer."""
    embedder = Embedder(tiny_bilm, device="cpu", **settings)
    lines = ["a b c", "", "d", "e f g h i", "a b", "j k l m", "n"]
    sentences = list(sentences_of(line.split() for line in lines))
    expected, _ = embedder.embed_block(sentences, None)
    embedder.sorts_vectors = True
    arrays, _ = embedder.embed_block(sentences, None, tokens_first=tokens_first)
    assert len(arrays) == len(lines)
    for found, wanted in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("layout", ["flat", "allennlp"])
def test_sorted_vectors_are_written_as_they_are(
    layout: str, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the writer would copy what was sorted for it."""
    job = changed(job, layout=layout)
    Path(job.inputs[0]).write_text("a b c\nd e\n")
    embedder = make_embedder(job)
    embedder.sorts_vectors = True
    are_shared: list[bool] = []

    original = EmbeddingsWriter.append_block

    def append(writer: EmbeddingsWriter, sentences: Any, arrays: Any, **facts: Any) -> Future[None]:
        for sentence, array in zip(sentences, arrays, strict=True):
            stored = job.layout.store(sentence, array, job.file)
            are_shared.append(np.shares_memory(stored.values, array))
        return original(writer, sentences, arrays, **facts)

    monkeypatch.setattr(EmbeddingsWriter, "append_block", append)
    run_job(replace(job, inputs=job.inputs[:1]), embedder=embedder)
    assert are_shared == [True, True]


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


def test_embed_file_of_a_shard_gives_the_same_bytes_again(
    tiny_bilm: BiLM, job: EmbedJob, tmp_path: Path
) -> None:
    embedder = Embedder(tiny_bilm)
    embed_file(job.inputs[0], tmp_path / "a.hdf5", embedder, shard="1/1")
    embed_file(job.inputs[0], tmp_path / "b.hdf5", embedder, shard="1/1")
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()


def test_embed_file_takes_the_layout_in_its_file_spec_only(
    tiny_bilm: BiLM, job: EmbedJob, tmp_path: Path
) -> None:
    with pytest.raises(TypeError):
        embed_file(job.inputs[0], tmp_path / "a.hdf5", Embedder(tiny_bilm), layout="bilm")  # type: ignore[call-arg]


def test_truncated_tokens_are_counted_by_the_limit_of_the_model(
    tiny: Path, job: EmbedJob, tmp_path: Path
) -> None:
    options = json.loads((tiny / "options.json").read_text())
    options["char_cnn"]["max_characters_per_token"] = 10
    (tmp_path / "options.json").write_text(json.dumps(options))
    Path(job.inputs[0]).write_text("short abcdefghi\nabcdefgh\n")
    model = ModelSource(None, str(tmp_path / "options.json"), str(tiny / "weights.hdf5"))
    job = replace(job, inputs=job.inputs[:1], model=model)
    report = run_job(job).report
    assert report.truncated_tokens == 1
    assert report.first_truncated == ("abcdefghi", job.inputs[0], 1)
    finished = summary_if_finished(replace(job, resume=True), job.locate_model())
    assert finished is not None
    assert finished.report == report


def test_warnings_about_the_input_come_before_any_computing(job: EmbedJob) -> None:
    events: list[str] = []
    Path(job.inputs[0]).write_text("Hello, he said. Yes, it is.\n" * 300)
    report = run_job(
        job, progress=lambda done, total: events.append(f"{done}"), warn=events.append
    ).report
    assert [event for event in events if "untokenized" in event] == report.warnings
    assert "untokenized" in events[events.index("0") - 1]


def test_warnings_about_the_end_of_the_input_are_given_too(job: EmbedJob, tmp_path: Path) -> None:
    """Each once, though the others were given before the first block."""
    text = tmp_path / "late.txt"
    text.write_text("10\u00a0000 cats\n" + "It slept .\n" * 20 + "<S> It slept . </S>\n")
    warned: list[str] = []
    summary = run_job(replace(job, inputs=(str(text),)), warn=warned.append)
    first, last = warned
    assert first.startswith(f"{text}, line 1: U+00A0 ")
    assert last.startswith(f"{text}, line 22: boundary or padding tokens")
    assert summary.report.warnings == list(summary.warnings) == warned


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
            run_job(replace(job, shard=ShardNumber(1, 1)))
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


def test_totals_are_estimated_from_the_bytes_that_were_read(job: EmbedJob, tmp_path: Path) -> None:
    """A text is read in pieces; else progress would be near 100 % until the end."""
    line = " ".join(["x" * 45] * 20)
    texts = (tmp_path / "longer.txt", tmp_path / "long.txt")
    for text, n_lines in zip(texts, (36, 20), strict=True):
        text.write_text(f"{line}\n" * n_lines)  # 51 KB in all, of which the first block has 7 KB
    calls: list[tuple[int, int | None]] = []

    def on_progress(done: int, total: int | None) -> None:
        calls.append((done, total))

    run_job(replace(job, inputs=tuple(map(str, texts))), progress=on_progress)
    _, first_total = calls[0]
    assert first_total is not None
    assert first_total > 2 * 8 * 20
    assert calls[-1] == (56 * 20, 56 * 20)
