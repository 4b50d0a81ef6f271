"""verify: read all of a file and report what is wrong with it; compare it with its text."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.store.describe import kind_of_file
from elmo_cli.store.layouts import (
    Handle,
    SentenceReader,
    checksum,
    tokens_digest,
    tokens_sha256,
)
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence
from elmo_cli.weightfile.describe import weight_problems

MAX_LISTED = 50


@dataclass
class Problems:
    """What a check found; it still counts when the list is full.

    Attributes:
        listed: the first `MAX_LISTED`, in the order in which they were found.
        count: all of them.
        tokens: of the file, if the check counted them.
    """

    listed: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int | None = None

    def add_all(self, problems: Iterable[str]) -> None:
        """Count problems, list them as long as there is room, and an error that ends them too."""
        try:
            for problem in problems:
                self.count += 1
                if len(self.listed) < MAX_LISTED:
                    self.listed.append(problem)
        except EmbeddingsFileError as error:
            self.add_all([error.message])


def verify(path: str | os.PathLike[str]) -> Problems:
    """Read a whole file and report what is wrong with it.

    Of an embeddings file: counts, shapes and types agree, values are finite, and the key, tokens,
    values and scales of each sentence match their checksum, if the file has checksums. Of a weight
    file: all values can be used. An unfinished file is a problem in itself.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    path, found = Path(path), Problems()
    kind = kind_of_file(path)
    if kind == "unfinished":
        found.add_all([f"unfinished: {read_log(path)[2].sentences} sentences are committed"])
    elif kind != "embeddings":
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            found.add_all(weight_problems(file))
    else:
        with Embeddings(path) as embeddings:
            found.add_all(_structure(embeddings))
            found.add_all(_counting(embeddings, found))
    return found


def _structure(embeddings: Embeddings) -> Iterator[str]:
    """Problems of the attributes, and what the layout finds."""
    yield from embeddings.reader.problems()
    attributes, n = embeddings.attributes, len(embeddings)
    if attributes.get("sentences", n) != n:
        yield f"it has {n} sentences, its attribute says {attributes['sentences']}"
    if embeddings.has_checksums and len(attributes["sentence_crc32"]) != n:
        yield f"it has {n} sentences and {len(attributes['sentence_crc32'])} checksums"
    digests = attributes.get("token_digests")
    if digests is not None and tokens_sha256(digests.tobytes()) != attributes.get("tokens_sha256"):
        yield "its attributes token_digests and tokens_sha256 contradict each other"
    stored, said = embeddings.stored_dtype, attributes.get("dtype")
    if stored is not None and said is not None and str(stored) != str(said):
        yield f"its values are {stored}, its attribute says {said}"


def _counting(embeddings: Embeddings, found: Problems) -> Iterator[str]:
    """Problems of the sentences and of the number of their tokens, which `found` gets."""
    tokens = yield from _sentences(embeddings)
    if tokens is not None and embeddings.attributes.get("tokens", tokens) != tokens:
        yield f"it has {tokens} tokens, its attribute says {embeddings.attributes['tokens']}"
    found.tokens = tokens


def _sentences(embeddings: Embeddings) -> Generator[str, None, int | None]:
    """Yield problems of the sentences; return the tokens, if each could be read and has some."""
    reader, kind = embeddings.reader, "type" if embeddings.unit == "types" else "sentence"
    is_ours, expected = "sentences" in embeddings.attributes, 0
    axes: tuple[int, ...] | None = None  # that all arrays share
    tokens: int | None = 0
    checksums = embeddings.attributes.get("sentence_crc32")
    if checksums is not None and len(checksums) != len(reader):
        checksums = None  # which belongs to which is not known
    for position, handle in enumerate(reader.handles()):
        key = reader.key(handle)
        name = f"{kind} {key!r}"
        if isinstance(key, int):
            if key > expected and not is_ours:  # ours skip numbers on purpose
                yield f"no sentences {expected} to {key - 1}: the keys have a gap"
            expected = key + 1
        try:
            crc32 = None if checksums is None else int(checksums[position])
            yield from _values(reader, handle, name, crc32)
            shape = reader.shape(handle)
        except EmbeddingsFileError as error:
            yield f"{name}: {error.message.removeprefix(f'{embeddings.path}: ')}"
            tokens = None
            continue
        n = (shape[-2] if len(shape) > 1 else None) if embeddings.unit == "tokens" else 1
        own = shape if embeddings.unit != "tokens" else (*shape[:-2], shape[-1])
        axes = axes or own
        if own != axes:
            yield f"{name}: shape {shape}, others have axes of {' and '.join(map(str, axes))}"
        tokens = None if tokens is None or n is None else tokens + n
    return None if embeddings.is_pooled else tokens


def _values(reader: SentenceReader, handle: Handle, name: str, crc32: int | None) -> Iterator[str]:
    """Problems of the values of a sentence with this checksum."""
    values, scales = reader.stored(handle)
    floats = values if scales is None else scales
    if wrong := int(floats.size - np.isfinite(floats).sum()):
        yield f"{name}: {wrong} of {floats.size} values are not finite"
    if crc32 is not None and checksum(reader.identity(handle), values, scales) != crc32:
        yield f"{name}: corrupt: its key, tokens or values do not match their checksum"


def compare_with_text(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> Problems:
    """Compare the sentences of a file with a text: their tokens, or else how many they have.

    Args:
        path: an embeddings file; a shard is compared with its own part of the text.
        sentences: of the whole text, read as they were for the file.
    Raises:
        UsageError: the file records neither tokens nor how many there are.
        EmbeddingsFileError: it can't be read.
    """
    found = Problems()
    with Embeddings(path) as embeddings:
        has_counts = embeddings.unit == "tokens" or embeddings.has_tokens
        if not has_counts and "token_digests" not in embeddings.attributes:
            raise UsageError(
                f"{embeddings.path}: records neither tokens nor how many a sentence has",
                "a text can be compared with files that have a vector for each token",
            )
        found.add_all(_differences(embeddings, sentences))
    return found


def _differences(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[str]:
    reader, attributes = embeddings.reader, embeddings.attributes
    digests = attributes.get("token_digests")
    # Sentences that the text has not had yet, with their positions.
    left = {handle: position for position, handle in enumerate(reader.handles())}
    n = n_missing = 0
    for sentence in sentences_of_shard(embeddings, sentences):
        n += 1
        name, n_tokens = f"sentence {sentence.key}", len(sentence.tokens)
        try:
            handle = reader.find(embeddings.key_of(sentence))
        except KeyError:
            yield f"{name}: not in the file, {n_tokens} tokens in the text"
            n_missing += 1
            continue
        position = left.pop(handle, None)
        tokens, shape = reader.tokens(handle), reader.shape(handle)
        n_stored = shape[-2] if embeddings.unit == "tokens" and len(shape) > 1 else None
        if n_stored not in (None, n_tokens):
            yield f"{name}: {n_stored} tokens in the file, {n_tokens} in the text"
        elif tokens is not None and tokens != sentence.tokens:
            pairs = enumerate(zip(tokens, sentence.tokens, strict=False))
            at = next((f": token {k} is `{a}`, not `{b}`" for k, (a, b) in pairs if a != b), "")
            yield f"{name}: its tokens are not those of the text{at}"
        elif tokens is None and digests is not None and position is not None:
            digest = digests[position : position + 1].tobytes()  # empty behind the last one
            if digest != tokens_digest(sentence.tokens):
                yield f"{name}: its tokens are not those of the text"
    n_read = len(reader) + embeddings.count("duplicate_sentences")
    if n != n_read:
        of_shard = f" for shard {attributes['shard']}" if "shard" in attributes else ""
        yield f"the file is of {n_read} sentences, the text has {n}{of_shard}"
    elif len(left) > n_missing:
        yield f"the text does not have {len(left)} sentences of the file"
