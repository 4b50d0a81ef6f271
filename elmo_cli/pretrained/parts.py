"""parts.json: which softmax layer, vocabulary and warm state belong to the weights of a folder.

    {"weights": SHA256, "softmax": SHA256, "vocabulary": SHA256, "state": SHA256}

Sizes do not show another model's softmax of the same sizes, or a vocabulary in another order. What
writes a model folder removes this file first and writes it last: a killed run leaves none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.files import new_file, output_errors
from elmo_cli.pretrained.catalogue import WEIGHTS_FILE
from elmo_cli.pretrained.model_files import (
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    ModelFiles,
    sha256_of,
)
from elmo_cli.regular_files import read_json, sha256_of_file

PARTS_FILE = "parts.json"
_NAMES = {"weights": WEIGHTS_FILE, "softmax": SOFTMAX_FILE, "vocabulary": VOCABULARY_FILE}
_NAMES["state"] = STATE_FILE


def write_parts(folder: Path) -> None:
    """Write parts.json for the files of a complete model folder; or OutputError."""
    paths = {part: folder / name for part, name in _NAMES.items()}
    found = {part: sha256_of_file(path) for part, path in paths.items() if path.is_file()}
    with new_file(folder / PARTS_FILE) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


def remove_parts(folder: Path) -> None:
    """Remove parts.json before a file of the folder is replaced; or OutputError."""
    with output_errors(folder / PARTS_FILE):
        (folder / PARTS_FILE).unlink(missing_ok=True)


def check_parts(files: ModelFiles, used: Mapping[str, Path]) -> str:
    """Compare files that are used with the parts.json of their model; ModelError if they differ.

    Args:
        used: "softmax", "vocabulary" or "state" -> the file that is read.
    Returns:
        a warning about the files of which only the sizes can be checked, "" for none.
    """
    record, unknown, tied = files.weights.parent / PARTS_FILE, [], {"weights": files.weights}
    known = _read(record)
    own = {"softmax": files.softmax, "vocabulary": files.vocabulary, "state": files.warm_state}
    for part, path in used.items():
        if {part, "weights"} <= known.keys() and _is_same(path, own[part]):
            tied[part] = path
        elif not _is_same(path, files.weights):
            unknown.append(str(path))
    for part, path in tied.items() if len(tied) > 1 else ():
        found = files.weights_sha256 if part == "weights" else sha256_of(path)
        if found != known[part]:
            raise ModelError(
                f"{path}: its sha256 is not {known[part][:12]}…, which {PARTS_FILE} states",
                f"get the file again, or remove {record} if it was replaced on purpose",
            )
    what = f"no {PARTS_FILE} states that this belongs to {files.weights}; only sizes are checked"
    return f"{', '.join(unknown)}: {what}" if unknown else ""


def _read(path: Path) -> dict[str, str]:
    hint = f"remove {path.name}, or get the model again"
    try:
        content = read_json(path, ModelError, hint)
    except FileNotFoundError:
        return {}
    if not isinstance(content, dict) or not all(isinstance(one, str) for one in content.values()):
        raise ModelError(f"{path}: not an object of sha256 by part", hint)
    return content


def _is_same(one: Path, other: Path | None) -> bool:
    return other is not None and one.resolve() == other.resolve()
