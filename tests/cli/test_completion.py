"""What a shell completes: files where names of files stand, and models."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from elmo_cli.cli.main import COMMANDS, cli


def offered(*words: str) -> list[tuple[str, str]]:
    *before, incomplete = words
    found = ShellComplete(cli, {}, "elmo", "_ELMO_COMPLETE").get_completions(before, incomplete)
    return [(item.type, item.value) for item in found]


NOT_FILES_FIRST = ("models", "probe", "finetune", "train", "evaluate", "predict", "plot")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NOT_FILES_FIRST])
def test_files_are_completed(command: str) -> None:
    """A shell that has a completion of ours asks nobody else: `elmo embed c<TAB>` did nothing."""
    assert ("file", "corp") in offered(command, "corp")


def test_files_folders_and_models_of_options() -> None:
    assert offered("embed", "-o", "x") == [("file", "x")]
    assert offered("pretrain", "--data-dir", "x") == [("dir", "x")]
    assert offered("finetune", "--domain", "x") == [("file", "x")]
    assert offered("train", "ner", "--train", "x") == [("file", "x")]
    assert offered("evaluate", "x") == [("dir", "x")]
    assert offered("predict", "ner", "x") == [("file", "x")]
    assert offered("plot", "senses", "x") == [("file", "x")]
    assert offered("probe", "--train", "x") == [("file", "x")]
    assert offered("probe", "--train", "a.hdf5", "x") == [("file", "x")]
    assert offered("embed", "-m", "orig") == [
        ("plain", "original"),
        ("plain", "original-5.5b"),
        ("file", "orig"),
    ]
    assert offered("models", "pull", "sm") == [("plain", "small")]
    assert ("plain", "float16") in offered("embed", "--dtype", "fl")
    assert offered("embed", "--batch-size", "1") == []
