"""Geometry: how the vectors of each layer of embeddings files lie, measured on drawn tokens.

Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", 3.2-3.4; CKA
from Kornblith et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elmo_cli.analysis.cka import CenteredProducts
from elmo_cli.analysis.explained_variance import ExplainedVariance, explained_variance
from elmo_cli.analysis.geometry_sample import (
    DrawnWord,
    FileTokens,
    GeometrySample,
    GeometrySettings,
    draw_sample,
    read_tokens,
)
from elmo_cli.analysis.mean_cosines import mean_cosine_with_mean, mean_pairwise_cosine
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float32Array, Int64Array
from elmo_cli.files import StrPath
from elmo_cli.isolate import start_up_not_counted
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings, open_embeddings

_GROUP_BYTES = 64 << 20  # of vectors of words, in all layers, that are in memory at once
_CKA_CHUNK = 1024  # tokens


@dataclass(frozen=True)
class Measure:
    """A mean over words or sentences, and what it is for random tokens.

    Attributes:
        raw: None if there was nothing to measure.
        baseline: the anisotropy, or the explained variance of the random tokens.
    """

    raw: float | None
    baseline: float | None

    @property
    def adjusted(self) -> float | None:
        """`raw` minus `baseline`; None if one of them is unknown."""
        if self.raw is None or self.baseline is None:
            return None
        return self.raw - self.baseline


@dataclass(frozen=True)
class LayerGeometry:
    """The measures of one layer.

    Attributes:
        layer: its number or name.
        norm: mean length of the vectors of the random tokens.
        anisotropy: mean cosine of all pairs of random tokens.
        self_similarity: mean over words of the mean cosine of all pairs of occurrences.
        sentence_similarity: mean over sentences of the mean cosine of a token with the mean vector.
        mev_uncentered, mev_pca, mev_truncated_svd: mean over words of the maximum explained
            variance of their occurrences, in the three definitions of `ExplainedVariance`.
    """

    layer: int | str
    norm: float
    anisotropy: float | None
    self_similarity: Measure
    sentence_similarity: Measure
    mev_uncentered: Measure
    mev_pca: Measure
    mev_truncated_svd: Measure


@dataclass(frozen=True)
class WordGeometry:
    """The measures of one word in one layer; None where it has none."""

    word: DrawnWord
    layer: int | str
    self_similarity: float | None
    explained_variance: ExplainedVariance


@dataclass(frozen=True)
class FileGeometry:
    """The measures of one file.

    Attributes:
        path: of the file.
        model, state: with which its vectors were computed; None if it does not record them.
        dim: of its vectors.
        n_tokens, n_sentences: of its sentences that differ; the sample is drawn from them.
        n_without_tokens, n_repeated: sentences left out, as in `FileTokens`.
        words: of each drawn word in each layer, layer by layer.
    """

    path: str
    model: str | None
    state: str | None
    dim: int
    n_tokens: int
    n_sentences: int
    n_without_tokens: int
    n_repeated: int
    sample: GeometrySample
    layers: Sequence[LayerGeometry]
    words: Sequence[WordGeometry]


class LayerOfFile(NamedTuple):
    """A layer, and the number of its file among `Geometry.files`, from 0."""

    file_number: int
    layer: int | str


@dataclass(frozen=True)
class CkaMatrix:
    """Linear CKA between all layers of one file, or of several files with equal tokens.

    Attributes:
        layers: of each row and column.
        n_tokens: tokens measured.
        values: None for a layer without variance.
    """

    layers: Sequence[LayerOfFile]
    n_tokens: int
    values: Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Geometry:
    """The measures of some files. Each file is in one matrix of `cka`."""

    settings: GeometrySettings
    files: Sequence[FileGeometry]
    cka: Sequence[CkaMatrix]


@dataclass(frozen=True)
class _SampledFile:
    """An open file, with its number, a view of each layer, and what was drawn from it."""

    number: int
    views: Sequence[LayerView]
    tokens: FileTokens
    sample: GeometrySample


def measure_geometry(
    paths: Sequence[StrPath], settings: GeometrySettings | None = None
) -> Geometry:
    """Measure the geometry of the layers of embeddings files on a sample of their tokens.

    Only sentences with drawn tokens are read, in file order. Memory holds the vectors of the random
    tokens, those of words in groups of at most 64 MiB, and 4 bytes for each token. The vectors of a
    single word are read together, also if they take more.

    Args:
        paths: files with vectors of tokens that store their tokens.
        settings: how many tokens are drawn; None for the defaults.
    Raises:
        UsageError: a file has vectors of sentences or types, or no tokens.
        EmbeddingsFileError: a file can't be read, or a vector is not finite.
    """
    settings = GeometrySettings() if settings is None else settings
    with ExitStack() as stack:
        sampled_files = []
        for number, path in enumerate(paths):
            embeddings = stack.enter_context(open_embeddings(path))
            sampled_files.append(_draw_from(number, embeddings, settings))
        _start_blas()
        return Geometry(
            settings=settings,
            files=[_measure_file(file) for file in sampled_files],
            cka=[_measure_cka(group) for group in _with_equal_tokens(sampled_files)],
        )


def _start_blas() -> None:
    """Let BLAS start its threads, whose memory is not that of the reader of an untrusted file."""
    with start_up_not_counted():
        square = np.ones((512, 512))
        np.linalg.eigvalsh(square @ square)


def _draw_from(number: int, embeddings: Embeddings, settings: GeometrySettings) -> _SampledFile:
    views = [LayerView(embeddings, layer) for layer in embeddings.layers]
    tokens = read_tokens(views[0])
    return _SampledFile(
        number=number,
        views=views,
        tokens=tokens,
        sample=draw_sample(tokens, settings),
    )


def _measure_file(file: _SampledFile) -> FileGeometry:
    layers = []
    words: list[WordGeometry] = []
    for view, words_of_layer in zip(file.views, _measure_words(file), strict=True):
        layers.append(_measure_layer(view, file, words_of_layer))
        words += words_of_layer
    embeddings = file.views[0].embeddings
    return FileGeometry(
        path=str(embeddings.path),
        model=embeddings.attributes.get("model"),
        state=embeddings.attributes.get("state"),
        dim=embeddings.dim,
        n_tokens=len(file.tokens.ids),
        n_sentences=len(file.tokens.sentences),
        n_without_tokens=file.tokens.n_without_tokens,
        n_repeated=file.tokens.n_repeated,
        sample=file.sample,
        layers=layers,
        words=words,
    )


def _measure_layer(
    view: LayerView, file: _SampledFile, words: Sequence[WordGeometry]
) -> LayerGeometry:
    """Measure the random tokens and their sentences, and average the measures of words."""
    (random_tokens,) = _read_layers([view], file.tokens.keys, file.sample.random_tokens)
    anisotropy = mean_pairwise_cosine(random_tokens)
    of_random = explained_variance(random_tokens)
    of_words = [word.explained_variance for word in words]
    of_sentences = []
    for sentence in file.sample.sentences.tolist():
        of_sentences.append(mean_cosine_with_mean(view.vectors(file.tokens.keys[sentence])))
    norms = np.linalg.norm(random_tokens.astype(np.float64), axis=1)
    return LayerGeometry(
        layer=view.layer,
        norm=float(norms.mean()),
        anisotropy=anisotropy,
        self_similarity=Measure(_mean(word.self_similarity for word in words), anisotropy),
        sentence_similarity=Measure(_mean(of_sentences), anisotropy),
        mev_uncentered=Measure(_mean(mev.uncentered for mev in of_words), of_random.uncentered),
        mev_pca=Measure(_mean(mev.pca for mev in of_words), of_random.pca),
        mev_truncated_svd=Measure(
            _mean(mev.truncated_svd for mev in of_words), of_random.truncated_svd
        ),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _measure_words(file: _SampledFile) -> list[list[WordGeometry]]:
    """Measure the drawn words in each layer, as many at once as fit into memory."""
    by_layer: list[list[WordGeometry]] = [[] for _ in file.views]
    dim = file.views[0].embeddings.dim
    max_rows = _GROUP_BYTES // (4 * max(1, dim) * len(file.views))
    for group in _groups(file.sample.words, max_rows):
        positions = np.concatenate([word.positions for word in group])
        layers = _read_layers(file.views, file.tokens.keys, positions)
        for view, vectors, measured in zip(file.views, layers, by_layer, strict=True):
            begin = 0
            for word in group:
                occurrences = vectors[begin : begin + len(word.positions)]
                begin += len(word.positions)
                of_word = WordGeometry(
                    word=word,
                    layer=view.layer,
                    self_similarity=mean_pairwise_cosine(occurrences),
                    explained_variance=explained_variance(occurrences),
                )
                measured.append(of_word)
    return by_layer


def _groups(words: Sequence[DrawnWord], max_rows: int) -> Iterator[list[DrawnWord]]:
    """Yield groups of consecutive words that have at most `max_rows` occurrences together.

    A word with more occurrences is a group of its own.
    """
    group: list[DrawnWord] = []
    n_rows = 0
    for word in words:
        if group and n_rows + len(word.positions) > max_rows:
            yield group
            group = []
            n_rows = 0
        group.append(word)
        n_rows += len(word.positions)
    if group:
        yield group


def _read_layers(
    views: Sequence[LayerView], keys: Sequence[Key], positions: Int64Array
) -> list[Float32Array]:
    """Return the vectors of tokens in each layer, (token, dim).

    Sentences are in file order, and all layers of one are read before the next, because in some
    layouts it takes longer to find a sentence than to read it.

    Args:
        views: of the layers of one file.
        keys: of all sentences of the file.
        positions: (token, 2), as in `GeometrySample`, in any order.
    Raises:
        EmbeddingsFileError: as `LayerView.vectors`.
    """
    layers = []
    for view in views:
        layers.append(np.empty((len(positions), view.embeddings.dim), np.float32))
    order = np.argsort(positions[:, 0], kind="stable")
    sentences, begins = np.unique(positions[order, 0], return_index=True)
    rows_of_sentences = np.split(order, begins[1:])
    for sentence, rows in zip(sentences.tolist(), rows_of_sentences, strict=True):
        for view, vectors in zip(views, layers, strict=True):
            vectors[rows] = view.vectors(keys[sentence], positions[rows, 1])
    return layers


def _with_equal_tokens(files: Sequence[_SampledFile]) -> list[list[_SampledFile]]:
    """Group files with equal tokens, from which the same tokens were drawn."""
    groups: list[list[_SampledFile]] = []
    for file in files:
        for group in groups:
            if group[0].tokens.has_same_sentences(file.tokens):
                group.append(file)
                break
        else:
            groups.append([file])
    return groups


def _measure_cka(files: Sequence[_SampledFile]) -> CkaMatrix:
    """Measure the CKA of all layers of files with equal tokens."""
    layers = []
    dims = []
    for file in files:
        for view in file.views:
            layers.append(LayerOfFile(file.number, view.layer))
            dims.append(view.embeddings.dim)
    products = CenteredProducts(dims)
    n_tokens = len(files[0].sample.cka_tokens)
    for begin in range(0, n_tokens, _CKA_CHUNK):
        chunk = []
        for file in files:
            positions = file.sample.cka_tokens[begin : begin + _CKA_CHUNK]
            chunk += _read_layers(file.views, file.tokens.keys, positions)
        products.add(chunk)
    return CkaMatrix(layers=layers, n_tokens=n_tokens, values=products.cka())
