"""Imports between the packages are those that docs/architecture.md draws."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "elmo_cli"

# Package -> packages that it may import, as the page says; each may import the modules at the top.
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
ALLOWED = {
    package: set(re.findall(r"`(\w+)`", names))
    for package, names in re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", PAGE, re.MULTILINE)
}
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


def test_setup_cfg_and_the_page_list_all_packages():
    """click 8.1 has no NoArgsIsHelpError, which `cli/main.py` uses."""
    text = (PACKAGE.parent / "setup.cfg").read_text(encoding="utf-8")
    major, minor = map(int, re.search(r"click>=(\d+)\.(\d+)", text).groups())
    assert (major, minor) >= (8, 2)
    packages = {init.parent.relative_to(PACKAGE.parent) for init in PACKAGE.rglob("__init__.py")}
    assert {".".join(package.parts) for package in packages} <= set(text.split())
    assert {package.parts[1] for package in packages if package.parts[1:]} == set(ALLOWED)
