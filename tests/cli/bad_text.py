"""Bad input: texts that can't be read as what they are said to be."""

from __future__ import annotations

import bz2

SAYS = HINT = "?"
from situations import Bad, cut, file, folder, gz, link, objects, stocked, xz

LATIN = "The cat .\nIt slept .\nA café .\n".encode("latin-1")
WIDE = "The cat sat .\n"
CONLLU = "1\tThe\t_\n2\tcat\t_\n\n"

FILES = [
    Bad("missing file", "EMBED nosuch.txt", SAYS, HINT),
    Bad("missing second file", "EMBED ok.txt nosuch.txt", SAYS, HINT, makes=(file("ok.txt"),)),
    Bad("empty name", "EMBED ''", SAYS, HINT, code=2),
    Bad("folder", "EMBED texts", SAYS, HINT, makes=(folder("texts"),)),
    Bad("dangling link", "EMBED a.txt", SAYS, HINT, makes=(link("a.txt", "gone.txt"),)),
    Bad("link to itself", "EMBED a.txt", SAYS, HINT, makes=(link("a.txt", "a.txt"),)),
    Bad("name too long", f"EMBED {'a' * 300}", SAYS, HINT),
    Bad("file as folder", "EMBED ok.txt/a.txt", SAYS, HINT, makes=(file("ok.txt"),)),
    Bad("HDF5", "EMBED ok.hdf5", SAYS, HINT, makes=(stocked("ok.hdf5"),)),
    Bad("picture", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),)),
    Bad("PDF", "EMBED a.pdf", SAYS, HINT, makes=(file("a.pdf", b"%PDF-1.7\n%\xe2\xe3"),)),
    Bad("Word", "EMBED a.docx", SAYS, HINT, makes=(file("a.docx", b"PK\x03\x04" + bytes(40)),)),
    Bad("bzip2", "EMBED a.bz2", SAYS, HINT, makes=(file("a.bz2", bz2.compress(b"The cat .\n")),)),
    Bad("numpy", "EMBED a.npy", SAYS, HINT, makes=(file("a.npy", b"\x93NUMPY\x01\x00v\x00"),)),
    Bad("gz in gz", "EMBED a.gz", SAYS, HINT, makes=(gz("a.gz", b"\x1f\x8b\x08\x00" + bytes(30)),)),
    Bad("gz cut off", "EMBED a.gz", SAYS, HINT, makes=(gz("a.gz", b"The cat .\n" * 99), cut("a.gz", -9))),
    Bad("xz cut off", "EMBED a.xz", SAYS, HINT, makes=(xz("a.xz", b"The cat .\n" * 99), cut("a.xz", -9))),
    Bad("gz damaged", "EMBED a.gz", SAYS, HINT, makes=(file("a.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 40),)),
    Bad("random bytes", "EMBED a.bin", SAYS, HINT, makes=(file("a.bin", b"\xff\xfa\x00" * 99),)),
]

LINES = [
    Bad("Latin-1", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", LATIN),)),
    Bad("Latin-1 on stdin", "EMBED -", SAYS, HINT, stdin=LATIN),
    Bad("not ASCII", "EMBED a.txt --encoding ascii", SAYS, HINT, makes=(file("a.txt", LATIN),)),
    Bad("UTF-16", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", WIDE.encode("utf-16")),)),
    Bad("UTF-16 without mark", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", WIDE.encode("utf-16-le")),)),
    Bad("odd UTF-16", "EMBED a.txt --encoding utf-16-le", SAYS, HINT, makes=(file("a.txt", b"T\0h"),)),
    Bad("NUL", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", b"The cat .\nIt \0 slept .\n"),)),
    Bad("line of 10 MB", "EMBED a.txt", SAYS, HINT, makes=(file("a.txt", b"It .\n" + b"cat " * 2_500_000),)),
    Bad("more than --max-tokens", "EMBED a.txt --max-tokens 3", SAYS, HINT, makes=(file("a.txt"),)),
    Bad("blank line", "EMBED a.txt --blank error", SAYS, HINT, makes=(file("a.txt", "The\n\ncat\n"),)),
    Bad("lines left out", "EMBED a.txt --on-error skip", SAYS, HINT, makes=(file("a.txt", LATIN),), code=3, leaves=("out.hdf5", "out.hdf5.skipped.tsv")),
    Bad("ragged columns", "EMBED a.conll --column 3", SAYS, HINT, makes=(file("a.conll", "1 The x\n2 cat\n"),)),
    Bad("column out of range", "EMBED a.conllu --column 9", SAYS, HINT, makes=(file("a.conllu", CONLLU),)),
    Bad("empty cell", "EMBED a.conllu", SAYS, HINT, makes=(file("a.conllu", "1\tThe\t_\n2\t\t_\n"),)),
    Bad("IDs with a gap", "EMBED a.conllu", SAYS, HINT, makes=(file("a.conllu", "1\tThe\t_\n3\tcat\t_\n"),)),
    Bad("sentences as CoNLL-U", "EMBED a.txt --input-format conllu", SAYS, HINT, makes=(file("a.txt"),)),
    Bad("no JSON", "EMBED a.jsonl", SAYS, HINT, makes=(file("a.jsonl", '{"tokens": ["It"]}\n{"tokens": [\n'),)),
    Bad("JSON list", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", ["The", "cat"]),)),
    Bad("no tokens in the object", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"words": ["It"]}),)),
    Bad("tokens a string", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"tokens": "The cat"}),)),
    Bad("token a number", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"tokens": ["The", 5]}),)),
    Bad("empty token", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"tokens": ["The", ""]}),)),
    Bad("half a character", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"tokens": ["\ud800"]}),)),
    Bad("document without key", "EMBED a.jsonl", SAYS, HINT, makes=(objects("a.jsonl", {"sentences": [["It"]]}),)),
]
TEXT = FILES + LINES
