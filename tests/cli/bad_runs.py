"""Bad input: runs that can't be gone on with."""

from __future__ import annotations

from situations import bad, cut, file, in_a_dry_run, stocked

UNFINISHED = stocked("long.txt", "long.hdf5.part", "long.hdf5.part.journal")
GO_ON = "embed -q long.txt -o long.hdf5 --resume"
FIRST_TEXT = "give the text that the run began with, or `--overwrite` to start anew"
ANEW = "`--overwrite` starts the run anew"

RUNS = [
    bad(
        "unfinished output is there",
        "embed -q long.txt -o long.hdf5",
        "long.hdf5.part: unfinished, 1000 sentences",
        "`--resume` goes on, `--overwrite` starts anew",
        UNFINISHED,
    ),
    bad(
        "--resume with another text",
        GO_ON,
        "long.hdf5.part: its first 1000 sentences are not those of the input given now",
        FIRST_TEXT,
        UNFINISHED,
        file("long.txt", "The dog .\n" * 1400),
    ),
    bad(
        "--resume with another model",
        f"{GO_ON} -m odd",
        "long.hdf5.part: unfinished, 1000 sentences, made with other model (tiny, now odd)",
        "`--overwrite` starts anew; `--resume` needs the first model",
        UNFINISHED,
        stocked("odd"),
    ),
    bad(
        "--resume with other layers",
        f"{GO_ON} --layers top",
        "long.hdf5.part: unfinished, 1000 sentences, made with other layers (all, now top)",
        "`--overwrite` starts anew; `--resume` needs the first layers",
        UNFINISHED,
    ),
    bad(
        "journal cut off",
        GO_ON,
        "/…/here/long.hdf5.part.journal: damaged, its check sum is wrong",
        ANEW,
        UNFINISHED,
        cut("long.hdf5.part.journal", 200),
    ),
    bad(
        "unfinished file cut off",
        GO_ON,
        "long.hdf5.part: damaged, 5000 bytes where its journal says …",
        ANEW,
        UNFINISHED,
        cut("long.hdf5.part", 5000),
    ),
    bad(
        "--resume onto a foreign file",
        "embed -q a.txt -o b.txt --resume",
        "b.txt: exists, and is not an embeddings file that a run of elmo finished",
        "`--overwrite` replaces it, `-o` names another file",
        file("b.txt", "precious"),
    ),
    bad(
        "--resume of a finished file, other settings",
        "embed -q a.txt -o ok.hdf5 --resume --layers top",
        "ok.hdf5: finished, made with other layers (all, now top)",
        "`--overwrite` starts anew; `--resume` needs the first layers",
        stocked("ok.hdf5"),
    ),
    bad(
        "--resume of a finished file, other text",
        "embed -q a.txt -o ok.hdf5 --resume",
        "ok.hdf5: finished with 2 sentences, the input has 7",
        FIRST_TEXT,
        file("a.txt", "The cat\n" * 7),
        stocked("ok.hdf5"),
    ),
]
# The length of an unfinished file is looked at when it is opened for writing.
RUNS += [in_a_dry_run(one) for one in RUNS if one.name != "unfinished file cut off"]
