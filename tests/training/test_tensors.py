"""Files of tensors: what is written can be read, and what goes wrong is reported for what it is."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_cli.errors import ResumeError
from elmo_cli.training.tensors import as_resume_error, read_tensors, write_tensors


class InterruptedFile(io.BytesIO):
    """A file during whose writing the user presses Ctrl-C."""

    def write(self, data: Any) -> int:
        if self.tell() > 1_000:
            raise KeyboardInterrupt
        return super().write(data)


def test_ctrl_c_is_not_reported_as_an_error_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zip writer of torch raises its own RuntimeError after the interrupt."""
    file = contextlib.nullcontext(InterruptedFile())
    monkeypatch.setattr("elmo_cli.training.tensors.new_file", lambda *_, **__: file)
    with pytest.raises(KeyboardInterrupt):
        write_tensors(tmp_path / "a.pt", torch.zeros(1_000))


def test_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    """Which torch alone would read."""
    path = tmp_path / "a.pt"
    values = torch.arange(1_000, dtype=torch.float32)
    write_tensors(path, {"values": values, "step": 3})
    content = read_tensors(path)
    assert torch.equal(content["values"], values)
    assert content["step"] == 3
    corrupt = bytearray(path.read_bytes())
    corrupt[corrupt.index(values.numpy().tobytes()) + 2_000] ^= 4
    path.write_bytes(corrupt)
    message = r"a\.pt: corrupt, or written by another version of elmo"
    with pytest.raises(ResumeError, match=message), as_resume_error(path):
        read_tensors(path)


def test_values_come_back_as_they_were(tmp_path: Path) -> None:
    """Each with its type; a tensor that is in two places stays one."""
    path = tmp_path / "a.pt"
    shared = torch.arange(3)
    plain = {"a": (1, 2.5, None), "b": ["x", True], 3: {}}
    write_tensors(path, {"plain": plain, "first": shared, "second": [shared, shared + 1]})
    content = read_tensors(path)
    assert content["plain"] == plain
    assert content["first"] is content["second"][0]
    assert content["second"][1].tolist() == [1, 2, 3]
    path.write_bytes(bytes(path.stat().st_size))  # the values are no part of the file
    assert content["first"].tolist() == [0, 1, 2]


def test_views_that_are_larger_than_the_file_are_refused(tmp_path: Path) -> None:
    """Each of them is within the limit of 64 MiB, and both together are not."""
    path = tmp_path / "a.pt"
    views = [torch.ones(1).expand(10 << 20) for _ in range(2)]
    write_tensors(path, views[:1])
    assert read_tensors(path)[0].nbytes == 40 << 20
    write_tensors(path, views)
    with pytest.raises(ValueError, match="far larger than the file"):
        read_tensors(path)


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with pytest.raises(ResumeError) as caught, as_resume_error(path):
        read_tensors(path)
    assert caught.value.message == f"{path}: missing"
