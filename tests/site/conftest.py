"""The site, built once for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; a warning of Sphinx is an error."""
    if find_spec("sphinx") is None:
        pytest.skip("no Sphinx: `make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    output = folder / "html"
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    words += ["-d", str(folder / "cache"), "docs", str(output)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr  # of the kernel that runs the notebook
    return output
