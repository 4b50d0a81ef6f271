"""merge_shards: the shards 1/n to n/n of a run as the one file of the run without shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.store.layouts import Array, Totals, layout_of_spec, tokens_sha256
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import shard_of
from elmo_cli.store.spec import DTYPES, WRITER_ATTRIBUTES, FileSpec
from elmo_cli.store.writer import write_embeddings
from elmo_cli.text.sentence import Sentence

_AGAIN = "embed the shard again with `elmo embed --shard i/n`"


@dataclass(frozen=True)
class _Shard:
    """What a shard says of itself.

    Attributes:
        path: as given.
        i, n: the i-th of n, from 1.
        spec: its settings, without those that differ between shards.
        others: attributes that are no settings and not the writer's.
        attributes: all of them.
        row_shape: of its stored values without their first axis; None without sentences.
    """

    path: str
    i: int
    n: int
    spec: FileSpec
    others: dict[str, Any]
    attributes: dict[str, Any]
    row_shape: tuple[int, ...] | None

    @property
    def n_read(self) -> int:
        """Sentences of its part of the text."""
        return int(self.attributes["sentences"] + self.attributes.get("duplicate_sentences", 0))

    @property
    def settings(self) -> dict[str, Any]:
        """What all shards of a run have in common."""
        return {"number of shards": self.n, **self.spec.to_attributes()}


def merge_shards(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Merge the shards of a run; the result is the file of the run without shards.

    Args:
        paths: all shards of one run, in any order.
        out: the file to make.
        overwrite: replace `out`.
    Returns:
        output, layout, shards, sentences, tokens, bytes, warnings.
    Raises:
        EmbeddingsFileError: a shard is missing, given twice, unfinished, of another run, or does
            not hold what it says of itself.
        OutputError: `out` can't be written.
    """
    check_distinct(os.fspath(out), [os.fspath(path) for path in paths])
    shards = _in_order([_read(os.fspath(path)) for path in paths])
    spec = shards[0].spec
    layout = layout_of_spec(spec)
    sentences = sum(shard.attributes["sentences"] for shard in shards)
    tokens = sum(shard.attributes["tokens"] for shard in shards)
    attributes = {**_common(shards), "token_digests": _all_digests(shards)}
    if layout.keeps_first:
        attributes["duplicate_sentences"] = sum(s.n_read for s in shards) - sentences
    else:
        attributes["tokens"] = tokens
    rows = sentences if spec.pooled or layout.unit == "types" else tokens
    row_shape = next((shard.row_shape for shard in shards if shard.row_shape is not None), None)
    warnings = write_embeddings(
        out,
        spec,
        _sentences(shards),
        attributes,
        totals=Totals(sentences, rows, row_shape, DTYPES[spec.dtype]),
        overwrite=overwrite,
    )
    with Embeddings(out) as merged:
        return {
            "output": os.fspath(out),
            "layout": merged.layout,
            "shards": len(shards),
            "sentences": len(merged),
            "tokens": merged.attributes["tokens"],
            "bytes": Path(out).stat().st_size,
            "warnings": warnings,
        }


def _read(path: str) -> _Shard:
    """What a shard says of itself.

    Raises:
        EmbeddingsFileError: it is no shard, or does not have what it says, arrays aside.
    """
    try:
        embeddings = Embeddings(path)
    except UnfinishedError as error:
        raise UnfinishedError(error.message, "finish that shard with `resume=True`") from None
    with embeddings:
        attributes, place = embeddings.attributes, shard_of(embeddings)
        if place is None:
            raise EmbeddingsFileError(
                f"{path}: not a shard, it has no attribute `shard`",
                "give files that `elmo embed --shard i/n` made",
            )
        try:
            spec = FileSpec.from_attributes(attributes)
            counts = {name: int(attributes[name]) for name in ("sentences", "tokens")}
        except (UsageError, KeyError, TypeError, ValueError) as error:
            raise EmbeddingsFileError(f"{path}: an attribute is corrupt: {error}", _AGAIN) from None
        n_checksums = len(attributes.get("sentence_crc32", ()))
        if not len(embeddings) == n_checksums == counts["sentences"]:
            raise EmbeddingsFileError(
                f"{path}: it has {len(embeddings)} sentences and {n_checksums} checksums, its "
                f"attribute says {counts['sentences']}",
                _AGAIN,
            )
        if problem := next(embeddings.reader.problems(), None):
            raise EmbeddingsFileError(f"{path}: {problem}", _AGAIN)
        own = WRITER_ATTRIBUTES | spec.to_attributes().keys()
        first = next(embeddings.reader.handles(), None)
        run_settings = {k: v for k, v in spec.run_settings.items() if k != "shard"}
        return _Shard(
            path,
            *place,
            replace(spec, first_sentence=0, run_settings=run_settings),
            {name: value for name, value in attributes.items() if name not in own},
            attributes,
            None if first is None else embeddings.reader.stored(first)[0].shape[1:],
        )


def _in_order(shards: list[_Shard]) -> list[_Shard]:
    """The shards from 1 to n, each of them once."""
    if not shards:
        raise UsageError("no shards given", "`elmo merge part-*.hdf5 -o out.hdf5`")
    found: dict[int, _Shard] = {}
    for shard in shards:
        _check_equal(shard, shard.settings, shards[0], shards[0].settings)
        twin = found.setdefault(shard.i, shard)
        if twin is not shard:
            raise EmbeddingsFileError(
                f"{shard.path}: shard {shard.i}/{shard.n} is given twice, also as {twin.path}",
                "give each shard once",
            )
    n = shards[0].n
    missing = [str(i) for i in range(1, n + 1) if i not in found]
    if missing:
        which = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        raise EmbeddingsFileError(
            f"{len(found)} of {n} shards given, missing: {which}",
            f"`elmo embed --shard {missing[0]}/{n}` makes the first of them",
        )
    ordered = [found[i] for i in range(1, n + 1)]
    # A shard without sentences has no position in the text.
    for before, after in pairwise(shard for shard in ordered if shard.n_read):
        end = before.attributes["first_sentence"] + before.n_read
        if after.attributes["first_sentence"] < end:
            raise EmbeddingsFileError(
                f"{after.path}: begins with sentence {after.attributes['first_sentence']}, but "
                f"{before.path} extends to {end - 1}",
                "shards of one run are made from the same text; embed them again",
            )
    return ordered


def _check_equal(
    shard: _Shard, its: Mapping[str, Any], first: _Shard, theirs: Mapping[str, Any]
) -> None:
    """Refuse a shard of another run."""
    for name in {**theirs, **its}:
        if its.get(name) != theirs.get(name):
            raise EmbeddingsFileError(
                f"{shard.path}: {name} is {its.get(name)!r}, that of {first.path} is "
                f"{theirs.get(name)!r}",
                "shards of one run have the same settings and text; embed the others again",
            )


def _common(shards: list[_Shard]) -> dict[str, Any]:
    """The attributes that are no settings: equal in all shards, except for versions."""
    first = shards[0]
    common = dict(first.others)
    for shard in shards[1:]:
        its, theirs = (
            {name: value for name, value in one.others.items() if not name.endswith("_version")}
            for one in (shard, first)
        )
        _check_equal(shard, its, first, theirs)
    for name in common:
        if name.endswith("_version"):
            versions = list(dict.fromkeys(shard.others.get(name) for shard in shards))
            common[name] = versions if len(versions) > 1 else versions[0]
    return common


def _all_digests(shards: list[_Shard]) -> NDArray[np.uint64] | None:
    """The token digests of the whole text; None if the shards have none."""
    found = [shard.attributes.get("token_digests") for shard in shards]
    if all(digests is None for digests in found):
        return None
    for shard, digests in zip(shards, found, strict=True):
        n = 0 if digests is None else len(digests)
        is_sound = digests is not None and n == shard.n_read
        if not is_sound or tokens_sha256(digests.tobytes()) != shard.attributes["tokens_sha256"]:
            raise EmbeddingsFileError(
                f"{shard.path}: its {n} token digests are not of its {shard.n_read} sentences",
                _AGAIN,
            )
    return np.concatenate(found)


def _sentences(shards: list[_Shard]) -> Iterator[tuple[Sentence, Array]]:
    """All sentences, each compared with its checksum."""
    for shard in shards:
        with Embeddings(shard.path) as embeddings:
            tokens = 0
            for info, array in embeddings.sentences(verify=True):
                held = info.tokens
                if embeddings.unit == "tokens":
                    tokens += array.shape[-2]
                    held = ("",) * array.shape[-2] if held is None else held  # only counted
                by_name = embeddings.is_keyed_by_name
                key = embeddings.first_sentence + info.position if by_name else None
                yield info.sentence(key=key, tokens=held, source=shard.path), array
            said = shard.attributes["tokens"]
            if embeddings.unit == "tokens" and tokens != said:
                raise EmbeddingsFileError(
                    f"{shard.path}: it has {tokens} tokens, its attribute says {said}", _AGAIN
                )
