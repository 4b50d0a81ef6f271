"""The text that a run keeps as numbers: a start that needs no text files, on any machine."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from disks import small_disk
from tiny_run import log
from training_commands import Command, refused

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TextSettings
from elmo_cli.lm.training_text import FILE_NAME, TrainingText
from elmo_cli.text.input import InputReport

LINES = [
    f"a cat no. {i % 7} ( it 's {i % 5} ) sees the dog {'again ' * (i % 3)}." for i in range(90)
]
SIZES = (
    "--lstm-dim",
    24,
    "--projection-dim",
    12,
    "--batch-size",
    4,
    "--threads",
    1,
    "--log-steps",
    1,
    "-q",
)


@pytest.fixture
def elmo_pretrain(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "pretrain")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Documents of six sentences, in a folder of their own."""
    path = tmp_path / "texts/text.txt"
    path.parent.mkdir()
    path.write_text("\n".join(line + "\n" * (i % 6 == 5) for i, line in enumerate(LINES)) + "\n")
    shutil.copy(path, path.with_name("dev.txt"))
    return path


def last(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "checkpoint.pt", weights_only=True)[
        "model"
    ]
    return found


def same(one: Path, other: Path) -> bool:
    """Whether two runs have learned the same, to the last digit."""
    a, b = last(one), last(other)
    losses = [[line.get("loss") for line in log(folder)] for folder in (one, other)]
    return losses[0] == losses[1] and all(torch.equal(a[name], b[name]) for name in a)


def test_what_is_kept_is_what_was_read(text: Path, tmp_path: Path) -> None:
    """Types hold whatever a token can hold; every number and every border must come back."""
    files = TextSettings(
        (str(text),),
        (str(text.with_name("dev.txt")),),
        treebank_fraction=0.5,
        heldout_tokens_per_file=50,
    )
    read = TrainingText.read(files, max_characters=50, notes=InputReport())
    odd = Corpus.read([["\ud800", "a\nb", "naïve", "\u2028", '"'], ["<S>", "日本"]])
    for corpus, heldout in ((read.corpus, read.heldout), (odd, None)):
        TrainingText(corpus, heldout, [("x.txt", 3, "not UTF-8")]).keep(tmp_path)
        kept = TrainingText.kept(tmp_path, max_characters=50)
        assert kept.skipped == [("x.txt", 3, "not UTF-8")]
        assert (kept.heldout is None) == (heldout is None)
        for a, b in ((corpus, kept.corpus), (heldout, kept.heldout)):
            if a is None or b is None:
                continue
            assert a.types == b.types
            for name in ("tokens", "starts", "characters"):
                ours, theirs = getattr(a, name), getattr(b, name)
                assert ours.dtype == theirs.dtype, name
                assert np.array_equal(ours, theirs), name
            assert (a.documents is None) == (b.documents is None)
            assert a.documents is None or np.array_equal(a.documents, b.documents)
    assert "-LRB-" in read.corpus.types
    assert read.corpus.documents is not None
    assert len(read.corpus.documents) == 16


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        content[archive.getinfo("text-tokens.npy").header_offset + 200] ^= 4
    path.write_bytes(content)


def _foreign(path: Path) -> None:
    np.savez(path, x=np.zeros(3))


def _contradict(path: Path) -> None:
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["text-lengths"][0] += 1
    np.savez(path, **changed)


def _number(path: Path) -> None:
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["text-tokens"][2, 5] = 9
    np.savez(path, **changed)


@pytest.mark.parametrize("damage", [_cut, _flip, _foreign, _contradict, _number, Path.unlink])
def test_a_damaged_text_is_told(damage: Callable[[Path], None], text: Path, tmp_path: Path) -> None:
    """Training on would be on another text, and nothing would show it."""
    read = TrainingText.read(TextSettings((str(text),)), max_characters=50, notes=InputReport())
    read.keep(tmp_path)
    assert TrainingText.kept(tmp_path, max_characters=50).corpus.types == read.corpus.types
    damage(tmp_path / FILE_NAME)
    with pytest.raises(ResumeError, match=r"text\.npz: not the text of a run") as told:
        TrainingText.kept(tmp_path, max_characters=50)
    assert "reads the texts anew" in told.value.hint


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """A text that is half written must not stand there under its name."""
    types = [[f"{i * 7919 % 9973:x}" for i in range(9000)]]
    with small_disk(tmp_path / "disk", 1 << 13):
        with pytest.raises(OutputError, match=r"text\.npz: no space left \(No space"):
            TrainingText(Corpus.read(types)).keep(tmp_path / "disk")
        assert not list((tmp_path / "disk").iterdir())


def test_a_run_goes_on_without_its_texts(
    text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """Splitting and tokenising again would cost minutes at each start, and the text may be gone."""
    dev = text.with_name("dev.txt")
    begin = ("--heldout", dev, "--shuffle", "documents", "--treebank-fraction", 0.3, *SIZES)
    other = tmp_path / "other"
    assert elmo_pretrain(text, "-o", other, "--max-steps", 3, "--dropout", 0.1, *begin)[0] == 0
    recipe = (other / "recipe.json").read_text()
    shutil.rmtree(text.parent)
    assert elmo_pretrain("-o", other, "--resume", "--max-steps", 6, "-q")[0] == 0
    assert recipe.replace('"max-steps": 3', '"max-steps": 6') == (other / "recipe.json").read_text()
    assert [line["step"] for line in log(other) if "heldout" in line] == [3, 6]
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    (other / "checkpoint.pt").unlink()  # without it the weights must not be trained from the start
    assert elmo_pretrain("-o", other, "--resume", "--max-steps", 9, "-q")[0] == 1
    del before["checkpoint.pt"]
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before


@pytest.mark.parametrize("begin", ["anew", "with a model"])
def test_a_prepared_run_starts_anywhere(
    begin: str, text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """A machine that is lent by the minute must not spend them on reading."""
    words: tuple[object, ...] = ("--max-steps", 4, *SIZES)
    if begin == "with a model":
        assert elmo_pretrain(text, "-o", tmp_path / "model", "--max-steps", 2, *SIZES)[0] == 0
        words = ("--init-from", tmp_path / "model", "--max-steps", 4, *SIZES[4:])
    prepared, there = tmp_path / "prepared", tmp_path / "there"
    assert elmo_pretrain(text, "-o", tmp_path / "straight", *words)[0] == 0
    code, _, said = elmo_pretrain(text, "-o", prepared, "--prepare", *words)
    assert (code, said) == (0, "")
    assert sorted(path.name for path in prepared.iterdir()) == [
        "checkpoint.pt",
        "options.json",
        "recipe.json",
        FILE_NAME,
        "vocab.txt",
    ]
    shutil.rmtree(text.parent)
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    prepared.rename(there)
    code, _, said = elmo_pretrain("-o", there, "--resume", "--threads", 1, "-q")
    assert (code, said) == (0, "")
    assert same(there, tmp_path / "straight")


def test_preparing_leaves_nothing_of_another_run(
    text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """An old model next to a new text is no run."""
    out = tmp_path / "model"
    assert elmo_pretrain(text, "-o", out, "--max-steps", 2, *SIZES)[0] == 0
    again = (text, "-o", out, "--prepare", "--overwrite", "--max-steps", 3, *SIZES[:-1])
    code, _, said = elmo_pretrain(*again)
    assert code == 0
    assert f"MB; `elmo pretrain -o {out} --resume` trains" in said
    assert not {"weights.hdf5", "log.jsonl", "state.hdf5"} & {path.name for path in out.iterdir()}
    assert elmo_pretrain("-o", out, "--resume", "-q")[0] == 0
    assert [line["step"] for line in log(out)] == [1, 2, 3]


def test_a_text_that_is_given_is_read_anew(
    text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """What is said on the command line must not be passed over for what is kept."""
    out = tmp_path / "model"
    assert elmo_pretrain(text, "-o", out, "--max-steps", 1, *SIZES)[0] == 0
    go_on = ("-o", out, "--resume", "--max-steps", 2, "-q")
    refused(
        elmo_pretrain(*go_on, "--treebank-fraction", 0.9),
        "made with text",
        "the text of the first run",
    )
    refused(
        elmo_pretrain(*go_on, "--train-tokens-per-file", 50),
        "made with text",
        "the text of the first",
    )
    code, _, _ = elmo_pretrain(*go_on, "--heldout", text.with_name("dev.txt"))
    assert code == 0
    assert log(out)[-1]["heldout"]["predictions"] > 0
    kept = TrainingText.kept(out, max_characters=50)
    assert kept.heldout is not None


def test_lines_left_out_are_told_by_each_part_of_a_run(
    text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """Exit code 3 says that the model has not seen everything, also where the text is kept."""
    with text.open("ab") as file:
        file.write(b"\xff\xfe broken\n")
    out = tmp_path / "model"
    for words in ((text, "--on-error", "skip", *SIZES), ("--resume", "-q")):
        n_steps = 1 + ("--resume" in words)
        code, _, said = elmo_pretrain("-o", out, "--max-steps", n_steps, *words)
        assert code == 3
        assert "1 line was left out, the first" in said


def test_why_a_text_is_empty_is_told_of_that_text(
    text: Path, tmp_path: Path, elmo_pretrain: Command
) -> None:
    """A line left out of another file is no reason."""
    with text.open("ab") as file:
        file.write(b"\xff\n")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    words = ("--heldout", empty, "-o", tmp_path / "m", "--on-error", "skip", "--max-steps", 1)
    told = elmo_pretrain(text, *words, *SIZES)
    refused(told, f"{empty}: no sentence in it", "give a text with tokens in it")
