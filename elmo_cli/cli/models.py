"""`elmo models`: list, show, download, convert and export models, and write untrained ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import (
    FILE,
    FOLDER,
    MODEL,
    MODEL_OR_FILE,
    GroupedCommand,
    argument,
    flag,
    output_option,
    value,
)
from elmo_cli.cli.options import quiet_option, set_as_json
from elmo_cli.cli.table import print_table
from elmo_cli.fields import MOST_SEED

if TYPE_CHECKING:
    from elmo_cli.lm.converted_model import ConvertedModel
    from elmo_cli.pretrained.model_files import ModelFiles

_WEIGHT_DTYPES = ("float32", "float16")

# fmt: off
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.",
                        callback=set_as_json, expose_value=False)
_options_file_option = value(
    "Model", "--options-file FILE", "options.json of the model, if it is not next to the weights.",
    "options", type=FILE,
)
_new_folder_option = output_option(
    "DIR", "New or empty folder for the model.", required=True, type=FOLDER
)
# fmt: on


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def models() -> None:
    """List, show, download, convert and export models, and write untrained ones.

    \b
    Examples:
      elmo models list
      elmo models show original
      elmo models pull original
      elmo models convert checkpoint/ -o model/
      elmo models export elmo-en -o model/
      elmo models random --like original -o untrained/
      elmo embed sentences.txt -o out.hdf5 --model original

    Models are stored in $ELMO_HOME (default: ~/.cache/elmo). Only `pull` uses the network, unless
    ELMO_OFFLINE is set; HTTPS_PROXY is honored.
    """


@models.command("list")
@_AS_JSON
def list_models() -> None:
    """List all models that have a name: published ones, and those pulled from a hub.

    \b
    Examples:
      elmo models list
      elmo models list --json
    """
    from elmo_cli.pretrained.catalogue import CATALOGUE
    from elmo_cli.pretrained.hub import hub_summary, pulled_models
    from elmo_cli.pretrained.load import summary

    facts = [summary(model) for model in CATALOGUE]
    facts += [hub_summary(model) for model in pulled_models()]
    console.print_result(facts, partial(_print_models, facts))


@dataclass(frozen=True)
class ShowModelOptions:
    """The values of all options of `elmo models show`."""

    name: str


@models.command("show")
@argument("name", metavar="NAME|PATH", type=MODEL_OR_FILE)
@_AS_JSON
def show_model(**values: Any) -> None:
    """Show the sizes, license, files and hashes of a model.

    NAME is a name from `elmo models list`; PATH is a folder, an archive or a weight file.

    \b
    Examples:
      elmo models show original-5.5b
      elmo models show small --json
      elmo models show ./mine
    """
    from elmo_cli.pretrained.load import describe_model

    chosen = ShowModelOptions(**values)
    facts = describe_model(chosen.name)
    console.print_result(facts, partial(_print_model, facts))


@dataclass(frozen=True)
class PullModelOptions:
    """The values of all options of `elmo models pull`."""

    name: str
    overwrite: bool


@models.command("pull")
@argument("name", metavar="NAME", type=MODEL)
@click.option(
    "-f", "--overwrite", is_flag=True, help="Download again even if the model is present."
)
@quiet_option
def pull_model(**values: Any) -> None:
    """Download a model and verify it.

    NAME is a name from `elmo models list`, or hf:OWNER/NAME[@REVISION] for a repository of the
    Hugging Face hub with options.json and weights.hdf5. REVISION is a branch, a tag or a commit;
    all files are those of one commit. Afterwards `-m hf:OWNER/NAME` names the model. HF_ENDPOINT is
    the address of a mirror.

    An interrupted download continues where it stopped, if the server states a hash. A file gets
    its final name only after its size and its sha256, where one is published, have been verified.

    \b
    Examples:
      elmo models pull small
      elmo models pull original --overwrite
      elmo models pull hf:OWNER/NAME@v1
    """
    chosen = PullModelOptions(**values)
    progress = console.ProgressDisplay(None, "bytes")

    def on_bytes(done: int, total: int) -> None:
        is_known = total > 0
        progress.update(done, total if is_known else None)

    def on_wait() -> None:
        console.note(f"waiting for another process that is downloading {chosen.name}")

    pull = _pull_function(chosen.name)
    with progress:  # it is shown only if something is downloaded
        files = pull(overwrite=chosen.overwrite, on_bytes=on_bytes, on_wait=on_wait)
    console.note(f"{files.name}: {files.origin}, {files.weights.parent}{_commit_of(files.name)}")


def _pull_function(name: str) -> Callable[..., ModelFiles]:
    """Return what downloads a model; a ModelError if the name is unknown."""
    from elmo_cli.pretrained.catalogue import find_model, no_such_model
    from elmo_cli.pretrained.download import pull
    from elmo_cli.pretrained.hub import HubModel, is_hub_name
    from elmo_cli.pretrained.hub_download import pull_from_hub

    if is_hub_name(name):
        return partial(pull_from_hub, HubModel.parse(name))
    model = find_model(name)
    if model is None:
        raise no_such_model(name, "`elmo models list` shows all names")
    return partial(pull, model)


def _commit_of(name: str) -> str:
    """Return the commit of a model of a hub, as the end of a message."""
    from elmo_cli.pretrained.hub import HubModel, HubRecord, is_hub_name

    record = HubRecord.read(HubModel.parse(name)) if is_hub_name(name) else None
    if record is None:
        return ""
    return f", commit {record.commit or 'not stated by the server'}"


@dataclass(frozen=True)
class RandomModelOptions:
    """The values of all options of `elmo models random`."""

    like: str
    seed: int
    output: str


@models.command("random", cls=GroupedCommand)
@value(
    "Model", "--like NAME|PATH", "Model whose sizes are copied.", required=True, type=MODEL_OR_FILE
)
@value("Model", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0)
@_new_folder_option
@quiet_option
def random_model(**values: Any) -> None:
    """Write a model with the architecture of another one and random weights.

    An untrained model is a control for experiments: what its vectors encode comes from the
    architecture and the characters of the tokens, not from training. The weights are the initial
    values of `elmo pretrain`; the same seed gives the same files. NAME is a name from `elmo models
    list`; PATH is a folder, an archive or a weight file.

    \b
    Examples:
      elmo models random --like elmo-en -o untrained/
      elmo models random --like ./mine --seed 1 -o untrained-1/
      elmo embed sentences.txt -o untrained.hdf5 --model untrained/
    """
    from elmo_cli.lm.language_model import write_untrained

    chosen = RandomModelOptions(**values)
    n_parameters = write_untrained(chosen.like, Path(chosen.output), seed=chosen.seed)
    console.note(
        f"{chosen.output}: {n_parameters:,} random weights, seed {chosen.seed}, "
        f"sizes of {chosen.like}"
    )


@dataclass(frozen=True)
class ConvertModelOptions:
    """The values of all options of `elmo models convert`."""

    path: str
    options: str | None
    optimizer_state: bool
    output: str


@models.command("convert", cls=GroupedCommand)
@argument("path", metavar="PATH", type=MODEL_OR_FILE)
@_options_file_option
@flag(
    "Model",
    "--optimizer-state",
    "Also write the accumulators of Adagrad of a checkpoint, with which `finetune` continues.",
)
@_new_folder_option
@quiet_option
def convert_model(**values: Any) -> None:
    """Convert a model to a folder with options.json and weights.hdf5.

    PATH is a model of any family: a folder, an archive, a weight file, or what the names of the
    files of a checkpoint begin with. The folder also contains softmax.hdf5, vocab.txt and
    state.hdf5 if the model has them, and parts.json, which ties them together. Its vectors are
    those of the original files, bit for bit, and so is the hash that an embeddings file records.
    The command prints the options that the original does not state, and describes the folder as
    `elmo inspect` does. A model of ELMoForManyLangs becomes a folder that only elmo reads.

    \b
    Examples:
      elmo models convert checkpoint/ -o model/
      elmo models convert checkpoint/model.ckpt-60 -o model/
      elmo models convert checkpoint/ -o model/ --optimizer-state
    """
    from elmo_cli.cli.inspect_model import print_model
    from elmo_cli.lm.converted_model import write_converted
    from elmo_cli.pretrained.load import ModelSource

    chosen = ConvertModelOptions(**values)
    source = ModelSource(chosen.path, chosen.options)
    converted = write_converted(source, Path(chosen.output), optimizer_state=chosen.optimizer_state)
    _print_converted(converted, chosen.output)
    print_model(chosen.output, None, verify=False)


@dataclass(frozen=True)
class ExportModelOptions:
    """The values of all options of `elmo models export`."""

    name: str
    options: str | None
    dtype: str
    output: str


@models.command("export", cls=GroupedCommand)
@argument("name", metavar="NAME|PATH", type=MODEL_OR_FILE)
@_options_file_option
@value(
    "Output",
    "--dtype TYPE",
    "Type of the weights and of the softmax layer: float32 or float16.",
    type=click.Choice(_WEIGHT_DTYPES),
    default="float32",
)
@_new_folder_option
@quiet_option
def export_model(**values: Any) -> None:
    """Write a copy of a model for other programs, or for a hub.

    The folder has options.json, weights.hdf5 and parts.json, and as far as the model has them
    softmax.hdf5, vocab.txt, state.hdf5 and its card, README.md. float32 is for programs that
    multiply the arrays as they are, such as LAMA; float16 takes half the space. The bundled model
    is stored in float16, so that both give the same vectors. Other models are rounded by float16,
    and their copy has another hash. `docs/guides/hub.md` has the commands for LAMA and for a hub.

    \b
    Examples:
      elmo models export elmo-en -o model/
      elmo models export finetuned/ -o small/ --dtype float16
    """
    from elmo_cli.lm.converted_model import write_converted
    from elmo_cli.pretrained.load import ModelSource

    chosen = ExportModelOptions(**values)
    source = ModelSource(chosen.name, chosen.options)
    exported = write_converted(source, Path(chosen.output), dtype=chosen.dtype, card=True)
    _print_converted(exported, chosen.output)


def _print_converted(converted: ConvertedModel, output: str) -> None:
    """Print warnings, what was assumed, what the new folder has, and who can read it."""
    if converted.warning:
        console.warn(converted.warning)
    if converted.assumed:
        assumed = [f"{name} {json.dumps(option)}" for name, option in converted.assumed.items()]
        console.note(f"not stated by the files of the model, so assumed: {', '.join(assumed)}")
    parts = [
        f"softmax of {converted.n_types:,} types" if converted.n_types else "no softmax",
        "vocabulary" if converted.has_vocabulary else "no vocabulary",
    ]
    if converted.has_optimizer_state:
        parts.append("state of Adagrad")
    if converted.has_card:
        parts.append("card")
    weights = f"{converted.n_parameters:,} parameters of {converted.family}"
    console.note(f"{output}: {', '.join([weights, *parts])}")
    if not converted.is_read_by_others:
        console.note("only elmo reads this folder: other programs have no Unicode characters")


def _print_models(models_facts: list[dict[str, Any]]) -> None:
    """Print the table of the models that have a name."""
    rows = []
    for facts in models_facts:
        dim = str(facts["dim"] or "?")
        language = facts["language"] or "?"
        rows.append((facts["name"], _size(facts), dim, language, facts["where"]))
    print_table(("name", "size", "dim", "language", "where"), rows)


def _print_model(facts: dict[str, Any]) -> None:
    """Print the facts of a model that are known, one per line, and its files."""
    rows = {name: fact for name, fact in facts.items() if isinstance(fact, (str, int))}
    del rows["bytes_are_exact"]
    for name, option in facts.get("options", {}).items():
        rows[name] = json.dumps(option)
    rows["aliases"] = ", ".join(facts.get("aliases", ()))
    rows["bytes"] = _size(facts)
    for name, fact in rows.items():
        if fact:
            console.say(f"{name:<11} {_in_words(fact)}")
    for file in facts["files"]:
        console.say("", file["name"])
        for address in file.get("addresses", ()):
            console.say(f"  {address}")
        console.say(f"  bytes  {file['bytes'] or 'not stated'}")
        console.say(f"  sha256 {file['sha256'] or 'not stated'}")


def _in_words(fact: str | int) -> str:
    if fact is True:
        return "yes"
    if isinstance(fact, int):
        return f"{fact:,}"
    return fact


def _size(facts: dict[str, Any]) -> str:
    if not facts["bytes"]:
        return "?"
    about = "" if facts["bytes_are_exact"] else "about "
    return f"{about}{facts['bytes'] / 1e6:,.1f} MB"
