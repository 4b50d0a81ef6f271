"""Bad input: places that can't be written to, or are read from as well."""

from __future__ import annotations

from situations import bad, file, folder, hard_link, link, stocked

SHARDS = stocked("part-1.hdf5", "part-2.hdf5")
MERGE = "merge part-1.hdf5 part-2.hdf5"
ANOTHER = "`-o` names another file"

# What one process writes it writes into files.
FAR = [
    bad(
        f"a URL for {words.partition(' ')[0]}",
        f"{words} -o s3://name:key@bucket/x",
        "s3://***@bucket/x: only `elmo embed --ray` writes to a URL",
        "`-o` with a path, and copy it there",
        code=2,
    )
    for words in (
        MERGE,
        "convert part-1.hdf5 --layout flat",
        "vocab a.txt",
        "tokenize a.txt",
        "pretrain a.txt",
        "finetune --domain texts",
        "curves log.jsonl",
    )
]

PLACES = [
    *FAR,
    bad(
        "output is there",
        "embed -q a.txt -o out.hdf5",
        "out.hdf5: exists",
        "`--overwrite` replaces it, `-o` names another file",
    ),
    bad(
        "output a folder",
        f"{MERGE} -o texts",
        "texts: is a folder",
        "name a file in it, such as `-o DIR/out.hdf5`",
        SHARDS,
        folder("texts"),
    ),
    bad(
        "output ends in a slash",
        f"{MERGE} -o texts/",
        "texts/: is a folder",
        "name a file in it, such as `-o DIR/out.hdf5`",
        SHARDS,
    ),
    bad(
        "merge to stdout",
        f"{MERGE} -o -",
        "--output -: HDF5 needs a file on a disk",
        "`-o FILE` names one",
        SHARDS,
        code=2,
    ),
    bad(
        "no such folder",
        "embed -q a.txt -o far/away.hdf5",
        "far/away.hdf5: there is no folder far",
        "`mkdir -p far`",
    ),
    bad(
        "a file in the place of the folder",
        "embed -q a.txt -o a.txt/b.hdf5",
        "a.txt/b.hdf5: a.txt is not a folder",
        "choose another place with `-o`",
    ),
    bad(
        "a link to no folder",
        "embed -q a.txt -o to.hdf5",
        "to.hdf5: there is no folder …/nowhere",
        "`mkdir -p …/nowhere`",
        link("to.hdf5", "nowhere/out.hdf5"),
    ),
    bad(
        "standard output by its name",
        "embed -q a.txt -o /dev/stdout",
        "/dev/stdout: not a regular file",
        "`-o -` writes to standard output",
    ),
    bad(
        "somebody's unfinished file",
        "embed -q a.txt -o b.hdf5",
        "b.hdf5.part: is there already, and `elmo embed` did not make it",
        "move it away, or name another file with `-o`",
        file("b.hdf5.part", "precious"),
    ),
    bad(
        "somebody's unfinished file to go on with",
        "embed -q a.txt -o b.hdf5 --resume",
        "b.hdf5.part: is there already, and `elmo embed` did not make it",
        "move it away, or name another file with `-o`",
        file("b.hdf5.part", "precious"),
    ),
    bad(
        "text under the name of a packed one",
        "tokenize a.txt -o b.txt.XZ",
        "b.txt.XZ: would be plain text under this name",
        "leave out the suffix and compress it afterwards, or `-` for a pipe to do so",
    ),
    bad(
        "a vocabulary under the name of a packed one",
        "vocab a.txt -o b.gz",
        "b.gz: would be plain text under this name",
        "leave out the suffix and compress it afterwards, or `-` for a pipe to do so",
    ),
    bad(
        "a folder that can't be made",
        "embed -q a.txt -o a.txt/b/",
        "a.txt/b/: no such folder can be made (Not a directory)",
        "choose another place",
    ),
    bad(
        "a device",
        "embed -q a.txt -o /dev/null --overwrite",
        "/dev/null: not a regular file",
        "HDF5 needs a file on a disk, `-o out.hdf5`",
    ),
    bad(
        "one name for two inputs",
        "embed -q a.txt b/a.txt -o vectors/",
        "a.txt and b/a.txt would both be written to vectors/a.hdf5",
        "embed them one by one with `-o FILE`",
        file("b/a.txt"),
        code=2,
    ),
    bad(
        "one output of the folder is there",
        "embed -q a.txt b.txt -o vectors/",
        "vectors/b.hdf5: exists",
        "`--overwrite` replaces it, `-o` names another file",
        file("b.txt"),
        file("vectors/b.hdf5", "precious"),
    ),
    bad(
        "no model for a new folder",
        "embed -q a.txt -m nosuch -o vectors/",
        "no model named `nosuch`",
        "`elmo models list` shows all names; a path to a folder, a zip or a tar.gz works too",
    ),
]

INPUTS = [
    bad(
        "output is the input",
        "embed -q a.txt -o a.txt --overwrite",
        "a.txt: is one of the inputs",
        ANOTHER,
        code=2,
    ),
    bad(
        "output links to the input",
        "embed -q a.txt -o l.hdf5 --overwrite",
        "l.hdf5: is one of the inputs, there called a.txt",
        ANOTHER,
        link("l.hdf5", "a.txt"),
        code=2,
    ),
    bad(
        "one file with two names",
        "embed -q b.txt a.txt -o b.hdf5 --overwrite",
        "b.hdf5: is one of the inputs, there called a.txt",
        ANOTHER,
        file("b.txt"),
        hard_link("b.hdf5", "a.txt"),
        code=2,
    ),
    bad(
        "output in a folder is an input",
        "embed -q a.txt v/a.hdf5 -o v/ --overwrite",
        "v/a.hdf5: is one of the inputs",
        ANOTHER,
        file("v/a.hdf5"),
        code=2,
    ),
    bad(
        "input is the unfinished output",
        "embed -q a.hdf5.part -o a.hdf5 --overwrite",
        "a.hdf5: made by way of a.hdf5.part, which is one of the inputs",
        ANOTHER,
        file("a.hdf5.part"),
        code=2,
    ),
    bad(
        "output is the model",
        "embed -q a.txt -m tiny -o tiny/weights.hdf5 --overwrite",
        "tiny/weights.hdf5: is a file of the model",
        ANOTHER,
        stocked("tiny"),
        code=2,
    ),
    bad(
        "output lies beside the model",
        "embed -q a.txt -m tiny/weights.hdf5 -o tiny/options.json --overwrite",
        "tiny/options.json: is a file of the model",
        ANOTHER,
        stocked("tiny"),
        code=2,
    ),
    bad(
        "merged into a shard",
        f"{MERGE} -o l.hdf5 --overwrite",
        "l.hdf5: is one of the shards, there called part-2.hdf5",
        "`-o` names another file",
        SHARDS,
        link("l.hdf5", "part-2.hdf5"),
        code=2,
    ),
    bad(
        "a shard is the unfinished output",
        "merge -q part-1.hdf5 m.hdf5.part -o m.hdf5",
        "m.hdf5: made by way of m.hdf5.part, which is one of the shards",
        ANOTHER,
        SHARDS,
        stocked("part-2.hdf5", name="m.hdf5.part"),
        code=2,
    ),
    bad(
        "the file to convert is the unfinished output",
        "convert ok.hdf5.part -o ok.hdf5",
        "ok.hdf5: made by way of ok.hdf5.part, which is the file to convert",
        ANOTHER,
        stocked("ok.hdf5", name="ok.hdf5.part"),
        code=2,
    ),
    bad(
        "a whole file under the name of the unfinished one",
        "embed -q a.txt -o b.hdf5 --overwrite",
        "b.hdf5.part: is there already, and `elmo embed` did not make it",
        "move it away, or name another file with `-o`",
        stocked("ok.hdf5", name="b.hdf5.part"),
    ),
    bad(
        "converted into itself",
        "convert ok.hdf5 -o l.hdf5 --overwrite --dtype float16",
        "l.hdf5: is the file to convert, there called ok.hdf5",
        "`-o` names another file",
        stocked("ok.hdf5"),
        link("l.hdf5", "ok.hdf5"),
        code=2,
    ),
]
OUTPUT = PLACES + INPUTS
