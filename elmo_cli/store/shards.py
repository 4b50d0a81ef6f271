"""Shards: a run in n contiguous ranges of blocks, each an embeddings file, and their merge."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import StrPath, check_distinct
from elmo_cli.messages import plural
from elmo_cli.store.derived_file import DerivedFile, write_derived_file
from elmo_cli.store.intact_sentence import IntactSentence
from elmo_cli.store.layouts import layout_of_spec
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shard_number import WHOLE_TEXT, ShardNumber
from elmo_cli.store.spec import FileSpec, other_attributes
from elmo_cli.text.sentence import Sentence

_AGAIN = "embed the shard again"
_MOST_LISTED = 8  # missing shards in a message


def shard_of(embeddings: Embeddings) -> ShardNumber | None:
    """The number of an embeddings file; None if it is not a shard."""
    shard = embeddings.attributes.get("shard")
    if shard is None:
        return None
    try:
        return ShardNumber.parse(str(shard))
    except UsageError:
        problem = f"the attribute `shard` is {shard!r}, not i/n"
        raise EmbeddingsFileError(problem, _AGAIN, where=embeddings.path) from None


def sentences_of_shard(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of the whole text that a file was made from; the last shard's to the end."""
    number = shard_of(embeddings)
    n_read = embeddings.count("sentences") + embeddings.count("duplicate_sentences")
    first_key = embeddings.first_sentence
    if number is None or number == WHOLE_TEXT:
        return iter(sentences)
    own_and_later = (sentence for sentence in sentences if sentence.key >= first_key)
    return own_and_later if number.is_last else islice(own_and_later, n_read)


@dataclass(frozen=True)
class _Shard:
    """What a shard records about itself.

    Attributes:
        number: which of the shards it is.
        spec: the settings of the merged file.
        common: what all shards of a run have in common.
        others: the attributes that are no settings.
    """

    path: str
    number: ShardNumber
    spec: FileSpec
    common: dict[str, Any]
    others: dict[str, Any]
    n_sentences: int
    n_tokens: int
    n_duplicates: int
    token_digests: np.ndarray


def merge_shards(
    paths: Sequence[StrPath],
    out: StrPath,
    *,
    compression: str = "none",
    overwrite: bool = False,
) -> DerivedFile:
    """Merge the shards of a run, in any order; the result is the file of the run without shards.

    Args:
        out: the file; its suffix decides its format, whatever that of the shards is.
        compression: of Parquet: "none" or "zstd".
    Returns:
        What the file contains.
    Raises:
        EmbeddingsFileError: a shard is missing, given twice, unfinished, of another run, or does
            not hold what it says of itself.
        OutputError: `out` can't be written.
    """
    check_distinct(os.fspath(out), [os.fspath(path) for path in paths])
    shards = _in_order([_read(os.fspath(path)) for path in paths])
    spec = shards[0].spec
    layout = layout_of_spec(spec)
    has_vectors_of_tokens = not spec.pooled and layout.unit == "sentences"
    n_tokens = sum(shard.n_tokens for shard in shards)
    n_sentences = sum(shard.n_sentences for shard in shards)
    return write_derived_file(
        out,
        spec,
        _sentences(shards),
        _merged_attributes(shards, keeps_first=layout.keeps_first),
        n_rows=n_tokens if has_vectors_of_tokens else n_sentences,
        preview=_sentences(shards),
        overwrite=overwrite,
        compression=compression,
    )


def _read(path: str) -> _Shard:
    """What a shard says of itself, if that fits what it holds, arrays aside."""
    with Embeddings(path) as embeddings:
        number = shard_of(embeddings)
        if number is None:
            problem = "not a shard, it has no attribute `shard`"
            raise EmbeddingsFileError(problem, "give all shards of one run", where=path)
        n_sentences = embeddings.count("sentences")
        n_tokens = embeddings.count("tokens")
        n_duplicates = embeddings.count("duplicate_sentences")
        own_spec = embeddings.spec
        token_digests = embeddings.numbers("token_digests")
        if token_digests is None:
            raise EmbeddingsFileError("it has no token digests", _AGAIN, where=path)
        first_problem = next(embeddings.problems(), "")
        if first_problem:
            raise EmbeddingsFileError(first_problem, _AGAIN, where=path)
        others = other_attributes(embeddings.attributes, own_spec)
        others.pop("shard", None)
    run_settings = dict(own_spec.run_settings)
    run_settings.pop("shard", None)
    spec = replace(own_spec, first_sentence=0, run_settings=run_settings)
    without_versions = {name: value for name, value in others.items() if not _is_version(name)}
    return _Shard(
        path=path,
        number=number,
        spec=spec,
        common={"n": number.n, **spec.to_attributes(), **without_versions},
        others=others,
        n_sentences=n_sentences,
        n_tokens=n_tokens,
        n_duplicates=n_duplicates,
        token_digests=token_digests,
    )


def _is_version(name: str) -> bool:
    """Whether an attribute is the version of a program, which may differ between shards."""
    return name.endswith("_version")


def _in_order(shards: list[_Shard]) -> list[_Shard]:
    """The shards from 1 to n, each of them once, and all of the same run."""
    first = shards[0]
    shard_by_number: dict[int, _Shard] = {}
    n = first.number.n
    for shard in shards:
        _check_same_run(first, shard)
        twin = shard_by_number.setdefault(shard.number.i, shard)
        if twin is not shard:
            problem = f"shard {shard.number} is given twice, also as {twin.path}"
            raise EmbeddingsFileError(problem, "give each shard once", where=shard.path)
    missing = [str(i) for i in range(1, n + 1) if i not in shard_by_number]
    if missing:
        listed = ", ".join(missing[:_MOST_LISTED])
        if len(missing) > _MOST_LISTED:
            listed += ", …"
        problem = f"{len(shard_by_number)} of {n} shards given, missing: {listed}"
        raise EmbeddingsFileError(problem, "embed the missing shards, and give all of them")
    return [shard_by_number[i] for i in sorted(shard_by_number)]


def _check_same_run(first: _Shard, shard: _Shard) -> None:
    """Check that two shards have in common what all shards of a run have."""
    for name in {**first.common, **shard.common}:
        value = shard.common.get(name)
        first_value = first.common.get(name)
        if not _are_equal(value, first_value):
            problem = f"{name} is {value!r}, that of {first.path} is {first_value!r}"
            hint = "shards of one run have the same settings and text; embed the others again"
            raise EmbeddingsFileError(problem, hint, where=shard.path)


def _are_equal(first: Any, second: Any) -> bool:
    """Whether two attributes are equal; a program may have added arrays."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(first, second)
    return bool(first == second)


def _merged_attributes(shards: list[_Shard], *, keeps_first: bool) -> dict[str, Any]:
    """The attributes of the merged file that are no settings; all versions where they differ."""
    attributes = dict(shards[0].others)
    for name in filter(_is_version, list(attributes)):
        found = [shard.others.get(name) for shard in shards]
        versions = list(dict.fromkeys(None if value is None else str(value) for value in found))
        attributes[name] = versions if len(versions) > 1 else versions[0]
    if keeps_first:
        attributes["duplicate_sentences"] = sum(shard.n_duplicates for shard in shards)
    else:
        attributes["tokens"] = sum(shard.n_tokens for shard in shards)
    attributes["token_digests"] = np.concatenate([shard.token_digests for shard in shards])
    return attributes


def _sentences(shards: list[_Shard]) -> Iterator[IntactSentence]:
    """All sentences, each compared with its checksum, and the tokens of each shard counted."""
    for shard in shards:
        n_tokens = 0
        with Embeddings(shard.path) as embeddings:
            for read in embeddings.intact_sentences():
                n_tokens += len(read.sentence.tokens)
                yield read
            if embeddings.unit == "tokens" and n_tokens != shard.n_tokens:
                problem = f"it has {plural(n_tokens, 'token')}, not {shard.n_tokens}"
                raise EmbeddingsFileError(problem, _AGAIN, where=shard.path)
