"""A resumed run whose limit is already reached."""

from __future__ import annotations

from pathlib import Path

from command_line import made


def test_a_run_that_goes_on_for_no_step_says_so(tmp_path: Path) -> None:
    """It looks as if it had been trained, and the limit of a part is what one thinks of."""
    (tmp_path / "a.txt").write_text("the cat sees the dog .\n" * 40)
    out, sizes = (
        tmp_path / "m",
        ("--lstm-dim", 8, "--projection-dim", 4, "--batch-size", 2, "--threads", 1),
    )
    made("pretrain", tmp_path / "a.txt", "-o", out, "--max-steps", 2, *sizes)
    go_on = ("pretrain", "-o", out, "--resume")
    assert "no step" not in made(*go_on, "--max-steps", 3).err
    assert "warning: no step was made, as max_steps=3 is reached: limits count" in made(*go_on).err
    assert (
        "no step was made, as max_seconds=0.001 is reached"
        in made(*go_on, "--max-seconds", 0.001, "--max-steps", 9).err
    )
