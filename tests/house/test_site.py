"""The pages of `docs/`: their tree, generated pages, and public names; no Sphinx."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*") if path.suffix in {".md", ".ipynb"})
PYTHON_PAGE = DOCS / "reference" / "python.md"
TOCTREE = re.compile(r"^```\{toctree\}\n(?:^:.*\n)*\n(.*?)^```$", re.M | re.S)
INTEROP = ["allennlp", "bilm_tf", "sklearn", "spacy"]
LONG_PAGES = {DOCS / "contributing" / "modules.md"}  # one line for each module
PUBLIC_MODULES = ["elmo_cli", *(f"elmo_cli.interop.{name}" for name in INTEROP)]


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.fixture
def command_pages(monkeypatch: pytest.MonkeyPatch):
    """The module that writes the pages of the commands."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    yield import_module("command_pages")
    del sys.modules["command_pages"]


def test_every_page_is_in_the_table_of_contents_of_one_index_page() -> None:
    listed = [DOCS / "index.md"]
    for index in DOCS.rglob("index.md"):
        for entries in TOCTREE.findall(index.read_text("utf-8")):
            for entry in entries.split():
                listed += index.parent.glob(f"{entry}.*")
    assert sorted(map(name_of, listed)) == sorted(map(name_of, PAGES))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_directives_are_only_where_github_may_show_them(page: Path) -> None:
    if page.name != "index.md" and page != PYTHON_PAGE:
        assert "```{" not in page.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_is_short(page: Path) -> None:
    if page.suffix == ".md" and page not in LONG_PAGES:
        assert len(page.read_text("utf-8").splitlines()) <= 250


def test_the_page_of_python_has_every_public_name() -> None:
    modules = re.split(r"^\.\. currentmodule:: (.*)$", PYTHON_PAGE.read_text("utf-8"), flags=re.M)
    documented = {}
    for module, text in zip(modules[1::2], modules[2::2], strict=True):
        documented[module] = set(re.findall(r"^\.\. \w+:: (\w+)$", text, re.M))
    public = {module: set(import_module(module).__all__) for module in PUBLIC_MODULES}
    assert documented == public


def test_the_page_of_the_environment_has_every_variable() -> None:
    page = (DOCS / "reference" / "environment.md").read_text("utf-8")
    read = set()
    for path in (ROOT / "elmo_cli").rglob("*.py"):
        read |= set(re.findall(r"environ(?:\.get\(|\[)[\"'](\w+)", path.read_text("utf-8")))
    assert {"ELMO_HOME", "RAY_ADDRESS"} <= read
    for name in sorted(read):
        assert f"`{name}`" in page or f"${name}" in page, name


class TestCommandPages:
    def test_equal_the_help(self, command_pages) -> None:
        assert command_pages.main(["--check"]) == 0

    def test_that_differ_are_named_and_written_again(
        self,
        command_pages,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        folder = tmp_path / "docs" / "reference" / "commands"
        folder.mkdir(parents=True)
        monkeypatch.setattr(command_pages, "_FOLDER", folder)
        command_pages.main([])
        (folder / "embed.md").write_text("changed\n")
        (folder / "removed.md").write_text("# elmo removed\n")
        os.unlink(folder / "kwic.md")
        assert command_pages.main(["--check"]) == 1
        message = capsys.readouterr().err
        for name in ("embed", "removed", "kwic"):
            assert f"docs/reference/commands/{name}.md" in message
        assert "`python docs/_ext/command_pages.py`" in message
        assert "merge" not in message
        command_pages.main([])
        assert command_pages.differing_pages(folder) == []

    def test_escape_prose_and_mark_options_and_pages(self, command_pages) -> None:
        help_text = (
            "Set $ELMO_HOME, not <S> or *; see docs/json.md, `docs/a.md` and `a <b>` (--x-y)."
        )
        assert command_pages._prose(help_text) == (
            r"Set `$ELMO_HOME`, not \<S> or \*; see [docs/json.md](../../json.md), "
            "[docs/a.md](../../a.md) and `a <b>` (`--x-y`)."
        )
