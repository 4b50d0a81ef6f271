"""The folder that the command was called in, which names of files may be relative to."""

from __future__ import annotations

import os

from elmo_cli.cluster.url import is_url
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import InputError
from elmo_cli.pretrained.catalogue import find_model


def go_home(job: EmbedJob, home: str) -> InputError | None:
    """Go to the folder that names of a job are relative to, on whatever machine this is.

    Returns:
        An error if it is not there, and some names need it.
    """
    try:
        os.chdir(home)
    except OSError as error:
        names = [*job.inputs, job.options, job.weights, *_path(job.model)]
        names += [] if is_url(job.output) else [job.output]
        for name in names:
            if name and not os.path.isabs(os.path.expanduser(name)):
                return InputError(
                    f"{home}: can't be entered here ({error.strerror}), and {name} is relative to "
                    f"it",
                    "give absolute names, or a folder that all machines see",
                )
    return None


def _path(model: str | None) -> list[str]:
    """A model that is named by its place; names of the catalogue mean the same everywhere."""
    return [model] if model and (os.sep in model or find_model(model) is None) else []
