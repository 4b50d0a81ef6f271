"""`elmo plot`: plots of embeddings, geometry, probes, trees, layer weights and training runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import console, options, plot_options
from elmo_cli.cli.click_options import FILE, FOLDER, GroupedCommand, argument, together, value
from elmo_cli.errors import EmbeddingsFileError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def plot() -> None:
    """Plot embeddings, geometry, probes, trees, layer weights and training runs.

    Example: elmo plot senses corpus.hdf5 --word bank -o bank.html

    Plots need the extra `plot`: pip install '.[plot]' in a clone.
    """


_command = partial(plot.command, cls=GroupedCommand, no_args_is_help=True)


@dataclass(frozen=True)
class PlotCurvesOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot curves`."""

    logs: tuple[str, ...]


@_command("curves")
@argument("logs", nargs=-1, required=True, metavar="LOG…", type=FILE)
@plot_options.plot_output()
def plot_curves(**values: Any) -> None:
    """Plot the loss and the perplexity or score of training runs.

    LOG is the log.jsonl of `elmo pretrain`, `finetune` or `train`, or the folder that contains it.
    Several runs can share one plot. A star marks the evaluation whose weights were chosen, or the
    best one if the choice is not recorded, as while a run trains. Lines show the perplexities that
    `elmo finetune` reports before and after training.

    Example: elmo plot curves small/ large/ -o curves.png
    """
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.training_curves import draw_training_curves, log_of, read_run

    chosen = PlotCurvesOptions(**values)
    logs = [log_of(Path(name)) for name in chosen.logs]
    plot_options.check_plot(chosen.output, logs, overwrite=chosen.overwrite)
    runs = [read_run(log) for log in logs]
    with plot_options.plot_warnings():
        write_figure(draw_training_curves(runs), chosen.output)
    console.note(f"{chosen.output}: written")


@dataclass(frozen=True)
class PlotLayersOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot layers`."""

    mixes: tuple[str, ...]


@_command("layers")
@argument("mixes", nargs=-1, required=True, metavar="DIR|MIX…", type=FOLDER)
@plot_options.plot_output()
def plot_layers(**values: Any) -> None:
    """Plot learned layer weights, like figure 2 of the paper.

    DIR is a folder of `elmo train`, whose model may have a mix at the input and one at the output.
    MIX is mix:W0,W1,W2[,GAMMA] as for `elmo embed --layers`; its weights are divided by their sum.

    Example: elmo plot layers ner/ srl/ mix:0.21,0.45,0.34 -o layers.png
    """
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.layer_results import draw_layer_weights, parse_mix, read_mixes
    from elmo_cli.training.run_folder import SCORES_FILE

    chosen = PlotLayersOptions(**values)
    scores_files = {}  # of the folders
    for mix in chosen.mixes:
        if not mix.startswith("mix:"):
            scores_files[mix] = Path(mix) / SCORES_FILE
    plot_options.check_plot(chosen.output, scores_files.values(), overwrite=chosen.overwrite)
    rows = []
    for mix in chosen.mixes:
        if mix in scores_files:
            rows += read_mixes(scores_files[mix])
        else:
            rows.append(parse_mix(mix))
    with plot_options.plot_warnings():
        write_figure(draw_layer_weights(rows), chosen.output)
    console.note(f"{chosen.output}: written")


# fmt: off
_senses_options = together(
    value("Input", "--word WORD", "Word to plot, ignoring case.", required=True),
    options.layer_option("Input"),
    value("Input", "--clusters N", "Number of clusters, up to 6.  [default: the number with the "
          "highest silhouette score]", type=click.IntRange(1, 6)),
    value("Input", "--labels LABELS", "Color points by the labels in this file instead of by "
          "cluster. It has a label per token of FILE; in plain text, a line may be a single label "
          "for the whole sentence.", type=FILE),
    options.label_options,
)
# fmt: on


@dataclass(frozen=True)
class PlotSensesOptions(plot_options.PlotOptions, options.LabelOptions):
    """The values of all options of `elmo plot senses`."""

    file: str
    word: str
    layer: int | None
    clusters: int | None
    labels: str | None


@_command("senses")
@argument("file", metavar="FILE", type=FILE)
@_senses_options
@plot_options.plot_output(".html, .png, .svg or .pdf")
def plot_senses(**values: Any) -> None:
    """Plot the occurrences of a word in two dimensions.

    FILE is an embeddings file that stores its tokens. Vectors are normalized to unit length and
    projected onto their first two principal components. Colors show labels, or clusters (k-means on
    the first 50 components), which need not be senses. A page (.html) shows the sentence of the
    point under the mouse, zooms, and needs no network; a figure shows context where there is room.

    \b
    Examples:
      elmo plot senses corpus.hdf5 --word bank -o bank.html
      elmo plot senses dev.hdf5 --word like --labels dev.conllu \\
          --label-column upos -o like.png
    """
    from elmo_cli.analysis.labelled_vectors import LabelFile
    from elmo_cli.isolate import run_isolated
    from elmo_cli.plot.token_groups import CLUSTERS_NOTE
    from elmo_cli.plot.token_plot import read_word, write_tokens

    chosen = PlotSensesOptions(**values)
    files = [chosen.file] if chosen.labels is None else [chosen.file, chosen.labels]
    plot_options.check_plot(chosen.output, files, overwrite=chosen.overwrite, of_tokens=True)
    if chosen.labels is None:
        options.refuse_options(options.LABEL_FIELDS, "without --labels")
        labels = None
    else:
        options.refuse_options(["clusters"], "with --labels")
        labels = LabelFile(chosen.labels, chosen.label_settings())
    read = partial(read_word, chosen.file, chosen.word, chosen.layer, labels)
    tokens = run_isolated(read, files, EmbeddingsFileError)
    with plot_options.plot_warnings():
        write_tokens(tokens, chosen.output, chosen.clusters)
    console.note(f"{chosen.output}: {tokens.title}")
    if tokens.note:
        console.note(tokens.note)
    if chosen.labels is None:
        console.note(f"{CLUSTERS_NOTE}; --labels colors by groups of your own")


@dataclass(frozen=True)
class PlotSimilarityOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot similarity`."""

    file: str
    first: str
    second: str


@_command("similarity")
@argument("file", metavar="FILE", type=FILE)
@argument("first", metavar="KEY")
@argument("second", metavar="KEY")
@plot_options.plot_output()
def plot_similarity(**values: Any) -> None:
    """Plot the cosines between the tokens of two sentences.

    FILE is an embeddings file of any layout, with one vector per token; each stored layer is drawn.
    A KEY is the number of a sentence, from 0, or its name. The tokens of the first sentence are the
    rows.

    Example: elmo plot similarity corpus.hdf5 12 40 -o similarity.png
    """
    from elmo_cli.isolate import run_isolated
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.similarity import draw_similarity, read_similarity

    chosen = PlotSimilarityOptions(**values)
    plot_options.check_plot(chosen.output, [chosen.file], overwrite=chosen.overwrite)
    read = partial(read_similarity, chosen.file, chosen.first, chosen.second)
    similarity = run_isolated(read, [chosen.file], EmbeddingsFileError)
    with plot_options.plot_warnings():
        write_figure(draw_similarity(similarity), chosen.output)
    console.note(f"{chosen.output}: written")


@dataclass(frozen=True)
class PlotProbeOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot probe`."""

    results: tuple[str, ...]


@_command("probe")
@argument("results", nargs=-1, required=True, metavar="FILE…", type=FILE)
@plot_options.plot_output()
def plot_probe(**values: Any) -> None:
    """Plot the accuracy of probes by layer.

    FILE is the output of `elmo probe --json`. For a single file, the test accuracy is shown for
    all words, for unseen words and with control labels; several files are compared on all words. A
    line shows the baseline that needs no vectors.

    Example: elmo plot probe trained.json untrained.json -o both.svg
    """
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.layer_results import draw_probes, read_probe

    chosen = PlotProbeOptions(**values)
    plot_options.check_plot(chosen.output, chosen.results, overwrite=chosen.overwrite)
    probes = [read_probe(result) for result in chosen.results]
    with plot_options.plot_warnings():
        write_figure(draw_probes(probes), chosen.output)
    console.note(f"{chosen.output}: written")


@dataclass(frozen=True)
class PlotGeometryOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot geometry`."""

    results: tuple[str, ...]


@_command("geometry")
@argument("results", nargs=-1, required=True, metavar="FILE…", type=FILE)
@plot_options.plot_output()
def plot_geometry(**values: Any) -> None:
    """Plot the geometry of the layers.

    FILE is the output of `elmo geometry --json`. Each measure has a panel, with a line for each
    embeddings file in each FILE. Dashed lines show the measures minus those of random tokens.

    Example: elmo plot geometry trained.json untrained.json -o geometry.svg
    """
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.geometry_plot import draw_geometry, read_geometry

    chosen = PlotGeometryOptions(**values)
    plot_options.check_plot(chosen.output, chosen.results, overwrite=chosen.overwrite)
    files = [file for result in chosen.results for file in read_geometry(result)]
    with plot_options.plot_warnings():
        write_figure(draw_geometry(files), chosen.output)
    console.note(f"{chosen.output}: written")


_sentence_option = value(
    "Input",
    "--sentence KEY",
    "Key of the sentence to plot: its number, from 0, or its name.  [default: the first of FILE]",
)


@dataclass(frozen=True)
class PlotTreeOptions(plot_options.PlotOptions):
    """The values of all options of `elmo plot tree`."""

    file: str
    sentence: str | None


@_command("tree")
@argument("file", metavar="FILE", type=FILE)
@_sentence_option
@plot_options.plot_output()
def plot_tree(**values: Any) -> None:
    """Plot the dependency tree of a sentence and its prediction.

    FILE is what `elmo probe --structural … --trees FILE` wrote. For distances, the edges of the
    treebank are above the words and the predicted ones below them; punctuation is gray and has no
    edges. For depths, two marks show the depth of each word in the treebank and as predicted.

    Example: elmo plot tree trees.jsonl --sentence 12 -o tree.svg
    """
    from elmo_cli.plot.figure import write_figure
    from elmo_cli.plot.tree_plot import draw_tree, read_tree

    chosen = PlotTreeOptions(**values)
    plot_options.check_plot(chosen.output, [chosen.file], overwrite=chosen.overwrite)
    tree = read_tree(chosen.file, chosen.sentence)
    with plot_options.plot_warnings():
        write_figure(draw_tree(tree), chosen.output)
    console.note(f"{chosen.output}: written")
