"""merge_shards: the files of `--shard 1/n` to `--shard n/n` as the one file of an undivided run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from elmo_cli.errors import EmbeddingsFileError, UnfinishedError, UsageError
from elmo_cli.store.apart import beside_embeddings, check_apart
from elmo_cli.store.datasets import Array, NumberedSentences
from elmo_cli.store.discard import whole_or_nothing
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.settings import FORM, FileForm
from elmo_cli.store.shards import shard_of
from elmo_cli.store.stream import (
    Copy,
    as_sentence,
    map_texts,
    run_facts,
    stream,
)
from elmo_cli.text.sentence import Sentence

_KINDS = {
    "layout": str,
    "keys": str,
    "forget_sentences": bool,
    "dtype": str,
    "first_sentence": int,
    "sentences": int,
    "tokens": int,
}


@dataclass(frozen=True)
class _Shard:
    """What a shard says of itself.

    Attributes:
        path: as given.
        i, n: the i-th of n, from 1.
        own: settings of the writer.
        header: settings of the run.
        others: facts of the run that are no settings.
        attributes: all of them.
        lacks_map: whether it should have a sentence map, and has none.
    """

    path: str
    i: int
    n: int
    own: dict[str, Any]
    header: dict[str, Any]
    others: dict[str, Any]
    attributes: dict[str, Any]
    lacks_map: bool


def merge_shards(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Join the shards of a run; arrays and attributes are those of the run without `--shard`.

    Args:
        paths: all shards of one run, in any order.
        out: the file to make.
        overwrite: replace `out`.
    Returns:
        what was done: output, layout, shards, sentences, tokens, bytes, warnings.
    Raises:
        EmbeddingsFileError: a shard is missing, there twice, unfinished, or of another run.
        OutputError: `out` can't be written.
    """
    shards = _in_order([_shard(os.fspath(path)) for path in paths])
    first = shards[0]
    others = _common(shards)
    check_apart(
        os.fspath(out),
        [shard.path for shard in shards],
        what="one of the shards",
        beside=beside_embeddings(os.fspath(out)),
    )
    # The first shard may begin later than sentence 0, where lines were left out; a run does not.
    with whole_or_nothing(
        out, header=first.header, overwrite=overwrite, first_sentence=0, **first.own
    ) as writer:
        if lacking := [shard.path for shard in shards if shard.lacks_map]:
            writer.leave_out_map(f"as {lacking[0]} has none")
        copy = Copy(writer)
        for shard in shards:
            copy.append_all(shard.path, _sentences(shard))
            copy.commit()
        if first.own["layout"] == "manylangs":
            within = sum(map(_duplicates, shards))
            others["duplicates"] = writer.duplicates + within
        writer.finish(others)
    return {
        "output": os.fspath(out),
        "layout": first.own["layout"],
        "shards": len(shards),
        "sentences": writer.progress.sentences - writer.duplicates,
        "tokens": writer.progress.tokens,
        "bytes": Path(out).stat().st_size,
        "warnings": writer.warnings,
    }


def _shard(path: str) -> _Shard:
    try:
        with Embeddings(path) as embeddings:
            attributes, sentences = embeddings.attributes, embeddings.sentences
            has_map = isinstance(sentences, NumberedSentences) and sentences.has_map
    except UnfinishedError as error:
        again = "run that shard again with `--resume`, then `elmo merge` once more"
        raise UnfinishedError(error.message, again) from None
    if "shard" not in attributes:
        raise EmbeddingsFileError(
            f"{path}: not a shard, it has no attribute `shard`",
            "`elmo merge` joins what `elmo embed --shard i/n` made",
        )
    i, n = shard_of(path, attributes)
    for name, kind in _KINDS.items():
        if type(attributes.get(name)) is not kind:
            raise EmbeddingsFileError(
                f"{path}: its attribute `{name}` is {attributes.get(name)!r}",
                "make the shard anew with `elmo embed --shard i/n`",
            )
    header, others = run_facts(attributes)
    header.pop("shard", None)
    own = {name: attributes[name] for name in FORM}
    lacks_map = FileForm(**own).has_map and not has_map
    return _Shard(path, i, n, own, header, others, attributes, lacks_map)


def _in_order(shards: list[_Shard]) -> list[_Shard]:
    """The shards from 1 to n, each of them once."""
    if not shards:
        raise UsageError("no shards given", "`elmo merge part-*.hdf5 -o out.hdf5`")
    found: dict[int, _Shard] = {}
    for shard in shards:
        _check_same(shards[0], shard)
        twin = found.setdefault(shard.i, shard)
        if twin is not shard:
            raise EmbeddingsFileError(
                f"{shard.path}: shard {shard.i}/{shard.n} is there twice, also as {twin.path}",
                "give each shard once",
            )
    n = shards[0].n
    missing = [str(i) for i in range(1, n + 1) if i not in found]
    if missing:
        what = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
        word = "shard" if len(missing) == 1 else "shards"
        raise EmbeddingsFileError(
            f"{len(found)} of {n} shards given: {word} {what} of {n} missing",
            f"`elmo embed --shard {missing[0]}/{n}` makes the first of them",
        )
    ordered = [found[i] for i in range(1, n + 1)]
    _check_follow(ordered)
    return ordered


def _check_same(first: _Shard, shard: _Shard) -> None:
    """Refuse a shard of another run."""
    then = {"number of shards": first.n, **first.own, **first.header}
    now = {"number of shards": shard.n, **shard.own, **shard.header}
    for name in (*then, *(name for name in now if name not in then)):
        if then.get(name) != now.get(name):
            raise EmbeddingsFileError(
                f"{shard.path}: {name} is {now.get(name)!r}, that of {first.path} is "
                f"{then.get(name)!r}",
                "shards of one run have the same settings; make the other ones anew",
            )


def _check_follow(ordered: list[_Shard]) -> None:
    """Refuse shards whose sentences were cut differently."""
    # A shard without sentences has no place in the text.
    with_sentences = [s for s in ordered if s.attributes["sentences"] or _duplicates(s)]
    for before, after in pairwise(with_sentences):
        begins = before.attributes["first_sentence"]
        end = begins + before.attributes["sentences"] + _duplicates(before)
        if after.attributes["first_sentence"] < end:
            raise EmbeddingsFileError(
                f"{after.path}: begins with sentence {after.attributes['first_sentence']}, but "
                f"{before.path} goes on to {end - 1}",
                "shards of one run are made from the same text; make them anew",
            )


def _duplicates(shard: _Shard) -> int:
    """Sentences that the shard left out, as it says."""
    found = shard.attributes.get("duplicates", 0)
    if not isinstance(found, int):
        raise EmbeddingsFileError(
            f"{shard.path}: its attribute `duplicates` is {found!r}",
            "make the shard anew with `elmo embed --shard i/n`",
        )
    return found


def _common(shards: list[_Shard]) -> dict[str, Any]:
    """The facts that are no settings: equal in all shards, but for versions of programs."""
    common = dict(shards[0].others)
    for shard in shards[1:]:
        for name in common | shard.others:
            if name.endswith("_version"):
                continue
            if common.get(name) != shard.others.get(name):
                raise EmbeddingsFileError(
                    f"{shard.path}: {name} is {shard.others.get(name)!r}, that of "
                    f"{shards[0].path} is {common.get(name)!r}",
                    "shards of one run have the same input; make the other ones anew",
                )
    for name in common:
        if name.endswith("_version"):
            versions = list(dict.fromkeys(shard.others.get(name) for shard in shards))
            common[name] = versions if len(versions) > 1 else versions[0]
    return common


def _sentences(shard: _Shard) -> Iterator[tuple[Sentence, Array]]:
    """The sentences of a shard as a writer wants them."""
    with Embeddings(shard.path) as embeddings:
        texts = map_texts(embeddings)
        for position, (facts, array) in enumerate(stream(embeddings)):
            yield as_sentence(embeddings, position, facts, array, texts), array
