"""FileFormat: HDF5 or another format of files, chosen by the suffix of their names.

All commands that write embeddings ask `format_of_output`. A format other than HDF5 is a module of
`elmo_cli.interop`, which is imported when a file has this format: `store` does not depend on other
programs. Such a module has the functions of `FormatModule`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from elmo_cli.errors import OutputError, UsageError
from elmo_cli.files import StrPath

if TYPE_CHECKING:
    from elmo_cli.store.layouts import LineCheck, StoredSentence
    from elmo_cli.store.open_file import OpenFile
    from elmo_cli.store.spec import FileSpec


class NewFile(Protocol):
    """A new embeddings file: sentences are added one by one, then it is finished."""

    @property
    def line_check(self) -> LineCheck | None:
        """After `finish`, whether readers can recover the tokens; None if they are recorded."""

    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence."""

    def add_token_digests(self, digests: bytes) -> None:
        """Add the digests of the next sentences, also of those that the layout leaves out."""

    def finish(self, attributes: Mapping[str, Any]) -> None:
        """Write what follows the sentences, and all attributes."""


class FormatModule(Protocol):
    """What the module of a format other than HDF5 provides."""

    def check_program(self) -> None:
        """Raise an ElmoError if the program that the format needs is not installed."""

    def new_output_file(
        self, path: Path, spec: FileSpec, compression: str
    ) -> AbstractContextManager[NewFile]:
        """Create a file; after an error it is not a valid one."""

    def open_file(self, path: Path) -> OpenFile:
        """Open a file for reading."""


@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    Attributes:
        name: for messages.
        suffixes: of its files, in lower case; the first one is the usual one.
        signature: the first bytes of an embeddings file.
        module: the name of its `FormatModule`; "" for HDF5, and for files that are not read.
        compressions: how its files may be compressed, the default first.
        dtypes: of the values that it stores.
    """

    name: str
    suffixes: tuple[str, ...]
    signature: bytes = b""
    module: str = ""
    compressions: tuple[str, ...] = ("none",)
    dtypes: tuple[str, ...] = ("float32", "float16")

    def load(self) -> FormatModule:
        """Import the module of the format."""
        return cast("FormatModule", import_module(self.module))

    def check(self, dtype: str, compression: str = "none") -> None:
        """Refuse settings of a new file before it is begun.

        Raises:
            UsageError: the format does not store the dtype or has no such compression.
            ElmoError: the program that it needs is not installed.
        """
        if dtype not in self.dtypes:
            hint = "use `dtype=float16`, or write HDF5"
            raise UsageError(f"{self.name} does not store it", hint, where=f"`dtype={dtype}`")
        if compression not in self.compressions:
            choices = f"{self.name} has the compressions {', '.join(self.compressions)}"
            raise UsageError("not possible", choices, where=f"`compression={compression}`")
        if self.module:
            self.load().check_program()


HDF5 = FileFormat(
    "HDF5",
    (".hdf5", ".h5"),
    signature=b"\x89HDF\r\n\x1a\n",
    dtypes=("float32", "float16", "int8"),
)
PARQUET = FileFormat(
    "Parquet",
    (".parquet",),
    signature=b"PAR1",
    module="elmo_cli.interop.parquet",
    compressions=("none", "zstd"),
)
NPZ = FileFormat("NumPy archive", (".npz",))
WORD2VEC_TEXT = FileFormat("word2vec text", (".vec",))
WORD2VEC_BINARY = FileFormat("word2vec binary", (".bin",))
EMBEDDINGS_FORMATS = (HDF5, PARQUET)  # `open_embeddings` reads them
WORD2VEC_FORMATS = (WORD2VEC_TEXT, WORD2VEC_BINARY)
ALL_FORMATS = (*EMBEDDINGS_FORMATS, NPZ, *WORD2VEC_FORMATS)
# fmt: off
_OTHER_SUFFIXES = (  # of formats that elmo does not write
    ".npy", ".json", ".jsonl", ".ndjson", ".txt", ".tsv", ".csv", ".pt", ".pth", ".pkl", ".pickle",
    ".safetensors", ".mat", ".arrow", ".feather", ".zarr", ".zip", ".tar",
)
# fmt: on


def format_of_output(
    path: StrPath,
    written: Collection[FileFormat] = EMBEDDINGS_FORMATS,
    *,
    alternatives: Collection[str] = (),
) -> FileFormat:
    """The format of a new file by its suffix: HDF5, unless the suffix is one of another format.

    Args:
        written: the formats that the caller writes.
        alternatives: hints that name what writes another format.
    Raises:
        OutputError: the suffix is one of a format that the caller does not write.
    """
    suffix = Path(path).suffix.lower()
    for file_format in written:
        if suffix in file_format.suffixes:
            return file_format
    known = [known for file_format in ALL_FORMATS for known in file_format.suffixes]
    if suffix not in (*known, *_OTHER_SUFFIXES):
        return HDF5
    choices = [f"{choice.suffixes[0]} ({choice.name})" for choice in written]
    suffixes = f"the suffixes that can be written are {', '.join(choices[:-1])} and {choices[-1]}"
    hint = "; ".join([suffixes, *alternatives])
    raise OutputError(f"embeddings are not written as {suffix}", hint, where=path)


def format_of_file(path: StrPath) -> FileFormat:
    """Return the format of an embeddings file, which its first bytes name.

    If they name none, it is Parquet if the suffix says so, else HDF5. The reader of that format
    then says what is wrong with the file.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(8)
    for file_format in EMBEDDINGS_FORMATS:
        if head.startswith(file_format.signature):
            return file_format
    if Path(path).suffix.lower() in PARQUET.suffixes:
        return PARQUET
    return HDF5
