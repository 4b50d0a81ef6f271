"""The choice of the epoch whose weights are kept, and limits that a resumed run raises."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from ner_runs import StoppingReporter, epochs_of, train_ner, weights_of

from elmo_cli.errors import ResumeError
from elmo_cli.tasks.ner import NerTask
from elmo_cli.tasks.task import Scores
from elmo_cli.tasks.trained_task import TrainedTask

SetEpochs = Callable[[Sequence[float], Sequence[float]], None]


@pytest.fixture
def set_epochs(folder: None, monkeypatch: pytest.MonkeyPatch) -> SetEpochs:
    """A function that sets the scores of epochs and their dev losses."""

    def set_both(scores: Sequence[float], losses: Sequence[float]) -> None:
        epoch = iter(range(len(scores)))
        current = 0

        def score(task: NerTask, examples: object, predictions: object) -> Scores:
            nonlocal current
            current = next(epoch)
            return Scores("f1", {"f1": scores[current]})

        def loss(trained: TrainedTask, examples: object, inputs: object) -> float:
            return losses[current]

        monkeypatch.setattr(NerTask, "score", score)
        monkeypatch.setattr(TrainedTask, "loss", loss)

    return set_both


@pytest.mark.parametrize(
    ("scores", "losses", "best_epoch"),
    [
        ([0, 0, 0, 0], [4, 2, 3, 5], 2),  # equal scores: the lowest loss
        ([0, 0, 0, 0], [3, 2, 2, 4], 3),  # equal losses: the later epoch
        ([5, 5, 5], [1, math.nan, 9], 3),  # a loss that is not finite cannot be compared
        ([5, 5, 5], [math.inf, 9, 1], 3),
        ([5, 5, 5], [math.nan] * 3, 3),
        ([5, 7, 5, 7], [9, 2, 1, 3], 2),  # a higher score is kept whatever its loss
        ([5, 7, 6], [1, 9, 1], 2),
    ],
)
def test_of_equal_scores_the_lower_dev_loss_or_else_the_later_epoch_is_kept(
    set_epochs: SetEpochs, scores: list[float], losses: list[float], best_epoch: int
) -> None:
    set_epochs(scores, losses)
    facts = train_ner("ner", epochs=len(scores))
    assert (facts["best_epoch"], facts["dev"]["f1"]) == (best_epoch, max(scores))


def test_patience_counts_from_the_first_epoch_with_the_best_score(set_epochs: SetEpochs) -> None:
    """Otherwise a score that stays the same, while the loss falls, would never end a run."""
    set_epochs([5] * 20, range(20, 0, -1))
    facts = train_ner("ner", epochs=20, patience=3, lr_patience=2)
    assert (facts["best_epoch"], facts["epochs"]) == (4, 4)
    rates = [line["learning_rate"] for line in epochs_of("ner")]
    assert rates == [0.001, 0.001, 0.001, 0.0005]


def test_the_dev_loss_changes_neither_scores_nor_weights(
    folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_ner("with", epochs=3)

    def no_loss(trained: TrainedTask, examples: object, inputs: object) -> float:
        return math.nan

    monkeypatch.setattr(TrainedTask, "loss", no_loss)
    train_ner("without", epochs=3)
    assert epochs_of("with") == epochs_of("without")


def test_progress_counts_the_tokens_of_all_epochs(folder: None) -> None:
    """They are counted from the first epoch also if the run is resumed."""
    steps: list[tuple[str, float, float | None]] = []

    class Counting(StoppingReporter):
        def progress(self, what: str, done: float, total: float | None, detail: str = "") -> None:
            steps.append((what, done, total))

    with pytest.raises(KeyboardInterrupt):
        train_ner("ner", epochs=3, reporter=Counting(1))
    train_ner("ner", epochs=3, reporter=Counting(), mode="resume")
    n_tokens = 5 + 3 + 3 + 2  # of train.conll
    assert {(what, total) for what, _, total in steps} == {
        ("training for at most 3 epochs", 3 * n_tokens)
    }
    counts = [done for _, done, _ in steps]
    assert counts == sorted(set(counts))
    assert counts[1::2] == [n_tokens, 2 * n_tokens, 3 * n_tokens]  # an epoch has two batches


def test_a_fraction_of_train_is_learned_and_all_of_dev_is_scored(folder: None) -> None:
    reporter = StoppingReporter()
    train_ner("ner", epochs=1, fraction=0.5, reporter=reporter)
    assert any(text.startswith("ner: 2 examples, dev 2; ") for text in reporter.messages)


def test_a_finished_run_is_recognized(folder: None) -> None:
    """Unless a file of its model has changed since then."""
    facts = train_ner("ner")
    expected = Path("ner/model.pt").read_bytes()
    Path("ner/checkpoint.pt").touch()  # a killed run has left it
    finished = StoppingReporter()
    assert train_ner("ner", mode="resume", reporter=finished) == facts
    assert finished.messages == ["ner: the run is finished"]
    assert not Path("ner/checkpoint.pt").exists()
    Path("ner/model.pt").write_bytes(b"changed")
    changed = StoppingReporter()
    again = train_ner("ner", mode="resume", reporter=changed)
    assert {**again, "seconds": 0} == {**facts, "seconds": 0}
    warning = "warning: ner: a file of the finished model has changed; training again"
    assert changed.messages[0] == warning
    assert Path("ner/model.pt").read_bytes() == expected


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ({"epochs": 4, "patience": 9}, {"epochs": 6, "patience": 9}),
        ({"epochs": 9, "patience": 1}, {"epochs": 9, "patience": 4}),
        ({"epochs": 4, "patience": 1}, {"epochs": 6, "patience": 9}),
    ],
)
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_resumed_run_may_raise_its_limits(
    folder: None, limits: dict[str, int], raised: dict[str, int], is_finished: bool
) -> None:
    expected = train_ner("whole", **raised)
    if is_finished:
        assert train_ner("raised", **limits)["epochs"] < expected["epochs"]
    else:
        with pytest.raises(KeyboardInterrupt):
            train_ner("raised", **limits, reporter=StoppingReporter(2))
    reporter = StoppingReporter()
    facts = train_ner("raised", mode="resume", reporter=reporter, **raised)
    assert {**facts, "seconds": 0} == {**expected, "seconds": 0}
    assert epochs_of("raised") == epochs_of("whole")
    for name, weights in weights_of("whole").items():
        assert torch.equal(weights_of("raised")[name], weights), name
    assert any("epochs are repeated" in text for text in reporter.messages) == is_finished
    settings = json.loads(Path("raised/task.json").read_text())["settings"]
    assert settings.items() >= raised.items()
    again = train_ner("raised", mode="resume", **raised)
    assert again == facts


@pytest.mark.parametrize("lowered", [{"epochs": 3}, {"patience": 2}])
def test_a_resumed_run_may_not_lower_its_limits(folder: None, lowered: dict[str, int]) -> None:
    limits = {"epochs": 4, "patience": 3}
    train_ner("ner", **limits)
    [name] = lowered
    with pytest.raises(ResumeError, match=f"{name}: {limits[name]}, now {lowered[name]}"):
        train_ner("ner", mode="resume", **{**limits, **lowered})
