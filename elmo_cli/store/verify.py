"""verify: what is wrong with an embeddings or a weight file, by reading all of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.datasets import Array, NumberedSentences
from elmo_cli.store.describe import describe, is_part
from elmo_cli.store.findings import Findings
from elmo_cli.store.flat_sentences import FlatSentences
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.recognise import open_hdf5
from elmo_cli.store.verify_flat import flat_problems, not_finite
from elmo_cli.weightfile.describe import kind_of_weights, weight_problems


def verify(path: str | os.PathLike[str]) -> Findings:
    """Read a whole file and tell what is wrong with it.

    Checks that there is an end mark, that the counts in the attributes are those of the file, that
    numbers have no gaps, that shapes and types agree, that values are finite; in `flat` also that
    offsets, ends and positions go up and meet their data; of a weight file that values are finite.

    Returns:
        the problems, none for a sound file.
    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    place = Path(path)
    found = Findings()
    if is_part(place):
        facts = describe(place)
        found.add(f"unfinished: {facts['sentences']} sentences are committed")
        return found
    with damage_as_error(place), open_hdf5(place) as file:
        if kind_of_weights(file):
            found.add_all(weight_problems(file))
            return found
    with Embeddings(place) as embeddings:
        try:
            with damage_as_error(place, keys_of_file=True):
                found.add_all(_counting(embeddings, found))
        except EmbeddingsFileError as error:
            found.add(error.message)
    return found


def _counting(embeddings: Embeddings, found: Findings) -> Iterator[str]:
    found.tokens = yield from _problems(embeddings)


def _problems(embeddings: Embeddings) -> Generator[str, None, int | None]:
    """Yield what is wrong; return the tokens where all arrays could be read and have such an axis.

    Rows of `bilm-types` are a token each.
    """
    sentences = embeddings.sentences
    n_tokens: int | None
    if isinstance(sentences, FlatSentences):
        n_tokens = yield from flat_problems(sentences, embeddings.is_pooled)
        n_sentences = len(sentences)
        is_counted = True
    else:
        n_sentences, n_tokens, is_counted = yield from _array_problems(embeddings)
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
    if embeddings.layout == "bilm-types":
        n_tokens = n_sentences
    return n_tokens if is_counted else None


def _array_problems(embeddings: Embeddings) -> Generator[str, None, tuple[int, int | None, bool]]:
    """Yield problems of the arrays; return sentences, tokens, and whether all arrays told them."""
    sentences = embeddings.sentences
    n_sentences = n_tokens = 0
    form: tuple[int, ...] | None = None
    has_tokens = not embeddings.is_pooled and embeddings.layout != "bilm-types"
    is_counted = True
    for key in sentences.keys():  # noqa: SIM118 - not a mapping
        n_sentences += 1
        try:
            array = sentences.array(key)
        except EmbeddingsFileError as error:
            yield error.message
            is_counted = False
            continue
        is_counted = is_counted and (array.ndim >= 2 or not has_tokens)
        n_tokens += array.shape[-2] if has_tokens and array.ndim >= 2 else 0
        fixed = _without_tokens(array, has_tokens)
        form = form or fixed
        if fixed != form:
            yield f"sentence {key!r}: shape {array.shape}, others have {_axes(form)}"
        yield from not_finite(f"sentence {key!r}", array)
    return n_sentences, n_tokens if has_tokens else None, is_counted


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
