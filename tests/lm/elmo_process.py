"""`elmo` in a process of its own, which tests kill."""

from __future__ import annotations

import subprocess
import sys


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "elmo_cli", *arguments], stderr=subprocess.PIPE, text=True
    )
