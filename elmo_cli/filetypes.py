"""What a file is by its first bytes, and what its owner can do with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_BYTES = 512  # enough for every entry below


@dataclass(frozen=True, slots=True)
class FileType:
    """A known kind of file: its name with an article, for messages, and what to do with such a
    file where another kind was expected."""

    name: str
    hint: str


_UNPACK = "unpack it and name the files inside"
_PLAIN_TEXT = "save it as plain text"
_EXPORT = "export one sentence per line"
_OTHER = "give another file"

GZIP = FileType("gzip data", "decompress it: `gzip -dc FILE > NEW_FILE`")
XZ = FileType("xz data", "decompress it: `xz -dc FILE > NEW_FILE`")
ZIP = FileType("a zip archive (or docx, odt, xlsx)", f"{_UNPACK}; of a document, {_PLAIN_TEXT}")
RAR = FileType("a RAR archive", _UNPACK)
SEVEN_ZIP = FileType("a 7z archive", _UNPACK)
HDF5 = FileType("an HDF5 file", "`elmo inspect FILE` describes it")
NUMPY = FileType("a NumPy array", "read it with `numpy.load`")
PICKLE = FileType("a Python pickle", "write its content as text or HDF5; a pickle is never opened")
TORCH = FileType("a PyTorch checkpoint", "`elmo inspect` takes the weights.hdf5 next to it")
FASTTEXT = FileType("a fastText model", "it holds one vector per type, and no biLM")
LFS_POINTER = FileType("a Git LFS pointer that stands for the file", "run `git lfs pull`")

_MAGIC: tuple[tuple[bytes, FileType], ...] = (
    (rb"\x1f\x8b", GZIP),
    (rb"\xfd7zXZ\x00", XZ),
    # Words can begin like bzip2 and Parquet: "BZh" and the gene PAR1.
    (rb"BZh.1AY&SY", FileType("bzip2 data", "decompress it: `bzip2 -dc FILE > NEW_FILE`")),
    (rb"PAR1.{0,11}[\0-\x08\x0e-\x1f]", FileType("a Parquet file", _EXPORT)),
    (rb"\x28\xb5\x2f\xfd", FileType("Zstandard data", "decompress it: `zstd -d FILE`")),
    (rb".{257}ustar", FileType("a tar archive", f"{_UNPACK}: `tar -xf FILE`")),
    (rb"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (rb"Rar!\x1a\x07", RAR),
    (rb"PK\x03\x04.*data\.pkl", TORCH),
    (rb"PK\x03\x04|PK\x05\x06", ZIP),  # the second has no members
    (rb"%PDF-", FileType("a PDF document", "extract the text first: `pdftotext FILE`")),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileType("an Office document", _PLAIN_TEXT)),
    (rb"\{\\rtf", FileType("an RTF document", _PLAIN_TEXT)),
    (rb"\x89HDF\r\n\x1a\n", HDF5),
    (rb"\x93NUMPY", NUMPY),
    (rb"\x80[\x02-\x05]", PICKLE),
    (rb"SQLite format 3\0", FileType("an SQLite database", _EXPORT)),
    (rb"\x89PNG\r\n\x1a\n", FileType("a PNG image", _OTHER)),
    (rb"\xff\xd8\xff", FileType("a JPEG image", _OTHER)),
    (rb"\x7fELF", FileType("a program", _OTHER)),
    (rb"\xba\x16\x4f\x2f", FASTTEXT),
    (rb"version https://git-lfs", LFS_POINTER),
)


def identify(head: bytes) -> FileType | None:
    """Identify a file by its first bytes, up to `HEAD_BYTES` of them; fewer recognise less.

    Returns:
        None for text and for kinds that are not in the table.
    """
    head = head[:HEAD_BYTES]
    return next((kind for magic, kind in _MAGIC if re.match(magic, head, re.DOTALL)), None)
