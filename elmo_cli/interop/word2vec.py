"""Vectors of types in the formats of word2vec: one per distinct token, from all its occurrences."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from elmo_cli.arrays import AnyArray, Float32Array, Float64Array
from elmo_cli.embed.number_text import words_of
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import StrPath, check_distinct, check_output_path, new_file, resolve
from elmo_cli.messages import CORRUPT_HINT, plural
from elmo_cli.store.file_formats import WORD2VEC_BINARY, WORD2VEC_FORMATS, format_of_output
from elmo_cli.store.layers import find_layer
from elmo_cli.store.reader import Embeddings

AGGREGATES = ("mean", "first-component")
_SPACE = re.compile(r"\s")  # between word and values, and lines
_MAX_ITERATIONS = 300
_TOLERANCE = 1e-12  # of 1 - cosine between two iterations
_CHUNK_ROWS = 4096  # in float64


@dataclass(frozen=True)
class _CountedTypes:
    """The types of a file whose vectors are written, in the order of the new file.

    Attributes:
        words, counts: the types, and their numbers of occurrences, which fall.
        n_left_out: types that have whitespace, are empty or that UTF-8 cannot hold.
        n_unread: sentences whose tokens are not recorded.
    """

    words: list[str]
    counts: list[int]
    n_left_out: int
    n_unread: int


def write_types(
    path: StrPath,
    out: StrPath,
    *,
    layer: int | None = None,
    min_count: int = 1,
    aggregate: str = "mean",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write one vector per type, by falling count, as word2vec text (.vec) or binary (.bin).

    Types with equal counts are in the order of their characters. Memory grows with the number of
    types; "first-component" also takes space on the disk of `out` for all vectors of the layer.

    Args:
        layer: its number in the file; None for the highest one.
        min_count: types with fewer occurrences are left out.
        aggregate: "mean", or "first-component": the unit vector u that maximizes the sum of the
            squared products u · x over the occurrences x, which are not centered; its sign is that
            for which the sum of the products is not negative.
    Returns:
        output, layer, types, dim, left_out, bytes, warnings.
    Raises:
        UsageError: the file does not have vectors of tokens, tokens, the layer or such types.
        EmbeddingsFileError: it can't be read, or a value is not finite.
        OutputError: `out` can't be written.
    """
    if aggregate not in AGGREGATES:
        choices = f"one of {', '.join(AGGREGATES)}"
        raise UsageError(f"`aggregate={aggregate}`: no such aggregate", choices)
    file_format = format_of_output(out, WORD2VEC_FORMATS)
    check_distinct(os.fspath(out), [os.fspath(path)])
    check_output_path(out, overwrite=overwrite, regular=True)
    with Embeddings(path) as source:
        if source.unit != "tokens":
            problem = f"has vectors of {source.unit}, not of tokens"
            raise UsageError(problem, "embed the text without pooling", where=path)
        found_layer = find_layer(source, layer)
        index = source.layers.index(found_layer)
        types = _count_types(source, min_count)
        if aggregate == "mean":
            vectors = _means(source, index, types)
        else:
            vectors = _first_components(source, index, types, resolve(out).parent)
        dim = source.dim
    with new_file(out, overwrite=overwrite) as file:
        file.write(f"{len(types.words)} {dim}\n".encode())
        is_binary = file_format is WORD2VEC_BINARY
        _write_lines(file, types.words, vectors, is_binary=is_binary)
    return {
        "output": os.fspath(out),
        "layer": found_layer,
        "types": len(types.words),
        "dim": dim,
        "left_out": types.n_left_out,
        "bytes": Path(out).stat().st_size,
        "warnings": _warnings(path, types),
    }


def _warnings(path: StrPath, types: _CountedTypes) -> list[str]:
    warnings = []
    if types.n_left_out:
        n_left_out = plural(types.n_left_out, "type")
        reason = "that cannot be written, such as those with spaces, which end a word"
        warnings.append(f"{os.fspath(path)}: left out {n_left_out} {reason}")
    if types.n_unread:
        n_unread = plural(types.n_unread, "sentence")
        warnings.append(f"{os.fspath(path)}: left out {n_unread} whose tokens are not recorded")
    return warnings


def _count_types(source: Embeddings, min_count: int) -> _CountedTypes:
    """Count the tokens of a file; a UsageError if no type is left."""
    counts: Counter[str] = Counter()
    n_unread = 0
    for info in source.infos():
        if info.tokens is None:
            n_unread += 1
        else:
            counts.update(info.tokens)
    if n_unread and not counts:
        problem = "does not record the tokens of its sentences"
        hint = "embed the text with `layout=flat`, which records all tokens"
        raise UsageError(problem, hint, where=source.path)
    if not counts:
        problem = "has no tokens"
        raise UsageError(problem, "embed a text that is not empty", where=source.path)
    n_left_out = 0
    kept = []
    for word, count in counts.items():
        if count < min_count:
            continue
        if _can_be_written(word):
            kept.append(word)
        else:
            n_left_out += 1
    if not kept and n_left_out:
        problem = f"{plural(n_left_out, 'type')}, none of which is a word without spaces"
        raise UsageError(problem, "a .parquet file holds tokens with spaces", where=source.path)
    if not kept:
        problem = f"no type occurs at least {plural(min_count, 'time')}"
        raise UsageError(problem, "give a smaller `min_count`", where=source.path)
    kept.sort(key=lambda word: (-counts[word], word))
    return _CountedTypes(
        words=kept,
        counts=[counts[word] for word in kept],
        n_left_out=n_left_out,
        n_unread=n_unread,
    )


def _can_be_written(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return bool(word) and _SPACE.search(word) is None


def _occurrences(
    source: Embeddings, index: int, types: _CountedTypes
) -> Iterator[tuple[AnyArray, Float32Array]]:
    """Per sentence, the numbers of its tokens among the types, (token,), and their vectors."""
    numbers = {word: number for number, word in enumerate(types.words)}
    for position, (info, array) in enumerate(source.infos_and_layer(index)):
        if not info.tokens:
            continue
        if array.shape != (len(info.tokens), source.dim):
            problem = f"sentence {position} has shape {array.shape}"
            raise EmbeddingsFileError(problem, CORRUPT_HINT, where=source.path)
        found = np.array([numbers.get(token, -1) for token in info.tokens])
        is_kept = found >= 0
        with np.errstate(over="ignore"):
            vectors = array[is_kept].astype(np.float32)
        if not np.isfinite(vectors).all():
            problem = f"sentence {position} has a value that is not finite"
            hint = f"`elmo inspect {source.path}` finds all such values; embed the text again"
            raise EmbeddingsFileError(problem, hint, where=source.path)
        yield found[is_kept], vectors


def _means(source: Embeddings, index: int, types: _CountedTypes) -> Float32Array:
    """The mean of the vectors of each type, (type, dim)."""
    sums: Float64Array = np.zeros((len(types.words), source.dim))
    for numbers, vectors in _occurrences(source, index, types):
        np.add.at(sums, numbers, vectors)
    sums /= np.array(types.counts)[:, np.newaxis]
    return sums.astype(np.float32)


def _first_components(
    source: Embeddings, index: int, types: _CountedTypes, folder: Path
) -> Float32Array:
    """The first component of the vectors of each type, (type, dim).

    The vectors are sorted by type in a temporary file in `folder`.
    """
    ends = np.cumsum(types.counts)
    begins = ends - types.counts
    components = np.empty((len(types.words), source.dim), np.float32)
    with TemporaryFile(dir=folder) as file:
        by_type = np.memmap(file, np.float32, "w+", shape=(int(ends[-1]), source.dim))
        next_rows = begins.tolist()
        for numbers, vectors in _occurrences(source, index, types):
            for number, vector in zip(numbers.tolist(), vectors, strict=True):
                by_type[next_rows[number]] = vector
                next_rows[number] += 1
        for number in range(len(types.words)):
            occurrences = by_type[begins[number] : ends[number]]
            components[number] = first_component(occurrences)
    return components


def first_component(vectors: Float32Array) -> Float64Array:
    """The first singular direction of vectors that are not centered, of length 1.

    It is found by power iteration from their mean, so that its product with the mean is positive.

    Args:
        vectors: (vector, dim), at least one.
    Returns:
        (dim,); zeros if all vectors are zero.
    """
    chunks = range(0, len(vectors), _CHUNK_ROWS)
    component: Float64Array = vectors.mean(axis=0, dtype=np.float64)
    if not component.any():
        component = vectors[0].astype(np.float64)
    norm = float(np.linalg.norm(component))
    for _ in range(_MAX_ITERATIONS):
        if norm == 0:
            return component
        component /= norm
        product = np.zeros_like(component)
        for begin in chunks:
            chunk = vectors[begin : begin + _CHUNK_ROWS].astype(np.float64)
            product += chunk.T @ (chunk @ component)
        norm = float(np.linalg.norm(product))
        is_found = norm - product @ component <= _TOLERANCE * norm
        component = product
        if is_found:
            break
    if norm:
        component /= norm
    return component


def _write_lines(
    file: BinaryIO, words: Sequence[str], vectors: Float32Array, *, is_binary: bool
) -> None:
    """Write a line per word, with its values as text or as little-endian float32."""
    for word, vector in zip(words, vectors, strict=True):
        values = vector.astype("<f4").tobytes() if is_binary else words_of(vector)
        file.write(b"%s %s\n" % (word.encode(), values))
