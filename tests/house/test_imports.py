"""Imports between the packages are those that docs/architecture.md draws."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "elmo_cli"

# Package -> packages that it may import; each may import the modules at the top.
ALLOWED = {
    "text": set(),
    "model": set(),
    "weightfile": {"model"},
    "pretrained": {"weightfile", "model", "text"},
    "engine": {"model", "text"},
    "store": {"text", "weightfile"},
    "embed": {"engine", "pretrained", "store", "model", "text"},
    "analysis": {"store", "text"},
    "lm": {"pretrained", "weightfile", "engine", "model", "text"},
    "tasks": {"embed", "lm", "pretrained", "store", "engine", "model", "text"},
    "plot": {"analysis", "store", "text"},
    "cluster": {"embed", "engine", "pretrained", "store", "text"},
}
ALLOWED["cli"] = set(ALLOWED)
DISPLAY = {"click", "rich"}
FORBIDDEN = {package: DISPLAY | {"ray"} for package in ALLOWED}
FORBIDDEN |= {"cluster": DISPLAY, "cli": {"ray"}}
FORBIDDEN["text"] |= {"torch", "h5py"}
FORBIDDEN["store"] |= {"torch"}
FORBIDDEN["model"] |= {"h5py"}
FORBIDDEN["engine"] |= {"h5py"}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_is_drawn(package):
    for path in (PACKAGE / package).rglob("*.py"):
        names = [name.split(".") for name in imported(path)]
        ours = {name[1] for name in names if name[0] == "elmo_cli" and len(name) > 1}
        assert ours & set(ALLOWED) <= ALLOWED[package] | {package}, path
        assert not {name[0] for name in names} & FORBIDDEN[package], path


def test_no_import_cycle():
    files = {str(path.relative_to(PACKAGE.parent)): path for path in PACKAGE.rglob("*.py")}
    names = {name[:-3].replace("/", "."): path for name, path in files.items()}
    graph = {name: imported(path) & names.keys() for name, path in names.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_setup_cfg_lists_all_packages_and_the_click_that_main_needs():
    """click 8.1 has no NoArgsIsHelpError, which `cli/main.py` imports."""
    text = (PACKAGE.parent / "setup.cfg").read_text(encoding="utf-8")
    major, minor = map(int, re.search(r"click>=(\d+)\.(\d+)", text).groups())
    assert (major, minor) >= (8, 2)
    packages = {init.parent.relative_to(PACKAGE.parent) for init in PACKAGE.rglob("__init__.py")}
    assert {".".join(package.parts) for package in packages} <= set(text.split())


def test_docs_draw_the_same_imports():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", page, re.MULTILINE)
    drawn = {package: set(re.findall(r"`(\w+)`", names)) for package, names in rows}
    assert drawn == ALLOWED
