"""A text file that is written: whole or not at all, and never in the place of another's."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_cli.errors import OutputError
from elmo_cli.text.new_text import check_new, write_text


def meanwhile(path: Path, *, overwrite: bool) -> Iterator[str]:
    """Lines during which another run writes the same file from its beginning to its end."""
    yield "one\n" * 100_000
    write_text(path, ["other\n"], overwrite=overwrite)
    yield "two\n"


@pytest.mark.parametrize("has_links", [True, False])
def test_a_run_leaves_what_another_has_finished(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the first run goes on writing into the file that the second has finished."""
    if not has_links:

        def no_link(source: str, target: str) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_link)
    path = tmp_path / "v.txt"
    told = r"v\.txt: another process has made it meanwhile"
    with pytest.raises(OutputError, match=told) as caught:
        write_text(path, meanwhile(path, overwrite=False), overwrite=False)
    assert path.read_text() == "other\n"
    (kept,) = set(tmp_path.iterdir()) - {path}
    assert kept.read_text() == "one\n" * 100_000 + "two\n"  # hours of work, perhaps
    assert caught.value.hint == f"what this run wrote is kept as {kept}"


def test_the_last_of_two_runs_wins_where_both_may_overwrite(tmp_path: Path) -> None:
    """Without it a mixture of both would be left, under a name that says it is whole."""
    path = tmp_path / "v.txt"
    write_text(path, meanwhile(path, overwrite=True), overwrite=True)
    assert path.read_text() == "one\n" * 100_000 + "two\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_called_part_stays(tmp_path: Path) -> None:
    """Without it a user's own file of that name, or what it links to, is gone without a word."""
    (tmp_path / "v.part").write_text("precious")
    (tmp_path / "target").write_text("precious")
    (tmp_path / "w.part").symlink_to("target")
    for name in ("v", "w"):
        write_text(tmp_path / name, ["new\n"])
        assert (tmp_path / name).read_text() == "new\n"
        assert (tmp_path / f"{name}.part").read_text() == "precious"
    assert (tmp_path / "w.part").is_symlink()


def test_what_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Without it half a file would stay, and an old one might be lost."""
    path = tmp_path / "v.txt"
    path.write_text("old")
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, most))
    try:
        with pytest.raises(OutputError, match=r"v\.txt: can't be written \(File too large"):
            write_text(path, ["new\n" * 100_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_lines_is_not_told_of_the_file(tmp_path: Path) -> None:
    """Without it a text that can't be read any more is said to be a place that can't be written."""
    path = tmp_path / "v.txt"

    def lines() -> Iterator[str]:
        yield "new\n"
        raise OSError(errno.EIO, "Input/output error", "text.txt")

    with pytest.raises(OSError, match="Input/output error") as caught:
        write_text(path, lines())
    assert not isinstance(caught.value, OutputError)
    assert caught.value.filename == "text.txt"
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_of_the_shell_is_written_to() -> None:
    """Without it `-o >(xz > FILE)` and `-o /dev/stdout | …` end with "No such file"."""
    reading, writing = os.pipe()
    try:
        check_new(f"/dev/fd/{writing}")
        write_text(f"/dev/fd/{writing}", ["one\n", "two\n"])
    finally:
        os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        assert pipe.read() == "one\ntwo\n"
