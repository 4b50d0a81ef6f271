"""Bad input of every kind: a row per situation, its name, command line and files.

What each command says is in messages.txt.
"""

from __future__ import annotations

import numpy as np
from situations import (
    attribute,
    bad,
    cut,
    file,
    folder,
    link,
    lstm_options,
    objects,
    stocked,
    weight,
)


def too_large_for_float16(weights: np.ndarray) -> np.ndarray:
    return weights * 2e5


def not_a_number(weights: np.ndarray) -> np.ndarray:
    return weights * np.nan


def whole_numbers(weights: np.ndarray) -> np.ndarray:
    return weights.astype("i4")


# fmt: off
EMBED = "embed -q -o out.hdf5 --overwrite"  # would replace a former output
LATIN = "The cat .\nIt slept .\nA café .\n".encode("latin-1")
DOCUMENT = {"doc_key": "nw/a_0", "sentences": [["The", "cat"]]}
# Both cells of the forward direction, whose output is what the layers hold.
PROJECTIONS = [f"RNN_0/RNN/MultiRNNCell/Cell{k}/LSTMCell/W_P_0" for k in (0, 1)]
SHARDS = stocked("part-1.hdf5", "part-2.hdf5")
MERGE = "merge part-1.hdf5 part-2.hdf5"
UNFINISHED = stocked("long.txt", "long.hdf5.part", "long.hdf5.part.log")
GO_ON = "embed -q long.txt -o long.hdf5 --resume"
TINY = stocked("tiny")
MODEL = f"{EMBED} a.txt -m tiny"
W_0 = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
INSPECT = "inspect -q"
OK = stocked("ok.hdf5")
PRETRAIN = "pretrain -q a.txt -o m --lstm-dim 8 --projection-dim 4 --batch-size 2 --max-steps 300"
TEXT = file("a.txt", "The cat sat .\n" * 40)

TABLE = [
    # Files that are not there, or are no text.
    bad("missing file", f"{EMBED} nosuch.txt"),
    bad("empty --shard", f"{EMBED} a.txt --shard ''"),
    # Lines of a text that can't be read as what they are said to be.
    bad("Latin-1", f"{EMBED} a.txt", file("a.txt", LATIN)),
    bad("line of 10 MB", f"{EMBED} a.txt", file("a.txt", b"It .\n" + b"cat " * 2_500_000)),
    bad("lines left out", f"{EMBED} a.txt --on-error skip", file("a.txt", LATIN),
        leaves=("out.hdf5", "out.hdf5.skipped.tsv")),
    # Words of the command line that are missing or make no sense by themselves.
    bad("unknown command", "embd a.txt"),
    bad("unknown option", f"{EMBED} a.txt --overwrit"),
    bad("option without value", "embed a.txt -o"),
    bad("no input", "embed -o a.hdf5"),
    bad("--state nonsense", f"{EMBED} a.txt --state fresh"),
    bad("--batch-size a word", f"{EMBED} a.txt --batch-size many"),
    bad("--max-sentence-length 0", f"{EMBED} a.txt --max-sentence-length 0"),
    bad("--encoding unknown", f"{EMBED} a.txt --encoding utf8000"),
    bad("--layers nonsense", f"{EMBED} a.txt --layers best"),
    bad("--layers not there", f"{EMBED} a.txt --layers 0,7"),
    bad("--shard 4/3", f"{EMBED} a.txt --shard 4/3"),
    bad("--device not there", f"{EMBED} a.txt --device cuda:99"),
    # Options that contradict each other, or do not suit the input.
    bad("--overwrite --resume", f"{EMBED} a.txt --resume"),
    bad("--precision of the plain engine", f"{EMBED} a.txt --engine plain --precision int8"),
    bad("--shard --state carry", f"{EMBED} a.txt --shard 1/2 --state carry"),
    bad("--shard of stdin", f"{EMBED} - --shard 1/2"),
    bad("stdin twice", f"{EMBED} - -"),
    bad("stdin into a folder", "embed - -o vectors/"),
    bad("--output-format for a file", f"{EMBED} a.txt --output-format npz"),
    bad("stdout --layout", "embed a.txt -q -o - --layout bilm"),
    bad("--column of plain text", f"{EMBED} a.txt --column 2"),
    bad("--tokenize of columns", f"{EMBED} a.conllu --tokenize", file("a.conllu")),
    bad("--tokenize of FASTA", f"{EMBED} a.txt --tokenize", file("a.txt", ">P1\nMKVLAAGIVG\n")),
    bad("--fasta-id of plain text", f"{EMBED} a.txt --fasta-id uniprot"),
    bad("gap in FASTA", f"{EMBED} a.fasta", file("a.fasta", ">P1\nMK\nV-K\n")),
    bad("id twice in FASTA", f"{EMBED} a.fasta", file("a.fasta", ">P1\nMK\n>P1 b\nK\n")),
    bad("accession without bars", f"{EMBED} a.fasta --fasta-id uniprot",
        file("a.fasta", ">P1\nMK\n")),
    bad("id below an id", f"{EMBED} a.fasta --layout seqvec",
        file("a.fasta", ">P1\nMK\n>P1/b\nK\n")),
    bad("seqvec of lines", f"{EMBED} a.txt --layout seqvec"),
    bad("manylangs of all layers", f"{EMBED} a.txt --layout manylangs"),
    bad("bilm-types --layers", f"{EMBED} a.txt --layout bilm-types --layers top"),
    bad("e2e-coref of lines", f"{EMBED} a.txt --layout e2e-coref"),
    bad("same document twice", f"{EMBED} a.jsonl --layout e2e-coref",
        objects("a.jsonl", DOCUMENT, DOCUMENT)),
    bad("float16 overflow", f"{EMBED} a.txt -m tiny --dtype float16", stocked("tiny"),
        lstm_options(proj_clip=None),
        *(weight(path, too_large_for_float16) for path in PROJECTIONS)),
    # Places that can't be written to, or are read from as well.
    bad("a URL", "tokenize a.txt -o s3://name:key@bucket/x"),
    bad("output exists", "embed -q a.txt -o out.hdf5"),
    bad("output a folder", f"{MERGE} -o texts", SHARDS, folder("texts")),
    bad("merge to stdout", f"{MERGE} -o -", SHARDS),
    bad("no such folder", "embed -q a.txt -o far/away.hdf5"),
    bad("foreign unfinished file", "embed -q a.txt -o b.hdf5", file("b.hdf5.part", "precious")),
    bad("one name for two inputs", "embed -q a.txt b/a.txt -o vectors/", file("b/a.txt")),
    bad("one output of the folder exists", "embed -q a.txt b.txt -o vectors/", file("b.txt"),
        file("vectors/b.hdf5", "precious")),
    bad("no model for a new folder", "embed -q a.txt -m nosuch -o vectors/"),
    bad("output is the input", "embed -q a.txt -o a.txt --overwrite"),
    bad("output in a folder is an input", "embed -q a.txt v/a.hdf5 -o v/ --overwrite",
        file("v/a.hdf5")),
    bad("merged into a shard", f"{MERGE} -o l.hdf5 --overwrite", SHARDS,
        link("l.hdf5", "part-2.hdf5")),
    bad("converted into itself", "convert ok.hdf5 -o l.hdf5 --overwrite --dtype float16",
        stocked("ok.hdf5"), link("l.hdf5", "ok.hdf5")),
    # Runs that can't be resumed.
    bad("unfinished output exists", "embed -q long.txt -o long.hdf5", UNFINISHED),
    bad("--resume with other layers", f"{GO_ON} --layers top", UNFINISHED),
    bad("--resume onto a foreign file", "embed -q a.txt -o b.txt --resume",
        file("b.txt", "precious")),
    # Models that are not there, or are of another family.
    bad("not on this machine", f"{EMBED} a.txt -m original"),
    bad("pull of no such name", "models pull zzzz"),
    bad("pull offline", "models pull small", env={"ELMO_OFFLINE": "1"}),
    bad("$ELMO_HOME a file", "models pull small", file("home")),
    # Weights that are damaged, and options that say what the weights do not hold.
    bad("no options", f"{EMBED} a.txt -m m", stocked("tiny/weights.hdf5", name="m/weights.hdf5")),
    bad("weights cut off", MODEL, TINY, cut("tiny/weights.hdf5", -40_000)),
    bad("NaN weights", MODEL, TINY, weight(W_0, not_a_number)),
    bad("inspect of whole numbers", f"{INSPECT} tiny/weights.hdf5", TINY,
        weight("char_embed", whole_numbers)),
    bad("a device as options",
        f"{EMBED} a.txt --options-file /dev/zero --weight-file tiny/weights.hdf5", TINY),
    bad("a device to inspect", f"{INSPECT} /dev/zero"),
    bad("wrong dim", MODEL, TINY, lstm_options(dim=32)),
    # Embeddings files that are damaged, foreign, or not what a command needs.
    bad("a shard is missing", "merge part-2.hdf5 -o m.hdf5", SHARDS),
    bad("a shard of other settings", "merge part-1.hdf5 top-2.hdf5 -o m.hdf5", SHARDS,
        stocked("top-2.hdf5")),
    bad("a newer file", "inspect -q ok.hdf5", OK,
        attribute("ok.hdf5", "elmo_schema", 9)),
    bad("made with another model", "inspect -q ok.hdf5 --recompute 2 -m odd", OK, stocked("odd")),
    bad("--recompute of weights", "inspect tiny/weights.hdf5 --recompute 3", stocked("tiny")),
    # Queries of `elmo neighbors` that name nothing, and files that it can't search.
    bad("no query", "neighbors ok.hdf5", OK),
    bad("an occurrence that is no number", "neighbors ok.hdf5 The --occurrence 0", OK),
    bad("a sentence for an unknown model", "neighbors ok.hdf5 --text [Yes]", OK,
        attribute("ok.hdf5", "model", "nosuch")),
    # Texts, settings and folders that nothing can be trained with.
    bad("a folder with another model", f"{PRETRAIN} --overwrite", TEXT,
        file("m/model.hdf5", "precious")),
    bad("no end of training", "pretrain a.txt -o m"),
    bad("--learning-rate below zero", f"{PRETRAIN} --learning-rate -1"),
    bad("no tokens to count", "vocab b.txt -o v.txt", file("b.txt", "\n")),
    bad("columns as raw text", "tokenize a.conllu.gz", file("a.conllu.gz")),
    bad("perplexity without a softmax", "perplexity -q a.txt -m tiny", stocked("tiny")),
]
