"""Files of figures: their bytes, their labels and the libraries that draw them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from elmo_cli.errors import ElmoError
from elmo_cli.plot.figure import (
    COLORS,
    as_label,
    check_format,
    color_of,
    layer_name,
    new_figure,
    write_figure,
)


@pytest.mark.parametrize(
    ("text", "label"),
    [("a$b$", r"a\$b\$"), ("_x", " _x"), ("a\n\x1b[1m\udc80", "a  [1m "), ("ab" * 31, "ab…ab")],
)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_any_text_can_be_a_label(text: str, label: str, suffix: str, tmp_path: Path) -> None:
    """And the same picture has the same bytes."""
    assert as_label(text, 4 if len(text) > 60 else 60) == label
    first = tmp_path / f"a.{suffix}"
    second = tmp_path / f"b.{suffix}"
    for path in (first, second):
        with pytest.warns(UserWarning, match="lacks 1 character"):
            draw_title(path, as_label(text) + "日")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("module", "library", "name"),
    [
        ("bokeh", "bokeh", "a.html"),
        ("matplotlib", "matplotlib", "a.SVG"),
        ("sklearn", "scikit-learn", "a.html"),
        ("sklearn", "scikit-learn", "a.png"),
    ],
)
def test_a_missing_library_of_a_plot_of_tokens_is_named(
    module: str, library: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ElmoError) as caught:
        check_format(name, of_tokens=True)
    assert caught.value.message == f"{name}: {library} is not installed"
    assert caught.value.hint == "`pip install '.[plot]'` in a clone"


@pytest.mark.parametrize(("module", "name"), [("bokeh", "a.png"), ("sklearn", "a.svg")])
def test_a_library_that_a_plot_does_not_use_may_be_missing(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert check_format(name) == name[2:]


def test_colors_repeat_and_layers_have_names() -> None:
    assert [color_of(number) for number in (0, 5, 6, 13)] == [COLORS[n] for n in (0, 5, 0, 1)]
    names = ["token layer", "LSTM layer 12", "top"]
    assert [layer_name(layer) for layer in ("0", 12, "top")] == names


def draw_title(path: Path, title: str) -> None:
    with new_figure(2, 2) as figure:
        axes = figure.subplots()
        axes.set_title(title)
        axes.set_xlabel(title[:1])
    write_figure(figure, path)


def test_characters_that_the_font_lacks_are_named_once(tmp_path: Path) -> None:
    """A figure of boxes looks finished; only the person who knows the text sees what is missing."""
    path = tmp_path / "a.svg"
    with pytest.warns(UserWarning, match=r"lacks 6 characters \(日 本 語 文 字\), drawn") as caught:
        draw_title(path, "日本語文字化日 b")
    assert len(caught) == 1
    assert str(path) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_title(path, "\u00e9 \u0436 b")
