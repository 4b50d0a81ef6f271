"""Bad input: files that are not there, or are no text."""

from __future__ import annotations

from situations import bad, cut, file, folder, gz, link, stocked

FILES = [
    bad(
        "missing file",
        "EMBED nosuch.txt",
        "nosuch.txt: no such file",
        "check the name; the working directory is /…/here",
    ),
    bad(
        "empty name",
        "EMBED ''",
        "a name is empty: FILE",
        "is a variable of the shell not set?",
        code=2,
    ),
    # Taken for options that are not given, these would embed all and compare nothing.
    *(
        bad(
            f"empty {line.split()[-2]}",
            line,
            f"a name is empty: {line.split()[-2]}",
            "is a variable of the shell not set?",
            stocked("ok.hdf5"),
            code=2,
        )
        for line in (
            "EMBED a.txt --shard ''",
            "embed a.txt -o - --format ''",
            "inspect ok.hdf5 --against ''",
            "inspect ok.hdf5 --sample 1 --text ''",
        )
    ),
    bad(
        "folder",
        "EMBED texts",
        "texts: a folder, not a file",
        "name the files in it: `texts/*`",
        folder("texts"),
    ),
    bad(
        "dangling link",
        "EMBED b.txt",
        "b.txt: a link to gone.txt, which is missing",
        "`ls -l b.txt`",
        link("b.txt", "gone.txt"),
    ),
    bad(
        "link to itself",
        "EMBED b.txt",
        "b.txt: can't be read (Too many levels of symbolic links)",
        "check the name and the disk",
        link("b.txt", "b.txt"),
    ),
    bad(
        "HDF5",
        "EMBED ok.hdf5",
        "ok.hdf5: an HDF5 file, not a text",
        "`elmo inspect ok.hdf5` describes it",
        stocked("ok.hdf5"),
    ),
    bad(
        "PDF",
        "EMBED a.pdf",
        "a.pdf: a PDF document, not a text",
        "extract the text first: `pdftotext a.pdf`",
        file("a.pdf", b"%PDF-1.7\n%\xe2\xe3"),
    ),
    bad(
        "Word",
        "EMBED a.docx",
        "a.docx: a zip archive (or docx, odt, xlsx), not a text",
        "unpack it and name the files inside; save a document as plain text",
        file("a.docx", b"PK\x03\x04" + bytes(40)),
    ),
    bad(
        "gz in gz",
        "EMBED a.gz",
        "a.gz: gzip data compressed twice, not a text",
        "decompress it: `gzip -dc a.gz > NEW_FILE`",
        gz("a.gz", b"\x1f\x8b\x08\x00" + bytes(30)),
    ),
    bad(
        "gz cut off",
        "EMBED a.gz",
        "a.gz: the gzip data ends too early after 990 bytes of text",
        "`gzip -t a.gz` checks it; fetch or compress the file again",
        gz("a.gz", b"The cat .\n" * 99),
        cut("a.gz", -9),
    ),
    bad(
        "gz damaged",
        "EMBED a.gz",
        "a.gz: the gzip data is corrupt (…) after 0 bytes of text",
        "`gzip -t a.gz` checks it; fetch or compress the file again",
        file("a.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 40),
    ),
    bad(
        "random bytes",
        "EMBED a.bin",
        "a.bin, line 1, byte 0: 0xFF is not UTF-8",
        "give a text file; for UTF-16 without a byte order mark add `encoding='utf-16-le'`",
        file("a.bin", b"\xff\xfa\x00" * 99),
    ),
]
