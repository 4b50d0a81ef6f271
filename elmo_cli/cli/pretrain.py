"""`elmo pretrain`: train a biLM from scratch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, lm_training, options
from elmo_cli.cli.click_options import (
    FILE,
    FOLDER,
    MODEL_OR_FILE,
    argument,
    command,
    flag,
    setting,
    settings,
    together,
    value,
)
from elmo_cli.fit import fit_facts
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.lm.settings import TextSettings, TrainSettings
from elmo_cli.model_folder import RECIPE_FILE

if TYPE_CHECKING:
    from elmo_cli.lm.checkpoint import TrainingProgress

# fmt: off
_output_options = together(
    lm_training.run_folder_options(
        "model, vocabulary, recipe, log and checkpoint",
        "Continue the run in DIR; its recipe supplies the options that are not given."),
    flag("Output", "--prepare",
         "Stop before the first step; `--resume` then trains, also in a copy of DIR."),
    value("Output", "--recipe FILE", "JSON file with options by their long names, and `texts`; the "
          "command line takes precedence.", type=FILE),
    value("Output", "--data-dir DIR", "Folder that the recipe's file names are relative to.  "
          "[default: the recipe's folder]", type=FOLDER),
)
_training_options = together(
    settings(
        TrainSettings, "Length",
        ("--max-seconds SECONDS",
         "Stop after this many seconds of training, over all parts of the run."),
        ("--max-steps N", "Stop after N weight updates."),
        ("--max-epochs FLOAT", "Stop after reading the text this many times; 0.5 is half of it."),
    ),
    lm_training.heldout_option(
        "Held-out text for evaluation, which is never trained on; may be repeated."),
    setting(TextSettings, "Evaluation", "--heldout-tokens-per-file N",
            "Read at most N tokens from each held-out file."),
    settings(
        TrainSettings, "Evaluation",
        ("--eval-seconds SECONDS",
         "Time between two evaluations, each with a checkpoint and an export."),
        ("--eval-steps N",
         "Evaluate every N steps instead; checkpoints are still saved every --eval-seconds."),
        ("--keep-best",
         "Export the weights with the best held-out perplexity instead of the last."),
        ("--log-steps N", "Steps between two lines of the log."),
    ),
    lm_training.patience_option(),
    lm_training.training_options("0.0025 for adamw, 0.2 for adagrad"),
    settings(
        TrainSettings, "Training",
        ("--warmup-steps N",
         "Steps of linear learning-rate warmup for adamw; cosine decay follows."),
        ("--bptt N", "Length of truncated backpropagation through time, in tokens."),
        ("--shuffle UNIT",
         "What is shuffled in each epoch: sentences or documents (separated by blank lines)."),
        ("--max-grad-norm FLOAT",
         "Clip gradients to this norm, for the loss summed over 20 tokens as in bilm-tf."),
    ),
)
_model_options = together(
    setting(PretrainConfig, "Model", "--init-from NAME|PATH",
            "Start from the weights, softmax and vocabulary of this model.", type=MODEL_OR_FILE),
    setting(PretrainConfig, "Model", "--options-file FILE",
            "options.json with all sizes, instead of the next three options.", type=FILE),
    settings(
        PretrainConfig, "Model",
        ("--lstm-dim N", "LSTM cell size."),
        ("--projection-dim N", "LSTM output size; stored vectors have twice as many values."),
        ("--char-filters N",
         "Filters of the character CNN: 512, or 2048 as in the published models."),
    ),
    options.vocabulary_size_options("Vocabulary", size=25_000, min_count=2),
    setting(PretrainConfig, "Vocabulary", "--vocabulary FILE",
            "Types to predict, one per line, instead of counting them.", type=FILE),
)
_text_options = settings(
    TextSettings, "Input",
    ("--train-tokens-per-file N",
     "Read at most N tokens from each TEXT, so that large files do not dominate."),
)
# fmt: on


@dataclass(frozen=True)
class PretrainOptions(
    lm_training.RunFolderOptions,
    lm_training.TrainingOptions,
    options.VocabularySizeOptions,
):
    """The values of all options of `elmo pretrain`; each field is an option of the same name."""

    texts: tuple[str, ...]
    prepare: bool
    recipe: str | None
    data_dir: str | None
    train_tokens_per_file: int | None
    heldout_tokens_per_file: int | None
    eval_seconds: float
    eval_steps: int | None
    keep_best: bool
    log_steps: int
    warmup_steps: int
    bptt: int
    shuffle: str
    max_grad_norm: float
    init_from: str | None
    options_file: str | None
    lstm_dim: int
    projection_dim: int
    char_filters: int
    vocabulary: str | None


@command
@argument("texts", nargs=-1, metavar="TEXT…", type=FILE)
@_output_options
@_training_options
@_model_options
@lm_training.common_options
@_text_options
def pretrain(**values: Any) -> None:
    """Train a biLM from scratch and write it as a model folder.

    TEXT is a text file, plain or compressed (.gz, .xz). Training stops at the first limit that is
    reached; the folder contains the model from the first evaluation on. Ctrl-C saves everything.
    With torchrun, several processes train one model, and each of them reads --batch-size separate
    streams. --resume needs no TEXT, because the folder stores it as numbers.

    \b
    Examples:
      elmo pretrain news.txt -o model/ --heldout dev.txt --max-seconds 3600
      elmo pretrain raw/*.txt.xz --tokenize -o model/ --max-epochs 10
      elmo pretrain -o model/ --resume --max-seconds 7200
      elmo pretrain --recipe model/recipe.json -o again/
      elmo pretrain raw/*.txt.xz --tokenize -o model/ --max-seconds 3600 --prepare
      torchrun --nproc-per-node 4 -m elmo_cli pretrain news.txt -o model/ \\
          --max-epochs 10
    """
    chosen = PretrainOptions(**values)
    mode = chosen.mode()
    config = _config(chosen)
    folder = Path(chosen.output)
    is_first_process = os.environ.get("RANK", "0") == "0"  # set by torchrun
    if not is_first_process:
        console.running.quiet = True
    with lm_training.ConsoleReporter("the held-out text") as reporter:
        from elmo_cli.lm.distributed import process_group
        from elmo_cli.lm.pretrain import pretrain

        options.use_threads(config.threads)
        with process_group(config.device) as group:
            options.warn_of_slow_bf16(config.training.precision, group.device)
            progress = pretrain(
                config,
                folder,
                mode,
                prepare_only=chosen.prepare,
                reporter=reporter,
                group=group,
            )
    if group.is_first:
        console.print_result(
            {
                "model": str(folder),
                "steps": progress.step,
                "epochs": round(progress.epochs, 3),
                "tokens": progress.tokens,
                "seconds": round(progress.seconds, 1),
                "heldout": progress.exported.get("heldout"),
                "fit": fit_facts(reporter.fit_points),
            }
        )
    reporter.message(f"{folder}: {_end(config, folder, progress, is_prepared=chosen.prepare)}")
    console.exit_if_skipped(reporter.notes)


def _config(chosen: PretrainOptions) -> PretrainConfig:
    """Return the settings of the command line, completed by those of a recipe if one exists."""
    data_dir = Path(chosen.data_dir) if chosen.data_dir else None
    recipe_of_run = Path(chosen.output) / RECIPE_FILE
    config = PretrainConfig(data_dir=data_dir)
    if chosen.recipe:
        config = PretrainConfig.read(Path(chosen.recipe), data_dir=data_dir)
    elif chosen.resume and recipe_of_run.exists():
        config = PretrainConfig.read(recipe_of_run, data_dir=data_dir)
    elif not chosen.resume:
        options.refuse_options(["data_dir"], "without --recipe")
    return config.updated(options.given_options())


def _end(
    config: PretrainConfig, folder: Path, progress: TrainingProgress, *, is_prepared: bool
) -> str:
    """Describe how a run ended."""
    if is_prepared:
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        return f"{size:,.1f} MB; `elmo pretrain -o {folder} --resume` trains"
    if not progress.step:
        return "no step was made; a larger limit with `--resume` trains"
    end = f"trained on {progress.tokens:,} tokens in {progress.seconds:,.0f} s"
    if config.text.heldout:
        return end
    return f"{end}, loss {progress.loss:.3f}; `--heldout FILE` measures the perplexity of a text"
