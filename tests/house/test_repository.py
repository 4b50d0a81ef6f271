"""Files of the repository that GitHub shows: the form for bugs, the citation, the tour."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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
