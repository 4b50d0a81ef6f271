"""Bad input: words of the command line that are missing or make no sense by themselves."""

from __future__ import annotations

from situations import bad, file

EMBED_HELP = "`elmo embed --help` shows all options and examples"
LAYER_FORMS = (
    "`--layers` takes all, top, average, layer numbers such as 0,2, or mix:w0,w1,w2[,gamma]"
)
DEVICES = "`--device cpu` runs anywhere; `--device auto` takes what there is"

WORDS = [
    bad(
        "unknown command",
        "embd a.txt",
        "no command named `embd`, did you mean `embed`?",
        "`elmo --help` shows all commands",
        code=2,
    ),
    bad(
        "unknown option",
        "EMBED a.txt --overwrit",
        "no such option…--overwrit…--overwrite…",
        EMBED_HELP,
        code=2,
    ),
    bad(
        "debug behind the command",
        "models pull small --debug",
        "no such option '--debug'",
        "it stands before the command: `elmo --debug models pull …`",
        code=2,
    ),
    bad(
        "option without value",
        "embed a.txt -o",
        "option '-o' requires an argument",
        EMBED_HELP,
        code=2,
    ),
    bad(
        "no input",
        "embed -o a.hdf5",
        "no input FILE is given",
        "name text files, or `-` for standard input",
        code=2,
    ),
    bad(
        "no output",
        "embed a.txt",
        "no output is given",
        "`-o FILE` writes HDF5, `-o -` to standard output",
        code=2,
    ),
]

VALUES = [
    bad(
        "--state nonsense",
        "EMBED a.txt --state fresh",
        "invalid value for '--state': 'fresh' is not one of 'zero', 'warm', 'carry', 'document'",
        EMBED_HELP,
        code=2,
    ),
    bad(
        "--threads 0",
        "EMBED a.txt --threads 0",
        "invalid value for '--threads': 0 is not in the range 1<=x<=1024",
        EMBED_HELP,
        code=2,
    ),
    bad(
        "--batch-size a word",
        "EMBED a.txt --batch-size many",
        "invalid value for '--batch-size': 'many' is not a whole number",
        EMBED_HELP,
        code=2,
    ),
    bad(
        "--max-tokens 0",
        "EMBED a.txt --max-tokens 0",
        "`max_tokens=0`: out of range",
        "give a number from 1 to 1073741824",
        code=2,
    ),
    bad(
        "--column 0",
        "EMBED a.conll --column 0",
        "`column=0`: columns are counted from 1",
        "1 is the first, -1 the last",
        file("a.conll"),
        code=2,
    ),
    bad(
        "--encoding unknown",
        "EMBED a.txt --encoding utf8000",
        "`encoding='utf8000'`: not a text encoding",
        "try utf-8, latin-1, cp1252 or utf-16",
        code=2,
    ),
    bad(
        "--layers nonsense",
        "EMBED a.txt --layers best",
        "--layers best: not a choice of layers",
        LAYER_FORMS,
        code=2,
    ),
    bad(
        "--layers not there",
        "EMBED a.txt --layers 0,7",
        "--layers 0,7: the model has layers 0 to 2",
        "0 is the token layer",
        code=2,
    ),
    bad(
        "--layers mix of two",
        "EMBED a.txt --layers mix:1,2",
        "--layers mix:1,2: 2 numbers, the model needs 3 weights, and gamma if you like",
        LAYER_FORMS,
        code=2,
    ),
    *(
        bad(
            f"--layers mix beyond float32, {mix}",
            f"EMBED a.txt --layers mix:{mix}",
            f"--layers mix:{mix}: the weight {weight} is beyond float32 (at most 3.4028e+38)",
            "give smaller weights, or a smaller gamma",
            code=2,
        )
        for mix, weight in (
            ("1e39,1,1", "1e+39 of layer 0"),
            ("1,1,-1e20,1e20", "-1e+40 of layer 2"),
        )
    ),
    bad(
        "--shard 4/3",
        "EMBED a.txt --shard 4/3",
        "--shard 4/3: i = 4 is greater than n = 3",
        "i goes from 1 to n: `--shard 1/3`",
        code=2,
    ),
    bad(
        "--shard a/b",
        "EMBED a.txt --shard a/b",
        "--shard a/b: not of the form i/n",
        "for example `--shard 3/16`",
        code=2,
    ),
    bad(
        "--device unknown",
        "EMBED a.txt --device gpu",
        "--device gpu: not auto, cpu, cuda, cuda:N or mps",
        DEVICES,
        code=2,
    ),
    bad(
        "--device not there",
        "EMBED a.txt --device cuda:99",
        "--device cuda:99: …",
        DEVICES,
    ),
    bad(
        "$ELMO_DEVICE",
        "EMBED a.txt",
        "--device tpu: not auto, cpu, cuda, cuda:N or mps",
        f"{DEVICES}; $ELMO_DEVICE says `tpu`",
        code=2,
        env={"ELMO_DEVICE": "tpu"},
    ),
    bad(
        "$ELMO_MODEL",
        "EMBED a.txt",
        "no model named `orginal`",
        "did you mean `original`? `elmo models list` shows all names; $ELMO_MODEL says `orginal`",
        env={"ELMO_MODEL": "orginal"},
    ),
]
OPTIONS = WORDS + VALUES
