"""Logs of runs, and `elmo plot curves`, which draws them."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import made
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from elmo_cli.errors import InputError, UsageError
from elmo_cli.plot.training_curves import (
    LossPoint,
    ReportedPerplexity,
    TrainingCurve,
    draw_training_curves,
    read_run,
)

K = 250_000  # tokens per step


def language_model(n_steps: int = 8, every: int = 4) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for step in range(1, n_steps + 1):
        progress = {"step": step, "epoch": 0, "tokens": step * K, "seconds": step / 10}
        loss = {"loss": 7 / step, "learning_rate": 0.01, "sampled_softmax": True}
        lines.append({**progress, **loss})
        if step % every == 0:
            perplexities = {"forward": 90 / step, "average": 85 / step}
            lines.append({**progress, "heldout": perplexities})
    return lines


def task(*scores: float, measure: str = "f1") -> list[dict[str, Any]]:
    return [
        {"epoch": n, "loss": 1 / n, "dev": {"precision": 1.0, measure: score}}
        for n, score in enumerate(scores, 1)
    ]


def write(folder: Path, lines: list[dict[str, Any]], record: Any = None) -> Path:
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if record is not None:
        (folder / "finetune.json").write_text(json.dumps(record))
    return folder


def tuned(step: int | None = None, after: float = 12.0) -> dict[str, Any]:
    """What finetune.json states: the perplexities before (30) and after, and the chosen step."""
    result: dict[str, Any] = {"after": {"perplexity": {"average": after}, "text": "test"}}
    if step is not None:
        result["chosen"] = {"step": step}
    return {"before": {"perplexity": {"average": 30.0}, "text": "test"}, "result": result}


INVALID_LINES = [
    '{"loss": 3}',
    '{"step": 1}',
    '{"step": 1, "tokens": 1, "loss": null}',
    '{"tokens": 1, "heldout": {"average": 3.5}}',
    '{"step": 1, "tokens": Infinity, "loss": 1}',
    '{"epoch": 1, "dev": {}}',
    "[1]",
    "{",
    "[" * 200_000,
]


@pytest.mark.parametrize("line", INVALID_LINES, ids=lambda line: line[:40])
def test_a_line_that_is_not_of_a_log_is_refused(line: str, tmp_path: Path) -> None:
    lines = task(1.0, 2.0) if "dev" in line else language_model(2)
    log = write(tmp_path / "m", lines) / "log.jsonl"
    log.write_text(log.read_text() + line)
    with pytest.raises(InputError, match=r"log\.jsonl, line 3: not a line of a training log"):
        read_run(log)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be"), (b"", "has no loss yet"), (b"\xff", "cannot be")]
)
def test_a_log_without_lines_is_explained(content: Any, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "log.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=rf"log\.jsonl: {message}"):
        read_run(tmp_path / "log.jsonl")


@pytest.mark.parametrize(
    ("lines", "record", "best", "perplexities"),
    [
        (language_model(), None, (1, "lowest"), []),
        (language_model(), {**tuned(), "result": None}, (1, "lowest"), [30]),
        (language_model(12), tuned(), (2, "lowest"), [30, 12]),
        (language_model(12), tuned(8, 31), (1, "chosen"), [30, 31]),
        (language_model(12), tuned(0), (2, "lowest"), [30, 12]),
        (task(50.0, 70.0, 70.0, 60.0), None, (1, "highest"), []),
    ],
)
def test_the_best_evaluation(
    lines: Any, record: Any, best: tuple[int, str], perplexities: Any, tmp_path: Path
) -> None:
    folder = write(tmp_path / "model", lines, record)
    run = read_run(folder / "log.jsonl")
    assert run.best == best
    assert [reported.perplexity for reported in run.reported_perplexities.values()] == perplexities


@pytest.mark.parametrize(
    ("scores", "best"),
    [({"best_epoch": 3}, (2, "chosen")), ({"best_epoch": 9}, (1, "highest")), ([], (1, "highest"))],
)
def test_the_epoch_that_was_chosen_among_equal_scores(
    scores: Any, best: tuple[int, str], tmp_path: Path
) -> None:
    """The loss on dev decides, which the log lacks."""
    folder = write(tmp_path / "ner", task(50.0, 70.0, 70.0, 60.0))
    (folder / "scores.json").write_text(json.dumps(scores))
    assert read_run(folder / "log.jsonl").best == best


def test_a_perplexity_without_a_text_is_that_of_a_held_out_text() -> None:
    run = TrainingCurve("lm", is_task_run=False)
    run.add_record({"before": {"perplexity": {"average": 30}}, "result": None})
    expected = ReportedPerplexity(perplexity=30.0, text="held-out text")
    assert run.reported_perplexities == {"before": expected}


def test_losses_and_perplexities_are_drawn(tmp_path: Path, figures: list[Figure]) -> None:
    folder = write(tmp_path / "model", language_model(), tuned(4))
    made("plot", "curves", folder, "-o", tmp_path / "curves.svg")
    loss, perplexity = figures[0].axes
    assert [loss.get_title(), perplexity.get_title()] == ["training loss", "held-out perplexity"]
    assert [axes.get_xlabel() for axes in (loss, perplexity)] == ["tokens"] * 2
    assert loss.xaxis.get_major_formatter()(1.5e6, 0) == "1.5 M"
    steps = np.arange(1, 9)
    np.testing.assert_allclose(loss.lines[0].get_xydata(), np.c_[steps * K, 7 / steps])
    np.testing.assert_allclose(perplexity.lines[0].get_xydata(), [(4 * K, 85 / 4), (8 * K, 85 / 8)])
    drawn = {str(line.get_label()): line.get_xydata() for line in perplexity.lines[1:]}
    np.testing.assert_allclose(drawn["chosen, step 4: 21.25"], [(4 * K, 85 / 4)])
    np.testing.assert_allclose(drawn["before, on test: 30.00"][:, 1], 30)
    np.testing.assert_allclose(drawn["after, on test: 12.00"][:, 1], 12)
    legend = [text.get_text() for text in figures[0].legends[0].texts]
    assert legend == ["model (loss of the sampled softmax)", *drawn]


@pytest.mark.parametrize(
    ("lines", "titles", "unit"),
    [
        (language_model(4)[-1:], ["held-out perplexity"], "tokens"),
        (task(1.0), ["training loss", "f1 on dev"], "epoch"),
        ([{"step": 1, "tokens": 0, "loss": 1.0}], ["training loss"], "tokens"),
    ],
)
def test_a_short_run_has_no_empty_panel(
    lines: Any, titles: list[str], unit: str, tmp_path: Path, figures: list[Figure]
) -> None:
    """A curve of one point is visible with its marks, and the unit suits the length of the run."""
    made("plot", "curves", write(tmp_path / "model", lines), "-o", tmp_path / "curves.png")
    assert [axes.get_title() for axes in figures[0].axes] == titles
    for axes in figures[0].axes:
        assert axes.lines[0].get_marker() == "."
        assert axes.get_xlabel() == unit
        marks = Bbox.union([line.get_window_extent() for line in axes.lines])
        assert axes.bbox.x0 <= marks.x0 <= marks.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= marks.y0 <= marks.y1 <= axes.bbox.y1


def test_several_runs_share_a_figure(tmp_path: Path, figures: list[Figure]) -> None:
    folders = [
        write(tmp_path / r"_a$\foo$", language_model(4)),
        write(tmp_path / ("b" * 70), language_model(8)),
        write(tmp_path / "c", language_model(12)),
    ]
    made("plot", "curves", *folders, "-o", tmp_path / "curves.pdf")
    shown = [text.get_text() for text in figures[0].legends[0].texts]
    assert shown[0].startswith(r" _a\$\foo\$ (loss")
    assert shown[1].startswith("b" * 30 + "…" + "b" * 30 + " ")
    assert shown[3:] == ["lowest, step 4: 21.25", "lowest, step 8: 10.62", "lowest, step 12: 7.08"]
    assert len({line.get_color() for line in figures[0].axes[1].lines}) == 3


def test_each_score_has_its_own_panel(tmp_path: Path, figures: list[Figure]) -> None:
    """The accuracy of one run was drawn under the title "f1 on dev" of the other."""
    runs = {"a": task(70.0, 81.0, measure="accuracy"), "b": task(30.0), "c": task(20.0, 40.0)}
    folders = [write(tmp_path / name, lines) for name, lines in runs.items()]
    made("plot", "curves", *folders, "-o", tmp_path / "curves.png")
    drawn = {}
    for axes in figures[0].axes:
        stars = [line for line in axes.lines if line.get_marker() == "*"]
        drawn[axes.get_title()] = [list(star.get_xydata()[0]) for star in stars]
    assert drawn == {
        "training loss": [],
        "accuracy on dev": [[2, 81]],
        "f1 on dev": [[1, 30], [2, 40]],
    }
    legend = [text.get_text() for text in figures[0].legends[0].texts]
    stars = [f"highest, epoch {n}: {score}.00" for n, score in ((2, 81), (1, 30), (2, 40))]
    assert legend == [*runs, *stars]


@pytest.mark.parametrize(
    ("scores", "bottom"), [((81.0, 82.0), 0.0), ((-0.5, 0.2), -0.55), ((-inf, 0.2), 0.0)]
)
def test_an_axis_of_scores_begins_at_zero(
    scores: tuple[float, ...], bottom: float, tmp_path: Path, figures: list[Figure]
) -> None:
    """Otherwise the noise of one point looks like progress; only a correlation is below 0."""
    folders = [write(tmp_path / "a", task(*scores)), write(tmp_path / "b", task(9.0))]
    made("plot", "curves", *folders, "-o", tmp_path / "curves.png")
    low, high = figures[0].axes[1].get_ylim()
    assert low == pytest.approx(bottom)
    assert high > max(9.0, *scores)


@pytest.mark.parametrize(("last", "scale"), [(25.0, "linear"), (24.0, "log")])
def test_a_large_fall_of_perplexity_is_drawn_on_a_logarithmic_axis(
    last: float, scale: str, tmp_path: Path, figures: list[Figure]
) -> None:
    """Otherwise the end of the curve is a flat line."""
    lines = language_model(2, every=1)
    for line, average in zip(lines[1::2], (100.0, last), strict=True):
        line["heldout"] = {"average": average}
    made("plot", "curves", write(tmp_path / "a", lines), "-o", tmp_path / "c.svg")
    loss, perplexity = figures[0].axes
    assert [loss.get_yscale(), perplexity.get_yscale()] == ["linear", scale]


def test_a_log_may_be_named_itself_or_copied_elsewhere(
    tmp_path: Path, figures: list[Figure]
) -> None:
    """The results next to a copy may be those of another run."""
    log = write(tmp_path / "model", language_model(), tuned(4)) / "log.jsonl"
    copy = log.with_name("first.jsonl")
    copy.write_bytes(log.read_bytes())
    out = tmp_path / "curves.svg"
    legends = []
    for path in (log.parent, log, copy):
        assert made("plot", "curves", path, "-o", out, "-f").err == f"{out}: written\n"
        legends.append([text.get_text() for text in figures[-1].legends[0].texts])
    assert legends[0] == legends[1]
    assert legends[2] == ["first (loss of the sampled softmax)", "lowest, step 8: 10.62"]


@pytest.mark.parametrize(("measure", "drawn"), [("accuracy", 4.0), ("pearson", 4.0), ("em", 1.0)])
def test_the_score_that_is_drawn(measure: str, drawn: float, tmp_path: Path) -> None:
    """A known one, otherwise the first."""
    run = read_run(write(tmp_path / "a", task(4.0, measure=measure)) / "log.jsonl")
    assert run.measure == f"{measure if drawn == 4.0 else 'precision'} on dev"
    assert run.evaluations[0].value == drawn


def test_language_models_and_task_models_are_drawn_apart(tmp_path: Path) -> None:
    runs = [
        TrainingCurve("lm", is_task_run=False, losses=[LossPoint(1, 2)]),
        TrainingCurve("ner", is_task_run=True, losses=[LossPoint(1, 2)]),
    ]
    with pytest.raises(UsageError, match="lm, ner: some are runs of language models"):
        draw_training_curves(runs)
