"""A whole language model: a biLM with the softmax and the vocabulary that it predicts with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from elmo_cli.arrays import Float32Array, Float64Array
from elmo_cli.errors import InputError, ModelError
from elmo_cli.files import StrPath, write_text
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import score
from elmo_cli.lm.new_model_folder import new_model_folder
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model_folder import (
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.load import ModelSource, load_files, locate
from elmo_cli.pretrained.model_files import (
    ModelFiles,
    check_parts,
    remove_parts,
    write_parts,
)
from elmo_cli.text.sentence import sentence_of
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.open_weights import check_data_sets
from elmo_cli.weightfile.read import read_softmax
from elmo_cli.weightfile.write import write_bilm, write_softmax

_SOFTMAX_STD = 0.02


@dataclass(frozen=True)
class LanguageModel:
    """What is needed to predict a text.

    Attributes:
        softmax: shared by both directions.
        vocabulary: of `softmax`; the id of a type is its row there.
        warning: the run that writes the model is not finished, or softmax or vocabulary may be of
            another model, see `check_parts`; "" if neither.
    """

    bilm: BiLM
    softmax: NextTokenSoftmax
    vocabulary: Vocabulary
    warning: str = ""

    def __repr__(self) -> str:
        return f"LanguageModel({self.bilm!r}, types={len(self.vocabulary):_})"

    def to(self, device: torch.device) -> LanguageModel:
        """Move the model to a device, in place."""
        self.bilm.to(device)
        self.softmax.to(device)
        return self

    def score(self, tokens: Iterable[str]) -> tuple[Float32Array, Float32Array]:
        """Compute the log-likelihoods of the tokens of a sentence and of its boundaries.

        The initial state is zero. A token that is not in the vocabulary has the likelihood of
        `<UNK>`.

        Returns:
            Natural logarithms for a sentence of n tokens, (n + 1,) each: forward those of
            w1 … wn </S>, backward those of <S> w1 … wn, both in the order of the text.
        Raises:
            TypeError: a text instead of tokens, or a token that is not a string.
            InputError: no tokens, or a token that is empty or that UTF-8 can't hold.
            WeightFileError, DeviceError: as `evaluation.score`.
        """
        sentence = sentence_of(tokens, 0)
        if not sentence.tokens:
            hint = "give a list of at least one token"
            raise InputError("has no tokens", hint, where="the sentence")
        max_characters = self.bilm.options.max_characters
        corpus = Corpus.read([sentence.tokens], max_characters=max_characters)
        [(forward, backward)] = score(self, corpus).in_text_order()
        return forward, backward

    def write(self, folder: Path, dtype: str = "float32") -> None:
        """Write a model that `elmo embed`, AllenNLP and bilm-tf can read; raises OutputError."""
        remove_parts(folder)
        write_options(self.bilm.options, folder)
        self.vocabulary.write(folder / VOCABULARY_FILE)
        write_softmax(self.softmax, folder / SOFTMAX_FILE, dtype=dtype)
        write_bilm(self.bilm, folder / WEIGHTS_FILE, dtype=dtype)
        write_parts(folder)


def load_language_model(
    model: ModelFiles | ModelSource | StrPath | None = None,
    *,
    softmax: StrPath | None = None,
    vocabulary: StrPath | None = None,
) -> LanguageModel:
    """Load a biLM with its softmax and its vocabulary, all in float32 on the CPU.

    Args:
        model: a name of `elmo models list`, a folder, a weight file or a zip file; None for
            the bundled model; or files that `locate` has found.
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
    files = model if isinstance(model, ModelFiles) else locate(model)
    refuse_unicode(files)
    check_data_sets([softmax])
    # Missing files are reported before the weights are read, which may take a while.
    softmax_path = _find_softmax(files) if softmax is None else Path(softmax)
    vocabulary_path = _find_vocabulary(files) if vocabulary is None else Path(vocabulary)
    foreign = check_parts(files, {"softmax": softmax_path, "vocabulary": vocabulary_path})
    bilm = load_files(files)
    types = Vocabulary.read(vocabulary_path)
    softmax_layer = read_own_softmax(softmax_path, files, bilm.options, n_types=len(types))
    return LanguageModel(
        bilm=bilm,
        softmax=softmax_layer,
        vocabulary=types,
        warning="; ".join(warning for warning in (*files.notes, foreign) if warning),
    )


def refuse_unicode(files: ModelFiles) -> None:
    """Raise a ModelError for a model of Unicode characters, which can't be scored or trained."""
    if files.read_options().is_unicode:
        problem = "reads Unicode characters, and no softmax layer was published for such a model"
        hint = "`elmo embed` computes its vectors; `elmo pretrain` trains a model of your own"
        raise ModelError(problem, hint, where=files.weights.parent)


def read_own_softmax(
    path: Path, files: ModelFiles, options: Options, *, n_types: int
) -> NextTokenSoftmax:
    """Read a softmax from a file of its own, or from the files of the model."""
    if path == files.weights:
        with files.open() as model:
            softmax = model.read_softmax(n_types)
    else:
        softmax = read_softmax(path, n_types=n_types, projection=options.projection_dim)
    return softmax.requires_grad_(False)


def _find_softmax(files: ModelFiles) -> Path:
    """Return the file with the softmax of a model; a ModelError if it has none."""
    path = softmax_of(files)
    if path is None:
        problem = (
            f"this model has no softmax: no {SOFTMAX_FILE} beside {files.weights.name}, nor "
            "softmax/W in it"
        )
        hint = "`elmo finetune` fits one to a text"
        raise ModelError(problem, hint, where=files.weights.parent)
    return path


def _find_vocabulary(files: ModelFiles) -> Path:
    """Return the file with the vocabulary of a model; a ModelError if it has none."""
    if files.vocabulary is None:
        problem = f"no {VOCABULARY_FILE} beside {files.weights.name}"
        hint = f"copy the types that the softmax predicts, one per line, to {VOCABULARY_FILE}"
        raise ModelError(problem, hint, where=files.weights.parent)
    return files.vocabulary


def softmax_of(files: ModelFiles) -> Path | None:
    """Return the file with the softmax of a model: one next to the weights, or the weights.

    Returns None if the model has no softmax.

    Raises:
        WeightFileError: the weights cannot be read.
    """
    if files.softmax is not None:
        return files.softmax
    is_inside = files.softmax_shape() is not None
    return files.weights if is_inside else None


def new_bilm(options: Options, counts: Float64Array, *, seed: int) -> tuple[BiLM, NextTokenSoftmax]:
    """Return a biLM with the initial values of bilm-tf, and a softmax for given frequencies.

    bilm-tf's softmax starts with weights of deviation 1/sqrt(projection) and biases of zero, which
    rare types keep for long if they are seldom drawn as negative samples. Here weights start small
    and biases at the logarithm of the relative frequency, so that types that are not trained yet
    are unlikely.

    Args:
        counts: how often each type of the vocabulary is a target, (type,).

    Source: bilm-tf `bilm/training.py`; the LSTM has TensorFlow's default (Glorot and Bengio 2010).
    """
    with _seeded(seed):
        bilm = BiLM(options)
        softmax = NextTokenSoftmax(len(counts), options.projection_dim)
        _initialize_bilm(bilm)
        _initialize_softmax(softmax, counts)
    return bilm, softmax


def new_softmax(counts: Float64Array, projection_dim: int, *, seed: int) -> NextTokenSoftmax:
    """Return a softmax for an existing biLM, with initial values as in `new_bilm`."""
    with _seeded(seed):
        softmax = NextTokenSoftmax(len(counts), projection_dim)
        _initialize_softmax(softmax, counts)
    return softmax


def write_untrained(like: ModelSource | StrPath, output: Path, *, seed: int = 0) -> int:
    """Write options.json and weights.hdf5 of a biLM with the initial values of pretraining.

    Args:
        like: a biLM with the same sizes.
        output: a folder that is new or empty, or that a killed process was filling.
    Returns:
        The number of parameters.
    Raises:
        ModelError, OptionsError: no such model, or not on this machine.
        OutputError: as `new_model_folder`.
    """
    files = locate(like)
    refuse_unicode(files)
    options = files.read_options()
    with new_model_folder(output, reads=files.weights.parent):
        with _seeded(seed):
            bilm = BiLM(options)
            _initialize_bilm(bilm)
        write_options(options, output)
        write_bilm(bilm, output / WEIGHTS_FILE)
    return sum(values.numel() for values in bilm.parameters())


def write_options(options: Options, folder: Path) -> None:
    """Write options.json; raises OutputError."""
    write_text(folder / OPTIONS_FILE, [json.dumps(options.to_dict(), indent=2), "\n"])


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's random numbers and record no gradients, without effect on other code."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        yield


def _initialize_softmax(softmax: NextTokenSoftmax, counts: Float64Array) -> None:
    nn.init.normal_(softmax.weight, std=_SOFTMAX_STD)
    frequencies = (counts + 1) / (counts + 1).sum()  # (type,)
    softmax.bias.copy_(torch.from_numpy(np.log(frequencies)))


def _initialize_bilm(bilm: BiLM) -> None:
    cnn = bilm.char_cnn
    options = bilm.options
    nn.init.uniform_(cnn.embedding.weight, -1, 1)
    for part, (width, _) in zip(cnn.filters, options.filters, strict=True):
        if options.activation == "relu":
            nn.init.uniform_(part.get_parameter("weight"), -0.05, 0.05)
            part.get_parameter("bias").zero_()
        else:
            _initialize_matrix(part, width * options.char_dim, 0.0)
    for highway in cnn.highways:
        _initialize_matrix(highway.get_submodule("carry"), options.n_filters, -2.0)
        _initialize_matrix(highway.get_submodule("transform"), options.n_filters, 0.0)
    if options.has_cnn_projection:
        _initialize_matrix(cnn.projection, options.n_filters, 0.0)
    # TensorFlow has one matrix of [x ; h], whose size determines the bound.
    n_inputs = 2 * options.projection_dim
    n_outputs = 4 * options.lstm_dim
    bound = (6 / (n_inputs + n_outputs)) ** 0.5
    for layer in (*bilm.forward_lm.layers, *bilm.backward_lm.layers):
        cell = cast(ProjectedLSTM, layer)
        nn.init.uniform_(cell.input.weight, -bound, bound)
        nn.init.uniform_(cell.recurrent.weight, -bound, bound)
        cell.input.bias.zero_()
        for weight in cell.projection.parameters():
            nn.init.xavier_uniform_(weight)


def _initialize_matrix(part: nn.Module, n_inputs: int, bias: float) -> None:
    nn.init.normal_(part.get_parameter("weight"), std=n_inputs**-0.5)
    part.get_parameter("bias").fill_(bias)
