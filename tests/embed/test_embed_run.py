"""run_job: one definition of equality for every way to come to the file."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tolerance import ATOL_ORDER

from elmo_cli.embed import blocks, run
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.errors import InputError, OutputError, ResumeError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.store.merge import merge_shards
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.input import InputSettings

N_BLOCKS = 7
STATES = ["zero", "warm", "carry", "document"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 sentences, so that the corpus below has seven."""
    monkeypatch.setattr(blocks, "SENTENCES", 8)
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 2)


@pytest.fixture
def corpus(tmp_path: Path, lines: list[list[str]]) -> tuple[str, ...]:
    """Two files of 56 lines in all: short sentences, blank lines, some sentences twice."""
    numbers = random.Random(3)
    short = [line for line in lines if len(line) < 20]
    made = [" ".join(numbers.choice(short)) if numbers.random() < 0.9 else "" for _ in range(56)]
    paths = (tmp_path / "first.txt", tmp_path / "second.txt")
    for path, part in zip(paths, (made[:30], made[30:]), strict=True):
        path.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    return tuple(map(str, paths))


@pytest.fixture
def job(corpus: tuple[str, ...], tiny: Path, tmp_path: Path) -> EmbedJob:
    return EmbedJob(
        corpus, str(tmp_path / "whole.hdf5"), model=str(tiny), batch_size=4, device="cpu"
    )


def content(path: str | Path) -> dict[str, Any]:
    """Every array and attribute of a file, as bytes that tell one bit from another."""
    found: dict[str, Any] = {}

    def take(name: str, item: h5py.Group | h5py.Dataset) -> None:
        for key, value in item.attrs.items():
            found[f"{name}@{key}"] = np.asarray(value).tolist()
        if isinstance(item, h5py.Dataset):
            values = item[...]
            bits = values.tobytes() if values.dtype.kind == "f" else values.tolist()
            found[name] = (str(item.dtype), item.shape, bits)

    with h5py.File(path) as file:
        take("/", file)
        file.visititems(take)
    return found


class Ended(BaseException):
    """The process ends here, as far as the run can tell."""


def run_until(block: int, job: EmbedJob) -> None:
    """Run a job that ends after it has computed `block` blocks."""
    embed_block, n_begun = Embedder.embed_block, 0

    def counted(self: Embedder, *args: Any) -> Any:
        nonlocal n_begun
        if n_begun == block:
            raise Ended
        n_begun += 1
        return embed_block(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedder, "embed_block", counted)
        with pytest.raises(Ended):
            run_job(job)


@pytest.mark.parametrize(
    ("state", "layout"), [("zero", "flat"), *((state, "allennlp") for state in STATES)]
)
def test_the_same_command_makes_the_same_bytes(state: str, layout: str, job: EmbedJob) -> None:
    """Without it nobody could tell a changed file from one that was made anew."""
    job = replace(job, state=state, layout=layout)
    run_job(job)
    first = Path(job.output).read_bytes()
    run_job(replace(job, overwrite=True))
    assert Path(job.output).read_bytes() == first


def test_what_is_in_the_file(job: EmbedJob, tiny_bilm: Any) -> None:
    """Without it the file could hold other sentences' arrays, or none for a blank line."""
    summary = run_job(job)
    texts = [line for name in job.inputs for line in Path(name).read_text().split("\n")[:-1]]
    embedder = Embedder(tiny_bilm, device="cpu")
    with open_embeddings(job.output) as embeddings:
        assert len(embeddings) == 56
        for key, text in enumerate(texts):
            expected = embedder.embed(text.split())
            assert embeddings[key].shape == expected.shape
            np.testing.assert_allclose(embeddings[key], expected, rtol=0, atol=ATOL_ORDER)
        said = embeddings.attributes
    assert said["state"] == "zero"
    assert said["model"] == "tiny"
    assert len(said["model_sha256"]) == 64
    assert [list(source) for source in said["sources"]] == [[job.inputs[0], 0], [job.inputs[1], 30]]
    n_tokens = sum(len(text.split()) for text in texts)
    assert (summary.sentences, summary.tokens, summary.computed) == (56, n_tokens, n_tokens)
    assert summary.bytes == Path(job.output).stat().st_size
    assert list(Path(job.output).parent.glob("whole.hdf5.*")) == []


@pytest.mark.parametrize(
    ("state", "layout", "n_shards"),
    [
        ("zero", "allennlp", 3),
        ("zero", "flat", 10),  # more shards than blocks
        ("warm", "flat", 3),
        ("document", "bilm", 3),
        ("document", "allennlp", 10),
    ],
)
def test_shards_merged_are_the_whole(
    state: str, layout: str, n_shards: int, job: EmbedJob, tmp_path: Path
) -> None:
    """Without it work on several machines would end in another file than work on one."""
    job = replace(job, state=state, layout=layout)
    run_job(job)
    parts = [str(tmp_path / f"part{i}.hdf5") for i in range(n_shards)]
    for i, part in enumerate(parts):
        run_job(replace(job, output=part, shard=(i + 1, n_shards)))
    merge_shards(parts, tmp_path / "merged.hdf5")
    assert content(tmp_path / "merged.hdf5") == content(job.output)


@pytest.mark.parametrize("kind", ["two files", "one file twice", "one line"])
@pytest.mark.parametrize("n_shards", [1, 3, 10])
def test_shards_share_out_what_is_skipped(
    n_shards: int, kind: str, job: EmbedJob, tmp_path: Path
) -> None:
    """Without it each task would tell of lines that another one had to do, or nobody would."""
    first, second = map(Path, job.inputs)
    for path in (first, second):
        lines = path.read_bytes().splitlines()
        bad = (
            [b"\xff"] + [b"\xff" * (k % 5 == 0) or line for k, line in enumerate(lines)] + [b"\xff"]
        )
        path.write_bytes(b"\n".join(bad) + b"\n")
    text = InputSettings(on_error="skip")
    if kind == "one file twice":
        job = replace(job, inputs=(str(first), str(first)))
    elif kind == "one line":
        long = " ".join(["Yes, it is"] * 9)
        sentences = (f"{long} so." if n % 5 == 0 else "It is so." for n in range(60))
        first.write_text(f"{' '.join(sentences)}\n")
        job = replace(job, inputs=(str(first),))
        text = InputSettings(on_error="skip", tokenize=True, max_tokens=12)
    job = replace(job, text=text)
    whole = run_job(job).notes.skipped
    assert len(whole) > 10
    parts = [
        replace(job, output=f"{tmp_path}/{i}.h5", shard=(i, n_shards))
        for i in range(1, n_shards + 1)
    ]
    found = [run_job(part).notes.skipped for part in parts]
    assert [place for places in found for place in places] == whole
    assert [run_job(replace(part, resume=True)).notes.skipped for part in parts] == found
    for part, places in zip(parts, found, strict=True):
        listed = Path(f"{part.output}.skipped.tsv")
        assert listed.exists() == bool(places)
        if places:
            assert listed.read_text().count("\n") == len(places)


def test_a_pipe_has_no_shards(job: EmbedJob, tmp_path: Path) -> None:
    """Each task would do the whole, and be called one part of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"--shard: .*pipe can be read only once"):
        replace(job, inputs=(str(pipe),), shard=(1, 2))


def test_blanks_among_layers_are_no_part_of_their_name(job: EmbedJob) -> None:
    """`convert` went by it, and took layer 2 for layer 1."""
    run_job(replace(job, layers=" 0, 02 "))
    with open_embeddings(job.output) as embeddings:
        assert embeddings.attributes["layers"] == "0,2"
    run_job(replace(job, layers="mix: 1, 2, 3", overwrite=True))
    with open_embeddings(job.output) as embeddings:
        assert embeddings.attributes["layers"] == "mix:1,2,3"


@pytest.mark.parametrize("layers", ["top", "mix:0.2,0.3,0.5,2"])
def test_shards_of_one_layer_and_of_half_precision(
    layers: str, job: EmbedJob, tmp_path: Path
) -> None:
    """Without it only files of all layers in float32 could be merged."""
    job = replace(job, layers=layers, dtype="float16")
    run_job(job)
    parts = [str(tmp_path / f"part{i}.hdf5") for i in range(3)]
    for i, part in enumerate(parts):
        run_job(replace(job, output=part, shard=(i + 1, 3)))
    merge_shards(parts[::-1], tmp_path / "merged.hdf5")
    assert content(tmp_path / "merged.hdf5") == content(job.output)


@pytest.mark.parametrize(
    ("state", "layout", "ends"),
    [
        ("zero", "allennlp", range(N_BLOCKS)),
        ("zero", "flat", [0, 3, 6]),
        ("warm", "allennlp", [2]),
        ("carry", "allennlp", [1, 4]),
        ("document", "allennlp", [0, 1, 2]),
    ],
)
def test_resumed_at_any_block_makes_the_same_bytes(
    state: str, layout: str, ends: Sequence[int], job: EmbedJob, tmp_path: Path
) -> None:
    """Without it a run that was killed would have to be done again from its start."""
    job = replace(job, state=state, layout=layout)
    whole = run_job(job)
    expected = Path(job.output).read_bytes()
    for block in ends:
        out = str(tmp_path / f"resumed{block}.hdf5")
        again = replace(job, output=out, resume=True)
        run_until(block, again)
        assert not Path(out).exists()
        summary = run_job(again)
        assert Path(out).read_bytes() == expected
        assert summary.tokens == whole.tokens
        assert (summary.computed < whole.tokens) == (block > 0)


def test_resumed_again_and_again(job: EmbedJob) -> None:
    """Without it a second end would lose what the first left."""
    run_job(job)
    expected = Path(job.output).read_bytes()
    Path(job.output).unlink()
    for _ in range(N_BLOCKS - 1):
        run_until(1, replace(job, resume=True))  # one block more each time
    run_job(replace(job, resume=True))
    assert Path(job.output).read_bytes() == expected


@pytest.mark.parametrize("state", ["zero", "document"])
def test_a_shard_can_be_resumed(state: str, job: EmbedJob, tmp_path: Path) -> None:
    """Without it the blocks of a shard would be counted from the start of the text."""
    job = replace(job, state=state, shard=(2, 2))
    run_job(job)
    expected = Path(job.output).read_bytes()
    again = replace(job, output=str(tmp_path / "resumed.hdf5"), resume=True)
    run_until(1, again)
    run_job(again)
    assert Path(again.output).read_bytes() == expected


def test_a_finished_run_is_not_done_again(job: EmbedJob) -> None:
    """Without it `--resume` in a loop would compute everything each time."""
    run_job(job)
    before = Path(job.output).read_bytes()
    summary = run_job(replace(job, resume=True))
    assert summary.computed == 0
    assert summary.sentences == 56
    assert Path(job.output).read_bytes() == before


def full_disk(monkeypatch: pytest.MonkeyPatch, full: Path) -> None:
    """Let nothing be free in a folder, and enough in all others."""
    usage = namedtuple("usage", "total used free")

    def asked(folder: Path) -> object:
        return usage(9, 9, 0 if folder == full else 1 << 40)

    monkeypatch.setattr(shutil, "disk_usage", asked)


def test_a_finished_run_needs_no_space(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it `--resume` in a loop would fail where no second file fits beside the first."""
    run_job(job)
    full_disk(monkeypatch, tmp_path)
    assert run_job(replace(job, resume=True)).computed == 0
    with pytest.raises(OutputError, match="are needed"):
        run_job(replace(job, overwrite=True))


def test_space_is_needed_where_a_link_leads(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the wrong disk would be asked, and what is done already be counted as missing."""
    there, link = tmp_path / "there", tmp_path / "link.hdf5"
    there.mkdir()
    link.symlink_to(there / "real.hdf5")
    job = replace(job, output=str(link))
    full_disk(monkeypatch, there)
    with pytest.raises(OutputError, match="are needed"):
        run_job(job)
    full_disk(monkeypatch, tmp_path)
    again, held = begun(job), []
    monkeypatch.setattr(run, "check_space", lambda *_, **sizes: held.append(sizes["held"]))
    size = (there / "real.hdf5.part").stat().st_size
    run_job(again)
    assert held == [size]


def begun(job: EmbedJob) -> EmbedJob:
    """The job with three blocks done, and `resume`."""
    run_until(3, job)
    return replace(job, resume=True)


OTHER_SETTINGS = [
    ({"layers": "top"}, "layers"),
    ({"dtype": "float16"}, "dtype"),
    ({"state": "warm"}, "state"),
    ({"state": "document"}, "state"),
    ({"pool": "mean"}, "pool"),
    ({"layout": "bilm"}, "layout"),
    ({"forget_sentences": True}, "sentence"),
    ({"shard": (1, 2)}, "shard"),
    ({"text": InputSettings(blank="skip")}, "blank"),
    ({"text": InputSettings(tokenize=True)}, "tokenizer"),
]


def test_resume_refuses_other_settings_by_name(job: EmbedJob, tmp_path: Path) -> None:
    """Without it one file would hold the arrays of two runs that differ."""
    again = begun(job)
    for change, named in OTHER_SETTINGS:
        with pytest.raises(ResumeError) as caught:
            run_job(replace(again, **change))
        assert named in caught.value.message
        assert "now" in caught.value.message
        assert "overwrite=True" in caught.value.hint
    run_job(again)  # no refusal has spoilt anything
    anew = replace(job, output=str(tmp_path / "anew.hdf5"))
    run_job(anew)
    assert Path(job.output).read_bytes() == Path(anew.output).read_bytes()


def test_resume_refuses_another_batch_size_of_carry(job: EmbedJob) -> None:
    """Without it the rows of the state would change in the middle of the file."""
    again = begun(replace(job, state="carry"))
    with pytest.raises(ResumeError, match="batch"):
        run_job(replace(again, batch_size=8))


def test_resume_refuses_another_model(job: EmbedJob, odd: Path) -> None:
    """Without it one file would hold the arrays of two models."""
    again = begun(job)
    with pytest.raises(ResumeError, match="model"):
        run_job(replace(again, model=str(odd)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("\n", " more\n", 1), "not those of the input given now"),
        (lambda text: "\n" + text, "not those of the input given now"),
        (lambda text: "", "the input has fewer"),
    ],
)
def test_resume_refuses_another_text(
    change: Callable[[str], str], said: str, job: EmbedJob
) -> None:
    """Without it a text that was edited meanwhile would be embedded half as it was."""
    again = begun(job)
    for name in job.inputs[:1] if said.startswith("not") else job.inputs:
        path = Path(name)
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ResumeError) as caught:
        run_job(again)
    assert said in caught.value.message
    assert caught.value.hint


def test_text_that_has_grown_is_taken(job: EmbedJob, tmp_path: Path) -> None:
    """Without it sentences added at the end would ask for all the work again."""
    again = begun(job)
    with open(job.inputs[1], "a", encoding="utf-8") as file:
        file.write("one more\n")
    run_job(again)
    anew = replace(job, output=str(tmp_path / "anew.hdf5"))
    run_job(anew)
    assert Path(job.output).read_bytes() == Path(anew.output).read_bytes()


def test_a_place_that_is_taken(job: EmbedJob) -> None:
    """Without it work of hours could be replaced by a mistake."""
    run_job(job)
    before = Path(job.output).read_bytes()
    with pytest.raises(OutputError, match=r"whole\.hdf5"):
        run_job(replace(job, state="warm"))
    assert Path(job.output).read_bytes() == before
    run_job(replace(job, state="warm", overwrite=True))
    assert Path(job.output).read_bytes() != before


def close(found: str, expected: str, key: Callable[[int], int] = lambda key: key) -> None:
    with open_embeddings(found) as ours, open_embeddings(expected) as theirs:
        for number in range(len(ours)):
            one, other = ours[number], theirs[key(number)]
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=ATOL_ORDER)


@pytest.mark.parametrize(("state", "n_sentences"), [("zero", 2000), ("warm", 400)])
def test_alone_in_a_crowd_and_in_reverse(
    state: str,
    n_sentences: int,
    tiny: Path,
    lines: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it the same sentence would have other vectors in another file."""
    monkeypatch.setattr(blocks, "SENTENCES", 300)
    short = [" ".join(line) for line in lines if len(line) < 12]
    crowd = [f"{short[n % len(short)]} {n % 37}" for n in range(n_sentences)]
    texts = {"crowd": crowd, "reverse": crowd[::-1], "alone": crowd[234:235]}
    outs = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
        outs[name] = str(tmp_path / f"{name}.hdf5")
        run_job(EmbedJob((str(path),), outs[name], model=str(tiny), state=state, layout="flat"))
    close(outs["reverse"], outs["crowd"], lambda key: n_sentences - 1 - key)
    close(outs["alone"], outs["crowd"], lambda key: 234)


def test_token_vectors_of_a_vocabulary(tiny: Path, tiny_bilm: Any, tmp_path: Path) -> None:
    """Without it bilm-tf's token cache would have rows that are not those of its lines."""
    types = ["</S>", "<S>", "<UNK>", "the", "cat", "the", *(f"type{n}" for n in range(30))]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(types) + "\n", encoding="utf-8")
    out = tmp_path / "vocab.hdf5"
    run_job(EmbedJob((str(path),), str(out), model=str(tiny), layout="bilm-types"))
    with h5py.File(out) as file:
        found = file["embedding"][...]
    expected = Embedder(tiny_bilm, device="cpu").embed_types(types)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL_ORDER)


def test_a_vocabulary_has_one_type_a_line(job: EmbedJob) -> None:
    """Without it a text given as a vocabulary would lose all words but the first of each line."""
    with pytest.raises(InputError, match=r"first\.txt, line \d+: \d+ tokens, a vocabulary has one"):
        run_job(replace(job, layout="bilm-types"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shard": (1, 2), "state": "carry"}, "`shard` and `state=carry`"),
        ({"shard": (1, 2), "inputs": ("-",)}, "--shard: standard input can be read only once"),
        ({"layout": "bilm-types", "layers": "top"}, "holds token vectors and nothing else"),
        ({"layout": "bilm-types", "pool": "mean"}, "holds token vectors and nothing else"),
        ({"layout": "bilm-types", "state": "carry"}, "holds token vectors and nothing else"),
        ({"layout": "manylangs"}, "`layout=manylangs` holds one layer per file"),
        ({"layout": "manylangs", "layers": "0,2"}, "`layout=manylangs` holds one layer per file"),
        ({"layout": "manylangs", "layers": " 0 ,2"}, "`layout=manylangs` holds one layer per file"),
        ({"shard": (0, 2)}, "`shard=0/2`"),
        ({"shard": (3, 2)}, "`shard=3/2`"),
        ({"shard": (-1, 2)}, "`shard=-1/2`"),
    ],
)
def test_settings_that_contradict_each_other(
    settings: dict[str, Any], said: str, job: EmbedJob
) -> None:
    """Without it they would be met after the model was loaded, or never."""
    with pytest.raises(UsageError, match=said) as caught:
        replace(job, **settings)
    assert caught.value.hint


class Listener:
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.warned: list[str] = []
        self.started: list[tuple[int | None, int]] = []
        self.advanced: list[int] = []

    def warn(self, message: str) -> None:
        self.warned.append(message)

    def start(self, tokens: int | None, done: int) -> None:
        self.started.append((tokens, done))

    def advance(self, tokens: int) -> None:
        self.advanced.append(tokens)


def test_who_watches_hears_how_far_it_is(job: EmbedJob) -> None:
    """Without it the bar would stand still, or run beyond its end."""
    listener = Listener()
    summary = run_job(job, listener)
    assert listener.started == [(summary.tokens, 0)]
    assert len(listener.advanced) == N_BLOCKS
    assert sum(listener.advanced) == summary.tokens


def test_a_text_that_has_become_empty_is_refused(job: EmbedJob) -> None:
    """Without it a good file would be replaced by one without sentences, as if all were done."""
    run_job(job)
    before = Path(job.output).read_bytes()
    listener = Listener()

    def emptied(tokens: int | None, done: int) -> None:
        for name in job.inputs:
            Path(name).write_text("")

    listener.start = emptied  # type: ignore[method-assign]
    with pytest.raises(InputError, match="sentences when the run began, now 0"):
        run_job(replace(job, overwrite=True), listener)
    assert Path(job.output).read_bytes() == before


def test_what_is_only_reckoned_not_to_fit_is_begun(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a raw text whose beginning is denser than the rest can't be embedded at all."""
    Path(job.inputs[0]).write_text("It left.\n" * 600, "utf-8")
    job = replace(job, inputs=job.inputs[:1], text=InputSettings(tokenize=True))
    listener = Listener()
    full_disk(monkeypatch, tmp_path)
    assert run_job(job, listener).sentences == 600
    (warning,) = listener.warned
    assert warning.startswith(f"{job.output}: about ")
    assert warning.endswith(" are free on its disk")


def test_after_resume_the_bar_begins_where_it_was(job: EmbedJob) -> None:
    """Without it a resumed run would seem to begin anew."""
    again = begun(job)
    listener = Listener()
    summary = run_job(again, listener)
    assert listener.started == [(summary.tokens, summary.tokens - summary.computed)]
    assert len(listener.advanced) == N_BLOCKS - 3


def test_tokens_that_a_model_of_few_places_cuts_are_told(tiny: Path, tmp_path: Path) -> None:
    """A token is cut where the model's places end, not where those of the published ones do."""
    options = json.loads((tiny / "options.json").read_text())
    options["char_cnn"]["max_characters_per_token"] = 10
    (tmp_path / "options.json").write_text(json.dumps(options))
    text = tmp_path / "text.txt"
    text.write_text("short abcdefghi\nabcdefgh\n")
    job = EmbedJob(
        (str(text),),
        str(tmp_path / "out.hdf5"),
        options=str(tmp_path / "options.json"),
        weights=str(tiny / "weights.hdf5"),
    )
    notes = run_job(job).notes
    assert notes.truncated_tokens == 1
    assert notes.first_truncated == ("abcdefghi", str(text), 1)


def test_standard_output_is_no_file(job: EmbedJob) -> None:
    """A file named "-" is in everybody's way."""
    with pytest.raises(UsageError, match="standard output is no file"):
        run_job(replace(job, output="-"))


@pytest.mark.parametrize("state", ["zero", "warm"])
@pytest.mark.parametrize(
    ("engine", "precision"),
    [("fast", "float32"), ("fast", "bf16"), ("fast", "int8"), ("plain", "float32")],
)
def test_weights_are_in_memory_once(
    job: EmbedJob, tiny_bilm: BiLM, state: str, engine: str, precision: str
) -> None:
    """Those of a large model are 374 MB, which are missing where it is to be embedded with."""
    settings = {"state": state, "engine": engine, "precision": precision, "device": "cpu"}
    embedder = run.embedder_of(replace(job, **settings))
    assert all(weight.is_meta for weight in embedder.bilm.parameters()) == (engine == "fast")
    tokens = ["The", "cat", "sat"]
    whole = Embedder(tiny_bilm, batch_size=job.batch_size, **settings)
    assert np.array_equal(embedder.embed(tokens), whole.embed(tokens))
    assert not any(weight.is_meta for weight in tiny_bilm.parameters())
