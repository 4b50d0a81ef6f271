"""Journal: what of an unfinished embeddings file is committed, and with which settings.

It is replaced as a whole at each commit, so it is never torn and stays as small as one state.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo_cli.errors import ResumeError

BEGINS = b'{"settings"'  # as `_rendered` makes it


@dataclass(frozen=True, slots=True)
class Progress:
    """What is committed.

    Attributes:
        sentences: sentences handed over, counted from the first one of this file.
        tokens: tokens stored.
        blocks: commits.
        text_sha256: the caller's running hash of the text up to here.
        state: the caller's state after these sentences, opaque.
    """

    sentences: int = 0
    tokens: int = 0
    blocks: int = 0
    text_sha256: str = ""
    state: bytes = b""


@dataclass(frozen=True, slots=True)
class Journal:
    """One commit.

    Attributes:
        settings: what must agree for a run to go on, as JSON holds it.
        progress: what is committed.
        duplicates: sentences left out because an equal one was there.
        size: bytes of the part file that are committed.
        finished: the part file is whole and only its new name is missing.
        overwrite: it may take the place of a file that is at OUT by then.
    """

    settings: dict[str, Any]
    progress: Progress = field(default_factory=Progress)
    duplicates: int = 0
    size: int = 0
    finished: bool = False
    overwrite: bool = False

    @property
    def sentences(self) -> int:
        return self.progress.sentences

    @property
    def tokens(self) -> int:
        return self.progress.tokens

    @property
    def blocks(self) -> int:
        return self.progress.blocks


def journal_path(part: str | Path) -> Path:
    """Where the journal of a part file lies."""
    return Path(f"{part}.journal")


def new_journal_path(part: str | Path) -> Path:
    """Where a journal lies until it is whole."""
    return Path(f"{part}.journal.new")


def read_journal(part: str | Path) -> Journal | None:
    """The journal of the part file `part` (`OUT.part`).

    Returns:
        None where there is no journal: nothing is committed.
    Raises:
        ResumeError: the journal is damaged.
        OSError: it can't be read.
    """
    path = journal_path(part)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return _parsed(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResumeError(
            f"{path}: damaged, {error}", "`--overwrite` starts the run anew"
        ) from None


def write_journal(part: str | Path, journal: Journal, *, durable: bool = False) -> None:
    """Put `journal` in the place of the one before, in one step.

    Args:
        part: the part file, `OUT.part`.
        journal: what is committed now.
        durable: wait until it is on the disk.
    Raises:
        OSError: no space left, no permission.
    """
    new = new_journal_path(part)
    with open(new, "wb") as file:
        file.write(_rendered(journal))
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(new, journal_path(part))


def settings_as_json(settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings as they come back from a journal: tuples are lists, keys strings."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def check_settings(where: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a file that was made with other settings.

    Args:
        where: beginning of the message: the file and how far it is.
        then: the settings of the file.
        now: the settings of this run.
    Raises:
        ResumeError: names the first setting that differs, with both values.
    """
    for name in (*now, *(name for name in then if name not in now)):
        if then.get(name) != now.get(name):
            what, word = _setting_in_words(name)
            raise ResumeError(
                f"{where}, made with other {what} "
                f"({word}{_shown(then.get(name))}, now {_shown(now.get(name))})",
                f"`--overwrite` starts anew; `--resume` needs the first {what}",
            )


def _setting_in_words(name: str) -> tuple[str, str]:
    """How a message calls a setting, and the word before its value."""
    if name == "model_sha256":
        return "weights", "sha256 "
    what, _, is_hash = name.partition("_sha256")
    return what.replace("_", " "), "sha256 " if is_hash or name.endswith("_sha256") else ""


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    is_hash = len(text) == 64 and set(text) <= set("0123456789abcdef")
    limit = 4 if is_hash else 60
    return text if len(text) <= limit else f"{text[:limit]}…"


def _rendered(journal: Journal) -> bytes:
    progress = journal.progress
    line = json.dumps(
        {
            "settings": journal.settings,
            "sentences": progress.sentences,
            "tokens": progress.tokens,
            "blocks": progress.blocks,
            "text_sha256": progress.text_sha256,
            "state": base64.b64encode(progress.state).decode("ascii"),
            "duplicates": journal.duplicates,
            "size": journal.size,
            "finished": journal.finished,
            "overwrite": journal.overwrite,
        }
    ).encode("ascii")
    return line + b"\ncrc32 %08x\n" % zlib.crc32(line)


def _parsed(content: bytes) -> Journal:
    line, newline, check = content.partition(b"\n")
    if not newline or check != b"crc32 %08x\n" % zlib.crc32(line):
        raise ValueError("its check sum is wrong")
    record = json.loads(line)
    progress = Progress(
        sentences=_count(record, "sentences"),
        tokens=_count(record, "tokens"),
        blocks=_count(record, "blocks"),
        text_sha256=_typed(record, "text_sha256", str),
        state=base64.b64decode(_typed(record, "state", str), validate=True),
    )
    return Journal(
        settings=_typed(record, "settings", dict),
        progress=progress,
        duplicates=_count(record, "duplicates"),
        size=_count(record, "size"),
        finished=_typed(record, "finished", bool),
        # Runs that an earlier version began have none.
        overwrite=_typed({"overwrite": False, **record}, "overwrite", bool),
    )


def _typed(record: dict[str, Any], name: str, kind: type) -> Any:
    value = record[name]
    if type(value) is not kind:
        raise ValueError(f"its {name} is not a {kind.__name__}")
    return value


def _count(record: dict[str, Any], name: str) -> int:
    value: int = _typed(record, name, int)
    if value < 0:
        raise ValueError(f"its {name} is {value}")
    return value
