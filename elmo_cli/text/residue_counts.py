"""ResidueCounts: letters of sequences that were changed or left out, or stand for no amino acid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from elmo_cli.messages import plural

# The 20 amino acids, and X, U, B, Z and O, which occur in databases of proteins.
_OTHER_LETTER = re.compile("[^ACDEFGHIKLMNPQRSTVWYXUBZO]")


@dataclass
class LetterCount:
    """How many letters of one kind there are, in how many sequences, and where the first is."""

    letters: int = 0
    sequences: int = 0
    first: str = ""  # file and line of the header of the first such sequence

    def add(self, n_letters: int, where: str) -> None:
        """Count the letters of one sequence."""
        if n_letters == 0:
            return
        if self.sequences == 0:
            self.first = where
        self.letters += n_letters
        self.sequences += 1

    def __str__(self) -> str:
        return f"{self.letters:,} in {plural(self.sequences, 'sequence')}"


@dataclass
class ResidueCounts:
    """Letters of the sequences that were read, complete after the last sentence.

    Attributes:
        sequences: their number.
        lower_case: letters that became capitals.
        final_stops: `*` at the end of a sequence, which were left out.
        inner_stops: `*` within a sequence, each of which is a token.
        others: how often each letter occurs that is neither one of the 20 amino acids nor X, U, B,
            Z or O.
    """

    sequences: int = 0
    lower_case: LetterCount = field(default_factory=LetterCount)
    final_stops: LetterCount = field(default_factory=LetterCount)
    inner_stops: LetterCount = field(default_factory=LetterCount)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, text: str, sequence: str, where: str) -> None:
        """Count a sequence.

        Args:
            text: its letters as the file has them.
            sequence: its letters in capitals, without what was left out at its end.
            where: file and line of its header.
        """
        self.sequences += 1
        if not text.isupper():
            self.lower_case.add(sum(map(str.islower, text)), where)
        n_stops = text.count("*")
        if n_stops:
            n_inner_stops = sequence.count("*")
            self.inner_stops.add(n_inner_stops, where)
            self.final_stops.add(n_stops - n_inner_stops, where)
        self.others.update(_OTHER_LETTER.findall(sequence))

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Yield the kind and the text of each warning."""
        if self.lower_case.letters:
            problem = f"lower-case letters were read as capitals: {self.lower_case}"
            yield "lower-case residues", f"{self.lower_case.first}: {problem}"
        if self.final_stops.letters:
            problem = f"`*` at the end of a sequence was left out: {self.final_stops}"
            yield "final stops", f"{self.final_stops.first}: {problem}"
        if self.inner_stops.letters:
            problem = f"`*` is read as a residue: {self.inner_stops}"
            yield "inner stops", f"{self.inner_stops.first}: {problem}"
