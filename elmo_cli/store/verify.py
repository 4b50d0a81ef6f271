"""verify: what is wrong with an embeddings or a weight file, by reading all of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import h5py
import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.hdf5 import is_from_hdf5
from elmo_cli.store.damage import check_bytes, damage_as_error
from elmo_cli.store.datasets import Array, NumberedSentences
from elmo_cli.store.describe import describe, is_part
from elmo_cli.store.flat_sentences import FlatSentences
from elmo_cli.store.lookup import key_of
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.recognise import kind_of_weights, open_hdf5
from elmo_cli.store.verify_flat import flat_problems, not_finite
from elmo_cli.text.sentence import Sentence

MOST = 50


class _Problems:
    """Problems in the order they were found; beyond `MOST` they are only counted."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._more = 0

    def add(self, problem: str) -> None:
        if len(self._found) < MOST:
            self._found.append(problem)
        else:
            self._more += 1

    def add_all(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self.add(problem)

    def listed(self) -> list[str]:
        return [*self._found, f"and {self._more} more"] if self._more else self._found


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Read a whole file and tell what is wrong with it.

    Checks that there is an end mark, that the counts in the attributes are those of the file, that
    numbers have no gaps, that shapes and types agree, that values are finite; in `flat` also that
    offsets, ends and positions go up and meet their data; of a weight file that values are finite.

    Returns:
        a line for each problem, none for a sound file; at most `MOST` and a line that counts the
        others.
    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    place = Path(path)
    problems = _Problems()
    if is_part(place):
        facts = describe(place)
        problems.add(f"unfinished: {facts['sentences']} sentences are committed")
        return problems.listed()
    with damage_as_error(place), open_hdf5(place) as file:
        if kind_of_weights(file):
            problems.add_all(_weight_problems(file))
            return problems.listed()
    with Embeddings(place) as embeddings:
        try:
            with damage_as_error(place, keys_of_file=True):
                problems.add_all(_problems(embeddings))
        except EmbeddingsFileError as error:
            problems.add(error.message)
    return problems.listed()


def against(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> list[str]:
    """Compare a file with the numbers of tokens of a text.

    Args:
        path: an embeddings file that was not pooled.
        sentences: of the text, read as they were for the file.
    Returns:
        a line for each difference, as `verify`.
    Raises:
        UsageError: the file doesn't keep numbers of tokens.
    """
    problems = _Problems()
    with damage_as_error(path), Embeddings(path) as embeddings:
        _check_comparable(embeddings)
        n_sentences = 0
        once = _Once(embeddings)
        for sentence in sentences:
            n_sentences += once.counts(sentence)
            problems.add_all(_difference(embeddings, sentence))
        if n_sentences != len(embeddings):
            problems.add(f"the file has {len(embeddings)} sentences, the text {n_sentences}")
    return problems.listed()


class _Once:
    """Counts sentences as a file does: ELMoForManyLangs holds equal ones once."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._seen: set[int] | None = set() if embeddings.layout == "manylangs" else None

    def counts(self, sentence: Sentence) -> bool:
        """Whether the sentence is another one than those before."""
        if self._seen is None:
            return True
        n_before = len(self._seen)
        self._seen.add(hash(sentence.tokens))  # the tokens of a big corpus would not fit
        return len(self._seen) > n_before


def _check_comparable(embeddings: Embeddings) -> None:
    if embeddings.is_pooled or embeddings.layout == "bilm-types":
        what = "one vector a type" if embeddings.layout == "bilm-types" else "pooled"
        raise UsageError(
            f"{embeddings.path}: {what}, so it has no number of tokens",
            "`--against` compares files with a vector a token",
        )


def _difference(embeddings: Embeddings, sentence: Sentence) -> Iterator[str]:
    n_tokens = len(sentence.tokens)
    try:
        shape = embeddings.shape(key_of(embeddings, sentence))
    except KeyError:
        yield f"sentence {sentence.key}: not in the file, {n_tokens} tokens in the text"
        return
    if len(shape) < 2 or shape[-2] != n_tokens:
        held = shape[-2] if len(shape) >= 2 else "no"
        yield f"sentence {sentence.key}: {held} tokens in the file, {n_tokens} in the text"


def _weight_problems(file: h5py.File) -> Iterator[str]:
    names: list[str] = []
    file.visit(names.append)
    for name in names:
        dataset = file[name]
        if isinstance(dataset, h5py.Dataset) and dataset.dtype.kind == "f":
            check_bytes(file, name, dataset.nbytes)
            try:
                wrong = int(dataset.size - np.isfinite(dataset[()]).sum())
            except MemoryError:
                raise
            except Exception as error:
                if not is_from_hdf5(error):
                    raise
                yield f"{name}: can't be read: {error}"
                continue
            if wrong:
                yield f"{name}: {wrong} of {dataset.size} values are not finite"


def _problems(embeddings: Embeddings) -> Iterator[str]:
    sentences = embeddings.sentences
    n_tokens: int | None
    if isinstance(sentences, FlatSentences):
        n_tokens = yield from flat_problems(sentences, embeddings.is_pooled)
        n_sentences = len(sentences)
    else:
        n_sentences, n_tokens = yield from _array_problems(embeddings)
    if isinstance(sentences, NumberedSentences):
        yield from (f"{name[:60]!r} is no number of a sentence" for name in sentences.others)
        yield from _map_problems(sentences)
    attributes = embeddings.attributes
    if attributes.get("sentences", n_sentences) != n_sentences:
        yield f"it has {n_sentences} sentences, its attribute says {attributes['sentences']}"
    if n_tokens is not None and attributes.get("tokens", n_tokens) != n_tokens:
        yield f"it has {n_tokens} tokens, its attribute says {attributes['tokens']}"
    if "sentences" not in attributes and isinstance(sentences, NumberedSentences):
        yield from _gaps(sentences)  # where an attribute agrees, sentences were left out on purpose
    stored = attributes.get("dtype")
    found = embeddings.stored_dtype
    if stored is not None and found is not None and found != stored:
        yield f"its values are {found}, its attribute says {stored}"


def _array_problems(embeddings: Embeddings) -> Generator[str, None, tuple[int, int | None]]:
    """Yield problems of the arrays; return the sentences and, where arrays tell, the tokens."""
    sentences = embeddings.sentences
    n_sentences = n_tokens = 0
    form: tuple[int, ...] | None = None
    has_tokens = not embeddings.is_pooled and embeddings.layout != "bilm-types"
    for key in sentences.keys():  # noqa: SIM118 - not a mapping
        n_sentences += 1
        try:
            array = sentences.array(key)
        except EmbeddingsFileError as error:
            yield error.message
            continue
        n_tokens += array.shape[-2] if has_tokens and array.ndim >= 2 else 0
        fixed = _without_tokens(array, has_tokens)
        form = form or fixed
        if fixed != form:
            yield f"sentence {key!r}: shape {array.shape}, others have {_axes(form)}"
        yield from not_finite(f"sentence {key!r}", array)
    return n_sentences, n_tokens if has_tokens else None


def _without_tokens(array: Array, has_tokens: bool) -> tuple[int, ...]:
    """The sizes that all arrays of a file share."""
    shape = array.shape
    return (*shape[:-2], shape[-1]) if has_tokens and len(shape) >= 2 else shape


def _axes(form: tuple[int, ...]) -> str:
    return f"layer {form[0]}, dim {form[1]}" if len(form) == 2 else f"dim {form[-1]}"


def _gaps(sentences: NumberedSentences) -> Iterator[str]:
    expected = 0
    for number in sentences.keys():  # noqa: SIM118 - not a mapping
        if number > expected:
            yield f"no sentences {expected} to {number - 1}: keys have a gap"
        expected = number + 1


def _map_problems(sentences: NumberedSentences) -> Iterator[str]:
    for line, name in (sentences.sentence_map or {}).items():
        try:
            sentences.path(int(name))
        except KeyError:
            yield f"sentence_to_index: {line[:60]!r} is sentence {name}, which is not there"
