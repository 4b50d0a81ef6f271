"""Bad input: places that can't be written to, and runs that can't be gone on with."""

from __future__ import annotations

SAYS = HINT = "?"
from situations import Bad, cut, file, folder, hard_link, link, stocked

OK = (file("a.txt"),)
UNFINISHED = (stocked("long.txt", "long.hdf5.part", "long.hdf5.part.journal"),)
GO_ON = "embed -q long.txt -o long.hdf5 --resume"

PLACES = [
    Bad("output is there", "embed -q a.txt -o out.hdf5", SAYS, HINT, makes=OK),
    Bad("output a folder", "merge part-1.hdf5 part-2.hdf5 -o texts", SAYS, HINT, makes=(folder("texts"), stocked("part-1.hdf5", "part-2.hdf5"))),
    Bad("output ends in a slash", "merge part-1.hdf5 part-2.hdf5 -o texts/", SAYS, HINT, makes=(stocked("part-1.hdf5", "part-2.hdf5"),)),
    Bad("merge to stdout", "merge part-1.hdf5 part-2.hdf5 -o -", SAYS, HINT, makes=(stocked("part-1.hdf5", "part-2.hdf5"),), code=2),
    Bad("convert to stdout", "convert ok.hdf5 -o -", SAYS, HINT, makes=(stocked("ok.hdf5"),), code=2),
    Bad("no name", "embed -q a.txt -o ''", SAYS, HINT, makes=OK, code=2),
    Bad("no such folder", "embed -q a.txt -o far/away.hdf5", SAYS, HINT, makes=OK),
    Bad("a file in the place of the folder", "embed -q a.txt -o a.txt/b.hdf5", SAYS, HINT, makes=OK),
    Bad("a folder that can't be made", "embed -q a.txt -o a.txt/b/", SAYS, HINT, makes=OK),
    Bad("a device", "embed -q a.txt -o /dev/null --overwrite", SAYS, HINT, makes=OK),
    Bad("link to itself", "embed -q a.txt -o l.hdf5", SAYS, HINT, makes=(*OK, link("l.hdf5", "l.hdf5"))),
    Bad("name too long", f"embed -q a.txt -o {'a' * 300}", SAYS, HINT, makes=OK),
    Bad("one name for two inputs", "embed -q a.txt b/a.txt -o vectors/", SAYS, HINT, makes=(*OK, file("b/a.txt")), code=2),
    Bad("one input twice", "embed -q a.txt ./a.txt -o vectors/", SAYS, HINT, makes=OK, code=2),
    Bad("one output of the folder is there", "embed -q a.txt b.txt -o vectors/", SAYS, HINT, makes=(*OK, file("b.txt"), file("vectors/b.hdf5", "precious"))),
    Bad("no model for a new folder", "embed -q a.txt -m nosuch -o vectors/", SAYS, HINT, makes=OK),
]

INPUTS = [
    Bad("output is the input", "embed -q a.txt -o a.txt --overwrite", SAYS, HINT, makes=OK, code=2),
    Bad("output is the second input", "embed -q a.txt b.txt -o ./b.txt --overwrite", SAYS, HINT, makes=(*OK, file("b.txt")), code=2),
    Bad("output links to the input", "embed -q a.txt -o l.hdf5 --overwrite", SAYS, HINT, makes=(*OK, link("l.hdf5", "a.txt")), code=2),
    Bad("input links to the output", "embed -q l.txt -o b.txt --overwrite", SAYS, HINT, makes=(file("b.txt"), link("l.txt", "b.txt")), code=2),
    Bad("one file with two names", "embed -q a.txt -o b.hdf5 --overwrite", SAYS, HINT, makes=(*OK, hard_link("b.hdf5", "a.txt")), code=2),
    Bad("output in a folder is an input", "embed -q a.txt v/a.hdf5 -o v/ --overwrite", SAYS, HINT, makes=(*OK, file("v/a.hdf5")), code=2),
    Bad("input is the unfinished output", "embed -q a.hdf5.part -o a.hdf5 --overwrite", SAYS, HINT, makes=(file("a.hdf5.part"),), code=2),
    Bad("input is the journal", "embed -q a.hdf5.part.journal -o a.hdf5", SAYS, HINT, makes=(file("a.hdf5.part.journal"),), code=2),
    Bad("output is the model", "embed -q a.txt -m tiny -o tiny/weights.hdf5 --overwrite", SAYS, HINT, makes=(*OK, stocked("tiny")), code=2),
    Bad("output is the options", "embed -q a.txt --options tiny/options.json --weights tiny/weights.hdf5 -o tiny/options.json --overwrite", SAYS, HINT, makes=(*OK, stocked("tiny")), code=2, env={"ELMO_MODEL": "small"}),
    Bad("merged into a shard", "merge part-1.hdf5 part-2.hdf5 -o part-1.hdf5 --overwrite", SAYS, HINT, makes=(stocked("part-1.hdf5", "part-2.hdf5"),), code=2),
    Bad("merged into a shard by a link", "merge part-1.hdf5 part-2.hdf5 -o l.hdf5 --overwrite", SAYS, HINT, makes=(stocked("part-1.hdf5", "part-2.hdf5"), hard_link("l.hdf5", "part-2.hdf5")), code=2),
    Bad("converted into itself", "convert ok.hdf5 -o l.hdf5 --overwrite --dtype float16", SAYS, HINT, makes=(stocked("ok.hdf5"), link("l.hdf5", "ok.hdf5")), code=2),
]

RUNS = [
    Bad("unfinished output is there", "embed -q long.txt -o long.hdf5", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume with another text", GO_ON, SAYS, HINT, makes=(*UNFINISHED, file("long.txt", "The dog .\n" * 1400))),
    Bad("--resume with a shorter text", GO_ON, SAYS, HINT, makes=(*UNFINISHED, file("long.txt", "The cat .\n" * 5))),
    Bad("--resume with another model", f"{GO_ON} -m odd", SAYS, HINT, makes=(*UNFINISHED, stocked("odd"))),
    Bad("--resume with other layers", f"{GO_ON} --layers top", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume with another layout", f"{GO_ON} --layout bilm", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume with another dtype", f"{GO_ON} --dtype float16", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume with another state", f"{GO_ON} --state warm", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume as a shard", f"{GO_ON} --shard 1/2", SAYS, HINT, makes=UNFINISHED),
    Bad("--resume with another encoding of the text", f"{GO_ON} --encoding utf-16-le", SAYS, HINT, makes=UNFINISHED),
    Bad("journal cut off", GO_ON, SAYS, HINT, makes=(*UNFINISHED, cut("long.hdf5.part.journal", 200))),
    Bad("journal of another program", GO_ON, SAYS, HINT, makes=(*UNFINISHED, file("long.hdf5.part.journal", "done 5\n"))),
    Bad("unfinished file cut off", GO_ON, SAYS, HINT, makes=(*UNFINISHED, cut("long.hdf5.part", 5000))),
    Bad("--resume onto a foreign file", "embed -q a.txt -o b.txt --resume", SAYS, HINT, makes=(*OK, file("b.txt", "precious"))),
    Bad("--resume of a finished file, other settings", "embed -q a.txt -o ok.hdf5 --resume --layers top", SAYS, HINT, makes=(*OK, stocked("ok.hdf5"))),
    Bad("--resume of a finished file, other text", "embed -q a.txt -o ok.hdf5 --resume", SAYS, HINT, makes=(file("a.txt", "The cat\n" * 7), stocked("ok.hdf5"))),
]
OUTPUT = PLACES + INPUTS + RUNS
