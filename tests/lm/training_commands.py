"""A command line run in this process, and the two lines that an error is told in."""

from __future__ import annotations

import pytest

from elmo_cli.cli.main import main

Told = tuple[int, str, str]


class Command:
    """Runs `elmo WORDS… ARGUMENTS…`; exit code, stdout, stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self._capsys, self._words = capsys, words

    def __call__(self, *args: object) -> Told:
        with pytest.raises(SystemExit) as left:
            main([*self._words, *map(str, args)])
        captured = self._capsys.readouterr()
        return int(left.value.code or 0), captured.out, captured.err


def refused(found: Told, says: str, hint: str, code: int = 1) -> None:
    """Check that a run has printed an error and a hint, and nothing else."""
    assert found[:2] == (code, "")
    error, advice = found[2].splitlines()
    assert error.startswith("error: ")
    assert says in error
    assert advice.startswith("hint: ")
    assert hint in advice
