"""Text files of the tests: write one, read it, or expect that it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from elmo_cli.errors import InputError
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.sentence import Sentence


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path | str, report: InputReport | None = None, **settings: Any) -> list[Sentence]:
    return list(read_sentences(path, InputSettings(**settings), report))


def tokens(path: Path | str, report: InputReport | None = None, **settings: Any) -> list[str]:
    """The tokens of each sentence, joined by spaces."""
    return [" ".join(sentence.tokens) for sentence in read(path, report, **settings)]


def refused(path: Path | str, **settings: Any) -> InputError:
    """The error of reading a file, which names the file and says what to do."""
    with pytest.raises(InputError) as caught:
        read(path, **settings)
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint
    return caught.value
