"""Imports between packages and sizes of modules are as architecture.md says; names are unique."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from module_index import index_of_modules

PACKAGE = Path(__file__).resolve().parents[2] / "elmo_cli"

# Package -> packages that it may import, as the page says; each may import the modules at the top.
PAGES = PACKAGE.parent / "docs" / "contributing"
PAGE = (PAGES / "architecture.md").read_text(encoding="utf-8")
ALLOWED = {
    package: set(re.findall(r"`(\w+)`", names))
    for package, names in re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", PAGE, re.MULTILINE)
}
_LIST = PAGE.split("modules at the top:")[1].split("Nothing inside")[0]
MODULES_AT_THE_TOP = set(re.findall(r"`(\w+)\.py`", _LIST))
OWN_MODULES = {"cli": {"installation"}}  # for one command each
DISPLAY = {"click", "rich"}
CONSUMERS = {"gensim", "pandas", "polars", "pyarrow", "spacy", "thinc"}
FORBIDDEN = {package: DISPLAY | CONSUMERS | {"ray"} for package in ALLOWED}
FORBIDDEN |= {"cluster": DISPLAY | CONSUMERS, "cli": CONSUMERS | {"ray"}}
FORBIDDEN["interop"] = DISPLAY | {"ray"}
FORBIDDEN["text"] |= {"torch", "h5py"}
FORBIDDEN["store"] |= {"torch"}
FORBIDDEN["model"] |= {"h5py"}
FORBIDDEN["engine"] |= {"h5py"}


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module, which several tests need."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def trees_of_this_module_only():
    """The trees of hundreds of files take memory, which each fork of a later test would copy."""
    yield
    tree.cache_clear()


@cache
def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_is_drawn(package):
    allowed = {package} | ALLOWED[package] | MODULES_AT_THE_TOP | OWN_MODULES.get(package, set())
    for path in (PACKAGE / package).rglob("*.py"):
        ours = set()
        libraries = set()
        for name in imported(path):
            first, *rest = name.split(".")
            if first != "elmo_cli":
                libraries.add(first)
            elif rest:
                ours.add(rest[0])
        assert ours <= allowed, path
        assert not libraries & FORBIDDEN[package], path


def test_the_modules_at_the_top_import_no_package():
    """Else a package could import another one by way of them."""
    for module in MODULES_AT_THE_TOP:
        names = [name.split(".") for name in imported(PACKAGE / f"{module}.py")]
        ours = {rest[0] for first, *rest in names if first == "elmo_cli" and rest}
        assert ours <= MODULES_AT_THE_TOP, module


def test_the_package_itself_is_imported_by_nobody():
    """`elmo_cli/__init__.py` imports the packages, so such an import would point back up."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "elmo_cli":
                names = [alias.name for alias in node.names]
                assert all((PACKAGE / f"{name}.py").exists() for name in names), path


def names_of_classes(path: Path) -> list[str]:
    """Classes and type aliases of a module, without leading underscores."""
    names = []
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    stripped = [name.lstrip("_") for name in names]
    return [name for name in stripped if name[:1].isupper() and not name.isupper()]


@pytest.mark.parametrize("folder", ["elmo_cli", "tests"])
def test_no_two_classes_share_a_name(folder):
    """A reader who searches for a name finds one thing; leading underscores make no difference."""
    modules_of = {}
    for path in sorted((PACKAGE.parent / folder).rglob("*.py")):
        for name in names_of_classes(path):
            modules_of.setdefault(name, []).append(str(path.relative_to(PACKAGE.parent)))
    repeated = {name: paths for name, paths in modules_of.items() if len(paths) > 1}
    assert repeated == {}


def test_the_page_lists_all_modules(request):
    """With `--update-golden` the list is written again."""
    page = PAGES / "modules.md"
    expected = index_of_modules(PACKAGE)
    if request.config.getoption("--update-golden"):
        page.write_text(expected, encoding="utf-8")
    else:
        assert page.read_text(encoding="utf-8") == expected


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


def test_no_module_is_longer_than_the_page_says() -> None:
    (limit,) = re.findall(r"A module has at most (\d+) lines", PAGE)
    lengths = {}
    for path in PACKAGE.rglob("*.py"):
        lengths[path] = len(path.read_text(encoding="utf-8").splitlines())
    assert {path for path, length in lengths.items() if length > int(limit)} == set()
