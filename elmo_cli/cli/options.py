"""Options that commands share: decorators, each next to the class of its values.

A command inherits from the classes of the groups that it declares, as `EmbedOptions` does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elmo_cli.cli import console
from elmo_cli.cli.click_options import (
    COLUMN,
    DEVICE,
    ENCODING,
    INPUT_FILE,
    INPUT_TEXT,
    MODEL_OR_FILE,
    Option,
    argument,
    flag,
    longest_name,
    together,
    value,
)
from elmo_cli.embed.settings import DTYPES
from elmo_cli.engine.names import check_device_name
from elmo_cli.errors import UsageError
from elmo_cli.text.input_settings import BLANK, FASTA_IDS, FORMATS, ON_ERROR, InputSettings

if TYPE_CHECKING:
    import torch

    from elmo_cli.analysis.labelled_vectors import LabelSettings
    from elmo_cli.pretrained.load import ModelSource

AT_LEAST_1 = click.IntRange(min=1)
LAYER_SPEC = "all, top, average, sum, numbers such as 0,2, or mix:W0,W1,W2[,GAMMA]"
_MOST_THREADS = 1024

# -- what the command line gives ------------------------------------------------------------------


def is_given(name: str) -> bool:
    """Whether the command line or the environment gives a parameter of the running command."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def given_options() -> dict[str, Any]:
    """The parameters that the command line or the environment gives, with their values."""
    values = {}
    for name, content in click.get_current_context().params.items():
        is_empty = content == ()  # to click, an argument is given even without a word
        if is_given(name) and not is_empty:
            values[name] = content
    return values


def refuse_options(names: Collection[str], condition: str) -> None:
    """Raise a UsageError for an option on the command line that has no effect.

    Args:
        names: parameters of the command.
        condition: "without --text", "for standard output", ….
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        is_on_command_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name in names and is_on_command_line:
            option = longest_name(parameter)
            raise UsageError(f"has no effect {condition}", "leave it out", where=option)


def field_names(group: type) -> tuple[str, ...]:
    """The names of the parameters of a group of options, for `refuse_options`."""
    return tuple(field.name for field in fields(group))


def _set_quiet(ctx: click.Context, parameter: click.Parameter, is_quiet: bool) -> None:
    """Callback of click: set the output mode of the command."""
    console.running.quiet = is_quiet


def set_as_json(ctx: click.Context, parameter: click.Parameter, as_json: bool) -> None:
    """Callback of click: set the output mode of the command."""
    console.running.as_json = as_json


# fmt: off
quiet_option: Option = flag(
    "General", "-q, --quiet", "Print errors only.", callback=_set_quiet, expose_value=False
)
json_option: Option = flag(
    "General", "--json",
    "Print the result as one JSON object; its fields are listed in docs/reference/json.md.",
    "as_json", callback=set_as_json, expose_value=False,
)
general_options: Option = together(quiet_option, json_option)
# fmt: on

# -- input ----------------------------------------------------------------------------------------

texts_argument = partial(argument, nargs=-1, type=INPUT_TEXT)
# fmt: off
encoding_option: Option = value(
    "Input", "--encoding NAME", "Character encoding of the input.", default="utf-8",
    type=ENCODING,
)
_on_error_option: Option = value(
    "Input", "--on-error ACTION", "On an unreadable line: stop, or skip it and exit with code 3.",
    type=click.Choice(ON_ERROR), default="stop",
)
raw_input_options: Option = together(encoding_option, _on_error_option)
input_options: Option = together(
    value("Input", "--input-format FORMAT",
          "Input format: auto (by suffix), plain (one sentence per line), conll, conllu, jsonl or "
          "fasta.",
          "format", type=click.Choice(FORMATS), default="auto"),
    flag("Input", "--tokenize",
         "Split raw English, one paragraph per line, into sentences and tokens."),
    encoding_option,
    value("Input", "--column N", "Token column of conll and conllu input, from 1; -1 is the last.  "
          "[default: FORM in conllu, 4 in CoNLL-2012, else 1]", type=int),
    value("Input", "--fasta-id PART", "Id of a sequence in fasta input: the first word of its "
          "header, uniprot (between the first two |), or the whole header.",
          type=click.Choice(FASTA_IDS), default=FASTA_IDS[0]),
    flag("Input", "--fasta-raw", "Keep every character of the sequences in fasta input."),
    _on_error_option,
)
blank_lines_option: Option = value(
    "Input", "--blank-lines ACTION",
    "What a blank line of plain text becomes: keep (an empty sentence), skip, or error.", "blank",
    type=click.Choice(BLANK), default="keep",
)
label_options: Option = together(
    value("Input", "--label-format FORMAT", "Format of LABELS: auto (by suffix), plain (one line "
          "of labels per sentence), conll or conllu.",
          type=click.Choice(["auto", "plain", "conll", "conllu"]), default="auto"),
    value("Input", "--label-column COLUMN", "Label column of conll and conllu: a number from 1, -1 "
          "for the last, or in conllu a name such as upos.  [default: xpos in conllu, else -1]",
          type=COLUMN),
    value("Input", "--column N", "Token column of conll and conllu LABELS, from 1; -1 is the "
          "last.  [default: that of the text of the vectors]", "token_column", type=int),
    encoding_option,
)
# fmt: on


@dataclass(frozen=True)
class RawInputOptions:
    """The values of `raw_input_options`."""

    encoding: str
    on_error: str


@dataclass(frozen=True)
class InputOptions(RawInputOptions):
    """The values of `input_options`."""

    format: str
    tokenize: bool
    column: int | None
    fasta_id: str
    fasta_raw: bool

    def input_settings(self, *, max_characters: int = 50) -> InputSettings:
        """How the text is to be read, for a model that reads `max_characters` of a token."""
        return InputSettings(
            format=self.format,
            tokenize=self.tokenize,
            encoding=self.encoding,
            column=self.column,
            fasta_id=self.fasta_id,
            fasta_raw=self.fasta_raw,
            on_error=self.on_error,
            max_characters=max_characters,
        )


@dataclass(frozen=True)
class TextOptions(InputOptions):
    """The values of `input_options`, `blank_lines_option` and `--max-sentence-length`."""

    blank: str
    max_tokens: int

    def input_settings(self, *, max_characters: int = 50) -> InputSettings:
        """How the text is to be read, for a model that reads `max_characters` of a token."""
        settings = super().input_settings(max_characters=max_characters)
        return replace(settings, blank=self.blank, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class LabelOptions:
    """The values of `label_options`."""

    label_format: str
    label_column: str | None
    token_column: int | None
    encoding: str

    def label_settings(self) -> LabelSettings:
        """How label files are to be read."""
        from elmo_cli.analysis.labelled_vectors import LabelSettings

        return LabelSettings(
            format=self.label_format,
            encoding=self.encoding,
            column=self.label_column,
            token_column=self.token_column,
        )


INPUT_FIELDS = field_names(InputOptions)
LABEL_FIELDS = field_names(LabelOptions)

# -- models ---------------------------------------------------------------------------------------


def _model(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """The model; a pair of files on the command line goes before $ELMO_MODEL.

    The pair is known by now, because click processes what the command line gives first.
    """
    is_of_environment = ctx.get_parameter_source("model") is ParameterSource.ENVIRONMENT
    has_pair = bool(ctx.params.get("options") or ctx.params.get("weights"))
    return None if is_of_environment and has_pair else name


# fmt: off
model_options: Option = together(
    value("Model", "-m, --model NAME|PATH", "Model: a name from `elmo models list`, a folder, an "
          "archive, a weight file or a checkpoint.  [default: elmo-en]",
          envvar="ELMO_MODEL", callback=_model, type=MODEL_OR_FILE),
    value("Model", "--options-file FILE",
          "options.json of the model, if it is not next to the weights.", "options",
          type=INPUT_FILE),
    value("Model", "--weight-file FILE", "HDF5 weight file of the model; needs --options-file.",
          "weights", type=INPUT_FILE),
)


def language_model_options(*, or_counted: bool = False) -> Option:
    """Softmax and vocabulary of a model, which may be `or_counted` in the text."""
    default = "vocab.txt next to the weights"
    if or_counted:
        default += ", else counted in the text"
    return together(
        value("Model", "--softmax FILE", "Softmax weights in HDF5.  [default: softmax.hdf5 next to "
              "the weights, or inside the weight file]", type=INPUT_FILE),
        value("Model", "--vocabulary FILE",
              f"Types that the softmax predicts, one per line.  [default: {default}]",
              type=INPUT_FILE),
    )


def vocabulary_size_options(group: str, *, size: int | None, min_count: int) -> Option:
    """Limits of a vocabulary that is counted in the text, with their defaults."""
    unlimited = "" if size else "  [default: unlimited]"
    return together(
        value(group, "--vocabulary-size N",
              f"Maximum number of types, including <S>, </S> and <UNK>.{unlimited}",
              type=click.IntRange(min=4), default=size),
        value(group, "--min-count N", "Leave out types that occur fewer than N times.",
              type=AT_LEAST_1, default=min_count),
    )
# fmt: on


@dataclass(frozen=True)
class ModelOptions:
    """The values of `model_options`."""

    model: str | None
    options: str | None
    weights: str | None

    def model_source(self) -> ModelSource:
        """The model that they name."""
        from elmo_cli.pretrained.load import ModelSource

        return ModelSource(self.model, self.options, self.weights)


@dataclass(frozen=True)
class LanguageModelOptions:
    """The values of `language_model_options`."""

    softmax: str | None
    vocabulary: str | None


@dataclass(frozen=True)
class VocabularySizeOptions:
    """The values of `vocabulary_size_options`."""

    vocabulary_size: int | None
    min_count: int


# -- computing ------------------------------------------------------------------------------------


def _device(ctx: click.Context, parameter: click.Parameter, name: str) -> str:
    """Refuse a malformed device before torch is imported."""
    check_device_name(name)
    return name


device_option: Option = value(
    "Compute",
    "--device NAME",
    "Device: auto, cpu, cuda, cuda:N or mps.",
    envvar="ELMO_DEVICE",
    default="auto",
    callback=_device,
    type=DEVICE,
)


def threads_option_with(default: str) -> Option:
    """The number of CPU threads."""
    description = f"Number of CPU threads.  [default: {default}]"
    return value("Compute", "--threads N", description, type=click.IntRange(1, _MOST_THREADS))


threads_option: Option = threads_option_with("chosen by PyTorch")
processor_options: Option = together(device_option, threads_option)


@dataclass(frozen=True)
class ProcessorOptions:
    """The values of `processor_options`."""

    device: str
    threads: int | None


def use_threads(n_threads: int | None) -> None:
    """Set the number of CPU threads, and keep freed memory for the next batch."""
    from elmo_cli.engine.runtime import keep_freed_memory, set_num_threads

    set_num_threads(n_threads)
    keep_freed_memory()


def warn_of_slow_bf16(precision: str, device: torch.device) -> None:
    """Warn if a run computes in bfloat16 and the processor emulates it."""
    from elmo_cli.engine.runtime import has_fast_bf16

    if precision == "bf16" and not has_fast_bf16(device):
        console.warn("this processor computes much more slowly in bfloat16 than in float32")


# -- output ---------------------------------------------------------------------------------------


overwrite_option: Option = flag("Output", "-f, --overwrite", "Replace existing output.")


def dtype_option(default: str | None = None) -> Option:
    """The type of stored values; that of FILE without a `default`."""
    description = "Type of the stored values: float32, float16, or int8 (layout flat only)."
    if default is None:
        description += "  [default: that of FILE]"
    choices = click.Choice(DTYPES)
    return value("Output", "--dtype TYPE", description, type=choices, default=default)


def layer_option(group: str) -> Option:
    """The layer of an embeddings file that a command reads."""
    description = "Layer to read; 0 is the token layer.  [default: the highest stored layer]"
    return value(group, "--layer N", description, type=click.IntRange(min=0))


@dataclass(frozen=True)
class ResumableOptions:
    """The values of `--resume` and `overwrite_option` of a training run."""

    resume: bool
    overwrite: bool

    def mode(self) -> str:
        """The mode for `RunFolder.open`; a UsageError for options that contradict `--resume`."""
        if self.resume:
            refuse_options(["overwrite", "prepare"], "with --resume")
            return "resume"
        return "overwrite" if self.overwrite else "new"
