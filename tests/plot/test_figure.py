"""Files of figures: their bytes, their labels and the libraries that draw them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elmo_cli.errors import ElmoError
from elmo_cli.plot.figure import as_label, check_format, new_figure


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
        with new_figure(path, 2, 1) as figure:
            figure.text(0, 0.5, as_label(text) + "日")
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
