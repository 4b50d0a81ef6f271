"""Files of a run that somebody has changed: told in two lines, and never taken for a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from make_weights import MODELS, write_model
from training_commands import Command, refused

from elmo_cli.lm.tuning_folder import FITTED_NAME, RECORD_NAME


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
