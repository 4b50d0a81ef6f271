"""elmo finetune."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.click_options import GroupedCommand, flag, text_names, together, value
from elmo_cli.cli.options import (
    input_options,
    json_option,
    language_model_options,
    model_options,
    quiet_option,
)
from elmo_cli.cli.training_options import (
    AT_LEAST_1,
    POSITIVE,
    batch_options,
    dropout_option,
    heldout_option,
    learning_rate_option,
    max_steps_option,
    negative_samples_option,
    optimizer_option,
    output_folder,
    overwrite_run_option,
    patience_option,
    seed_option,
    training_compute_options,
    vocabulary_size_options,
    weights_dtype_option,
)

_text_options = together(
    value(
        "Domain",
        "--domain DIR|FILE",
        "Text of the domain: files, or folders whose .txt, .conll, .conllu and .jsonl files are "
        "read; may be repeated.",
        multiple=True,
        required=True,
        callback=text_names,
    ),
    heldout_option(
        "Held-out text, never trained on; may be repeated.  [default: files named dev, valid or "
        "heldout in a folder, else 5 % of the text; files named test are not read]"
    ),
    patience_option(3),
)

_softmax_options = together(
    flag(
        "Model",
        "--fit-softmax",
        "Fit a new softmax to the frozen biLM first, even if the model has one.",
    ),
    value(
        "Model",
        "--softmax-tokens N",
        "Maximum number of tokens that the softmax is fitted on.",
        type=AT_LEAST_1,
        default=300_000,
    ),
    vocabulary_size_options("Model", 25_000, 2),
)

_run_options = together(
    output_folder("model, model card, log and checkpoint"),
    flag("Output", "--resume", "Continue the run in DIR."),
    overwrite_run_option,
    weights_dtype_option,
)

_limit_options = together(
    value(
        "Length",
        "--max-epochs FLOAT",
        "Stop after reading the text this many times.",
        type=POSITIVE,
        default=3.0,
    ),
    value(
        "Length",
        "--max-seconds SECONDS",
        "Stop after this many seconds, fitting and measuring included.",
        type=POSITIVE,
    ),
    max_steps_option,
)

_training_options = together(
    optimizer_option,
    learning_rate_option(adamw=0.001, adagrad=0.05),
    batch_options,
    dropout_option,
    negative_samples_option,
    seed_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Continue training a biLM on your own text.",
    no_args_is_help=True,
)
@_text_options
@model_options
@language_model_options(or_counted=True)
@_softmax_options
@_run_options
@_limit_options
@_training_options
@training_compute_options
@input_options
@quiet_option
@json_option
def finetune(**given: Any) -> None:
    """Continue training a biLM on your own text and write the result as a new model folder.

    The source model stays unchanged. A model without a softmax first gets one, fitted to the frozen
    biLM. Then the whole model is trained at a low learning rate until the held-out perplexity stops
    falling, and the best weights are kept. The table at the end compares the frozen and the
    fine-tuned biLM, with the same vocabulary on the same text.

    \b
    Examples:
      elmo finetune --domain data/ -o tuned/
      elmo finetune --domain raw/ --tokenize -m original -o tuned/ --max-seconds 3600
      elmo finetune --domain data/ -o tuned/ --max-seconds 7200 --resume
      elmo embed corpus.txt -o corpus.hdf5 -m tuned/
    """
    from elmo_cli.cli.finetuning import finetune_command

    finetune_command(given)
