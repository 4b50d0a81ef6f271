"""`elmo embed --ray`: checks, progress and report of a run on a Ray cluster."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console
from elmo_cli.cli.console import plural
from elmo_cli.cluster.shard_folder import (
    SKIPPED_LIST,
    is_url,
    open_shard_folder,
    without_secrets,
)
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import InputError, ModelError, UsageError
from elmo_cli.files import is_folder
from elmo_cli.pretrained.cache import installed_dir
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.text.input import require_files

if TYPE_CHECKING:
    from elmo_cli.cluster.run import ClusterResult


def embed_on_ray(job: EmbedJob, given: dict[str, Any]) -> None:
    """Run a job on a Ray cluster with the values of the options of `elmo embed`."""
    quiet = given["quiet"]
    _check(job)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    logging.disable(logging.WARNING)  # Ray writes its own log files
    warnings.filterwarnings("ignore", module=r"ray\.")
    try:
        from elmo_cli.cluster.run import ClusterSettings, embed_on_cluster
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ModelError("--ray: ray is not installed", "`pip install 'elmo-cli[ray]'`") from None
    cluster = ClusterSettings(
        address=given["ray_address"],
        workers=given["workers"],
        threads=given["threads"] or 1,
        gpus=given["gpus_per_worker"],
    )
    start_s = time.monotonic()
    progress = console.Progress(None, "tokens", quiet=quiet)

    def on_progress(done: int, total: int) -> None:
        if not progress.is_shown:
            console.note(f"{plural(total, 'token')}, {done:,} done", quiet=quiet)
        progress.update(done, total)

    with progress, redirect_stdout(sys.stderr):  # Ray reports a dead worker on stdout
        result = embed_on_cluster(job, cluster, on_progress)
    summary = _summary(without_secrets(job.output), result, time.monotonic() - start_s)
    console.print_input_warnings(result.report, quiet=quiet)
    if not quiet:
        _print_summary(result, summary)
    if given["as_json"]:
        console.print_json(summary)
    _refuse_missing(summary["output"], result)
    skipped_list = os.path.join(summary["output"], SKIPPED_LIST)
    console.exit_if_skipped(result.report, lists=[skipped_list])


def _check(job: EmbedJob) -> None:
    """Refuse, before Ray is imported, options that cannot work on a cluster."""
    if not is_folder(job.output):
        hint = f"`-o {'s3://BUCKET/' if is_url(job.output) else ''}shards/` names one"
        what = f"--ray: {without_secrets(job.output)} must be a folder of shards"
        raise UsageError(what, hint)
    if job.embedder.state == "carry":
        raise UsageError(
            "--ray with --state carry: each vector depends on all the text before it",
            "`--state zero` or `--state document` can be divided into shards",
        )
    require_files("--ray", job.inputs)
    open_shard_folder(job.output)
    name = job.model.name_or_path
    published = find_model(str(name)) if name else None
    if (
        published is None or installed_dir(published) is not None
    ):  # otherwise the workers may have it
        job.locate_model()


def _summary(output: str, result: ClusterResult, seconds: float) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    missing = [piece for piece in result.pieces if piece.error]
    return {
        "output": output,
        "shards": [piece.name for piece in result.pieces if not piece.error],
        "missing": [{"shard": piece.number, "error": piece.error} for piece in missing],
        "sentences": sum(piece.n_sentences for piece in result.pieces),
        "tokens": sum(piece.n_tokens for piece in result.pieces),
        "computed_tokens": sum(piece.n_tokens for piece in result.pieces if piece.worker),
        "seconds": round(seconds, 1),
        "workers": sorted({piece.worker for piece in result.pieces if piece.worker}),
        "skipped": result.report.skipped,
        "warnings": result.report.warnings,
    }


def _print_summary(result: ClusterResult, summary: Mapping[str, Any]) -> None:
    n_shards = plural(len(result.pieces), "shard")
    for missing in summary["missing"]:
        console.note(f"shard {missing['shard']} of {n_shards} is missing: {missing['error']}")
    computed = plural(summary["computed_tokens"], "token")
    done = f"{len(summary['shards']):,} of {n_shards}"
    console.note(f"{summary['output']}: {done}; {computed} in {summary['seconds']:.1f} s")
    if summary["missing"]:
        return
    folder = summary["output"]
    if is_url(folder):
        console.note("download the shards first: `elmo merge` reads local files")
        folder = "shards/"
    names = os.path.join(folder, f"part-*-{summary['shards'][0].rpartition('-')[2]}")
    console.note(f"`elmo merge {names} -o OUT.hdf5` joins them into one file")


def _refuse_missing(output: str, result: ClusterResult) -> None:
    missing = [piece for piece in result.pieces if piece.error]
    if missing:
        n_missing = f"{len(missing):,} of {plural(len(result.pieces), 'shard')}"
        first = f"the first is {missing[0].number}: {missing[0].error}"
        hint = f"{missing[0].hint}; then repeat the command to compute the missing shards"
        raise InputError(f"{output}: {n_missing} missing, {first}", hint)
