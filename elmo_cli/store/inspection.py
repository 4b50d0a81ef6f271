"""What `elmo inspect` reports: facts and problems of a file, and how it differs from its text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
from elmo_cli.store.half_precision import all_finite
from elmo_cli.store.intact_sentence import is_intact
from elmo_cli.store.layouts import Handle
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.store.unfinished import is_unfinished
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
        facts = _unfinished_facts(path)
    elif kind == "embeddings":
        with Embeddings(path) as embeddings:
            facts = _facts(embeddings)
    else:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return describe_weights(path, file)
    return {"kind": kind, "path": str(path), "bytes": path.stat().st_size, **facts}


def _unfinished_facts(part: Path) -> dict[str, Any]:
    log = read_log(part)
    return {
        "settings": log.spec.to_attributes(),
        "is_complete": False,
        "sentences": log.progress.sentences,
        "tokens": log.progress.tokens,
    }


def _facts(embeddings: Embeddings) -> dict[str, Any]:
    attributes = {}
    for name, value in embeddings.attributes.items():
        is_per_sentence = isinstance(value, np.ndarray) or name == "repeated_lines"
        if not is_per_sentence:
            attributes[name] = value
    n_tokens = attributes.get("tokens")
    samples = []
    for key in islice(embeddings, _N_SAMPLES):
        samples.append({"key": key, "shape": list(embeddings.shape(key))})
    return {
        "layout": embeddings.layout,
        "complete": True if attributes else None,
        "sentences": len(embeddings),
        "tokens": n_tokens if type(n_tokens) is int else None,
        "n_layers": embeddings.n_layers,
        "dim": embeddings.dim,
        "dtype": str(embeddings.stored_dtype or attributes.get("dtype")),
        "sentence_map": embeddings.reader.has_map,
        "checksums": "sentence_crc32" in embeddings.attributes,
        "sources": _pairs(attributes.get("sources")),
        "attributes": attributes,
        "samples": samples,
    }


def _pairs(value: Any) -> list[Any] | None:
    """The value if it is a list of pairs, as elmo writes the sources."""
    if not isinstance(value, list):
        return None
    are_pairs = all(isinstance(item, list) and len(item) == 2 for item in value)
    return value if are_pairs else None


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
        key = next(iter(embeddings), None)
        if key is None:
            return []
        axes = ["layer", "token", "dim"] if embeddings.unit == "tokens" else ["layer", "dim"]
        n_axes = len(embeddings.shape(key))
        lines = [
            "from elmo_cli import open_embeddings",
            f"with open_embeddings({os.fspath(path)!r}) as embeddings:",
            f"    array = embeddings[{key!r}]  # axes: {', '.join(axes[-n_axes:])}",
        ]
        if embeddings.tokens(key) is not None:
            lines.append(f"    tokens = embeddings.tokens({key!r})")
        return lines


@dataclass
class Problems:
    """The first `MAX_LISTED` problems, how many there are, and the tokens if they were counted."""

    listed: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int | None = None

    def add(self, problem: str) -> None:
        """Count a problem, and list it as long as there is room."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(problem)

    def add_all(self, problems: Iterable[str]) -> None:
        """Add problems, and an error that ends them too."""
        try:
            for problem in problems:
                self.add(problem)
        except EmbeddingsFileError as error:
            self.add(error.problem)


def verify(path: StrPath) -> Problems:
    """Read a whole file, of embeddings or weights, and report what is wrong with it.

    Counts, shapes and types of embeddings have to agree, values to be finite, and the key, tokens,
    values and scales of each sentence to match their checksum, if the file has checksums.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    path = Path(path)
    problems = Problems()
    kind = kind_of_file(path)
    if kind == "unfinished":
        n_committed = read_log(path).progress.sentences
        problems.add(f"unfinished: {plural(n_committed, 'sentence')} committed")
    elif kind != "embeddings":
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            problems.add_all(weight_problems(file))
    else:
        with Embeddings(path) as embeddings:
            problems.add_all(embeddings.problems())
            try:
                _check_sentences(embeddings, problems)
            except EmbeddingsFileError as error:  # the others cannot be read
                problems.add(error.problem)
    return problems


def _check_sentences(embeddings: Embeddings, problems: Problems) -> None:
    """Read all sentences; add what is wrong with them, and count their tokens."""
    # Which checksum belongs to which sentence is not known if one of them is missing.
    all_checksums = embeddings.numbers("sentence_crc32")
    has_checksums = all_checksums is not None and len(all_checksums) == len(embeddings)
    counted = _CountedAxes(embeddings)
    for run in embeddings.runs():
        checksums = None
        if has_checksums:
            checksums = embeddings.checksums_of(run)
            run.read_infos()  # which the checksums include
        are_finite = run.has_only_finite_values()
        for number in range(len(run)):
            try:
                values, scales = run.stored(number)
                shape = run.shape(number)
                matches_checksum = is_intact(run, number, values, scales, checksums)
            except EmbeddingsFileError as error:
                problems.add(f"{embeddings.name_of(run.handles[number])}: {error.problem}")
                counted.can_count = False
                continue
            found = []
            if not are_finite:
                found += _problems_of_values(values if scales is None else scales)
            if not matches_checksum:
                found.append("corrupt: its key, tokens or values do not match their checksum")
            found += counted.add(shape)
            for problem in found:
                problems.add(f"{embeddings.name_of(run.handles[number])}: {problem}")

    if counted.can_count:
        problems.tokens = counted.n_tokens
        n_recorded = embeddings.attributes.get("tokens", counted.n_tokens)
        if not np.array_equal(n_recorded, counted.n_tokens):
            found_tokens = plural(counted.n_tokens, "token")
            problems.add(f"it has {found_tokens}, its attribute says {n_recorded}")


def _problems_of_values(floats: AnyArray) -> list[str]:
    """The problem of values that are not finite, if there are any."""
    if all_finite(floats):
        return []
    n_not_finite = int(floats.size - np.isfinite(floats).sum())
    return [f"not finite: {n_not_finite} of {plural(floats.size, 'value')}"]


class _CountedAxes:
    """Counts the tokens of arrays, and checks that their other axes agree.

    Attributes:
        n_tokens: of all sentences so far.
        can_count: whether `n_tokens` is right; not after an array that has no axis of tokens.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self.n_tokens = 0
        self.can_count = embeddings.unit != "sentences"
        self._has_token_axis = embeddings.unit == "tokens"
        self._others: tuple[int, ...] | None = None  # of the first sentence

    def add(self, shape: tuple[int, ...]) -> list[str]:
        """Add the shape of a sentence; return what is wrong with it, if anything."""
        if not self._has_token_axis:
            self.n_tokens += 1
        elif len(shape) > 1:
            self.n_tokens += shape[-2]
        else:
            self.can_count = False
        others = (*shape[:-2], shape[-1]) if self._has_token_axis else shape
        if self._others is None:
            self._others = others
        if others == self._others:
            return []
        expected = " and ".join(map(str, self._others))
        return [f"shape {shape}, others have axes of {expected}"]


def compare_with_text(path: StrPath, sentences: Iterable[Sentence]) -> Problems:
    """Compare the sentences of a file, or of a shard, with the whole text that it was made from.

    Tokens are compared if the file records them or their digests, otherwise only their number.

    Raises:
        UsageError: the file records neither tokens nor how many there are.
    """
    problems = Problems()
    with Embeddings(path) as embeddings:
        has_tokens = embeddings.unit == "tokens" or "tokens" in embeddings.records
        if not has_tokens and "token_digests" not in embeddings.attributes:
            problem = "records neither tokens nor how many a sentence has"
            hint = "a text can be compared with a file of vectors of tokens"
            raise UsageError(problem, hint, where=embeddings.path)
        problems.add_all(_differences(embeddings, sentences))
    return problems


def _differences(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[str]:
    reader = embeddings.reader
    positions = {handle: position for position, handle in enumerate(reader.handles)}
    compared: set[Handle] = set()
    n_in_text = 0
    n_missing = 0  # of those in the text
    for sentence in sentences_of_shard(embeddings, sentences):
        n_in_text += 1
        try:
            handle = reader.find(embeddings.key_of(sentence))
        except KeyError:
            n_missing += 1
            length = plural(len(sentence.tokens), "token")
            yield f"sentence {sentence.key}: not in the file, {length} in the text"
            continue
        compared.add(handle)
        position = positions.get(handle, len(positions))
        difference = _difference(embeddings, handle, position, sentence.tokens)
        if difference:
            yield f"sentence {sentence.key}: {difference}"

    n_read = len(embeddings) + embeddings.count("duplicate_sentences")
    n_not_compared = len(embeddings) - len(compared)
    if n_in_text != n_read:
        shard = embeddings.attributes.get("shard")
        of_shard = "" if shard is None else f" for shard {shard}"
        made_from = f"the file was made from {plural(n_read, 'sentence')}"
        yield f"{made_from}, the text has {n_in_text:,}{of_shard}"
    elif n_not_compared > n_missing:
        yield f"the text lacks {plural(n_not_compared, 'sentence')} of the file"


def _difference(embeddings: Embeddings, handle: Handle, position: int, expected: Tokens) -> str:
    """How the tokens of a sentence differ from those of the text; "" if they do not."""
    shape = embeddings.reader.shape(handle)
    if embeddings.unit == "tokens" and len(shape) > 1 and shape[-2] != len(expected):
        return f"{plural(shape[-2], 'token')} in the file, {len(expected):,} in the text"
    tokens = embeddings.reader.info(handle).tokens
    if tokens is None:
        is_equal = _is_digest_of(expected, embeddings.numbers("token_digests"), position)
        return "" if is_equal else _OTHER_TOKENS
    if tokens == expected:
        return ""
    return _OTHER_TOKENS + _first_difference(tokens, expected)


def _is_digest_of(tokens: Tokens, digests: AnyArray | None, position: int) -> bool:
    """Whether the digest at a position is that of some tokens; true without digests."""
    if digests is None:
        return True
    recorded = digests[position : position + 1].tobytes()  # empty after the last one
    return recorded == tokens_digest(tokens)


def _first_difference(tokens: Tokens, expected: Tokens) -> str:
    for number, (token, in_text) in enumerate(zip(tokens, expected, strict=False)):
        if token != in_text:
            return f": token {number} is {token!r}, not {in_text!r}"
    return ""  # one of them is the beginning of the other
