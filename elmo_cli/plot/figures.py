"""The plots of `elmo plot` as figures for notebooks: one function per plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.analysis.labelled_vectors import LabelFile, LabelSettings
from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.geometry_plot import draw_geometry, read_geometry
from elmo_cli.plot.layer_results import (
    draw_layer_weights,
    draw_probes,
    parse_mix,
    read_mixes,
    read_probe,
)
from elmo_cli.plot.similarity import draw_similarity, read_similarity
from elmo_cli.plot.token_plot import draw_tokens, read_word
from elmo_cli.plot.training_curves import draw_training_curves, log_of, read_run
from elmo_cli.plot.tree_plot import draw_tree, read_tree
from elmo_cli.training.run_folder import SCORES_FILE

if TYPE_CHECKING:
    from elmo_cli.plot.inline_figure import InlineFigure


def plot_senses(
    file: StrPath,
    word: str,
    *,
    layer: int | None = None,
    clusters: int | None = None,
    labels: StrPath | None = None,
    label_settings: LabelSettings | None = None,
) -> InlineFigure:
    """Plot the occurrences of a word in two dimensions, as `elmo plot senses`.

    Args:
        file: embeddings that store their tokens.
        layer: its number; None for the highest or only layer.
        clusters: how many, up to 6; None for the number with the highest silhouette score.
        labels: a file with a label per token or, in plain text, per sentence, by which points are
            colored instead of by cluster.
        label_settings: how that file is read.
    Raises:
        UsageError, EmbeddingsFileError: as `read_word`.
        ElmoError: matplotlib or scikit-learn is not installed.
    """
    if labels is not None and clusters is not None:
        problem = "`labels` color the points instead of `clusters`"
        raise UsageError(problem, "leave out one of them", parameters=("clusters",))
    label_file = None
    if labels is not None:
        label_file = LabelFile(str(labels), label_settings or LabelSettings())
    return draw_tokens(read_word(file, word, layer, label_file), clusters)


def plot_similarity(file: StrPath, first: str | int, second: str | int) -> InlineFigure:
    """Plot the cosines between the tokens of two sentences, as `elmo plot similarity`.

    Args:
        first, second: keys of sentences of the file; the tokens of the first are the rows.
    Raises:
        UsageError, EmbeddingsFileError: as `read_similarity`.
        ElmoError: matplotlib is not installed.
    """
    return draw_similarity(read_similarity(file, str(first), str(second)))


def plot_layers(*mixes: StrPath) -> InlineFigure:
    """Plot learned layer weights, as `elmo plot layers`.

    Args:
        mixes: folders of `elmo train`, and strings such as "mix:0.2,0.5,0.3", which is what
            `ElmoMix.spec()` returns.
    Raises:
        InputError, UsageError: as `read_mixes` and `parse_mix`.
        ElmoError: matplotlib is not installed.
    """
    rows = []
    for mix in mixes:
        if str(mix).startswith("mix:"):
            rows.append(parse_mix(str(mix)))
        else:
            rows += read_mixes(Path(mix) / SCORES_FILE)
    return draw_layer_weights(rows)


def plot_probes(*results: StrPath) -> InlineFigure:
    """Plot the accuracy of probes by layer, as `elmo plot probe`.

    Args:
        results: files with the output of `elmo probe --json`.
    Raises:
        InputError: as `read_probe`.
        ElmoError: matplotlib is not installed.
    """
    return draw_probes([read_probe(result) for result in results])


def plot_geometry(*results: StrPath) -> InlineFigure:
    """Plot the geometry of the layers, as `elmo plot geometry`.

    Args:
        results: files with the output of `elmo geometry --json`.
    Raises:
        InputError: as `read_geometry`.
        ElmoError: matplotlib is not installed.
    """
    return draw_geometry([file for result in results for file in read_geometry(result)])


def plot_tree(file: StrPath, sentence: str | int | None = None) -> InlineFigure:
    """Plot the dependency tree of a sentence and its prediction, as `elmo plot tree`.

    Args:
        file: what `elmo probe --structural … --trees FILE` wrote.
        sentence: its key; None for the first sentence of the file.
    Raises:
        InputError, UsageError: as `read_tree`.
        ElmoError: matplotlib is not installed.
    """
    return draw_tree(read_tree(file, None if sentence is None else str(sentence)))


def plot_curves(*runs: StrPath) -> InlineFigure:
    """Plot the loss and the perplexity or score of training runs, as `elmo plot curves`.

    Args:
        runs: folders of `elmo pretrain`, `finetune` or `train`, or their log.jsonl.
    Raises:
        InputError, UsageError: as `read_run` and `draw_training_curves`.
        ElmoError: matplotlib is not installed.
    """
    return draw_training_curves([read_run(log_of(Path(run))) for run in runs])
