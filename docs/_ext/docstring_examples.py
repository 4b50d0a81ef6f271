"""Show the lines below `Example:` in a docstring as a block of Python code."""

from __future__ import annotations

from typing import Any


def _mark_examples(
    app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]
) -> None:
    marked: list[str] = []
    for line in lines:
        if line == "Example:":
            marked += [".. rubric:: Example", "", ".. code-block:: python", ""]
        else:
            marked.append(line)
    lines[:] = marked


def setup(app: Any) -> dict[str, bool]:
    """Change docstrings before `sphinx.ext.napoleon` reads them."""
    app.connect("autodoc-process-docstring", _mark_examples, priority=400)
    return {"parallel_read_safe": True}
