"""What `elmo inspect` reports of a model of any family, and what is wrong with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_cli.errors import ElmoError, ModelError, UnstatedSettingsError
from elmo_cli.families.hdf5_weights import Hdf5Weights
from elmo_cli.families.registry import FAMILIES
from elmo_cli.pretrained.archive import is_archive
from elmo_cli.pretrained.hub import is_model_name
from elmo_cli.pretrained.load import ModelSource, find
from elmo_cli.pretrained.model_files import (
    ModelFiles,
    check_parts,
    check_vocabulary_size,
    is_prefix,
)
from elmo_cli.regular_files import is_regular
from elmo_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class ModelInspection:
    """What is known of a model, and the errors that were met.

    Attributes:
        facts: see docs/reference/json.md; what is not known is None.
    """

    facts: dict[str, Any]
    errors: list[ElmoError]


def names_a_model(name: str) -> bool:
    """Whether a name is that of a model, and not of one HDF5 file."""
    path = Path(name)
    if not is_regular(path):
        return False
    if path.is_dir() or is_prefix(path):
        return True
    if not path.exists():
        return is_model_name(name)
    with suppress(ModelError):  # it is raised again when the model is inspected
        if is_archive(path):
            return True
        others = [family for family in FAMILIES if family.key != Hdf5Weights.key]
        return any(family.find(path) is not None for family in others)
    return True


def inspect_model(source: ModelSource, *, verify: bool) -> ModelInspection:
    """Describe a model without reading its weights.

    Args:
        verify: read all weights, and compute the hash of the model.
    Raises:
        ModelError: there is no model, more than one, or one of an unknown family.
    """
    files = find(source)
    errors: list[ElmoError] = []
    facts = _facts_of_files(files)
    with _collecting(errors):
        files.read_options()
        files.family.check(files)
        facts |= _facts_of_contents(files)
    with _collecting(errors):
        facts["vocabulary"] = _vocabulary(files)
        _check_vocabulary(files, facts)
    if verify and not errors:
        with _collecting(errors):
            facts["parameters"] = _count_values(files)
            _check_accumulators(files, facts)
            facts["sha256"] = files.sha256
            used = {
                "softmax": files.softmax,
                "vocabulary": files.vocabulary,
                "state": files.warm_state,
                "optimizer": files.optimizer_state,
            }
            check_parts(files, used)
    facts["problems"] = [error.message for error in errors]
    facts["problem_count"] = len(errors)
    facts["next"] = list(_next_commands(source, files, facts, errors))
    return ModelInspection(facts, errors)


@contextmanager
def _collecting(errors: list[ElmoError]) -> Iterator[None]:
    """Add an error to a list instead of raising it."""
    try:
        yield
    except ElmoError as error:
        errors.append(error)


def _facts_of_files(files: ModelFiles) -> dict[str, Any]:
    return {
        "kind": "model",
        "name": files.name,
        "family": files.family.key,
        "family_name": files.family.name,
        "where": files.origin,
        "path": str(files.weights.parent),
        "bytes": sum(path.stat().st_size for path in files.required),
        "files": [{"name": path.name, "bytes": path.stat().st_size} for path in files.paths],
        "options": None,
        "assumed": None,
        "layers": None,
        "dim": None,
        "characters": None,
        "vocabulary": None,
        "softmax": None,
        "warm_state": files.warm_state is not None,
        "optimizer": None,
        "layer_mix": None,
        "parameters": None,
        "sha256": None,
        "notes": list(files.notes),
    }


def _facts_of_contents(files: ModelFiles) -> dict[str, Any]:
    with files.open() as model:
        options = model.options
        facts = {
            "options": options.to_dict(),
            "assumed": dict(model.assumed),
            "layers": 1 + options.n_layers,
            "dim": options.dim,
            "characters": model.characters,
            "optimizer": model.optimizer,
            "layer_mix": model.layer_mix,
        }
    shape = files.softmax_shape()
    softmax_file = files.weights if files.softmax is None else files.softmax
    if shape is not None:
        facts["softmax"] = {"file": softmax_file.name, "types": shape[0]}
    return facts


def _vocabulary(files: ModelFiles) -> dict[str, Any] | None:
    if files.vocabulary is None:
        return None
    return {"file": files.vocabulary.name, "types": len(Vocabulary.read(files.vocabulary))}


def _check_vocabulary(files: ModelFiles, facts: dict[str, Any]) -> None:
    """Raise a ModelError if softmax and vocabulary are of different sizes."""
    vocabulary = facts["vocabulary"]
    softmax = facts["softmax"]
    if files.vocabulary is not None and softmax is not None:
        check_vocabulary_size(files.vocabulary, vocabulary["types"], softmax["types"])


def _count_values(files: ModelFiles) -> int:
    """Read all weights of the biLM; return how many there are."""
    with files.open() as model:
        return sum(array.size for _, array in model.parameters())


def _check_accumulators(files: ModelFiles, facts: dict[str, Any]) -> None:
    """Read all accumulators, those of the biLM and of its softmax layer; or WeightFileError."""
    if facts["optimizer"] and facts["softmax"] is not None:
        with files.open() as model:
            for _ in model.accumulators(facts["softmax"]["types"]):
                pass


def _next_commands(
    source: ModelSource, files: ModelFiles, facts: dict[str, Any], errors: Sequence[ElmoError]
) -> Iterator[str]:
    """Yield commands that use the model; none if there are errors, with one exception.

    If only settings are missing, the first command writes those of the published models to a file,
    and the second one uses it.
    """
    model = shlex.quote(str(source.name_or_path))
    if errors:
        error = errors[0]
        is_only_error = len(errors) == 1
        if is_only_error and isinstance(error, UnstatedSettingsError) and error.template:
            options = shlex.quote(f"{files.name}_options.json")
            yield f"echo {shlex.quote(json.dumps(error.template))} > {options}"
            yield f"elmo embed TEXT -m {model} --options-file {options} -o OUT.hdf5"
        return
    if source.options is not None:
        model += f" --options-file {shlex.quote(str(source.options))}"
    yield f"elmo embed TEXT -m {model} -o OUT.hdf5"
    if facts["softmax"] is not None:
        vocabulary = "" if facts["vocabulary"] is not None else " --vocabulary FILE"
        yield f"elmo perplexity TEXT -m {model}{vocabulary}"
    if files.family.key != Hdf5Weights.key:
        yield f"elmo models convert {model} -o FOLDER"
