"""ElmoVectorizer: texts to vectors of a biLM, as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.settings import POOLS, EmbedderSettings
from elmo_cli.errors import InputError, SettingError
from elmo_cli.files import StrPath
from elmo_cli.interop.shared_embedders import (
    check_sha256,
    check_state,
    select_one_vector,
    shared_embedder,
)
from elmo_cli.pretrained.load import find
from elmo_cli.text.sentence import Sentence, sentence_of

Texts = Iterable[str | Sequence[str]]  # each is a string, or a list of tokens

_HINT = "give a list of texts, or of lists of tokens"


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns each text into one vector: the mean or the maximum of the vectors of its tokens.

    The model is loaded when the first text is transformed. All vectorizers of a process with equal
    settings share it, so that a grid search loads it once per process; it is not pickled.

    Args:
        model: a name of `elmo models list`, or a path, as `load` takes it.
        layers: "average", "top", "sum", the number of a layer, or "mix:w0,w1,w2".
        pool: "mean" or "max", over the tokens of a text.
        state: "zero" or "warm", the initial LSTM state of each text.
        precision: of matrix products, "float32", "bf16" or "int8".
        tokenizer: a function from a text to its tokens; None to split texts at whitespace. A
            pipeline is pickled with it, so it should be a function of a module, not a lambda.
        dtype: of the vectors, a floating-point type.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
    Attributes:
        model_sha256_: of the files of the model, once it is fitted. A pipeline that was fitted with
            one model refuses another one of the same name.

    Example:
        classifier = make_pipeline(ElmoVectorizer(), LogisticRegression())
        classifier.fit(["a good film", "a bad film"], [1, 0])
    """

    def __init__(
        self,
        model: StrPath | None = "elmo-en",
        *,
        layers: str = "average",
        pool: str = "mean",
        state: str = "zero",
        precision: str = "float32",
        tokenizer: Callable[[str], Sequence[str]] | None = None,
        dtype: npt.DTypeLike = np.float32,
        device: str = "auto",
    ) -> None:
        self.model = model
        self.layers = layers
        self.pool = pool
        self.state = state
        self.precision = precision
        self.tokenizer = tokenizer
        self.dtype = dtype
        self.device = device

    def fit(self, X: Texts, y: Any = None) -> ElmoVectorizer:  # noqa: N803
        """Check the parameters, the model and the kind of `X`, and record which model it is.

        Raises:
            UsageError: a parameter has a value that it cannot have, or that the model lacks.
            ModelError, OptionsError: the model is not on this machine, or its options are wrong.
            InputError: `X` is a single text, or a table. Like a UsageError, it is a ValueError.
        """
        self._settings()
        self._n_features_out  # noqa: B018 - raises an error for a missing model
        _check_texts(X)
        self.model_sha256_ = find(self.model).sha256
        return self

    def transform(self, X: Texts) -> FloatArray:  # noqa: N803
        """The vectors of texts.

        Args:
            X: texts, or lists of tokens, which are used as they are.
        Returns:
            (text, dim); zeros for a text without tokens.
        Raises:
            ElmoError: as of `fit`; or the model cannot be loaded or is not that of `fit`, or a text
                is not a string.
        """
        settings = self._settings()
        _check_texts(X)
        sentences = [self._sentence(text, row) for row, text in enumerate(X)]
        embedder = shared_embedder(self.model, settings)
        check_sha256(self.model, embedder.bilm.sha256, getattr(self, "model_sha256_", ""))
        vectors = np.empty((len(sentences), self._n_features_out), self.dtype)
        for row, (_, vector) in enumerate(embedder.stream(sentences)):
            vectors[row] = vector
        return vectors

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    @property
    def _n_features_out(self) -> int:
        """The number of columns, which scikit-learn asks for by this name."""
        options = find(self.model).read_options()
        select_one_vector(str(self.layers), 1 + options.n_layers)
        return int(options.dim)

    def _settings(self) -> EmbedderSettings:
        """The checked parameters; or UsageError."""
        if self.pool not in POOLS:
            hint = f"choose one of {', '.join(POOLS)}"
            raise SettingError("pool", "one vector per text is needed", hint, value=self.pool)
        if self.tokenizer is not None and not callable(self.tokenizer):
            problem = "not a function"  # type: ignore[unreachable]
            hint = "give a function from a text to a list of tokens, or None"
            raise SettingError("tokenizer", problem, hint, value=self.tokenizer)
        if not _is_floating(self.dtype):
            hint = "choose np.float32, np.float64 or np.float16"
            raise SettingError("dtype", "not a floating-point type", hint, value=self.dtype)
        check_state(self.state)
        return EmbedderSettings(
            state=self.state,
            layers=self.layers,
            pool=self.pool,
            drop_layer_axis=True,
            precision=self.precision,
            device=self.device,
        )

    def _sentence(self, text: str | Sequence[str], row: int) -> Sentence:
        """The tokens of one text; or InputError."""
        if isinstance(text, str):
            tokenize = self.tokenizer or str.split
            return sentence_of(tokenize(text), row)
        try:
            return sentence_of(text, row)
        except TypeError as error:
            kind = type(text).__name__
            problem = f"of type {kind}, neither a string nor a list of tokens"
            raise InputError(problem, _HINT, where=f"text {row}") from error


def _is_floating(dtype: npt.DTypeLike) -> bool:
    """Whether a parameter is a floating-point type; False also for what is no type at all."""
    with suppress(TypeError):
        return np.issubdtype(np.dtype(dtype), np.floating)
    return False


def _check_texts(texts: object) -> None:
    """Raise an InputError for a single text and for a table, whose items are no texts."""
    if isinstance(texts, (str, bytes)):
        raise InputError("a single text, not several", _HINT, where="`X`")
    if hasattr(texts, "columns"):
        hint = 'give one of its columns, such as `table["text"]`'
        raise InputError("a table, not a column of texts", hint, where="`X`")
