"""The hint after Ctrl-C names what works, whatever the command has written by then."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import elmo
from situations import CommandScene

import elmo_cli.embed.job  # noqa: F401  (before a test replaces a function that it imports)

AGAIN = "hint: run the command again"
RESUME = "hint: the same command with `--resume` continues the run"
STARTS_OVER = "hint: the same command starts over; `--resume` instead of `--overwrite` continues"
PREPARED = "hint: `--resume` instead of `--prepare` trains"
TRAIN = "train ner --train a.txt --dev a.txt -o out"
MARKERS = {"pretrain": "recipe.json", "finetune": "finetune.json", "train": "task.json"}


@pytest.mark.parametrize(
    ("line", "is_begun", "hint"),
    [
        ("vocab a.txt -o v.txt", False, AGAIN),
        ("embed a.txt -o b.hdf5", False, RESUME),
        ("embed a.txt -o b.hdf5 --resume", False, AGAIN),
        ("embed a.txt -o b.hdf5 --overwrite", False, STARTS_OVER),
        ("embed a.txt -o b.hdf5 --dry-run", False, AGAIN),
        ("embed a.txt -o -", False, AGAIN),
        ("embed a.txt --ray -o shards", False, AGAIN),
        ("pretrain a.txt -o out", False, AGAIN),
        ("pretrain a.txt -o out", True, RESUME),
        ("pretrain a.txt -o out --prepare", True, PREPARED),
        ("pretrain -o out --resume", True, AGAIN),
        ("finetune --domain a.txt -o out", False, AGAIN),
        ("finetune --domain a.txt -o out", True, RESUME),
        (TRAIN, False, AGAIN),
        (TRAIN, True, RESUME),
        (f"{TRAIN} --overwrite", False, AGAIN),
        (f"{TRAIN} --overwrite", True, STARTS_OVER),
        (f"pretrain a.txt -o {'x' * 300}", False, AGAIN),
    ],
)
def test_hint(
    line: str, is_begun: bool, hint: str, scene: CommandScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    for function in (
        "elmo_cli.lm.pretrain.pretrain",
        "elmo_cli.lm.finetune.run.finetune",
        "elmo_cli.tasks.train.train_task",
        # Last, because a module that is imported afterwards would keep it.
        "elmo_cli.text.input.check_inputs",
    ):
        monkeypatch.setattr(function, stop)
    if is_begun:
        Path("out").mkdir()
        marker = MARKERS[line.split()[0]]
        Path("out", marker).write_text("{}")
    done = elmo(*line.split())
    assert done.code == 130
    first_line, last_line = done.err.splitlines()[-2:]
    assert first_line == "error: interrupted"
    if hint == AGAIN:
        assert last_line == hint
    else:
        assert last_line.startswith(hint)
