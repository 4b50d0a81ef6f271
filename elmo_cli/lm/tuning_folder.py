"""The folder of a fine-tuned model: what may lie there already, and the record of its run."""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo_cli.errors import OutputError, ResumeError, UsageError
from elmo_cli.files import write_text
from elmo_cli.lm import checkpoint
from elmo_cli.lm.folder_lock import FILE_NAME as LOCK_NAME
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.log import FILE_NAME as LOG_NAME
from elmo_cli.lm.model_folder import (
    is_same,
    new_folder,
    refuse_both,
    refuse_no_folder,
    remove,
)
from elmo_cli.lm.source_model import SourceNames
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.model_files import CARD_FILE, SOFTMAX_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.parts import PARTS_FILE
from elmo_cli.regular_files import read_json

RECORD_NAME = "finetune.json"
FITTED_NAME = "fitted_softmax.hdf5"
_DIRECTIONS = {"forward", "backward", "average"}
_MODEL_NAMES = (OPTIONS_FILE, WEIGHTS_FILE, SOFTMAX_FILE, VOCABULARY_FILE)


class TuningFolder:
    """The folder that a fine-tuned model is made in.

    Attributes:
        path: of the folder.
        record: what is known of the run so far: `run`, which a run that goes on must agree with,
            and what was measured.
    """

    def __init__(self, path: Path, lock: FolderLock) -> None:
        self.path = path
        self._lock = lock
        self.record: dict[str, Any] = {}

    def check(self, source: SourceNames, *, resume: bool, overwrite: bool) -> None:
        """Refuse a place whose files would be lost, before any work.

        Raises:
            ModelError: there is no such source model.
            UsageError: it is the folder of the source model, or of a softmax or a vocabulary that
                is named; or both `resume` and `overwrite` are asked for.
            OutputError: it is no folder, or holds something else than an earlier run, or another
                process is training there.
            ResumeError: there is no run to go on with.
        """
        refuse_both(overwrite=overwrite, resume=resume)
        path, files = self.path, source.files()
        self._lock.take()
        named = [Path(name) for name in (source.softmax, source.vocabulary) if name is not None]
        named = [name for name in named if name.name in (*_MODEL_NAMES, FITTED_NAME)]
        for file in (files.weights, files.options, files.softmax, files.vocabulary, *named):
            if file is not None and is_same(file.parent, path):
                raise UsageError(
                    f"{path}: holds {file.name}, which fine-tuning begins with",
                    "`-o DIR` names another folder; what it begins with stays as it is",
                )
        refuse_no_folder(path)
        self._refuse_what_is_there(resume=resume, overwrite=overwrite)

    def _refuse_what_is_there(self, *, resume: bool, overwrite: bool) -> None:
        path = self.path
        there = sorted(file.name for file in path.iterdir()) if path.exists() else []
        there = [name for name in there if name != LOCK_NAME]
        is_run = RECORD_NAME in there
        if there and not is_run:
            raise OutputError(
                f"{path}: holds {there[0]} and no fine-tuned model of an earlier run",
                "`-o DIR` names a new folder or an empty one",
            )
        if resume and not is_run:
            raise ResumeError(f"{path}: no run to go on with", "start without `--resume`")
        if is_run and not (resume or overwrite):
            raise OutputError(
                f"{path}: holds {RECORD_NAME} of an earlier run",
                "`--resume` goes on with it, `--overwrite` begins anew",
            )

    def begin(self, run: dict[str, Any], *, overwrite: bool, **facts: Any) -> None:
        """Make the folder, and remove what an earlier run left there.

        Args:
            run: what a run that goes on must agree with.
            facts: what else is known of the run from the beginning.
        Raises:
            OutputError: it can't be written to, or another run has been there since `check`.
        """
        new_folder(self.path)
        self._lock.take()
        self._refuse_what_is_there(resume=False, overwrite=overwrite)
        names = (PARTS_FILE, *_MODEL_NAMES, LOG_NAME, checkpoint.FILE_NAME, FITTED_NAME)
        remove(self.path, [self.path / name for name in names])
        self.record = {"run": run, **facts}
        self.forget_end()
        self.save()

    def go_on(self, run: dict[str, Any]) -> None:
        """Take up the run of the folder.

        Raises:
            ResumeError: it was made of another model or another text, or its record is damaged, or
                the checkpoint is gone.
        """
        path = self.path / RECORD_NAME
        try:
            record = read_json(path, ResumeError, "`--overwrite` begins anew")
            before = dict(record["run"])
            _check_record(record, is_measured="before" in record or self.has_checkpoint)
        except ResumeError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResumeError(
                f"{path}: can't be read ({error})", "`--overwrite` begins anew"
            ) from None
        for name, now in run.items():
            if before.get(name) != now:
                raise ResumeError(
                    f"{path}: made with {name} {before.get(name)}, now {now}",
                    "give the model, the text and the settings of the first run, or `--overwrite`",
                )
        if not self.has_checkpoint and (self.path / WEIGHTS_FILE).exists():
            raise ResumeError(
                f"{self.path}: its {checkpoint.FILE_NAME} is gone, so nothing goes on from its "
                "weights",
                self._with_its_weights,
            )
        self.record = record

    def fitted(self) -> Path:
        """The file of the softmax that was fitted before training.

        Raises:
            ResumeError: it is gone.
        """
        path = self.path / FITTED_NAME
        if not path.exists():
            has_weights = (self.path / WEIGHTS_FILE).exists()
            raise ResumeError(
                f"{path}: is gone, and the run can't go on without it",
                self._with_its_weights if has_weights else "`--overwrite` begins anew",
            )
        return path

    def forget_end(self) -> None:
        """Remove what is true of finished weights alone: the warm state and the card."""
        for name in (STATE_FILE, CARD_FILE):
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)

    def note(self, **facts: Any) -> None:
        """Add facts to the record and save it.

        Raises:
            OutputError: it can't be written.
        """
        self.record.update(facts)
        self.save()

    def save(self) -> None:
        """Write the record, whole or not at all.

        Raises:
            OutputError: it can't be written.
        """
        write_text(self.path / RECORD_NAME, [json.dumps(self.record, indent=2), "\n"])

    def write_card(self, text: str) -> None:
        """Write the card of the finished model.

        Raises:
            OutputError: it can't be written.
        """
        write_text(self.path / CARD_FILE, [text], errors="backslashreplace")

    @property
    def _with_its_weights(self) -> str:
        return f"`-m {self.path} -o DIR` begins a run with its weights, `--overwrite` begins anew"

    @property
    def has_checkpoint(self) -> bool:
        """Whether training has begun."""
        return (self.path / checkpoint.FILE_NAME).exists()


def _check_record(record: dict[str, Any], *, is_measured: bool) -> None:
    """Look at what a run that goes on takes from its record.

    Args:
        is_measured: whether the line before is to be there.
    Raises:
        ValueError: something is missing or of another kind.
    """
    domain = record.get("domain")
    texts = domain.get("train") if isinstance(domain, dict) else None
    fit = record.get("fit", {"seconds": 0.0})
    sound = {
        "domain": isinstance(texts, list) and all(isinstance(text, str) for text in texts),
        "fit": isinstance(fit, dict) and _is_finite(fit.get("seconds")),
        "before_model_softmax": "before_model_softmax" not in record
        or _are_figures(record["before_model_softmax"]),
    }
    if is_measured:
        sound["before"] = _are_figures(record.get("before"))
        sound["unknown_fraction"] = _is_finite(record.get("unknown_fraction"))
        sound["measuring_s"] = _is_finite(record.get("measuring_s"))
    for name, is_sound in sound.items():
        if not is_sound:
            raise ValueError(f"{name!r} is missing or corrupt")


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _are_figures(value: Any) -> bool:
    """Whether these are `Figures` as plain values."""
    return (
        isinstance(value, dict)
        and value.keys() == {"perplexity", "bits_per_byte"}
        and all(isinstance(part, dict) and part.keys() >= _DIRECTIONS for part in value.values())
        and all(_is_number(number) for part in value.values() for number in part.values())
    )
