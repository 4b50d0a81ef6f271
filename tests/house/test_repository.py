"""Files of the repository that GitHub shows: the form for bugs, the citation, the tour."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import documented

from elmo_cli.version import __version__

ROOT = Path(__file__).resolve().parents[2]


def parsed(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_form_for_bugs_asks_for_the_command_and_for_elmo_info() -> None:
    form = parsed(".github/ISSUE_TEMPLATE/bug.yml")
    required = []
    for field in form["body"]:
        if field.get("validations", {}).get("required"):
            required.append(field["attributes"]["label"])
    assert required == ["Command and output", "What you expected instead", "Output of `elmo info`"]
    assert documented("info")


def test_the_citation_is_the_paper_and_this_version() -> None:
    citation = parsed("CITATION.cff")
    assert citation["version"] == __version__
    preferred = citation["preferred-citation"]
    assert preferred["doi"] == "10.18653/v1/N18-1202"
    assert preferred["authors"][0]["family-names"] == "Peters"


def test_the_tour_names_files_and_folders_that_exist() -> None:
    tour = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## A tour")[1]
    named = re.findall(r"`((?:elmo_cli|tests|docs)[\w/.]*)`", tour)
    assert len(named) > 20
    missing = [name for name in named if not (ROOT / name).exists()]
    assert missing == ["elmo_cli/cli/NAME.py"]


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = set()
    for line in setup["options"]["install_requires"].split():
        name, least = line.split(">=")
        name = "pytorch" if name == "torch" else name
        required.add(f"{name} >={least}")
    recipe = parsed("packaging/recipe.yaml")
    assert recipe["package"]["version"] == __version__
    python = f"python {setup['options']['python_requires']}"
    assert set(recipe["requirements"]["run"]) == required | {"__unix", python}
    assert recipe["about"]["license"] == setup["metadata"]["license"]
    assert all((ROOT / name).is_file() for name in recipe["about"]["license_file"])


@pytest.mark.parametrize("name", ["Dockerfile", "recipe.yaml"])
def test_what_nobody_has_built_says_so(name: str) -> None:
    first_line = (ROOT / "packaging" / name).read_text(encoding="utf-8").partition("\n")[0]
    assert first_line.endswith("Nobody has built it yet: not run.")


def test_the_image_is_built_from_files_that_exist() -> None:
    """Everything else is left out of what Docker reads, also what another build has left."""
    ignored = (ROOT / "packaging" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert all((ROOT / name.removeprefix("!")).exists() for name in ignored[1:])


def reader_pages() -> list[Path]:
    folder = ROOT / "docs" / "guides" / "readers"
    return sorted(path for path in folder.glob("*.md") if path.name != "index.md")


@pytest.mark.parametrize("page", reader_pages(), ids=lambda page: page.name)
def test_the_page_of_a_reader_is_short_and_shows_the_code_of_its_example(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "| what goes wrong |" in text
    (example,) = re.findall(r"\]\(\.\./\.\./\.\./(examples/readers/\w+\.py)\)", text)
    shown = re.findall(r"is run by tests/examples -->\n```python\n(.*?)```", text, re.S)
    assert len(shown) == 1
    assert shown[0] in (ROOT / example).read_text(encoding="utf-8")


def test_the_pages_of_questions_and_words_have_as_many_as_they_should() -> None:
    docs = ROOT / "docs"
    pairs = re.findall(r"^\|(?! wrong|---).*\|$", (docs / "faq.md").read_text("utf-8"), re.M)
    assert len(pairs) >= 15
    words = re.findall(r"^\|(?! word|---).*\|$", (docs / "glossary.md").read_text("utf-8"), re.M)
    assert 5 <= len(words) <= 10


def test_the_figures_of_the_model_card_are_those_of_its_measurements() -> None:
    """Some are rounded to fewer digits."""
    folder = ROOT / "weights" / "elmo-en"
    card = (folder / "README.md").read_text(encoding="utf-8")
    table = card.split("## How good it is")[1].split("\n\n")[1]
    decimal = re.compile(r"\d+\.\d+")
    measured = set(decimal.findall((folder / "HISTORY.md").read_text(encoding="utf-8")))
    figures = decimal.findall(table)
    assert len(figures) > 15
    for figure in figures:
        digits = len(figure.partition(".")[2])
        assert figure in measured | {f"{float(number):.{digits}f}" for number in measured}, figure
