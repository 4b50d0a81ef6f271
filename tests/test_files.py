"""Output files: complete or absent, never in the place of another's, one writer at a time."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import disk_of

from elmo_cli.errors import ModelError, OutputError, UsageError
from elmo_cli.files import (
    check_distinct,
    check_output_path,
    is_folder,
    new_file,
    os_errors_as,
    output_errors,
    write_text,
)
from elmo_cli.messages import tsv_line


def lines_during_another_run(path: Path, *, overwrite: bool) -> Iterator[str]:
    """Lines during which another run writes the same file from its beginning to its end."""
    yield "one\n" * 100_000
    write_text(path, ["other\n"], overwrite=overwrite)
    yield "two\n"


def test_a_file_that_appears_meanwhile_is_kept_and_so_is_the_output(tmp_path: Path) -> None:
    """Nobody asked to overwrite it, and the output may be hours of work; nor is it a mixture."""
    path = tmp_path / "v.txt"
    with pytest.raises(OutputError, match=r"v\.txt: was created by another process") as caught:
        write_text(path, lines_during_another_run(path, overwrite=False), overwrite=False)
    assert path.read_text() == "other\n"
    (kept,) = set(tmp_path.iterdir()) - {path}
    assert kept.read_text() == "one\n" * 100_000 + "two\n"
    assert str(kept) in caught.value.hint
    write_text(
        path, lines_during_another_run(path, overwrite=True)
    )  # the last of two runs wins, and whole
    assert path.read_text() == "one\n" * 100_000 + "two\n"


def test_a_link_is_followed_and_a_file_called_part_stays(tmp_path: Path) -> None:
    """A renaming would replace the link; a fixed temporary name would destroy a user's file."""
    (tmp_path / "v.part").write_text("precious")
    (tmp_path / "v").symlink_to("target")
    write_text(tmp_path / "v", ["new\n"])
    assert (tmp_path / "v").is_symlink()
    assert (tmp_path / "target").read_text() == "new\n"
    assert (tmp_path / "v.part").read_text() == "precious"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_loop_of_links_is_refused_before_any_work(overwrite: bool, tmp_path: Path) -> None:
    """The finished output would be kept under another name, or replace a link."""
    (tmp_path / "v").symlink_to("w")
    (tmp_path / "w").symlink_to("v")
    with pytest.raises(OutputError, match=r"v: cannot be written \(Too many levels") as caught:
        check_output_path(tmp_path / "v", overwrite=overwrite)
    assert caught.value.hint
    assert {path.is_symlink() for path in tmp_path.iterdir()} == {True}


@pytest.mark.parametrize("resumable", [False, True])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(resumable: bool, tmp_path: Path) -> None:
    """Half a file would stay, or the hint would promise what was not kept."""
    path = tmp_path / "v.txt"
    path.write_text("old")
    with (
        disk_of(1 << 16),
        pytest.raises(OutputError, match=r"v\.txt: no space left") as caught,
        new_file(path, durable=True, resumable=resumable) as file,
    ):
        file.write(b"new\n" * 100_000)
    assert caught.value.resumable is resumable
    assert ("resume=True" in caught.value.hint) is resumable
    with pytest.raises(ZeroDivisionError), new_file(path) as file:
        file.write(b"half" * (1 // 0))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_of_the_shell_is_written_to() -> None:
    """`-o >(xz > FILE)` and `-o /dev/stdout | …` would end with "No such file"."""
    reading, writing = os.pipe()
    try:
        check_output_path(f"/dev/fd/{writing}")
        write_text(f"/dev/fd/{writing}", ["one\n", "two\n"])
        with pytest.raises(OutputError, match="not a regular file"):
            check_output_path(f"/dev/fd/{writing}", regular=True)
    finally:
        os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        assert pipe.read() == "one\ntwo\n"
    with pytest.raises(BrokenPipeError), output_errors("v"):  # `| head`: no error of the file
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", r"file: exists"),
        ("link", r"link: exists"),
        ("folder", r"folder: is a folder"),
        ("new/", r"new/: is a folder"),
        ("none/v.txt", r"there is no folder .*/none"),
        ("file/v.txt", r"/file is not a folder"),
        ("file/sub/v.txt", r"/file/sub is not a folder"),
        ("v.txt.GZ", r"would not be compressed"),
        ("v.xz", r"would not be compressed"),
        ("v.txt.bz2", r"would not be compressed"),
        ("v" * 242, r"cannot be written \(File name too long\)"),
        ("v" * 256, r"cannot be written \(File name too long\)"),
    ],
)
def test_output_paths_that_are_refused(name: str, message: str, tmp_path: Path) -> None:
    """The run would be refused at its end, after hours of work, or destroy a file."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=message):
        check_output_path(f"{tmp_path}/{name}")
    if "exists" in message:
        check_output_path(f"{tmp_path}/{name}", overwrite=True)
    check_output_path(tmp_path / "new")


@pytest.mark.parametrize(
    ("output", "inputs", "message"),
    [
        ("v", ["a", "v"], "(?m)v: is also one of the inputs$"),
        ("v", ["link"], r"v: is also one of the inputs \(.*link\)"),
        ("v", ["hard"], r"v: is also one of the inputs \(.*hard\)"),
        ("link", [None, "v"], r"link: is also one of the inputs \(.*v\)"),
        ("v", ["model"], r"v: is also one of the inputs \(.*model/weights\)"),
    ],
)
def test_an_output_that_is_also_read(
    output: str, inputs: list[str | None], message: str, tmp_path: Path
) -> None:
    """Writing it would destroy what is read."""
    for name in ("v", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("v")
    (tmp_path / "model").mkdir()
    for name in ("hard", "model/weights"):
        os.link(tmp_path / "v", tmp_path / name)
    paths = [None if name is None else tmp_path / name for name in inputs]
    with pytest.raises(UsageError, match=message):
        check_distinct(tmp_path / output, paths)
    with pytest.raises(UsageError, match="is also a file of the model"):
        check_distinct(tmp_path / output, paths, what="a file of the model")
    check_distinct(tmp_path / output, [tmp_path / "a", None, tmp_path / "none", "/dev/null"])


@pytest.mark.parametrize(("stream", "output", "read"), [(1, "-", "x.txt"), (0, "x.txt", "-")])
def test_a_standard_stream_that_is_also_the_other_file_is_refused(
    stream: int,
    output: str,
    read: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """`elmo tokenize x.txt >> x.txt` would read what it writes for ever."""
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("x")
    saved = os.dup(stream)
    try:
        with open("x.txt", "r+b") as file:
            os.dup2(file.fileno(), stream)
            with pytest.raises(UsageError, match=f"^{output}: is also one of the inputs"):
                check_distinct(output, [read])
    finally:
        os.dup2(saved, stream)
        os.close(saved)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "no space left"),
        ((errno.EACCES, errno.ENAMETOOLONG), "cannot be written"),
        ((errno.ENOENT,), "there is no folder"),
        ((errno.ENOTDIR,), "is not a folder"),
        ((errno.EEXIST,), "is a file, not a folder"),
    ],
)
def test_errors_of_the_system(codes: tuple[int, ...], message: str) -> None:
    """A user needs the path, the reason and what to do next."""
    for code in codes:
        with pytest.raises(OutputError, match=f"^a/v: .*{message}") as caught, output_errors("a/v"):
            raise OSError(code, os.strerror(code))
        assert caught.value.hint


def test_hints_about_a_path_can_be_followed(tmp_path: Path) -> None:
    """Pasted into a shell, the command makes the folder, and not two others."""
    with pytest.raises(OutputError) as caught:
        check_output_path(tmp_path / "my texts" / "v.txt")
    subprocess.run(caught.value.hint.strip("`"), shell=True, check=True, cwd=tmp_path)
    check_output_path(tmp_path / "my texts" / "v.txt")
    with pytest.raises(OutputError) as caught:
        check_output_path(tmp_path / ("v" * 256))
    assert "shorter" in caught.value.hint


def test_what_names_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    names = (f"{tmp_path}", f"{tmp_path}/new/", f"{tmp_path}/new", f"{tmp_path}/file")
    assert [is_folder(name) for name in names] == [True, True, False, False]


def test_a_cell_is_on_one_line() -> None:
    """A file name with a tab or a line end would shift all columns after it."""
    assert tsv_line("a\tb", 1, "c\nd\r", "e\\") == "a\\tb\t1\tc\\nd\\r\te\\\\\n"


def test_what_killed_runs_left_of_an_output_is_removed(tmp_path: Path) -> None:
    """But not what another process is writing, nor files of the user with similar names."""
    path = tmp_path / "v.txt"
    others = ("v.txt.part", "v.txt.0123456.part", "w.txt.01234567.part", "v.txt.0123456g.part")
    for name in (*others, "v.txt.01234567.part", "v.txt.89abcdef.part"):
        (tmp_path / name).write_text("half")
    with new_file(path) as file:
        file.write(b"one")
        write_text(path, ["two\n"])
        assert len([name for name in os.listdir(tmp_path) if name.endswith(".part")]) == 5
    assert path.read_text() == "one"
    assert {found.name for found in tmp_path.iterdir()} == {"v.txt", *others}


@pytest.mark.parametrize("durable", [False, True])
def test_only_a_durable_file_is_on_the_disk_before_it_has_its_name(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure, a checkpoint could be empty; for a small text it would only wait."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))
        )
    write_text(tmp_path / "v", ["a\udcff\n"], durable=durable, errors="surrogateescape")
    assert (tmp_path / "v").read_bytes() == b"a\xff\n"
    assert calls == ["fsync", "replace"] if durable else ["replace"]


def test_errors_of_the_system_about_what_is_read() -> None:
    """Those of a library, about the content of a file, are another matter."""
    with (
        pytest.raises(ModelError, match=r"^m: cannot be read \(Permission denied\)") as caught,
        os_errors_as(ModelError, "m", "cannot be read", "copy it"),
    ):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert caught.value.hint == "copy it"
    for error in (OSError("no magic bytes"), OutputError("full")):
        with pytest.raises(type(error), match=str(error)), os_errors_as(ModelError, "m", "x", "y"):
            raise error
