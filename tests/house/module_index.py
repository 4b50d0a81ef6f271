"""The page `docs/contributing/modules.md`: all modules, with the first words of each."""

from __future__ import annotations

import ast
from pathlib import Path


def index_of_modules(package: Path) -> str:
    """The text of the page: a list for each package, in alphabetical order."""
    lines = [
        "# Modules",
        "",
        "Each line is the first sentence of the module itself.",
        "",
        "At the top:",
        "",
    ]
    lines += _lines_of(package)
    folders = sorted(path.parent for path in package.rglob("__init__.py"))
    for folder in folders[1:]:
        lines += ["", f"`{folder.relative_to(package)}/`:", "", *_lines_of(folder)]
    return "\n".join(lines) + "\n"


def _lines_of(folder: Path) -> list[str]:
    lines = []
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first_sentence = docstring.split("\n\n")[0].replace("\n", " ")
            lines.append(f"- `{path.name}`: {first_sentence}")
    return lines
