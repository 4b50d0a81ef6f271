"""Where the output of `elmo embed` goes: a file, or a folder with a file for each input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from elmo_cli.cluster.shard_folder import is_url, without_secrets
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import check_places
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.text.input import check_inputs, stem


def is_folder(output: str) -> bool:
    """Whether an output is a folder, or is to become one."""
    if is_url(output):
        return output.endswith("/")
    return output.endswith(("/", os.sep)) or os.path.isdir(output)


def jobs_of(job: EmbedJob) -> list[EmbedJob]:
    """The jobs of a command, one for each output file, all of them checked.

    Raises:
        InputError, OutputError, UsageError: as `check_places`; or two inputs have one output, or
            the output is a URL.
    """
    if is_url(job.output):
        raise UsageError(
            f"{without_secrets(job.output)}: only --ray writes to a URL",
            "`-o FILE`, and copy it there; or `-o URL/ --ray`, which puts shards there",
        )
    check_inputs(job.inputs, job.text)
    if not is_folder(job.output):
        check_places(job)
        return [job]
    jobs = _one_a_file(job)
    for one in jobs if os.path.isdir(job.output) else ():
        check_distinct(one.output, job.inputs)
        check_places(one)
    return jobs


def _one_a_file(job: EmbedJob) -> list[EmbedJob]:
    """A job for each input, with an output in the folder that is called like the input."""
    outputs: dict[str, str] = {}
    for name in job.inputs:
        if name == "-":
            raise UsageError(
                f"standard input has no name for a file in {job.output}", "`-o FILE` names it"
            )
        bare = stem(Path(name).name) or Path(name).name
        path = str(Path(job.output) / f"{bare}.hdf5")
        if path in outputs:
            raise UsageError(
                f"{outputs[path]} and {name} would both be written to {path}",
                "embed them one by one with `-o FILE`",
            )
        outputs[path] = name
    return [replace(job, inputs=(name,), output=path) for path, name in outputs.items()]


@contextmanager
def folder_of(output: str) -> Iterator[None]:
    """The folder that an output is, made if need be; gone again if nothing gets into it."""
    folder = Path(output)
    new: list[Path] = []
    if is_folder(output):
        new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{output}: no such folder can be made ({error.strerror})", "choose another place"
        ) from None
    try:
        yield
    finally:
        for place in new:
            with suppress(OSError):
                place.rmdir()  # which spares a folder that holds something
