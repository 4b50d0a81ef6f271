"""Files of a run that somebody has changed: told in two lines, and never taken for a run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from make_weights import MODELS, write_model
from tiny_run import SETTINGS, trainer
from training_commands import Command, refused

from elmo_cli.errors import InputError, ResumeError
from elmo_cli.lm.checkpoint import FILE_NAME
from elmo_cli.lm.log import read_log
from elmo_cli.lm.tuning_folder import FITTED_NAME, RECORD_NAME


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("run",), []),
        (("model", "head.bias"), None),
        (("optimizer",), {}),
        (("sampler_rng",), torch.zeros(3, dtype=torch.uint8)),
        (("dropout_rng",), [torch.zeros(3, dtype=torch.uint8)]),
        (("dropout_rng",), None),
        (("progress", "more"), 1),
        (("progress", "step"), "1"),
        (("progress", "epoch"), -1),
        (("progress", "place"), 10**9),
        (("progress", "state"), [torch.zeros(2), torch.zeros(2)]),
        (("progress", "state"), [torch.zeros(2, 2, 4, n, dtype=torch.int64) for n in (16, 32)]),
        (("progress", "losses"), ["a"]),
        (("progress", "losses"), [math.inf]),
        (("progress", "seconds"), math.nan),
        (("progress", "seconds"), math.inf),
        (("progress", "best"), math.nan),
        (("progress",), None),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_strange_in_a_checkpoint_is_told(
    place: tuple[str, ...], value: object, tmp_path: Path
) -> None:
    """It may come from anywhere; without it the user is told of a fault of ours, or of nothing."""
    trainer(tmp_path, replace(SETTINGS, max_steps=1)).train()
    content = torch.load(tmp_path / FILE_NAME, weights_only=True)
    part = content
    for name in place[:-1]:
        part = part[name]
    if value is None:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    torch.save(content, tmp_path / FILE_NAME)
    with pytest.raises(ResumeError, match=f"{FILE_NAME}: not a checkpoint of this run") as caught:
        trainer(tmp_path).resume()
    assert "--overwrite" in caught.value.hint


@pytest.mark.parametrize("number", ["1" * 400, "1" * 5000, "true", '"1"'])
def test_a_number_that_nothing_can_be_computed_with_is_no_log(number: str, tmp_path: Path) -> None:
    """JSON has whole numbers of any length, and a picture has not."""
    look = f'"heldout": {{"forward": 2.5, "backward": Infinity, "average": {number}}}'
    for line in (f'"tokens": {number}', f'"tokens": 3, {look}', f'"tokens": 3, "loss": {number}'):
        (tmp_path / "log.jsonl").write_text(f'{{"step": 3, {line}}}\n')
        with pytest.raises(InputError, match="line 1: not a line of a training log"):
            read_log(tmp_path / "log.jsonl")
    look = look.replace(number, "1" + "0" * 300)
    (tmp_path / "log.jsonl").write_text(f'{{"step": 3, "tokens": 3, {look}}}\n')
    assert read_log(tmp_path / "log.jsonl")[0]["heldout"]["backward"] == math.inf


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """`elmo finetune` of weights alone, which get a softmax first."""
    text = "\n".join(f"the cat number {k} sees the dog {'again ' * (k % 3)}." for k in range(60))
    (tmp_path / "a.txt").write_text(text)
    model = write_model(tmp_path / "model", MODELS["tiny"], "tiny")
    words = ("--domain", tmp_path / "a.txt", "-m", model, "-o", tmp_path / "out", "--batch-size", 2)
    more = ("--softmax-tokens", 80, "--threads", 1, "--device", "cpu", "-q")
    return Command(capsys, "finetune", *map(str, (*words, *more)))


def test_a_damaged_record_of_fine_tuning_is_told(tune: Command, tmp_path: Path) -> None:
    """Without it the run ends after all the training, with a fault of ours."""
    assert tune("--max-steps", 2)[0] == 0
    path = tmp_path / "out" / RECORD_NAME
    record = json.loads(path.read_text())
    figures = record["before"]
    strange: dict[str, tuple[Any, ...]] = {
        "measuring_s": (None, "1", 10**400, math.nan),
        "unknown_fraction": (None, [0.1]),
        "before": (None, 3, {"perplexity": figures["perplexity"]}, {**figures, "more": {}}),
        "domain": (None, {"train": [3]}),
        "fit": ({}, [1]),
        "before_model_softmax": ({**figures, "perplexity": {}},),
    }
    for name, values in strange.items():
        for value in values:
            changed = {**record, name: value}
            if value is None:
                del changed[name]
            path.write_text(json.dumps(changed))
            told = tune("--resume", "--max-steps", 4)
            says = f"{RECORD_NAME}: can't be read ({name!r} is missing or corrupt)"
            refused(told, says, "`--overwrite` begins anew")
    path.write_text(json.dumps(record))
    assert tune("--resume", "--max-steps", 4)[0] == 0


def test_a_run_without_the_softmax_that_was_fitted_is_not_gone_on_with(
    tune: Command, tmp_path: Path
) -> None:
    """It is what the line before was measured with; another fit would give another one."""
    assert tune("--max-steps", 2)[0] == 0
    (tmp_path / "out" / FITTED_NAME).unlink()
    told = tune("--resume", "--max-steps", 4)
    refused(told, f"{FITTED_NAME}: is gone", f"`-m {tmp_path / 'out'} -o DIR` begins a run")
    (tmp_path / "out/weights.hdf5").unlink()
    told = tune("--resume", "--max-steps", 4)
    refused(told, f"{FITTED_NAME}: is gone", "`--overwrite` begins anew")
