"""PartsFile: parts.json, the SHA-256 digests that tie the files of one model to each other.

Sizes do not show the weights of another run with the same sizes, or a vocabulary in another order.
What writes a folder removes this file first and writes it last: a killed run leaves none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError
from elmo_cli.files import new_file, output_errors
from elmo_cli.regular_files import read_json, sha256_of_file

PARTS_FILE = "parts.json"
_SHOWN_DIGITS = 12  # of a digest in a message


class PartsFile:
    """The parts.json of a folder.

    Args:
        names: of the files by the parts that they are, such as {"weights": "weights.hdf5"}.
    """

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self.path = folder / PARTS_FILE
        self._folder = folder
        self._names = names

    def write(self, others: Mapping[str, str] | None = None) -> None:
        """Record the digests of the files that exist, and entries that are not about a file; or
        OutputError."""
        digests: dict[str, str] = {}
        for part, name in self._names.items():
            if (self._folder / name).is_file():
                digests[part] = sha256_of_file(self._folder / name)
        digests.update(others or {})
        with new_file(self.path, durable=True) as file:
            file.write(f"{json.dumps(digests, indent=1)}\n".encode())

    def remove(self) -> None:
        """Remove the file before another one of the folder is replaced; or OutputError."""
        with output_errors(self.path):
            self.path.unlink(missing_ok=True)

    def read(self, hint: str, others: Collection[str] = ()) -> dict[str, Any]:
        """The digest of each part, {} if there is no such file; or a ModelError with this hint.

        Args:
            others: names of entries that are not about a file.
        """
        try:
            digests = read_json(self.path, ModelError, hint)
        except FileNotFoundError:
            return {}
        if not isinstance(digests, dict):
            problem = "not an object that maps parts to SHA-256 digests"
            raise ModelError(problem, hint, where=self.path)
        misnamed = digests.keys() - self._names.keys() - set(others)
        if misnamed:
            raise ModelError(f"a model has no part {min(misnamed)!r}", hint, where=self.path)
        return digests


def check_digest(path: Path, sha256: str, stated: object, hint: str) -> None:
    """Raise a ModelError if the digest of a file is not the stated one."""
    if sha256 != stated:
        shown = str(stated)[:_SHOWN_DIGITS]
        raise ModelError(f"its sha256 is not {shown}…, the value in {PARTS_FILE}", hint, where=path)
