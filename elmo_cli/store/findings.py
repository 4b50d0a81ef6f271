"""Findings: what a check of a file found wrong, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST = 50


@dataclass
class Findings:
    """What a check found; it goes on counting where it no longer lists.

    Attributes:
        problems: a line for each of the first `MOST`, in the order they were found.
        n_problems: all of them.
        tokens: of the file, where the check counted them; None where arrays do not tell.
    """

    problems: list[str] = field(default_factory=list)
    n_problems: int = 0
    tokens: int | None = None

    def add(self, problem: str) -> None:
        """Count a problem, and list it if there is room."""
        self.n_problems += 1
        if len(self.problems) < MOST:
            self.problems.append(problem)

    def add_all(self, problems: Iterable[str]) -> None:
        """Add one after the other, also those before an error."""
        for problem in problems:
            self.add(problem)
