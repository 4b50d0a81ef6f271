"""EmbeddingsFolder: the biLM layers of the sentences of data files, found by text or computed."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.embed.text_fit import tokens_fit
from elmo_cli.errors import (
    ElmoError,
    EmbeddingsFileError,
    ModelError,
    OutputError,
    ResumeError,
    UsageError,
)
from elmo_cli.file_locks import abandoned_lock, holding_lock
from elmo_cli.files import os_errors_as, write_text
from elmo_cli.pretrained.catalogue import BUNDLED
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.digests import tokens_digest, tokens_sha256
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.tasks.inputs import LayerReader
from elmo_cli.tasks.readers import Split
from elmo_cli.text.input import stem
from elmo_cli.text.input_report import InputReport
from elmo_cli.text.input_signs import SCRIPT_SIGN, warn_of_signs
from elmo_cli.text.sentence import Tokens
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import LOCK_FILE

_OUTPUT_SUFFIX = ".hdf5"
_TEXT_SUFFIX = ".jsonl"  # of the sentences that an output is computed from; removed afterwards
_INDEPENDENT = ("zero", "warm")  # states in which sentences do not depend on each other
# Of the files that `EmbeddingsFolder` writes: name, state, digests of the biLM and of the text.
_OWN_STEM = re.compile(rf".*-({'|'.join(_INDEPENDENT)})-[0-9a-f]{{8}}-[0-9a-f]{{8}}")
_MAX_STEM = 50  # characters, of up to four bytes; a name has at most 255 bytes
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

    An embeddings file matches if its text is all sentences of the data in order, the distinct ones
    in the order of their first occurrence, or those of them that the examples need, which is what
    `find` writes. If several files match, the newest is used.

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
        self.path = Path(path)
        self.bilm = bilm
        if self.path.exists() and not self.path.is_dir():
            hint = "name the folder that contains it, or move it elsewhere"
            raise UsageError("is a file, not a folder of embeddings", hint, where=path)
        self._default_model = default_model
        self._device = device
        self._embedder: Embedder | None = None
        if model is not None:
            self._require(model)

    def find(self, split: Split, layers: str, reporter: Reporter) -> LayerReader | None:
        """Find the layers of the sentences of a data file, or compute them if they are missing.

        Only those of sentences that the examples need are computed.

        Args:
            split: the data file; its examples may be a sample of those that the file contains.
            layers: "all", "last", "type" or "none", for which the result is None.
        Raises:
            EmbeddingsFileError: a file that `find` did not write has this text but another model or
                missing layers, or appears to belong to the data but has another text; or a value in
                the sentences of the examples is not finite.
            ElmoError: computing them fails, as in `elmo_cli.embed.run.run_job`.
        """
        if layers == "none":
            return None
        texts = _DataTexts(split)
        embeddings = self._find(split, texts)
        if embeddings is None:
            embeddings = self._write(split, texts, reporter)
        self._remove_leftovers()
        keys = texts.keys_of_sentences(embeddings)
        _check_finite(embeddings, keys)  # before a run is overwritten
        if self.bilm is None:
            self.bilm = _record(embeddings)
            with suppress(ElmoError):  # the default model may be another biLM, or not load
                self._require(self._default_model)
        return lambda number: embeddings[keys[number]][_SLICES[layers]]

    def compute(self, sentences: Mapping[int, Tokens], layers: str) -> LayerReader | None:
        """Compute the layers of sentences without storing them; arguments as in `find`."""
        if layers == "none":
            return None
        pairs = self._make_embedder().stream(sentences.values())
        arrays = {}
        for number, (_, array) in zip(sentences, pairs, strict=True):
            arrays[number] = array
        return lambda number: arrays[number][_SLICES[layers]]

    def warn_of_fit(self, sentences: Iterable[Tokens], warn: Callable[[str], None]) -> None:
        """Warn if few of the first tokens are known to the biLM, as `elmo embed` does."""
        tokens_fit(sentences, self._make_embedder(), warn)

    def _find(self, split: Split, texts: _DataTexts) -> Embeddings | None:
        """Return the newest file that matches; None if there is none.

        EmbeddingsFileError if there is none, and a file of the user seems to belong to the data.
        """
        first_refusal: EmbeddingsFileError | None = None
        for path in _newest_first(self.path):
            embeddings = open_embeddings(path)
            sha256 = str(embeddings.attributes.get("tokens_sha256"))
            problem = ""
            if sha256 in texts.by_digest:
                problem = self._model_problem(embeddings)
                if not problem:
                    return embeddings
            elif _seems_to_belong(embeddings, split, texts):
                problem = "another text"
            embeddings.close()
            is_from_user = not path.stem.endswith(f"-{sha256[:8]}")  # `_compute` appends it
            if problem and is_from_user and first_refusal is None:
                hint = "embed the data again, or name another folder (`embeddings`) or `model`"
                problem = f"does not fit {split.path}: {problem}"
                first_refusal = EmbeddingsFileError(problem, hint, where=path)
        if first_refusal is not None:
            raise first_refusal
        return None

    def _model_problem(self, embeddings: Embeddings) -> str:
        """Return why a file with the right text cannot be used; "" if it can."""
        layers = embeddings.attributes.get("layers", "all")
        if embeddings.unit != "tokens" or layers != "all":
            return f"not all layers of each token (unit {embeddings.unit}, layers {layers})"
        record = _record(embeddings)
        if self.bilm is not None and self.bilm != record:
            return f"its model is {record}, not {self.bilm}"
        return ""

    def _require(self, model: str) -> ModelFiles:
        """Locate a biLM, and require it for all files; ModelError if another one is required."""
        files = locate(model)
        options = files.read_options()
        known = self.bilm
        record = BiLMRecord(
            source=str(Path(model).resolve()) if Path(model).exists() else model,
            sha256=files.sha256,
            state="zero" if known is None else known.state,
            n_layers=1 + options.n_layers,
            dim=options.dim,
        )
        if known is not None and known != record:
            problem = f"not the biLM of the task model or its embeddings ({known})"
            hint = "with `model`, name the one that they were computed with"
            raise ModelError(problem, hint, where=model)
        self.bilm = record
        return files

    def _make_embedder(self) -> Embedder:
        if self._embedder is None:
            source = self._default_model if self.bilm is None else self.bilm.source
            state = "zero" if self.bilm is None else self.bilm.state
            try:
                files = self._require(source)
            except ModelError as error:  # a file records the name of its biLM, not its path
                hint = f"{error.hint}; with `model`, name the folder of the biLM"
                raise ModelError(error.problem, hint, where=error.where) from None
            if state not in _INDEPENDENT:
                hint = "embed all files of the data with `elmo embed` first"
                where = f"`state={state}`"
                raise UsageError("vectors depend on the preceding sentences", hint, where=where)
            settings = EmbedderSettings(state=state, dtype="float16", device=self._device)
            self._embedder = Embedder(load_files(files), settings)
        return self._embedder

    def _write(self, split: Split, texts: _DataTexts, reporter: Reporter) -> Embeddings:
        """Compute layers of sentences, one process at a time, since runs may share the folder."""
        embedder = self._make_embedder()
        wait = f"waiting for another process that is computing embeddings in {self.path}"
        with ExitStack() as stack:
            hint = "name another folder with `embeddings`"
            with os_errors_as(OutputError, self.path, "embeddings cannot be stored there", hint):
                self.path.mkdir(parents=True, exist_ok=True)
                lock = holding_lock(self.path / LOCK_FILE, on_wait=lambda: reporter.message(wait))
                stack.enter_context(lock)
            embeddings = self._find(split, texts)  # the other process may have written it
            if embeddings is None:
                embeddings = self._compute(split, texts.needed, embedder, reporter)
            return embeddings

    def _remove_leftovers(self) -> None:
        """Remove what a killed run has left next to complete files, unless a run is active."""
        with suppress(OSError), abandoned_lock(self.path / LOCK_FILE) as is_abandoned:
            if not is_abandoned:
                return
            for text in self.path.glob(f"*{_TEXT_SUFFIX}"):
                output = text.with_suffix(_OUTPUT_SUFFIX)
                if _OWN_STEM.fullmatch(text.stem) and output.exists():
                    for path in (text, *self.path.glob(f"{glob.escape(output.name)}.part*")):
                        path.unlink(missing_ok=True)

    def _compute(
        self, split: Split, sentences: Sequence[Tokens], embedder: Embedder, reporter: Reporter
    ) -> Embeddings:
        """Compute the layers of sentences of a split into a new file of the folder."""
        name = split.path
        reporter.message(f"computing the embeddings of {name}")
        state = embedder.settings.state
        bilm_id = embedder.bilm.sha256[:8]
        text_id = sha256_of(sentences)[:8]
        own_stem = f"{stem(Path(name).name)[:_MAX_STEM]}-{state}-{bilm_id}-{text_id}"
        output = self.path / f"{own_stem}{_OUTPUT_SUFFIX}"
        text = output.with_suffix(_TEXT_SUFFIX)
        write_text(text, (json.dumps({"tokens": tokens}) + "\n" for tokens in sentences))
        job = EmbedJob(
            inputs=(str(text),),
            output=str(output),
            checks_text=False,  # the reader of the data has reported them, with their lines
            embedder=replace(embedder.settings, batch_size=embedder.batch_size),
            file=FileSpec(layout="flat"),
            resume=True,
        )
        progress = partial(reporter.progress, f"embedding {name}")

        def warn(message: str) -> None:
            reporter.message(f"warning: {message}")

        if not embedder.bilm.options.is_unicode:  # which the reader of the data does not know
            report = InputReport()
            warn_of_signs(split.sample, report, [SCRIPT_SIGN])
            for warning in report.warnings:
                warn(warning)
        try:
            run_job(job, embedder=embedder, progress=progress, warn=warn)
        except ResumeError:  # an earlier run left a file that is corrupt or has other settings
            job = replace(job, resume=False, overwrite=True)
            run_job(job, embedder=embedder, progress=progress, warn=warn)
        text.unlink(missing_ok=True)
        return open_embeddings(output)


class _DataTexts:
    """The texts whose embeddings have the layers of all sentences that the examples need.

    Attributes:
        needed: the distinct sentences of the examples, in the order of their first occurrence.
        by_digest: the sentences of each text, by the digest that identifies it.
    """

    def __init__(self, split: Split) -> None:
        self._needed_by_index = split.sentences_of_examples()
        self._all = split.sentences
        self.needed = list(dict.fromkeys(self._needed_by_index.values()))
        distinct = list(dict.fromkeys(self._all))
        self.by_digest: dict[str, Sequence[Tokens]] = {}
        for text in (self.needed, distinct, self._all):
            self.by_digest[sha256_of(text)] = text

    def has_size(self, n_sentences: object, n_tokens: object) -> bool:
        """Whether a text has these numbers of sentences and tokens."""
        for text in self.by_digest.values():
            if len(text) == n_sentences and sum(map(len, text)) == n_tokens:
                return True
        return False

    def keys_of_sentences(self, embeddings: Embeddings) -> dict[int, Any]:
        """Return the key of each sentence of the examples, by its index in the split."""
        keys = list(embeddings)
        text = self.by_digest[str(embeddings.attributes["tokens_sha256"])]
        if text is self._all:  # equal sentences may have different vectors, by their state
            return {number: keys[number] for number in self._needed_by_index}
        key_of = dict(zip(text, keys, strict=True))
        return {number: key_of[tokens] for number, tokens in self._needed_by_index.items()}


def sha256_of(sentences: Iterable[Tokens]) -> str:
    """Return the digest that identifies a text: `tokens_sha256` of SCHEMA.md."""
    return tokens_sha256(b"".join(map(tokens_digest, sentences)))


def _newest_first(folder: Path) -> list[Path]:
    """Return the HDF5 files of a folder."""
    paths = [*folder.glob("*.hdf5"), *folder.glob("*.h5")]
    return sorted(paths, key=lambda path: (-path.lstat().st_mtime_ns, path))


def _seems_to_belong(embeddings: Embeddings, split: Split, texts: _DataTexts) -> bool:
    """Whether a file with another text has the name of the data, or as many tokens."""
    if embeddings.path.stem == stem(Path(split.path).name):
        return True
    n_sentences = embeddings.attributes.get("sentences")
    n_tokens = embeddings.attributes.get("tokens")
    return texts.has_size(n_sentences, n_tokens)


def _check_finite(embeddings: Embeddings, keys: Mapping[int, Any]) -> None:
    """Raise an EmbeddingsFileError if a value in the sentences with these keys is not finite."""
    for key in keys.values():
        if not np.isfinite(embeddings[key]).all():
            problem = f"sentence {key!r}: a value is not finite"
            hint = f"`elmo inspect {embeddings.path}` finds all such values; embed it again"
            raise EmbeddingsFileError(problem, hint, where=embeddings.path)


def _record(embeddings: Embeddings) -> BiLMRecord:
    attributes = embeddings.attributes
    return BiLMRecord(
        source=str(attributes.get("model", "")),
        sha256=str(attributes.get("model_sha256", "")),
        state=str(attributes.get("state", "zero")),
        n_layers=embeddings.n_layers or 0,
        dim=embeddings.dim,
    )
