"""The log of a run."""

from __future__ import annotations

import json
from pathlib import Path

from elmo_cli.lm.log import TrainingLog


def test_a_log_is_truncated_to_the_size_of_a_checkpoint(tmp_path: Path) -> None:
    """So that no line occurs twice in a resumed run."""
    log = TrainingLog(tmp_path / "log.jsonl")
    assert log.synced_size() == 0
    log.truncate(3)
    log.append({"step": 1, "tokens": 2, "loss": 3.0})
    size = log.synced_size()
    assert size == log.path.stat().st_size
    log.append({"step": 2, "tokens": 4})
    log.truncate(size)
    log.truncate(size + 99)
    assert list(map(json.loads, log.path.read_text().splitlines())) == [
        {"step": 1, "tokens": 2, "loss": 3.0}
    ]
