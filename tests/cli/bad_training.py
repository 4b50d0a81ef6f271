"""Bad input: texts, settings and folders that nothing can be trained with."""

from __future__ import annotations

from situations import bad, file, stocked

PRETRAIN = "pretrain -q a.txt -o m --cell 8 --projection 4 --rows 2 --max-steps 300"
TEXT = file("a.txt", "The cat sat .\n" * 40)
RUN = file("m/checkpoint.pt", b"\x80\x02")
# What a run has written before its first step.
BEGUN = ("checkpoint.pt", "options.json", "recipe.json", "text.npz", "vocab.txt")

TRAINING = [
    bad(
        "no text to train on",
        "pretrain nosuch.txt -o m --max-steps 1",
        "nosuch.txt: no such file",
        "check the name; the working directory is …",
    ),
    bad(
        "empty text",
        "pretrain -q b.txt -o m --max-steps 1",
        "b.txt: no sentence in it",
        "give a text with tokens in it",
        file("b.txt", ""),
    ),
    bad(
        "too short a text",
        PRETRAIN,
        "the text: 7 tokens are less than one window of 2 rows and 20 steps",
        "give more text",
    ),
    bad(
        "empty held-out text",
        f"{PRETRAIN} --heldout b.txt",
        "b.txt: no sentence in it",
        "give a text with tokens in it",
        TEXT,
        file("b.txt", "\n"),
    ),
    bad(
        "Latin-1 to train on",
        PRETRAIN,
        "a.txt, line 1, byte 3: 0xE9 is not UTF-8",
        "if the file is Latin-1, add `encoding='latin-1'`",
        file("a.txt", "café\n".encode("latin-1")),
    ),
    *(
        bad(
            f"{name} in the place of the new one",
            PRETRAIN,
            f"m: holds {name}, which would be replaced",
            "`-o DIR` names another folder; or `--overwrite`",
            TEXT,
            file(f"m/{name}", "precious"),
        )
        for name in ("options.json", "vocab.txt", "softmax.hdf5", "state.hdf5")
    ),
    bad(
        "a folder with another model",
        f"{PRETRAIN} --overwrite",
        "m: holds the model model.hdf5",
        "`-o DIR` names another folder",
        TEXT,
        file("m/model.hdf5", "precious"),
    ),
    bad(
        "a text that the vocabulary would replace",
        "pretrain -q m/vocab.txt -o m --overwrite --max-steps 1",
        "m/vocab.txt: read as text, and written to as vocab.txt",
        "`-o DIR` names another folder",
        file("m/vocab.txt", "The cat sat .\n"),
        code=2,
    ),
    bad(
        "a model without a softmax to begin with",
        "pretrain -q a.txt -o m --from tiny --max-steps 1",
        "tiny: has no softmax with its vocabulary, so it can't go on training",
        "`elmo finetune` fits one to a text and trains both",
        TEXT,
        stocked("tiny"),
    ),
    bad(
        "no end of training",
        "pretrain a.txt -o m",
        "neither --max-seconds nor --max-steps… is given",
        "`--max-seconds 3600` trains for an hour",
        code=2,
    ),
    *(
        bad(
            f"--seed {seed} of {command}",
            f"{command} a.txt -o m --max-steps 1 --seed {seed}",
            f"invalid value for '--seed': {seed} is not in the range 0<=x<=9223372036854775807",
            f"`elmo {command} --help` shows all options and examples",
            code=2,
        )
        for command in ("pretrain", "finetune")
        for seed in (-1, 2**63)
    ),
    bad(
        "--rate below zero",
        f"{PRETRAIN} --rate -1",
        "invalid value for '--rate': -1.0 is not in the range x>0",
        "`elmo pretrain --help` shows all options and examples",
        code=2,
    ),
    bad(
        "--rate too high",
        f"{PRETRAIN} --rate 1e30",
        "step 2: the loss… at a rate of 1e+30",
        "`--resume --rate 2.5e+29` goes on from the last checkpoint",
        TEXT,
        leaves=("m", *(f"m/{name}" for name in BEGUN)),
    ),
    bad(
        "a vocabulary without <S>",
        f"{PRETRAIN} --vocabulary v.txt",
        "v.txt, lines 1 to 2: <S> is not among the types",
        "a vocabulary begins with <S>, </S>, <UNK>, one per line",
        TEXT,
        file("v.txt", "the\ncat\n"),
    ),
    bad(
        "a run is there",
        PRETRAIN,
        "m: holds checkpoint.pt of an earlier run",
        "`--resume` goes on with it, `--overwrite` begins anew",
        TEXT,
        RUN,
    ),
    bad(
        "a file in the place of the model",
        PRETRAIN,
        "m: a file, not a folder",
        "name a folder with `-o`",
        TEXT,
        file("m", "precious"),
    ),
    bad(
        "no run to go on with",
        f"{PRETRAIN} --resume",
        "m/checkpoint.pt: no such checkpoint",
        "start without `--resume`",
        TEXT,
    ),
    bad(
        "checkpoint damaged",
        "pretrain -q a.txt -o m --rows 2 --max-steps 300 --resume",
        "m/checkpoint.pt: not a …checkpoint…",
        "…`--overwrite`…",
        TEXT,
        RUN,
        stocked("tiny/options.json", name="m/options.json"),
        file("m/vocab.txt", "<S>\n</S>\n<UNK>\nThe\n"),
    ),
    bad(
        "train anew and go on",
        f"{PRETRAIN} --resume --overwrite",
        "--overwrite and --resume: one begins anew, the other goes on",
        "leave out `--overwrite` to keep what is done",
        TEXT,
        RUN,
        code=2,
    ),
    bad(
        "empty text to count",
        "vocab -q b.txt -o v.txt",
        "b.txt: no sentence in it",
        "give a text with tokens",
        file("b.txt", "\n"),
    ),
    bad(
        "vocabulary over its text",
        "vocab a.txt -o a.txt --overwrite",
        "a.txt: is one of the inputs",
        "`-o` names another file",
        code=2,
    ),
    bad(
        "perplexity without a softmax",
        "perplexity -q a.txt -m tiny",
        "tiny: this model has no softmax: no softmax.hdf5 beside weights.hdf5, nor softmax/W in it",
        "`--softmax FILE` names one, …",
        stocked("tiny"),
    ),
]
