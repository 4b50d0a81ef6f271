"""The page of benchmarks has the tables that the report prints from the records of measurements."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from benchmarks.speed.report import RESULTS, NamedRecord, read_records, sections, spread

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
RECORDS = read_records(sorted(RESULTS.glob("*.json")))


def test_the_page_has_the_tables_of_the_report() -> None:
    texts = sections(RECORDS)
    assert len(texts) == 4  # one for each kind of measurement
    for text in texts:
        assert text in PAGE


def test_the_page_links_every_record() -> None:
    for record in RECORDS:
        assert f"(../benchmarks/results/{record.name})" in PAGE


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a Markdown table, their cells by the names of the columns."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return [dict(zip(header, cells, strict=True)) for cells in rows]


def test_the_readme_has_figures_of_the_table() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (table,) = [text for text in sections(RECORDS) if "computing alone" in text]
    median_of = {}
    for row in rows_of(table):
        if row["tokens"] == "80,006":
            speed, *_ = row["from start to closed file, tokens/s"].split()
            memory, *_ = row["peak memory, MB"].split()
            median_of[row["model"]] = {"tokens/s": speed, "MB": memory}
    for model in ("small", "original"):
        assert f"| {model} model, tokens/s | **{median_of[model]['tokens/s']}** |" in readme
    assert f"| peak memory, small model | **{median_of['small']['MB']} MB** |" in readme


def test_records_have_neither_folders_nor_names_of_users() -> None:
    """They are published."""
    for path in RESULTS.glob("*.json"):
        text = path.read_text("utf-8")
        for name in ("/home", "/root", "/tmp", "/work", "/dev/shm"):
            assert name not in text, path.name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("elmo", {"version": "0.0.1", "source": "wheel"}),
        ("python", "3.99"),
    ],
)
def test_records_of_different_surroundings_share_no_table(field: str, value: object) -> None:
    other = copy.deepcopy(RECORDS[0].facts)
    other[field] = value
    with pytest.raises(SystemExit, match="not of one machine"):
        sections([RECORDS[0], NamedRecord("other.json", other)])


def test_a_table_has_the_days_of_its_records() -> None:
    other = copy.deepcopy(RECORDS[0].facts)
    other["date"] = "2020-01-01T00:00:00+00:00"
    (text,) = sections([RECORDS[0], NamedRecord("other.json", other)])
    assert f"Measured 2020-01-01 to {RECORDS[0].facts['date'][:10]} on " in text


@pytest.mark.parametrize(
    ("values", "digits", "expected"),
    [
        ([1234.5], 0, "1,234"),
        ([3.0, 1.0, 2.04], 1, "2.0 (1.0 to 3.0)"),
        ([1.0, 2.0], 2, "1.50 (1.00 to 2.00)"),
    ],
)
def test_a_cell_has_the_median_and_the_range(
    values: list[float], digits: int, expected: str
) -> None:
    assert spread(values, digits) == expected
