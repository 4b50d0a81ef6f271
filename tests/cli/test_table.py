"""Tables on a terminal: aligned, without a broken word, continued where they are too wide."""

from __future__ import annotations

import pytest

from elmo_cli.cli import console
from elmo_cli.cli.probe import _COLUMNS
from elmo_cli.cli.table import print_table

PROBE_HEADINGS = ("%", *(column.heading for column in _COLUMNS))  # nine with --control and --mdl
PROBE_ROWS = (
    ("majority label per word", "88.12", "88.31", "24.11", "", "", "", "", ""),
    ("layer 0", "97.12", "97.11", "90.44", "1e-05", "74.22", "22.90", "1,234,567", "12.44"),
    ("layer 1", "97.1", "97", "90.4", "1e-05 (smallest)", "74.2", "22.9", "1,567", "12.4"),
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    return monkeypatch


def printed(
    capsys: pytest.CaptureFixture[str], terminal: pytest.MonkeyPatch, width: int
) -> list[str]:
    """The lines of the table of a probe on a terminal of `width` columns."""
    terminal.setenv("COLUMNS", str(width))
    print_table(PROBE_HEADINGS, PROBE_ROWS)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_one_column_is_right_aligned(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words before that of a query end where it begins."""
    rows = [("1", "the", "cat"), ("22", "of the old", "dog")]
    print_table(("key", "before", "token"), rows, right="before")
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.index("the") == second.index("old")
    assert first.startswith("1 ")
    assert second.startswith("22 ")


def test_in_a_pipe_cells_are_separated_by_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(PROBE_HEADINGS, PROBE_ROWS)
    expected = ["\t".join(row) for row in (PROBE_HEADINGS, *PROBE_ROWS)]
    assert capsys.readouterr().out.splitlines() == expected


def test_a_row_is_one_line_where_there_is_space(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    header, baseline, *_ = printed(capsys, terminal, 160)
    assert header.split() == " ".join(PROBE_HEADINGS).split()
    assert baseline == "majority label per word  88.12  88.31  24.11"


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120])
def test_no_word_is_broken(
    width: int, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, terminal, width)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    cells = " ".join(cell for row in (PROBE_HEADINGS, *PROBE_ROWS) for cell in row)
    assert words == set(cells.split())


def test_columns_without_space_follow_below_with_the_first_column(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, terminal, 80)
    below = lines[lines.index("") + 1 :]
    assert [line.split() for line in below] == [
        ["%", "compression"],
        ["majority", "label", "per", "word"],
        ["layer", "0", "12.44"],
        ["layer", "1", "12.4"],
    ]


def test_the_widest_column_gives_way_and_a_long_word_of_a_cell_is_folded(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "40")
    print_table(("name", "where"), [("elmo-en", "/folder" * 10)])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "where"]
    assert [len(line) for line in lines] == [40, 40, 40]
    assert "".join(line[9:] for line in lines).strip() == "/folder" * 10


@pytest.mark.parametrize("width", [3, 5, 12])
def test_nothing_is_lost_on_the_narrowest_terminal(
    width: int, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", str(width))
    print_table(("a", "b"), [("1", "2" * 30)])
    assert capsys.readouterr().out.count("2") == 30


def test_a_table_without_rows_has_its_headings(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(("name", "where"), [])
    assert capsys.readouterr().out.split() == ["name", "where"]


def test_a_table_is_not_read_as_markup(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(("token",), [("[b]",)])
    assert capsys.readouterr().out.split() == ["token", "[b]"]
