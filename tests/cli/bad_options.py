"""Bad input: options that are nonsense, contradict each other, or do not suit the input."""

from __future__ import annotations

SAYS = HINT = "?"
from situations import Bad, file, hdf5, objects, options, stocked, weight

OK = (file("a.txt"),)
DOCUMENT = {"doc_key": "nw/a_0", "sentences": [["The", "cat"]]}

WORDS = [
    Bad("unknown command", "embd a.txt", SAYS, HINT, code=2),
    Bad("unknown option", "EMBED a.txt --overwrit", SAYS, HINT, code=2),
    Bad("option without value", "embed a.txt -o", SAYS, HINT, code=2),
    Bad("no input", "embed -o a.hdf5", SAYS, HINT, code=2),
    Bad("no output", "embed a.txt", SAYS, HINT, makes=OK, code=2),
    Bad("too many arguments", "convert a.hdf5 b.hdf5 -o c.hdf5", SAYS, HINT, code=2),
    Bad("--state nonsense", "EMBED a.txt --state fresh", SAYS, HINT, code=2),
    Bad("--layout nonsense", "EMBED a.txt --layout allenlp", SAYS, HINT, code=2),
    Bad("--threads 0", "EMBED a.txt --threads 0", SAYS, HINT, code=2),
    Bad("--threads huge", "EMBED a.txt --threads 99999999999", SAYS, HINT, makes=OK, code=2),
    Bad("--batch-size a word", "EMBED a.txt --batch-size many", SAYS, HINT, code=2),
    Bad("--max-tokens 0", "EMBED a.txt --max-tokens 0", SAYS, HINT, makes=OK, code=2),
    Bad("--max-tokens huge", f"EMBED a.txt --max-tokens {10**30}", SAYS, HINT, makes=OK, code=2),
    Bad("--column 0", "EMBED a.conll --column 0", SAYS, HINT, makes=(file("a.conll"),), code=2),
    Bad("--encoding unknown", "EMBED a.txt --encoding utf8000", SAYS, HINT, makes=OK, code=2),
    Bad("--encoding hex", "EMBED a.txt --encoding hex", SAYS, HINT, makes=OK, code=2),
    Bad("--input-format unknown", "EMBED a.txt --input-format xml", SAYS, HINT, makes=OK, code=2),
    Bad("--layers nonsense", "EMBED a.txt --layers best", SAYS, HINT, makes=OK, code=2),
    Bad("--layers not there", "EMBED a.txt --layers 0,7", SAYS, HINT, makes=OK, code=2),
    Bad("--layers twice", "EMBED a.txt --layers 1,1", SAYS, HINT, makes=OK, code=2),
    Bad("--layers empty", "EMBED a.txt --layers ''", SAYS, HINT, makes=OK, code=2),
    Bad("--layers mix of two", "EMBED a.txt --layers mix:1,2", SAYS, HINT, makes=OK, code=2),
    Bad("--layers mix of words", "EMBED a.txt --layers mix:a,b,c", SAYS, HINT, makes=OK, code=2),
    Bad("--layers mix not finite", "EMBED a.txt --layers mix:nan,1,1", SAYS, HINT, makes=OK, code=2),
    Bad("--shard 0/3", "EMBED a.txt --shard 0/3", SAYS, HINT, makes=OK, code=2),
    Bad("--shard 4/3", "EMBED a.txt --shard 4/3", SAYS, HINT, makes=OK, code=2),
    Bad("--shard a/b", "EMBED a.txt --shard a/b", SAYS, HINT, makes=OK, code=2),
    Bad("--shard 1/0", "EMBED a.txt --shard 1/0", SAYS, HINT, makes=OK, code=2),
    Bad("--device unknown", "EMBED a.txt --device gpu", SAYS, HINT, makes=OK, code=2),
    Bad("--device cpu:1", "EMBED a.txt --device cpu:1", SAYS, HINT, makes=OK, code=2),
    Bad("--device mps", "EMBED a.txt --device mps", SAYS, HINT, makes=OK),
    Bad("$ELMO_DEVICE", "EMBED a.txt", SAYS, HINT, makes=OK, code=2, env={"ELMO_DEVICE": "tpu"}),
    Bad("$ELMO_MODEL", "EMBED a.txt", SAYS, HINT, makes=OK, env={"ELMO_MODEL": "orginal"}),
]

TOGETHER = [
    Bad("--overwrite --resume", "EMBED a.txt --resume", SAYS, HINT, makes=OK, code=2),
    Bad("--shard --state carry", "EMBED a.txt --shard 1/2 --state carry", SAYS, HINT, makes=OK, code=2),
    Bad("--shard of stdin", "EMBED - --shard 1/2", SAYS, HINT, code=2),
    Bad("stdin twice", "EMBED - -", SAYS, HINT, code=2),
    Bad("stdin into a folder", "embed - -o vectors/", SAYS, HINT, code=2),
    Bad("stdin --dry-run", "EMBED - --dry-run", SAYS, HINT, code=2, stdin=b"The cat\n"),
    Bad("--format for a file", "EMBED a.txt --format npy", SAYS, HINT, makes=OK, code=2),
    Bad("--format unknown", "embed a.txt -q -o - --format conll", SAYS, HINT, makes=OK, code=2),
    Bad("stdout --resume", "embed a.txt -q -o - --resume", SAYS, HINT, makes=OK, code=2),
    Bad("stdout --layout", "embed a.txt -q -o - --layout bilm", SAYS, HINT, makes=OK, code=2),
    Bad("stdout --json", "embed a.txt -q -o - --json", SAYS, HINT, makes=OK, code=2),
    Bad("stdout --keys", "embed a.txt -q -o - --keys sentence", SAYS, HINT, makes=OK, code=2),
    Bad("stdout --dry-run", "embed a.txt -q -o - --dry-run", SAYS, HINT, makes=OK, code=2),
    Bad("--keys with another layout", "EMBED a.txt --keys sentence --layout bilm", SAYS, HINT, makes=OK, code=2),
    Bad("--forget-sentences with flat", "EMBED a.txt --forget-sentences --layout flat", SAYS, HINT, makes=OK, code=2),
    Bad("--column of plain text", "EMBED a.txt --column 2", SAYS, HINT, makes=OK, code=2),
    Bad("--tokenize of columns", "EMBED a.conllu --tokenize", SAYS, HINT, makes=(file("a.conllu"),), code=2),
    Bad("a model and a pair", "EMBED a.txt -m small --options o.json --weights w.hdf5", SAYS, HINT, makes=OK, code=2),
    Bad("half a pair", "EMBED a.txt --weights w.hdf5", SAYS, HINT, makes=OK, code=2),
    Bad("inspect --sample of weights", "inspect tiny/weights.hdf5 --sample 3", SAYS, HINT, makes=(stocked("tiny"),), code=2),
]

LAYOUTS = [
    Bad("manylangs of all layers", "EMBED a.txt --layout manylangs", SAYS, HINT, makes=OK, code=2),
    Bad("manylangs of a blank line", "EMBED a.txt --layout manylangs --layers top", SAYS, HINT, makes=(file("a.txt", "The\n\n"),)),
    Bad("bilm-types --layers", "EMBED a.txt --layout bilm-types --layers top", SAYS, HINT, makes=OK, code=2),
    Bad("bilm-types of sentences", "EMBED a.txt --layout bilm-types", SAYS, HINT, makes=OK),
    Bad("e2e-coref of lines", "EMBED a.txt --layout e2e-coref", SAYS, HINT, makes=OK, code=2),
    Bad("lsgn of lines", "EMBED a.txt --layout lsgn", SAYS, HINT, makes=OK, code=2),
    Bad("dygie of lines", "EMBED a.txt --layout dygie", SAYS, HINT, makes=OK, code=2),
    Bad("same document twice", "EMBED a.jsonl --layout e2e-coref", SAYS, HINT, makes=(objects("a.jsonl", DOCUMENT, DOCUMENT),)),
    Bad("same document in two files", "EMBED a.jsonl b.jsonl --layout lsgn", SAYS, HINT, makes=(objects("a.jsonl", {**DOCUMENT, "doc_key": "x"}), objects("b.jsonl", {**DOCUMENT, "doc_key": "x"}))),
    Bad("same sentence twice", "EMBED a.txt --keys sentence", SAYS, HINT, makes=(file("a.txt", "It slept\nThe cat\nIt slept\n"),)),
    Bad("sentence within another's key", "EMBED a.txt --keys sentence", SAYS, HINT, makes=(file("a.txt", "and\nand/or\n"),)),
    Bad("sentence that HDF5 can't name", "EMBED a.txt --keys sentence", SAYS, HINT, makes=(file("a.txt", "yes\n1 / .\n. /./ x\n"),)),
    Bad("blank line as a key", "EMBED a.txt --keys sentence", SAYS, HINT, makes=(file("a.txt", "yes\n\n"),)),
    Bad("sentence of 70 kB as a key", "EMBED a.txt --keys sentence", SAYS, HINT, makes=(file("a.txt", "cat " * 17_500),)),
    Bad("float16 overflow", "EMBED a.txt -m tiny --dtype float16", SAYS, HINT, makes=(*OK, stocked("tiny"), options(lstm__proj_clip=None), *(weight(f"RNN_0/RNN/MultiRNNCell/Cell{k}/LSTMCell/W_P_0", lambda w: w * 1e6) for k in (0, 1)))),
    Bad("float32 overflow", "EMBED a.txt -m tiny", SAYS, HINT, makes=(*OK, stocked("tiny"), options(lstm__proj_clip=None, lstm__cell_clip=None), *(weight(f"RNN_0/RNN/MultiRNNCell/Cell{k}/LSTMCell/W_P_0", lambda w: w * 1e38) for k in (0, 1)))),
]
OPTIONS = WORDS + TOGETHER + LAYOUTS
