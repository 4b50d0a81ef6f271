"""What a file is by its first bytes or lines, and what its owner can do with it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

HEAD_BYTES = 512  # enough for every entry below


@dataclass(frozen=True, slots=True)
class FileType:
    """A known kind of file."""

    name: str  # with an article, for messages
    hint: str  # what to do with such a file, FILE, where another kind was expected

    def hint_for(self, path: str) -> str:
        """The hint with the path of the file."""
        return self.hint.replace("FILE", shlex.quote(path), 1)  # not in NEW_FILE, which comes after


_UNPACK = "unpack it and name the files inside"
_PLAIN_TEXT = "save it as plain text"
_GIVE_TEXT = "give a text file"
_ARRAYS = "give the text; arrays have no tokens"
_TABLE = 'export its sentences as JSON lines, such as `{"text": …}`, with the program that wrote it'

GZIP = FileType("gzip data", "decompress it: `gzip -dc FILE > NEW_FILE`")
XZ = FileType("xz data", "decompress it: `xz -dc FILE > NEW_FILE`")
ZIP = FileType("a zip archive (or docx, odt, xlsx)", f"{_UNPACK}; if a document, {_PLAIN_TEXT}")
TAR = FileType("a tar archive", f"{_UNPACK}: `tar -xf FILE`")
HDF5 = FileType("an HDF5 file", "`elmo inspect FILE` describes it")
TORCH = FileType("a PyTorch checkpoint", "`elmo inspect` takes the weights.hdf5 next to it")
LFS_POINTER = FileType("a Git LFS pointer instead of the file", "run `git lfs pull`")

_MAGIC: tuple[tuple[bytes, FileType], ...] = (
    (rb"\x1f\x8b", GZIP),
    (rb"\xfd7zXZ\x00", XZ),
    # A word can begin like bzip2: "BZh".
    (rb"BZh.1AY&SY", FileType("bzip2 data", "decompress it: `bzip2 -dc FILE > NEW_FILE`")),
    (rb"\x28\xb5\x2f\xfd", FileType("Zstandard data", "decompress it: `zstd -d FILE`")),
    (rb".{257}ustar", TAR),
    (rb"PK\x03\x04.*data\.pkl", TORCH),
    (rb"PK\x03\x04.{26}[^/\x00]*\.npy", FileType("a NumPy archive (.npz)", _ARRAYS)),
    (rb"PK\x03\x04|PK\x05\x06", ZIP),  # the second has no members
    (rb"%PDF-", FileType("a PDF document", "extract the text first: `pdftotext FILE`")),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileType("an Office document", _PLAIN_TEXT)),
    (rb"\{\\rtf", FileType("an RTF document", _PLAIN_TEXT)),
    (rb"\x89HDF\r\n\x1a\n", HDF5),
    (rb"\x80[\x02-\x05]", FileType("a Python pickle", "write its content as text or HDF5")),
    (rb"\xba\x16\x4f\x2f", FileType("a fastText model", "it has one vector per type")),
    (rb"\x93NUMPY", FileType("a NumPy array (.npy)", _ARRAYS)),
    # PAR1 is also the name of a gene, so the next byte must be one that does not occur in text.
    (rb"PAR1[^\t\n\r -~\xc2-\xf4]", FileType("a Parquet file", _TABLE)),
    (rb"ARROW1\x00|FEA1[^\t\n\r -~]", FileType("an Arrow file", _TABLE)),
    (rb"\xff\xff\xff\xff.{2}\x00\x00", FileType("an Arrow stream", _TABLE)),
    (rb"Obj\x01", FileType("an Avro file", _TABLE)),
    (rb"ORC[\x00-\x08]", FileType("an ORC file", _TABLE)),
    (rb"SQLite format 3\x00", FileType("an SQLite database", _TABLE)),
    (
        rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a(?![ -~\s]{2})|II\*\x00|MM\x00\*",
        FileType("an image", _GIVE_TEXT),
    ),
    (
        rb"RIFF.{4}(WAVE|AVI |WEBP)|ID3[\x02-\x04]|OggS\x00|fLaC\x00",
        FileType("an audio or video file", _GIVE_TEXT),
    ),
    (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07", FileType("a 7z or rar archive", _UNPACK)),
    (rb"\x7fELF", FileType("a program", _GIVE_TEXT)),
    (rb"%!PS", FileType("a PostScript document", "extract the text first: `ps2ascii FILE`")),
    (rb"version https://git-lfs", LFS_POINTER),
)

# What is often given in place of a biLM: a pattern for one of its file names.
_FOREIGN_MODELS = {
    r"(char|word)\.dic|(encoder|token_embedder)\.pkl": FileType(
        "an ELMoForManyLangs model without all of its files",
        "give the whole folder: `encoder.pkl`, `token_embedder.pkl`, their configuration, and "
        "`char.dic` or `word.dic`",
    ),
    r"saved_model\.pb|.+\.ckpt-\d+\.(index|meta|data-.*)": FileType(
        "a TensorFlow model without its index",
        "copy all of its files: `PREFIX.index` and `PREFIX.data-*` of a checkpoint, or the folder "
        "`variables` of a SavedModel",
    ),
    r"task\.json": FileType(
        "a task model",
        "`elmo predict` and `elmo evaluate` take it; where vectors are computed, give the ELMo "
        "model on which it was trained",
    ),
    r".+\.params": FileType(
        "a GluonNLP model",
        "its weights are published in HDF5 as well: `elmo models list` shows them",
    ),
}
_WEB_PAGE_HINT = "open it in a browser to read what the server said, then download again"
_PAGE = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_XML = re.compile(r"\s*<\?xml\s")
# Data in lines that are certain by the first one: no sentence begins so.
_FIRST_LINES = {
    r"[TRE]\d+\t\S+ \d+ \d+(;\d+ \d+)*\t": FileType(
        "annotations of brat, without their text",
        "convert the annotations and their text to columns, a token and its label per line",
    ),
    r"\d+\|t\|\S": FileType(
        "PubTator annotations", "extract the titles and abstracts, one per line"
    ),
    r"WARC/\d": FileType("a web archive (WARC)", f"extract the text first, and {_PLAIN_TEXT}"),
    r"WEBVTT(\s|$)": FileType("subtitles (WebVTT)", "take out the times, and leave the text"),
    r"\\documentclass\b": FileType("a LaTeX document", "`pandoc -t plain FILE` extracts its text"),
    r"@relation\s+\S+$": FileType("an ARFF table of Weka", _TABLE),
}
# The first lines of FASTA. In a text, a `>` is followed by a space where it is a token or a quote;
# one word in capitals is rarely a line, and hardly ever a long one.
_HEADER = re.compile(r">\s*(?P<id>[^\s>]+)")
_DATABASE_ID = re.compile(r"(?:sp|tr|gi|ref|gb|emb|dbj|pdb|pir|prf|lcl|gnl)\|")
_RESIDUES = re.compile(r"(?:[A-Z*-]{10,}|[ACGTUN]{4,}|[acgtun]{10,}|[A-Za-z*-]{25,})\s*")
_FEW_RESIDUES = re.compile(r"[A-Z*-]{3,}\s*")  # enough after a header without a space
_ANY_RESIDUES = re.compile(r"[A-Za-z* \t.-]*")  # enough after the id of a database
_MAX_RESIDUES = 10_000  # examined of a line
FASTA = FileType("FASTA", "`elmo embed --input-format fasta` reads its sequences")


def identify(head: bytes) -> FileType | None:
    """Identify a file by its first `HEAD_BYTES` bytes; None for text.

    With fewer bytes, fewer types are recognized.
    """
    for magic, kind in _MAGIC:
        if re.match(magic, head[:HEAD_BYTES], re.DOTALL):
            return kind
    return None


def identify_file(path: str | os.PathLike[str]) -> FileType | None:
    """Identify a file by its content; None for text. Raises an OSError if it cannot be read."""
    with open(path, "rb") as file:
        return identify(file.read(HEAD_BYTES))


def identify_lines(first: str, second: str = "") -> FileType | None:
    """Identify data of another format by the first nonblank line of a text; None for text.

    Args:
        second: the line after it, which only FASTA needs.
    """
    if _PAGE.match(first):
        return FileType("a web page (HTML)", f"{_PLAIN_TEXT}; if a download, {_WEB_PAGE_HINT}")
    if _XML.match(first):
        return FileType("an XML document", f"extract the text first, and {_PLAIN_TEXT}")
    for pattern, kind in _FIRST_LINES.items():
        if re.match(pattern, first):
            return kind
    return FASTA if _is_fasta(first, second[:_MAX_RESIDUES]) else None


def _is_fasta(first: str, second: str) -> bool:
    """Whether a text begins with a header and a line of residues."""
    header = _HEADER.match(first)
    if header is None:
        return False
    if _DATABASE_ID.match(header["id"]):
        return _ANY_RESIDUES.fullmatch(second) is not None
    if first[1:].startswith(header["id"]) and _FEW_RESIDUES.fullmatch(second):
        return True
    return _RESIDUES.fullmatch(second) is not None


def identify_foreign_model(names: Iterable[str], head: bytes = b"") -> FileType | None:
    """Identify what was given in place of a biLM: names of its files, or its head."""
    if re.match(rb"\s*<(!doctype )?html", head, re.IGNORECASE):
        return FileType("a web page", _WEB_PAGE_HINT)
    if identify(head) == LFS_POINTER:
        return LFS_POINTER
    for name in names:
        for pattern, kind in _FOREIGN_MODELS.items():
            if re.fullmatch(pattern, name):
                return kind
    return None
