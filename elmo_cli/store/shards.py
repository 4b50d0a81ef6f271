"""Shards: a run in n contiguous ranges of blocks, each an embeddings file, and their merge."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import StrPath, check_distinct
from elmo_cli.messages import plural
from elmo_cli.store.convert import other_attributes, write_copy
from elmo_cli.store.layouts import layout_of_spec
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

_AGAIN = "embed the shard again"
_COUNTS = ("sentences", "tokens", "duplicate_sentences")


def parse_shard(text: str) -> tuple[int, int]:
    """The (i, n) that "i/n" means: the i-th of n shards, from 1; a UsageError for other text."""
    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text.strip())
    i, n = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= i <= n:
        what = f"`shard={text}`: expected i/n with 1 <= i <= n <= 99999"
        raise UsageError(what, "for example 3/16")
    return i, n


def shard_of(embeddings: Embeddings) -> tuple[int, int] | None:
    """The (i, n) of an embeddings file; None if it is not a shard."""
    shard = embeddings.attributes.get("shard")
    try:
        return None if shard is None else parse_shard(str(shard))
    except UsageError:
        what = f"the attribute `shard` is {shard!r}, not i/n"
        raise EmbeddingsFileError(what, "embed the shard again", where=embeddings.path) from None


def sentences_of_shard(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of the whole text that a file was made from; the last shard's to the end."""
    i, n = shard_of(embeddings) or (1, 1)
    n_read = embeddings.count("sentences") + embeddings.count("duplicate_sentences")
    rest = (one for one in sentences if n == 1 or one.key >= embeddings.first_sentence)
    return rest if i == n else islice(rest, n_read)


def shard_range(n_blocks: int, i: int, n: int) -> range:
    """The blocks of the i-th of n shards, whose sizes differ by one at most; it may be empty."""
    return range(n_blocks * (i - 1) // n, n_blocks * i // n)


def shard_name(i: int, n: int) -> str:
    """The name of the i-th of n shards (i from 1): `part-00003-of-00016`."""
    return f"part-{i:05d}-of-{n:05d}"


@dataclass(frozen=True)
class _Shard:
    """What a shard records about itself."""

    path: str
    i: int
    spec: FileSpec
    common: dict[str, Any]
    others: dict[str, Any]
    counts: dict[str, int]
    digests: np.ndarray


def merge_shards(
    paths: Sequence[StrPath], out: StrPath, *, overwrite: bool = False
) -> dict[str, Any]:
    """Merge the shards of a run, in any order; the result is the file of the run without shards.

    Returns:
        shards, output, layout, sentences, tokens, bytes.
    Raises:
        EmbeddingsFileError: a shard is missing, given twice, unfinished, of another run, or does
            not hold what it says of itself.
        OutputError: `out` can't be written.
    """
    check_distinct(os.fspath(out), [os.fspath(path) for path in paths])
    shards = _in_order([_read(os.fspath(path)) for path in paths])
    spec, attributes = shards[0].spec, dict(shards[0].others)
    for name in (name for name in attributes if name.endswith("_version")):
        versions = list(dict.fromkeys(shard.others.get(name) for shard in shards))
        attributes[name] = versions if len(versions) > 1 else versions[0]
    total = {name: sum(shard.counts[name] for shard in shards) for name in _COUNTS}
    name = "duplicate_sentences" if layout_of_spec(spec).keeps_first else "tokens"
    digests = np.concatenate([shard.digests for shard in shards])
    attributes |= {name: total[name], "token_digests": digests}
    is_of_tokens = not spec.pooled and layout_of_spec(spec).unit == "sentences"
    done = write_copy(
        out,
        spec,
        _sentences(shards),
        attributes,
        n_rows=total["tokens" if is_of_tokens else "sentences"],
        overwrite=overwrite,
    )
    names = ("output", "layout", "sentences", "tokens", "bytes")
    return {"shards": len(shards), **{name: done[name] for name in names}}


def _read(path: str) -> _Shard:
    """What a shard says of itself, if that fits what it holds, arrays aside."""
    with Embeddings(path) as embeddings:
        attributes, place = embeddings.attributes, shard_of(embeddings)
        if place is None:
            what = "not a shard, it has no attribute `shard`"
            raise EmbeddingsFileError(f"{path}: {what}", "give all shards of one run")
        counts = {name: embeddings.count(name) for name in _COUNTS}
        spec, digests = embeddings.spec, attributes.get("token_digests")
        if not isinstance(digests, np.ndarray):
            raise EmbeddingsFileError(f"{path}: it has no token digests", _AGAIN)
        if problem := next(embeddings.problems(), ""):
            raise EmbeddingsFileError(f"{path}: {problem}", _AGAIN)
    settings = {name: value for name, value in spec.run_settings.items() if name != "shard"}
    others = other_attributes(attributes, spec)
    spec = replace(spec, first_sentence=0, run_settings=settings)
    common = {"n": place[1], **spec.to_attributes()}
    common |= {name: value for name, value in others.items() if not name.endswith("_version")}
    return _Shard(path, place[0], spec, common, others, counts, digests)


def _in_order(shards: list[_Shard]) -> list[_Shard]:
    """The shards from 1 to n, each of them once, and all of the same run."""
    first, found = shards[0], dict[int, _Shard]()
    n = first.common["n"]
    for shard in shards:
        for name in {**first.common, **shard.common}:
            ours, theirs = shard.common.get(name), first.common.get(name)
            if ours != theirs:
                what = f"{name} is {ours!r}, that of {first.path} is {theirs!r}"
                hint = "shards of one run have the same settings and text; embed the others again"
                raise EmbeddingsFileError(f"{shard.path}: {what}", hint)
        if (twin := found.setdefault(shard.i, shard)) is not shard:
            what = f"shard {shard.i}/{n} is given twice, also as {twin.path}"
            raise EmbeddingsFileError(f"{shard.path}: {what}", "give each shard once")
    if missing := [str(i) for i in range(1, n + 1) if i not in found]:
        which = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        what = f"{len(found)} of {n} shards given, missing: {which}"
        raise EmbeddingsFileError(what, "embed the missing shards, and give all of them")
    return [found[i] for i in sorted(found)]


def _sentences(shards: list[_Shard]) -> Iterator[tuple[Sentence, AnyArray]]:
    """All sentences, each compared with its checksum, and the tokens of each shard counted."""
    for shard in shards:
        n, said = 0, shard.counts["tokens"]
        with Embeddings(shard.path) as embeddings:
            for sentence, array in embeddings.sentences():
                n += len(sentence.tokens)
                yield sentence, array
            if embeddings.unit == "tokens" and n != said:
                what = f"{shard.path}: it has {plural(n, 'token')}, not {said}"
                raise EmbeddingsFileError(what, _AGAIN)
