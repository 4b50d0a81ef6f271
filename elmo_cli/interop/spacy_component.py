"""ElmoComponent: the component `elmo` of a pipeline of spaCy, which sets `doc.tensor`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch

from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.engine.names import PRECISIONS
from elmo_cli.fields import at_least, check_fields, one_of
from elmo_cli.files import StrPath
from elmo_cli.interop.shared_embedders import check_sha256, select_one_vector, shared_embedder
from elmo_cli.interop.spacy_docs import embed_docs
from elmo_cli.interop.spacy_hooks import add_similarity_hooks, add_vector_hooks

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

_RECORD_FILE = "model.json"
_EXTENSION = "elmo"  # of `doc._`


@dataclass(frozen=True, kw_only=True)
class ElmoConfig:
    """The configuration of the component `elmo`.

    Attributes:
        model: a name of `elmo models list`, or a path, as `load` takes it.
        layers: the layer or the sum that is `doc.tensor`: "average", "top", "sum", a number, or
            "mix:w0,w1,w2".
        state: the initial LSTM state of a sentence: "zero", "warm", or "document", with which the
            sentences of a document continue each other (`per_sentence`).
        precision: of matrix products, "float32", "bf16" or "int8".
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        batch_size: documents that are computed together at most.
        store_layers: also keep all layers, in `doc._.elmo`, (layer, token, dim).
        per_sentence: embed each sentence of a document by itself.
        similarity: let `similarity` compare vectors in context, see `add_hooks`.
    Raises:
        SettingError: a value is impossible.
    """

    model: str = "elmo-en"
    layers: str = "average"
    state: str = one_of("zero", "warm", "document")
    precision: str = one_of(*PRECISIONS)
    device: str = "auto"
    batch_size: int = at_least(1, default=128)
    store_layers: bool = False
    per_sentence: bool = False
    similarity: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        self.settings  # noqa: B018 - raises an error for an impossible device

    @property
    def settings(self) -> EmbedderSettings:
        """The settings of the embedder."""
        return EmbedderSettings(
            state=self.state,
            layers="all" if self.store_layers else self.layers,
            drop_layer_axis=not self.store_layers,
            precision=self.precision,
            device=self.device,
        )


# spaCy reads the annotations of this function, so they are types here and not strings.
@Language.factory(  # type: ignore[untyped-decorator]
    "elmo", assigns=["doc.tensor"], default_config=asdict(ElmoConfig())
)
def make_component(
    nlp: Language,
    name: str,
    model: str,
    layers: str | int,
    state: str,
    precision: str,
    device: str,
    batch_size: int,
    store_layers: bool,
    per_sentence: bool,
    similarity: bool,
) -> Pipe:
    """Make the component `elmo`; `nlp.add_pipe("elmo", config={…})` calls this.

    In a configuration of spaCy, `layers = 1` is a number.
    """
    config = ElmoConfig(
        model=model,
        layers=str(layers),
        state=state,
        precision=precision,
        device=device,
        batch_size=batch_size,
        store_layers=store_layers,
        per_sentence=per_sentence,
        similarity=similarity,
    )
    return ElmoComponent(name, config)


class ElmoComponent(Pipe):  # type: ignore[misc]
    """Sets `doc.tensor` to the vectors of a document, float32 (token, dim).

    The model is loaded for the first document, and is not pickled.

    Attributes:
        name: of the component in its pipeline.
        config: what it was made with.
        model_sha256: of the model that it has used, or that was recorded; "" at first.
    """

    def __init__(self, name: str, config: ElmoConfig) -> None:
        self.name = name
        self.config = config
        self.model_sha256 = ""
        if config.store_layers and not Doc.has_extension(_EXTENSION):
            Doc.set_extension(_EXTENSION, default=None)

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one document; or an ElmoError."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of documents, at most `batch_size` of the configuration together."""
        handle_error = self.get_error_handler()
        for docs in minibatch(stream, min(batch_size, self.config.batch_size)):
            try:
                self._annotate(docs)
            except Exception as error:
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The name and the `model_sha256` of the model; the pipeline stores the configuration."""
        record = {"model": self.config.model, "model_sha256": self.model_sha256}
        return json.dumps(record).encode()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Take what `to_bytes` returned; a ModelError if the model has another `model_sha256`."""
        from elmo_cli.pretrained.load import locate

        self.model_sha256 = str(json.loads(data)["model_sha256"])
        if self.model_sha256:
            found = locate(self.config.model).sha256
            check_sha256(self.config.model, found, self.model_sha256)
        return self

    def to_disk(self, path: StrPath, *, exclude: Iterable[str] = ()) -> None:
        """Write what `to_bytes` returns into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RECORD_FILE).write_bytes(self.to_bytes())

    def from_disk(self, path: StrPath, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Read what `to_disk` has written; errors as of `from_bytes`."""
        return self.from_bytes((Path(path) / _RECORD_FILE).read_bytes())

    def _annotate(self, docs: list[Doc]) -> None:
        """Set the attributes of documents; or an ElmoError."""
        config = self.config
        embedder = self._embedder()
        n_layers = 1 + embedder.bilm.options.n_layers
        selection = select_one_vector(config.layers, n_layers)
        arrays = embed_docs(embedder, docs, per_sentence=config.per_sentence)
        for doc, array in zip(docs, arrays, strict=True):
            if config.store_layers:
                doc._.set(_EXTENSION, array)
                doc.tensor = selection.apply(array)
            else:
                doc.tensor = array
            if doc.vocab.vectors.size:
                add_vector_hooks(doc)
            if config.similarity:
                add_similarity_hooks(doc)

    def _embedder(self) -> "Embedder":
        embedder = shared_embedder(self.config.model, self.config.settings)
        check_sha256(self.config.model, embedder.bilm.sha256, self.model_sha256)
        self.model_sha256 = embedder.bilm.sha256
        return embedder
