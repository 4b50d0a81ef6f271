"""The architecture `elmo.Tok2Vec.v1`: vectors of a frozen biLM for components that spaCy trains."""

from collections.abc import Callable, Sequence
from typing import Any

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Maxout, Model, chain, with_array
from thinc.types import Floats2d

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import SettingError
from elmo_cli.interop.shared_embedders import (
    check_sha256,
    check_state,
    select_one_vector,
    shared_embedder,
)
from elmo_cli.interop.spacy_docs import embed_docs
from elmo_cli.model.options import Options

_LEARNED = "learned"  # the value of `layers` for a mix that is trained

_Gradient = Callable[[Any], list[Any]]


# spaCy reads the annotations of this function, so they are types here and not strings.
@registry.architectures("elmo.Tok2Vec.v1")  # type: ignore[untyped-decorator]
def tok2vec(
    model: str = "elmo-en",
    layers: str | int = "average",
    state: str = "zero",
    width: int | None = None,
    cache_tokens: int = 200_000,
    precision: str = "float32",
    device: str = "auto",
) -> Model[list[Doc], list[Floats2d]]:
    """Make a layer from documents to the vectors of their tokens; the biLM is not trained.

    Args:
        model: a name of `elmo models list`, or a path, as `load` takes it.
        layers: "average", "top", "sum", a number (in a configuration, `layers = 1` is one),
            "mix:w0,w1,w2", or "learned" for a mix of all layers that is trained, equation (1) of
            the paper.
        state: "zero" or "warm", the initial LSTM state of each document.
        width: of a trained projection of the vectors (maxout, normalized); None for none.
        cache_tokens: of how many tokens of training texts the vectors are kept in memory.
        precision, device: as of `EmbedderSettings`.
    Raises:
        UsageError: a value is impossible.
    """
    check_state(state)
    if cache_tokens < 0:
        raise SettingError("cache_tokens", "less than 0", value=cache_tokens)
    is_learned = layers == _LEARNED
    settings = EmbedderSettings(
        state=state,
        layers="all" if is_learned else str(layers),
        drop_layer_axis=not is_learned,
        precision=precision,
        device=device,
    )
    vectors = DocVectors(model, settings, is_learned=is_learned, cache_tokens=cache_tokens)
    parts: list[Model[Any, Any]] = [
        Model(
            "elmo_vectors",
            vectors.forward,
            init=vectors.initialize,
            dims={"nO": None},
            attrs={"model_sha256": ""},
        )
    ]
    if is_learned:
        mix = Model(
            "elmo_mix",
            mix_forward,
            init=vectors.initialize_mix,
            dims={"nO": None},
            params={"weights": None, "gamma": None},
        )
        parts.append(mix)
    if width is not None:
        parts.append(with_array(Maxout(nO=width, nP=3, dropout=0.0, normalize=True)))
    return chain(*parts) if len(parts) > 1 else parts[0]


class DocVectors:
    """Vectors of documents, which are kept between the epochs of a training run.

    The cache is filled by training texts only, and is full when it holds `cache_tokens` tokens. It
    is neither pickled nor stored.
    """

    def __init__(
        self, model: str, settings: EmbedderSettings, *, is_learned: bool, cache_tokens: int
    ) -> None:
        self._model = model
        self._settings = settings
        self._is_learned = is_learned
        self._cache_tokens = cache_tokens
        self._n_cached_tokens = 0
        self._cache: dict[tuple[str, ...], FloatArray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_n_cached_tokens": 0, "_cache": {}}

    def forward(
        self, layer: Model[Any, Any], docs: Sequence[Doc], is_train: bool
    ) -> tuple[list[Any], _Gradient]:
        """The arrays of documents, and a function that returns no gradients.

        Returns:
            (token, dim) each, or (layer, token, dim) for a mix that is trained.
        Raises:
            ModelError: the model is not the one that `layer` was trained with.
        """
        texts = [tuple(token.text for token in doc) for doc in docs]
        new_docs = dict(zip(texts, docs, strict=True))
        arrays: dict[tuple[str, ...], FloatArray] = {}
        for text in list(new_docs):
            if text in self._cache:
                arrays[text] = self._cache[text]
                del new_docs[text]
        if new_docs:
            embedded = self._embed(layer, list(new_docs.values()))
            arrays.update(zip(new_docs, embedded, strict=True))
        if is_train:
            for text in new_docs:
                self._keep(text, arrays[text])
        return [layer.ops.asarray(arrays[text]) for text in texts], _no_gradients

    def initialize(self, layer: Model[Any, Any], X: Any = None, Y: Any = None) -> None:  # noqa: N803
        """Set the width; or an ElmoError as of `locate`, or for `layers` that the model lacks."""
        options = self._options()
        if not self._is_learned:
            select_one_vector(self._settings.layers, 1 + options.n_layers)
        layer.set_dim("nO", options.dim)

    def initialize_mix(self, layer: Model[Any, Any], X: Any = None, Y: Any = None) -> None:  # noqa: N803
        """Set the width, and the weights of the average."""
        options = self._options()
        layer.set_dim("nO", options.dim)
        layer.set_param("weights", layer.ops.alloc1f(1 + options.n_layers))
        layer.set_param("gamma", layer.ops.alloc1f(1) + 1)

    def _options(self) -> Options:
        from elmo_cli.pretrained.load import locate

        return locate(self._model).read_options()

    def _embed(self, layer: Model[Any, Any], docs: list[Doc]) -> list[FloatArray]:
        embedder = shared_embedder(self._model, self._settings)
        check_sha256(self._model, embedder.bilm.sha256, layer.attrs["model_sha256"])
        layer.attrs["model_sha256"] = embedder.bilm.sha256
        return embed_docs(embedder, docs)

    def _keep(self, text: tuple[str, ...], array: FloatArray) -> None:
        if self._n_cached_tokens + len(text) <= self._cache_tokens:
            self._n_cached_tokens += len(text)
            self._cache[text] = array


def mix_forward(
    layer: Model[Any, Any], arrays: Sequence[Any], is_train: bool
) -> tuple[list[Any], _Gradient]:
    """The learned mix of layers, gamma * sum over j of s_j h_j with s = softmax(weights).

    Args:
        arrays: (layer, token, dim) each.
    Returns:
        (token, dim) each, and a function that adds the gradients of weights and gamma.
    """
    ops = layer.ops
    gamma = layer.get_param("gamma")  # (1,)
    fractions = ops.softmax(layer.get_param("weights").reshape(1, -1))[0]  # s_j, (layer,)
    sums = [ops.xp.tensordot(fractions, array, axes=1) for array in arrays]  # (token, dim) each

    def add_gradients(d_outputs: Sequence[Any]) -> list[Any]:
        # d_products[j] is the derivative by gamma * s_j.
        d_products = ops.alloc1f(len(fractions))
        for array, d_output in zip(arrays, d_outputs, strict=True):
            d_products += (array * d_output).sum(axis=(1, 2))
        d_gamma = (fractions * d_products).sum()
        layer.inc_grad("gamma", d_gamma.reshape(1))
        layer.inc_grad("weights", gamma * fractions * (d_products - d_gamma))
        return []

    return [gamma * total for total in sums], add_gradients


def _no_gradients(d_outputs: Any) -> list[Any]:
    """The gradients by documents: none."""
    return []
