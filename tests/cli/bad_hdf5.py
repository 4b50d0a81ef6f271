"""Bad input: embeddings files that are damaged, foreign, or not what a command needs."""

from __future__ import annotations

import numpy as np
SAYS = HINT = "?"
from situations import Bad, cut, file, hdf5, stocked

OK = stocked("ok.hdf5")
BOTH = stocked("part-1.hdf5", "part-2.hdf5")


def _nan(opened) -> None:
    opened["1"][0, 0, 0] = np.nan


MERGE = [
    Bad("a shard is missing", "merge part-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH,)),
    Bad("a shard twice", "merge part-1.hdf5 part-2.hdf5 part-1.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH,)),
    Bad("a shard of other settings", "merge part-1.hdf5 top-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH, stocked("top-2.hdf5"))),
    Bad("a shard of another text", "merge part-1.hdf5 text-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH, stocked("text-2.hdf5"))),
    Bad("no shard", "merge part-1.hdf5 ok.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH, OK)),
    Bad("a shard that is not there", "merge part-1.hdf5 part-3.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH,)),
    Bad("a shard that did not finish", "merge part-1.hdf5 part-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(stocked("part-1.hdf5"), stocked("part-2.hdf5", name="part-2.hdf5.part"))),
    Bad("a shard without end mark", "merge part-1.hdf5 part-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH, hdf5("part-2.hdf5", lambda f: f.attrs.pop("complete")))),
    Bad("a shard cut off", "merge part-1.hdf5 part-2.hdf5 -o m.hdf5", SAYS, HINT, makes=(BOTH, cut("part-2.hdf5", -100))),
    Bad("text as a shard", "merge part-1.hdf5 a.txt -o m.hdf5", SAYS, HINT, makes=(BOTH, file("a.txt"))),
    Bad("merged file is there", "merge part-1.hdf5 part-2.hdf5 -o out.hdf5", SAYS, HINT, makes=(BOTH,)),
    Bad("merge without output", "merge part-1.hdf5 part-2.hdf5", SAYS, HINT, makes=(BOTH,), code=2),
]

CONVERT = [
    Bad("nothing to convert", "convert nosuch.hdf5 -o c.hdf5", SAYS, HINT),
    Bad("text to convert", "convert a.txt -o c.hdf5", SAYS, HINT, makes=(file("a.txt"),)),
    Bad("weights to convert", "convert tiny/weights.hdf5 -o c.hdf5", SAYS, HINT, makes=(stocked("tiny"),)),
    Bad("cut off", "convert ok.hdf5 -o c.hdf5", SAYS, HINT, makes=(OK, cut("ok.hdf5", -1000))),
    Bad("lines to documents", "convert ok.hdf5 -o c.hdf5 --layout e2e-coref", SAYS, HINT, makes=(OK,), code=2),
    Bad("lines to LSGN", "convert ok.hdf5 -o c.hdf5 --layout lsgn", SAYS, HINT, makes=(OK,), code=2),
    Bad("sentences to types", "convert ok.hdf5 -o c.hdf5 --layout bilm-types", SAYS, HINT, makes=(OK,), code=2),
    Bad("all layers to manylangs", "convert ok.hdf5 -o c.hdf5 --layout manylangs", SAYS, HINT, makes=(OK,), code=2),
    Bad("a layer that is not there", "convert ok.hdf5 -o c.hdf5 --layers 9", SAYS, HINT, makes=(OK,), code=2),
    Bad("unknown words to flat", "convert b.hdf5 -o c.hdf5 --layout flat", SAYS, HINT, makes=(stocked("bilm.hdf5", name="b.hdf5"),), code=2),
    Bad("unknown layout", "convert ok.hdf5 -o c.hdf5 --layout json", SAYS, HINT, makes=(OK,), code=2),
    Bad("converted file is there", "convert ok.hdf5 -o out.hdf5 --dtype float16", SAYS, HINT, makes=(OK,)),
    Bad("beyond float16", "convert ok.hdf5 -o c.hdf5 --dtype float16", SAYS, HINT, makes=(OK, hdf5("ok.hdf5", lambda f: f["1"].write_direct(np.full(f["1"].shape, 7e4, "f4"))))),
]

INSPECT = [
    Bad("nothing to inspect", "inspect nosuch.hdf5", SAYS, HINT),
    Bad("a folder to inspect", "inspect .", SAYS, HINT),
    Bad("text to inspect", "inspect -q a.txt", SAYS, HINT, makes=(file("a.txt"),)),
    Bad("empty file", "inspect -q a.hdf5", SAYS, HINT, makes=(file("a.hdf5", b""),)),
    Bad("gz to inspect", "inspect -q a.gz", SAYS, HINT, makes=(file("a.gz", b"\x1f\x8b\x08\x00"),)),
    Bad("file cut off", "inspect -q ok.hdf5", SAYS, HINT, makes=(OK, cut("ok.hdf5", 2000))),
    Bad("no end mark", "inspect -q ok.hdf5", SAYS, HINT, makes=(OK, hdf5("ok.hdf5", lambda f: f.attrs.pop("complete")))),
    Bad("unfinished file", "inspect -q long.hdf5.part", SAYS, HINT, makes=(stocked("long.hdf5.part", "long.hdf5.part.journal"),)),
    Bad("NaN in a sentence", "inspect -q ok.hdf5", SAYS, HINT, makes=(OK, hdf5("ok.hdf5", _nan))),
    Bad("a sentence is missing", "inspect -q ok.hdf5", SAYS, HINT, makes=(OK, hdf5("ok.hdf5", lambda f: f.pop("1")))),
    Bad("integers", "inspect -q a.hdf5", SAYS, HINT, makes=(hdf5("a.hdf5", lambda f: f.create_dataset("0", data=np.arange(5))),)),
    Bad("no datasets", "inspect -q a.hdf5", SAYS, HINT, makes=(hdf5("a.hdf5", lambda f: f.create_group("x")),)),
    Bad("a newer file", "inspect -q ok.hdf5", SAYS, HINT, makes=(OK, hdf5("ok.hdf5", lambda f: f.attrs.modify("elmo_schema", 9)))),
    Bad("made with another model", "inspect -q ok.hdf5 --sample 2 -m odd", SAYS, HINT, makes=(OK, stocked("odd"))),
    Bad("text with other sentences", "inspect -q ok.hdf5 --against b.txt", SAYS, HINT, makes=(OK, file("b.txt", "The cat .\n"))),
    Bad("missing text to compare", "inspect -q ok.hdf5 --against nosuch.conllu", SAYS, HINT, makes=(OK,)),
    Bad("--sample without its text", "inspect -q bilm.hdf5 --sample 2", SAYS, HINT, makes=(stocked("bilm.hdf5"),), code=2),
    Bad("--sample with another text", "inspect -q bilm.hdf5 --sample 2 --text b.txt", SAYS, HINT, makes=(stocked("bilm.hdf5"), file("b.txt", "The\n"))),
    Bad("--sample 0", "inspect -q ok.hdf5 --sample 0", SAYS, HINT, makes=(OK,), code=2),
]
HDF5 = MERGE + CONVERT + INSPECT
