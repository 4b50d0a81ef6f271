"""Bad input: options that contradict each other, or do not suit the input."""

from __future__ import annotations

from situations import bad, file, in_a_dry_run, objects, options, stocked, weight

DOCUMENT = {"doc_key": "nw/a_0", "sentences": [["The", "cat"]]}
# Both cells of the forward direction, whose output is what the layers hold.
PROJECTIONS = [f"RNN_0/RNN/MultiRNNCell/Cell{k}/LSTMCell/W_P_0" for k in (0, 1)]
BY_NUMBER = "leave out `--keys sentence`; then keys are line numbers"
TO_A_FILE = "`-o FILE` writes a file"

CONTRADICTIONS = [
    bad(
        "--overwrite --resume",
        "EMBED a.txt --resume",
        "--overwrite and --resume: one starts anew, the other goes on",
        "leave out `--overwrite` to keep what is done",
        code=2,
    ),
    bad(
        "--precision of the plain engine",
        "EMBED a.txt --engine plain --precision int8",
        "--precision int8: the plain engine computes in float32",
        "`--engine fast`",
        code=2,
    ),
    bad(
        "--shard --state carry",
        "EMBED a.txt --shard 1/2 --state carry",
        "--shard with --state carry: each vector depends on all the text before it",
        "`--state zero` or `--state document` can be cut into shards",
        code=2,
    ),
    bad(
        "--shard of stdin",
        "EMBED - --shard 1/2",
        "--shard: standard input can be read only once, and its length is not known",
        "write the text to a file first",
        code=2,
    ),
    bad(
        "stdin twice",
        "EMBED - -",
        "-: standard input is named twice and can be read only once",
        "name `-` once; save the text to a file to read it twice",
        code=2,
    ),
    bad(
        "stdin into a folder",
        "embed - -o vectors/",
        "standard input has no name for a file in vectors/",
        "`-o FILE` names it",
        code=2,
    ),
    bad(
        "--format for a file",
        "EMBED a.txt --format npy",
        "--format npy: out.hdf5 is a file, and files are HDF5",
        "`-o -` writes to standard output; `--input-format` says how files are read",
        code=2,
    ),
    bad(
        "--format of an input",
        "embed a.txt -q -o - --format conll",
        "--format conll: standard output is written as jsonl, npy, text",
        "`--input-format` says how files are read",
        code=2,
    ),
    bad(
        "stdout --layout",
        "embed a.txt -q -o - --layout bilm",
        "--layout bilm: has no meaning for standard output",
        TO_A_FILE,
        code=2,
    ),
    bad(
        "--keys with another layout",
        "EMBED a.txt --keys sentence --layout bilm",
        "`--keys sentence` and `--layout bilm` contradict each other",
        "leave out `--keys sentence`, or use `--layout allennlp`",
        code=2,
    ),
    # With a text that would be refused as soon as somebody looked at it.
    bad(
        "--keys with another layout, before the text is read",
        "EMBED a.txt --keys sentence --layout bilm",
        "`--keys sentence` and `--layout bilm` contradict each other",
        "leave out `--keys sentence`, or use `--layout allennlp`",
        file("a.txt", b"\xff\n"),
        code=2,
    ),
    bad(
        "--forget-sentences with another layout, in a dry run",
        "EMBED a.txt --forget-sentences --layout flat --dry-run",
        "`--forget-sentences` and `--layout flat` contradict each other",
        "leave out `--forget-sentences`, or use `--layout allennlp`",
        code=2,
    ),
    bad(
        "--column of plain text",
        "EMBED a.txt --column 2",
        "`column=2`: plain has no columns",
        "add `format='conll'` or `format='conllu'`, or leave out `column`",
        code=2,
    ),
    bad(
        "--tokenize of columns",
        "EMBED a.conllu --tokenize",
        "`tokenize=True`: conllu files state their tokens, one per line",
        "leave it out, or add `format='plain'` if the file is raw text",
        file("a.conllu"),
        code=2,
    ),
    bad(
        "a model and a pair",
        "EMBED a.txt -m small --options o.json --weights w.hdf5",
        "`small` and a pair of files: two models are named",
        "give either the model or its options and weights",
        code=2,
    ),
    bad(
        "half a pair",
        "EMBED a.txt --weights w.hdf5",
        "w.hdf5: given without its options",
        "give both: `--options FILE --weights FILE`",
        code=2,
    ),
]

LAYOUTS = [
    bad(
        "manylangs of all layers",
        "EMBED a.txt --layout manylangs",
        "--layout manylangs holds one layer a file, not --layers all",
        "`--layers average`, `--layers top` or one number",
        code=2,
    ),
    bad(
        "manylangs of a blank line",
        "EMBED a.txt --layout manylangs --layers top",
        "a.txt, line 2: the key '' is empty",
        "`elmo embed --blank skip` leaves out sentences without tokens; "
        "`--layout allennlp` takes any",
        file("a.txt", "The\n\n"),
    ),
    bad(
        "bilm-types --layers",
        "EMBED a.txt --layout bilm-types --layers top",
        "--layout bilm-types holds the token vectors and nothing else",
        "leave out `--layers`, `--pool` and `--state`",
        code=2,
    ),
    bad(
        "bilm-types of sentences",
        "EMBED a.txt --layout bilm-types",
        "a.txt, line 1: 4 tokens, a vocabulary has one a line",
        "`--layout bilm-types` reads a vocabulary; other layouts read sentences",
    ),
    bad(
        "e2e-coref of lines",
        "EMBED a.txt --layout e2e-coref",
        "a.txt, line 1: `--layout e2e-coref` needs documents, this sentence has none",
        "`--input-format jsonl` with `doc_key` and `sentences` in each line",
        code=2,
    ),
    bad(
        "same document twice",
        "EMBED a.jsonl --layout e2e-coref",
        "a.jsonl, line 2: the key 'nw:a_0/0' is there already, from a sentence before",
        "give each document a `doc_key` of its own",
        objects("a.jsonl", DOCUMENT, DOCUMENT),
    ),
    bad(
        "same document in two files",
        "EMBED a.jsonl b.jsonl --layout lsgn",
        "b.jsonl, line 1: the key 'x/0' is there already, from a sentence before",
        "give each document a `doc_key` of its own; parts of one document need their `sent_offset`",
        objects("a.jsonl", {**DOCUMENT, "doc_key": "x"}),
        objects("b.jsonl", {**DOCUMENT, "doc_key": "x"}),
    ),
    bad(
        "same sentence twice",
        "EMBED a.txt --keys sentence",
        "a.txt, line 3: the key 'It slept' is there already, from a sentence before",
        BY_NUMBER,
        file("a.txt", "It slept\nThe cat\nIt slept\n"),
    ),
    bad(
        "sentence within another's key",
        "EMBED a.txt --keys sentence",
        "a.txt, line 2: the key 'and/or' goes on from the whole key of a sentence before",
        BY_NUMBER,
        file("a.txt", "and\nand/or\n"),
    ),
    bad(
        "sentence of 70 kB as a key",
        "EMBED a.txt --keys sentence",
        "a.txt, line 1: the key 'catcat…' has 69900 bytes, HDF5 takes 60000",
        BY_NUMBER,
        file("a.txt", "cat" * 23_300),
    ),
    bad(
        "int8 where scales have no place",
        "EMBED a.txt --dtype int8",
        "`--dtype int8` and `--layout allennlp` contradict each other",
        "a file of `--layout flat` has a place for the scales; others take `--dtype float16`",
        code=2,
    ),
    bad(
        "float16 overflow",
        "EMBED a.txt -m tiny --dtype float16",
        "a.txt, line 1: a value is beyond float16 (…e+06, at most 65504)",
        "`--dtype float32`",
        stocked("tiny"),
        options(lstm__proj_clip=None),
        *(weight(path, lambda w: w * 1e6) for path in PROJECTIONS),
    ),
    bad(
        "float32 overflow",
        "EMBED a.txt -m tiny",
        "a.txt, line 1: the model tiny computes …",
        "its weights or clips are damaged: take both files from one model, and "
        "`elmo inspect WEIGHTS.hdf5` checks them",
        stocked("tiny"),
        options(lstm__proj_clip=None, lstm__cell_clip=None),
        *(weight(path, lambda w: w * 1e38) for path in PROJECTIONS),
    ),
]
VALUES = ("float16 overflow", "float32 overflow")
LAYOUTS += [in_a_dry_run(one) for one in LAYOUTS if one.name not in VALUES]
TOGETHER = CONTRADICTIONS + LAYOUTS
