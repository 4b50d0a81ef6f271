"""Options that commands share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elmo_cli.cli import console
from elmo_cli.cli.click_options import (
    Option,
    argument,
    flag,
    local_path,
    output_option,
    together,
    value,
)
from elmo_cli.embed.settings import DTYPES
from elmo_cli.engine.names import check_device_name
from elmo_cli.errors import UsageError
from elmo_cli.text.input_settings import BLANK, FORMATS, ON_ERROR, InputSettings

if TYPE_CHECKING:
    import torch

    from elmo_cli.analysis.labelled_vectors import LabelSettings
    from elmo_cli.pretrained.load import ModelSource

AT_LEAST_1 = click.IntRange(min=1)
INPUT_FIELDS = ("format", "tokenize", "encoding", "column", "blank", "max_tokens", "on_error")
LABEL_FIELDS = ("label_format", "encoding", "label_column")  # of LabelSettings, in order
LAYER_SPEC = "all, top, average, numbers such as 0,2, or mix:W0,W1,W2[,GAMMA]"
_MOST_THREADS = 1024


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

    def input_settings(self, *, max_characters: int = 50) -> InputSettings:
        """How the text is to be read, by a model with so many characters per token."""
        return InputSettings(
            format=self.format,
            tokenize=self.tokenize,
            encoding=self.encoding,
            column=self.column,
            on_error=self.on_error,
            max_characters=max_characters,
        )


@dataclass(frozen=True)
class TextOptions(InputOptions):
    """The values of `input_options`, `blank_lines_option` and `--max-sentence-length`."""

    blank: str
    max_tokens: int

    def input_settings(self, *, max_characters: int = 50) -> InputSettings:
        """How the text is to be read, by a model with so many characters per token."""
        settings = super().input_settings(max_characters=max_characters)
        return replace(settings, blank=self.blank, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class LabelOptions:
    """The values of `label_options`."""

    label_format: str
    label_column: str | None
    encoding: str

    def label_settings(self) -> LabelSettings:
        """How label files are to be read."""
        from elmo_cli.analysis.labelled_vectors import LabelSettings

        return LabelSettings(
            format=self.label_format, encoding=self.encoding, column=self.label_column
        )


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


@dataclass(frozen=True)
class ProcessorOptions:
    """The values of `processor_options`."""

    device: str
    threads: int | None


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


@dataclass(frozen=True)
class PlotOptions:
    """The values of `plot_output(required=True)`."""

    output: str
    overwrite: bool


def given_options() -> dict[str, Any]:
    """The parameters that the command line or the environment gives, with their values."""
    ctx = click.get_current_context()
    sources = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) in sources and value != ()
    }


def refuse_options(names: Collection[str], where: str) -> None:
    """Raise a UsageError for an option on the command line that has no effect.

    Args:
        names: parameters of the command.
        where: "without --text", "for standard output", ….
    """
    ctx = click.get_current_context()
    for parameter in ctx.command.params:
        is_given = ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if is_given and parameter.name in names:
            option = max(parameter.opts, key=len)
            raise UsageError(f"{option}: has no effect {where}", "leave it out")


def input_settings(given: dict[str, Any], *, max_characters: int = 50) -> InputSettings:
    """How the text is to be read, from the values of `input_options`."""
    fields = {name: given[name] for name in INPUT_FIELDS if name in given}
    return InputSettings(**fields, max_characters=max_characters)


def label_settings(given: dict[str, Any]) -> LabelSettings:
    """How label files are to be read, from the values of `label_options`."""
    from elmo_cli.analysis.labelled_vectors import LabelSettings

    return LabelSettings(*(given[name] for name in LABEL_FIELDS))


def model_source(given: dict[str, Any]) -> ModelSource:
    """Return the model of the values of `model_options`."""
    from elmo_cli.pretrained.load import ModelSource

    return ModelSource(given["model"], given["options"], given["weights"])


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


def run_mode(options: dict[str, Any]) -> str:
    """Return the mode for `RunFolder.open`; refuse options that contradict `--resume`."""
    if options["resume"]:
        refuse_options(["overwrite", "prepare"], "with --resume")
        return "resume"
    return "overwrite" if options["overwrite"] else "new"


def check_plot(output: str, inputs: Iterable[Any], *, overwrite: bool, html: bool = False) -> None:
    """Refuse, before any work, an output file that cannot be written."""
    from elmo_cli.plot.figure import check_format

    console.check_output(output, inputs, overwrite=overwrite)
    check_format(output, html=html)


def _model(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The model; a pair of files on the command line goes before $ELMO_MODEL."""
    by_environment = ctx.get_parameter_source("model") is ParameterSource.ENVIRONMENT
    has_pair = ctx.params.get("options") or ctx.params.get("weights")
    return None if by_environment and has_pair else value


def _hdf5(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "-":
        raise UsageError("--output -: HDF5 needs a file on a disk", "`-o FILE` names one")
    return local_path(ctx, parameter, value)


def set_mode(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Callback of click: set a field of the console's mode to the value of an option."""
    setattr(console.mode, str(parameter.name), value)


def _device(ctx: click.Context, parameter: click.Parameter, name: str) -> str:
    """Refuse a malformed device before torch is imported."""
    check_device_name(name)
    return name


texts_argument = partial(argument, nargs=-1)
# fmt: off
encoding_option: Option = value(
    "Input", "--encoding NAME", "Character encoding of the input.", default="utf-8"
)
_on_error: Option = value(
    "Input", "--on-error ACTION", "On an unreadable line: stop, or skip it and exit with code 3.",
    type=click.Choice(ON_ERROR), default="stop",
)
input_options: Option = together(
    value("Input", "--input-format FORMAT",
          "Input format: auto (by suffix), plain (one sentence per line), conll, conllu or jsonl.",
          "format", type=click.Choice(FORMATS), default="auto"),
    flag("Input", "--tokenize",
         "Split raw English, one paragraph per line, into sentences and tokens."),
    encoding_option,
    value("Input", "--column N", "Token column of conll and conllu input, from 1; -1 is the last.  "
          "[default: FORM in conllu, 4 in CoNLL-2012, else 1]", type=int),
    _on_error,
)
raw_input_options: Option = together(encoding_option, _on_error)
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
          "for the last, or in conllu a name such as upos.  [default: xpos in conllu, else -1]"),
    encoding_option,
)
model_options: Option = together(
    value("Model", "-m, --model NAME|PATH", "Model: a name from `elmo models list`, a folder, an "
          "archive or a weight file.  [default: elmo-en]", envvar="ELMO_MODEL", callback=_model),
    value("Model", "--options-file FILE", "options.json of the model; needs --weight-file.",
          "options"),
    value("Model", "--weight-file FILE", "HDF5 weight file of the model; needs --options-file.",
          "weights"),
)
device_option: Option = value(
    "Compute", "--device NAME", "Device: auto, cpu, cuda, cuda:N or mps.",
    envvar="ELMO_DEVICE", default="auto", callback=_device,
)
hdf5_output: Option = value(
    "Output", "-o, --output FILE", "HDF5 file to write.", required=True, callback=_hdf5
)
overwrite_option: Option = flag("Output", "-f, --overwrite", "Replace existing output.")
quiet_option: Option = flag(
    "General", "-q, --quiet", "Print errors only.", callback=set_mode, expose_value=False
)
json_option: Option = flag(
    "General", "--json",
    "Print the result as one JSON object; its fields are listed in docs/json.md.", "as_json",
    callback=set_mode, expose_value=False,
)


def language_model_options(*, or_counted: bool = False) -> Option:
    """Softmax and vocabulary of a model, which may be `or_counted` in the text."""
    default = "weights, else counted in the text]" if or_counted else "weights]"
    return together(
        value("Model", "--softmax FILE", "Softmax weights in HDF5.  [default: softmax.hdf5 next to "
              "the weights, or inside the weight file]"),
        value("Model", "--vocabulary FILE", "Types that the softmax predicts, one per line.  "
              f"[default: vocab.txt next to the {default}"),
    )


def vocabulary_size_options(group: str, size: int | None, min_count: int) -> Option:
    """Limits of a vocabulary that is counted in the text, with their defaults."""
    unlimited = "" if size else "  [default: unlimited]"
    return together(
        value(group, "--vocabulary-size N",
              f"Maximum number of types, including <S>, </S> and <UNK>.{unlimited}",
              type=click.IntRange(min=4), default=size),
        value(group, "--min-count N", "Leave out types that occur fewer than N times.",
              type=AT_LEAST_1, default=min_count),
    )
general_options: Option = together(quiet_option, json_option)
# fmt: on


def dtype_option(default: str | None = None) -> Option:
    """The type of stored values; that of FILE without a `default`."""
    what = "Type of the stored values: float32, float16, or int8 (layout flat only)."
    more = "" if default else "  [default: that of FILE]"
    return value("Output", "--dtype TYPE", what + more, type=click.Choice(DTYPES), default=default)


def threads_option_with(default: str) -> Option:
    """The number of CPU threads."""
    what = f"Number of CPU threads.  [default: {default}]"
    return value("Compute", "--threads N", what, type=click.IntRange(1, _MOST_THREADS))


threads_option: Option = threads_option_with("chosen by PyTorch")
processor_options: Option = together(device_option, threads_option)


def layer_option(group: str) -> Option:
    """The layer of an embeddings file that a command reads."""
    what = "Layer to read; 0 is the token layer.  [default: the highest stored layer]"
    return value(group, "--layer N", what, type=click.IntRange(min=0))


def plot_output(formats: str = ".png, .svg or .pdf", *, required: bool = True) -> Option:
    """The options of a command that plots: the output file, and whether to replace it."""
    path = output_option("FILE", f"Plot to write: {formats}.", required=required)
    return together(path, overwrite_option, quiet_option)
