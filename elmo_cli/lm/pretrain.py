"""Pretraining: train a biLM from text files and write a model folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from elmo_cli.errors import UsageError
from elmo_cli.fit import HELDOUT_IN_VOCABULARY, TRAIN_IN_VOCABULARY, FitPoint
from elmo_cli.lm.checkpoint import TrainingProgress, load_corpora, save_corpora, saved_options
from elmo_cli.lm.corpus import Corpus, overlap, read_corpus, warn_of_single_tokens, without
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.language_model import LanguageModel, load_language_model, new_bilm, write_options
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.pretrain_config import CHAR_FILTERS, PretrainConfig
from elmo_cli.lm.settings import TextSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.messages import shorten_list
from elmo_cli.model.options import Options
from elmo_cli.model_folder import RECIPE_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE
from elmo_cli.pretrained.warm_state import write_warm_state
from elmo_cli.text.input import InputReport, check_inputs
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.training.reporter import SILENT, Reporter
from elmo_cli.training.run_folder import TEXT_FILE, RunFolder


def pretrain(
    config: PretrainConfig,
    folder: Path,
    mode: str = "new",
    *,
    prepare_only: bool = False,
    reporter: Reporter = SILENT,
    group: ProcessGroup | None = None,
) -> TrainingProgress:
    """Train a biLM and write it as a model folder.

    Args:
        folder: folder of the model, its recipe, text, log and checkpoint.
        mode: as of `RunFolder.open`; a run that has no checkpoint yet is resumed by starting it.
        prepare_only: stop before the first step; mode "resume" then trains, even in a copy of the
            folder.
        group: the processes that train; None for this one alone, on the CPU.
    Raises:
        UsageError, OutputError, ResumeError: as `RunFolder.open`, or no text is given.
        SettingError: the resumed run started with another setting.
        InputError, TrainingError, ModelError, StoppedError: reading or training failed or stopped.
    """
    group = group or ProcessGroup()
    config.training.check(has_heldout=bool(config.text.heldout))
    with RunFolder(folder, "pretrain") as run_folder:
        group.run_on_first(lambda: run_folder.open(mode, reads=_files_read(config, mode)))
        if mode == "resume":
            recipe = PretrainConfig.read(folder / RECIPE_FILE, data_dir=config.data_dir)
            config.check_same_run(recipe)
        is_new = mode != "resume" or not run_folder.has_progress
        if is_new:
            start = _new_start(config, reporter)
            check_long_enough(start.train, config.training, group.size)
        else:
            start = _saved_start(config, folder)
        _report_start(start, config, reporter)

        model = start.model.to(group.device)
        step = TrainStep(model, start.train, config.training, group)
        trainer = Trainer(step, start.heldout, run_folder, reporter)
        if not is_new:
            trainer.resume()
        group.run_on_first(lambda: _write_start(start, config, run_folder, is_new=is_new))
        if prepare_only:
            trainer.save()
            return trainer.progress

        reporter.estimate(trainer.estimate())
        n_steps_before = trainer.progress.step
        trainer.train()
        group.run_on_first(lambda: write_warm_state(folder))
        if not is_new and trainer.progress.step == n_steps_before:
            reporter.message(
                "warning: no step was made, because a limit is reached; limits apply to the whole "
                "run, so raise the limit to continue"
            )
        return trainer.progress


@dataclass(frozen=True)
class _StartingPoint:
    """What training starts from: the model and the texts."""

    model: LanguageModel
    train: Corpus
    heldout: Corpus | None


def _files_read(config: PretrainConfig, mode: str) -> list[Path]:
    """Return the files that a new run starts from."""
    if mode == "resume":
        return []
    files: list[Path] = []
    if config.init_from is not None:
        files += locate(config.init_from).paths
    for name in (config.options_file, config.vocabulary):
        if name is not None:
            files.append(Path(name))
    return files


def _new_start(config: PretrainConfig, reporter: Reporter) -> _StartingPoint:
    """Read the texts, and load the model to start from or make a new one."""
    if config.init_from is not None:
        model = load_language_model(config.init_from)
        train, heldout = _read_text(config.text, model.bilm.options.max_characters, reporter)
        return _StartingPoint(model, train, heldout)
    options = _options(config)
    vocabulary = None
    if config.vocabulary is not None:
        vocabulary = Vocabulary.read(Path(config.vocabulary))
    train, heldout = _read_text(config.text, options.max_characters, reporter)
    if vocabulary is None:
        vocabulary = train.vocabulary(
            min_count=config.min_count,
            max_types=config.vocabulary_size,
            warn=reporter.message,
        )
    return _StartingPoint(
        _new_model(options, train, vocabulary, config.training.seed), train, heldout
    )


def _saved_start(config: PretrainConfig, folder: Path) -> _StartingPoint:
    """Return the untrained model and the texts of a run to resume; a checkpoint has the weights."""
    options = saved_options(folder / CHECKPOINT_FILE)
    vocabulary = Vocabulary.read(folder / VOCABULARY_FILE)
    train, heldout = load_corpora(folder / TEXT_FILE, max_characters=options.max_characters)
    return _StartingPoint(
        _new_model(options, train, vocabulary, config.training.seed), train, heldout
    )


def _new_model(options: Options, train: Corpus, vocabulary: Vocabulary, seed: int) -> LanguageModel:
    bilm, softmax = new_bilm(options, train.predicted_counts(vocabulary), seed=seed)
    return LanguageModel(bilm, softmax, vocabulary)


def _report_start(start: _StartingPoint, config: PretrainConfig, reporter: Reporter) -> None:
    """Report the sizes of the texts, and how they fit; errors of `_fit_points`."""
    sizes = f"{start.train.n_sentences:,} sentences, {start.train.n_tokens:,} tokens"
    if start.heldout is not None:
        sizes += f"; held out {start.heldout.n_tokens:,} tokens"
    reporter.message(f"text: {sizes}")
    if start.model.warning:
        reporter.message(f"warning: {start.model.warning}")
    reporter.fit(_fit_points(start, config.text))


def _fit_points(start: _StartingPoint, text: TextSettings) -> list[FitPoint]:
    """How the texts fit the vocabulary and each other; an InputError if nothing can be learned."""
    vocabulary = start.model.vocabulary
    train = start.train.fit(TRAIN_IN_VOCABULARY, vocabulary)
    train.check(shorten_list(text.texts))
    if start.heldout is None:
        return [train]
    heldout = start.heldout.fit(HELDOUT_IN_VOCABULARY, vocabulary)
    heldout.check(shorten_list(text.heldout))
    return [train, heldout, overlap(start.heldout, start.train)]


def _write_start(
    start: _StartingPoint, config: PretrainConfig, run_folder: RunFolder, *, is_new: bool
) -> None:
    """Write what a resumed run needs besides the checkpoint."""
    folder = run_folder.path
    if is_new:
        run_folder.clear()
    config.write(folder)  # first, because it marks the folder of a run
    if is_new:
        write_options(start.model.bilm.options, folder)
        start.model.vocabulary.write(folder / VOCABULARY_FILE)
        save_corpora(folder / TEXT_FILE, start.train, start.heldout)
    (folder / STATE_FILE).unlink(missing_ok=True)


def _paths_to_train_on(text: TextSettings, reporter: Reporter) -> tuple[str, ...]:
    """Check the names of all texts before any is read; return those that are not held out."""
    if not text.texts:
        raise UsageError("no text is given", "name text files, or `texts` in a recipe")
    train = without(text.texts, text.heldout)
    if not train:
        raise UsageError(
            "only held-out texts, so nothing is left to train on",
            "name texts to train on, or choose other held-out texts with `heldout`",
            where=shorten_list(text.texts),
        )
    check_inputs([*train, *text.heldout], text.reading)
    held_out = without(text.texts, train)
    if held_out:
        reporter.message(f"held out, so not trained on: {shorten_list(held_out)}")
    return train


def _options(config: PretrainConfig) -> Options:
    """Return the sizes of a new biLM."""
    if config.options_file is not None:
        return Options.from_file(config.options_file)
    filters = CHAR_FILTERS[config.char_filters]
    n_filters = sum(count for _, count in filters)
    return Options(
        filters=filters,
        projection_dim=config.projection_dim,
        lstm_dim=config.lstm_dim,
        has_cnn_projection=n_filters != config.projection_dim,
        has_lstm_projection=config.lstm_dim != config.projection_dim,
    )


def _read_text(
    text: TextSettings, max_characters: int, reporter: Reporter
) -> tuple[Corpus, Corpus | None]:
    """Read the training text and the held-out text."""
    paths = _paths_to_train_on(text, reporter)
    notes = InputReport()
    reading = replace(text.reading, max_characters=max_characters)
    reporter.reading([*paths, *text.heldout], notes)
    train = read_corpus(paths, reading, tokens_per_file=text.train_tokens_per_file, notes=notes)
    warn_of_single_tokens(train, paths, notes)
    heldout = None
    if text.heldout:
        heldout = read_corpus(
            text.heldout, reading, tokens_per_file=text.heldout_tokens_per_file, notes=notes
        )
    reporter.input_notes(notes)
    return train, heldout
