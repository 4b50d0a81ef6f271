"""Runs of `elmo finetune` that are resumed, refused or overwritten."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from command_line import Done
from finetune_command import (
    TOKENS,
    Facts,
    Tune,
    command,
    digests,
    is_same_model,
    losses,
    run,
    short_fit,
)
from forked_command import ForkedElmo

from elmo_cli.errors import OutputError
from elmo_cli.lm.loop import Trainer

LONG = ["--max-steps", "150", "--max-epochs", "100"]


def test_resumed_run_equals_an_uninterrupted_one(tune: Tune, tmp_path: Path) -> None:
    constant = ("--optimizer", "adagrad")  # its learning rate does not depend on the limits
    out = tmp_path / "out"
    whole = tune(*constant)
    tune(*constant, "--max-steps", "3", out=out)
    resumed = tune(*constant, "--resume", out=out)
    for name in ("before", "after", "epochs"):
        assert resumed[name] == whole[name]
    for name in ("weights.hdf5", "softmax.hdf5", "state.hdf5"):
        assert digests(out)[name] == digests(Path(whole["output"]))[name]


def test_run_is_resumed_with_another_division_of_its_batch(tune: Tune, tmp_path: Path) -> None:
    """Fewer streams at once, and another learning rate, of which the record depends on neither."""
    tune("--max-steps", "3", out=tmp_path / "out")
    halved = ("--batch-size", "2", "--gradient-accumulation-steps", "2", "--learning-rate", "0.01")
    assert tune(*halved, "--resume", out=tmp_path / "out")["tokens"] == TOKENS


@pytest.fixture(scope="session")
def undisturbed(tune: Tune, tiny: Path) -> Facts:
    """A run with a fit that nothing stops."""
    return tune(*LONG, model=tiny)


@pytest.mark.slow
@pytest.mark.parametrize("n_lines", [0, 2, 4])
def test_resume_after_kill_gives_identical_run(
    tune: Tune, undisturbed: Facts, domain: Path, tiny: Path, tmp_path: Path, n_lines: int
) -> None:
    """kill -9 in the fit or in training, when the log has some lines."""
    out = tmp_path / "out"
    record = out / "finetune.json"
    lines = out / "log.jsonl"
    started_at = time.monotonic()
    with short_fit():
        process = ForkedElmo(*command(domain, tiny, out, *LONG))
    while not (lines.exists() and lines.read_bytes().count(b"\n") >= n_lines):
        if n_lines == 0 and record.exists():
            break
        time.sleep(0.01)
        assert time.monotonic() - started_at < 120
    time.sleep(random.Random(n_lines).random() / 4)
    process.kill()
    process.communicate()
    resumed = tune(*LONG, "--resume", model=tiny, out=out)
    assert (resumed["before"], resumed["after"]) == (undisturbed["before"], undisturbed["after"])
    assert losses(out) == losses(Path(undisturbed["output"]))


def refused(done: Done, code: int, *places: str) -> None:
    """Check that two lines were printed, which contain some words."""
    assert (done.code, done.out) == (code, b""), done.err
    error, hint = done.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert all(place in done.err for place in places), done.err


@pytest.fixture
def attempt(source: Path, domain: Path, tmp_path: Path) -> Callable[..., Done]:
    """Runs the command of `usual` with more words, in a folder with what tests damage."""
    shutil.copytree(source, tmp_path / "model")
    shutil.copytree(
        source, tmp_path / "tiny", ignore=shutil.ignore_patterns("softmax.hdf5", "vocab.txt")
    )
    (tmp_path / "one.txt").write_text("One sentence only .\n")
    (tmp_path / "few.txt").write_text("".join(f"{k} .\n" for k in range(20)))
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff not UTF-8\n")
    (tmp_path / "types.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")

    def attempted(line: str = "", out: str = "out", model: str = "model", text: str = "") -> Done:
        words = [str(tmp_path / word[1:]) if word[0] == "/" else word for word in line.split()]
        texts = tmp_path / text if text else domain
        return run(command(texts, tmp_path / model, tmp_path / out, "-q", *words))

    return attempted


@pytest.mark.parametrize(
    ("line", "more", "code", "place"),
    [
        ("--domain /none", {}, 1, "none:"),
        ("--domain /bad.txt --heldout /none", {}, 1, "none:"),
        ("--min-count 5000", {"model": "tiny"}, 2, "`--min-count 5000`"),
        ("--min-count 5", {}, 2, "--min-count"),
        ("--vocabulary-size 5 --fit-softmax --vocabulary /types.txt", {}, 2, "types.txt"),
        ("--softmax-tokens 7", {}, 2, "--fit-softmax"),
        ("--resume --overwrite", {}, 2, "--overwrite"),
        ("--resume", {}, 1, "out:"),
        ("", {"text": "one.txt"}, 1, "`--heldout FILE`"),
        ("--batch-size 8", {"text": "few.txt"}, 1, "`--batch-size 2`"),
    ],
)
def test_refused_before_any_work(
    line: str,
    more: dict[str, str],
    code: int,
    place: str,
    attempt: Callable[..., Done],
    tmp_path: Path,
) -> None:
    refused(attempt(line, **more), code, place)
    assert not (tmp_path / "out").exists()


def test_what_is_overwritten(attempt: Callable[..., Done], finished: Path, domain: Path) -> None:
    """A model that would be replaced by its own fine-tuning is lost; names may not be UTF-8."""
    folders = (finished, finished.parent / "model")
    before = [digests(folder) for folder in folders]
    refused(attempt("--overwrite", out="model"), 2, "model: contains ")
    refused(attempt(), 1, "out: contains a finished finetune run", "`--resume`")
    for softmax in ("", "--softmax /out/softmax.hdf5"):
        line = f"--overwrite {softmax} --vocabulary /out/vocab.txt"
        refused(attempt(line), 2, "out: contains ")
    assert [digests(folder) for folder in folders] == before
    name = os.fsdecode(b"caf\xe9.txt")
    content = (domain / "a.txt").read_bytes()
    (finished.parent / name).write_bytes(content + b"\n\xff is left out\n")
    assert attempt(f"--overwrite --domain /{name} --on-error skip").code == 3
    assert digests(finished).keys() == before[0].keys()
    assert r"caf\udce9.txt" in (finished / "README.md").read_text(encoding="utf-8")


def test_another_run_is_not_continued(
    attempt: Callable[..., Done], finished: Path, source: Path
) -> None:
    """Nor one whose record is cut, nested, empty or foreign, or whose checkpoint is missing."""
    other = shutil.copytree(source, finished.parent / "other")
    before = digests(finished)
    with h5py.File(other / "weights.hdf5", "r+") as file:
        file["char_embed"][0, 0] += 1
    for words, place in (
        ("-m /other", "started with model"),
        ("--fit-softmax", "started with softmax"),
        ("--domain /few.txt", "started with text"),
        # Before the text is read, which may take long:
        ("--domain /bad.txt --batch-size 3", "started with batch_size 4, now 3"),
    ):
        refused(attempt(f"--resume {words}"), 1, "out/", place)
    assert digests(finished) == before
    (finished / "checkpoint.pt").unlink()
    refused(attempt("--resume --max-steps 20"), 1, "checkpoint.pt: missing", "`--overwrite`")
    corrupt = ("{", "[" * 200_000, "{}", "[]", '{"run": {}, "train": 3, "before": 1}')
    for content in (*corrupt, '{"run": [], "train": []}'):
        (finished / "finetune.json").write_text(content)
        before = digests(finished)
        refused(attempt("--resume --max-steps 20"), 1, "finetune.json", "`--overwrite`")
        assert digests(finished) == before


def test_a_resumed_run_is_unfinished_until_it_ends(
    attempt: Callable[..., Done], finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights change; they are chosen on a part of a large validation text."""
    n_tokens: list[int] = []

    def train(trainer: Trainer) -> None:
        assert trainer.heldout is not None
        n_tokens.append(trainer.heldout.n_tokens)
        raise OutputError("no space left", "make room")

    monkeypatch.setattr(Trainer, "train", train)
    monkeypatch.setattr("elmo_cli.lm.finetune.run._EVALUATED_TOKENS", 30)
    names = {path.name for path in finished.iterdir()}
    refused(attempt("--resume --max-steps 9"), 1, "no space left")
    assert names - {path.name for path in finished.iterdir()} == {"README.md", "state.hdf5"}
    assert 20 <= n_tokens[0] <= 45


def test_record_of_another_version_is_not_continued(
    attempt: Callable[..., Done], finished: Path
) -> None:
    """Its seconds counted the fit too, and its figures were measured on a part of the text."""
    path = finished / "finetune.json"
    record = json.loads(path.read_text())
    record |= {"seconds": 12.5, "samples": {"test": 500}, "measuring_s": 0.25}
    path.write_text(json.dumps(record))
    refused(
        attempt("--resume --max-steps 20"),
        1,
        "finetune.json: written by another version of elmo, with measuring_s, samples, seconds",
        "hint: resume the run with that version; `--overwrite` starts over",
    )


def test_run_that_failed_after_its_fit_is_resumed(
    fitted: Facts, attempt: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fitted softmax, which took long, is not fitted again."""

    def broken(*args: object, **facts: object) -> None:
        raise OutputError("out: no space left", "make room")

    words = "--fit-softmax --softmax-tokens 500"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", broken)
        refused(attempt(words), 1, "no space left")
    monkeypatch.setattr("elmo_cli.lm.finetune.run.fit_softmax", broken)
    done = attempt(f"{words} --resume")
    assert done.code == 0, done.err
    assert json.loads(done.out)["after"] == fitted["after"]
    assert is_same_model(tmp_path / "out", Path(fitted["output"]))
