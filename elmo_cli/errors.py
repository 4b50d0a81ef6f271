"""The errors of elmo; `cli.main` prints them and exits with `exit_code`.

Each is also the built-in error in parentheses, for code that catches that one:

    ElmoError                       exit code 1, unless another one is named
    ├── UsageError (ValueError)             settings that contradict each other; exit code 2
    │   └── SettingError                    a setting with a value that it cannot have
    ├── InputError (ValueError)             a text file
    ├── OptionsError (ValueError)           an options.json
    ├── WeightFileError (ValueError)        a weight file
    ├── ModelError (LookupError)            a model that is missing or of another family
    │   └── UnstatedSettingsError           one whose files do not state all settings
    ├── DownloadError (OSError)
    ├── EmbeddingsFileError (ValueError)    an embeddings file
    │   └── UnfinishedError                 one whose run did not finish
    ├── OutputError (OSError)               an output path
    ├── ResumeError (ValueError)            an unfinished run with other settings or input
    ├── DeviceError (RuntimeError)
    ├── TrainingError (RuntimeError)        training that cannot start or has diverged
    ├── StoppedError                        training that was stopped; exit code 130
    └── SkippedError                        done, but input was left out; exit code 3
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from elmo_cli.messages import url_without_secrets, without_secrets


class ElmoError(Exception):
    """An error that a user can cause and fix.

    Attributes:
        problem: what is wrong, with both values, without a full stop.
        hint: what to do next; library parameters in backticks, such as `overwrite=True`. A
            traceback shows it as a note.
        where: the file, line or setting that is wrong; "" if there is no single one.
        parameters: settings that the hint says to change.

    `without_secrets` removes user names, passwords and queries of URLs from all these texts.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        where: str | os.PathLike[str] = "",
        parameters: tuple[str, ...] = (),
    ) -> None:
        self.problem = without_secrets(problem)
        self.hint = without_secrets(hint)
        self.where = url_without_secrets(os.fspath(where))
        self.parameters = parameters
        super().__init__(self.problem)
        if hint:
            self.add_note(f"hint: {self.hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors differ, and an error of a child process is sent to its parent.
        return _restored, (type(self), vars(self))

    @property
    def message(self) -> str:
        """Where it is and what is wrong, as one clause."""
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def __str__(self) -> str:
        return self.message


def _restored(kind: type[ElmoError], fields: dict[str, Any]) -> ElmoError:
    """Make an error from its pickled fields."""
    error = kind.__new__(kind)
    vars(error).update(fields)
    error.args = (error.problem,)
    return error


class UsageError(ElmoError, ValueError):
    """Settings that contradict each other."""

    exit_code = 2


class SettingError(UsageError):
    """A setting with a value that it cannot have; `where` and `parameters` name it.

    Attributes:
        name: of the setting, as a parameter of the library.
        problem: what is wrong with its value, as a clause.
        where: the name, and the value if `problem` does not state it.
    """

    def __init__(
        self, name: str, problem: str, hint: str = "give another value", *, value: object = None
    ) -> None:
        where = f"`{name}`" if value is None else f"`{name}={value!r}`"
        super().__init__(problem, hint, where=where, parameters=(name,))
        self.name = name


class InputError(ElmoError, ValueError):
    """A text file that cannot be read in the format it is said to have."""


class OptionsError(ElmoError, ValueError):
    """An options.json that cannot describe a biLM."""


class WeightFileError(ElmoError, ValueError):
    """A weight file that is corrupt, foreign, or of other shapes than its options say."""


class ModelError(ElmoError, LookupError):
    """A model that is missing, or of another family."""


class UnstatedSettingsError(ModelError):
    """A model whose files do not state all settings of its biLM.

    Attributes:
        template: an options.json with the sizes that the weights show, and with the settings of the
            published models; empty if the weights are not those of a biLM.
    """

    def __init__(
        self,
        problem: str,
        hint: str,
        *,
        where: str | os.PathLike[str],
        template: Mapping[str, Any],
    ) -> None:
        super().__init__(problem, hint, where=where)
        self.template = dict(template)


class DownloadError(ElmoError, OSError):
    """A download that failed or brought something else."""


class EmbeddingsFileError(ElmoError, ValueError):
    """An embeddings file that is corrupt, unfinished or of another layout."""


class UnfinishedError(EmbeddingsFileError):
    """An embeddings file whose run did not finish."""


class OutputError(ElmoError, OSError):
    """An output path that cannot be written to.

    Attributes:
        resumable: an unfinished output is kept that the same run can resume.
    """

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        where: str | os.PathLike[str] = "",
        parameters: tuple[str, ...] = (),
        resumable: bool = False,
    ) -> None:
        super().__init__(problem, hint, where=where, parameters=parameters)
        self.resumable = resumable


class ResumeError(ElmoError, ValueError):
    """An unfinished run that cannot be resumed with the present settings or input."""


class DeviceError(ElmoError, RuntimeError):
    """A device that is missing, or has no memory left."""


class TrainingError(ElmoError, RuntimeError):
    """Training that cannot start, or has diverged."""


class StoppedError(ElmoError):
    """Training that Ctrl-C or SIGTERM has stopped; what was learned is saved."""

    exit_code = 130


class SkippedError(ElmoError):
    """The work is done, but input was left out as `on_error="skip"` asked."""

    exit_code = 3
