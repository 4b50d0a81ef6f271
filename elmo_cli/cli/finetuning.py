"""What `elmo finetune` does between its options and the library."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import given_options
from elmo_cli.cli.console import exit_if_skipped, plural, warn_of_slow_bf16
from elmo_cli.cli.options import input_settings
from elmo_cli.cli.reporting import ConsoleReporter, say_much_unknown, say_only_to_resume
from elmo_cli.engine.runtime import keep_freed_memory, select_device, set_num_threads
from elmo_cli.lm.card import table
from elmo_cli.lm.finetune.run import finetune
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.source_model import SourceNames
from elmo_cli.lm.tuning_job import RATES, FineTuned, FinetuneJob
from elmo_cli.pretrained.warm_state import write_warm_state

_CELL = 15
_BOUNDS = {
    "vocabulary_size": "max_types",
    "min_count": "min_count",
    "softmax_tokens": "head_tokens",
}


def finetune_command(given: dict[str, Any]) -> None:
    """Run `elmo finetune` with the values of its options."""
    quiet = given["quiet"]
    job = _job(given)
    reporter = ConsoleReporter("a part of the held-out text", quiet=quiet)
    set_num_threads(given["threads"])
    if job.settings.precision == "bf16":
        warn_of_slow_bf16(job.device, quiet=quiet)
    keep_freed_memory()
    with FolderLock(job.output) as lock:
        done = finetune(
            job,
            report=reporter.log_line,
            say=reporter.message,
            noticed=reporter.input_notes,
            lock=lock,
        )
        write_warm_state(job.output)
    say_much_unknown(done.unknown_fraction, "the held-out tokens", quiet=quiet)
    if given["as_json"]:
        console.print_json(done.as_object())
    else:
        _print(done)
    if not done.improved:
        rate = job.settings.learning_rate or RATES[job.settings.optimizer]
        hint = f"try `--overwrite --learning-rate {rate / 4:g}`, or more text"
        if not done.tokens:
            hint = "no step of training was made in --max-seconds: raise it, with `--resume`"
        reporter.message(
            f"fine-tuning did not help: {done.output} holds the biLM of {done.model} as it was; "
            f"{hint}"
        )
    say_only_to_resume(job.output, quiet=quiet)
    exit_if_skipped(reporter.notes)


def _job(given: dict[str, Any]) -> FinetuneJob:
    return FinetuneJob(
        domain=given["domain"],
        output=Path(given["output"]),
        settings=TrainSettings(
            **{one.name: given[one.name] for one in fields(TrainSettings) if one.name in given}
        ),
        heldout=given["heldout"],
        source=SourceNames(
            **{name: given[name] for name in ("model", "options", "weights", "softmax")},
            vocabulary=given["vocabulary"],
        ),
        fit_head=given["fit_softmax"],
        head_tokens=given["softmax_tokens"],
        max_types=given["vocabulary_size"],
        min_count=given["min_count"],
        reading=input_settings(given),
        device=select_device(given["device"]),
        resume=given["resume"],
        overwrite=given["overwrite"],
        named=frozenset(
            field
            for name, field in _BOUNDS.items()
            if name in given_options(click.get_current_context())
        ),
    )


def _print(done: FineTuned) -> None:
    names = ("", "forward", "backward", "average", "bits per byte")
    for name, *cells in (names, *table(done)):
        console.say(f"{name:<30}" + "".join(f"{cell:>{_CELL}}" for cell in cells))
    heldout = done.heldout
    console.say(
        f"held-out perplexity {done.ratio:.3f} times what it was; "
        f"{plural(heldout['tokens'], 'token')} in {plural(heldout['sentences'], 'sentence')}, "
        f"{done.unknown_fraction:.2%} not among the {done.vocabulary['types']:,} types of the "
        f"vocabulary ({done.vocabulary['source']})"
    )
    console.say(
        f"{done.output}: trained on {done.tokens:,} tokens, {done.epochs:.2f} epochs, in "
        f"{done.seconds:,.0f} s"
    )
