"""What can go wrong, as one small tree.

    ElmoError                   every error that a user can cause or meet; exit code 1
      UsageError                options that contradict each other; exit code 2
      InputError                a text file that can't be read as what it is said to be
      OptionsError              options.json: missing, not JSON, impossible sizes
      WeightFileError           weights.hdf5: missing, foreign, other shapes than the options
      ModelError                no such model, a model of another family
      DownloadError             the network, or what came through it
      EmbeddingsFileError       an embeddings file: damaged, of another layout
        UnfinishedError         an embeddings file whose run did not finish
      OutputError               the place to write to: exists, no space left, not writable
        KeptError               an output that stopped half way, kept for `--resume`
      ResumeError               an unfinished run that the present settings can't go on with
      DeviceError               a device that is not there or has no memory left
      TrainingError             training that can't start or has diverged
      StoppedError              training that Ctrl-C or SIGTERM has ended, all saved; exit 130
      SkippedError              done, but input was left out as `--on-error skip` asked; exit 3

Each is also the built-in that older code would catch. An error holds two things: the message (where
and what, with both values) and a hint (what to do next), which tracebacks show as a note. Only
`cli.main` prints them and exits.
"""

from __future__ import annotations

import sys


class ElmoError(Exception):
    """An error that a user can mend.

    Args:
        message: where it is and what is wrong, with both values, without a full stop.
        hint: the command or the option to try next.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint and sys.version_info >= (3, 11):  # a traceback, in a notebook say, shows notes
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type[ElmoError], tuple[str, ...]]:
        # Errors cross process borders (DataLoader workers); the default would lose the hint.
        return type(self), (self.message, self.hint)


class UsageError(ElmoError, ValueError):
    """Options that contradict each other."""

    exit_code = 2


class InputError(ElmoError, ValueError):
    """A text file that can't be read as what it is said to be."""


class OptionsError(ElmoError, ValueError):
    """An options.json that can't describe a biLM."""


class WeightFileError(ElmoError, ValueError):
    """A weight file that is damaged, foreign, or of other shapes than its options say."""


class ModelError(ElmoError, LookupError):
    """A model that is not there, or of another family."""


class DownloadError(ElmoError, OSError):
    """A download that failed or brought something else."""


class EmbeddingsFileError(ElmoError, ValueError):
    """An embeddings file that is damaged, unfinished or of another layout."""


class UnfinishedError(EmbeddingsFileError):
    """An embeddings file whose run did not finish."""


class OutputError(ElmoError, OSError):
    """A place that can't be written to."""


class KeptError(OutputError):
    """An output that stopped half way; what is committed of it is kept for `--resume`.

    Args:
        anew: the hint of a command without `--resume`, which keeps nothing.
    """

    def __init__(self, message: str, hint: str = "", anew: str = "") -> None:
        super().__init__(message, hint)
        self.anew = anew

    def __reduce__(self) -> tuple[type[ElmoError], tuple[str, ...]]:
        return type(self), (self.message, self.hint, self.anew)


class ResumeError(ElmoError, ValueError):
    """An unfinished run that the present settings or input can't go on with."""


class DeviceError(ElmoError, RuntimeError):
    """A device that is not there, or has no memory left."""


class TrainingError(ElmoError, RuntimeError):
    """Training that can't start, or has diverged."""


class StoppedError(ElmoError):
    """Training that Ctrl-C or SIGTERM has ended; what was learned is saved."""

    exit_code = 130


class SkippedError(ElmoError):
    """The work is done, but input was left out as `--on-error skip` asked."""

    exit_code = 3
