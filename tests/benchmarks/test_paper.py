"""The grid of the paper's tables: its cells exist, and its report says what the seeds show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.paper.cells import FILES, PARTS, SEEDS, WITH, WITHOUT, cell_of, cells_of
from benchmarks.paper.report import (
    RESULTS,
    difference,
    draw,
    read_results,
    table,
    tables,
    tries_table,
)
from elmo_cli.tasks.task import load_task


@pytest.mark.parametrize("part", PARTS)
def test_cells_have_settings_of_their_tasks(part: str) -> None:
    for cell in cells_of(part):
        settings = dict(cell.settings)
        preset = settings.pop("preset", None)
        task = load_task(FILES[cell.task].task, settings, preset)
        assert cell.command(Path("data"), Path("work"))[:2] == ["train", task.name]


def test_cells_share_a_run_only_if_their_settings_are_equal() -> None:
    cells = [cell for part in PARTS for cell in cells_of(part)]
    commands: dict[str, set[str]] = {}
    for cell in cells:
        command = json.dumps(cell.command(Path("data"), Path("work")))
        commands.setdefault(cell.name, set()).add(command)
    for name, commands_of_run in commands.items():
        assert len(commands_of_run) == 1, name
    assert len(commands) < len(cells)


def test_the_page_has_the_tables_of_the_report() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "elmo-in-tasks.md").read_text(
        "utf-8"
    )
    n_shown = 0
    for title, lines in tables(read_results(RESULTS)).items():
        if f"## {title}\n" in page:
            assert "\n".join(lines) in page
            n_shown += 1
    assert n_shown >= 4


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([70, 71, 72], [73, 74, 75], "+3.0"),
        ([73, 74, 75], [70, 71, 72], "-3.0"),
        ([70, 71, 73], [72, 74, 75], "no difference shown"),
        ([70, 71], [73, 74, 75], "not run"),
    ],
)
def test_only_what_three_seeds_separate_is_a_difference(
    first: list[float], second: list[float], words: str
) -> None:
    assert difference(first, second) == words


def test_the_report_reads_the_results_of_cells(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    mix = {"input": {"weights": [0.2, 0.3, 0.5], "gamma": 1.0}}
    lines = []
    for variant, score in ((WITHOUT, 50.0), (WITH, 54.0)):
        for seed in SEEDS:
            name = cell_of("table1", "NER", variant, seed).name
            result = {"cell": name, "dev": 61.0, "mix": mix if variant == WITH else {}, "cpu_s": 9}
            lines += [result, {**result, "test": score + seed}]  # tried on dev, then tested
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = read_results(path)
    assert "| NER | 51.0 ± 1.0 | 55.0 ± 1.0 | +4.0 | 90.15, 92.22 |" in table(results, "table1")
    assert tries_table(results)[2 + FILES["NER"].chosen].endswith("| **61.0** |")
    draw(results, tmp_path)
    assert (tmp_path / "figure1.svg").exists()
    assert "NER, input" in (tmp_path / "figure2.svg").read_text("utf-8")
