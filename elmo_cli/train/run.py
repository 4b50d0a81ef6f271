"""Pretraining as a whole: from text files to a model folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError, OutputError, ResumeError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.softmax import NextToken
from elmo_cli.pretrained.folder import OTHER_WEIGHTS_FILE, SOFTMAX_FILE, STATE_FILE
from elmo_cli.pretrained.load import locate
from elmo_cli.text.formats import InputSettings, Notes
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train import checkpoint
from elmo_cli.train.checkpoint import Progress
from elmo_cli.train.corpus import Corpus, windows
from elmo_cli.train.export import (
    OPTIONS_NAME,
    VOCABULARY_NAME,
    new_folder,
    write_options,
    write_vocabulary,
)
from elmo_cli.train.initial import new_model
from elmo_cli.train.language_model import load_language_model, softmax_of
from elmo_cli.train.log import FILE_NAME as LOG_NAME
from elmo_cli.train.loop import Trainer
from elmo_cli.train.read_corpus import read_corpus
from elmo_cli.train.recipe import Recipe
from elmo_cli.train.settings import TrainSettings
from elmo_cli.train.team import Team

FILTERS = {
    "lean": ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)),
    "small": ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
}
_OF_A_RUN = (checkpoint.FILE_NAME, LOG_NAME, "weights.hdf5")
_OF_A_MODEL = (OPTIONS_NAME, VOCABULARY_NAME, SOFTMAX_FILE, STATE_FILE)


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
    texts: Sequence[str],
    folder: Path,
    start: Start,
    settings: TrainSettings,
    *,
    heldout: Sequence[str] = (),
    reading: InputSettings | None = None,
    text_tokens: int | None = None,
    heldout_tokens: int | None = None,
    treebank: float = 0.0,
    overwrite: bool = False,
    resume: bool = False,
    notes: Notes | None = None,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
    say: Callable[[str], None] = lambda line: None,
    recipe: Recipe | None = None,
    team: Team | None = None,
) -> Progress:
    """Train a biLM, and write it as a model folder.

    Args:
        texts, heldout: names of text files; held-out text is only measured.
        folder: of the model; its checkpoint, log and recipe stand there too.
        reading: how both are read.
        text_tokens, heldout_tokens: read so many tokens of each file, and the sentence to its end.
        treebank: share of the documents of `texts` whose quotes and brackets are spelled as in a
            treebank, so that the model has met both.
        overwrite: begin anew where the folder holds a run already.
        resume: go on with the run in `folder`.
        report: called with each line of the log.
        say: called with what was found, in words.
        recipe: what is written into the folder, so that the run can be repeated.
        team: the processes that train together; None for this one alone, on the CPU.
    Raises:
        OutputError: the folder holds a run already, or can't be written to.
        InputError, TrainingError, ResumeError, ModelError, UsageError: as their places say.
    """
    team = team or Team()
    if overwrite and resume:
        raise UsageError(
            "--overwrite and --resume: one begins anew, the other goes on",
            "leave out `--overwrite` to keep what is done",
        )
    if resume:
        refuse_no_run(folder)
    else:
        _refuse_own_source(folder, start)
        _refuse_what_is_there(folder, (*texts, *heldout), overwrite=overwrite)
        if start.model is not None:
            _refuse_half_a_model(start.model)
    options = _options(folder, start, resume=resume)
    longest = options.max_characters
    corpus = read_corpus(
        texts,
        reading,
        max_characters=longest,
        most_tokens=text_tokens,
        treebank=treebank,
        notes=notes,
    )
    measured = (
        read_corpus(heldout, reading, max_characters=longest, most_tokens=heldout_tokens)
        if heldout
        else None
    )
    text = f"text: {corpus.n_sentences:,} sentences, {corpus.n_tokens:,} tokens"
    say(f"{text}; held out {measured.n_tokens:,} tokens" if measured else text)
    bilm, head, types = _first_weights(folder, start, options, corpus, settings, resume=resume)
    bilm, head = bilm.to(team.device), head.to(team.device)
    trainer = Trainer(bilm, head, types, corpus, measured, settings, folder, report, team)
    if not resume:  # a text that is too short is refused before anything is written
        n_rows = settings.rows * settings.accumulate * team.size
        next(windows(corpus, n_rows=n_rows, n_steps=settings.steps, seed=settings.seed))
    team.wait()  # until every process has looked at the folder
    if resume:
        trainer.resume()
        team.wait()
    team.first_does(lambda: _prepare(folder, options, types, recipe, resume=resume))
    return trainer.train()


def refuse_no_run(folder: Path) -> None:
    """Refuse to go on where there is no run, before a text is read for nothing.

    Raises:
        ResumeError: the folder holds no checkpoint.
    """
    if not (folder / checkpoint.FILE_NAME).exists():
        raise ResumeError(
            f"{folder / checkpoint.FILE_NAME}: no such checkpoint", "start without `--resume`"
        )


def _first_weights(
    folder: Path,
    start: Start,
    options: Options,
    corpus: Corpus,
    settings: TrainSettings,
    *,
    resume: bool,
) -> tuple[BiLM, NextToken, Vocabulary]:
    if start.model is not None and not resume:
        model = load_language_model(start.model)
        bilm, head = model.bilm.train().requires_grad_(), model.head.requires_grad_()
        return bilm, head, model.vocabulary
    vocabulary = folder / VOCABULARY_NAME if resume else start.vocabulary
    types = (
        Vocabulary.read(vocabulary)
        if vocabulary is not None
        else corpus.vocabulary(min_count=start.min_count, max_types=start.max_types)
    )
    return *new_model(options, corpus.predicted_counts(types), seed=settings.seed), types


def _options(folder: Path, start: Start, *, resume: bool) -> Options:
    if start.options is not None:
        return start.options
    if resume:
        return Options.from_file(folder / OPTIONS_NAME)
    return Options.from_file(locate(start.model).options)


def _prepare(
    folder: Path, options: Options, types: Vocabulary, recipe: Recipe | None, *, resume: bool
) -> None:
    """Write what a resumed run needs before the first model is exported, and the recipe; remove
    what belongs to other weights."""
    new_folder(folder)
    others = [] if resume else [folder / LOG_NAME, *folder.glob("best-*.pt")]
    try:
        for old in (folder / STATE_FILE, *others):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: can't be written to ({error.strerror})", "name another with `-o`"
        ) from None
    if not resume:
        write_vocabulary(folder, types)
        write_options(folder, options)
    if recipe is not None:
        recipe.write(folder)


def _refuse_what_is_there(folder: Path, texts: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a folder where the run would write over something."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: not a folder", "give a folder with `-o`")
    elsewhere = "`-o DIR` names another folder"
    there = {name: folder / name for name in (*_OF_A_RUN, *_OF_A_MODEL)}
    for name, path in there.items():
        if path.exists() and any(os.path.exists(t) and os.path.samefile(t, path) for t in texts):
            raise UsageError(f"{path}: read as text, and written to as {name}", elsewhere)
    if (folder / OTHER_WEIGHTS_FILE).exists():  # a folder with two is no model
        raise OutputError(f"{folder}: holds the model {OTHER_WEIGHTS_FILE}", elsewhere)
    for name, path in there.items() if not overwrite else ():
        if not path.exists():
            continue
        if name in _OF_A_RUN:
            raise OutputError(
                f"{folder}: holds {name} of an earlier run",
                "`--resume` goes on with it, `--overwrite` begins anew",
            )
        raise OutputError(
            f"{folder}: holds {name}, which would be replaced", f"{elsewhere}; or `--overwrite`"
        )


def _refuse_half_a_model(model: str) -> None:
    """Before a text is read for nothing."""
    files = locate(model)
    if softmax_of(files) is None or files.vocabulary is None:
        raise ModelError(
            f"{model}: has no softmax with its vocabulary, so it can't go on training",
            "`elmo finetune` fits one to a text and trains both",
        )


def _refuse_own_source(folder: Path, start: Start) -> None:
    if start.model is not None and folder.exists():
        source = locate(start.model).weights.parent
        if folder.resolve() == source.resolve():
            raise UsageError(
                f"{folder}: holds the model that training is to begin with",
                "`-o DIR` names another folder; the model stays as it is",
            )
