"""The pages of the repository, and the code blocks and commands that they show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "elmo_cli" / "store" / "SCHEMA.md",
    ROOT / "examples" / "README.md",
    ROOT / "weights" / "elmo-en" / "README.md",
    ROOT / "weights" / "elmo-en" / "HISTORY.md",
]
# The pages that `docs/_ext/command_pages.py` writes have the examples of the help.
COMMAND_PAGES = ROOT / "docs" / "reference" / "commands"
EXAMPLE_OF_THE_HELP = "is an example of the help"
_BLOCK = re.compile(
    r"(?:<!-- (?:not run: ([^\n]*)|file: ([^\n]*)|(program)) -->\n)?^```([^\n]*)\n(.*?)^```$",
    re.S | re.M,
)


@dataclass(frozen=True)
class CodeBlock:
    """A code block of a page.

    Attributes:
        reason: why it is not run; "" if it is.
        files: the names of the files whose content it is.
        is_program: whether it is a program of `examples/` and its output.
        language: behind the opening backticks.
    """

    page: Path
    reason: str
    files: tuple[str, ...]
    is_program: bool
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.code[:40]!r}"


def _code_blocks() -> list[CodeBlock]:
    blocks = []
    for page in PAGES:
        for reason, files, program, language, code in _BLOCK.findall(page.read_text("utf-8")):
            if language.startswith("{"):
                continue  # a directive of the site
            block = CodeBlock(
                page=page,
                reason=EXAMPLE_OF_THE_HELP if page.parent == COMMAND_PAGES else reason,
                files=tuple(files.split()),
                is_program=bool(program),
                language=language,
                code=code,
            )
            blocks.append(block)
    return blocks


BLOCKS = _code_blocks()


def command_lines(code: str) -> list[str]:
    """The lines of a shell block without comments and continuations."""
    lines = []
    for line in re.sub(r"\s*\\\n\s*", " ", code).splitlines():
        command = re.sub(r"(^|\s)#.*", "", line).strip()
        if command:
            lines.append(command)
    return lines


def output_of_programs() -> dict[CodeBlock, CodeBlock]:
    """Each Python block that is followed by the output that it prints, with that output."""
    outputs = {}
    for block, following in pairwise(BLOCKS):
        is_output = following.language == "text" and not following.files
        if block.language == "python" and is_output and following.page == block.page:
            outputs[block] = following
    return outputs
