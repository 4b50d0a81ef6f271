"""What `elmo inspect` reports: facts and problems of a file, and how it differs from its text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.messages import plural
from elmo_cli.store.digests import tokens_digest
from elmo_cli.store.layouts import Handle, Key
from elmo_cli.store.log_lines import is_unfinished, read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence, Tokens
from elmo_cli.weightfile.describe import describe_weights, kind_of_weights, weight_problems

MAX_LISTED = 50
_N_SAMPLES = 3
_OTHER_TOKENS = "its tokens are not those of the text"


def describe(path: StrPath) -> dict[str, Any]:
    """Return the facts of a file without reading arrays.

    Returns:
        kind ("embeddings", "unfinished" or "weights"), path, bytes; for OUT.part the committed
        sentences and tokens, and settings; for weights see `describe_weights`. What a file of
        another program does not say is None.
    Raises:
        EmbeddingsFileError: none of the three; the message says what it is instead.
        ResumeError: the log of an unfinished file is corrupt.
    """
    path = Path(path)
    kind = kind_of_file(path)
    if kind == "unfinished":
        spec, _, progress = read_log(path)
        facts: dict[str, Any] = {"settings": spec.to_attributes(), "is_complete": False}
        facts |= {"sentences": progress.sentences, "tokens": progress.tokens}
    elif kind == "embeddings":
        with Embeddings(path) as embeddings:
            facts = _facts(embeddings)
    else:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return describe_weights(path, file)
    return {"kind": kind, "path": str(path), "bytes": path.stat().st_size, **facts}


def _facts(embeddings: Embeddings) -> dict[str, Any]:
    attributes = {
        name: value
        for name, value in embeddings.attributes.items()
        if not isinstance(value, np.ndarray) and name != "repeated_lines"  # one per sentence
    }
    tokens, sources = attributes.get("tokens"), attributes.get("sources")
    are_pairs = isinstance(sources, list) and all(
        isinstance(one, list) and len(one) == 2 for one in sources
    )
    keys = islice(embeddings, _N_SAMPLES)
    return {
        "layout": embeddings.layout,
        "complete": True if attributes else None,
        "sentences": len(embeddings),
        "tokens": tokens if type(tokens) is int else None,
        "n_layers": embeddings.n_layers,
        "dim": embeddings.dim,
        "dtype": str(embeddings.stored_dtype or attributes.get("dtype")),
        "sentence_map": embeddings.reader.has_map,
        "checksums": "sentence_crc32" in embeddings.attributes,
        "sources": sources if are_pairs else None,
        "attributes": attributes,
        "samples": [{"key": key, "shape": list(embeddings.shape(key))} for key in keys],
    }


def kind_of_file(path: Path) -> str:
    """What a file is: "unfinished", "biLM", "softmax", or "embeddings" for any other."""
    if is_unfinished(path):
        return "unfinished"
    try:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return kind_of_weights(file) or "embeddings"
    except EmbeddingsFileError:
        return "embeddings"  # opening it as such reports what is wrong


def python_example(path: StrPath) -> list[str]:
    """Lines of Python that read the first sentence of an embeddings file into `array`, if any."""
    with Embeddings(path) as embeddings:
        if (key := next(iter(embeddings), None)) is None:
            return []
        axes = ["layer", "token", "dim"] if embeddings.unit == "tokens" else ["layer", "dim"]
        axes = axes[-len(embeddings.shape(key)) :]
        has_tokens = embeddings.tokens(key) is not None
        return [
            "from elmo_cli import open_embeddings",
            f"with open_embeddings({os.fspath(path)!r}) as embeddings:",
            f"    array = embeddings[{key!r}]  # axes: {', '.join(axes)}",
            *([f"    tokens = embeddings.tokens({key!r})"] if has_tokens else []),
        ]


@dataclass
class Problems:
    """The first `MAX_LISTED` problems, how many there are, and the tokens if they were counted."""

    listed: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int | None = None

    def add_all(self, problems: Iterable[str]) -> None:
        """Count problems, list them as long as there is room, and an error that ends them too."""
        try:
            for problem in problems:
                self.count += 1
                self.listed += [problem] * (len(self.listed) < MAX_LISTED)
        except EmbeddingsFileError as error:
            self.add_all([error.problem])


def verify(path: StrPath) -> Problems:
    """Read a whole file, of embeddings or weights, and report what is wrong with it.

    Counts, shapes and types of embeddings have to agree, values to be finite, and the key, tokens,
    values and scales of each sentence to match their checksum, if the file has checksums.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    path, found = Path(path), Problems()
    kind = kind_of_file(path)
    if kind == "unfinished":
        found.add_all([f"unfinished: {plural(read_log(path)[2].sentences, 'sentence')} committed"])
    elif kind != "embeddings":
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            found.add_all(weight_problems(file))
    else:
        with Embeddings(path) as embeddings:
            found.add_all(embeddings.problems())
            found.add_all(_sentences(embeddings, found))
    return found


def _sentences(embeddings: Embeddings, found: Problems) -> Iterator[str]:
    """Problems of the sentences, and of the number of their tokens, which `found` gets."""
    reader, attributes = embeddings.reader, embeddings.attributes
    # Which checksum belongs to which sentence is not known if one of them is missing.
    has_checksums = len(attributes.get("sentence_crc32", ())) == len(embeddings)
    axes: tuple[int, ...] | None = None  # that all arrays share
    tokens, can_count, by_token = 0, embeddings.unit != "sentences", embeddings.unit == "tokens"
    for position, handle in enumerate(reader.handles):
        name = embeddings.name_of(handle)
        try:
            (values, scales), shape = reader.stored(handle), reader.shape(handle)
            is_intact = not has_checksums or embeddings.is_intact(position, handle, values, scales)
        except EmbeddingsFileError as error:
            yield f"{name}: {error.problem}"
            can_count = False
            continue
        floats = values if scales is None else scales
        if wrong := int(floats.size - np.isfinite(floats).sum()):
            yield f"{name}: not finite: {wrong} of {plural(floats.size, 'value')}"
        if not is_intact:
            yield f"{name}: corrupt: its key, tokens or values do not match their checksum"
        can_count &= len(shape) > 1 or not by_token
        tokens += shape[-2] if by_token and can_count else 1
        own = (*shape[:-2], shape[-1]) if by_token else shape
        axes = axes or own
        if own != axes:
            yield f"{name}: shape {shape}, others have axes of {' and '.join(map(str, axes))}"
    found.tokens = tokens if can_count else None
    if can_count and not np.array_equal(attributes.get("tokens", tokens), tokens):
        yield f"it has {plural(tokens, 'token')}, its attribute says {attributes['tokens']}"


def compare_with_text(path: StrPath, sentences: Iterable[Sentence]) -> Problems:
    """Compare the sentences of a file, or of a shard, with the whole text that it was made from.

    Tokens are compared if the file records them or their digests, otherwise only their number.

    Raises:
        UsageError: the file records neither tokens nor how many there are.
    """
    found = Problems()
    with Embeddings(path) as embeddings:
        has_tokens = embeddings.unit == "tokens" or "tokens" in embeddings.records
        if not has_tokens and "token_digests" not in embeddings.attributes:
            what = f"{embeddings.path}: records neither tokens nor how many a sentence has"
            raise UsageError(what, "a text can be compared with a file of vectors of tokens")
        found.add_all(_differences(embeddings, sentences))
    return found


def _differences(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[str]:
    reader, n, n_missing = embeddings.reader, 0, 0
    positions = {handle: i for i, handle in enumerate(reader.handles)}
    seen: set[Handle] = set()
    for sentence in sentences_of_shard(embeddings, sentences):
        n += 1
        try:
            handle = reader.find(embeddings.key_of(sentence))
        except KeyError:
            what = f"not in the file, {plural(len(sentence.tokens), 'token')} in the text"
            n_missing += 1
        else:
            position = positions.get(handle, len(positions))
            what = _difference(embeddings, handle, position, sentence.tokens)
            seen.add(handle)
        if what:
            yield f"sentence {sentence.key}: {what}"
    n_read = len(embeddings) + embeddings.count("duplicate_sentences")
    if n != n_read:
        shard = embeddings.attributes.get("shard")
        of_shard = f" for shard {shard}" if shard is not None else ""
        yield f"the file was made from {plural(n_read, 'sentence')}, the text has {n:,}{of_shard}"
    elif (n_left := len(embeddings) - len(seen)) > n_missing:
        yield f"the text lacks {plural(n_left, 'sentence')} of the file"


def _difference(embeddings: Embeddings, handle: Handle, position: int, expected: Tokens) -> str:
    """How the tokens of a sentence differ from those of the text; "" if they do not."""
    shape = embeddings.reader.shape(handle)
    if embeddings.unit == "tokens" and len(shape) > 1 and shape[-2] != len(expected):
        return f"{plural(shape[-2], 'token')} in the file, {len(expected):,} in the text"
    tokens = embeddings.reader.info(handle).tokens
    if tokens is None:
        is_equal = _is_digest_of(expected, embeddings.attributes.get("token_digests"), position)
        return "" if is_equal else _OTHER_TOKENS
    if tokens == expected:
        return ""
    return _OTHER_TOKENS + _first_difference(tokens, expected)


def _is_digest_of(tokens: Tokens, digests: AnyArray | None, position: int) -> bool:
    """Whether the digest at a position is that of some tokens; true without digests."""
    if digests is None:
        return True
    found = digests[position : position + 1].tobytes()  # empty after the last one
    return found == tokens_digest(tokens)


def _first_difference(tokens: Tokens, expected: Tokens) -> str:
    for number, (found, wanted) in enumerate(zip(tokens, expected, strict=False)):
        if found != wanted:
            return f": token {number} is `{found}`, not `{wanted}`"
    return ""  # one of them is the beginning of the other


@dataclass(frozen=True)
class SentenceSample:
    """Key, tokens and array of some sentences of a file, with what is needed to recompute them.

    Sentences whose tokens the file does not record are passed over and counted.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str
    sentences: list[tuple[Key, Tokens, AnyArray]]
    passed_over: int = 0


def take_sample(path: StrPath, n: int, text: Sequence[Sentence] = ()) -> SentenceSample:
    """Read `n` sentences of a file, evenly spread.

    Args:
        text: all sentences of the whole text, for files that do not record tokens;
            `compare_with_text` reports how the two differ.
    Raises:
        EmbeddingsFileError: the file is corrupt.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with Embeddings(path) as embeddings:
        state = embeddings.attributes.get("state", "zero")
        if embeddings.unit == "types" or state not in ("zero", "warm"):
            why = f"made with `state={state}`, where a vector depends on the text before it"
            why = "holds types, not sentences" if embeddings.unit == "types" else why
            hint = "embed again with the same settings and compare the two files"
            raise UsageError(f"{path}: {why}", hint)
        own = sentences_of_shard(embeddings, text or ())
        of_text = {embeddings.key_of(sentence): sentence.tokens for sentence in own}
        keys: list[Key] = list(filter(embeddings.__contains__, of_text) if text else embeddings)
        chosen = np.linspace(0, len(keys) - 1, min(n, len(keys))).round().astype(int).tolist()
        tokens_of: Callable[[Key], Tokens | None] = of_text.get if text else embeddings.tokens
        pairs = ((keys[i], tokens_of(keys[i])) for i in chosen)
        sentences = [(key, found, embeddings[key]) for key, found in pairs if found is not None]
        if chosen and not sentences:
            hint = "give the text of the file with `text`, and the same input settings"
            raise UsageError(f"{path}: does not record the tokens of its sentences", hint)
        n_passed_over, dtype = len(chosen) - len(sentences), str(embeddings.stored_dtype)
        return SentenceSample(
            os.fspath(path), embeddings.attributes, dtype, sentences, n_passed_over
        )
