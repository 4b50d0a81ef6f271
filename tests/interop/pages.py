"""Programs in pages of the documentation that need another program."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

_PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```)?", re.S | re.M)


def run_program(page: Path, number: int) -> None:
    """Run a Python block of a page, and compare what it prints with what the page shows."""
    code, shown = _PROGRAM.findall(page.read_text(encoding="utf-8"))[number]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, f"{page.name} {number}", "exec"), {"__name__": "__main__"})
    if shown:
        assert printed.getvalue() == shown
