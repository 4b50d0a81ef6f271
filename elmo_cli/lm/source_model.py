"""The model that fine-tuning begins with: a biLM, and its softmax and vocabulary if they exist."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elmo_cli.lm.language_model import language_model_of, softmax_of
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.pretrained.load import ModelSource, load_files, locate
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class SourceNames:
    """What a user may name of a model; None for what is not named.

    Attributes:
        model: a name, a folder, a weight file, an archive.
        options, weights: the two files of a biLM, without `model`.
        softmax: the file of its softmax.
        vocabulary: the types that the softmax predicts, or that a new one is to predict.
    """

    model: str | None = None
    options: str | None = None
    weights: str | None = None
    softmax: str | None = None
    vocabulary: str | None = None

    def files(self) -> ModelFiles:
        """Where the model lies, without reading it.

        Raises:
            ModelError, UsageError, OutputError: as `pretrained.load`.
        """
        return locate(ModelSource(self.model, self.options, self.weights))


@dataclass(frozen=True)
class SourceModel:
    """What fine-tuning begins with.

    Attributes:
        files: where it was found.
        head: its own softmax; None where there is none, or the vocabulary is another one.
        vocabulary: of `head`, or for a softmax that is to be fitted; None if nobody gives one.
        warning: as of `LanguageModel`.
    """

    bilm: BiLM
    files: ModelFiles
    head: NextTokenSoftmax | None
    vocabulary: Vocabulary | None
    warning: str = ""


def load_source(names: SourceNames, *, fit_head: bool = False) -> SourceModel:
    """The model that is to be fine-tuned.

    A softmax without a vocabulary is an error unless one is to be fitted; so is a vocabulary of
    another size than the softmax.

    Args:
        fit_head: a softmax is fitted in any case, so that a vocabulary that is named need not be
            that of the model's own.
    Raises:
        ModelError, OptionsError, WeightFileError, InputError: as `load_language_model`.
    """
    files = names.files()
    softmax = names.softmax or softmax_of(files)
    vocabulary = names.vocabulary or files.vocabulary
    is_other = fit_head and names.softmax is None and (names.vocabulary or not vocabulary)
    head: NextTokenSoftmax | None = None
    types: Vocabulary | None = None
    warning = ""
    if softmax is not None and not is_other:
        found = language_model_of(files, softmax=names.softmax, vocabulary=names.vocabulary)
        bilm, head, types, warning = found.bilm, found.softmax, found.vocabulary, found.warning
    else:
        if vocabulary is not None:
            types = Vocabulary.read(Path(vocabulary))
        bilm = load_files(files)
    return SourceModel(bilm, files, head, types, warning)
