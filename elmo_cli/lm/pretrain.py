"""Pretraining: train a biLM from text files and write a model folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from elmo_cli.errors import UsageError
from elmo_cli.lm.checkpoint import TrainingProgress, load_corpora, read_checkpoint, save_corpora
from elmo_cli.lm.corpus import Corpus, overlap, read_corpus, without
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.language_model import LanguageModel, load_language_model, new_bilm, write_options
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.pretrain_config import CHAR_FILTERS, PretrainConfig
from elmo_cli.lm.settings import TextSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.messages import shorten_list
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.warm_state import write_warm_state
from elmo_cli.text.input import InputReport, check_inputs
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.training.reporter import SILENT, Reporter
from elmo_cli.training.run_folder import RECIPE_FILE, TEXT_FILE, RunFolder
from elmo_cli.training.tensors import as_resume_error


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
        mode: as of `RunFolder.open`.
        prepare_only: stop before the first step; mode "resume" then trains, even in a copy of the
            folder.
        group: the processes that train; None for this one alone, on the CPU.
    Raises:
        UsageError, OutputError, ResumeError: as `RunFolder.open`, or no text is given.
        SettingError: the resumed run started with another setting.
        InputError, TrainingError, ModelError, StoppedError: reading or training failed or stopped.
    """
    group, settings = group or ProcessGroup(), config.training
    with RunFolder(folder, "pretrain") as run_folder:
        settings.check(has_heldout=bool(config.text.heldout))
        group.run_on_first(lambda: run_folder.open(mode, reads=_files_read(config, mode)))
        is_new = mode != "resume"
        if is_new:
            model, train, heldout = _new_model(config, reporter)
            check_long_enough(train, settings, group.size)
        else:
            model, train, heldout = _saved_model(config, folder)
        found = f"text: {train.n_sentences:,} sentences, {train.n_tokens:,} tokens"
        if heldout is not None:
            found += f"; held out {heldout.n_tokens:,} tokens"
        reporter.message(found)
        if model.warning:
            reporter.message(f"warning: {model.warning}")
        step = TrainStep(model.to(group.device), train, settings, group)
        trainer = Trainer(step, heldout, run_folder, reporter)
        if not is_new:
            trainer.resume()

        def begin() -> None:
            if is_new:
                run_folder.start()
            config.write(folder)  # first, because it marks the folder of a run
            if is_new:
                write_options(model.bilm.options, folder)
                model.vocabulary.write(folder / VOCABULARY_FILE)
                save_corpora(folder / TEXT_FILE, train, heldout)
            (folder / STATE_FILE).unlink(missing_ok=True)

        group.run_on_first(begin)
        if prepare_only:
            trainer.save()
            return trainer.progress
        reporter.estimate(trainer.estimate())
        progress, n_before = trainer.progress, trainer.progress.step
        trainer.train()
        group.run_on_first(lambda: write_warm_state(folder))
        if not is_new and progress.step == n_before:
            what = "warning: no step was made, because a limit is reached; limits apply to the "
            reporter.message(f"{what}whole run, so raise the limit to continue")
        return progress


def _files_read(config: PretrainConfig, mode: str) -> list[Path]:
    """Return the files that a new run starts from."""
    if mode == "resume":
        return []
    if config.init_from is not None:
        return list(locate(config.init_from).paths)
    return [] if config.vocabulary is None else [Path(config.vocabulary)]


def _new_model(
    config: PretrainConfig, reporter: Reporter
) -> tuple[LanguageModel, Corpus, Corpus | None]:
    """Return the initial model, the training text and the held-out text."""
    source = load_language_model(config.init_from) if config.init_from else None
    options = source.bilm.options if source else _options(config)
    types = Vocabulary.read(Path(config.vocabulary)) if config.vocabulary else None
    train, heldout = _read_text(config.text, options.max_characters, reporter)
    if source is None:
        types = types or train.vocabulary(
            min_count=config.min_count, max_types=config.vocabulary_size, warn=reporter.message
        )
        counts = train.predicted_counts(types)
        source = LanguageModel(*new_bilm(options, counts, seed=config.training.seed), types)
    return source, train, heldout


def _saved_model(
    config: PretrainConfig, folder: Path
) -> tuple[LanguageModel, Corpus, Corpus | None]:
    """Return the untrained model and the texts of a run to resume; a checkpoint has the weights.

    Raises:
        SettingError: the run started with another setting.
    """
    config.check_same_run(PretrainConfig.read(folder / RECIPE_FILE, data_dir=config.data_dir))
    # options.json cannot express a projection as wide as the cells, as AllenNLP's models have.
    with as_resume_error(path := folder / CHECKPOINT_FILE):
        options = Options(**read_checkpoint(path)["run"]["options"])
    types = Vocabulary.read(folder / VOCABULARY_FILE)
    train, heldout = load_corpora(folder / TEXT_FILE, max_characters=options.max_characters)
    bilm, softmax = new_bilm(options, train.predicted_counts(types), seed=config.training.seed)
    return LanguageModel(bilm, softmax, types), train, heldout


def _paths_to_train_on(text: TextSettings, reporter: Reporter) -> tuple[str, ...]:
    """Check the names of all texts before any is read; return those that are not held out."""
    texts, heldout = text.texts, text.heldout
    if not texts:
        raise UsageError("no text is given", "name text files, or `texts` in a recipe")
    train = without(texts, heldout)
    if not train:
        what = f"{shorten_list(texts)}: only held-out texts, so nothing is left to train on"
        hint = "name texts to train on, or choose other held-out texts with `heldout`"
        raise UsageError(what, hint)
    check_inputs([*train, *heldout], text.reading)
    if left_out := without(texts, train):
        reporter.message(f"held out, so not trained on: {shorten_list(left_out)}")
    return train


def _options(config: PretrainConfig) -> Options:
    """Return the sizes of a new biLM."""
    if config.options_file is not None:
        return Options.from_file(config.options_file)
    filters = CHAR_FILTERS[config.char_filters]
    return Options(
        filters=filters,
        projection_dim=config.projection_dim,
        lstm_dim=config.lstm_dim,
        has_cnn_projection=sum(count for _, count in filters) != config.projection_dim,
        has_lstm_projection=config.lstm_dim != config.projection_dim,
    )


def _read_text(
    text: TextSettings, max_characters: int, reporter: Reporter
) -> tuple[Corpus, Corpus | None]:
    """Read the training text and the held-out text."""
    paths = _paths_to_train_on(text, reporter)
    notes, reading = InputReport(), replace(text.reading, max_characters=max_characters)
    reporter.reading([*paths, *text.heldout], notes)
    n_train, fraction = text.train_tokens_per_file, text.treebank_fraction
    train = read_corpus(
        paths, reading, tokens_per_file=n_train, treebank_fraction=fraction, notes=notes
    )
    heldout = None
    if text.heldout:
        n_tokens = text.heldout_tokens_per_file
        heldout = read_corpus(text.heldout, reading, tokens_per_file=n_tokens, notes=notes)
        overlap(heldout, train, notes)  # warns
    reporter.input_notes(notes)
    return train, heldout
