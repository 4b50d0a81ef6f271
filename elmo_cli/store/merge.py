"""merge_shards: the shards 1/n to n/n of a run as the one file of the run without shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError, UsageError
from elmo_cli.files import check_distinct
from elmo_cli.store.convert import verified_sentences, write_copy
from elmo_cli.store.layouts import Array, layout_of_spec, tokens_sha256
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import shard_of
from elmo_cli.store.spec import WRITER_ATTRIBUTES, FileSpec
from elmo_cli.text.sentence import Sentence

_AGAIN = "embed this shard of the text again"
_COUNTS = ("first_sentence", "sentences", "tokens")
_OTHERS = "shards of one run have the same settings and text; embed the others again"


@dataclass(frozen=True)
class _Shard:
    """What a shard says of itself.

    Attributes:
        path: as given.
        i, n: the i-th of n, from 1.
        spec: its settings, without those that differ between shards.
        others: attributes that are no settings and not the writer's.
        counts: first_sentence, sentences, tokens, duplicate_sentences.
        digests: `tokens_digest` of each sentence of its part of the text.
    """

    path: str
    i: int
    n: int
    spec: FileSpec
    others: dict[str, Any]
    counts: dict[str, int]
    digests: NDArray[np.uint64]

    @property
    def start(self) -> int:
        """Key with which its part of the text begins."""
        return self.counts["first_sentence"]


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
    total = {name: sum(shard.counts[name] for shard in shards) for name in shards[0].counts}
    attributes = {**_common(shards), "token_digests": np.concatenate([s.digests for s in shards])}
    name = "duplicate_sentences" if layout_of_spec(spec).keeps_first else "tokens"
    attributes[name] = total[name]
    summary = write_copy(
        out,
        spec,
        _sentences(shards),
        attributes,
        n_sentences=total["sentences"],
        n_tokens=total["tokens"],
        overwrite=overwrite,
    )
    names = ("output", "layout", "sentences", "tokens", "bytes", "warnings")
    return {"shards": len(shards), **{name: summary[name] for name in names}}


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
            hint = "give the files of a run in shards"
            raise EmbeddingsFileError(f"{path}: not a shard, it has no attribute `shard`", hint)
        try:
            spec = FileSpec.from_attributes(attributes)
            counts = {name: int(attributes[name]) for name in _COUNTS}
            digests = np.asarray(attributes["token_digests"], "<u8")
            n_checksums = len(attributes["sentence_crc32"])
            is_intact = tokens_sha256(digests.tobytes()) == attributes["tokens_sha256"]
        except (UsageError, KeyError, TypeError, ValueError) as error:
            raise EmbeddingsFileError(f"{path}: attributes are corrupt: {error}", _AGAIN) from None
        counts["duplicate_sentences"] = embeddings.count("duplicate_sentences")
        n_read = counts["sentences"] + counts["duplicate_sentences"]
        for what, n, said in (
            ("sentences", len(embeddings), counts["sentences"]),
            ("checksums", n_checksums, counts["sentences"]),
            ("token digests", len(digests), n_read),
        ):
            if n != said:
                raise EmbeddingsFileError(f"{path}: it has {n} {what}, not {said}", _AGAIN)
        problem = next(
            embeddings.reader.problems(), "" if is_intact else "token digests are corrupt"
        )
        if problem:
            raise EmbeddingsFileError(f"{path}: {problem}", _AGAIN)
    own = WRITER_ATTRIBUTES | spec.to_attributes().keys()
    others = {name: value for name, value in attributes.items() if name not in own}
    settings = {name: value for name, value in spec.run_settings.items() if name != "shard"}
    spec = replace(spec, first_sentence=0, run_settings=settings)
    return _Shard(path, *place, spec, others, counts, digests)


def _in_order(shards: list[_Shard]) -> list[_Shard]:
    """The shards from 1 to n, each of them once."""
    if not shards:
        raise UsageError("no shards given", "`elmo merge part-*.hdf5 -o out.hdf5`")
    found: dict[int, _Shard] = {}
    for shard in shards:
        ours, theirs = ({"n": s.n, **s.spec.to_attributes()} for s in (shard, shards[0]))
        _check_equal(shard, ours, shards[0], theirs)
        if (twin := found.setdefault(shard.i, shard)) is not shard:
            what = f"shard {shard.i}/{shard.n} is given twice, also as {twin.path}"
            raise EmbeddingsFileError(f"{shard.path}: {what}", "give each shard once")
    n = shards[0].n
    if missing := [str(i) for i in range(1, n + 1) if i not in found]:
        which = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        hint = f"embed shard {missing[0]}/{n} of the text first"
        raise EmbeddingsFileError(f"{len(found)} of {n} shards given, missing: {which}", hint)
    ordered = [found[i] for i in range(1, n + 1)]
    # A shard without sentences has no position in the text.
    for before, after in pairwise(shard for shard in ordered if len(shard.digests)):
        if after.start < (end := before.start + len(before.digests)):
            what = f"begins with sentence {after.start}, {before.path} extends to {end - 1}"
            raise EmbeddingsFileError(f"{after.path}: {what}", _OTHERS)
    return ordered


def _check_equal(
    shard: _Shard, ours: Mapping[str, Any], first: _Shard, theirs: Mapping[str, Any]
) -> None:
    """Refuse a shard of another run."""
    for name in {**theirs, **ours}:
        if ours.get(name) != theirs.get(name):
            what = f"is {ours.get(name)!r}, that of {first.path} is {theirs.get(name)!r}"
            raise EmbeddingsFileError(f"{shard.path}: {name} {what}", _OTHERS)


def _common(shards: list[_Shard]) -> dict[str, Any]:
    """The attributes that are no settings: equal in all shards, except for versions."""
    common = dict(shards[0].others)
    for name in common:
        if name.endswith("_version"):
            versions = list(dict.fromkeys(shard.others.get(name) for shard in shards))
            common[name] = versions if len(versions) > 1 else versions[0]
    for shard in shards[1:]:
        ours = {k: v for k, v in shard.others.items() if not k.endswith("_version")}
        theirs = {k: v for k, v in common.items() if not k.endswith("_version")}
        _check_equal(shard, ours, shards[0], theirs)
    return common


def _sentences(shards: list[_Shard]) -> Iterator[tuple[Sentence, Array]]:
    """All sentences, each compared with its checksum, and the tokens of each shard counted."""
    for shard in shards:
        tokens = 0
        with Embeddings(shard.path) as embeddings:
            for sentence, array in verified_sentences(embeddings):
                tokens += array.shape[-2] if embeddings.unit == "tokens" else 0
                yield sentence, array
            if embeddings.unit == "tokens" and tokens != shard.counts["tokens"]:
                said = shard.counts["tokens"]
                raise EmbeddingsFileError(
                    f"{shard.path}: it has {tokens} tokens, not {said}", _AGAIN
                )
