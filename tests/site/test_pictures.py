"""The picture of the README is what `make pictures` draws, and its labels can be read."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("play-light.svg", "play-dark.svg")


@pytest.fixture(scope="module")
def play() -> ModuleType:
    """The program that draws it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return import_module("play")


def test_drawing_it_again_changes_nothing(
    play: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    play.main(tmp_path)
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_is_small_and_has_a_text_alternative_and_few_labels(name: str) -> None:
    assert (FOLDER / name).stat().st_size < 60_000
    picture = ElementTree.parse(FOLDER / name).getroot()
    assert "two groups" in (picture.findtext(f"{SVG}desc") or "")
    texts = picture.findall(f"{SVG}text")
    assert 4 <= len(texts) - 2 <= 8  # two of them are titles
    width = float(picture.attrib["viewBox"].split()[2])
    assert 390 / width * float(picture.attrib["font-size"]) >= 12  # in pixels of a telephone


@pytest.mark.parametrize(
    ("place", "problem"),
    [((10, 150), "across the frame"), ((300, 150), "not enough space")],
)
def test_a_label_without_space_is_refused(
    play: ModuleType, place: tuple[int, int], problem: str
) -> None:
    label = play.make_label("We saw the play twice.", place, "left", "black")
    with pytest.raises(ValueError, match=problem):
        play.check_labels([label], [place, (200, 150)])
