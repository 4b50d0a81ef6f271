"""Bad input: lines of a text that can't be read as what they are said to be."""

from __future__ import annotations

from situations import bad, file, objects

LATIN = "The cat .\nIt slept .\nA café .\n".encode("latin-1")
WIDE = "The cat sat .\n"
JSON_LINE = (
    'each line is an object with "tokens" (a list of strings), "text" (a string), or "doc_key" and '
    '"sentences" (lists of tokens)'
)

CHARACTERS = [
    bad(
        "Latin-1",
        "EMBED a.txt",
        "a.txt, line 3, byte 26: 0xE9 is not UTF-8",
        "if the file is Latin-1, add `encoding='latin-1'`",
        file("a.txt", LATIN),
    ),
    bad(
        "Latin-1 on stdin",
        "EMBED -",
        "-, line 3, byte 26: 0xE9 is not UTF-8",
        "if the file is Latin-1, add `encoding='latin-1'`",
        stdin=LATIN,
    ),
    bad(
        "not ASCII",
        "EMBED a.txt --encoding ascii",
        "a.txt, line 3, byte 26: 0xE9 is not ASCII",
        "`encoding='ascii'` does not fit; without it the file is read as UTF-8",
        file("a.txt", LATIN),
    ),
    bad(
        "UTF-16",
        "EMBED a.txt",
        "a.txt: a byte order mark of UTF-16, read as UTF-8",
        "add `encoding='utf-16'`",
        file("a.txt", WIDE.encode("utf-16")),
    ),
    bad(
        "UTF-16 without mark",
        "EMBED a.txt",
        "a.txt, line 1: a NUL at character 2; this is not text",
        "give a text file; for UTF-16 without a byte order mark add `encoding='utf-16-le'`",
        file("a.txt", WIDE.encode("utf-16-le")),
    ),
    bad(
        "odd UTF-16",
        "EMBED a.txt --encoding utf-16-le",
        "a.txt, after line 0: not UTF-16-LE (…truncated data)",
        "`encoding='utf-16-le'` does not fit; without it the file is read as UTF-8",
        file("a.txt", b"T\0h"),
    ),
    bad(
        "NUL",
        "EMBED a.txt",
        "a.txt, line 2: a NUL at character 4; this is not text",
        "give a text file; for UTF-16 without a byte order mark add `encoding='utf-16-le'`",
        file("a.txt", b"The cat .\nIt \0 slept .\n"),
    ),
]

LENGTHS = [
    bad(
        "line of 10 MB",
        "EMBED a.txt",
        "a.txt, line 2: 2500000 tokens, more than `max_tokens=100000`",
        "split the sentence, or `max_tokens=2500000` if there is enough memory",
        file("a.txt", b"It .\n" + b"cat " * 2_500_000),
    ),
    bad(
        "blank line",
        "EMBED a.txt --blank error",
        "a.txt, line 2: blank, a sentence without tokens",
        "`blank='keep'` gives it an empty array, `blank='skip'` leaves it out",
        file("a.txt", "The\n\ncat\n"),
    ),
    bad(
        "lines left out",
        "EMBED a.txt --on-error skip",
        "1 line was left out, the first a.txt, line 3: 0xE9 is not UTF-8",
        "all others are done; the list is out.hdf5.skipped.tsv",
        file("a.txt", LATIN),
        code=3,
        leaves=("out.hdf5", "out.hdf5.skipped.tsv"),
    ),
]

COLUMNS = [
    bad(
        "ragged columns",
        "EMBED a.conll --column 3",
        "a.conll, line 2: 2 columns, `column=3` is missing",
        "`column` chooses another; -1 is the last",
        file("a.conll", "1 The x\n2 cat\n"),
    ),
    bad(
        "empty cell",
        "EMBED a.conllu",
        "a.conllu, line 2: column 2 is empty",
        "`column` chooses another; -1 is the last",
        file("a.conllu", "1\tThe\t_\n2\t\t_\n"),
    ),
    bad(
        "IDs with a gap",
        "EMBED a.conllu",
        "a.conllu, line 2: ID '3', 2 has to follow; is a blank line missing?",
        "`format='conll'` with `column=2` reads the words and ignores their IDs",
        file("a.conllu", "1\tThe\t_\n3\tcat\t_\n"),
    ),
    bad(
        "sentences as CoNLL-U",
        "EMBED a.txt --input-format conllu",
        "a.txt, line 1: 'The cat sat .' is not a row of CoNLL-U, which begins with a number …",
        "for other columns `format='conll'`, for one sentence per line `format='plain'`",
    ),
]

OBJECTS = [
    bad(
        "no JSON",
        "EMBED a.jsonl",
        "a.jsonl, line 2: not JSON, at character 13: Expecting value",
        JSON_LINE,
        file("a.jsonl", '{"tokens": ["It"]}\n{"tokens": [\n'),
    ),
    bad(
        "JSON list",
        "EMBED a.jsonl",
        "a.jsonl, line 1: a list, not an object",
        f"{JSON_LINE}; `jq -c '.[]' FILE.json` makes such lines of one big list",
        objects("a.jsonl", ["The", "cat"]),
    ),
    bad(
        "no tokens in the object",
        "EMBED a.jsonl",
        'a.jsonl, line 1: no "tokens", "text" or "sentences"; the object has \'words\'',
        JSON_LINE,
        objects("a.jsonl", {"words": ["It"]}),
    ),
    bad(
        "tokens a string",
        "EMBED a.jsonl",
        'a.jsonl, line 1: "tokens" is a string, not a list of strings',
        JSON_LINE,
        objects("a.jsonl", {"tokens": "The cat"}),
    ),
    bad(
        "half a character",
        "EMBED a.jsonl",
        'a.jsonl, line 1: "tokens[0]" holds \\ud800, half a character',
        JSON_LINE,
        objects("a.jsonl", {"tokens": ["\ud800"]}),
    ),
    bad(
        "document without key",
        "EMBED a.jsonl",
        'a.jsonl, line 1: "sentences" without a "doc_key"',
        JSON_LINE,
        objects("a.jsonl", {"sentences": [["It"]]}),
    ),
]
LINES = CHARACTERS + LENGTHS + COLUMNS + OBJECTS
