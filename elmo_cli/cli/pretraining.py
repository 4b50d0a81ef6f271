"""What `elmo pretrain` does between its options and the library."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.console import exit_if_skipped, print_input_warnings, warn_of_slow_bf16
from elmo_cli.cli.options import INPUT_FIELDS, input_settings
from elmo_cli.cli.recipes import (
    effective_settings,
    is_given,
    long_name,
    take_recipe,
)
from elmo_cli.cli.reporting import reporter, say_only_to_resume
from elmo_cli.cli.resuming import SIZES, TYPES, as_begun, where_given
from elmo_cli.engine.runtime import keep_freed_memory, select_device, set_num_threads
from elmo_cli.errors import DeviceError, InputError, UsageError
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.distributed import ProcessGroup, process_group
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.log import FILE_NAME as LOG_NAME
from elmo_cli.lm.log import read_log
from elmo_cli.lm.recipe import FILE_NAME, LISTS, Recipe
from elmo_cli.lm.run import CHAR_FILTERS, Start, pretrain
from elmo_cli.lm.run_folder import keeps_text, refuse_no_run
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.training_text import TextFiles
from elmo_cli.model.options import Options
from elmo_cli.pretrained.warm_state import write_warm_state
from elmo_cli.text.input import InputReport

_TEXT = (
    *LISTS,
    *INPUT_FIELDS,
    "train_tokens_per_file",
    "heldout_tokens_per_file",
    "treebank_fraction",
)


def pretrain_command(ctx: click.Context) -> None:
    """Run `elmo pretrain` with the values of its options."""
    given = ctx.params
    if given["resume"] and given["prepare"]:
        raise UsageError(
            "--prepare and --resume: one ends before training, the other goes on with it",
            "leave out `--prepare` to train",
        )
    if given["resume"]:
        refuse_no_run(Path(given["output"]))
    is_kept = _is_text_kept(ctx)
    named = _with_recipe(ctx, texts_needed=not is_kept)
    start = _start(ctx, named)
    if not given["texts"]:
        raise _no_text(ctx)
    files = None if is_kept else _files(ctx)
    settings = TrainSettings.of(given)
    set_num_threads(given["threads"])
    keep_freed_memory()
    with process_group(given["device"]) as team:
        _train(ctx, files, start, settings, team)


def _train(
    ctx: click.Context,
    files: TextFiles | None,
    start: Start,
    settings: TrainSettings,
    team: ProcessGroup,
) -> None:
    given, notes = ctx.params, InputReport()
    quiet = given["quiet"] or not team.is_first
    if settings.precision == "bf16":
        warn_of_slow_bf16(team.device, quiet=quiet)
    lines: list[dict[str, Any]] = []
    report = reporter("the held-out text", quiet=quiet, max_seconds=settings.max_seconds)

    def keep(line: dict[str, Any]) -> None:
        lines.append(line)
        report(line)

    folder = Path(given["output"])
    with FolderLock(folder) as lock:
        progress = pretrain(
            files,
            folder,
            start,
            settings,
            overwrite=given["overwrite"],
            resume=given["resume"],
            prepare=given["prepare"],
            notes=notes,
            report=keep,
            say=lambda line: console.note(line, quiet=quiet),
            noticed=lambda notes: print_input_warnings(notes, quiet=quiet),
            recipe=_recipe(ctx),
            team=team,
            lock=lock,
        )
        if not given["prepare"]:
            team.run_on_first(lambda: write_warm_state(folder))
    if team.is_first:
        if given["as_json"]:
            console.print_json(_facts(given["output"], lines, progress, settings))
        done = _ready(folder) if given["prepare"] else _end(given, lines, progress)
        console.note(done, quiet=quiet)
        if not given["prepare"]:
            say_only_to_resume(folder, quiet=quiet)
    exit_if_skipped(notes)


def _facts(
    output: str, lines: list[dict[str, Any]], progress: TrainingProgress, settings: TrainSettings
) -> dict[str, Any]:
    return {
        "model": output,
        "steps": progress.step,
        "epochs": round(progress.epochs, 3),
        "tokens": progress.tokens,
        "seconds": round(progress.seconds, 1),
        "heldout": _heldout(lines, Path(output), progress, settings),
    }


def _ready(folder: Path) -> str:
    """What is said of a run that is prepared."""
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return f"{folder}: {size:,.1f} MB; `elmo pretrain -o {folder} --resume` trains"


def _end(given: dict[str, Any], lines: list[dict[str, Any]], progress: TrainingProgress) -> str:
    """What is said of a run that is done."""
    end = f"{given['output']}: trained on {progress.tokens:,} tokens in {progress.seconds:,.0f} s"
    loss = _last(_logged(lines, Path(given["output"])), "loss")
    if loss is not None and not given["heldout"]:
        end += f", loss {loss:.3f}; `--heldout FILE` would tell its perplexity"
    return end


def _files(ctx: click.Context) -> TextFiles:
    given = ctx.params
    return TextFiles(
        given["texts"],
        given["heldout"],
        input_settings(given),
        given["train_tokens_per_file"],
        given["heldout_tokens_per_file"],
        given["treebank_fraction"],
    )


def _is_text_kept(ctx: click.Context) -> bool:
    """Whether a run goes on with the text that it keeps: nothing is said of another one."""
    given = ctx.params
    if not given["resume"] or not keeps_text(Path(given["output"])):
        return False
    return not any(is_given(ctx, name) for name in (*_TEXT, "recipe"))


def _with_recipe(ctx: click.Context, *, texts_needed: bool) -> set[str]:
    """Fill up the options from a recipe; the names of all that are given somewhere."""
    given = ctx.params
    named = {name for name in given if is_given(ctx, name)}
    data = Path(given["data_dir"]) if given["data_dir"] else None
    own = Path(given["output"]) / FILE_NAME
    if given["recipe"]:
        named |= take_recipe(ctx, Path(given["recipe"]), data, texts_needed=texts_needed)
    elif given["resume"] and own.exists():
        taken = take_recipe(ctx, own, data, texts_needed=texts_needed)
        named |= taken
        if "device" in taken:
            given["device"] = _device_here(given["device"])
    elif data is not None:
        raise UsageError("--data-dir: there is no recipe", "`--recipe FILE` names one")
    if given["resume"]:
        as_begun(ctx, named)
    return named


def _device_here(name: str) -> str:
    """The device of a run that goes on, maybe on a machine that does not have it."""
    try:
        select_device(name)
    except DeviceError:
        return "auto"
    return name


def _no_text(ctx: click.Context) -> UsageError:
    folder = Path(ctx.params["output"])
    if ctx.params["resume"] and not (folder / FILE_NAME).exists():
        return UsageError(
            f"{folder}: has no {FILE_NAME}, which holds the settings and texts of its run",
            "`--recipe FILE` or options and TEXT name them",
        )
    return UsageError("no TEXT is given", "`elmo pretrain TEXT… -o DIR`, or `texts` in a recipe")


def _recipe(ctx: click.Context) -> Recipe:
    given, without = ctx.params, set()
    if given["init_from"]:
        without = {*SIZES, *TYPES}
    elif given["options_file"]:
        without = {*SIZES} - {"options_file"}
    if given["vocabulary"]:
        without |= {*TYPES} - {"vocabulary"}
    data = Path(given["data_dir"]) if given["data_dir"] else None
    return Recipe(effective_settings(ctx, without=without), data)


def _start(ctx: click.Context, named: set[str]) -> Start:
    given = ctx.params
    if given["resume"]:
        return Start(model=given["init_from"])  # its sizes and types stand in its folder
    if given["init_from"]:
        # A recipe's are set aside by `--init-from`, as any setting is by one of the command line.
        refused = (
            named if not is_given(ctx, "init_from") else {n for n in named if is_given(ctx, n)}
        )
        for parameter in ctx.command.params:
            if parameter.name in refused & (SIZES | TYPES):
                where = where_given(ctx, str(parameter.name), long_name(parameter))
                raise UsageError(
                    f"{where}: has no meaning with `--init-from {given['init_from']}`",
                    "sizes and vocabulary are those of that model",
                )
        return Start(model=given["init_from"])
    for name, others in (("options_file", SIZES), ("vocabulary", TYPES)):
        for parameter in ctx.command.params if given[name] else ():
            if parameter.name in others - {name} and is_given(ctx, parameter.name):
                option = name.replace("_", "-")
                raise UsageError(
                    f"--{long_name(parameter)}: has no meaning with `--{option} {given[name]}`",
                    "leave out one of them",
                )
    return Start(
        options=_options(given),
        vocabulary=Path(given["vocabulary"]) if given["vocabulary"] else None,
        max_types=given["vocabulary_size"],
        min_count=given["min_count"],
    )


def _options(given: dict[str, Any]) -> Options:
    """The sizes of a new model."""
    if given["options_file"]:
        return Options.from_file(given["options_file"])
    filters, projection = CHAR_FILTERS[given["char_filters"]], given["projection_dim"]
    return Options(
        filters=filters,
        projection_dim=projection,
        lstm_dim=given["lstm_dim"],
        has_cnn_projection=sum(count for _, count in filters) != projection,
        has_lstm_projection=given["lstm_dim"] != projection,
    )


def _heldout(
    lines: list[dict[str, Any]], folder: Path, progress: TrainingProgress, settings: TrainSettings
) -> Any:
    """What the exported weights were measured to be worth, maybe in an earlier part of the run."""
    looks = [line for line in _logged(lines, folder) if "heldout" in line]
    if settings.keep_best:
        looks = [line for line in looks if line["step"] == progress.best_step]
    return _last(looks, "heldout")


def _logged(lines: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The lines of the whole run, before those of this part of it."""
    with suppress(InputError):  # no log yet, or one that somebody has changed
        return [*read_log(folder / LOG_NAME), *lines]
    return lines


def _last(lines: Sequence[dict[str, Any]], name: str) -> Any:
    """The last of the log's facts of a kind."""
    return next((line[name] for line in reversed(lines) if name in line), None)
