"""The drawing of docs/architecture.md: imports point down only.

Without it a shortcut upward would slip in (the text room reaching for torch, say), and
`elmo --help` or `elmo inspect` would take seconds.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "elmo_cli"

# Room -> rooms it may import from; every room may import errors and version.
ALLOWED = {
    "text": set(),
    "model": set(),
    "weightfile": {"model"},
    "pretrained": {"weightfile", "model", "text"},
    "engine": {"model", "text"},
    "store": {"text", "weightfile"},
    "embed": {"engine", "pretrained", "store", "model", "text"},
    "probe": {"store", "text"},
    "train": {"pretrained", "weightfile", "engine", "model", "text"},
    "cluster": {"embed", "engine", "pretrained", "store", "text"},
    "cli": {
        *("cluster", "embed", "probe", "store", "train", "pretrained", "engine", "weightfile"),
        *("model", "text"),
    },
}
FORBIDDEN = {
    "text": {"torch", "h5py", "click", "rich", "ray"},
    "model": {"h5py", "click", "rich", "ray"},
    "store": {"torch", "click", "rich", "ray"},
    "engine": {"h5py", "click", "rich", "ray"},
    "embed": {"click", "rich", "ray"},
    "weightfile": {"click", "rich", "ray"},
    "pretrained": {"click", "rich", "ray"},
    "train": {"click", "rich", "ray"},
    "probe": {"click", "rich", "ray"},
    "cluster": {"click", "rich"},
    "cli": {"ray"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "elmo_cli" and parts[1] in ALLOWED else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = path.relative_to(PACKAGE).parts[0]
    if room not in ALLOWED:
        return
    rooms = {room_of(name) for name in imported(path)} - {None, room}
    assert rooms <= ALLOWED[room]
    outside = {name.split(".")[0] for name in imported(path)}
    assert not outside & FORBIDDEN.get(room, set())


def test_no_cycle_between_files():
    """A cycle means that no file of it can be read, or imported, by itself."""
    graph = {
        "elmo_cli." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts): imported(path)
        for path in FILES
    }

    def reaches(start: str) -> set[str]:
        seen, open_ = set(), [start]
        while open_:
            for name in graph[open_.pop()] & set(graph):
                if name not in seen:
                    seen.add(name)
                    open_.append(name)
        return seen

    # Embedder.write is a convenience that looks up to the run, inside its body; see there.
    known = {f"elmo_cli.embed.{name}" for name in ("embedder", "job", "run", "block_run")}
    assert {name for name in graph if name in reaches(name)} <= known


def test_click_is_asked_for_with_all_that_main_takes_from_it():
    """click 8.1 lacks NoArgsIsHelpError: every wrong command line would end in a traceback."""
    text = (PACKAGE.parent / "setup.cfg").read_text(encoding="utf-8")
    major, minor = map(int, re.search(r"click>=(\d+)\.(\d+)", text).groups())
    assert (major, minor) >= (8, 2)


def test_packages_are_all_in_setup_cfg():
    """A room that setup.cfg forgets would be missing from the wheel, and from there alone."""
    text = (PACKAGE.parent / "setup.cfg").read_text(encoding="utf-8")
    listed = {line.strip() for line in text.splitlines() if line.strip().startswith("elmo_cli.")}
    rooms = {
        "elmo_cli." + ".".join(init.parent.relative_to(PACKAGE).parts)
        for init in PACKAGE.rglob("__init__.py")
        if init.parent != PACKAGE
    }
    assert rooms <= listed


def test_the_page_shows_the_same_drawing():
    """Without it the page would show a house that was torn down long ago."""
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", page, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", rooms)) for room, rooms in rows} == ALLOWED
