"""EmbeddingsFolder: the biLM layers of the sentences of data files, found by text or computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import Progress, Warn, run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import EmbeddingsFileError, ModelError, UnfinishedError, UsageError
from elmo_cli.files import write_text
from elmo_cli.pretrained.catalogue import BUNDLED
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.store.layouts import tokens_digest, tokens_sha256
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.tasks.inputs import Array, Tokens
from elmo_cli.tasks.task import Split
from elmo_cli.text.input import InputSettings, stem

_SUFFIXES = (".hdf5", ".h5")
_INDEPENDENT = ("zero", "warm")  # states in which sentences do not depend on each other


@dataclass(frozen=True)
class BiLMRecord:
    """The biLM whose layers a task model reads.

    Attributes:
        source: its name in the catalogue, or its path.
        sha256: its SHA-256, "" if unknown.
        state: initial LSTM state of each sentence, as in `EmbedderSettings`.
        n_layers, dim: number of layers, including the token layer, and their dimension.
    """

    source: str
    sha256: str
    state: str
    n_layers: int
    dim: int


class SentenceVectors:
    """The layers of the sentences of a data file: `vectors[i]` is (layer, token, dim).

    Args:
        embeddings: an open file, or the arrays themselves.
        rows: index of each sentence in the file.
        layers: "all", "last" or "type".
    """

    def __init__(
        self, embeddings: Embeddings | Sequence[Array], rows: Sequence[int], layers: str
    ) -> None:
        self._embeddings, self._rows = embeddings, rows
        self._keys: Sequence[Any] = range(len(embeddings))
        if isinstance(embeddings, Embeddings):
            self._keys = list(embeddings)
        self._layers = layer_slice(layers)

    def __getitem__(self, number: int) -> Array:
        array: Array = self._embeddings[self._keys[self._rows[number]]]
        return array[self._layers]


def layer_slice(layers: str) -> slice:
    """Return the slice of the layer axis that a value of `elmo.layers` selects."""
    return {"all": slice(None), "last": slice(-1, None), "type": slice(0, 1)}[layers]


class EmbeddingsFolder:
    """A folder in which the embeddings of data files are found by their text, or else computed.

    An embeddings file matches if its text is all sentences of the data in order, or the distinct
    ones in the order of their first occurrence, which is what `find` writes.

    Args:
        path: the folder, created when it is needed.
        model: the biLM that the user named; by default that of the files, else `default_model`.
        bilm: the biLM of a trained task model, which the files must match.
        default_model: the biLM if neither the user nor a file names one.
        device: device that computes missing embeddings.
    Attributes:
        bilm: the biLM of the embeddings; None before the first `find`.
    """

    def __init__(
        self,
        path: str,
        model: str | None = None,
        *,
        bilm: BiLMRecord | None = None,
        default_model: str = BUNDLED,
        device: str = "auto",
    ) -> None:
        self.path, self.bilm = Path(path), bilm
        if self.path.exists() and not self.path.is_dir():
            what = f"{path}: is a file, not a folder of embeddings"
            raise UsageError(what, "name the folder that contains it with `embeddings`")
        self._default_model, self._device = default_model, device
        self._embedder: Embedder | None = None
        if model is not None:
            self._require(model)

    def find(
        self,
        split: Split[Any],
        layers: str,
        progress: Progress | None = None,
        warn: Warn | None = None,
    ) -> SentenceVectors:
        """Return the layers of the sentences of a data file, computing them if they are missing.

        Args:
            layers: "all", "last" or "type".
            progress: called with the number of tokens embedded and their total.
            warn: called with each warning of computing them, `warnings.warn` by default.
        Raises:
            EmbeddingsFileError: a file has this text but another model, not all layers or a value
                that is not finite, or appears to be meant for the data but has another text.
            ElmoError: computing them fails, as in `elmo_cli.embed.run.run_job`.
        """
        distinct = list(dict.fromkeys(split.sentences))
        found = self._find(split, (distinct, split.sentences))
        if found is None:
            found = open_embeddings(self._output(split.path, distinct, progress, warn))
        _check_finite(found)
        self._keep(found)
        if len(found) == len(split.sentences):
            return SentenceVectors(found, range(len(found)), layers)
        rows = {tokens: row for row, tokens in enumerate(distinct)}
        return SentenceVectors(found, [rows[tokens] for tokens in split.sentences], layers)

    def compute(self, sentences: Sequence[Tokens], layers: str) -> SentenceVectors:
        """Compute the layers of sentences without storing them."""
        arrays = [array for _, array in self._make_embedder().stream(sentences)]
        return SentenceVectors(arrays, range(len(arrays)), layers)

    def _find(self, split: Split[Any], texts: Sequence[Sequence[Tokens]]) -> Embeddings | None:
        digests = set(map(sha256_of, texts))
        counts = {(len(text), sum(map(len, text))) for text in texts}
        name = stem(Path(split.path).name)
        refused: EmbeddingsFileError | None = None
        for embeddings in self._open_all():
            attributes = embeddings.attributes
            has_text = attributes.get("tokens_sha256") in digests
            problem = self._problem(embeddings) if has_text else ""
            if has_text and not problem:
                return embeddings
            embeddings.close()
            count = attributes.get("sentences"), attributes.get("tokens")
            if has_text:
                what = f"{embeddings.path}: has the text of {split.path}, but {problem}"
                refused = EmbeddingsFileError(what, "name another folder (`embeddings`), or model")
            elif refused is None and (count in counts or embeddings.path.stem == name):
                own = "unknown" if None in count else "{:,} sentences, {:,} tokens".format(*count)
                what = f"{embeddings.path}: its text ({own}) is not that of {split.path}"
                hint = f"embed {split.path} again, or name another folder (`embeddings`)"
                refused = EmbeddingsFileError(what, hint)
        if refused is not None:
            raise refused
        return None

    def _open_all(self) -> Iterator[Embeddings]:
        names = sorted(os.listdir(self.path)) if self.path.exists() else []
        for name in names:
            if name.endswith(_SUFFIXES):
                with suppress(UnfinishedError):
                    yield open_embeddings(self.path / name)

    def _problem(self, embeddings: Embeddings) -> str:
        """Return why a file with the right text cannot be used; "" if it can."""
        layers = str(embeddings.attributes.get("layers", "all"))
        if embeddings.unit != "tokens" or layers != "all":
            return f"not all layers of each token (unit {embeddings.unit}, layers {layers})"
        if not embeddings.order_is_known:
            return "not in a known order"
        expected, found = self.bilm, _record(embeddings)
        if expected is None:
            return ""
        for attribute in ("sha256", "state", "n_layers", "dim"):
            ours, theirs = getattr(expected, attribute), getattr(found, attribute)
            if ours != theirs and "" not in (ours, theirs):
                what = "model" if attribute == "sha256" else attribute
                ours, theirs = (
                    (expected.source, found.source) if what == "model" else (ours, theirs)
                )
                return f"of {what} {theirs}, not {ours}"
        return ""

    def _keep(self, embeddings: Embeddings) -> None:
        """Require the biLM of this file for all further files, unless one is required already."""
        if self.bilm is None:
            found, name = _record(embeddings), self._default_model
            with suppress(ModelError):  # the file has no path of its model
                is_default = locate(name).sha256 == found.sha256
                found = replace(found, source=_as_source(name)) if is_default else found
            self.bilm = found

    def _require(self, model: str) -> None:
        """Require this biLM, which the user named, for all files."""
        files = locate(model)
        options = files.read_options()
        known = self.bilm
        if known is not None and known.sha256 not in ("", files.sha256):
            what = f"{model}: not the biLM that the task model was trained with ({known.source})"
            raise ModelError(what, f"its SHA-256 begins with {known.sha256[:12]}")
        state = known.state if known else "zero"
        sizes = 1 + options.n_layers, options.dim
        self.bilm = BiLMRecord(_as_source(model), files.sha256, state, *sizes)

    def _make_embedder(self) -> Embedder:
        if self._embedder is None:
            if self.bilm is None:
                self._require(self._default_model)
            assert self.bilm is not None
            source = self.bilm.source
            try:
                files = locate(source)
            except ModelError as error:
                hint = "name it with `model`"
                raise ModelError(f"{error}, the biLM of these embeddings", hint) from None
            if self.bilm.sha256 not in ("", files.sha256):
                what = f"{source}: not the model of the embeddings, whose SHA-256 begins with "
                raise ModelError(what + self.bilm.sha256[:12], "name it with `model`")
            if self.bilm.state not in _INDEPENDENT:
                what = f"`state={self.bilm.state}`: vectors depend on the preceding sentences"
                raise UsageError(what, "embed all files of the data with `elmo embed` first")
            settings = EmbedderSettings(state=self.bilm.state, dtype="float16", device=self._device)
            self._embedder = Embedder(load_files(files), settings)
        return self._embedder

    def _output(
        self,
        name: str,
        sentences: Sequence[Tokens],
        progress: Progress | None,
        warn: Warn | None,
    ) -> Path:
        """Compute the layers of sentences into a new file of the folder."""
        embedder = self._make_embedder()
        self.path.mkdir(parents=True, exist_ok=True)
        output = self.path / f"{stem(Path(name).name)}-{sha256_of(sentences)[:8]}.hdf5"
        text = output.with_suffix(".jsonl")
        lines = (json.dumps({"tokens": tokens}) + "\n" for tokens in sentences)
        write_text(str(text), lines, overwrite=True)
        job = EmbedJob(
            (str(text),),
            str(output),
            text=InputSettings(format="jsonl"),
            embedder=replace(embedder.settings, batch_size=embedder.batch_size),
            file=FileSpec(layout="flat"),
            resume=True,
        )
        run_job(job, embedder=embedder, progress=progress, warn=warn)
        text.unlink()
        return output


def sha256_of(sentences: Iterable[Tokens]) -> str:
    """Return the digest that identifies a text: `tokens_sha256` of SCHEMA.md."""
    return tokens_sha256(b"".join(map(tokens_digest, sentences)))


def _check_finite(embeddings: Embeddings) -> None:
    """Refuse values that would spoil the training, before a run is overwritten."""
    for key in embeddings:
        is_finite = np.isfinite(embeddings[key])
        if not is_finite.all():
            layer, token, _ = np.argwhere(~is_finite)[0].tolist()
            what = f"sentence {key!r}, token {token}: a value of layer {layer} is not finite"
            hint = f"`elmo inspect {embeddings.path}` finds all such values; embed the text again"
            raise EmbeddingsFileError(f"{embeddings.path}: {what}", hint)


def _as_source(model: str) -> str:
    """Return a name of the catalogue as is, and a path as an absolute path."""
    return str(Path(model).resolve()) if Path(model).exists() else model


def _record(embeddings: Embeddings) -> BiLMRecord:
    attributes = embeddings.attributes
    return BiLMRecord(
        str(attributes.get("model", "")),
        str(attributes.get("model_sha256", "")),
        str(attributes.get("state", "zero")),
        embeddings.n_layers or 0,
        embeddings.dim,
    )
