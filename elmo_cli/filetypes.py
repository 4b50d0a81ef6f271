"""What a file is by its first bytes, and what its owner can do with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_BYTES = 512  # enough for every entry below


@dataclass(frozen=True, slots=True)
class FileType:
    """A known kind of file.

    Attributes:
        name: with its article, for messages: "a zip archive".
        hint: what to do with such a file where another kind was expected.
    """

    name: str
    hint: str


GZIP = FileType("gzip data", "decompress it: `gzip -dc FILE > NEW_FILE`")
XZ = FileType("xz data", "decompress it: `xz -dc FILE > NEW_FILE`")
ZIP = FileType(
    "a zip archive (or docx, odt, xlsx)",
    "unpack it and name the files inside; save a document as plain text",
)
TAR = FileType("a tar archive", "unpack it and name the files inside: `tar -xf FILE`")
RAR = FileType("a RAR archive", "unpack it and name the files inside")
SEVEN_ZIP = FileType("a 7z archive", "unpack it and name the files inside")
HDF5 = FileType("an HDF5 file", "`elmo inspect FILE` describes it")
NUMPY = FileType("a NumPy array", "read it with `numpy.load`")
PICKLE = FileType("a Python pickle", "write its content as text or HDF5; a pickle is never opened")
TORCH = FileType("a PyTorch checkpoint", "`elmo inspect` takes the weights.hdf5 next to it")
FASTTEXT = FileType("a fastText model", "it holds one vector per type, and no biLM")
LFS_POINTER = FileType(
    "a Git LFS pointer that stands for the file", "run `git lfs pull` where it was cloned"
)

_MAGIC: tuple[tuple[bytes, FileType], ...] = (
    (b"\x1f\x8b", GZIP),
    (b"\xfd7zXZ\x00", XZ),
    (b"BZh", FileType("bzip2 data", "decompress it: `bzip2 -dc FILE > NEW_FILE`")),
    (b"\x28\xb5\x2f\xfd", FileType("Zstandard data", "decompress it: `zstd -d FILE`")),
    (b"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (b"Rar!\x1a\x07", RAR),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),  # without members
    (b"%PDF-", FileType("a PDF document", "extract the text first: `pdftotext FILE`")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileType("an Office document", "save it as plain text")),
    (b"{\\rtf", FileType("an RTF document", "save it as plain text")),
    (b"\x89HDF\r\n\x1a\n", HDF5),
    (b"\x93NUMPY", NUMPY),
    (b"SQLite format 3\0", FileType("an SQLite database", "export one sentence per line")),
    (b"PAR1", FileType("a Parquet file", "export one sentence per line, or JSON lines")),
    (b"\x89PNG\r\n\x1a\n", FileType("a PNG image", "give another file")),
    (b"\xff\xd8\xff", FileType("a JPEG image", "give another file")),
    (b"\x7fELF", FileType("a program", "give another file")),
    (b"\xba\x16\x4f\x2f", FASTTEXT),
    (b"version https://git-lfs", LFS_POINTER),
)
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")  # no text has these near its beginning


def identify(head: bytes) -> FileType | None:
    """Identify a file by its first bytes.

    Args:
        head: up to `HEAD_BYTES` of them; fewer tell less.
    Returns:
        None for text and for kinds that are not in the table.
    """
    if head[257:262] == b"ustar":
        return TAR
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return PICKLE
    if head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:HEAD_BYTES]:
        return TORCH
    # Words can begin like these two formats: "BZh" and the gene PAR1.
    if head.startswith(b"BZh") and head[4:10] != b"1AY&SY":
        return None
    if head.startswith(b"PAR1") and not _CONTROL.search(head, 4, 16):
        return None
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
