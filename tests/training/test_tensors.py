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


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with pytest.raises(ResumeError) as caught, as_resume_error(path):
        read_tensors(path)
    assert caught.value.message == f"{path}: missing"
