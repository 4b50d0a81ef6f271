"""The training loop: it learns, it resumes to the same numbers, it stops with a reason."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from disks import disk_of
from tiny_run import OPTIONS, SETTINGS, log, trainer, weights

from elmo_cli.errors import OutputError, ResumeError, TrainingError, UsageError
from elmo_cli.lm.checkpoint import FILE_NAME
from elmo_cli.lm.evaluation import score
from elmo_cli.lm.initialize import new_bilm
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.perplexity import perplexity_of
from elmo_cli.lm.settings import TrainSettings


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, max_steps=100, learning_rate=0.05),
        replace(SETTINGS, max_steps=100, learning_rate=0.2, optimizer="adagrad"),
        replace(SETTINGS, max_steps=150, learning_rate=0.05, negative_samples=8),
    ],
    ids=["adamw", "adagrad", "sampled"],
)
def test_it_learns_in_both_directions(settings: TrainSettings, tmp_path: Path) -> None:
    """Without it a loss that falls for the wrong reason, or in one direction, goes unseen."""
    trained = trainer(tmp_path, replace(settings, dropout=0.0))
    model = LanguageModel(trained.bilm, trained.head, trained.vocabulary)
    before = perplexity_of(score(model, trained.corpus, carry=True, batch_size=4))
    trained.train()
    after = perplexity_of(score(model, trained.corpus, carry=True, batch_size=4))
    # The words are told by the one before but for two choices of four: exp(2 log 4 / 7) = 1.49.
    assert before.average > 6.5
    assert 1.45 < after.forward < 3
    assert 1.45 < after.backward < 3


@pytest.mark.parametrize("negative_samples", [8, 0], ids=["sampled", "full"])
def test_a_sampled_softmax_keeps_the_memory_of_its_gradient(
    negative_samples: int, tmp_path: Path
) -> None:
    """New memory of its size each step would cost a tenth of the step."""
    settings = replace(SETTINGS, negative_samples=negative_samples)
    trained = trainer(tmp_path, settings)
    places, weight = [], trained.head.weight
    weight.register_hook(lambda new: places.append((weight.grad is not None, new.is_sparse)))
    trained.train()
    assert places == [(negative_samples > 0, negative_samples > 0)] * 12


@pytest.mark.parametrize("negative_samples", [8, 0], ids=["sampled", "full"])
def test_a_resumed_run_ends_in_the_same_weights(negative_samples: int, tmp_path: Path) -> None:
    """State, place in the text, random numbers, accumulators: whatever is lost changes a bit."""
    settings = replace(SETTINGS, negative_samples=negative_samples, optimizer="adagrad")
    whole = trainer(tmp_path / "whole", settings)
    whole.train()
    trainer(tmp_path / "parts", replace(settings, max_steps=5)).train()
    rest = trainer(tmp_path / "parts", settings)
    rest.resume()
    assert rest.progress.step == 5
    rest.train()
    assert rest.progress.tokens == whole.progress.tokens
    for one, other in zip(weights(rest), weights(whole), strict=True):
        assert torch.equal(one, other)


def test_a_full_disk_is_told_in_the_words_of_the_system(tmp_path: Path) -> None:
    """Those of torch are of a zip that it could not go on with, and of its own source file."""
    with disk_of(5000), pytest.raises(OutputError) as caught:
        trainer(tmp_path).train()
    path = tmp_path / FILE_NAME
    assert caught.value.message == f"{path}: no space left (File too large)"
    assert caught.value.hint.startswith("free some space")
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path: Path) -> None:
    """Without it no run could be repeated."""
    runs = []
    for k, seed in enumerate((1, 1, 2)):
        trained = trainer(tmp_path / str(k), replace(SETTINGS, seed=seed, max_steps=3))
        trained.train()
        runs.append(weights(trained)[0])
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_the_log_tells_losses_and_heldout_perplexities(tmp_path: Path) -> None:
    """Without it nobody could draw a curve or report a figure."""
    trained = trainer(tmp_path)
    said: list[dict[str, Any]] = []
    trained._report = said.append
    trained.train()
    lines = log(tmp_path)
    assert lines == said
    assert [line["step"] for line in lines if "loss" in line] == [4, 8, 12]
    assert lines[-1]["heldout"]["predictions"] == 280
    assert lines[-1]["tokens"] == 12 * 4 * 10


def test_the_steps_that_are_left_at_the_end_are_told_once(tmp_path: Path) -> None:
    """A loss of a hundred steps ago passed for that of the end, a short run had no log at all; and
    a resumed run must have the lines of an undisturbed one."""
    for folder, ends in (("whole", [10]), ("parts", [3, 6, 6, 10])):
        for k, n_steps in enumerate(ends):
            constant = replace(SETTINGS, optimizer="adagrad", max_steps=n_steps)
            run = trainer(tmp_path / folder, constant)
            run.heldout = None
            if k > 0:
                run.resume()
            run.train()
            assert log(tmp_path / folder)[-1]["step"] == n_steps
    whole, parts = (
        [(line["step"], line["loss"]) for line in log(tmp_path / folder)]
        for folder in ("whole", "parts")
    )
    assert whole == parts
    assert [step for step, _ in whole] == [4, 8, 10]


def test_time_ends_a_run(tmp_path: Path) -> None:
    """Without it `--max-seconds` would not hold."""
    trained = trainer(tmp_path, replace(SETTINGS, max_steps=None, max_seconds=0.5))
    trained.train()
    assert trained.progress.step > 0
    assert (tmp_path / "weights.hdf5").exists()


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    """Without it the last good checkpoint would be overwritten by NaN."""
    trained = trainer(tmp_path, replace(SETTINGS, max_steps=4))
    trained.train()
    good = (tmp_path / FILE_NAME).read_bytes()
    again = trainer(tmp_path)
    again.resume()
    with torch.no_grad():
        again.head.bias.fill_(float("nan"))
    with pytest.raises(
        TrainingError,
        match=r"step 5: the loss or its gradient is no number, at a learning rate of 0\.01",
    ) as caught:
        again.train()
    assert "--learning-rate 0.0025" in caught.value.hint
    assert (tmp_path / FILE_NAME).read_bytes() == good


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    """Without it a run would go on with another seed, text or size, and nobody would know."""
    trainer(tmp_path, replace(SETTINGS, max_steps=1)).train()
    with pytest.raises(ResumeError, match="made with seed 0, now 9"):
        trainer(tmp_path, replace(SETTINGS, seed=9)).resume()
    with pytest.raises(ResumeError, match="made with options"):
        trainer(tmp_path, lstm_dim=24).resume()


@pytest.mark.parametrize("content", [None, b"", b"no checkpoint"], ids=["none", "empty", "other"])
def test_what_is_no_checkpoint_is_told(content: bytes | None, tmp_path: Path) -> None:
    """Without it the user gets a traceback of pickle."""
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(ResumeError, match=FILE_NAME):
        trainer(tmp_path).resume()


def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    """torch reads a file with a flipped bit without a word, and training would go on with it."""
    trained = trainer(tmp_path, replace(SETTINGS, max_steps=1))
    trained.train()
    path = tmp_path / FILE_NAME
    good = path.read_bytes()
    cut = [good[: len(good) * k // 8] for k in range(1, 8)]
    flipped = []
    for weight in weights(trained):
        place = good.index(weight.detach().numpy().tobytes())
        flipped.append(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
    method = good.rindex(b"PK\x01\x02") + 10  # in the list of parts at the end: not packed, packed
    packed = good[:method] + bytes([8]) + good[method + 1 :]
    for content in (*cut, *flipped[::5], packed):
        path.write_bytes(content)
        again = trainer(tmp_path)
        before = weights(again)[0].clone()
        with pytest.raises(ResumeError, match=FILE_NAME) as caught:
            again.resume()
        assert "--overwrite" in caught.value.hint
        assert torch.equal(weights(again)[0], before)
    path.write_bytes(good)
    trainer(tmp_path).resume()


def test_other_documents_are_another_run_where_they_are_shuffled(tmp_path: Path) -> None:
    """The same sentences in documents of other lengths come in another order."""
    settings = replace(SETTINGS, shuffle="documents", max_steps=1)
    trainer(tmp_path, settings).train()
    again = trainer(tmp_path, settings)
    again.corpus = replace(again.corpus, documents=np.asarray([0, 1, again.corpus.n_sentences]))
    with pytest.raises(ResumeError, match="made with documents not known, now 2 documents, crc"):
        again.resume()


def test_a_run_goes_on_on_another_kind_of_device(tmp_path: Path) -> None:
    """Their random numbers have states of other lengths; the run was called no run of ours."""
    settings = replace(SETTINGS, dropout=0.1, max_steps=1)
    trainer(tmp_path, settings).train()
    content = torch.load(tmp_path / FILE_NAME, weights_only=True)
    content |= {"device": "cuda", "dropout_rng": [torch.zeros(16, dtype=torch.uint8)]}
    torch.save(content, tmp_path / FILE_NAME)
    again = trainer(tmp_path, replace(settings, max_steps=2))
    again.resume()
    assert again.train().step == 2


def test_a_checkpoint_of_an_older_form_is_told(tmp_path: Path) -> None:
    """What such a file holds would be taken for something else, or be missed."""
    torch.save({"run": {}, "model": {}}, tmp_path / FILE_NAME)
    with pytest.raises(ResumeError, match="of version unknown, not 4"):
        trainer(tmp_path).resume()


def test_a_model_that_gets_far_worse_stops_the_run(tmp_path: Path) -> None:
    """Hours at a wrong rate would overwrite the checkpoint that was good."""
    wild = replace(SETTINGS, learning_rate=10.0, warmup_steps=0, max_steps=200, eval_steps=2)
    with pytest.raises(TrainingError, match=r"held-out perplexity .* before") as caught:
        trainer(tmp_path, wild).train()
    assert "--resume --learning-rate 2.5" in caught.value.hint
    stopped = re.search(r"step (\d+): ", str(caught.value))
    assert stopped is not None
    kept = trainer(tmp_path, wild)
    kept.resume()
    assert kept.progress.step == int(stopped[1]) - wild.eval_steps  # of the look before
    # The line of the bad look goes, too: a resumed run looks there again.
    assert max(line["step"] for line in log(tmp_path)) == kept.progress.step
    looks = [line for line in log(tmp_path) if "heldout" in line]
    assert [line["step"] for line in looks] == [*range(2, int(stopped[1]), 2)]
    values = [line["heldout"]["average"] for line in looks]
    for n in range(1, len(values)):  # no look before was so bad
        assert values[n] <= 10 * min(values[:n])


def test_a_loss_that_gets_far_worse_stops_the_run(tmp_path: Path) -> None:
    """The same without a held-out text."""
    wild = replace(SETTINGS, learning_rate=3.0, warmup_steps=0, max_steps=200, log_steps=1)
    trained = trainer(tmp_path, wild)
    trained.heldout = None
    with pytest.raises(TrainingError, match=r"the loss is .*, which was .* before"):
        trained.train()
    kept = trainer(tmp_path, wild)
    kept.resume()
    assert kept.progress.step == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_steps": None}, "neither --max-seconds nor --max-steps"),
        ({"optimizer": "sgd"}, "--optimizer: no 'sgd'"),
        ({"learning_rate": -1.0}, "--learning-rate: -1.0"),
        ({"dropout": 1.0}, "--dropout: 1"),
        ({"max_grad_norm": 0.0}, "--max-grad-norm: 0.0"),
        ({"gradient_accumulation_steps": 0}, "--gradient-accumulation-steps: 0"),
        ({"max_epochs": -2.0}, "--max-epochs: -2.0"),
        ({"precision": "fp8"}, "--precision: no 'fp8'"),
        ({"dtype": "int8"}, "--dtype: no 'int8'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    """Without it a wrong flag would be found after the text was read, or never."""
    with pytest.raises(UsageError, match=said):
        replace(SETTINGS, **wrong)


def test_first_values_are_the_originals() -> None:
    """Carry biases of 0 or small embeddings would train to something else."""
    bilm, head = new_bilm(OPTIONS, np.arange(500.0), seed=0)
    cnn = bilm.char_cnn
    assert cnn.highways[0].get_parameter("carry.bias").eq(-2).all()
    assert cnn.embedding.weight.abs().max() <= 1
    assert cnn.embedding.weight.detach().std() == pytest.approx(1 / 3**0.5, rel=0.1)
    assert cnn.filters[2].get_parameter("weight").abs().max() <= 0.05
    bound = (6 / (2 * 16 + 4 * 32)) ** 0.5
    largest = bilm.forward_lm.layers[0].get_parameter("recurrent.weight").abs().max().item()
    assert 0.9 * bound < largest <= bound
    assert head.bias.exp().sum().item() == pytest.approx(1)
    assert head.bias.argmax().item() == 499
