"""parts.json: which softmax layer, vocabulary and warm state belong to the weights of a folder.

    {"weights": SHA256, "softmax": SHA256, "vocabulary": SHA256, "state": SHA256}

Their sizes alone do not tell: another model's softmax of the same sizes, or a vocabulary in another
order, gives a wrong perplexity without a word. Whatever writes a model folder writes this file last
and removes it first, so that a killed run leaves none rather than a wrong one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from elmo_cli.errors import ModelError
from elmo_cli.files import new_file, output_errors
from elmo_cli.pretrained.cache import sha256_of
from elmo_cli.pretrained.catalogue import WEIGHTS_FILE
from elmo_cli.pretrained.folder import SOFTMAX_FILE, STATE_FILE, VOCABULARY_FILE, ModelFiles
from elmo_cli.regular_files import read_json, sha256_of_file

PARTS_FILE = "parts.json"
_NAMES = {
    "weights": WEIGHTS_FILE,
    "softmax": SOFTMAX_FILE,
    "vocabulary": VOCABULARY_FILE,
    "state": STATE_FILE,
}
_SHOWN = 12  # digits of a sha256


def write_parts(folder: Path) -> None:
    """Write parts.json for the files of a complete model folder.

    Raises:
        OutputError: it can't be written.
    """
    found = {
        part: sha256_of_file(folder / name)
        for part, name in _NAMES.items()
        if (folder / name).is_file()
    }
    with new_file(folder / PARTS_FILE) as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


def remove_parts(folder: Path) -> None:
    """Remove parts.json before a file of the folder is replaced.

    Raises:
        OutputError: it can't be removed.
    """
    path = folder / PARTS_FILE
    with output_errors(path):
        path.unlink(missing_ok=True)


def check_parts(files: ModelFiles, used: Mapping[str, Path]) -> str:
    """Compare the parts of a model that are used with its parts.json.

    Args:
        files: of the model.
        used: "softmax", "vocabulary" or "state" -> the file that is read; one inside the weight
            file belongs to it.
    Returns:
        a warning that names the files of which only the sizes can be checked: without an entry, or
        from elsewhere; "" for none.
    Raises:
        ModelError: a file is not the one that parts.json states, or that is not valid.
    """
    parts = {part: path for part, path in used.items() if not _is_same(path, files.weights)}
    known = _read(files.weights.parent / PARTS_FILE)
    own = {"softmax": files.softmax, "vocabulary": files.vocabulary, "state": files.warm_state}
    tied = [
        part
        for part, path in parts.items()
        if {part, "weights"} <= known.keys() and _is_same(path, own[part])
    ]
    for part in tied:
        _check(parts[part], known[part], f"the {part}")
    if tied:
        _check(files.weights, known["weights"], "the weights", files.weights_sha256)
    others = [str(path) for part, path in parts.items() if part not in tied]
    if not others:
        return ""
    return (
        f"{', '.join(others)}: no {PARTS_FILE} states that this belongs to {files.weights}; "
        "only sizes are checked"
    )


def _check(path: Path, expected: str, what: str, found: str = "") -> None:
    found = found or sha256_of(path)
    if found != expected:
        raise ModelError(
            f"{path}: sha256 {found[:_SHOWN]}…, {PARTS_FILE} says {expected[:_SHOWN]}…: "
            f"not {what} that this model was written with",
            f"get the file again, or remove {path.parent / PARTS_FILE} if it was replaced on "
            "purpose",
        )


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
