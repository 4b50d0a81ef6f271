"""Pretraining as a whole: from text files to a model folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError, UsageError
from elmo_cli.lm.checkpoint import FILE_NAME, TrainingProgress, read_options
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.initialize import new_bilm
from elmo_cli.lm.language_model import LanguageModel, load_language_model, softmax_of
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.model_folder import new_folder, refuse_both
from elmo_cli.lm.read_corpus import without
from elmo_cli.lm.recipe import Recipe
from elmo_cli.lm.run_folder import (
    prepare_folder,
    refuse_no_run,
    refuse_own_source,
    refuse_what_is_there,
)
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.lm.training_text import TextFiles, TrainingText
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import VOCABULARY_FILE
from elmo_cli.text.input import InputReport, shorten_list
from elmo_cli.text.vocabulary import Vocabulary

CHAR_FILTERS = {
    512: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)),
    2048: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
}


@dataclass(frozen=True)
class Start:
    """What a run begins with.

    Attributes:
        options: sizes of a new biLM; None for those of `model`, or of the run that goes on.
        model: a name or a folder of a model, whose weights, softmax and vocabulary are taken.
        vocabulary: a vocabulary file for a new softmax; None to count the types of the text.
        max_types, min_count: of a vocabulary that is counted.
    """

    options: Options | None = None
    model: str | None = None
    vocabulary: Path | None = None
    max_types: int | None = None
    min_count: int = 1


def pretrain(
    files: TextFiles | None,
    folder: Path,
    start: Start,
    settings: TrainSettings,
    *,
    overwrite: bool = False,
    resume: bool = False,
    prepare: bool = False,
    notes: InputReport | None = None,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
    say: Callable[[str], None] = lambda line: None,
    noticed: Callable[[InputReport], None] = lambda notes: None,
    recipe: Recipe | None = None,
    team: ProcessGroup | None = None,
    lock: FolderLock | None = None,
) -> TrainingProgress:
    """Train a biLM, and write it as a model folder.

    Args:
        files: the text; None, with `resume`, for the one that the folder keeps.
        folder: of the model; its checkpoint, text, log and recipe stand there too.
        overwrite: begin anew where the folder holds a run already.
        resume: go on with the run in `folder`.
        prepare: stop before the first step, so that `resume` trains, here or elsewhere.
        notes: of the readers, of a text that is kept too.
        report: called with each line of the log.
        say: called with what was found, in words.
        noticed: called with `notes` when the text is read.
        recipe: what is written into the folder, so that the run can be repeated.
        team: the processes that train together; None for this one alone, on the CPU.
        lock: of the folder, where it is to be held longer than this takes.
    Raises:
        OutputError: the folder holds a run already, another process is training there, or it can't
            be written to.
        InputError, TrainingError, ResumeError, ModelError, UsageError: as their places say.
    """
    team = team or ProcessGroup()
    refuse_both(overwrite=overwrite, resume=resume)
    with lock or FolderLock(folder) as held:
        team.run_on_first(held.take)
        if resume:
            refuse_no_run(folder)
        elif files is None:
            raise UsageError("no text is given", "only with `resume` the folder's own is taken")
        if files is not None:
            files.check()
            if not_learned := without(files.texts, files.learned):
                say(f"held out, so not trained on: {shorten_list(not_learned)}")
            settings.check_heldout(is_there=bool(files.heldout))
            if not resume:
                _refuse(files, folder, start, overwrite=overwrite)
        options = _options(folder, start, resume=resume)
        notes = notes if notes is not None else InputReport()
        text = _read(files, options, notes, say, folder)
        noticed(notes)
        if not resume:  # where another text, which may be too short as well, is reported
            n_streams = settings.batch_size * settings.gradient_accumulation_steps * team.size
            check_long_enough(text.corpus, batch_size=n_streams, bptt=settings.bptt)
        bilm, head, types = _first_weights(
            folder, start, options, text, settings, say, resume=resume
        )
        model = LanguageModel(bilm.to(team.device), head.to(team.device), types)
        step = TrainStep(model, text.corpus, settings, team)
        trainer = Trainer(step, text.heldout, folder, report)
        team.run_on_first()  # until every process has looked at the folder
        if resume:
            trainer.resume()
            team.run_on_first()

        def begin() -> None:
            new_folder(folder)
            held.take()
            if files is not None and not resume:  # another run may have ended there meanwhile
                texts = (*files.texts, *files.heldout)
                refuse_what_is_there(folder, texts, overwrite=overwrite)
            anew = text if files is not None else None
            prepare_folder(folder, options, types, recipe, text=anew, resume=resume)

        team.run_on_first(begin)
        if prepare:
            trainer.save()
            return trainer.progress
        result = trainer.train()
        if resume and result.n_steps == 0:
            say(
                f"warning: no step was made, as {result.limit} is reached: limits "
                "count all parts of a run, and a larger one goes on"
            )
        return result.progress


def _refuse(files: TextFiles, folder: Path, start: Start, *, overwrite: bool) -> None:
    """Refuse what would be lost or in vain, before a text is read for nothing."""
    if start.vocabulary is not None and not start.vocabulary.is_fifo():  # which is read once
        Vocabulary.read(start.vocabulary)
    if start.model is not None:
        refuse_own_source(folder, start.model)
    refuse_what_is_there(folder, (*files.texts, *files.heldout), overwrite=overwrite)
    if start.model is not None:
        _refuse_half_a_model(start.model)


def _read(
    files: TextFiles | None,
    options: Options,
    notes: InputReport,
    say: Callable[[str], None],
    folder: Path,
) -> TrainingText:
    """Read text files, or what `folder` keeps of them, and say how much there is."""
    if files is not None:
        text = TrainingText.read(files, max_characters=options.max_characters, notes=notes)
    else:
        text = TrainingText.kept(folder, max_characters=options.max_characters)
        notes.skipped.extend(text.skipped)
    found = f"text: {text.corpus.n_sentences:,} sentences, {text.corpus.n_tokens:,} tokens"
    say(f"{found}; held out {text.heldout.n_tokens:,} tokens" if text.heldout else found)
    return text


def _first_weights(
    folder: Path,
    start: Start,
    options: Options,
    text: TrainingText,
    settings: TrainSettings,
    say: Callable[[str], None],
    *,
    resume: bool,
) -> tuple[BiLM, NextTokenSoftmax, Vocabulary]:
    if start.model is not None and not resume:
        model = load_language_model(start.model)
        if model.warning:
            say(f"warning: {model.warning}")
        return model.bilm, model.softmax, model.vocabulary
    vocabulary = folder / VOCABULARY_FILE if resume else start.vocabulary
    types = (
        Vocabulary.read(vocabulary)
        if vocabulary is not None
        else text.corpus.vocabulary(
            min_count=start.min_count,
            max_types=start.max_types,
            warn=lambda warning: say(f"warning: {warning}"),
        )
    )
    counts = text.corpus.predicted_counts(types)
    return *new_bilm(options, counts, seed=settings.seed), types


def _options(folder: Path, start: Start, *, resume: bool) -> Options:
    if start.options is not None:
        return start.options
    if resume:
        return read_options(folder / FILE_NAME)
    return locate(start.model).read_options()


def _refuse_half_a_model(model: str) -> None:
    """Before a text is read for nothing."""
    files = locate(model)
    if softmax_of(files) is None or files.vocabulary is None:
        raise ModelError(
            f"{model}: has no softmax with its vocabulary, so it can't go on training",
            "`elmo finetune` fits one to a text and trains both",
        )
