"""What goes bad while `elmo embed --ray` runs: full disk, closed folder, text that vanishes.

Each time it is said what is missing and why, and the same command makes that and nothing else.
Behind `make test-ray`, which installs Ray.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_runs import N_SHARDS, begun, check_whole, ended, same, shards, wait_until
from command_line import made
from disks import read_only, small_disk

pytestmark = [pytest.mark.ray, pytest.mark.slow]

Whole = Callable[[str], Path]


def test_the_disk_is_full(text: Path, whole: Whole, tiny: Path, tmp_path: Path) -> None:
    """Shards that fit are whole, and nothing of the others takes up the room."""
    size = whole("allennlp").stat().st_size
    with small_disk(tmp_path / "disk", int(size * 3.5 / N_SHARDS)) as disk:
        out = disk.folder / "shards"
        facts, said = ended(begun(text, out, tiny), code=1)
        n_made = len(facts["shards"])
        assert 1 <= n_made <= 3
        assert len(facts["missing"]) == N_SHARDS - n_made
        assert all("No space left on device" in one["error"] for one in facts["missing"])
        assert said.startswith(f"error: {out}/: {N_SHARDS - n_made} of 6 shards are missing")
        assert said.endswith("; then the same command makes those alone")
        assert "--resume" not in said  # which the command does not take
        files = sorted(path.name for path in out.rglob("*") if path.is_file())
        assert files == facts["shards"]
        disk.grow(4 * size)  # shards, merged file and what lies beside it
        again, _ = ended(begun(text, out, tiny))
        assert again["computed_tokens"] == again["tokens"] * (N_SHARDS - n_made) / N_SHARDS
        check_whole(out, whole("allennlp"), again)


def test_the_folder_is_closed(text: Path, whole: Whole, tiny: Path, tmp_path: Path) -> None:
    """In the middle of the run; what was made before stays."""
    out = tmp_path / "shards"
    process = begun(text, out, tiny)
    wait_until(lambda: shards(out), process)
    with read_only(out):
        facts, said = ended(process, code=1)
    n_made = len(facts["shards"])
    assert 1 <= n_made < N_SHARDS
    assert len(facts["missing"]) == N_SHARDS - n_made
    first = facts["missing"][0]["error"]
    assert first.startswith(f"{out}/part-0")
    assert first.endswith((": Operation not permitted", ": Permission denied"))
    assert said.splitlines()[-1].endswith("; then the same command makes those alone")
    again, _ = ended(begun(text, out, tiny))
    assert again["computed_tokens"] == again["tokens"] * (N_SHARDS - n_made) / N_SHARDS
    check_whole(out, whole("allennlp"), again)


def test_a_folder_that_is_closed_from_the_start(text: Path, tiny: Path, tmp_path: Path) -> None:
    """Two lines before any work."""
    with read_only(tmp_path):
        process = begun(text, tmp_path / "shards", tiny)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    says, hint = err.splitlines()[-2:]
    assert says.startswith(f"error: {tmp_path / 'shards'}: ")
    assert hint.startswith("hint: ")


def surveyed(process: subprocess.Popen[str]) -> None:
    """Wait until the text has been looked at, and is soon to be read."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.endswith("shards, 2 workers\n"):
            return


def halves(text: Path, folder: Path) -> list[Path]:
    """Two texts of 12,000 lines each."""
    lines = text.read_bytes().splitlines(keepends=True)
    paths = [folder / "first.txt", folder / "second.txt"]
    for path, part in zip(paths, (lines[:12_000], lines[12_000:]), strict=True):
        path.write_bytes(b"".join(part))
    return paths


@pytest.mark.parametrize(
    ("how", "missing", "says"),
    [
        ("gone", [1, 2, 3, 4, 5, 6], "no such file"),
        ("shorter", [5, 6], "has changed since the run began"),
        ("other", [4, 5, 6], "has changed since the run began"),
    ],
)
def test_a_text_is_not_what_was_looked_at(
    text: Path, tiny: Path, tmp_path: Path, how: str, missing: list[int], says: str
) -> None:
    """Shards of another text, under the checksum of this one, would be merged with those of it."""
    first, second = halves(text, tmp_path)
    out, good = tmp_path / "shards", second.read_bytes()
    process = begun([first, second], out, tiny)
    surveyed(process)
    if how == "gone":
        second.unlink()
    else:
        second.write_bytes(good[: len(good) // 2] if how == "shorter" else good.swapcase())
    facts, said = ended(process, code=1)
    assert [one["shard"] for one in facts["missing"]] == missing
    assert {one["error"] for one in facts["missing"]} == {f"{second}: {says}"}
    word = f"{len(missing)} of 6 shards are missing, the first {missing[0]}"
    assert said.startswith(f"error: {out}/: {word}: {second}: {says}\nhint: ")
    second.write_bytes(good)
    again, _ = ended(begun([first, second], out, tiny))
    assert again["computed_tokens"] == again["tokens"] * len(missing) / N_SHARDS
    merged, whole = tmp_path / "merged.hdf5", tmp_path / "whole.hdf5"
    made("merge", *shards(out), "-o", merged, "-q")
    made("embed", first, second, "-o", whole, "-m", tiny, "-q", "--threads", "1")
    same(merged, whole)
