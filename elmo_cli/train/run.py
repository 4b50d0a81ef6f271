"""Pretraining as a whole: from text files to a model folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo_cli.errors import OutputError
from elmo_cli.model.options import Options
from elmo_cli.text.formats import InputSettings, Notes, read_sentences
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train import checkpoint
from elmo_cli.train.checkpoint import Progress
from elmo_cli.train.corpus import Corpus
from elmo_cli.train.export import VOCABULARY_NAME, new_folder
from elmo_cli.train.initial import new_model
from elmo_cli.train.loop import LOG_NAME, Trainer
from elmo_cli.train.settings import TrainSettings

FILTERS = {
    "lean": ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256)),
    "small": ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
}


def pretrain(
    texts: Sequence[str],
    folder: Path,
    options: Options,
    settings: TrainSettings,
    *,
    heldout: Sequence[str] = (),
    reading: InputSettings | None = None,
    max_types: int | None = None,
    min_count: int = 1,
    vocabulary: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    notes: Notes | None = None,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
) -> Progress:
    """Train a biLM from the beginning, and write it as a model folder.

    Args:
        texts, heldout: names of text files; held-out text is only measured.
        folder: of the model; its checkpoint and log stand there too.
        reading: how both are read.
        max_types, min_count: of the vocabulary that is counted in `texts`.
        vocabulary: a vocabulary file to take instead.
        overwrite: begin anew where the folder holds a run already.
        resume: go on with the run in `folder`.
        report: called with each line of the log.
    Raises:
        OutputError: the folder holds a run already, or can't be written to.
        InputError, TrainingError, ResumeError: as their places say.
    """
    if not resume and not overwrite:
        _refuse_old_run(folder)
    corpus = Corpus.read(_tokens(texts, reading, notes), max_characters=options.max_characters)
    measured = None
    if heldout:
        found = _tokens(heldout, reading, Notes())
        measured = Corpus.read(found, max_characters=options.max_characters)
    if resume and vocabulary is None:
        vocabulary = folder / VOCABULARY_NAME
    types = (
        Vocabulary.read(vocabulary)
        if vocabulary is not None
        else corpus.vocabulary(min_count=min_count, max_types=max_types)
    )
    bilm, head = new_model(options, corpus.predicted_counts(types), seed=settings.seed)
    trainer = Trainer(bilm, head, types, corpus, measured, settings, folder, report)
    if resume:
        trainer.resume()
    else:
        new_folder(folder)
        types.write(folder / VOCABULARY_NAME)
        (folder / LOG_NAME).unlink(missing_ok=True)
    return trainer.train()


def _tokens(
    paths: Sequence[str], reading: InputSettings | None, notes: Notes | None
) -> Iterator[tuple[str, ...]]:
    return (sentence.tokens for sentence in read_sentences(paths, reading, notes))


def _refuse_old_run(folder: Path) -> None:
    for name in (checkpoint.FILE_NAME, LOG_NAME, "weights.hdf5"):
        if (folder / name).exists():
            raise OutputError(
                f"{folder}: holds {name} of an earlier run",
                "`--resume` goes on with it, `--overwrite` begins anew",
            )
