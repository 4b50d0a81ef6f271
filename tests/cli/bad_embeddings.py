"""Bad input: embeddings files that are damaged, foreign, or not what a command needs."""

from __future__ import annotations

import h5py
import numpy as np
from situations import Maker, bad, cut, file, hdf5, stocked, torch_file, weight

OK = stocked("ok.hdf5")
BILM = stocked("bilm.hdf5")
SHARDS = stocked("part-1.hdf5", "part-2.hdf5")
MERGE = "merge part-1.hdf5 part-2.hdf5 -o m.hdf5"
MADE_BY = (
    "embeddings are made by `elmo embed`, and also read as AllenNLP, bilm-tf and others make them"
)
EMBED_ANEW = "`elmo inspect --json` lists every problem; embed the text anew"
COPY_AGAIN = "copy it again, or make it anew"
SHARD_AGAIN = "run that shard again with `--resume`, then `elmo merge` once more"
NOT_KEPT = "`--overwrite` starts anew; if `elmo embed` began it, its `--resume` goes on"


def unfinished(name: str) -> tuple[Maker, ...]:
    """An unfinished file and its journal."""
    return (
        stocked("long.hdf5.part", name=name),
        stocked("long.hdf5.part.journal", name=f"{name}.journal"),
    )


def _nan(file: h5py.File) -> None:
    file["1"][0, 0, 0] = np.nan


def _great(file: h5py.File) -> None:
    file["1"][...] = 7e4


MERGES = [
    bad(
        "a shard is missing",
        "merge part-2.hdf5 -o m.hdf5",
        "1 of 2 shards given: shard 1 of 2 missing",
        "`elmo embed --shard 1/2` makes the first of them",
        SHARDS,
    ),
    bad(
        "a shard twice",
        "merge part-1.hdf5 part-2.hdf5 part-1.hdf5 -o m.hdf5",
        "part-1.hdf5: shard 1/2 is there twice, also as part-1.hdf5",
        "give each shard once",
        SHARDS,
    ),
    bad(
        "a shard of other settings",
        "merge part-1.hdf5 top-2.hdf5 -o m.hdf5",
        "top-2.hdf5: layers is 'top', that of part-1.hdf5 is 'all'",
        "shards of one run have the same settings; make the other ones anew",
        SHARDS,
        stocked("top-2.hdf5"),
    ),
    bad(
        "a shard of another text",
        "merge part-1.hdf5 text-2.hdf5 -o m.hdf5",
        "text-2.hdf5: sources is [['other.txt', 0]], that of part-1.hdf5 is [['long.txt', 0]]",
        "shards of one run have the same input; make the other ones anew",
        SHARDS,
        stocked("text-2.hdf5"),
    ),
    bad(
        "no shard",
        "merge part-1.hdf5 ok.hdf5 -o m.hdf5",
        "ok.hdf5: not a shard, it has no attribute `shard`",
        "`elmo merge` joins what `elmo embed --shard i/n` made",
        SHARDS,
        OK,
    ),
    bad(
        "a shard that is not there",
        "merge part-1.hdf5 part-3.hdf5 -o m.hdf5",
        "part-3.hdf5: no such file",
        "check the name",
        SHARDS,
    ),
    bad(
        "a shard that did not finish",
        MERGE,
        "part-2.hdf5: not there, but part-2.hdf5.part is: its run did not finish",
        SHARD_AGAIN,
        stocked("part-1.hdf5"),
        stocked("part-2.hdf5", name="part-2.hdf5.part"),
    ),
    bad(
        "a shard cut off",
        MERGE,
        "part-2.hdf5: cut off: … bytes of … are there",
        COPY_AGAIN,
        SHARDS,
        cut("part-2.hdf5", -100),
    ),
    bad(
        "an unfinished file in the place of the merged one",
        MERGE,
        "m.hdf5.part: unfinished, 1000 sentences",
        NOT_KEPT,
        SHARDS,
        *unfinished("m.hdf5.part"),
    ),
]

CONVERSIONS = [
    bad(
        "an unfinished file in the place of the converted one",
        "convert ok.hdf5 -o c.hdf5",
        "c.hdf5.part: unfinished, 1000 sentences",
        NOT_KEPT,
        OK,
        *unfinished("c.hdf5.part"),
    ),
    bad(
        "text to convert",
        "convert a.txt -o c.hdf5",
        "a.txt: a text file, not an HDF5 file",
        "`elmo embed` makes embeddings of a text file",
    ),
    bad(
        "weights to convert",
        "convert tiny/weights.hdf5 -o c.hdf5",
        "tiny/weights.hdf5: this is a weight file (biLM), not embeddings",
        "`elmo embed --model` takes the folder that holds it and its options.json",
        stocked("tiny"),
    ),
    bad(
        "lines to documents",
        "convert ok.hdf5 -o c.hdf5 --layout e2e-coref",
        "ok.hdf5: sentence 0: e2e-coref is keyed by documents, this allennlp file knows none",
        "make it from the text with `elmo embed --layout e2e-coref` and jsonl with `doc_key`",
        OK,
        code=2,
    ),
    bad(
        "sentences to types",
        "convert ok.hdf5 -o c.hdf5 --layout bilm-types",
        "ok.hdf5: allennlp can't become bilm-types: one holds vectors of types, the other those "
        "of sentences",
        "make it from the text with `elmo embed --layout bilm-types`",
        OK,
        code=2,
    ),
    bad(
        "all layers to manylangs",
        "convert ok.hdf5 -o c.hdf5 --layout manylangs",
        "ok.hdf5: manylangs holds one layer a file, this one has 3",
        "`--layers top`, `--layers average`, a mix or a number",
        OK,
        code=2,
    ),
    bad(
        "unknown words to flat",
        "convert bilm.hdf5 -o c.hdf5 --layout flat",
        "bilm.hdf5: sentence 0: flat holds tokens, this bilm file doesn't tell them",
        "make it from the text with `elmo embed --layout flat`",
        BILM,
        code=2,
    ),
    bad(
        "beyond float16",
        "convert ok.hdf5 -o c.hdf5 --dtype float16",
        "ok.hdf5: sentence 1: a value is beyond float16",
        "`--dtype float32`",
        OK,
        hdf5("ok.hdf5", _great),
    ),
]

INSPECTIONS = [
    bad(
        "empty file",
        "inspect -q a.hdf5",
        "a.hdf5: an empty file (0 bytes)",
        MADE_BY,
        file("a.hdf5", b""),
    ),
    bad(
        "no end mark",
        "inspect -q ok.hdf5",
        "ok.hdf5: no end mark, its run did not finish",
        "run the same command again with `--resume`",
        OK,
        hdf5("ok.hdf5", lambda f: f.attrs.pop("complete")),
    ),
    bad(
        "unfinished file",
        "inspect -q long.hdf5.part",
        "long.hdf5.part: unfinished: 1000 sentences are committed",
        "the command that made it goes on with `--resume`",
        stocked("long.hdf5.part", "long.hdf5.part.journal"),
    ),
    bad(
        "an unfinished file to convert",
        "convert long.hdf5.part -o whole.hdf5",
        "long.hdf5.part: its run did not finish",
        "run the same `elmo embed` command with `--resume`",
        stocked("long.hdf5.part", "long.hdf5.part.journal"),
    ),
    bad(
        "a checkpoint of torch",
        "inspect -q checkpoint.pt",
        "checkpoint.pt: a PyTorch checkpoint, not an HDF5 file",
        "`elmo inspect` takes the weights.hdf5 next to it",
        torch_file("checkpoint.pt"),
    ),
    bad(
        "NaN in a sentence",
        "inspect -q ok.hdf5",
        "ok.hdf5: sentence 1: 1 of 144 values are not finite",
        EMBED_ANEW,
        OK,
        hdf5("ok.hdf5", _nan),
    ),
    bad(
        "NaN in the weights",
        "inspect -q tiny/weights.hdf5",
        "tiny/weights.hdf5: CNN_proj/b_proj: 8 of 8 values are not finite",
        "`elmo inspect --json` lists every problem; take the weights from their source again",
        stocked("tiny"),
        weight("CNN_proj/b_proj", lambda w: w * np.nan),
    ),
    bad(
        "a sentence is missing",
        "inspect -q ok.hdf5",
        "ok.hdf5: sentence_to_index: 'It slept .' is sentence 1, which is not there, and 2 more",
        EMBED_ANEW,
        OK,
        hdf5("ok.hdf5", lambda f: f.pop("1")),
    ),
    bad(
        "no datasets",
        "inspect -q a.hdf5",
        "a.hdf5: an HDF5 file without datasets",
        MADE_BY,
        hdf5("a.hdf5", lambda f: f.create_group("x")),
    ),
    bad(
        "a newer file",
        "inspect -q ok.hdf5",
        "ok.hdf5: schema 9, this program reads up to 1",
        "`pip install --upgrade elmo-cli`",
        OK,
        hdf5("ok.hdf5", lambda f: f.attrs.modify("elmo_schema", 9)),
    ),
    bad(
        "made with another model",
        "inspect -q ok.hdf5 --sample 2 -m odd",
        "ok.hdf5: made with tiny (sha256 …), not with odd (sha256 …)",
        "give the model that it was made with: `--model`",
        OK,
        stocked("odd"),
    ),
    bad(
        "text with other sentences",
        "inspect -q ok.hdf5 --against b.txt",
        "ok.hdf5: sentence 0: 4 tokens in the file, 3 in the text, and 1 more",
        EMBED_ANEW,
        OK,
        file("b.txt", "The cat .\n"),
    ),
    bad(
        "--sample of weights",
        "inspect tiny/weights.hdf5 --sample 3",
        "tiny/weights.hdf5: holds no finished embeddings",
        "--sample and --against compare embeddings",
        stocked("tiny"),
        code=2,
    ),
    bad(
        "--text without --sample",
        "inspect ok.hdf5 --text a.txt",
        "--text: has no meaning without --sample",
        "`--sample N` recomputes sentences; `--against FILE` compares numbers of tokens",
        stocked("ok.hdf5"),
        code=2,
    ),
    bad(
        "--sample without its text",
        "inspect -q bilm.hdf5 --sample 2",
        "bilm.hdf5: the layout bilm does not hold the sentences",
        "`--text FILE` gives the text that it was made from",
        BILM,
        code=2,
    ),
    bad(
        "--sample with another text",
        "inspect -q bilm.hdf5 --sample 2 --text b.txt",
        "bilm.hdf5: has 2 sentences, the text 1",
        "`--text` names the text that it was made from, read with the same options",
        BILM,
        file("b.txt", "The\n"),
    ),
]
EMBEDDINGS = MERGES + CONVERSIONS + INSPECTIONS
