"""What `elmo embed --ray` does between its options and the library."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.console import counted
from elmo_cli.cli.places import is_folder
from elmo_cli.cli.texts import refuse_skipped, say_noticed
from elmo_cli.cluster.folder import folder_of
from elmo_cli.cluster.url import is_url, shown
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.output import Output
from elmo_cli.errors import ElmoError, InputError, ModelError, UsageError
from elmo_cli.pretrained.cache import installed_dir
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.text.input import check_inputs, require_files

if TYPE_CHECKING:
    from elmo_cli.cluster.done import Done


def check_options(given: Mapping[str, object]) -> None:
    """Refuse options that have no meaning on a cluster.

    Raises:
        UsageError: one of them is given.
    """
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option}: has no meaning for --ray",
                "shards that are finished are kept, and the same command makes those that are not",
            )


def embed_on_cluster(
    job: EmbedJob,
    threads: int | None,
    *,
    ray_address: str | None,
    workers: int | None,
    gpus_per_worker: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Embed into a folder of shards, and say what became of them."""
    _check(job)
    _quieten_ray()
    try:
        from elmo_cli.cluster.run import Cluster, run_on_cluster
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow", "pandas"):
            raise
        raise ModelError(
            f"--ray: {error.name} is not installed", "`pip install 'elmo-cli[ray]'`"
        ) from None
    cluster = Cluster(ray_address, workers or 1, threads or 1, gpus_per_worker or 0.0)
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))  # Ray tells there of workers that died
        bars: list[console.Bar] = []

        def begin(n_tokens: int, n_shards: int) -> None:
            what = f"{counted(n_tokens, 'token')} in {counted(n_shards, 'shard')}"
            console.note(f"{what}, {counted(cluster.workers, 'worker')}", quiet=quiet)
            bars.append(stack.enter_context(console.bar(n_tokens, "tokens", quiet=quiet)))

        def advance(row: Mapping[str, Any]) -> None:
            bars[0].advance(row["tokens"])

        done = run_on_cluster(job, cluster, begin=begin, advance=advance)
    seconds = time.monotonic() - begun
    say_noticed(done.notes, quiet=quiet)
    output = shown(job.output)
    _say(output, done, seconds, quiet=quiet)
    if as_json:
        click.echo(json.dumps(_as_object(output, done, seconds)))
    if done.missing:
        raise _missing(output, done)
    lists = [os.path.join(output, done.skipped_list)] if done.skipped_list else []
    refuse_skipped(done.notes, lists=lists)


def _check(job: EmbedJob) -> None:
    if not is_folder(job.output):
        raise UsageError(
            f"--ray: {shown(job.output)} is to be a folder of shards",
            f"`-o {'s3://BUCKET/' if is_url(job.output) else ''}shards/` names one",
        )
    if job.state == "carry":
        raise UsageError(
            "--ray with --state carry: each vector depends on all the text before it",
            "`--state zero` or `--state document` can be cut into shards",
        )
    require_files("--ray", job.inputs)
    check_inputs(job.inputs, job.text)
    _check_model(job)
    folder_of(job, os.getcwd())  # a URL needs a driver


def _check_model(job: EmbedJob) -> None:
    """Refuse a model that is not there, or lacks the layers, before workers would in their turn.

    A published model need not be on the machine that calls them.
    """
    published = find_model(job.model) if job.model else None
    if published is not None and installed_dir(published) is None:
        return
    files = locate(ModelSource(job.model, job.options, job.weights))
    n_layers = 1 + files.read_options().n_layers
    bare = "one layer" in job.file_layout.needs
    Output.parse(job.layers, n_layers=n_layers, dtype=job.dtype, pool=job.pool, bare=bare)


def _quieten_ray() -> None:
    """What Ray tells of itself is for its own log; it reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"ray\.")


def _say(output: str, done: Done, seconds: float, *, quiet: bool) -> None:
    for row in done.missing:
        number = f"shard {row['number']} of {done.n_shards}"
        console.note(f"{number} is missing: {row['error']}", quiet=quiet)
    for worker, (n_shards, n_tokens, busy_s) in _workers(done).items():
        rate = f", {n_tokens / busy_s:,.0f} tokens/s" if n_tokens else ""
        console.note(
            f"worker {worker}: {counted(n_shards, 'shard')}, {counted(n_tokens, 'token')}{rate}",
            quiet=quiet,
        )
    computed = sum(row["computed"] for row in done.rows)
    console.note(
        f"{output}: {len(done.shards):,} of {counted(done.n_shards, 'shard')}; "
        f"{counted(computed, 'token')} in {seconds:.1f} s"
        + (f" ({computed / seconds:,.0f} tokens/s)" if computed else ""),
        quiet=quiet,
    )
    for warning in _warnings(output, done):
        console.note(f"warning: {warning}", quiet=quiet)
    if not done.missing:
        folder = output
        if is_url(output):
            folder = "shards/"
            console.note(f"`{_fetching(output, folder)}` fetches them", quiet=quiet)
        parts = os.path.join(folder, "part-*.hdf5")
        console.note(f"`elmo merge {parts} -o OUT.hdf5` makes one file of them", quiet=quiet)


def _warnings(output: str, done: Done) -> list[str]:
    """What is in the way of a merge."""
    if done.missing or not done.others:
        return []
    named = ", ".join(done.others[:3]) + ", …" * (len(done.others) > 3)
    what = "1 shard is" if len(done.others) == 1 else f"{len(done.others):,} shards are"
    return [
        f"{output}: {what} of another text or other settings ({named}); take them out before "
        f"`elmo merge`, which refuses shards of two runs"
    ]


def _fetching(url: str, folder: str) -> str:
    """A command that copies the shards out of a store; `elmo merge` reads files alone."""
    if url.startswith("s3://"):
        return f"aws s3 cp --recursive {url} {folder}"
    get = f"fs.get(path.rstrip('/') + '/', '{folder}', recursive=True)"
    return f"python -c \"import fsspec; fs, path = fsspec.url_to_fs('{url}'); {get}\""


def _workers(done: Done) -> dict[str, tuple[int, int, float]]:
    """Shards, computed tokens and seconds of each worker."""
    found: dict[str, tuple[int, int, float]] = {}
    for row in (row for row in done.rows if row["worker"]):
        n_shards, n_tokens, busy_s = found.get(row["worker"], (0, 0, 0.0))
        computed = row["computed"]
        found[row["worker"]] = (n_shards + 1, n_tokens + computed, busy_s + row["seconds"])
    return found


def _as_object(output: str, done: Done, seconds: float) -> dict[str, Any]:
    return {
        "output": output,
        "shards": done.shards,
        "missing": [{"shard": row["number"], "error": row["error"]} for row in done.missing],
        "sentences": sum(row["sentences"] for row in done.rows),
        "tokens": sum(row["tokens"] for row in done.rows),
        "computed_tokens": sum(row["computed"] for row in done.rows),
        "seconds": round(seconds, 1),
        "workers": {
            worker: {"shards": n_shards, "tokens": n_tokens, "seconds": round(busy_s, 1)}
            for worker, (n_shards, n_tokens, busy_s) in _workers(done).items()
        },
        "skipped": done.notes.skipped,
        "warnings": done.notes.warnings + _warnings(output, done),
    }


def _missing(output: str, done: Done) -> ElmoError:
    first = done.missing[0]
    n_missing = len(done.missing)
    word = "is" if n_missing == 1 else "are"
    return InputError(
        f"{output}: {n_missing:,} of {counted(done.n_shards, 'shard')} {word} missing, "
        f"the first {first['number']}: {first['error']}",
        f"{first['hint']}; then the same command makes those alone",
    )
