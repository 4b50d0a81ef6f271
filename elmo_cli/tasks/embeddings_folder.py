"""EmbeddingsFolder: the biLM layers of the sentences of data files, found by text or computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import (
    ElmoError,
    EmbeddingsFileError,
    ModelError,
    ResumeError,
    UsageError,
)
from elmo_cli.files import holding_lock, write_text
from elmo_cli.pretrained.catalogue import BUNDLED
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.digests import tokens_digest, tokens_sha256
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.tasks.inputs import LayerReader
from elmo_cli.tasks.readers import Split
from elmo_cli.text.input import stem
from elmo_cli.text.sentence import Tokens
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import LOCK_FILE

_INDEPENDENT = ("zero", "warm")  # states in which sentences do not depend on each other
_SLICES = {"all": slice(None), "last": slice(-1, None), "type": slice(0, 1)}  # of `elmo.layers`


@dataclass(frozen=True)
class BiLMRecord:
    """The biLM whose layers a task model reads; records are compared without their source.

    Attributes:
        source: its name in the catalogue, or its path.
        sha256: its SHA-256, "" if unknown.
        state: initial LSTM state of each sentence, as in `EmbedderSettings`.
        n_layers, dim: number of layers, including the token layer, and their dimension.
    """

    source: str = field(compare=False)
    sha256: str
    state: str
    n_layers: int
    dim: int

    def __str__(self) -> str:
        return f"{self.source or 'unknown'}, state {self.state}"


class EmbeddingsFolder:
    """A folder in which the embeddings of data files are found by their text, or else computed.

    An embeddings file matches if its text is all sentences of the data in order, or the distinct
    ones in the order of their first occurrence, which is what `find` writes. If several files
    match, the newest is used.

    Args:
        path: the folder, created when it is needed.
        model: the biLM that the user named; by default that of the files, else `default_model`.
        bilm: the biLM of a trained task model, which the files must match.
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

    def find(self, split: Split, layers: str, reporter: Reporter) -> LayerReader | None:
        """Find the layers of the sentences of a data file, or compute them if they are missing.

        Args:
            layers: "all", "last", "type" or "none", for which the result is None.
        Raises:
            EmbeddingsFileError: a file that `find` did not write has this text but another model or
                missing layers, or appears to belong to the data but has another text; or a value in
                the sentences of the examples is not finite.
            ElmoError: computing them fails, as in `elmo_cli.embed.run.run_job`.
        """
        if layers == "none":
            return None
        distinct = list(dict.fromkeys(split.sentences))
        embeddings = self._find(split, distinct) or self._write(split, distinct, reporter)
        keys: list[Any] = list(embeddings)
        if len(keys) < len(split.sentences):
            key_of = dict(zip(distinct, keys, strict=True))
            keys = [key_of[tokens] for tokens in split.sentences]
        for number in sorted({number for one in split.examples for number in one.sentences}):
            if not np.isfinite(embeddings[keys[number]]).all():  # before a run is overwritten
                what = f"{embeddings.path}: sentence {keys[number]!r}: a value is not finite"
                hint = f"`elmo inspect {embeddings.path}` finds all such values; embed it again"
                raise EmbeddingsFileError(what, hint)
        if self.bilm is None:
            self.bilm = _record(embeddings)
            with suppress(ElmoError):  # the default model may be another biLM, or not load
                self._require(self._default_model)
        return lambda number: embeddings[keys[number]][_SLICES[layers]]

    def compute(self, sentences: Mapping[int, Tokens], layers: str) -> LayerReader | None:
        """Compute the layers of sentences without storing them; arguments as in `find`."""
        if layers == "none":
            return None
        arrays = (array for _, array in self._make_embedder().stream(sentences.values()))
        found = dict(zip(sentences, arrays, strict=True))
        return lambda number: found[number][_SLICES[layers]]

    def _find(self, split: Split, distinct: Sequence[Tokens]) -> Embeddings | None:
        texts = (split.sentences, distinct)
        digests = set(map(sha256_of, texts))
        counts = {(len(text), sum(map(len, text))) for text in texts}
        problem = ""
        paths = [*self.path.glob("*.hdf5"), *self.path.glob("*.h5")]
        for path in sorted(paths, key=lambda path: (-path.lstat().st_mtime_ns, path)):
            embeddings = open_embeddings(path)
            attributes, found = embeddings.attributes, ""
            count = (attributes.get("sentences"), attributes.get("tokens"))
            sha256 = str(attributes.get("tokens_sha256"))
            if sha256 in digests:
                if not (found := self._problem(embeddings)):
                    return embeddings
            elif path.stem == stem(Path(split.path).name) or count in counts:
                found = "another text"
            embeddings.close()
            is_from_user = not path.stem.endswith(f"-{sha256[:8]}")  # `_write` appends it
            if found and is_from_user:
                problem = problem or f"{path}: does not fit {split.path}: {found}"
        if problem:
            hint = "embed the data again, or name another folder (`embeddings`) or `model`"
            raise EmbeddingsFileError(problem, hint)
        return None

    def _problem(self, embeddings: Embeddings) -> str:
        """Return why a file with the right text cannot be used; "" if it can."""
        layers, found = embeddings.attributes.get("layers", "all"), _record(embeddings)
        if embeddings.unit != "tokens" or layers != "all":
            return f"not all layers of each token (unit {embeddings.unit}, layers {layers})"
        return "" if self.bilm in (None, found) else f"its model is {found}, not {self.bilm}"

    def _require(self, model: str) -> ModelFiles:
        """Locate a biLM, and require it for all files; ModelError if another one is required."""
        files, known = locate(model), self.bilm
        options = files.read_options()
        source = str(Path(model).resolve()) if Path(model).exists() else model
        state = known.state if known else "zero"
        found = BiLMRecord(source, files.sha256, state, 1 + options.n_layers, options.dim)
        if known not in (None, found):
            what = f"{model}: not the biLM of the task model or its embeddings ({known})"
            raise ModelError(what, "with `model`, name the one that they were computed with")
        self.bilm = found
        return files

    def _make_embedder(self) -> Embedder:
        if self._embedder is None:
            source = self.bilm.source if self.bilm else self._default_model
            state = self.bilm.state if self.bilm else "zero"
            try:
                files = self._require(source)
            except ModelError as error:  # a file records the name of its biLM, not its path
                hint = f"{error.hint}; with `model`, name the folder of the biLM"
                raise ModelError(error.message, hint) from None
            if state not in _INDEPENDENT:
                what = f"`state={state}`: vectors depend on the preceding sentences"
                raise UsageError(what, "embed all files of the data with `elmo embed` first")
            settings = EmbedderSettings(state=state, dtype="float16", device=self._device)
            self._embedder = Embedder(load_files(files), settings)
        return self._embedder

    def _write(self, split: Split, distinct: Sequence[Tokens], reporter: Reporter) -> Embeddings:
        """Compute layers of sentences, one process at a time, since runs may share the folder."""
        embedder = self._make_embedder()
        self.path.mkdir(parents=True, exist_ok=True)
        wait = f"waiting for another process that is computing embeddings in {self.path}"
        with holding_lock(self.path / LOCK_FILE, on_wait=lambda: reporter.message(wait)):
            found = self._find(split, distinct)
            return found or self._compute(split.path, distinct, embedder, reporter)

    def _compute(
        self, name: str, sentences: Sequence[Tokens], embedder: Embedder, reporter: Reporter
    ) -> Embeddings:
        """Compute the layers of sentences into a new file of the folder."""
        reporter.message(f"computing the embeddings of {name}")
        bilm = embedder.bilm.sha256[:8]
        parts = (stem(Path(name).name), embedder.settings.state, bilm, sha256_of(sentences)[:8])
        output = self.path / f"{'-'.join(parts)}.hdf5"
        text = output.with_suffix(".jsonl")
        write_text(text, (json.dumps({"tokens": tokens}) + "\n" for tokens in sentences))
        settings, flat = embedder.settings, FileSpec(layout="flat")
        settings = replace(settings, batch_size=embedder.batch_size)
        job = EmbedJob((str(text),), str(output), embedder=settings, file=flat, resume=True)

        def warn(message: str) -> None:  # warnings name the temporary file
            message = message.replace(str(text), f"the distinct sentences of {name}")
            reporter.message(f"warning: {message}")

        progress = partial(reporter.progress, f"embedding {name}")
        try:
            run_job(job, embedder=embedder, progress=progress, warn=warn)
        except ResumeError:  # an earlier run left a file that is corrupt or has other settings
            job = replace(job, resume=False, overwrite=True)
            run_job(job, embedder=embedder, progress=progress, warn=warn)
        text.unlink()
        return open_embeddings(output)


def sha256_of(sentences: Iterable[Tokens]) -> str:
    """Return the digest that identifies a text: `tokens_sha256` of SCHEMA.md."""
    return tokens_sha256(b"".join(map(tokens_digest, sentences)))


def _record(embeddings: Embeddings) -> BiLMRecord:
    found = embeddings.attributes
    source, sha256 = (str(found.get(name, "")) for name in ("model", "model_sha256"))
    state = str(found.get("state", "zero"))
    return BiLMRecord(source, sha256, state, embeddings.n_layers or 0, embeddings.dim)
