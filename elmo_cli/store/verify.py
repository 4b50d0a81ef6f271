"""verify: read all of a file and report what is wrong with it; compare it with its text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.store.block_log import read_log
from elmo_cli.store.describe import kind_of_file
from elmo_cli.store.layouts import Handle, checksum, tokens_digest, tokens_sha256
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence
from elmo_cli.weightfile.describe import weight_problems

MAX_LISTED = 50


@dataclass
class Problems:
    """What a check found; it goes on counting when the list is full.

    Attributes:
        listed: the first `MAX_LISTED`, in the order in which they were found.
        count: all of them.
        tokens: of the file, if the check counted them.
        has_checksums: whether the values were compared with checksums; None where there is no
            question of that.
    """

    listed: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int | None = None
    has_checksums: bool | None = None

    def add(self, problem: str) -> None:
        """Count a problem, and list it if there is room."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(problem)

    def add_all(self, problems: Iterable[str]) -> None:
        """Add problems one by one, and an error that ends them as the last one."""
        try:
            for problem in problems:
                self.add(problem)
        except EmbeddingsFileError as error:
            self.add(error.message)


def verify(path: str | os.PathLike[str]) -> Problems:
    """Read a whole file and report what is wrong with it.

    Of an embeddings file: counts, shapes and types agree, values are finite, and the key, tokens,
    values and scales of each sentence match their checksum, if the file has checksums. Of a weight
    file: all values can be used. An unfinished file is a problem in itself.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    path = Path(path)
    found = Problems()
    kind = kind_of_file(path)
    if kind == "unfinished":
        found.add(f"unfinished: {read_log(path)[2].sentences} sentences are committed")
    elif kind != "embeddings":
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            found.add_all(weight_problems(file))
    else:
        with Embeddings(path) as embeddings:
            _Check(embeddings, found).run()
    return found


class _Check:
    """One embeddings file that is being read as a whole."""

    def __init__(self, embeddings: Embeddings, found: Problems) -> None:
        self._embeddings, self._found = embeddings, found
        self._reader, self._attributes = embeddings.reader, embeddings.attributes
        self._checksums = _array(self._attributes, "sentence_crc32")
        self._known = set() if self._checksums is None else set(self._checksums.tolist())
        self._has_tokens = not embeddings.is_pooled and embeddings.unit != "types"
        self._kind = "type" if embeddings.unit == "types" else "sentence"
        self._common: tuple[int, ...] | None = None  # sizes that all arrays share
        self._tokens = 0
        self._all_counted = True
        found.has_checksums = self._checksums is not None

    def run(self) -> None:
        """Check everything."""
        self._found.add_all(self._reader.problems())
        self._found.add_all(self._sentences())
        self._found.add_all(self._totals())

    def _sentences(self) -> Iterator[str]:
        expected = 0
        is_numbered = "sentences" not in self._attributes  # by another program, which numbers all
        for position, handle in enumerate(self._reader.handles()):
            key = self._reader.key(handle)
            if is_numbered and isinstance(key, int):
                if key > expected:
                    yield f"no sentences {expected} to {key - 1}: the keys have a gap"
                expected = key + 1
            try:
                yield from self._sentence(position, handle, f"{self._kind} {key!r}")
            except EmbeddingsFileError as error:
                self._all_counted = False
                yield error.message

    def _sentence(self, position: int, handle: Handle, name: str) -> Iterator[str]:
        values, scales = self._reader.stored(handle)
        yield from self._shape(name, self._reader.shape(handle))
        floats = values if scales is None else scales
        if wrong := int(floats.size - np.isfinite(floats).sum()):
            yield f"{name}: {wrong} of {floats.size} values are not finite"
        if self._checksums is None:
            return
        found = checksum(self._reader.identity(handle), values, scales)
        in_order = len(self._checksums) == len(self._reader)
        if (found != self._checksums[position]) if in_order else (found not in self._known):
            yield f"{name}: corrupt: its key, tokens or values do not match their checksum"

    def _shape(self, name: str, shape: tuple[int, ...]) -> Iterator[str]:
        common = shape
        if self._has_tokens and len(shape) >= 2:
            common = (*shape[:-2], shape[-1])
            self._tokens += shape[-2]
        elif self._has_tokens:
            self._all_counted = False
        self._common = self._common or common
        if common != self._common:
            names = ("layers", "dim")[-len(self._common) :]
            sizes = ", ".join(f"{name} {n}" for name, n in zip(names, self._common, strict=False))
            yield f"{name}: shape {shape}, others have {sizes}"

    def _totals(self) -> Iterator[str]:
        n, attributes = len(self._reader), self._attributes
        tokens = self._tokens if self._has_tokens else n if self._kind == "type" else None
        for what, count in (("sentences", n), ("tokens", tokens)):
            if count is not None and attributes.get(what, count) != count:
                yield f"it has {count} {what}, its attribute says {attributes[what]}"
        if self._checksums is not None and len(self._checksums) != n:
            yield f"it has {n} sentences and {len(self._checksums)} checksums"
        digests = _array(attributes, "token_digests")
        if digests is not None and tokens_sha256(digests.tobytes()) != attributes["tokens_sha256"]:
            yield "its attributes token_digests and tokens_sha256 contradict each other"
        stored, said = self._embeddings.stored_dtype, attributes.get("dtype")
        if None not in (stored, said) and str(stored) != str(said):
            yield f"its values are {stored}, its attribute says {said}"
        self._found.tokens = tokens if self._all_counted else None


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
        comparison = _Comparison(embeddings)
        found.add_all(comparison.problems(sentences))
    return found


class _Comparison:
    """An embeddings file next to the text that it was made from."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings, self._reader = embeddings, embeddings.reader
        self._digests = _array(embeddings.attributes, "token_digests")
        self._counts = not embeddings.is_pooled and embeddings.unit != "types"
        if self._digests is None and not self._counts and not embeddings.has_tokens:
            raise UsageError(
                f"{embeddings.path}: records neither tokens nor how many a sentence has",
                "a text can be compared with files that have a vector for each token",
            )
        is_aligned = self._digests is None or len(self._digests) == len(self._reader)
        self._is_aligned = is_aligned  # otherwise equal sentences were left out
        # Sentences of the file that the text has not had yet, with their positions.
        self._left = {handle: i for i, handle in enumerate(self._reader.handles())}

    def problems(self, sentences: Iterable[Sentence]) -> Iterator[str]:
        """The differences."""
        n = 0
        for sentence in sentences_of_shard(self._embeddings, sentences):
            yield from self._difference(sentence, n)
            n += 1
        attributes, held = self._embeddings.attributes, len(self._reader)
        held += self._embeddings.count("duplicate_sentences")
        if n != held or self._left:
            of_shard = f" for shard {attributes['shard']}" if "shard" in attributes else ""
            yield f"the file is of {held} sentences, the text has {n}{of_shard}"

    def _difference(self, sentence: Sentence, n: int) -> Iterator[str]:
        """Compare sentence number `n` of the text with the file."""
        name, n_tokens = f"sentence {sentence.key}", len(sentence.tokens)
        try:
            handle = self._reader.find(self._embeddings.key_of(sentence))
        except KeyError:
            yield f"{name}: not in the file, {n_tokens} tokens in the text"
            return
        position = self._left.pop(handle, None)
        shape = self._reader.shape(handle)
        held = (shape[-2] if len(shape) >= 2 else None) if self._counts else n_tokens
        tokens = self._reader.tokens(handle)
        if held != n_tokens:
            yield f"{name}: {held or 'no'} tokens in the file, {n_tokens} in the text"
        elif self._differs(sentence, tokens, position if self._is_aligned else n):
            pairs = enumerate(zip(tokens or (), sentence.tokens, strict=False))
            at = next((f": token {i} is `{a}`, not `{b}`" for i, (a, b) in pairs if a != b), "")
            yield f"{name}: its tokens in the file are not those of the text{at}"

    def _differs(self, sentence: Sentence, tokens: tuple[str, ...] | None, i: int | None) -> bool:
        """Compare digest number `i`; tokens where the file has no digests."""
        if self._digests is None or i is None:
            return tokens is not None and tokens != sentence.tokens
        digest = np.frombuffer(tokens_digest(sentence.tokens), "<u8")[0]
        return i >= len(self._digests) or bool(self._digests[i] != digest)


def _array(attributes: dict[str, Any], name: str) -> NDArray[Any] | None:
    value = attributes.get(name)
    return None if value is None else np.asarray(value).reshape(-1)
