"""Files of pictures."""

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
    for name in ("a", "b"):
        with new_figure(tmp_path / f"{name}.{suffix}", 2, 1) as figure:
            figure.text(0, 0.5, as_label(text) + "日")
    first, second = (tmp_path / f"{name}.{suffix}" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(("library", "name"), [("bokeh", "a.html"), ("matplotlib", "a.SVG")])
def test_a_missing_library_is_named(
    library: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ElmoError, match=f"{name}: {library} is not installed") as caught:
        check_format(name, html=True)
    assert caught.value.hint == "`pip install '.[plot]'` in a clone"
