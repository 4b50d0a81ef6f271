"""A whole language model: a biLM with the softmax and the vocabulary that it predicts with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.files import StrPath
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.pretrained.load import ModelSource, load_files, locate
from elmo_cli.pretrained.model_files import (
    CHECKPOINT_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    ModelFiles,
)
from elmo_cli.pretrained.parts import check_parts
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.describe import find_dataset, probe_hdf5
from elmo_cli.weightfile.read import open_weights, read_softmax


@dataclass(frozen=True)
class LanguageModel:
    """What is needed to predict a text.

    Attributes:
        bilm: as `load` gives it, with its name, its files, its sha256 and its warm state.
        softmax: shared by both directions.
        vocabulary: of `softmax`; the id of a type is its row there.
        warning: the run that writes the model is not finished, or softmax or vocabulary may be of
            another model, see `check_parts`; "" if not.
    """

    bilm: BiLM
    softmax: NextTokenSoftmax
    vocabulary: Vocabulary
    warning: str = ""


def load_language_model(
    model: StrPath | None = None,
    *,
    options: StrPath | None = None,
    weights: StrPath | None = None,
    softmax: StrPath | None = None,
    vocabulary: StrPath | None = None,
) -> LanguageModel:
    """A biLM with its softmax and its vocabulary, all in float32 on the CPU.

    Args:
        model: a name of `elmo models list`, a folder, a weight file or a zip file; None for
            the bundled model.
        options, weights: the two files of a biLM, without `model`.
        softmax: a file with softmax/W and softmax/b; if not given, the one next to the weights
            or the one inside them.
        vocabulary: the types that the softmax predicts, one per line; if not given, the one next to
            the weights.
    Raises:
        ModelError: no such model, or it has no softmax or no vocabulary.
        OptionsError, WeightFileError: files that are corrupt or do not fit each other.
        InputError: a vocabulary without one of the specials, or that can't be read.
        UsageError, OutputError: as `pretrained.load`.
    """
    files = locate(ModelSource(model, options, weights))
    return language_model_of(files, softmax=softmax, vocabulary=vocabulary)


def language_model_of(
    files: ModelFiles, *, softmax: StrPath | None = None, vocabulary: StrPath | None = None
) -> LanguageModel:
    """Load a language model from files that `locate` has found.

    Args:
        softmax, vocabulary: as in `load_language_model`.
    Raises:
        ModelError, OptionsError, WeightFileError, InputError: as `load_language_model`.
    """
    probe_hdf5([softmax])
    # Missing files are reported before the weights are read, which may take a while.
    softmax = softmax if softmax is not None else softmax_of(files)
    vocabulary = vocabulary if vocabulary is not None else files.vocabulary
    if softmax is None:
        raise ModelError(
            f"{files.weights.parent}: this model has no softmax: no {SOFTMAX_FILE} beside "
            f"{files.weights.name}, nor softmax/W in it",
            "`elmo finetune` fits one to a text",
        )
    if vocabulary is None:
        raise ModelError(
            f"{files.weights.parent}: no {VOCABULARY_FILE} beside {files.weights.name}",
            "`vocabulary=FILE` names the types that the softmax predicts, one per line",
        )
    paths = {"softmax": Path(softmax), "vocabulary": Path(vocabulary)}
    warnings = [_check_finished(files), check_parts(files, paths)]
    bilm, types = load_files(files), Vocabulary.read(paths["vocabulary"])
    projection = bilm.options.projection_dim
    layer = read_softmax(paths["softmax"], n_types=len(types), projection=projection)
    return LanguageModel(
        bilm, layer.requires_grad_(False), types, "; ".join(filter(None, warnings))
    )


def _check_finished(files: ModelFiles) -> str:
    """Warn of the weights of a run that has not ended: it writes the warm state last."""
    folder = files.weights.parent
    if files.warm_state is not None or not (folder / CHECKPOINT_FILE).exists():
        return ""
    return f"{folder}: the run is not finished; the weights are those that it has written so far"


def softmax_of(files: ModelFiles) -> Path | None:
    """The file that holds the softmax of a model: beside the weights or inside them, None if there
    is none.

    Raises:
        WeightFileError: the weight file is no readable HDF5 file.
    """
    if files.softmax is not None:
        return files.softmax
    with open_weights(files.weights) as file:
        return files.weights if find_dataset(file, "softmax/W") is not None else None
