"""Bounds of the settings of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tiny_run import SETTINGS

from elmo_cli.errors import UsageError


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
