"""messages.txt: what `elmo` says about each bad input, as one file to review.

Two lines per row, sorted by name: `NAME [exit CODE] error: MESSAGE` and `    hint: HINT`.
`HERE` stands for the working directory, `STOCK` for the folder of valid files. A `…` stands for
anything; it is written by hand, where a message depends on the machine or on a library, and an
update keeps it while it fits.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("messages.txt")
_ROW = re.compile(
    r"(?P<name>.*) \[exit (?P<code>\d+)\] (?P<error>error: .*)\n    (?P<hint>hint: .*)\n"
)


class Message(NamedTuple):
    """What a command says: exit code, error line, hint line."""

    code: int
    error: str
    hint: str

    def fits(self, said: Message) -> bool:
        """Whether a message is this one, where `…` stands for anything."""
        pairs = ((self.error, said.error), (self.hint, said.hint))
        return self.code == said.code and all(_fits(*pair) for pair in pairs)


def _fits(expected: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text) is not None


def read_messages() -> dict[str, Message]:
    """The messages of the file, by the names of rows."""
    text = PATH.read_text(encoding="utf-8")
    rows = list(_ROW.finditer(text))
    assert "".join(row[0] for row in rows) == text, f"{PATH}: a line that belongs to no row"
    return {row["name"]: Message(int(row["code"]), row["error"], row["hint"]) for row in rows}


def write_messages(messages: dict[str, Message]) -> None:
    """Write the file, sorted by name."""
    PATH.write_text(
        "".join(
            f"{name} [exit {code}] {error}\n    {hint}\n"
            for name, (code, error, hint) in sorted(messages.items())
        ),
        encoding="utf-8",
    )
